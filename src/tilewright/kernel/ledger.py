"""The ledger of a nest: bytes of every partition of SBUF, and banks of PSUM, over the loops."""

from dataclasses import dataclass

from tilewright.kernel.nest import KERNEL, Nest
from tilewright.kernel.problem import element_size
from tilewright.kernel.space import TileSpace
from tilewright.kernel.target import CoreTarget
from tilewright.kernel.work import finishing_steps


@dataclass(frozen=True, slots=True)
class HeldBuffer:
    """A buffer: bytes of one partition, how many of them, and the loop in which it lives."""

    name: str
    place: str
    bytes: int
    copies: int

    @property
    def total(self) -> int:
        """Bytes of one partition for all copies."""
        return self.bytes * self.copies


@dataclass(frozen=True, slots=True)
class NestLedger:
    """What a nest holds at once."""

    sbuf: tuple[HeldBuffer, ...]
    banks: tuple[HeldBuffer, ...]  # `bytes` counts banks

    @property
    def sbuf_bytes(self) -> int:
        """Bytes of one partition."""
        return sum(held.total for held in self.sbuf)

    @property
    def psum_banks(self) -> int:
        """Banks."""
        return sum(held.total for held in self.banks)

    def at(self, nest: Nest, place: str) -> int:
        """Bytes of one partition that are held at a place of the loops."""
        depth = nest.depth(place)
        return sum(held.total for held in self.sbuf if nest.depth(held.place) <= depth)


def input_buffers(space: TileSpace, nest: Nest, target: CoreTarget) -> list[HeldBuffer]:
    """The input, and its copy."""
    found = [_input("x", nest.x_at, element_size(space.problem.dtype), space, nest)]
    if nest.x_copy_at is not None:
        found.append(_input("x copy", nest.x_copy_at, element_size(nest.compute), space, nest))
    return found


def _input(name: str, place: str, size: int, space: TileSpace, nest: Nest) -> HeldBuffer:
    around = nest.around(place)
    rows = max(stretch.needed for stretch in space.input_rows(around))
    cols = max(stretch.needed for stretch in space.input_cols(around))
    tiles = 1 if "in" in around else space.in_sizes.total()
    images = 1 if "image" in around else space.problem.batch
    copies = nest.x_buffers if around else 1
    return HeldBuffer(name, place, rows * cols * size * tiles * images, copies)


def weight_buffers(space: TileSpace, nest: Nest, target: CoreTarget) -> list[HeldBuffer]:
    """Weights as they come, cast, and transposed. What is transposed where it is loaded is gone
    afterwards: one tile of it is held while the next arrives."""
    size, computed = element_size(space.problem.dtype), element_size(nest.compute)
    largest_in, largest_out = max(space.in_sizes), max(space.out_sizes)
    found: list[HeldBuffer] = []
    next_at = nest.w_cast_at or nest.w_transpose_at
    found.append(_weights("w", nest.w_at, next_at, largest_in * size, space, nest))
    if nest.w_cast_at is not None:
        cast = ("w cast", nest.w_cast_at, nest.w_transpose_at, largest_in * computed)
        found.append(_weights(*cast, space, nest))
    slices = _slices(space, nest.around(nest.w_transpose_at))
    copies = nest.w_buffers if nest.around(nest.w_transpose_at) else 1
    found.append(
        HeldBuffer("w transposed", nest.w_transpose_at, slices * largest_out * computed, copies)
    )
    return found


def _slices(space: TileSpace, around: tuple[str, ...]) -> int:
    """Slices of weights (a filter position of a tile) that are held inside some loops."""
    ins = 1 if "in" in around else space.in_sizes.total()
    outs = 1 if "out" in around else space.out_sizes.total()
    return space.problem.taps_inside(around) * ins * outs


def _weights(
    name: str, place: str, next_at: str, slice_bytes: int, space: TileSpace, nest: Nest
) -> HeldBuffer:
    around = nest.around(place)
    slices = _slices(space, around)
    if next_at == place:
        slices = space.problem.taps_inside(around)
    copies = nest.w_buffers if around or next_at == place else 1
    return HeldBuffer(name, place, slices * slice_bytes, copies)


def result_buffers(space: TileSpace, nest: Nest, target: CoreTarget) -> list[HeldBuffer]:
    """The bias, tiles on their way out, and sums where PSUM is not the only accumulator."""
    problem, size = space.problem, element_size(space.problem.dtype)
    found: list[HeldBuffer] = []
    if problem.bias:
        each = 4 if nest.bias == "activation" else size
        found.append(HeldBuffer("bias", KERNEL, space.out_sizes.total() * each, 1))
    shapes = space.block_shapes if nest.store == "block" else space.tile_shapes
    positions = max(rows * cols for rows, cols in shapes) // problem.pool**2
    place = "block" if nest.store == "block" else nest.finished_at
    waiting = _blocks_begun(space, nest) if nest.store == "block" else 1
    found.append(HeldBuffer("out", place, positions * size * waiting, nest.out_buffers))
    tile = max(rows * cols for rows, cols in space.tile_shapes)
    if len(finishing_steps(problem, nest, tile)) > 1:
        first = finishing_steps(problem, nest, tile)[0]
        kept = tile // problem.pool**2 if first.what == "max-pool" else tile
        found.append(HeldBuffer("between steps", nest.finished_at, kept * 4, 1))
    if nest.flush_at is not None:
        sums = space.trips(nest.sum_loops) * tile * 4
        found.append(HeldBuffer("sums", nest.finished_at, sums, 1))
    return found


def _blocks_begun(space: TileSpace, nest: Nest) -> int:
    """Blocks that are filled tile by tile at once: those of the loops inside `row`, where a tile is
    finished before the next row begins."""
    row = nest.order.index("row")
    if any(loop in nest.sum_loops for loop in ("row", "block")):
        return 1
    return space.trips([loop for loop in nest.order[row + 1 :] if loop in ("image", "out")])


def psum_banks(space: TileSpace, nest: Nest, target: CoreTarget) -> list[HeldBuffer]:
    """Accumulators that are live at once, and the bank that transposes go through."""
    tile = max(rows * cols for rows, cols in space.tile_shapes)
    banks = -(-tile * element_size(nest.psum) // target.bank_bytes)
    tiles = space.trips(nest.psum_loops)
    found = [
        HeldBuffer(
            "accumulators", nest.flush_at or nest.finished_at, banks * tiles, nest.psum_buffers
        )
    ]
    if nest.w_transpose_at != KERNEL:
        found.append(HeldBuffer("transposes", nest.w_transpose_at, 1, 1))
    return found
