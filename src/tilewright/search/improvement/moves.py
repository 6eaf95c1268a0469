"""The moves of the improvement: each makes other plans from a plan, at one place or at all that
look alike. A move decides nothing: whether a plan fits and what it costs, the simulator says."""

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from itertools import chain, combinations, pairwise
from math import inf

from tilewright.plan.plan import Place, Plan
from tilewright.search.improvement.branches import forks
from tilewright.search.improvement.changes import Changes
from tilewright.search.improvement.cuts import Cuts, cutting_of
from tilewright.search.improvement.shape import Kind, Shape, Site
from tilewright.tiling.group import exports

MOST_GROUPS = 6  # that become one in a single move
MOST_NODES = 40  # of a group that is merged
CHAIN = 4  # groups of a path that become one


class Moves:
    """The moves of one network. `joins`: whether groups may be merged and parted; `may_stay` says
    which tensors may be resident at all."""

    def __init__(
        self,
        cuts: Cuts,
        may_stay: Callable[[str], bool],
        *,
        joins: bool = True,
        slower: float = inf,
    ) -> None:
        self.cuts, self.graph, self.network = cuts, cuts.graph, cuts.network
        self.may_stay, self.joins = may_stay, joins
        self._signatures: dict[Hashable, int] = {}
        given = (*self.graph.constants, *self.graph.inputs)
        given = tuple(name for name in given if self.graph.types[name].size > 1)
        readers = dict.fromkeys(self.graph.consumers.get(name, ()) for name in given)
        self._sharing = [nodes for nodes in readers if len(nodes) > 1]
        self.changes = Changes(cuts, may_stay, slower)

    def plans(self, shape: Shape, site: Site) -> Iterator[Plan]:
        """The plans of a move, the most promising first."""
        return self.changes.plans(shape, site)

    def sites(self, shape: Shape, around: Collection[int] | None = None) -> Iterator[Site]:
        """Every place for every move (or those that touch some groups); places that look alike
        together too."""
        found: dict[tuple[Kind, Hashable], list[tuple[int, ...]]] = {}
        signatures = _Signatures(self, shape)
        for kind, groups in self._group_places(shape, around):
            signature = tuple(signatures[number] for number in groups)
            found.setdefault((kind, signature), []).append(groups)
        for (kind, _), places in found.items():
            apart = _disjoint(places)
            if len(apart) > 1 and kind is not Kind.ORDER:
                yield self._site(shape, kind, apart)
            for place in places:
                yield self._site(shape, kind, (place,))
        for site in self.forks(shape):
            if around is None or not set(around).isdisjoint(chain.from_iterable(site.places)):
                yield site
        named: dict[tuple[Kind, Hashable], list[str]] = {}
        for kind, name in self._tensors(shape):
            if around is not None and not self._touched(shape, name, around):
                continue
            named.setdefault((kind, self._tensor_signature(shape, signatures, name)), []).append(
                name
            )
        kept = tuple(name for (kind, _), row in named.items() if kind is Kind.KEEP for name in row)
        if len({key for key in named if key[0] is Kind.KEEP}) > 1:
            yield self._named(shape, Kind.KEEP, kept)
        for (kind, _), names in named.items():
            if len(names) > 1:
                yield self._named(shape, kind, tuple(names))
            for name in names:
                yield self._named(shape, kind, (name,))

    def like(self, before: Shape, site: Site, shape: Shape) -> Iterator[Site]:
        """Places of another plan that look like one of the plan before."""
        (place,), known = site.places, _Signatures(self, shape)
        wanted = [self.signature(before, number) for number in place]
        for kind, groups in self._group_places(shape, None):
            if kind is site.kind and [known[number] for number in groups] == wanted:
                yield self._site(shape, kind, (groups,))

    def forks(self, shape: Shape) -> Iterator[Site]:
        """Places of branches that can run side by side."""
        if self.joins and len(self.network.machine.cores) > 1:
            yield from (self._site(shape, Kind.ABREAST, fork) for fork in forks(shape))

    def _site(self, shape: Shape, kind: Kind, places: tuple[tuple[int, ...], ...]) -> Site:
        groups = shape.plan.groups
        return Site(kind, places, (), (kind, tuple(groups[n] for row in places for n in row)))

    def _named(self, shape: Shape, kind: Kind, names: tuple[str, ...]) -> Site:
        homes = tuple((shape.home[self.graph.producer[name]],) for name in names)
        around = tuple(shape.plan.groups[n] for (n,) in homes)
        return Site(kind, homes, names, (kind, names, around))

    def signature(self, shape: Shape, number: int) -> int:
        """The number of groups that look alike and are cut alike."""
        group = shape.plan.groups[number]
        key = self.cuts.signatures.group(shape.members[number]).key
        return self._signatures.setdefault(
            (key, cutting_of(group), group.place), len(self._signatures)
        )

    def _tensor_signature(self, shape: Shape, signatures: "_Signatures", name: str) -> Hashable:
        maker = shape.home[self.graph.producer[name]]
        names = self.cuts.signatures.group(shape.members[maker]).names
        readers = sorted({shape.home[r] for r in self.graph.consumers.get(name, ())})
        return (names.index(name), tuple(signatures[number] for number in (maker, *readers)))

    def _group_places(
        self, shape: Shape, around: Collection[int] | None
    ) -> Iterator[tuple[Kind, tuple[int, ...]]]:
        plan = shape.plan
        numbers = range(len(plan.groups)) if around is None else sorted(around)
        for number in numbers:
            group = plan.groups[number]
            if group.place is Place.CORES:
                yield Kind.RECUT, (number,)
            if not self.joins:
                continue
            if group.place is Place.CORES and len(group.nodes) > 1:
                yield Kind.PART, (number,)
            if self._cuttable(shape, number) and self._movement(shape, number):
                yield Kind.PLACE, (number,)
            if group.place is not Place.VIEW and len(set(shape.span(number))) > 1:
                yield Kind.ORDER, (number,)
            for other in shape.after[number]:
                pair = number, other
                if all(plan.groups[n].place is Place.CORES for n in pair):
                    yield Kind.SHIFT, pair
        for run in self._runs(shape, numbers):
            yield Kind.ALIGN, run
        for pair in self._swaps(shape, numbers):
            yield Kind.SWAP, pair
        for groups in self._joined(shape, numbers) if self.joins else ():
            nodes = sum(len(plan.groups[number].nodes) for number in groups)
            if len(groups) <= MOST_GROUPS and nodes <= MOST_NODES:
                cores = any(plan.groups[n].place is Place.CORES for n in groups)
                if cores and all(self._cuttable(shape, number) for number in groups):
                    yield Kind.MERGE, groups

    def _runs(self, shape: Shape, numbers: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Groups on cores one after the other: two, four, eight, ..., and all of them."""
        places = (group.place for group in shape.plan.groups)
        cores = [number for number, place in enumerate(places) if place is Place.CORES]
        length = 2
        while length < len(cores) and len(self.network.machine.cores) > 1:
            for start in range(0, len(cores) - length + 1, length // 2):
                run = tuple(cores[start : start + length])
                if not set(run).isdisjoint(numbers):
                    yield run
            length *= 2
        if len(self.network.machine.cores) > 1 and len(cores) > 1:
            yield tuple(cores)

    def _swaps(self, shape: Shape, numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Pairs of groups on other cores each, of which none waits for the other."""
        groups, touched = shape.plan.groups, set(numbers)
        on_cores = [n for n, group in enumerate(groups) if group.place is Place.CORES]
        for pair in combinations(on_cores, 2):
            one, other = pair
            apart = groups[one].cores != groups[other].cores and not touched.isdisjoint(pair)
            if apart and not shape.related(one, other):
                yield pair

    def _joined(self, shape: Shape, numbers: Sequence[int]) -> dict[tuple[int, ...], None]:
        """Groups that can become one: those of paths, pairs that read the same of another group,
        and all or neighbours of those that read the same weights or input."""
        found: dict[tuple[int, ...], None] = {}
        for nodes in self._sharing:
            homes = sorted({shape.home[node] for node in nodes})
            if len(homes) < 2 or any(shape.related(*pair) for pair in combinations(homes, 2)):
                continue
            for groups in (homes, *pairwise(homes)):
                if not set(groups).isdisjoint(numbers):
                    found.setdefault(tuple(groups))
        for number in numbers:
            if self._cuttable(shape, number):
                for path in shape.paths(number, CHAIN):
                    found.setdefault(shape.closed(path))
            for maker in shape.before[number]:
                for pair in pairwise(shape.after[maker]):
                    if number in pair and not shape.related(*pair):
                        found.setdefault(pair)
        return found

    def _cuttable(self, shape: Shape, number: int) -> bool:
        return all(self.cuts.cuttable(node) for node in shape.members[number])

    def _movement(self, shape: Shape, number: int) -> bool:
        """Whether a group only moves data, and may do so on the cores or elsewhere."""
        row = shape.members[number]
        return len(row) == 1 and self.changes.facts.usual(row[0]) is not Place.CORES

    def _touched(self, shape: Shape, name: str, around: Collection[int]) -> bool:
        """Whether a tensor is made or read by some groups."""
        nodes = (self.graph.producer[name], *self.graph.consumers.get(name, ()))
        return any(shape.home[node] in around for node in nodes)

    def _tensors(self, shape: Shape) -> Iterator[tuple[Kind, str]]:
        partly = {name for name, _ in shape.plan.reloaded}
        for number, row in enumerate(shape.members):
            if shape.plan.groups[number].place is not Place.CORES:
                continue
            for name in exports(self.graph, row):
                if name in shape.kept:
                    yield Kind.DROP, name
                    if self.may_stay(name):  # else some have to reload it
                        yield Kind.RELOAD, name
                if (name not in shape.kept or name in partly) and self.changes.facts.keepable(
                    shape, name
                ):
                    yield Kind.KEEP, name


class _Signatures(dict[int, int]):
    """The looks of a plan's groups, found when they are asked for."""

    def __init__(self, moves: Moves, shape: Shape) -> None:
        super().__init__()
        self.moves, self.shape = moves, shape

    def __missing__(self, number: int) -> int:
        self[number] = self.moves.signature(self.shape, number)
        return self[number]


def _disjoint(places: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Places of which no two share a group, the first of each."""
    taken: set[int] = set()
    found: list[tuple[int, ...]] = []
    for place in places:
        if taken.isdisjoint(place):
            taken.update(place)
            found.append(place)
    return tuple(found)
