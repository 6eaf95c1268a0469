"""What tiles of a spatial array cost by their steps, and the least that any cover of work costs.

A tile of some steps costs at least as much as the smallest extents that take these steps. So the
costs of all numbers of steps that the work has room for say what no cover undercuts: by the
cheapest step, and by whole tiles, as an axis takes a whole number of them (docs/bounds.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf, isqrt, prod

import numpy as np
import numpy.typing as npt

from tilewright.cost.base import WorkKind, Workload
from tilewright.machine.dtypes import element_bytes
from tilewright.machine.parameters import ArrayMode, ArrayRate, DenseForm, Extent

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

EXACT = 256  # numbers of steps along an axis that are looked at one by one
# More of them by ranges so wide, at the cost of their least over the steps of the most.
WIDER = 1.01


@dataclass(frozen=True, slots=True)
class StepCosts:
    """The least cycles of tiles by their steps, reading their input left out: a row for each number
    of steps in space, a column for each number of steps of filters. `rows`, `columns` and
    `positions` are the most that tiles of a row hold, `filters` those of a column."""

    cycles: Floats
    rows: Floats
    columns: Floats
    positions: Floats
    filters: Floats
    steps: tuple[int, int, int]  # of the whole work: rows, columns, filters
    all_positions: int

    @property
    def per_step(self) -> float:
        """The fewest cycles per step of any tile."""
        return float((self.cycles / self._held).min())

    def cover(self) -> float:
        """Cycles of the cheapest cover: by its steps, and by whole tiles along the rows and along
        the filters."""
        rows, columns, filters = self.steps
        by_row = (self.cycles / (self.columns[:, None] * self.filters)).min(axis=1)
        by_filter = (self.cycles / self.positions[:, None]).min(axis=0)
        return max(
            prod(self.steps) * self.per_step,
            columns * filters * _whole_tiles(self.rows, by_row, rows),
            self.all_positions * _whole_tiles(self.filters, by_filter, filters),
        )

    def share(self, parts: int) -> float:
        """Cycles of the cheapest tiles that hold an even share of all steps."""
        wanted = ceil(prod(self.steps) / parts)
        return float((self.cycles * np.maximum(1.0, wanted / self._held)).min())

    @property
    def _held(self) -> Floats:
        return (self.rows * self.columns)[:, None] * self.filters


def steps_of(work: Workload, unroll: Extent) -> tuple[int, int, int]:
    """Steps of the whole work along rows, columns and filters; positions of pointwise work are one
    column."""
    filters = ceil(work.out_channels / unroll.out_channels)
    if work.pointwise:
        area = unroll.width * unroll.height
        return ceil(work.out_height * work.out_width / area), 1, filters
    return ceil(work.out_height / unroll.height), ceil(work.out_width / unroll.width), filters


@dataclass(frozen=True, slots=True)
class _Places:
    """Numbers of steps in space: the steps taken, the least positions that take them, and the
    heights and widths of these where they are rectangles."""

    steps: Floats
    least: Floats
    extents: tuple[Floats, Floats] | None

    def blocks(self, sizes: list[Extent]) -> Floats:
        """Blocks of accumulators that the positions take at least, a row for each size of them."""
        height = np.array([[float(size.height)] for size in sizes])
        width = np.array([[float(size.width)] for size in sizes])
        if self.extents is None:
            return np.ceil(self.least / (width * height))
        high, wide = self.extents
        return np.ceil(high / height) * np.ceil(wide / width)


@dataclass(frozen=True, slots=True)
class Dense:
    """How an array may run a convolution: forms with the work as they see it, modes."""

    forms: Sequence[tuple[DenseForm, Workload]]
    modes: Sequence[ArrayMode]
    rate: ArrayRate
    least_positions: int
    sharpness: float

    def cycles(self, places: _Places, made: Floats) -> Floats:
        """The least of all forms and modes, over places in space and numbers of filters; reading
        the input left out."""
        return np.minimum.reduce(
            [self._cycles(seen, form, places, made).min(axis=0) for form, seen in self.forms]
        )

    def _cycles(self, work: Workload, form: DenseForm, places: _Places, made: Floats) -> Floats:
        """The same by modes, each of which is a layer of the result."""
        size = element_bytes(work.dtype)
        least = 1 if work.kind is WorkKind.FIRST_CONV else self.rate.least_channels
        channels = max(work.in_channels, least)
        field = work.taps * channels * size
        unrolls = [mode.unroll for mode in self.modes]
        blocks = [mode.held for mode in self.modes]
        spatial = places.blocks(blocks)[:, :, None]
        patches = np.maximum(places.steps, self.least_positions)[:, None]
        filters = np.ceil(made / _layers([unroll.out_channels for unroll in unrolls]))
        kernels = np.ceil(made / _layers([block.out_channels for block in blocks]))
        compute = [self._sums(work, channels, unroll) * form.compute for unroll in unrolls]
        activation, weight, output = (
            rate or inf
            for rate in (
                form.activation_bytes_per_cycle,
                form.weight_bytes_per_cycle,
                form.output_bytes_per_cycle,
            )
        )
        read = [unroll.width * unroll.height * field / activation for unroll in unrolls]
        weights = [unroll.out_channels * field / weight for unroll in unrolls]
        limits = (
            patches * (filters * _layers(compute)),
            patches * (kernels * _layers(read)),
            spatial * (filters * _layers(weights)),
            places.least[:, None] * (made * (size / output)),
        )
        return (
            form.overhead
            + spatial * (kernels * form.per_block)
            + patches * (filters * form.per_step)
            + _norm(limits, self.sharpness)
        )

    def _sums(self, work: Workload, channels: int, unroll: Extent) -> float:
        """Cycles that a step's sums take: over taps and input channels."""
        lanes = self.rate.in_channels * unroll.in_channels
        depth = channels / lanes if unroll.in_channels == 1 else ceil(channels / lanes)
        taps = ceil(work.kernel_width / unroll.kernel_width)
        taps *= ceil(work.kernel_height / unroll.kernel_height)
        return taps * depth


