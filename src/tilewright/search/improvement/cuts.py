"""Ways to cut any group of a plan, as decisions without nodes: those the estimates like, and those
close to cuts that are there."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations, product, zip_longest
from math import prod

from tilewright.errors import TilewrightError
from tilewright.plan.plan import GroupPlan, Place
from tilewright.program.signature import Signatures
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.probe import Probe
from tilewright.search.candidates.tiles import USABLE_SHARE, Estimate, Tiler
from tilewright.tiling.grid import Halo, Split
from tilewright.tiling.group import TiledOp, exports, typed_group

MOST = 8  # cuts by estimate of a group that are proposed
FINER = (2, 4, 8)  # a cut of a neighbour is also proposed so many times finer
OUTER, INNER = (1, 2, 4), (2, 3, 4, 6, 8, 12, 16, 24, 32)  # parts of cuts along two axes; the
# outer ones a core each
CROSSED = 6  # of these that are proposed
LESS_BYTES = 0.75  # each of them takes at most so much of the bytes of the one before
SMALLER = 0.95  # a second cut along the same axis has to take so many bytes less
TILES = 512  # of one group; more take long to lower and are never the best


class Cuts:
    """Ways to cut groups of one network, worked out once for groups that look alike."""

    def __init__(self, network: Network, tiler: Tiler, signatures: Signatures) -> None:
        self.network, self.graph, self.tiler = network, network.graph, tiler
        self.signatures = signatures
        self._known: dict[Hashable, tuple[GroupPlan, ...]] = {}
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

    def estimated(self, members: tuple[int, ...], kept: frozenset[str]) -> tuple[GroupPlan, ...]:
        """The cuts of a group that the estimates like best; `kept` are tensors that stay."""
        signature = self.signatures.group(members)
        key = (signature.key, tuple(name in kept for name in signature.names))
        return self._once(key, members, partial(self._estimated, kept=kept))

    def crossed(self, members: tuple[int, ...]) -> tuple[GroupPlan, ...]:
        """The best of its cuts along two axes, whether or not one axis would do."""
        key = ("crossed", self.signatures.group(members).key)
        return self._once(key, members, self._two_axes)

    def _once(
        self,
        key: Hashable,
        members: tuple[int, ...],
        find: Callable[[tuple[TiledOp, ...], dict[str, bool]], list[Estimate]],
    ) -> tuple[GroupPlan, ...]:
        if key not in self._known:
            try:
                found = find(typed_group(self.graph, members), exports(self.graph, members))
            except TilewrightError:  # it cannot be cut, or nothing computes it
                found = []
            self._known[key] = tuple(dict.fromkeys(e.plan(()) for e in found))
        return self._known[key]

    def _estimated(
        self, ops: tuple[TiledOp, ...], exported: dict[str, bool], kept: frozenset[str]
    ) -> list[Estimate]:
        limit = int(self.tiler.usable * USABLE_SHARE)
        units = {self.network.home[self.graph.index[tiled.node.name]] for tiled in ops}
        nodes = self.network.units[min(units)].nodes
        if len(units) == 1 and len(nodes) == len(ops):
            return by_axis(self.tiler.options(ops, exported, kept), limit)
        return self.tiler.fused(ops, exported, limit)[:MOST]

    def _two_axes(self, ops: tuple[TiledOp, ...], exported: dict[str, bool]) -> list[Estimate]:
        """Cuts along two axes that fit, the best first."""
        extents = self._extents(exported)
        probe = Probe(self.tiler.costs, ops, exported)
        axes = [axis for axis, extent in enumerate(extents) if extent > 1]
        found: list[Estimate] = []
        for outer, inner in permutations(axes, 2):
            for first, second in product(OUTER, INNER):
                parts = first * self.tiler.cores
                if 1 < parts <= extents[outer] and second <= extents[inner]:
                    splits = (Split(outer, parts), Split(inner, second))
                    estimate = self.tiler.probed(probe, splits, 0)
                    if estimate is not None and estimate.bytes <= self.tiler.usable * USABLE_SHARE:
                        found.append(estimate)
        chosen: list[Estimate] = []
        for estimate in sorted(found, key=lambda e: (e.cycles, e.bytes)):
            if not chosen or estimate.bytes <= LESS_BYTES * chosen[-1].bytes:
                chosen.append(estimate)
        return chosen[:CROSSED]

    def _extents(self, exported: dict[str, bool]) -> list[int]:
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
        cores = self.tiler.cores
        for number, split in enumerate(own.splits):
            step = cores if number == own.core_split else 1
            now = split.parts
            for parts in (now * 2, now // 2, now + step, now - step):
                if parts >= max(2, step):
                    yield _with(own, number, replace(split, parts=parts))
        members = [self.graph.index[name] for name in group.nodes]
        extents = self._extents(exports(self.graph, members))
        for axis, extent in enumerate(extents):
            if extent < 2 or any(split.axis == axis for split in own.splits):
                continue
            for number, split in enumerate(own.splits):
                yield _with(own, number, replace(split, axis=axis))
            if len(own.splits) == 1:
                for parts in (2, 4):
                    yield replace(own, splits=(*own.splits, Split(axis, parts)))
        yield from _otherwise(own)

    def further(self, group: GroupPlan) -> Iterator[GroupPlan]:
        """Other numbers of parts not far from a group's, and the same tiles on fewer cores, or on
        all of them again."""
        own = cutting_of(group)
        for number, split in enumerate(own.splits):
            step, now = (self.tiler.cores if number == own.core_split else 1), split.parts
            for parts in (now + 1, now - 1, now + 2 * step, now - 2 * step, now * 3 // 2):
                if parts >= 2:
                    yield _with(own, number, replace(split, parts=parts))
        names = tuple(core.name for core in self.network.machine.cores)
        half = len(names) // 2
        some = ((), names[:half], names[half:], names[:1]) if half else ()
        yield from (replace(own, cores=cores) for cores in dict.fromkeys(some))


def by_axis(options: list[Estimate], limit: int) -> list[Estimate]:
    """Options that fit: the best cut along each axis first, then the second best, and so on."""
    rows: dict[tuple[int | None, bool], list[Estimate]] = {}
    for option in sorted(options, key=lambda o: o.amid):
        row = rows.setdefault((option.axis, option.replicated), [])
        if option.bytes <= limit and (not row or option.bytes < SMALLER * row[-1].bytes):
            row.append(option)
    found = [option for rank in zip_longest(*rows.values()) for option in rank if option]
    return found[:MOST]


def _otherwise(own: GroupPlan) -> Iterator[GroupPlan]:
    """The same tiles, divided among the cores or passed through in other ways; one axis less."""
    if len(own.splits) > 1:
        yield replace(own, splits=own.splits[::-1], core_split=_turned(own))
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
    yield replace(own, splits=(), core_split=None, replicated=True)
    for number, split in enumerate(own.splits):
        other = Halo.RECOMPUTE if split.halo is Halo.CACHE else Halo.CACHE
        yield _with(own, number, replace(split, halo=other))


def _turned(own: GroupPlan) -> int | None:
    return None if own.core_split is None else len(own.splits) - 1 - own.core_split


def _with(own: GroupPlan, number: int, split: Split) -> GroupPlan:
    return replace(own, splits=(*own.splits[:number], split, *own.splits[number + 1 :]))


def cutting_of(group: GroupPlan) -> GroupPlan:
    """How a group is cut."""
    return replace(group, nodes=(), place=Place.CORES)


def sane(cutting: GroupPlan) -> bool:
    """Whether a way has few enough tiles to look at."""
    return prod(split.parts for split in cutting.splits) <= TILES
