"""A way to cut a group, its tiles dealt to the cores: its copies first, then its engines.

What it loads, stores and computes does not depend on which values stay in the scratchpads, so that
is worked out once, and added up for every choice of these.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod
from typing import NamedTuple

from tilewright.search.candidates.grained import Steps, steps_of
from tilewright.search.candidates.probe import Cutting, Region
from tilewright.search.candidates.tile_costs import Dims, PartCost
from tilewright.tiling.grid import Split, core_grid, tiles_of, turns_of

Kept = frozenset[int]
"""Values of a probe that stay in the scratchpads, by number."""
Splits = tuple[Split, ...]
Grid = Mapping[int, int]  # how many cores each dimension is divided among


class Load(NamedTuple):
    """A load of every tile: of a value, or of a constant; cycles of one copy, cycles and bytes of
    all of them, bytes held, and whether one serves several tiles in a row."""

    value: int | None
    first: float
    cycles: float
    bytes: float
    held: int
    slow: bool


Loaded = tuple[int | None, PartCost, Dims]
"""A value, or a constant; its copy for a tile; the dimensions that drive it."""


class Store(NamedTuple):
    """A store of every tile: cycles and bytes of one copy, bytes held."""

    value: int
    cycles: float
    bytes: int
    held: int


class Slow(NamedTuple):
    """Loads that serve several tiles in a row: cycles in all, and bytes of one of each."""

    cycles: float = 0.0
    held: int = 0


class Side(NamedTuple):
    """Cycles and bytes of what a tile loads, or stores."""

    cycles: float = 0.0
    first: float = 0.0
    bytes: float = 0.0
    held: int = 0
    slow: Slow = Slow()


class Work(NamedTuple):
    """Cycles of a tile on matrix and vector engines, energy of all tiles, and the tile's cycles
    that no other tile repeats."""

    matrix: float
    vector: float
    energy: float
    useful: float


class Dealt:
    """A way to cut a group for so many cores, whatever is kept. `turns` are tiles of the core that
    has the most, `inner` bytes of values that live within a tile; what all cores need is sent to
    them at once where there is `multicast`. Where cores differ, one of them has `most` parts along
    the core split."""

    def __init__(
        self,
        cut: Cutting,
        splits: Splits,
        core_split: int | None,
        cores: int,
        multicast: bool,
        most: int = 0,
    ) -> None:
        self.cut, self.splits, self.core_split = cut, splits, core_split
        grid = core_grid(splits, core_split, cores)
        turns = turns_of(splits, grid)
        if most and core_split is not None:
            turns[core_split] = most
        self.most = 0 if core_split is None else turns[core_split]  # parts of a core
        self.tiles, self.turns = tiles_of(splits), prod(turns)
        self.cores = cores if core_split is not None else 1
        self.steps: dict[int, Steps] = {}  # of dimensions whose tiles are not of one size
        if any(split.grain > 1 for split in splits):
            access = cut.probe.access[cut.probe.final[0]]
            alike = len(cut.probe.costs.cores) == 1  # others get as many tiles as suits them
            for dim, split in enumerate(splits):
                extent, grain = access.shape[split.axis], access.grain[split.axis]
                self.steps[dim] = steps_of(split, extent, grain, grid.get(dim, 1) if alike else 1)
        self.lesser = dict(self._lesser())
        self.loads = tuple(self._loads(grid, turns, multicast))
        self.stores = tuple(self._stores())
        self.inner = cut.inner
        self._works: dict[Kept, tuple[Work, ...]] = {}

    def _lesser(self) -> Iterator[tuple[int, Cutting]]:
        """Tiles of the next size, by the dimensions along which not all are of the largest."""
        for dim, steps in self.steps.items():
            if steps.most < 1 or steps.largest < 1:
                splits = *self.splits[:dim], steps.lesser, *self.splits[dim + 1 :]
                cut = self.cut.probe.cut(splits)
                if cut is not None:
                    yield dim, cut

    def _loads(self, grid: Grid, turns: list[int], multicast: bool) -> Iterator[Load]:
        """All loads of a group: data by tile, constants as often as what cuts them moves on."""
        known: dict[Dims, float] = {}
        innermost = max([dim for dim, times in enumerate(turns) if times > 1], default=-1)
        others = {dim: _loaded(lesser) for dim, lesser in self.lesser.items()}
        for key, (number, copy, dims) in _loaded(self.cut).items():
            times = known.get(dims)
            if times is None:
                times = known[dims] = _times(dims, self.splits, grid, turns, multicast)
            less = {dim: rows[key][1] for dim, rows in others.items() if key in rows}
            each, size = self._mean(copy, dims, less)
            slow = innermost not in dims
            yield Load(number, copy.cycles, each * times, size * times, copy.held, slow)

    def _stores(self) -> Iterator[Store]:
        """All stores of a group."""
        cut = self.cut
        others = {dim: _stored(lesser) for dim, lesser in self.lesser.items()}
        for key, (number, copy, dims) in _stored(cut).items():
            value, needed = cut.probe.values[number], cut.needs[number]
            assert value is not None and needed is not None
            less = {dim: rows[key][1] for dim, rows in others.items() if key in rows}
            each, size = self._mean(copy, dims, less)
            held = cut.probe.costs.copy(value, needed[1]).held
            yield Store(number, each, int(size), held)

    def _mean(
        self, copy: PartCost, dims: Dims, lesser: Mapping[int, PartCost]
    ) -> tuple[float, float]:
        """Cycles and bytes of a copy of each tile, given that of the largest and those of the next
        size along some dimensions."""
        each, size = copy.cycles, float(copy.bytes)
        if not self.steps:
            return each, size
        for dim, other in lesser.items():
            largest = self.steps[dim].largest
            each *= largest + (1 - largest) * other.cycles / copy.cycles
            size *= largest + (1 - largest) * other.bytes / copy.bytes
        share = prod([step.size for dim, step in self.steps.items() if dim in dims])
        exact = copy.bytes * share
        return each - (size - exact) / self.cut.probe.costs.rate, exact

    def copied(self, kept: Kept) -> "Copied":
        """What it copies with some values kept."""
        cycles = first = moved = waited = 0.0
        held = slow = 0
        for load in self.loads:
            if load.value in kept:
                continue
            cycles += load.cycles
            moved += load.bytes
            first += load.first
            held += load.held
            if load.slow:
                waited += load.cycles
                slow += load.held
        out = written = 0.0
        holding = 0
        for store in self.stores:
            if store.value not in kept:
                out += store.cycles
                written += store.bytes
                holding += store.held
        side = Side(cycles, first, moved, held, Slow(waited, slow))
        return Copied(self, side, Side(out, out, written, holding), kept)

    def works(self, kept: Kept) -> tuple[Work, ...]:
        """What its engines do with some values kept, on each kind of core."""
        if not self.cut.probe.views:
            kept = frozenset()
        known = self._works.get(kept)
        if known is None:
            views = self.cut.views(kept)
            kinds = range(len(self.cut.probe.costs.cores))
            known = self._works[kept] = tuple([self._worked(views, kind) for kind in kinds])
        return known

    def _worked(self, views: set[int], kind: int) -> Work:
        matrix = vector = energy = useful = 0.0
        cut, tiles, turns = self.cut, self.tiles, self.turns
        probe = cut.probe
        for place, (outputs, tile) in enumerate(zip(probe.outputs, cut.tiles, strict=True)):
            if place in views or not tile.runs:
                continue
            node, run = probe.nodes[place], tile.runs[kind]
            cycles = 0 if node.folds[kind] and matrix else run.cycles
            once = tiles > 1 and not any(_driven(cut.needs[value]) for value in outputs)
            times = 1 / turns if once else 1.0
            for dim, lesser in self.lesser.items():
                runs, most = lesser.tiles[place].runs, self.steps[dim].most
                less = runs[kind].cycles / run.cycles if runs and run.cycles else 1.0
                times *= most + (1 - most) * min(1.0, less)
            if run.kind == "matrix":
                matrix += cycles * times
            else:
                vector += cycles * times
            energy += run.energy * tiles * times
            share = min([size / max(1, part * tiles) for size, part in tile.sizes], default=1.0)
            useful += cycles * times * min(1.0, share)
        return Work(matrix, vector, energy, useful)


class Copied:
    """What a way to cut a group loads, stores and holds, before anything is known of its
    engines."""

    def __init__(self, dealt: Dealt, load: Side, store: Side, kept: Kept) -> None:
        self.dealt, self.load, self.store, self.kept = dealt, load, store, kept

    @cached_property
    def cycles(self) -> float:
        """Of all copies."""
        return self.load.cycles + self.store.cycles * self.dealt.tiles

    @property
    def least(self) -> float:
        """Cycles that it takes however fast the engines are."""
        return self.cycles + (self.load.first + self.store.cycles)

    def held(self, overlapped: bool) -> int:
        """Bytes of a scratchpad; twice those of a tile where neighbours overlap."""
        double = 2 if self.dealt.turns > 1 else 1
        inner = self.dealt.inner * (2 if overlapped else 1)
        return double * (self.load.held + self.store.held) + inner

    @property
    def fewest(self) -> int:
        """Bytes that it holds at least, whatever its engines do."""
        return self.held(overlapped=False) - self.load.slow.held


def _loaded(cut: Cutting) -> dict[tuple[int, int], Loaded]:
    """What a tile loads: values, and constants by the node that reads them."""
    probe, costs = cut.probe, cut.probe.costs
    rows: dict[tuple[int, int], Loaded] = {}
    for number in probe.inputs:
        region, value = cut.needs[number], probe.values[number]
        if region is None or value is None:
            continue
        copy = value.known.get(region[1]) or costs.copy(value, region[1])
        if copy.bytes:
            rows[-1, number] = number, copy, region[0]
    for place, (outputs, tile) in enumerate(zip(probe.outputs, cut.tiles, strict=True)):
        back = probe.twins[place]
        if not tile.constants or (back and cut.tiles[place - back].constants == tile.constants):
            continue
        region = next(r for number in outputs if (r := cut.needs[number]) is not None)
        for k, (axes, copy) in enumerate(tile.constants):
            rows[place, k] = None, copy, tuple([region[0][axis] for axis in axes])
    return rows


def _stored(cut: Cutting) -> dict[tuple[int, int], tuple[int, PartCost, Dims]]:
    """What a tile stores."""
    probe, costs = cut.probe, cut.probe.costs
    rows: dict[tuple[int, int], tuple[int, PartCost, Dims]] = {}
    for number in probe.exported:
        written, value = cut.written[number], probe.values[number]
        if written is not None and cut.needs[number] is not None and value is not None:
            copy = costs.copy(value, written[1])
            if copy.bytes:
                rows[-1, number] = number, copy, written[0]
    return rows


def _times(dims: Dims, splits: Splits, grid: Grid, turns: list[int], multicast: bool) -> float:
    """How often something is loaded, by all cores together, that these dimensions drive; `grid`
    says which of them are divided among how many cores. What a core has a single part of stays
    there."""
    last = max([dim for dim in dims if dim is not None and turns[dim] > 1], default=-1)
    times = float(prod([s.parts for s in splits[: last + 1]]))
    for dim, among in grid.items():
        parts = splits[dim].parts
        if dim > last:
            times *= min(among, parts) if dim in dims or not multicast else 1
        elif dim not in dims and multicast:
            times *= turns[dim] / parts
    return times


def _driven(region: Region | None) -> bool:
    return region is not None and region[0].count(None) < len(region[0])
