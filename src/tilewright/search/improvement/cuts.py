"""Ways to cut any group of a plan, as decisions without nodes: those the estimates like, and those
close to cuts that are there."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from itertools import permutations, zip_longest
from math import inf

from tilewright.errors import TilewrightError
from tilewright.graph.ops.spec import channel_axis
from tilewright.plan.plan import GroupPlan, Place
from tilewright.program.signature import Signatures
from tilewright.search.candidates.core_sets import core_sets, kinds_of_cores, parts_of_cores
from tilewright.search.candidates.estimates import Division, Estimate
from tilewright.search.candidates.grained import regrained
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.tiles import TILES, Tiler
from tilewright.search.candidates.unlike import shares_of
from tilewright.tiling.grid import Halo, Split, dealt, tiles_of
from tilewright.tiling.group import exports, typed_group

MOST = 12  # cuts by estimate of a group that are proposed
FINER = (2, 4, 8)  # a cut of a neighbour is also proposed so many times finer
SMALLER = 0.9  # a second cut that divides the same axis has to take so many bytes less
UNSURE = 1.5  # times the free bytes that a cut which fits may be estimated to take


class Divided(StrEnum):
    """How a group's results are divided among the cores."""

    CHANNELS = "channels"
    POSITIONS = "positions"
    NOT = "not"


