"""Instructions of a nest: how many, on which engine, how long, from the loops."""

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.kernel.nest import Nest
from tilewright.kernel.problem import KernelProblem, element_size
from tilewright.kernel.space import TileSpace
from tilewright.kernel.target import CoreTarget, VectorEngine

TENSOR = "tensor"
BORDER_ENGINE = "vector"
POOL_ENGINE = "vector"  # reductions over windows: the scalar engine has none


@dataclass(frozen=True, slots=True)
class Instructions:
    """Equal instructions: `seconds` is the time of all of them."""

    what: str
    engine: str
    count: int
    seconds: float


def copy_work(space: TileSpace, nest: Nest, target: CoreTarget) -> list[Instructions]:
    """What is done with the input inside SBUF: borders set to zero, slices and casts."""
    problem = space.problem
    found: list[Instructions] = []
    borders = 0
    seconds = 0.0
    for number, needed, loaded in _windows(space, nest.around(nest.x_at)):
        if loaded < needed:
            borders += number
            seconds += number * target.vectors[BORDER_ENGINE].seconds(needed - loaded)
    if borders:
        found.append(Instructions("zero borders", BORDER_ENGINE, borders, seconds))
    if nest.x_copy_at is None:
        return found
    engine = target.vectors[nest.x_copy_engine]
    fast = problem.dtype == nest.compute and element_size(nest.compute) == 2
    count, seconds = 0, 0.0
    for number, needed, _ in _windows(space, nest.around(nest.x_copy_at)):
        count += number
        seconds += number * engine.seconds(needed, copy=fast)
    what = "input slices" if problem.dtype == nest.compute else "input casts"
    return [*found, Instructions(what, nest.x_copy_engine, count, seconds)]


def _windows(space: TileSpace, around: tuple[str, ...]) -> Iterator[tuple[int, int, int]]:
    """Windows of the input inside some loops: how many, elements of a partition, and those of them
    that exist."""
    tiles = space.in_sizes.total() * space.problem.batch
    tiles *= space.trips(["out"]) if "out" in around else 1
    for row, many in space.input_rows(around).items():
        for col, times in space.input_cols(around).items():
            yield many * times * tiles, row.needed * col.needed, row.loaded * col.loaded


def weight_work(space: TileSpace, nest: Nest, target: CoreTarget) -> list[Instructions]:
    """Casts and transposes of weights; a transpose goes through PSUM and is copied out of it."""
    problem = space.problem
    found: list[Instructions] = []
    engine = target.vectors[nest.w_engine]
    pairs = space.out_sizes.total() * space.in_sizes.total()
    if nest.w_cast_at is not None:
        around = nest.around(nest.w_cast_at)
        slices = problem.taps_inside(around)
        repeats = _weight_repeats(space, around)
        events = problem.taps // slices
        seconds = sum(
            many * space.out_sizes.total() * engine.seconds(size * slices)
            for size, many in space.in_sizes.items()
        )
        count = repeats * events * pairs
        found.append(Instructions("weight casts", nest.w_engine, count, seconds * repeats * events))
    times = _weight_repeats(space, nest.around(nest.w_transpose_at)) * problem.taps
    given = problem.dtype if nest.w_cast_at is None else nest.compute
    fast = given == nest.compute and element_size(given) == 2
    turning = copying = 0.0
    for size, many in space.out_sizes.items():
        many *= space.in_sizes.total()
        turning += many * target.matmul_seconds(size, given)
        copying += many * engine.seconds(size, copy=fast, psum=True)
    found.append(Instructions("weight transposes", TENSOR, times * pairs, times * turning))
    found.append(
        Instructions("transposed weights to SBUF", nest.w_engine, times * pairs, times * copying)
    )
    return found


def _weight_repeats(space: TileSpace, around: tuple[str, ...]) -> int:
    return space.trips([loop for loop in around if loop in ("image", "block", "row")])


