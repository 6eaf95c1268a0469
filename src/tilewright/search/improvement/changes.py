"""What moves make of a plan, at one place or at several that look alike, the most promising first.
Nothing is decided here: whether a plan fits and what it costs, the simulator says."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice, product
from math import inf

from tilewright.plan.order import order_of
from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.search.improvement.branches import abreast, dealt
from tilewright.search.improvement.cuts import Cuts, Divided, cutting_of
from tilewright.search.improvement.shape import Kind, Shape, Site
from tilewright.search.improvement.tensors import dropped, keeping, kept, reloaded
from tilewright.tiling.group import exports

RANKS = 2  # ways of each kind that neighbours are divided in
PARTINGS = 6  # places at which a group is parted, at most


class Changes:
    """What the moves of one network make. `may_stay` says which tensors may be resident at all;
    cuts that are expected to take more than `slower` times as long as now are left out."""

    def __init__(self, cuts: Cuts, may_stay: Callable[[str], bool], slower: float) -> None:
        self.cuts, self.graph, self.network = cuts, cuts.graph, cuts.network
        self.may_stay, self.slower = may_stay, slower
        self._sizes: dict[str, int] = {}
        self._exports: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.made: Mapping[Kind, Callable[[Shape, Site], Iterator[Plan]]] = {
            Kind.MERGE: self._merged,
            Kind.PART: self._parted,
            Kind.SHIFT: self._shifted,
            Kind.RECUT: self._recut,
            Kind.ALIGN: self._aligned,
            Kind.ABREAST: self._abreast,
            Kind.PLACE: self._placed,
            Kind.ORDER: self._reordered,
            Kind.KEEP: partial(kept, self.graph),
            Kind.DROP: dropped,
            Kind.RELOAD: partial(reloaded, self.graph),
        }

    def plans(self, shape: Shape, site: Site) -> Iterator[Plan]:
        """The plans of a move, the most promising first."""
        return self.made[site.kind](shape, site)

    def usual(self, node: int) -> Place:
        """Where a node runs if nothing else is decided."""
        unit = self.network.units[self.network.home[node]]
        return Place.VIEW if node in unit.views else unit.place

    def keepable(self, shape: Shape, name: str) -> bool:
        """Whether a group on cores makes a tensor, and another reads it."""
        groups, maker = shape.plan.groups, self.graph.producer.get(name)
        if maker is None or groups[shape.home[maker]].place is not Place.CORES:
            return False
        homes = {shape.home[reader] for reader in self.graph.consumers.get(name, ())}
        others = homes - {shape.home[maker]}
        return any(groups[n].place is Place.CORES for n in others) and self.may_stay(name)

    def _recut(self, shape: Shape, site: Site) -> Iterator[Plan]:
        first = site.places[0][0]
        group, members = shape.plan.groups[first], shape.members[first]
        staying, beside = self._staying(shape, first), self._beside(shape, site.places[0])
        ways = self.cuts.ways(members, staying, beside, group.cores)
        near = list(self.cuts.near(group))
        others = self.cuts.elsewhere(members, staying, beside, group.cores)
        rows = (ways[:1], near, others, ways[1:], self.cuts.further(group))
        most, cuttings = self._most(shape, site.places[0]), chain.from_iterable(rows)
        for cutting in self.cuts.there_are(members, staying, beside, most, cuttings):
            if cutting == cutting_of(group):
                continue
            groups = list(shape.plan.groups)
            for (number,) in site.places:
                groups[number] = replace(cutting, nodes=groups[number].nodes)
            yield replace(shape.plan, groups=tuple(groups))

    def _aligned(self, shape: Shape, site: Site) -> Iterator[Plan]:
        """Neighbours divided among the cores alike, so that little is passed between them: by
        channels, by positions or not at all; each in the best such way, or the next smaller."""
        numbers = [number for place in site.places for number in place]
        rows = {number: self._by_division(shape, number) for number in numbers}
        most = self._most(shape, numbers)
        for rank, divided in product(range(RANKS), product(self.cuts.kinds, Divided)):
            groups, cycles = list(shape.plan.groups), 0.0
            for number, row in rows.items():
                if divided in row:
                    way = row[divided][min(rank, len(row[divided]) - 1)]
                    groups[number] = replace(way, nodes=groups[number].nodes)
                cycles += self._cycles(shape, number, groups[number])
            plan = replace(shape.plan, groups=tuple(groups))
            if plan != shape.plan and cycles <= most:
                yield plan

    def _by_division(
        self, shape: Shape, number: int
    ) -> dict[tuple[tuple[str, ...], Divided], list[GroupPlan]]:
        """Ways to cut a group, by how it is divided among which cores."""
        members, staying = shape.members[number], self._staying(shape, number)
        beside = self._beside(shape, (number,))
        rows: dict[tuple[tuple[str, ...], Divided], list[GroupPlan]] = {}
        for cores in self.cuts.kinds:
            for way in self.cuts.ways(members, staying, beside, cores):
                key = (cores, self.cuts.divided(members, way))
                rows.setdefault(key, []).append(way)
        return rows

    def _staying(self, shape: Shape, number: int) -> frozenset[str]:
        """Tensors of a group that stay, and that it does not reload."""
        if number not in shape.staying:
            here = {self.graph.nodes[node].name for node in shape.members[number]}
            fetched = {name for name, readers in shape.plan.reloaded if here & set(readers)}
            names = self.cuts.signatures.group(shape.members[number]).names
            kept = frozenset(n for n in names if n in shape.kept and n not in fetched)
            shape.staying[number] = kept
        return shape.staying[number]

    def _beside(self, shape: Shape, numbers: tuple[int, ...]) -> int:
        """Bytes of tensors that only stay while some groups run."""
        if numbers not in shape.beside:
            inside = {n for number in numbers for n in shape.members[number]}
            passing = (
                self._size(name)
                for name in shape.passing(numbers)
                if inside.isdisjoint(self.graph.consumers.get(name, ()))
            )
            shape.beside[numbers] = sum(passing)
        return shape.beside[numbers]

    def _most(self, shape: Shape, numbers: Sequence[int]) -> float:
        """Cycles that what takes the place of some groups may be expected to take."""
        groups = [(n, shape.plan.groups[n]) for n in numbers]
        on_cores = ((n, group) for n, group in groups if group.place is Place.CORES)
        return self.slower * sum(self._cycles(shape, n, group) for n, group in on_cores)

    def _cycles(self, shape: Shape, number: int, group: GroupPlan) -> float:
        """What a group is expected to take if it is cut as given."""
        staying = self._staying(shape, number)
        return self.cuts.cycles(shape.members[number], staying, cutting_of(group))

    def _size(self, name: str) -> int:
        if name not in self._sizes:
            shape = self.graph.types[name].shape
            self._sizes[name] = self.network.layouts.bytes(name, shape, aligned=True)
        return self._sizes[name]

    def _merged(self, shape: Shape, site: Site) -> Iterator[Plan]:
        places = self._same_joined(shape, site.places)
        groups = [shape.plan.groups[number] for number in places[0]]
        members = self._joined(shape, places[0])
        staying = frozenset(
            name for number in places[0] for name in self._staying(shape, number)
        ).difference(self._inside(shape, places[0]))
        beside, cores = self._beside(shape, places[0]), _cores_of(groups)
        best = self.cuts.ways(members, staying, beside, cores)
        others = self.cuts.elsewhere(members, staying, beside, cores)
        cuttings = chain(best[:2], self.cuts.like(groups), others, best[2:])
        most = self._most(shape, places[0])
        for cutting in self.cuts.there_are(members, staying, beside, most, cuttings):
            plan = self._with_joined(shape, places, cutting)
            if plan is not None:
                yield plan

    def _inside(self, shape: Shape, numbers: Sequence[int]) -> set[str]:
        """Tensors that only pass between some groups."""
        members = self._joined(shape, numbers)
        outside = exports(self.graph, members)
        made = {name for node in members for name in self.graph.nodes[node].writes}
        return made.difference(outside)

    def _abreast(self, shape: Shape, site: Site) -> Iterator[Plan]:
        """Branches side by side, each on cores of its own: in as many lots of cores as there can
        be, or in two; groups cut in the best way for their cores, or for fewer of these where that
        is expected to be faster; what passes between them kept, or not."""
        names = [core.name for core in self.network.machine.cores]
        works = self._works(shape, site.places)
        rows = [sum(works[number] for number in branch) for branch in site.places]
        order = abreast(site.places, works)
        for count, fewer in product(dict.fromkeys((min(len(rows), len(names)), 2)), (False, True)):
            groups = list(shape.plan.groups)
            for branch, lot in zip(site.places, dealt(rows, names, count), strict=True):
                for number in branch:
                    groups[number] = self._on(shape, number, lot, fewer)
            places = dict(zip(sorted(order), order, strict=True))
            plan = self._ordered(shape.plan, [groups[places.get(n, n)] for n in range(len(groups))])
            if plan is not None:
                made, nodes = Shape(self.graph, plan), {shape.members[number] for number in order}
                here = [number for number, row in enumerate(made.members) if row in nodes]
                found = dict.fromkeys((keeping(plan, self._around(made, here)), plan))
                yield from (changed for changed in found if changed != shape.plan)

    def _works(self, shape: Shape, places: Sequence[Sequence[int]]) -> dict[int, float]:
        """What groups are expected to take, of all cores that they run on together."""
        works: dict[int, float] = {}
        for number in chain.from_iterable(places):
            group = shape.plan.groups[number]
            cores = len(group.cores) or len(self.network.machine.cores)
            used = 1 if group.core_split is None else cores
            cycles = self._cycles(shape, number, group) if group.place is Place.CORES else inf
            works[number] = used * cycles if cycles < inf else 0.0
        return works

    def _on(self, shape: Shape, number: int, lot: tuple[str, ...], fewer: bool) -> GroupPlan:
        """A group on some cores, or on the first of them."""
        group = shape.plan.groups[number]
        if group.place is not Place.CORES:
            return group
        members, staying = shape.members[number], self._staying(shape, number)
        beside = self._beside(shape, (number,))
        found: list[GroupPlan] = []
        size = len(lot)
        while size:
            found += self.cuts.ways(members, staying, beside, lot[:size])[:1]
            size = size // 2 if fewer else 0
        best = min(found, key=lambda way: self._cycles(shape, number, way), default=group)
        return replace(best, nodes=group.nodes)

    def _shifted(self, shape: Shape, site: Site) -> Iterator[Plan]:
        """The last operators of a group go over to one that reads from it, or the first of that
        one to the group before; what is passed between them then is kept or not."""
        for forward in (True, False):
            for whole in (True, False):
                groups = list(shape.plan.groups)
                added: list[str] = []
                for first, second in site.places:
                    rows = self._with_shifted(shape, first, second, forward, whole)
                    if rows is None:
                        break
                    for number, row in zip((first, second), rows, strict=True):
                        groups[number] = replace(groups[number], nodes=self.network.names(row))
                    added += self._between(*rows)
                else:
                    kept = tuple(dict.fromkeys((*shape.plan.resident, *added)))
                    for resident in dict.fromkeys((kept, shape.plan.resident)):
                        plan = self._ordered(replace(shape.plan, resident=resident), groups)
                        if plan is not None:
                            yield plan

    def _with_shifted(
        self, shape: Shape, first: int, second: int, forward: bool, whole: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The nodes of two groups after a unit, or a single node of one, went over."""
        home = self.network.home
        before, behind = shape.members[first], shape.members[second]
        source, node = (before, before[-1]) if forward else (behind, behind[0])
        unit = tuple(n for n in source if home[n] == home[node])
        moved = unit if whole else (node,)
        left = tuple(n for n in source if n not in moved)
        if not left or (not whole and len(unit) == 1):
            return None
        return (left, (*moved, *behind)) if forward else ((*before, *moved), left)

    def _between(self, first: Sequence[int], second: Sequence[int]) -> list[str]:
        """Tensors that one set of nodes hands to another, and that may stay."""
        read = {name for node in second for name in self.graph.nodes[node].inputs}
        passed = (name for name in exports(self.graph, first) if name in read)
        return [name for name in passed if self.may_stay(name)]

    def _reordered(self, shape: Shape, site: Site) -> Iterator[Plan]:
        """A group as early or as late as it can run, or one place earlier or later."""
        ((number,),) = site.places
        groups = shape.plan.groups
        earliest, latest = shape.span(number)
        for place in dict.fromkeys((earliest, latest, number - 1, number + 1)):
            if earliest <= place <= latest and place != number:
                rest = [*groups[:number], *groups[number + 1 :]]
                order = (*rest[:place], groups[number], *rest[place:])
                yield replace(shape.plan, groups=order)

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
        self, shape: Shape, places: tuple[tuple[int, ...], ...], cutting: GroupPlan
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
                rows[number] = [replace(cutting, nodes=names)]
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
            for name in self._leaving(group.nodes)
        }
        resident = tuple(name for name in plan.resident if name in passed)
        reloaded = tuple(row for row in plan.reloaded if row[0] in passed)
        shared = tuple(
            (memory, tuple(n for n in row if n in passed)) for memory, row in plan.shared
        )
        return replace(
            plan,
            groups=tuple(groups[number] for number in order),
            resident=resident,
            reloaded=reloaded,
            shared=tuple(row for row in shared if row[1]),
        )

    def _leaving(self, nodes: tuple[str, ...]) -> tuple[str, ...]:
        """Values that nodes hand to others."""
        if nodes not in self._exports:
            self._exports[nodes] = tuple(
                exports(self.graph, [self.graph.index[name] for name in nodes])
            )
        return self._exports[nodes]

    def _parted(self, shape: Shape, site: Site) -> Iterator[Plan]:
        members = shape.members[site.places[0][0]]
        home = self.network.home
        positions = range(1, len(members))
        apart = [p for p in positions if home[members[p - 1]] != home[members[p]]]
        points = dict.fromkeys((*apart, *positions))
        for position in islice(points, PARTINGS):
            for anew in (0, 1, 2):
                for keeps in (True, False):
                    plan = self._with_parts(shape, site, position, anew, keeps)
                    if plan is not None:
                        yield plan

    def _with_parts(
        self, shape: Shape, site: Site, position: int, anew: int, keeps: bool
    ) -> Plan | None:
        """Groups parted behind some of their nodes: cut as before, or as the first part, or both,
        would be by themselves."""
        groups = list(shape.plan.groups)
        added: list[str] = []
        made: list[GroupPlan] = []
        chosen = {number for (number,) in site.places}
        for number, group in enumerate(groups):
            if number not in chosen:
                made.append(group)
                continue
            row = shape.members[number]
            own, beside = cutting_of(group), self._beside(shape, (number,))
            parts = (row[:position], row[position:])
            for which, part in enumerate(parts):
                ways = self.cuts.ways(part, shape.kept, beside, own.cores) if which < anew else []
                made.append(self._part(part, ways[0] if ways else own))
            if keeps and all(group.place is Place.CORES for group in made[-2:]):
                added += self._between(*parts)
        if keeps and not added:
            return None
        kept = tuple(dict.fromkeys((*shape.plan.resident, *added)))
        return self._ordered(replace(shape.plan, resident=kept), made)

    def _part(self, nodes: tuple[int, ...], cutting: GroupPlan) -> GroupPlan:
        names = self.network.names(nodes)
        if len(nodes) == 1 and self.usual(nodes[0]) is not Place.CORES:
            return GroupPlan(names, (), None, self.usual(nodes[0]))
        return replace(cutting, nodes=names)

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
        members, beside = shape.members[first], self._beside(shape, (first,))
        nothing: frozenset[str] = frozenset()
        ways = self.cuts.ways(members, nothing, beside, _cores_of(neighbours))
        cuttings = chain(ways, self.cuts.like(neighbours))
        for cutting in self.cuts.there_are(members, nothing, beside, inf, cuttings):
            changed = list(groups)
            for number in numbers:
                changed[number] = replace(cutting, nodes=groups[number].nodes)
            plan = replace(shape.plan, groups=tuple(changed))
            around = self._around(Shape(self.graph, plan), numbers)
            if around:
                yield keeping(plan, around)
            yield plan

    def _around(self, shape: Shape, numbers: Sequence[int]) -> list[str]:
        """Tensors that groups read and make, and that can stay."""
        nodes = [self.graph.nodes[node] for n in numbers for node in shape.members[n]]
        names = dict.fromkeys(name for node in nodes for name in (*node.reads, *node.writes))
        return [name for name in names if self.keepable(shape, name)]


def _cores_of(groups: Sequence[GroupPlan]) -> tuple[str, ...]:
    """The cores that all of some groups run on that run on cores; none where they differ."""
    cores = {group.cores for group in groups if group.place is Place.CORES}
    return cores.pop() if len(cores) == 1 else ()
