"""Ways to cut a group, and what each would take: one inner tile, times the tiles.

An estimate orders choices; it is never reported. The truth is the simulator's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf, prod

from tilewright.geometry.access import Shifted
from tilewright.graph.ops.spec import channel_axis
from tilewright.search.candidates.estimates import Copied, Estimate, Side, Slow, work_of
from tilewright.search.candidates.finer import Finer
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.probe import Cutting, Probe
from tilewright.search.candidates.tile_costs import Dims, PartCost, TileCosts
from tilewright.tiling.grid import Split, core_grid, tiles_of, turns_of
from tilewright.tiling.group import TiledOp, exports

USABLE_SHARE = 0.9  # share of a scratchpad that may be planned with; addresses need some slack
PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
COARSE = (1, 2, 4, 8, 16, 32, 64, 128)
LANES = (1, 2, 3, 4)  # times the channels an array takes at once: tiles that waste none
TILES = 512  # of a group: more take long to lower, and are the best only where memory is small
FINE_ENOUGH = 24  # tiles so many times smaller than the scratchpad need not become smaller
LEAST_TURNS = 8
AFTER_FIRST_FIT = 3  # cuts of a fused group that are tried from the first that fits on
LITTLE_HALO = 0.1  # a group that recomputes less need not be cut along two axes
MOST_HALO = 0.9  # an axis along which most is recomputed does not really cut the group


class Tiler:
    """Estimates ways to cut groups of one network."""

    pipelines = True  # whether the pass pipelining is going to run

    def __init__(self, network: Network, names: tuple[str, ...] = ()) -> None:
        self.network, self.graph, self.machine = network, network.graph, network.machine
        self.names = names  # of cores, where it is for some of them only
        self._others: dict[tuple[str, ...], Tiler] = {names: self}
        self.cores = len(self.machine.cores)
        self.usable = min(core.memory.usable for core in self.machine.cores)
        self.costs = TileCosts(network)
        self.rate, self.multicast = self.costs.rate, self.costs.route.multicast
        writes = [core.memory.write_pj_per_byte for core in self.machine.cores]
        self.main_pj = self.machine.main_memory.read_pj_per_byte + max(writes)

    def on(self, cores: tuple[str, ...]) -> "Tiler":
        """The same for groups that run on some cores only."""
        if cores not in self._others:
            other = self._others[cores] = Tiler(self.network.on(cores), cores)
            other.pipelines, other.costs.reshapes = self.pipelines, self.costs.reshapes
        return self._others[cores]

    def kind(self, tiled: TiledOp) -> str:
        """The kind of engine that runs an operator."""
        whole = tuple(
            None if kind is None else tuple((0, extent) for extent in kind.shape)
            for kind in tiled.op.outputs
        )
        run = self.costs.tile(self.costs.node(tiled), whole).run
        return "" if run is None else run.kind

    def estimate(
        self,
        ops: tuple[TiledOp, ...],
        exported: Mapping[str, bool],
        splits: tuple[Split, ...],
        core_split: int | None,
        *,
        replicated: bool = False,
        resident: frozenset[str] = frozenset(),
    ) -> Estimate | None:
        """What a way to cut a group would take; None where it cannot be cut so."""
        probe = Probe(self.costs, ops, exported)
        return self.probed(probe, splits, core_split, replicated=replicated, resident=resident)

    def probed(
        self,
        probe: Probe,
        splits: tuple[Split, ...],
        core_split: int | None,
        *,
        replicated: bool = False,
        resident: frozenset[str] = frozenset(),
    ) -> Estimate | None:
        """As `estimate`, for a group that is cut in several ways."""
        copied = self._copied(probe, splits, core_split, resident)
        return None if copied is None else self._computed(copied, replicated)

    def _copied(
        self,
        probe: Probe,
        splits: tuple[Split, ...],
        core_split: int | None,
        resident: frozenset[str],
    ) -> Copied | None:
        """What a way to cut a group loads, stores and holds."""
        cut = probe.cut(splits)
        if cut is None:
            return None
        grid = core_grid(splits, core_split, self.cores)
        tiles, turns = tiles_of(splits), prod(turns_of(splits, grid))
        cores = self.cores if core_split is not None else 1
        load, store = self._loads(cut, splits, grid, resident), self._stores(cut, resident)
        inner = cut.inner()
        return Copied(cut, splits, core_split, tiles, turns, cores, load, store, inner, resident)

    def _computed(self, copied: Copied, replicated: bool = False) -> Estimate:
        """With what computing takes."""
        tiles, turns, load, store = copied.tiles, copied.turns, copied.load, copied.store
        matrix, vector, energy, useful = work_of(copied)
        both, least = matrix + vector, min(matrix, vector)
        overlapped = least if turns > 1 and self.pipelines else 0.0
        held = copied.held(overlapped > 0)
        fill = load.first + store.cycles + (0.0 if turns > 1 else min(both, load.first))
        if held > self.usable * USABLE_SHARE and load.slow.held and turns > 1:
            # What stays for many tiles need not be there twice; the next then has to be waited for.
            held -= load.slow.held
            fill += load.slow.cycles / copied.cores
        compute = turns * (both - overlapped) + overlapped
        if replicated:
            energy *= self.cores
        traffic = load.bytes + store.bytes * tiles
        return Estimate(
            copied.splits,
            copied.core_split,
            replicated,
            compute,
            copied.cycles,
            fill,
            held,
            min(held, load.held + store.held + copied.inner),
            int(traffic),
            energy + traffic * self.main_pj,
            1.0 - useful / both if both else 0.0,
            self.names,
        )

    def _loads(
        self,
        cut: Cutting,
        splits: tuple[Split, ...],
        grid: Mapping[int, int],
        resident: frozenset[str],
    ) -> Side:
        """All loads of a group: data by tile, constants as often as what cuts them moves on."""
        probe, costs = cut.probe, self.costs
        rows: list[tuple[PartCost, Dims]] = []
        for number in probe.inputs:
            region, value = cut.needs[number], probe.values[number]
            if region is None or value is None or probe.names[number] in resident:
                continue
            copy = costs.copy(value, region[1])
            if copy.bytes:
                rows.append((copy, region[0]))
        for outputs, tile in zip(probe.outputs, cut.tiles, strict=True):
            if not tile.constants:
                continue
            region = next(r for number in outputs if (r := cut.needs[number]) is not None)
            for axes, copy in tile.constants:
                rows.append((copy, tuple([region[0][axis] for axis in axes])))
        cycles = first = moved = waited = 0.0
        held = slow = 0
        known: dict[Dims, float] = {}
        turns = turns_of(splits, grid)
        innermost = max((dim for dim, times in enumerate(turns) if times > 1), default=-1)
        for copy, dims in rows:
            times = known.get(dims)
            if times is None:
                times = known[dims] = self._times(dims, splits, grid)
            cycles += copy.cycles * times
            moved += copy.bytes * times
            first += copy.cycles
            held += copy.held
            if innermost not in dims:
                waited += copy.cycles * times
                slow += copy.held
        return Side(cycles, first, moved, held, Slow(waited, slow))

    def _times(self, dims: Dims, splits: tuple[Split, ...], grid: Mapping[int, int]) -> float:
        """How often something is loaded, by all cores together, that these dimensions drive; `grid`
        says which of them are divided among how many cores. What a core has a single part of stays
        there."""
        turns = turns_of(splits, grid)
        last = max((dim for dim in dims if dim is not None and turns[dim] > 1), default=-1)
        times = float(prod([s.parts for s in splits[: last + 1]]))
        for dim, among in grid.items():
            parts = splits[dim].parts
            if dim > last:
                times *= min(among, parts) if dim in dims or not self.multicast else 1
            elif dim not in dims and self.multicast:
                times *= turns[dim] / parts
        return times

    def _stores(self, cut: Cutting, resident: frozenset[str]) -> Side:
        probe = cut.probe
        cycles = moved = 0.0
        held = 0
        for number in probe.exported:
            written, needed, value = cut.written[number], cut.needs[number], probe.values[number]
            if written is None or needed is None or value is None:
                continue
            copy = self.costs.copy(value, written[1])
            if not copy.bytes or probe.names[number] in resident:
                continue
            cycles += copy.cycles
            moved += copy.bytes
            held += self.costs.copy(value, needed[1]).held
        return Side(cycles, cycles, moved, held)

    def choices(self, ops: tuple[TiledOp, ...]) -> Iterator[tuple[tuple[Split, ...], int | None]]:
        """Ways to cut a single unit: none, one axis, or output channels and one other; two axes
        that the cores share."""
        access = ops[-1].access[0]
        yield (), None
        axes = access.tileable()
        channel = channel_axis(len(access.shape))
        for axis in axes:
            for parts in self._parts(access.shape[axis], PARTS, self.cores):
                yield (Split(axis, parts),), 0
        for pair in combinations(axes, 2):
            for parts in self.grids([access.shape[axis] for axis in pair]):
                yield (Split(pair[0], parts[0]), Split(pair[1], parts[1], crossed=True)), 0
        if channel not in axes:
            return
        aligned = self._aligned(access.shape[channel])
        for parts in aligned:
            yield (Split(channel, parts),), 0
        coarse = self._parts(access.shape[channel], COARSE, self.cores)
        for parts in sorted({*coarse, *aligned}):
            for axis in axes:
                if axis in (channel, 0):
                    continue
                for other in self._parts(access.shape[axis], COARSE, 1):
                    if other > 1 and parts > 1:
                        yield (Split(channel, parts), Split(axis, other)), 0
                        yield (Split(axis, other), Split(channel, parts)), 1
                for other in self._parts(access.shape[axis], COARSE, self.cores):
                    if other > 1 and parts > 1:
                        yield (Split(axis, other), Split(channel, parts)), 0

    def grids(self, extents: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Numbers of cores along two axes of these extents, at least two along each."""
        for along in range(2, self.cores):
            across = self.cores // along
            if along * across == self.cores and along <= extents[0] and across <= extents[1]:
                yield along, across

    def _aligned(self, channels: int) -> list[int]:
        """Numbers of parts with few channels each that fill the array's lanes, beside the usual."""
        grain = self.machine.limits.channel_alignment
        usual = set(self._parts(channels, PARTS, self.cores))
        found: set[int] = set()
        for lanes in LANES:
            parts = -(-channels // (grain * lanes))
            parts = -(-parts // self.cores) * self.cores
            if 1 < parts <= channels:
                found.add(parts)
        return sorted(found - usual)

    @staticmethod
    def _parts(extent: int, parts: Sequence[int], cores: int) -> list[int]:
        return [n * cores for n in parts if 1 < n * cores <= extent]

    def options(
        self,
        ops: tuple[TiledOp, ...],
        exported: dict[str, bool],
        resident: frozenset[str],
        limit: float | None = None,
        *,
        fastest: bool = False,
    ) -> list[Estimate]:
        """Estimates of ways to cut a single unit, the best first, fine ones left out where
        coarse ones are small enough. Where only the `fastest` that fits a limit counts, those whose
        copies alone take longer are left out."""
        limit = self.usable * USABLE_SHARE if limit is None else limit
        found: list[Estimate] = []
        probe = Probe(self.costs, ops, exported)
        done: set[tuple[tuple[int, int, bool], ...]] = set()
        most = inf
        for splits, core_split in self.choices(ops):
            line = tuple((s.axis, s.parts * (s is not splits[-1]), s.crossed) for s in splits)
            if line in done:
                continue
            copied = self._copied(probe, splits, core_split, resident)
            if copied is None:
                continue
            held = copied.held(overlapped=False)
            if copied.least <= most:
                found.append(estimate := self._computed(copied))
                held = estimate.bytes
                if fastest and held <= limit:
                    most = min(most, estimate.cycles)
            if held * FINE_ENOUGH < self.usable and copied.tiles // copied.cores >= LEAST_TURNS:
                done.add(line)
        access = ops[-1].access[0]
        axes = {axis: access.shape[axis] for axis in access.tileable()}
        found += self._finer(probe, resident, axes, limit, found)
        if self.cores > 1:
            whole = self.probed(probe, (), None, replicated=True, resident=resident)
            if whole is not None:
                found.append(whole)
        return sorted(found, key=lambda e: (e.cycles, e.traffic, e.bytes))

    def _finer(
        self,
        probe: Probe,
        resident: frozenset[str],
        axes: Mapping[int, int],
        limit: float,
        known: Sequence[Estimate],
    ) -> list[Estimate]:
        """Cuts along an axis more, or in other numbers of parts: better than those known."""

        def estimated(
            splits: tuple[Split, ...], core_split: int | None, most: float
        ) -> Estimate | None:
            copied = self._copied(probe, splits, core_split, resident)
            return None if copied is None or copied.least > most else self._computed(copied)

        return Finer(estimated, axes, self.cores, limit).cuts(known)

    def fused(
        self,
        ops: tuple[TiledOp, ...],
        exported: dict[str, bool],
        limit: int,
        resident: frozenset[str] = frozenset(),
        *,
        crossed: bool = False,
    ) -> list[Estimate]:
        """Estimates of ways to run several operators depth-first within a scratchpad's bytes; along
        two axes where one recomputes much, or (`crossed`) anyway."""
        final = [name for name, used in exported.items() if not used]
        shapes = [self.graph.types[name].shape for name in final]
        if len({len(shape) for shape in shapes}) != 1:
            return []
        extents = [min(shape[axis] for shape in shapes) for axis in range(len(shapes[0]))]
        search = _Fused(self, Probe(self.costs, ops, exported), limit, resident)
        if self.cores == 1:
            search.tried((), None)
        axes: list[int] = []
        joined = _joined_axes(ops)
        for axis, extent in enumerate(extents):
            if axis in joined:
                continue  # tiles hold different inputs: none stands for the others
            parts = self._parts(extent, PARTS, self.cores)
            if parts and search.along((), axis, parts, core_split=0):
                axes.append(axis)
        if search.found and search.sorted()[0].halo < LITTLE_HALO and not crossed:
            return search.sorted()
        for pair in combinations(axes, 2):
            for along, across in self.grids([extents[axis] for axis in pair]):
                others = self._parts(extents[pair[1]], PARTS, across)
                search.along((Split(pair[0], along),), pair[1], others, 0, crossed=True)
        if search.found and search.sorted()[0].halo < LITTLE_HALO and not crossed:
            return search.sorted()
        for outer in axes:
            for parts in self._parts(extents[outer], (1, 4), self.cores):
                for inner in axes:
                    others = self._parts(extents[inner], PARTS, 1)
                    if inner != outer and others:
                        search.along((Split(outer, parts),), inner, others, core_split=0)
        return search.sorted()

    def spread(
        self, ops: tuple[TiledOp, ...], exported: dict[str, bool], options: Sequence[Estimate]
    ) -> list[Estimate]:
        """The ways to cut a group that divide each of its operators among the cores: what a cut
        does not drive, one core computes for all, and passes on for every tile."""
        probe = Probe(self.costs, ops, exported)
        found: list[Estimate] = []
        for option in options:
            cut = probe.cut(option.splits)
            grid = core_grid(option.splits, option.core_split, self.cores)
            regions = () if cut is None else (cut.needs[v] for row in probe.outputs for v in row)
            if all(region is None or grid.keys() <= set(region[0]) for region in regions):
                found.append(option)
        return found

    def exported(self, nodes: Sequence[int]) -> dict[str, bool]:
        """Values of nodes that something outside reads -> whether the nodes read them too."""
        return exports(self.graph, nodes)


def _joined_axes(ops: Sequence[TiledOp]) -> set[int]:
    """Axes along which some operator joins its inputs."""
    return {
        rule.axis
        for tiled in ops
        for rules in tiled.access[0].inputs
        for rule in rules or ()
        if isinstance(rule, Shifted)
    }


class _Fused:
    """Tries ways to cut one group."""

    def __init__(self, tiler: Tiler, probe: Probe, limit: int, resident: frozenset[str]) -> None:
        self.tiler, self.probe, self.limit, self.resident = tiler, probe, limit, resident
        self.found: list[Estimate] = []

    def tried(self, splits: tuple[Split, ...], core_split: int | None) -> Estimate | None:
        """One way; None where the group cannot be cut so."""
        estimate = self.tiler.probed(self.probe, splits, core_split, resident=self.resident)
        if estimate is not None and estimate.bytes <= self.limit:
            self.found.append(estimate)
        return estimate

    def along(
        self,
        outer: tuple[Split, ...],
        axis: int,
        parts: Sequence[int],
        core_split: int,
        *,
        crossed: bool = False,
    ) -> bool:
        """The coarsest cuts along an axis that fit; whether it can be cut at all. `crossed`: the
        cores share it too."""
        low, high = 0, len(parts) - 1
        inner = Split(axis, parts[high], crossed=crossed)
        finest = self.tried((*outer, inner), core_split)
        if finest is None or finest.halo > MOST_HALO:
            return False
        if finest.bytes > self.limit:
            return True
        while low < high:
            middle = (low + high) // 2
            inner = replace(inner, parts=parts[middle])
            estimate = self.tried((*outer, inner), core_split)
            if estimate is None or estimate.bytes > self.limit:
                low = middle + 1
            else:
                high = middle
        for finer in parts[low + 1 : low + AFTER_FIRST_FIT]:
            self.tried((*outer, replace(inner, parts=finer)), core_split)
        return True

    def sorted(self) -> list[Estimate]:
        """The best first."""
        return sorted(dict.fromkeys(self.found), key=lambda e: (e.cycles, e.traffic, e.bytes))