def product_work(space: TileSpace, nest: Nest, target: CoreTarget) -> list[Instructions]:
    """The products: one for each tile, filter position and tile of input channels."""
    problem = space.problem
    each = problem.batch * space.out_sizes.total() * space.in_sizes.total() * problem.taps
    seconds = sum(
        many * target.matmul_seconds(rows * cols, nest.compute)
        for (rows, cols), many in space.tile_shapes.items()
    )
    return [Instructions("products", TENSOR, each * space.tile_shapes.total(), each * seconds)]


@dataclass(frozen=True, slots=True)
class Finishing:
    """One instruction of finishing a tile: bias, pool, ReLU, or a copy."""

    what: str
    engine: str
    elements: int
    copy: bool = False  # of two-byte elements
    psum: bool = False  # reads PSUM


def finishing_steps(problem: KernelProblem, nest: Nest, elements: int) -> list[Finishing]:
    """What turns an accumulated tile of so many positions into a result in SBUF."""
    pooled = elements // problem.pool**2
    bias_engine = "scalar" if nest.bias == "activation" else "vector"
    biased = pooled if nest.pool_first else elements
    steps: list[Finishing] = []
    if problem.pool > 1 and nest.pool_first:
        steps.append(Finishing("max-pool", POOL_ENGINE, elements))
    if problem.bias:
        steps.append(Finishing("bias", bias_engine, biased))
        if problem.relu and nest.bias == "tensor_tensor":
            steps.append(Finishing("relu", "vector", biased))
    elif problem.relu:
        steps.append(Finishing("relu", bias_engine, biased))
    if problem.pool > 1 and not nest.pool_first:
        steps.append(Finishing("max-pool", POOL_ENGINE, elements))
    if not steps:
        both = element_size(problem.dtype) == 2 and element_size(nest.psum) == 2
        steps.append(Finishing("copy", bias_engine, elements, both and nest.flush_at is None))
    if nest.flush_at is None:
        first = steps[0]
        steps[0] = Finishing(first.what, first.engine, first.elements, first.copy, True)
    return steps


def step_seconds(step: Finishing, engine: VectorEngine) -> float:
    """The time of a step on its engine."""
    return engine.seconds(step.elements, copy=step.copy, psum=step.psum)


def finishing_work(space: TileSpace, nest: Nest, target: CoreTarget) -> list[Instructions]:
    """Flushes of PSUM into sums in SBUF, and the steps that finish every tile."""
    problem = space.problem
    tiles = problem.batch * space.out_sizes.total()
    found: list[Instructions] = []
    if nest.flush_at is not None:
        times = flushes_per_tile(space, nest)
        engine = target.vectors[nest.flush_engine]
        seconds = sum(
            many * engine.seconds(rows * cols, psum=True)
            for (rows, cols), many in space.tile_shapes.items()
        )
        count = tiles * times * space.tile_shapes.total()
        found.append(
            Instructions("PSUM added up in SBUF", nest.flush_engine, count, seconds * tiles * times)
        )
    totals: dict[tuple[str, str], list[float]] = {}
    for (rows, cols), many in space.tile_shapes.items():
        for step in finishing_steps(problem, nest, rows * cols):
            entry = totals.setdefault((step.what, step.engine), [0, 0.0])
            entry[0] += many * tiles
            entry[1] += many * tiles * step_seconds(step, target.vectors[step.engine])
    found += [Instructions(what, engine, int(n), s) for (what, engine), (n, s) in totals.items()]
    return found


def flushes_per_tile(space: TileSpace, nest: Nest) -> int:
    """How often a tile's accumulator leaves PSUM: once, or after every iteration of `flush_at`
    and of the reduction loops around it."""
    if nest.flush_at is None:
        return 1
    high, wide = space.problem.kernel
    trips = {"in": space.in_sizes.total(), "fh": high, "fw": wide}
    times = 1
    for loop in nest.around(nest.flush_at):
        times *= trips.get(loop, 1)
    return times
