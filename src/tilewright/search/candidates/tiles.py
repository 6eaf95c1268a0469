"""Ways to cut a group, and what each would take: one inner tile, times the tiles.

An estimate orders choices; it is never reported. The truth is the simulator's.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import combinations
from math import inf

from tilewright.geometry.access import Shifted
from tilewright.search.candidates.dealt import Copied, Dealt, Kept
from tilewright.search.candidates.estimates import Estimate
from tilewright.search.candidates.finer import Finer
from tilewright.search.candidates.grained import regrained
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.probe import Cutting, Probe, Probes
from tilewright.search.candidates.tile_costs import TileCosts
from tilewright.search.candidates.unlike import UnlikeCores
from tilewright.search.candidates.ways import Ways, parts_over
from tilewright.tiling.grid import Shares, Split, core_grid
from tilewright.tiling.group import TiledOp, exports

USABLE_SHARE = 0.9  # share of a scratchpad that may be planned with; addresses need some slack
TILES = 512  # of a group: more take long to lower, and are the best only where memory is small
FINE_ENOUGH = 24  # tiles so many times smaller than the scratchpad need not become smaller
LEAST_TURNS = 8
AFTER_FIRST_FIT = 3  # cuts of a fused group that are tried from the first that fits on
LITTLE_HALO = 0.1  # a group that recomputes less need not be cut along two axes
REGRAINED = 4  # cuts of a group that are also estimated at multiples of what arrays round up to
MOST_HALO = 0.9  # an axis along which most is recomputed does not really cut the group


class Tiler:
    """Estimates ways to cut groups of one network."""

    pipelines = True  # whether the pass pipelining is going to run

    def __init__(self, network: Network, names: tuple[str, ...] = ()) -> None:
        self.network, self.graph, self.machine = network, network.graph, network.machine
        self.names = names  # of cores, where it is for some of them only
        self._others: dict[tuple[str, ...], Tiler] = {names: self}
        self.cores = len(self.machine.cores)
        self.share = 1.0  # of the scratchpads that is planned with
        self.usable = min(core.memory.usable for core in self.machine.cores)
        self.unlike = UnlikeCores(network.models, names)
        self.probes = Probes(TileCosts(network))
        self._dealt: dict[tuple[Cutting, int | None], Dealt] = {}
        self._uneven: dict[tuple[Cutting, int | None, int], Dealt] = {}  # by the most of a core
        self.ways = Ways(self.cores, self.machine.limits.channel_alignment)
        self.grains = network.models.grains(network.dtype)
        self.rate, self.multicast = self.costs.rate, self.costs.route.multicast
        writes = [core.memory.write_pj_per_byte for core in self.machine.cores]
        self.main_pj = self.machine.main_memory.read_pj_per_byte + max(writes)

    @property
    def costs(self) -> TileCosts:
        """What tiles cost on these cores."""
        return self.probes.costs

    def on(self, cores: tuple[str, ...]) -> "Tiler":
        """The same for groups that run on some cores only; tiles that cost the same there are the
        same tiles."""
        if cores not in self._others:
            other = Tiler(self.network.on(cores), cores)
            other.pipelines, other.costs.reshapes = self.pipelines, self.costs.reshapes
            if other.costs.facts == self.costs.facts:
                other.probes = self.probes
            self._others[cores] = other.within(self.share)
        return self._others[cores]

    def within(self, share: float) -> "Tiler":
        """The same with a share of the scratchpads only."""
        other = copy(self)
        other.share, other.usable = share, int(share * self.room(()))
        other._others = {self.names: other}
        return other

    def room(self, cores: tuple[str, ...]) -> int:
        """Bytes that each of some cores has (none: of its own)."""
        machine = self.machine.cores
        return min(core.memory.usable for core in machine if not cores or core.name in cores)

    def kind(self, tiled: TiledOp) -> str:
        """The kind of engine that runs an operator."""
        whole = tuple(
            None if kind is None else tuple((0, extent) for extent in kind.shape)
            for kind in tiled.op.outputs
        )
        runs = self.costs.tile(self.costs.node(tiled), whole).runs
        return max(runs, key=lambda run: run.cycles).kind if runs else ""

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
        probe = self.probes.of(ops, exported)
        return self.probed(probe, splits, core_split, replicated=replicated, resident=resident)

    def probed(
        self,
        probe: Probe,
        splits: tuple[Split, ...],
        core_split: int | None,
        *,
        replicated: bool = False,
        resident: frozenset[str] = frozenset(),
        shares: Shares | None = None,
    ) -> Estimate | None:
        """As `estimate`, for a group that is cut in several ways; its parts dealt to the cores in
        some shares (none: evenly), or in those that suit the cores best."""
        copied = self.copied(probe, splits, core_split, probe.kept(resident))
        return None if copied is None else self.computed(copied, replicated, shares)

    def copied(
        self, probe: Probe, splits: tuple[Split, ...], core_split: int | None, kept: Kept
    ) -> Copied | None:
        """What a way to cut a group loads, stores and holds."""
        cut = probe.cut(splits)
        if cut is None:
            return None
        dealt = self._dealt.get((cut, core_split))
        if dealt is None:
            dealt = Dealt(cut, splits, core_split, self.cores, self.multicast)
            self._dealt[cut, core_split] = dealt
        return dealt.copied(kept)

    def computed(
        self, copied: Copied, replicated: bool = False, shares: Shares | None = None
    ) -> Estimate:
        """With what computing takes."""
        dealt, load, store = copied.dealt, copied.load, copied.store
        tiles, turns = dealt.tiles, dealt.turns
        cores, works = self.names, dealt.works(copied.kept)
        last = works[0]
        if len(works) > 1:
            found = self.unlike.divided(dealt, works, replicated, shares, self.pipelines)
            cores, shares, last, turns = found.cores, found.shares, found.last, found.turns
            if found.most not in (0, dealt.most):
                copied = self._redealt(dealt, found.most).copied(copied.kept)
                dealt, load, store = copied.dealt, copied.load, copied.store
        matrix, vector, energy, useful = last
        both, least = matrix + vector, min(matrix, vector)
        overlapped = least if turns > 1 and self.pipelines else 0.0
        held = copied.held(overlapped > 0)
        fill = load.first + store.cycles + (0.0 if turns > 1 else min(both, load.first))
        if held > self.usable * USABLE_SHARE and load.slow.held and turns > 1:
            # What stays for many tiles need not be there twice; the next then has to be waited for.
            held -= load.slow.held
            fill += load.slow.cycles / dealt.cores
        compute = turns * (both - overlapped) + overlapped
        if replicated:
            energy *= self.cores
        traffic = load.bytes + store.bytes * tiles
        return Estimate(
            dealt.splits,
            dealt.core_split,
            replicated,
            compute,
            copied.cycles,
            fill,
            held,
            min(held, load.held + store.held + dealt.inner),
            int(traffic),
            energy + traffic * self.main_pj,
            1.0 - useful / both if both else 0.0,
            cores,
            shares or (),
        )

    def _redealt(self, dealt: Dealt, most: int) -> Dealt:
        """The same tiles, so many parts of them on one core."""
        key = (dealt.cut, dealt.core_split, most)
        found = self._uneven.get(key)
        if found is None:
            found = Dealt(
                dealt.cut, dealt.splits, dealt.core_split, self.cores, self.multicast, most
            )
            self._uneven[key] = found
        return found

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
        probe = self.probes.of(ops, exported)
        kept = probe.kept(resident)
        done: set[tuple[tuple[int, int, bool], ...]] = set()
        most = inf
        for splits, core_split in self.ways.alone(ops[-1].access[0]):
            line = tuple((s.axis, s.parts * (s is not splits[-1]), s.crossed) for s in splits)
            if line in done:
                continue
            copied = self.copied(probe, splits, core_split, kept)
            if copied is None:
                continue
            held = copied.held(overlapped=False)
            if copied.least <= most:
                found.append(estimate := self.computed(copied))
                held = estimate.bytes
                if fastest and held <= limit:
                    most = min(most, estimate.cycles)
            each = copied.dealt.tiles // copied.dealt.cores
            if held * FINE_ENOUGH < self.usable and each >= LEAST_TURNS:
                done.add(line)
        access = ops[-1].access[0]
        axes = {axis: access.shape[axis] for axis in access.tileable()}
        found += self._finer(probe, kept, axes, limit, found)
        found += self.regrained(probe, kept, found, limit)
        if self.cores > 1:
            whole = self.probed(probe, (), None, replicated=True, resident=resident)
            if whole is not None:
                found.append(whole)
        return sorted(found, key=lambda e: e.order)

    def regrained(
        self, probe: Probe, kept: Kept, known: Sequence[Estimate], limit: float
    ) -> list[Estimate]:
        """The best of some cuts that fit into so many bytes, in as many parts at multiples of what
        arrays round up to, where that takes less."""
        fitting = [e for e in known if e.bytes <= limit and not e.replicated]
        extents = dict(enumerate(probe.access[probe.final[0]].shape))
        found: list[Estimate] = []
        for estimate in sorted(fitting, key=lambda e: e.order)[:REGRAINED]:
            for splits in regrained(estimate.splits, extents, self.grains):
                copied = self.copied(probe, splits, estimate.core_split, kept)
                if copied is None:
                    continue
                other = self.computed(copied)
                if other.compute < estimate.compute and other.bytes <= limit:
                    found.append(other)
        return found

    def _finer(
        self,
        probe: Probe,
        kept: Kept,
        axes: Mapping[int, int],
        limit: float,
        known: Sequence[Estimate],
    ) -> list[Estimate]:
        """Cuts along an axis more, or in other numbers of parts: better than those known."""

        def estimated(
            splits: tuple[Split, ...], core_split: int | None, most: float
        ) -> Estimate | None:
            copied = self.copied(probe, splits, core_split, kept)
            return None if copied is None or copied.least > most else self.computed(copied)

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
        search = _Fused(self, self.probes.of(ops, exported), limit, resident)
        if self.cores == 1:
            search.tried((), None)
        axes: list[int] = []
        joined = _joined_axes(ops)
        for axis, extent in enumerate(extents):
            if axis in joined:
                continue  # tiles hold different inputs: none stands for the others
            parts = parts_over(extent, self.cores)
            if parts and search.along((), axis, parts, core_split=0):
                axes.append(axis)
        if (
            search.found
            and min(search.found, key=lambda e: e.order).halo < LITTLE_HALO
            and not crossed
        ):
            return search.sorted()
        for pair in combinations(axes, 2):
            for along, across in self.ways.grids([extents[axis] for axis in pair]):
                others = parts_over(extents[pair[1]], across)
                search.along((Split(pair[0], along),), pair[1], others, 0, crossed=True)
        if (
            search.found
            and min(search.found, key=lambda e: e.order).halo < LITTLE_HALO
            and not crossed
        ):
            return search.sorted()
        for outer in axes:
            for parts in parts_over(extents[outer], self.cores, (1, 4)):
                for inner in axes:
                    others = parts_over(extents[inner], 1)
                    if inner != outer and others:
                        search.along((Split(outer, parts),), inner, others, core_split=0)
        return search.sorted()

    def spread(
        self, ops: tuple[TiledOp, ...], exported: dict[str, bool], options: Sequence[Estimate]
    ) -> list[Estimate]:
        """The ways to cut a group that divide each of its operators among the cores: what a cut
        does not drive, one core computes for all, and passes on for every tile."""
        probe = self.probes.of(ops, exported)
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
        self.tiler, self.probe, self.limit = tiler, probe, limit
        self.kept = probe.kept(resident)
        self.found: list[Estimate] = []

    def tried(self, splits: tuple[Split, ...], core_split: int | None) -> bool:
        """One way; whether it fits."""
        copied = self.tiler.copied(self.probe, splits, core_split, self.kept)
        if copied is None or copied.fewest > self.limit:
            return False
        return self._fits(self.tiler.computed(copied))

    def _fits(self, estimate: Estimate) -> bool:
        fits = estimate.bytes <= self.limit
        self.found += [estimate] if fits else []
        return fits

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
        cut = (*outer, Split(axis, parts[high], crossed=crossed))
        copied = self.tiler.copied(self.probe, cut, core_split, self.kept)
        finest = copied and self.tiler.computed(copied)
        if finest is None:
            return False
        fits = self._fits(finest)
        if finest.halo > MOST_HALO:
            return False
        if not fits:
            return True
        while low < high:
            middle = (low + high) // 2
            if self.tried((*outer, Split(axis, parts[middle], crossed=crossed)), core_split):
                high = middle
            else:
                low = middle + 1
        for finer in parts[low + 1 : low + AFTER_FIRST_FIT]:
            self.tried((*outer, Split(axis, finer, crossed=crossed)), core_split)
        return True

    def sorted(self) -> list[Estimate]:
        """The best first."""
        self.found += self.tiler.regrained(self.probe, self.kept, self.found, self.limit)
        return sorted(dict.fromkeys(self.found), key=lambda e: e.order)
