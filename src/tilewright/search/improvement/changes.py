"""What moves make of a plan, at one place or at several that look alike, the most promising first.
Nothing is decided here: whether a plan fits and what it costs, the simulator says."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from math import inf

from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.search.improvement.cuts import Cuts, cutting_of
from tilewright.search.improvement.facts import Facts
from tilewright.search.improvement.on_cores import OnCores
from tilewright.search.improvement.shape import Kind, Shape, Site
from tilewright.search.improvement.tensors import dropped, keeping, kept, reloaded
from tilewright.tiling.group import exports

PARTINGS = 6  # places at which a group is parted, at most


class Changes:
    """What the moves of one network make. `may_stay` says which tensors may be resident at all;
    cuts that are expected to take more than `slower` times as long as now are left out."""

    def __init__(self, cuts: Cuts, may_stay: Callable[[str], bool], slower: float) -> None:
        self.cuts, self.graph, self.network = cuts, cuts.graph, cuts.network
        self.may_stay = may_stay
        self.facts = Facts(cuts, may_stay, slower)
        on_cores = OnCores(self.facts)
        self.made: Mapping[Kind, Callable[[Shape, Site], Iterator[Plan]]] = {
            Kind.MERGE: self._merged,
            Kind.PART: self._parted,
            Kind.SHIFT: self._shifted,
            Kind.RECUT: self._recut,
            Kind.ALIGN: on_cores.aligned,
            Kind.ABREAST: on_cores.abreast,
            Kind.SWAP: on_cores.swapped,
            Kind.PLACE: self._placed,
            Kind.ORDER: self._reordered,
            Kind.KEEP: partial(kept, self.graph),
            Kind.DROP: dropped,
            Kind.RELOAD: partial(reloaded, self.graph),
        }

    def plans(self, shape: Shape, site: Site) -> Iterator[Plan]:
        """The plans of a move, the most promising first."""
        return self.made[site.kind](shape, site)

    def _recut(self, shape: Shape, site: Site) -> Iterator[Plan]:
        first = site.places[0][0]
        group, members = shape.plan.groups[first], shape.members[first]
        staying, beside = self.facts.staying(shape, first), self.facts.beside(shape, site.places[0])
        ways = self.cuts.ways(members, staying, beside, group.cores)
        near = list(self.cuts.near(group))
        others = self.cuts.elsewhere(members, staying, beside, group.cores)
        rows = (ways[:1], near, others, ways[1:], self.cuts.further(group))
        most, cuttings = self.facts.most(shape, site.places[0]), chain.from_iterable(rows)
        for cutting in self.cuts.there_are(members, staying, beside, most, cuttings):
            if cutting == cutting_of(group):
                continue
            groups = list(shape.plan.groups)
            for (number,) in site.places:
                groups[number] = replace(cutting, nodes=groups[number].nodes)
            yield replace(shape.plan, groups=tuple(groups))

    def _merged(self, shape: Shape, site: Site) -> Iterator[Plan]:
        places = self._same_joined(shape, site.places)
        groups = [shape.plan.groups[number] for number in places[0]]
        members = self._joined(shape, places[0])
        staying = frozenset(
            name for number in places[0] for name in self.facts.staying(shape, number)
        ).difference(self._inside(shape, places[0]))
        beside, cores = self.facts.beside(shape, places[0]), _cores_of(groups)
        best = self.cuts.ways(members, staying, beside, cores)
        others = self.cuts.elsewhere(members, staying, beside, cores)
        cuttings = chain(best[:2], self.cuts.like(groups), others, best[2:])
        most = self.facts.most(shape, places[0])
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
                        plan = self.facts.ordered(replace(shape.plan, resident=resident), groups)
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
        return self.facts.ordered(shape.plan, [group for row in rows.values() for group in row])

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
            own, beside = cutting_of(group), self.facts.beside(shape, (number,))
            parts = (row[:position], row[position:])
            for which, part in enumerate(parts):
                ways = self.cuts.ways(part, shape.kept, beside, own.cores) if which < anew else []
                made.append(self._part(part, ways[0] if ways else own))
            if keeps and all(group.place is Place.CORES for group in made[-2:]):
                added += self._between(*parts)
        if keeps and not added:
            return None
        kept = tuple(dict.fromkeys((*shape.plan.resident, *added)))
        return self.facts.ordered(replace(shape.plan, resident=kept), made)

    def _part(self, nodes: tuple[int, ...], cutting: GroupPlan) -> GroupPlan:
        names = self.network.names(nodes)
        if len(nodes) == 1 and self.facts.usual(nodes[0]) is not Place.CORES:
            return GroupPlan(names, (), None, self.facts.usual(nodes[0]))
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
            plan = self.facts.ordered(shape.plan, back)
            if plan is not None:
                yield plan
            return
        neighbours = [groups[n] for n in (*shape.before[first], *shape.after[first])]
        members, beside = shape.members[first], self.facts.beside(shape, (first,))
        nothing: frozenset[str] = frozenset()
        ways = self.cuts.ways(members, nothing, beside, _cores_of(neighbours))
        cuttings = chain(ways, self.cuts.like(neighbours))
        for cutting in self.cuts.there_are(members, nothing, beside, inf, cuttings):
            changed = list(groups)
            for number in numbers:
                changed[number] = replace(cutting, nodes=groups[number].nodes)
            plan = replace(shape.plan, groups=tuple(changed))
            around = self.facts.around(Shape(self.graph, plan), numbers)
            if around:
                yield keeping(plan, around)
            yield plan


def _cores_of(groups: Sequence[GroupPlan]) -> tuple[str, ...]:
    """The cores that all of some groups run on that run on cores; none where they differ."""
    cores = {group.cores for group in groups if group.place is Place.CORES}
    return cores.pop() if len(cores) == 1 else ()