def _layers(numbers: list[float] | list[int]) -> Floats:
    """A number for each layer of an array of three dimensions."""
    return np.array(numbers, dtype=np.float64)[:, None, None]


def tile_costs(work: Workload, dense: Dense) -> StepCosts:
    """The costs of tiles of a convolution, each in the cheapest of its forms and of modes whose
    steps have the same size."""
    unroll = dense.modes[0].unroll
    steps = steps_of(work, unroll)
    rows, columns, positions, places = _space(work, unroll, steps)
    filters, most_filters = _counts(steps[2])
    made = (filters - 1) * unroll.out_channels + 1
    cycles = dense.cycles(places, made)
    all_positions = work.out_height * work.out_width
    held = np.minimum(positions, float(all_positions))
    return StepCosts(cycles, rows, columns, held, most_filters, steps, all_positions)


Pair = tuple[tuple[int, int], tuple[int, int]]
"""Heights and widths of two rectangles of positions."""


def seen_cycles(work: Workload, dense: Dense, pairs: list[Pair]) -> tuple[list[Pair], list[float]]:
    """What pointwise work takes, but for the last bits, with its positions in each of these pairs
    of rectangles (the second may be empty). And in one more: of whole steps, so that all positions
    are held at the least cost, the second at most a block; unless one step does."""
    unroll = dense.modes[0].unroll
    area, across = unroll.width * unroll.height, unroll.width
    blocks = [mode.held for mode in dense.modes]
    steps = -(-work.positions // area)
    most = min(steps - 1, max(block.width * block.height for block in blocks) // area)
    high, wide = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    whole = None
    if most > 0:
        widest = max(block.width for block in blocks) // across
        whole = _whole_steps(steps, most, widest, unroll.height, across)
        high, wide = np.concatenate((high, whole.high)), np.concatenate((wide, whole.wide))
    taken = np.ceil(high / unroll.height) * np.ceil(wide / across)
    places = _Places(taken, high * wide, (high, wide))
    costs = dense.cycles(places, np.array([float(work.out_channels)]))[:, 0]
    (form, seen), *_ = dense.forms
    field = max(seen.in_channels, dense.rate.least_channels) * element_bytes(work.dtype)
    read = places.least * (field / (form.input_bytes_per_cycle or inf))
    cycles = np.where(places.least > 0, costs + read, 0.0)
    known = 2 * len(pairs)
    found: list[float] = (cycles[:known:2] + cycles[1:known:2]).tolist()
    if whole is None:
        return pairs, found
    two = [known + number for number in whole.best(costs[known:])]
    one, other = ((int(high[number]), int(wide[number])) for number in two)
    return [*pairs, (one, other)], [*found, float(cycles[two].sum())]


@dataclass(frozen=True, slots=True)
class _WholeSteps:
    """Rectangles of whole steps by their heights and widths, those of one number of steps behind
    each other from its place in `starts`; `halves` are pairs of such places for all steps."""

    high: Floats
    wide: Floats
    starts: Numbers
    halves: Numbers

    def best(self, costs: Floats) -> list[int]:
        """The numbers of the two that cost least together."""
        least = np.minimum.reduceat(costs, self.starts)
        pair = self.halves[:, np.argmin(least[self.halves].sum(axis=0))]
        ends = np.append(self.starts, len(costs))
        return [int(ends[k] + np.argmin(costs[ends[k] : ends[k + 1]])) for k in pair]


@lru_cache(maxsize=8192)
def _divisors(number: int) -> tuple[int, ...]:
    """What divides a number, from one to itself."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return (*small, *(number // d for d in reversed(small) if d * d < number))


@lru_cache(maxsize=1024)
def _whole_steps(steps: int, most: int, widest: int, height: int, width: int) -> _WholeSteps:
    """Rectangles of steps that are so high and wide, at most `widest` of them side by side: of up
    to `most` steps, and of all but so many."""
    place: dict[int, int] = {}
    pairs: list[tuple[int, int]] = []
    starts: list[int] = []
    for count in sorted({*range(1, most + 1), *range(steps - most, steps)}):
        place[count] = len(place)
        starts.append(len(pairs))
        pairs += [(count // b, b) for b in _divisors(count) if b <= widest]
    high, wide = np.array(pairs, dtype=np.float64).T
    halves = [(place[first], place[steps - first]) for first in range(steps - most, steps)]
    return _WholeSteps(high * height, wide * width, np.array(starts), np.array(halves).T)


def _space(
    work: Workload, unroll: Extent, steps: tuple[int, int, int]
) -> tuple[Floats, Floats, Floats, _Places]:
    """Tiles in space: rows, columns and positions that they hold at most, and what they take."""
    area = float(unroll.width * unroll.height)
    if not work.pointwise:
        (down, most_down), (along, most_along) = _counts(steps[0]), _counts(steps[1])
        high, wide = (axis.ravel() for axis in np.meshgrid(down, along, indexing="ij"))
        rows, columns = (x.ravel() for x in np.meshgrid(most_down, most_along, indexing="ij"))
        extents = (high - 1) * unroll.height + 1, (wide - 1) * unroll.width + 1
        places = _Places(high * wide, extents[0] * extents[1], extents)
        return rows, columns, rows * columns * area, places
    if steps[0] > EXACT:
        down, most = _counts(steps[0])
        places = _Places(down, (down - 1) * area + 1, None)
    else:
        places, most = _rectangles(work.out_height * work.out_width, steps[0], unroll)
    return most, np.ones(len(most)), most * area, places


def _rectangles(positions: int, steps: int, unroll: Extent) -> tuple[_Places, Floats]:
    """Positions of pointwise work in rectangles of any shape, and the steps that they hold at most:
    all of the rectangle's, or at least one less where it has no more positions than these."""
    pairs = [(a, b) for a in range(1, steps + 1) for b in range(1, -(-steps // a) + 1)]
    high, wide = np.array(pairs, dtype=np.float64).T
    extents = (high - 1) * unroll.height + 1, (wide - 1) * unroll.width + 1
    taken, least = high * wide, extents[0] * extents[1]
    full = np.maximum(least, (taken - 1) * (unroll.width * unroll.height) + 1)
    both = np.concatenate((full, least))
    held = np.concatenate((taken, taken - 1))
    fits = (both <= positions) & (held > 0)
    places = _Places(
        np.tile(taken, 2)[fits],
        both[fits],
        (np.tile(extents[0], 2)[fits], np.tile(extents[1], 2)[fits]),
    )
    return places, np.minimum(held[fits], float(steps))


def _whole_tiles(held: Floats, cycles: Floats, wanted: int) -> float:
    """The cheapest tiles that hold so many steps together, of tiles that hold some at a price; as
    little as nothing where there are too many steps to be looked at."""
    if wanted > EXACT:
        return 0.0
    price = np.full(wanted + 1, inf)
    np.minimum.at(price, np.minimum(held, wanted).astype(np.int64), cycles)
    least = np.zeros(wanted + 1)
    for count in range(1, wanted + 1):
        # Tiles of more steps than are left do for these too.
        more = float(price[count:].min())
        least[count] = min(
            more, float((price[1:count] + least[count - 1 : 0 : -1]).min(initial=inf))
        )
    return float(least[wanted])


def _counts(most: int) -> tuple[Floats, Floats]:
    """Numbers of steps from one to the most as ranges: the least of each, and the most."""
    first = list(range(1, min(most, EXACT) + 1))
    while first[-1] < most:
        first.append(min(most, int(first[-1] * WIDER) + 1))
    last = [after - 1 for after in first[1:]] + [most]
    return np.array(first, dtype=np.float64), np.array(last, dtype=np.float64)


def _norm(values: tuple[Floats, ...], sharpness: float) -> Floats:
    largest = np.maximum(values[0], np.finfo(np.float64).tiny)  # of nothing it is nothing
    for value in values[1:]:
        largest = np.maximum(largest, value)
    share = sum((value / largest) ** sharpness for value in values)
    return np.asarray(largest * share ** (1 / sharpness))