class Cuts:
    """Ways to cut groups of one network, worked out once for groups that look alike."""

    def __init__(self, network: Network, tiler: Tiler, signatures: Signatures) -> None:
        self.network, self.graph, self.tiler = network, network.graph, tiler
        self.signatures = signatures
        self._known: dict[Hashable, _Group] = {}
        self._channels: dict[Hashable, int] = {}  # axis of groups' results
        self._cuttable: dict[int, bool] = {}

    def cuttable(self, node: int) -> bool:
        """Whether a node can be in a group on cores."""
        if node not in self._cuttable:
            try:
                typed_group(self.graph, [node])
                self._cuttable[node] = True
            except TilewrightError:
                self._cuttable[node] = False
        return self._cuttable[node]

    @cached_property
    def kinds(self) -> tuple[tuple[str, ...], ...]:
        """Cores that groups are divided among: all, and where cores differ, those of a kind."""
        return ((), *kinds_of_cores(self.network))

    @cached_property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """The same, and where memories differ, those that have more."""
        return tuple(dict.fromkeys((*core_sets(self.network), *self.kinds)))

    def ways(
        self,
        members: tuple[int, ...],
        kept: frozenset[str],
        beside: int,
        cores: tuple[str, ...] = (),
    ) -> list[GroupPlan]:
        """Cuts of a group for some cores, those that fit first: the best for each axis that can be
        divided among the cores, then the second best, and so on. `kept` are tensors of the group
        that stay, `beside` bytes of others that do, on all cores together."""
        found = self._group(members, kept, cores).ways(beside)
        if self.kinds == ((),):
            return [replace(way, cores=cores) for way in found] if cores else found
        there = self._there(cores)
        return [
            replace(way, cores=tuple(there[name] for name in way.cores) or cores) for way in found
        ]

    def elsewhere(
        self,
        members: tuple[int, ...],
        kept: frozenset[str],
        beside: int,
        cores: tuple[str, ...],
    ) -> Iterator[GroupPlan]:
        """The best cut of a group for other cores than some, by kinds."""
        for other in self.sets:
            if other != cores:
                yield from self.ways(members, kept, beside, other)[:1]

    def divided(self, members: tuple[int, ...], cutting: GroupPlan) -> Divided:
        """What of a group's results each core has."""
        if cutting.core_split is None:
            return Divided.NOT
        key = self.signatures.group(members).key
        if key not in self._channels:
            rank = len(self.extents(exports(self.graph, members)))
            self._channels[key] = channel_axis(rank)
        axis = cutting.splits[cutting.core_split].axis
        return Divided.CHANNELS if axis == self._channels[key] else Divided.POSITIONS

    def there_are(
        self,
        members: tuple[int, ...],
        kept: frozenset[str],
        beside: int,
        most: float,
        cuttings: Iterable[GroupPlan],
    ) -> Iterator[GroupPlan]:
        """Those of some cuts that a group has, and that are not expected to take more than so many
        cycles. Those expected not to fit into the free bytes of a core, even with nothing held for
        later, come last, and of those far too large only the smallest of all: whether it fits, the
        simulator says."""
        large: dict[GroupPlan, float] = {}  # share of the free bytes
        for cutting in dict.fromkeys(cuttings):
            group = self._group(members, kept, cutting.cores)
            if tiles_of(cutting.splits) > group.most:
                continue
            estimate = group.estimate(self._here(cutting))
            if estimate is None or estimate.amid[0] > most:
                continue
            share = group.least(estimate) / max(1, group.free(beside))
            if share <= 1.0:
                yield cutting
            else:
                large[cutting] = share
        largest = max(UNSURE, min(large.values(), default=0.0))
        yield from (cutting for cutting, share in large.items() if share <= largest)

    def cycles(self, members: tuple[int, ...], kept: frozenset[str], cutting: GroupPlan) -> float:
        """What a cut of a group is expected to take; without end where nothing is known of it."""
        estimate = self._group(members, kept, cutting.cores).estimate(self._here(cutting))
        return inf if estimate is None else estimate.amid[0]

    def _group(
        self, members: tuple[int, ...], kept: frozenset[str], cores: tuple[str, ...]
    ) -> "_Group":
        signature = self.signatures.group(members)
        cores = self._like(cores)
        key = (signature.key, cores, tuple(name in kept for name in signature.names))
        if key not in self._known:
            here = frozenset(name for name in signature.names if name in kept)
            self._known[key] = _Group(self, self.tiler.on(cores), members, here)
        return self._known[key]

    def _like(self, cores: tuple[str, ...]) -> tuple[str, ...]:
        """Cores that stand for some: of each kind the first ones, as many."""
        if not cores:
            return cores
        kinds = [[core.name for core in kind] for kind in self.network.models.core_classes]
        first = [name for kind in kinds for name in kind[: len(set(kind).intersection(cores))]]
        return () if len(first) == len(self.network.machine.cores) else tuple(first)

    def _there(self, cores: tuple[str, ...]) -> dict[str, str]:
        """For each core that stands for one of some (`_like`), the one it stands for."""
        names = [core.name for core in self.network.machine.cores]
        kinds = [[core.name for core in kind] for kind in self.network.models.core_classes]
        rows = ((kind, [name for name in cores or names if name in kind]) for kind in kinds)
        return {first: own for kind, row in rows for first, own in zip(kind, row, strict=False)}

    def _here(self, cutting: GroupPlan) -> GroupPlan:
        """A cut with the shares in the order of the cores that stand for its own."""
        if not cutting.shares:
            return cutting
        there, own = self._there(cutting.cores), cutting.cores
        names = [core.name for core in self.network.machine.cores]
        share = dict(zip(own or names, cutting.shares, strict=True))
        return replace(cutting, shares=tuple(share[there[name]] for name in names if name in there))

    def alone(self, members: tuple[int, ...]) -> bool:
        """Whether nodes are one unit."""
        units = {self.network.home[node] for node in members}
        return len(units) == 1 and len(self.network.units[min(units)].nodes) == len(members)

    def extents(self, exported: dict[str, bool]) -> list[int]:
        """The extents that all final results of a group have; none where ranks differ."""
        shapes = [self.graph.types[name].shape for name, used in exported.items() if not used]
        if len({len(shape) for shape in shapes}) != 1:
            return []
        return [min(shape[axis] for shape in shapes) for axis in range(len(shapes[0]))]

    def like(self, groups: Sequence[GroupPlan]) -> Iterator[GroupPlan]:
        """The cuts of groups that become one, the last first; then finer ones."""
        cuttings = [cutting_of(group) for group in reversed(groups) if group.place is Place.CORES]
        found = list(dict.fromkeys(cuttings))
        yield from found
        for cutting in found:
            for times in FINER if cutting.splits else ():
                last = cutting.splits[-1]
                finer = replace(last, parts=last.parts * times)
                yield replace(cutting, splits=(*cutting.splits[:-1], finer))

    def near(self, group: GroupPlan) -> Iterator[GroupPlan]:
        """Cuts that differ from a group's in one respect."""
        own = cutting_of(group)
        cores = self.tiler.on(own.cores).cores
        for number, split in enumerate(own.splits):
            step = cores if number == own.core_split else 1
            now = split.parts
            for parts in (now * 2, now // 2, now + step, now - step):
                if parts >= max(2, step):
                    yield _with(own, number, replace(split, parts=parts))
        members = [self.graph.index[name] for name in group.nodes]
        extents = self.extents(exports(self.graph, members))
        for splits in regrained(own.splits, dict(enumerate(extents)), self.tiler.grains):
            yield replace(own, splits=splits)
        for axis, extent in enumerate(extents):
            if extent < 2 or any(split.axis == axis for split in own.splits):
                continue
            for number, split in enumerate(own.splits):
                yield _with(own, number, replace(split, axis=axis))
            if len(own.splits) == 1:
                for parts in (2, 4):
                    yield replace(own, splits=(*own.splits, Split(axis, parts)))
        yield from _otherwise(own)
        yield from self._dealt_otherwise(own)

    def _dealt_otherwise(self, own: GroupPlan) -> Iterator[GroupPlan]:
        """Where cores differ: a part of a core's goes to one of another kind, or all have as
        many."""
        cores = own.cores or tuple(core.name for core in self.network.machine.cores)
        kinds = [set(cores).intersection(kind) for kind in self.kinds[1:]]
        kinds = [kind for kind in kinds if kind]
        if own.core_split is None or len(kinds) < 2 or len(own.core_splits) > 1:
            return
        parts = own.splits[own.core_split].parts
        taken = dict(zip(cores, dealt(parts, own.shares or (1,) * len(cores)), strict=True))
        counts = {name: len(part) for name, part in taken.items()}
        for giving, taking in permutations(kinds, 2):
            most = max(sorted(giving), key=counts.__getitem__)
            least = min(sorted(taking), key=counts.__getitem__)
            if counts[most]:
                changed = {most: counts[most] - 1, least: counts[least] + 1}
                yield _with_counts(own, {**counts, **changed})
        if own.shares:
            yield replace(own, shares=())

    def further(self, group: GroupPlan) -> Iterator[GroupPlan]:
        """Other numbers of parts not far from a group's, and the same tiles on fewer cores, or on
        all of them again."""
        own = cutting_of(group)
        for number, split in enumerate(own.splits):
            cores = self.tiler.on(own.cores).cores
            step, now = (cores if number == own.core_split else 1), split.parts
            others = (now + 1, now - 1, now + 2 * step, now - 2 * step, now * 3 // 2, now // 2)
            for parts in others:
                if parts >= 2:
                    yield _with(own, number, replace(split, parts=parts))
        some = parts_of_cores(self.network)
        yield from (replace(own, cores=cores, shares=()) for cores in ((), *some) if some)


class _Group:
    """What estimates say of the cuts of a group; `kept` are its tensors that stay."""

    def __init__(
        self, cuts: Cuts, tiler: Tiler, members: tuple[int, ...], kept: frozenset[str]
    ) -> None:
        self.tiler, self.kept = tiler, kept
        graph = cuts.graph
        sizes = [cuts.network.layouts.bytes(n, graph.types[n].shape, aligned=True) for n in kept]
        self.staying = sum(sizes)
        self._found: dict[GroupPlan, Estimate | None] = {}
        self._ways: dict[int, list[GroupPlan]] = {}
        self.alone = cuts.alone(members)
        self.exported = exports(graph, members)
        try:
            self.ops = typed_group(graph, members)
            self.probe = self.tiler.probes.of(self.ops, self.exported)
        except TilewrightError:  # it cannot be cut, or nothing computes it
            self.ops, self.probe = (), None

    @cached_property
    def estimates(self) -> list[Estimate]:
        """Cuts along one axis or two, whether or not they fit."""
        if self.probe is None:
            return []
        try:
            if self.alone:
                return self.tiler.options(self.ops, self.exported, self.kept)
            usable = self.tiler.usable
            return self.tiler.fused(self.ops, self.exported, usable, self.kept, crossed=True)
        except TilewrightError:
            return []

    @cached_property
    def most(self) -> int:
        """Tiles that are not too many: as many as the best cut has that fits."""
        fitting = (e for e in self.estimates if e.bytes <= self.tiler.usable)
        best = next(fitting, None)
        return TILES if best is None else max(TILES, tiles_of(best.splits))

    def free(self, beside: int) -> int:
        """Bytes of a core that tensors which stay beside the group leave it."""
        return self.tiler.usable - beside // self.tiler.cores

    def ways(self, beside: int) -> list[GroupPlan]:
        """The cuts in the order to look at them, with so many bytes beside them on the cores."""
        free = self.free(beside)
        if free not in self._ways:
            rows: dict[Division, list[Estimate]] = {}
            for estimate in sorted(self.estimates, key=lambda e: (self._over(e, free), e.amid)):
                row = rows.setdefault(estimate.division(self.tiler.cores), [])
                if not row or estimate.bytes <= SMALLER * row[-1].bytes:
                    row.append(estimate)
            ranks = zip_longest(*rows.values())
            found = [estimate for rank in ranks for estimate in rank if estimate]
            found.sort(key=lambda e: self._over(e, free))
            self._ways[free] = list(dict.fromkeys(e.plan(()) for e in found))[:MOST]
        return self._ways[free]

    def estimate(self, cutting: GroupPlan) -> Estimate | None:
        """What a cut would take; None where there is no such cut."""
        own = replace(cutting, cores=(), nodes=()) if cutting.cores or cutting.nodes else cutting
        if own not in self._found:
            try:
                self._found[own] = self.probe and self.tiler.probed(
                    self.probe,
                    own.splits,
                    own.core_split,
                    replicated=own.replicated,
                    resident=self.kept,
                    shares=own.shares,
                )
            except TilewrightError:
                self._found[own] = None
        return self._found[own]

    def _over(self, estimate: Estimate, free: int) -> tuple[bool, bool]:
        """Whether a cut is not expected to fit even if nothing is held for later; or else."""
        taken = estimate.bytes + self._staying(estimate)
        return self.least(estimate) > free, taken > free

    def least(self, estimate: Estimate) -> int:
        """Bytes of a core that a cut takes if nothing is held for later, with those of tensors that
        stay."""
        return estimate.least + self._staying(estimate)

    def _staying(self, estimate: Estimate) -> int:
        return self.staying // (1 if estimate.replicated else self.tiler.cores)


def _otherwise(own: GroupPlan) -> Iterator[GroupPlan]:
    """The same tiles, divided among the cores or passed through in other ways; one axis less."""
    if len(own.splits) > 1:
        for first in range(len(own.splits) - 1):
            yield _exchanged(own, first)
        for number in range(len(own.splits)):
            fewer = (*own.splits[:number], *own.splits[number + 1 :])
            core_split = (
                own.core_split if own.core_split is None else min(own.core_split, len(fewer) - 1)
            )
            yield replace(own, splits=fewer, core_split=core_split)
    for number in range(len(own.splits)):
        if number != own.core_split:
            yield replace(own, core_split=number, replicated=False)
    if own.core_split is not None:
        yield replace(own, core_split=None)
    if not own.replicated:
        yield replace(own, core_split=None, replicated=True)
    yield replace(own, splits=(), core_split=None, replicated=True)
    for number, split in enumerate(own.splits):
        other = Halo.RECOMPUTE if split.halo is Halo.CACHE else Halo.CACHE
        yield _with(own, number, replace(split, halo=other))


def _exchanged(own: GroupPlan, first: int) -> GroupPlan:
    """The same with one loop and the next inside it exchanged."""
    splits, order = list(own.splits), {first: first + 1, first + 1: first}
    splits[first : first + 2] = splits[first + 1], splits[first]
    core_split = (
        own.core_split if own.core_split is None else order.get(own.core_split, own.core_split)
    )
    return replace(own, splits=tuple(splits), core_split=core_split)


def _with(own: GroupPlan, number: int, split: Split) -> GroupPlan:
    return replace(own, splits=(*own.splits[:number], split, *own.splits[number + 1 :]))


def _with_counts(own: GroupPlan, counts: Mapping[str, int]) -> GroupPlan:
    """The same tiles, so many parts for each core; those without any are left out."""
    cores = tuple(name for name, count in counts.items() if count)
    shares = shares_of(tuple(counts[name] for name in cores))
    return replace(own, cores=own.cores if len(cores) == len(counts) else cores, shares=shares)


def cutting_of(group: GroupPlan) -> GroupPlan:
    """How a group is cut."""
    return replace(group, nodes=(), place=Place.CORES)
