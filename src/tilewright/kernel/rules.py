"""Legality: the rules of the hardware and of loops, each with its name. A nest that breaks one is
not planned; the text says which, and by how much."""

from dataclasses import dataclass

from tilewright.kernel.ledger import NestLedger
from tilewright.kernel.nest import BIASES, ENGINES, KERNEL, LOOPS, REDUCTIONS, STORES, Nest
from tilewright.kernel.nest_file import KEYS
from tilewright.kernel.problem import ELEMENTS, KernelProblem, element_size
from tilewright.kernel.space import TileSpace
from tilewright.kernel.target import CoreTarget


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a nest breaks."""

    rule: str
    text: str


_KEYS = {field: f"{section}.{key}" for (section, key), field in KEYS.items()}

RULES = {
    "loop-order": "every loop once; rows run within their block",
    "places": "what stands at a loop names one; copies do not precede loads",
    "choices": "bias, store and engines are among those there are",
    "tile-sizes": "tiles are at least 1, and a block is whole tiles",
    "partitions": "tiles of channels have at most as many as there are partitions",
    "stationary": "the stationary tile fits the tensor engine",
    "moving": "rows x columns of a tile are at most what one product moves",
    "pool-rows": "rows and columns of tiles are multiples of the pool",
    "bank": "an accumulator fits a bank of PSUM",
    "operand-types": "both operands of a product have one element type",
    "accumulator-type": "PSUM accumulates in fp32, or in the operands' own type",
    "bias-type": "a tensor-scalar bias has the element type of the tile it is added to",
    "flush": "sums leave PSUM at a reduction loop",
    "buffers": "every buffer exists at least once",
    "sbuf": "all buffers fit a partition of SBUF",
    "psum-banks": "all accumulators fit the banks of PSUM",
}


def broken_structure(nest: Nest) -> list[Violation]:
    """Rules without which a nest cannot even be counted."""
    found: list[Violation] = []
    if sorted(nest.order) != sorted(LOOPS):
        text = f"the loops are {', '.join(LOOPS)}, each once; got {', '.join(nest.order)}"
        return [Violation("loop-order", text)]
    if nest.order.index("row") < nest.order.index("block"):
        found.append(Violation("loop-order", "'row' runs outside 'block', whose rows it runs over"))
    sizes = (nest.tile_in, nest.tile_out, nest.tile_rows, nest.tile_cols, nest.block_rows)
    if min(sizes) < 1:
        found.append(Violation("tile-sizes", f"a tile of {min(sizes)} is none"))
    buffers = (nest.x_buffers, nest.w_buffers, nest.out_buffers, nest.psum_buffers)
    if min(buffers) < 1:
        found.append(Violation("buffers", "every buffer is needed at least once"))
    found += _places(nest)
    choices = {
        "bias": (nest.bias, BIASES),
        "store": (nest.store, STORES),
        "x_copy_engine": (nest.x_copy_engine, ENGINES),
        "w_engine": (nest.w_engine, ENGINES),
        "flush_engine": (nest.flush_engine, ENGINES),
        "compute": (nest.compute, ELEMENTS),
        "psum": (nest.psum, ELEMENTS),
    }
    for name, (value, known) in choices.items():
        if value not in known:
            text = f"{_KEYS[name]} is one of {', '.join(known)}, not '{value}'"
            found.append(Violation("choices", text))
    return found


def _places(nest: Nest) -> list[Violation]:
    named = {
        "x_at": nest.x_at,
        "x_copy_at": nest.x_copy_at,
        "w_at": nest.w_at,
        "w_cast_at": nest.w_cast_at,
        "w_transpose_at": nest.w_transpose_at,
        "flush_at": nest.flush_at,
    }
    for name, place in named.items():
        if place is not None and place != KERNEL and place not in LOOPS:
            return [Violation("places", f"{_KEYS[name]} names no loop: '{place}'")]
    found: list[Violation] = []
    later = [
        ("x_copy_at", nest.x_copy_at, "x_at", nest.x_at),
        ("w_cast_at", nest.w_cast_at, "w_at", nest.w_at),
        ("w_transpose_at", nest.w_transpose_at, "w_at", nest.w_at),
        ("w_transpose_at", nest.w_transpose_at, "w_cast_at", nest.w_cast_at or KERNEL),
    ]
    for name, place, other, before in later:
        if place is not None and nest.depth(place) < nest.depth(before):
            text = (
                f"{_KEYS[name]} ({place}) is outside {_KEYS[other]} ({before}): nothing is there "
                "yet"
            )
            found.append(Violation("places", text))
    if nest.flush_at is not None and nest.flush_at not in REDUCTIONS:
        text = f"PSUM can be added up at in, fh or fw, not at '{nest.flush_at}'"
        found.append(Violation("flush", text))
    return found


def broken_hardware(
    space: TileSpace, nest: Nest, target: CoreTarget, ledger: NestLedger
) -> list[Violation]:
    """Rules of the machine."""
    problem = space.problem
    found: list[Violation] = []

    def broken(rule: str, text: str) -> None:
        found.append(Violation(rule, text))

    for name, size in (("tile_in", max(space.in_sizes)), ("tile_out", max(space.out_sizes))):
        if size > target.partitions:
            broken(
                "partitions", f"{_KEYS[name]} {size} is more than {target.partitions} partitions"
            )
    tile = (max(space.in_sizes), max(space.out_sizes))
    if tile[0] > target.stationary[0] or tile[1] > target.stationary[1]:
        most = "x".join(map(str, target.stationary))
        broken("stationary", f"a stationary tile of {tile[0]}x{tile[1]} is more than {most}")
    rows, cols = max(space.tile_shapes, key=lambda shape: shape[0] * shape[1])
    if rows * cols > target.moving:
        broken("moving", f"{rows} rows x {cols} columns are more than {target.moving}")
    if nest.block_rows % nest.tile_rows and nest.block_rows < problem.rows:
        text = (
            f"{_KEYS['block_rows']} {nest.block_rows} is no multiple of {_KEYS['tile_rows']} "
            f"{nest.tile_rows}"
        )
        broken("tile-sizes", text)
    shapes = {extent for shape in space.tile_shapes for extent in shape}
    if any(extent % problem.pool for extent in shapes):
        text = f"a tile of {rows} rows x {cols} columns is no multiple of the pool {problem.pool}"
        broken("pool-rows", text)
    if rows * cols * element_size(nest.psum) > target.bank_bytes:
        size = rows * cols * element_size(nest.psum)
        broken("bank", f"an accumulator of {size} B is more than a bank of {target.bank_bytes} B")
    _types(problem, nest, target, found)
    if ledger.sbuf_bytes > target.sbuf_bytes:
        text = f"{ledger.sbuf_bytes:,} B are more than a partition of {target.sbuf_bytes:,} B"
        broken("sbuf", text)
    if ledger.psum_banks > target.psum_banks:
        broken("psum-banks", f"{ledger.psum_banks} banks are more than {target.psum_banks}")
    return found


def _types(problem: KernelProblem, nest: Nest, target: CoreTarget, found: list[Violation]) -> None:
    if nest.compute not in target.passes:
        text = f"the tensor engine of {target.name} has no rate for {nest.compute}"
        found.append(Violation("operand-types", text))
    if problem.dtype != nest.compute and nest.x_copy_at is None:
        text = (
            f"weights are {nest.compute} and the input is {problem.dtype}: it needs a cast "
            f"({_KEYS['x_copy_at']})"
        )
        found.append(Violation("operand-types", text))
    if nest.psum not in ("fp32", nest.compute):
        text = f"PSUM of {nest.psum} cannot accumulate products of {nest.compute}"
        found.append(Violation("accumulator-type", text))
    added_to = "fp32" if nest.flush_at is not None else nest.psum
    if problem.bias and nest.bias == "tensor_scalar" and problem.dtype != added_to:
        text = (
            f"a tensor-scalar bias of {problem.dtype} on a tile of {added_to}: use tensor_tensor "
            "or activation"
        )
        found.append(Violation("bias-type", text))
