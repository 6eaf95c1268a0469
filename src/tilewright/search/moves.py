"""The moves of the improvement: each makes other plans from a plan, at one place or at all that
look alike. A move decides nothing: whether a plan fits and what it costs, the simulator says."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice

from tilewright.graph.graph import Graph
from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.search.cuts import Cuts, Way, sane, way_of
from tilewright.search.trials import order_of
from tilewright.tiling.group import exports

MOST_GROUPS = 6  # that become one in a single move
MOST_NODES = 40  # of a group that is merged
CHAIN = 4  # groups of a path that become one
PARTINGS = 6  # places at which a group is parted, at most


class Kind(StrEnum):
    """What a move does."""

    MERGE = "merge"
    PART = "part"
    RECUT = "recut"
    PLACE = "place"
    KEEP = "keep"
    DROP = "drop"
    RELOAD = "reload"


@dataclass(frozen=True, slots=True)
class Site:
    """Where a move can be made: at each of `places`, groups by number, or with tensors. `key` is
    the same as long as nothing changes there."""

    kind: Kind
    places: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    key: Hashable

    @property
    def alike(self) -> bool:
        """Whether it changes several places at once."""
        return max(len(self.places), len(self.names)) > 1


class Shape:
    """A plan's groups, and what passes between them."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.plan = plan
        index = graph.index
        self.members = [tuple(sorted(index[n] for n in group.nodes)) for group in plan.groups]
        self.home = {node: number for number, row in enumerate(self.members) for node in row}
        self.before: list[list[int]] = []
        self.after: list[list[int]] = [[] for _ in plan.groups]
        for number, row in enumerate(self.members):
            makers = {self.home[p] for node in row for p in graph.predecessors(node)}
            self.before.append(sorted(makers - {number}))
            for maker in self.before[-1]:
                self.after[maker].append(number)
        self.ancestors = [0] * len(plan.groups)
        for number, makers in enumerate(self.before):
            for maker in makers:
                self.ancestors[number] |= self.ancestors[maker] | 1 << maker
        self.kept = frozenset(plan.resident)

    def closed(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Groups with all that lie on paths between them."""
        needed = 0
        for number in numbers:
            needed |= self.ancestors[number]
        inside = sum(1 << number for number in numbers)
        low, high = min(numbers), max(numbers)
        between = (n for n in range(low, high) if needed >> n & 1 and self.ancestors[n] & inside)
        return tuple(sorted({*numbers, *between}))

    def paths(self, first: int, length: int) -> Iterator[tuple[int, ...]]:
        """Paths of two groups or more that begin with one."""
        if length > 1:
            for following in self.after[first]:
                yield (first, following)
                for path in self.paths(following, length - 1):
                    yield (first, *path)


class Moves:
    """The moves of one network. `joins`: whether groups may be merged and parted; `may_stay` says
    which tensors may be resident at all."""

    def __init__(self, cuts: Cuts, may_stay: Callable[[str], bool], *, joins: bool = True) -> None:
        self.cuts, self.graph, self.network = cuts, cuts.graph, cuts.network
        self.may_stay, self.joins = may_stay, joins
        self._looks: dict[Hashable, int] = {}
        self.made: Mapping[Kind, Callable[[Shape, Site], Iterator[Plan]]] = {
            Kind.MERGE: self._merged,
            Kind.PART: self._parted,
            Kind.RECUT: self._recut,
            Kind.PLACE: self._placed,
            Kind.KEEP: self._kept,
            Kind.DROP: self._dropped,
            Kind.RELOAD: self._reloaded,
        }

    def plans(self, shape: Shape, site: Site) -> Iterator[Plan]:
        """The plans of a move, the most promising first."""
        return self.made[site.kind](shape, site)

    def sites(self, shape: Shape) -> Iterator[Site]:
        """Every place for every move; places that look alike together too."""
        found: dict[tuple[Kind, Hashable], list[tuple[int, ...]]] = {}
        looks = [self._look(shape, number) for number in range(len(shape.plan.groups))]
        for kind, groups in self._group_places(shape):
            look = tuple(looks[number] for number in groups)
            found.setdefault((kind, look), []).append(groups)
        for (kind, _), places in found.items():
            apart = _disjoint(places)
            if len(apart) > 1:
                yield self._site(shape, kind, apart)
            for place in places:
                yield self._site(shape, kind, (place,))
        named: dict[tuple[Kind, Hashable], list[str]] = {}
        for kind, name in self._tensors(shape):
            named.setdefault((kind, self._tensor_look(shape, looks, name)), []).append(name)
        for (kind, _), names in named.items():
            if len(names) > 1:
                yield self._named(shape, kind, tuple(names))
            for name in names:
                yield self._named(shape, kind, (name,))

    def _site(self, shape: Shape, kind: Kind, places: tuple[tuple[int, ...], ...]) -> Site:
        groups = shape.plan.groups
        return Site(kind, places, (), (kind, tuple(groups[n] for row in places for n in row)))

    def _named(self, shape: Shape, kind: Kind, names: tuple[str, ...]) -> Site:
        homes = tuple((shape.home[self.graph.producer[name]],) for name in names)
        around = tuple(shape.plan.groups[n] for (n,) in homes)
        return Site(kind, homes, names, (kind, names, around))

    def _look(self, shape: Shape, number: int) -> int:
        """The number of groups that look alike and are cut alike."""
        group = shape.plan.groups[number]
        key = self.cuts.signatures.group(shape.members[number]).key
        return self._looks.setdefault((key, way_of(group), group.place), len(self._looks))

    def _tensor_look(self, shape: Shape, looks: Sequence[int], name: str) -> Hashable:
        maker = shape.home[self.graph.producer[name]]
        names = self.cuts.signatures.group(shape.members[maker]).names
        readers = sorted({shape.home[r] for r in self.graph.consumers.get(name, ())})
        return (names.index(name), tuple(looks[number] for number in (maker, *readers)))

    def _group_places(self, shape: Shape) -> Iterator[tuple[Kind, tuple[int, ...]]]:
        plan = shape.plan
        joined: dict[tuple[int, ...], None] = {}
        for number, group in enumerate(plan.groups):
            if group.place is Place.CORES:
                yield Kind.RECUT, (number,)
            if not self.joins:
                continue
            if group.place is Place.CORES and len(group.nodes) > 1:
                yield Kind.PART, (number,)
            if self._cuttable(shape, number) and self._movement(shape, number):
                yield Kind.PLACE, (number,)
            if self._cuttable(shape, number):
                for path in shape.paths(number, CHAIN):
                    joined.setdefault(shape.closed(path))
        for groups in joined:
            nodes = sum(len(plan.groups[number].nodes) for number in groups)
            if len(groups) <= MOST_GROUPS and nodes <= MOST_NODES:
                cores = any(plan.groups[n].place is Place.CORES for n in groups)
                if cores and all(self._cuttable(shape, number) for number in groups):
                    yield Kind.MERGE, groups

    def _cuttable(self, shape: Shape, number: int) -> bool:
        return all(self.cuts.cuttable(node) for node in shape.members[number])

    def _movement(self, shape: Shape, number: int) -> bool:
        """Whether a group only moves data, and may do so on the cores or elsewhere."""
        row = shape.members[number]
        return len(row) == 1 and self._usual(row[0]) is not Place.CORES

    def _usual(self, node: int) -> Place:
        """Where a node runs if nothing else is decided."""
        unit = self.network.units[self.network.home[node]]
        return Place.VIEW if node in unit.views else unit.place

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
                if (name not in shape.kept or name in partly) and self._keepable(shape, name):
                    yield Kind.KEEP, name

    def _keepable(self, shape: Shape, name: str) -> bool:
        """Whether a group on cores makes a tensor, and another reads it."""
        groups, maker = shape.plan.groups, self.graph.producer.get(name)
        if maker is None or groups[shape.home[maker]].place is not Place.CORES:
            return False
        homes = {shape.home[reader] for reader in self.graph.consumers.get(name, ())}
        others = homes - {shape.home[maker]}
        return any(groups[n].place is Place.CORES for n in others) and self.may_stay(name)

    # -- what the moves make -------------------------------------------------------------------

    def _recut(self, shape: Shape, site: Site) -> Iterator[Plan]:
        first = site.places[0][0]
        group, members = shape.plan.groups[first], shape.members[first]
        near, staying = self.cuts.near(group), self._staying(shape, first)
        ways = (*near, *self.cuts.estimated(members, staying), *self.cuts.crossed(members))
        for way in dict.fromkeys(ways):
            if way != way_of(group) and sane(way):
                groups = list(shape.plan.groups)
                for (number,) in site.places:
                    groups[number] = replace(way, nodes=groups[number].nodes)
                yield replace(shape.plan, groups=tuple(groups))

    def _staying(self, shape: Shape, number: int) -> frozenset[str]:
        """Tensors of a group that stay, and that it does not reload."""
        here = {self.graph.nodes[node].name for node in shape.members[number]}
        fetched = {name for name, readers in shape.plan.reloaded if here & set(readers)}
        names = self.cuts.signatures.group(shape.members[number]).names
        return frozenset(n for n in names if n in shape.kept and n not in fetched)

    def _merged(self, shape: Shape, site: Site) -> Iterator[Plan]:
        places = self._same_joined(shape, site.places)
        groups = [shape.plan.groups[number] for number in places[0]]
        members = self._joined(shape, places[0])
        for way in self._joined_ways(members, groups, shape.kept):
            plan = self._with_joined(shape, places, way) if sane(way) else None
            if plan is not None:
                yield plan

    def _joined_ways(
        self, members: tuple[int, ...], groups: Sequence[GroupPlan], kept: frozenset[str]
    ) -> Iterator[Way]:
        """Ways to cut groups as one; estimates are made only when it comes to them."""
        best = self.cuts.estimated(members, kept)
        yield from best[:1]
        yield from self.cuts.like(groups)
        yield from self.cuts.crossed(members)
        yield from best[1:]

    def _joined(self, shape: Shape, numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(node for number in numbers for node in shape.members[number]))

    def _same_joined(
        self, shape: Shape, places: tuple[tuple[int, ...], ...]
    ) -> tuple[tuple[int, ...], ...]:
        """The places that look alike when they are merged, too."""
        signatures = self.cuts.signatures
        keys = [signatures.group(self._joined(shape, place)).key for place in places]
        return tuple(p for p, key in zip(places, keys, strict=True) if key == keys[0])

    def _with_joined(
        self, shape: Shape, places: tuple[tuple[int, ...], ...], way: Way
    ) -> Plan | None:
        """The plan with groups joined; None where they would wait for each other."""
        first = {number: place[0] for place in places for number in place}
        rows: dict[int, list[GroupPlan]] = {}
        for number, group in enumerate(shape.plan.groups):
            if number not in first:
                rows[number] = [group]
            elif number == first[number]:
                place = next(row for row in places if row[0] == number)
                names = self.network.names(self._joined(shape, place))
                rows[number] = [replace(way, nodes=names)]
        return self._ordered(shape.plan, [group for row in rows.values() for group in row])

    def _ordered(self, plan: Plan, groups: Sequence[GroupPlan]) -> Plan | None:
        """Groups in an order that runs, and only those tensors kept that pass between them."""
        home = {name: number for number, group in enumerate(groups) for name in group.nodes}
        order = order_of(self.graph, home, len(groups))
        if order is None:
            return None
        passed = {
            name
            for group in groups
            if group.place is Place.CORES
            for name in exports(self.graph, [self.graph.index[node] for node in group.nodes])
        }
        resident = tuple(name for name in plan.resident if name in passed)
        reloaded = tuple(row for row in plan.reloaded if row[0] in passed)
        ordered = tuple(groups[number] for number in order)
        return replace(plan, groups=ordered, resident=resident, reloaded=reloaded)

    def _parted(self, shape: Shape, site: Site) -> Iterator[Plan]:
        members = shape.members[site.places[0][0]]
        home = self.network.home
        positions = range(1, len(members))
        apart = [p for p in positions if home[members[p - 1]] != home[members[p]]]
        points = dict.fromkeys((*apart, *positions))
        for position in islice(points, PARTINGS):
            for prefix in (0, 1):
                for keeps in (True, False):
                    plan = self._with_parts(shape, site, position, prefix, keeps)
                    if plan is not None:
                        yield plan

    def _with_parts(
        self, shape: Shape, site: Site, position: int, prefix: int, keeps: bool
    ) -> Plan | None:
        """Groups parted behind some of their nodes: the second part is cut as before, the first as
        before or as it would be by itself."""
        groups = list(shape.plan.groups)
        added: list[str] = []
        made: list[GroupPlan] = []
        chosen = {number for (number,) in site.places}
        for number, group in enumerate(groups):
            if number not in chosen:
                made.append(group)
                continue
            row = shape.members[number]
            own = way_of(group)
            parts = (row[:position], row[position:])
            ways = (self.cuts.estimated(parts[0], shape.kept)[:1] or (own,)) if prefix else (own,)
            for part, way in zip(parts, (ways[0], own), strict=True):
                made.append(self._part(part, way))
            if keeps and all(group.place is Place.CORES for group in made[-2:]):
                read = {name for node in parts[1] for name in self.graph.nodes[node].inputs}
                between = (name for name in exports(self.graph, parts[0]) if name in read)
                added += [name for name in between if self.may_stay(name)]
        if keeps and not added:
            return None
        kept = tuple(dict.fromkeys((*shape.plan.resident, *added)))
        return self._ordered(replace(shape.plan, resident=kept), made)

    def _part(self, nodes: tuple[int, ...], way: Way) -> GroupPlan:
        names = self.network.names(nodes)
        if len(nodes) == 1 and self._usual(nodes[0]) is not Place.CORES:
            return GroupPlan(names, (), None, self._usual(nodes[0]))
        return replace(way, nodes=names)

    def _placed(self, shape: Shape, site: Site) -> Iterator[Plan]:
        """Data movement on the cores, what it reads and makes kept or not; or back."""
        first = site.places[0][0]
        groups = shape.plan.groups
        numbers = [number for (number,) in site.places]
        if groups[first].place is Place.CORES:
            back = [
                self._part(shape.members[n], group) if n in numbers else group
                for n, group in enumerate(groups)
            ]
            plan = self._ordered(shape.plan, back)
            if plan is not None:
                yield plan
            return
        neighbours = [groups[n] for n in (*shape.before[first], *shape.after[first])]
        ways = (
            *self.cuts.estimated(shape.members[first], frozenset()),
            *self.cuts.like(neighbours),
        )
        for way in filter(sane, dict.fromkeys(ways)):
            changed = list(groups)
            for number in numbers:
                changed[number] = replace(way, nodes=groups[number].nodes)
            plan = replace(shape.plan, groups=tuple(changed))
            around = self._around(Shape(self.graph, plan), numbers)
            if around:
                yield _keeping(plan, around)
            yield plan

    def _around(self, shape: Shape, numbers: Sequence[int]) -> list[str]:
        """Tensors that groups read and make, and that can stay."""
        nodes = [self.graph.nodes[node] for n in numbers for node in shape.members[n]]
        names = dict.fromkeys(name for node in nodes for name in (*node.reads, *node.writes))
        return [name for name in names if self._keepable(shape, name)]

    def _kept(self, shape: Shape, site: Site) -> Iterator[Plan]:
        plan = _keeping(shape.plan, site.names)
        yield plan
        makers = [number for (number,) in site.places]
        readers = [
            number
            for name in site.names
            for number in sorted({shape.home[r] for r in self.graph.consumers.get(name, ())})
        ]
        for numbers in (readers, makers, (*makers, *readers)):
            finer = self._finer(plan, numbers)
            if finer != plan:
                yield finer

    def _finer(self, plan: Plan, numbers: Sequence[int]) -> Plan:
        """The plan with groups cut twice as finely."""
        groups = list(plan.groups)
        for number in dict.fromkeys(numbers):
            splits = groups[number].splits
            if groups[number].place is Place.CORES and splits:
                last = replace(splits[-1], parts=2 * splits[-1].parts)
                groups[number] = replace(groups[number], splits=(*splits[:-1], last))
        return replace(plan, groups=tuple(groups))

    def _dropped(self, shape: Shape, site: Site) -> Iterator[Plan]:
        plan, gone = shape.plan, set(site.names)
        resident = tuple(name for name in plan.resident if name not in gone)
        reloaded = tuple(row for row in plan.reloaded if row[0] not in gone)
        yield replace(plan, resident=resident, reloaded=reloaded)

    def _reloaded(self, shape: Shape, site: Site) -> Iterator[Plan]:
        """Tensors read again from the main memory by the last group, or by all but the first."""
        for last in (slice(-1, None), slice(1, None)):
            rows = dict(shape.plan.reloaded)
            for name in site.names:
                nodes = self.graph.consumers.get(name, ())
                groups = sorted({shape.home[node] for node in nodes})
                if len(groups) > 1:
                    later = set(groups[last])
                    again = [node for node in nodes if shape.home[node] in later]
                    rows[name] = self.network.names(again)
            plan = replace(shape.plan, reloaded=tuple(rows.items()))
            if plan != shape.plan:
                yield plan


def _keeping(plan: Plan, names: Sequence[str]) -> Plan:
    """The plan with tensors kept for all who read them."""
    reloaded = tuple(row for row in plan.reloaded if row[0] not in names)
    return replace(plan, resident=tuple(dict.fromkeys((*plan.resident, *names))), reloaded=reloaded)


def _disjoint(places: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Places of which no two share a group, the first of each."""
    taken: set[int] = set()
    found: list[tuple[int, ...]] = []
    for place in places:
        if taken.isdisjoint(place):
            taken.update(place)
            found.append(place)
    return tuple(found)
