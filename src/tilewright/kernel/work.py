"""Instructions of a nest: how many, on which engine, how long, from the loops."""

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.kernel.nest import Nest
from tilewright.kernel.problem import Problem, element_size
from tilewright.kernel.space import Space
from tilewright.kernel.target import Target, VectorEngine

TENSOR = "tensor"
BORDER_ENGINE = "vector"
POOL_ENGINE = "vector"  # reductions over windows: the scalar engine has none


@dataclass(frozen=True, slots=True)
class Work:
    """Equal instructions: `seconds` is the time of all of them."""

    what: str
    engine: str
    count: int
    seconds: float


def copy_work(problem: Problem, space: Space, nest: Nest, target: Target) -> list[Work]:
    """What is done with the input inside SBUF: borders set to zero, slices and casts."""
    found: list[Work] = []
    borders = 0
    seconds = 0.0
    for number, needed, loaded in _windows(problem, space, nest.around(nest.x_at)):
        if loaded < needed:
            borders += number
            seconds += number * target.vectors[BORDER_ENGINE].seconds(needed - loaded)
    if borders:
        found.append(Work("zero borders", BORDER_ENGINE, borders, seconds))
    if nest.x_copy_at is None:
        return found
    engine = target.vectors[nest.x_copy_engine]
    fast = problem.dtype == nest.compute and element_size(nest.compute) == 2
    count, seconds = 0, 0.0
    for number, needed, _ in _windows(problem, space, nest.around(nest.x_copy_at)):
        count += number
        seconds += number * engine.seconds(needed, copy=fast)
    what = "input slices" if problem.dtype == nest.compute else "input casts"
    return [*found, Work(what, nest.x_copy_engine, count, seconds)]


def _windows(
    problem: Problem, space: Space, around: tuple[str, ...]
) -> Iterator[tuple[int, int, int]]:
    """Windows of the input inside some loops: how many, elements of a partition, and those of them
    that exist."""
    tiles = space.in_sizes.total() * problem.batch
    tiles *= space.trips(["out"]) if "out" in around else 1
    for row, many in space.input_rows(around).items():
        for col, times in space.input_cols(around).items():
            yield many * times * tiles, row.needed * col.needed, row.loaded * col.loaded


def weight_work(problem: Problem, space: Space, nest: Nest, target: Target) -> list[Work]:
    """Casts and transposes of weights; a transpose goes through PSUM and is copied out of it."""
    found: list[Work] = []
    engine = target.vectors[nest.w_engine]
    pairs = space.out_sizes.total() * space.in_sizes.total()
    if nest.w_cast_at is not None:
        around = nest.around(nest.w_cast_at)
        slices = (1 if "fh" in around else problem.kernel[0]) * (
            1 if "fw" in around else problem.kernel[1]
        )
        repeats = _weight_repeats(space, around)
        events = problem.taps // slices
        seconds = sum(
            many * space.out_sizes.total() * engine.seconds(size * slices)
            for size, many in space.in_sizes.items()
        )
        count = repeats * events * pairs
        found.append(Work("weight casts", nest.w_engine, count, seconds * repeats * events))
    times = _weight_repeats(space, nest.around(nest.w_transpose_at)) * problem.taps
    given = problem.dtype if nest.w_cast_at is None else nest.compute
    fast = given == nest.compute and element_size(given) == 2
    turning = copying = 0.0
    for size, many in space.out_sizes.items():
        many *= space.in_sizes.total()
        turning += many * target.matmul_seconds(size, given)
        copying += many * engine.seconds(size, copy=fast, psum=True)
    found.append(Work("weight transposes", TENSOR, times * pairs, times * turning))
    found.append(Work("transposed weights to SBUF", nest.w_engine, times * pairs, times * copying))
    return found


def _weight_repeats(space: Space, around: tuple[str, ...]) -> int:
    return space.trips([loop for loop in around if loop in ("image", "block", "row")])


def product_work(problem: Problem, space: Space, nest: Nest, target: Target) -> list[Work]:
    """The products: one for each tile, filter position and tile of input channels."""
    each = problem.batch * space.out_sizes.total() * space.in_sizes.total() * problem.taps
    seconds = sum(
        many * target.matmul_seconds(rows * cols, nest.compute)
        for (rows, cols), many in space.tile_shapes.items()
    )
    return [Work("products", TENSOR, each * space.tile_shapes.total(), each * seconds)]


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction of finishing a tile: bias, pool, ReLU, or a copy."""

    what: str
    engine: str
    elements: int
    copy: bool = False  # of two-byte elements
    psum: bool = False  # reads PSUM


def finishing_steps(problem: Problem, nest: Nest, elements: int) -> list[Step]:
    """What turns an accumulated tile of so many positions into a result in SBUF."""
    pooled = elements // problem.pool**2
    bias_engine = "scalar" if nest.bias == "activation" else "vector"
    biased = pooled if nest.pool_first else elements
    steps: list[Step] = []
    if problem.pool > 1 and nest.pool_first:
        steps.append(Step("max-pool", POOL_ENGINE, elements))
    if problem.bias:
        steps.append(Step("bias", bias_engine, biased))
        if problem.relu and nest.bias == "tensor_tensor":
            steps.append(Step("relu", "vector", biased))
    elif problem.relu:
        steps.append(Step("relu", bias_engine, biased))
    if problem.pool > 1 and not nest.pool_first:
        steps.append(Step("max-pool", POOL_ENGINE, elements))
    if not steps:
        both = element_size(problem.dtype) == 2 and element_size(nest.psum) == 2
        steps.append(Step("copy", bias_engine, elements, both and nest.flush_at is None))
    if nest.flush_at is None:
        first = steps[0]
        steps[0] = Step(first.what, first.engine, first.elements, first.copy, True)
    return steps


def step_seconds(step: Step, engine: VectorEngine) -> float:
    """The time of a step on its engine."""
    return engine.seconds(step.elements, copy=step.copy, psum=step.psum)


def finishing_work(problem: Problem, space: Space, nest: Nest, target: Target) -> list[Work]:
    """Flushes of PSUM into sums in SBUF, and the steps that finish every tile."""
    tiles = problem.batch * space.out_sizes.total()
    found: list[Work] = []
    if nest.flush_at is not None:
        times = flushes_per_tile(problem, space, nest)
        engine = target.vectors[nest.flush_engine]
        seconds = sum(
            many * engine.seconds(rows * cols, psum=True)
            for (rows, cols), many in space.tile_shapes.items()
        )
        count = tiles * times * space.tile_shapes.total()
        found.append(
            Work("PSUM added up in SBUF", nest.flush_engine, count, seconds * tiles * times)
        )
    totals: dict[tuple[str, str], list[float]] = {}
    for (rows, cols), many in space.tile_shapes.items():
        for step in finishing_steps(problem, nest, rows * cols):
            entry = totals.setdefault((step.what, step.engine), [0, 0.0])
            entry[0] += many * tiles
            entry[1] += many * tiles * step_seconds(step, target.vectors[step.engine])
    found += [Work(what, engine, int(n), s) for (what, engine), (n, s) in totals.items()]
    return found


def flushes_per_tile(problem: Problem, space: Space, nest: Nest) -> int:
    """How often a tile's accumulator leaves PSUM: once, or after every iteration of `flush_at`
    and of the reduction loops around it."""
    if nest.flush_at is None:
        return 1
    trips = {"in": space.in_sizes.total(), "fh": problem.kernel[0], "fw": problem.kernel[1]}
    times = 1
    for loop in nest.around(nest.flush_at):
        times *= trips.get(loop, 1)
    return times
