"""Moves that give groups other cores: neighbours divided alike, branches side by side, and groups
that change places."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from math import inf

from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.search.improvement.branches import abreast, dealt, quickest
from tilewright.search.improvement.cuts import Divided
from tilewright.search.improvement.facts import Facts
from tilewright.search.improvement.shape import Shape, Site
from tilewright.search.improvement.tensors import keeping

RANKS = 2  # ways of each kind that groups are divided in


class OnCores:
    """What moves make of a plan that change which cores groups run on."""

    def __init__(self, facts: Facts) -> None:
        self.facts, self.cuts = facts, facts.cuts
        self.graph, self.network = facts.graph, facts.network

    def aligned(self, shape: Shape, site: Site) -> Iterator[Plan]:
        """Neighbours divided among the cores alike, so that little is passed between them: by
        channels, by positions or not at all; each in the best such way, or the next smaller."""
        numbers = [number for place in site.places for number in place]
        rows = {number: self._by_division(shape, number) for number in numbers}
        most = self.facts.most(shape, numbers)
        for rank, divided in product(range(RANKS), product(self.cuts.kinds, Divided)):
            groups, cycles = list(shape.plan.groups), 0.0
            for number, row in rows.items():
                if divided in row:
                    way = row[divided][min(rank, len(row[divided]) - 1)]
                    groups[number] = replace(way, nodes=groups[number].nodes)
                cycles += self.facts.cycles(shape, number, groups[number])
            plan = replace(shape.plan, groups=tuple(groups))
            if plan != shape.plan and cycles <= most:
                yield plan

    def _by_division(
        self, shape: Shape, number: int
    ) -> dict[tuple[tuple[str, ...], Divided], list[GroupPlan]]:
        """Ways to cut a group, by how it is divided among which cores."""
        members = shape.members[number]
        rows: dict[tuple[tuple[str, ...], Divided], list[GroupPlan]] = {}
        for cores in self.cuts.kinds:
            for way in self._ways(shape, number, cores):
                key = (cores, self.cuts.divided(members, way))
                rows.setdefault(key, []).append(way)
        return rows

    def _ways(self, shape: Shape, number: int, cores: tuple[str, ...]) -> list[GroupPlan]:
        """Cuts of a group for some cores, the best first."""
        staying, beside = self.facts.staying(shape, number), self.facts.beside(shape, (number,))
        return self.cuts.ways(shape.members[number], staying, beside, cores)

    def abreast(self, shape: Shape, site: Site) -> Iterator[Plan]:
        """Branches side by side, each on cores of its own; groups cut in the best way for their
        cores, or for fewer of these where that is expected to be faster; what passes between them
        kept, or not."""
        works = self._works(shape, site.places)
        for lots, fewer in product(self._lots(shape, site.places, works), (False, True)):
            groups = list(shape.plan.groups)
            for branch, lot in zip(site.places, lots, strict=True):
                for number in branch:
                    groups[number] = self._on(shape, number, lot, fewer)
            order = abreast(site.places, lots, works)
            places = dict(zip(sorted(order), order, strict=True))
            turns = [groups[places.get(number, number)] for number in range(len(groups))]
            plan = self.facts.ordered(shape.plan, turns)
            if plan is not None:
                made, nodes = Shape(self.graph, plan), {shape.members[number] for number in order}
                here = [number for number, row in enumerate(made.members) if row in nodes]
                found = dict.fromkeys((keeping(plan, self.facts.around(made, here)), plan))
                yield from (changed for changed in found if changed != shape.plan)

    def _lots(
        self, shape: Shape, places: Sequence[Sequence[int]], works: Mapping[int, float]
    ) -> Iterator[list[tuple[str, ...]]]:
        """Cores for each of some branches. Where cores differ, those of a kind are a lot, or each
        core is; else, and then too, in as many lots as there can be, or in two."""
        names = tuple(core.name for core in self.network.machine.cores)
        kinds = self.cuts.kinds[1:]
        for lots in dict.fromkeys((kinds, tuple((name,) for name in names))) if kinds else ():
            times = [[self._taken(shape, branch, lot) for lot in lots] for branch in places]
            yield [lots[lot] for lot in quickest(times)]
        rows = [sum(works[number] for number in branch) for branch in places]
        for count in dict.fromkeys((min(len(rows), len(names)), 2)):
            yield dealt(rows, names, count)

    def _taken(self, shape: Shape, numbers: Sequence[int], lot: tuple[str, ...]) -> float:
        """What groups are expected to take on some cores, one after the other."""
        groups = ((number, self._on(shape, number, lot, False)) for number in numbers)
        on_cores = ((number, group) for number, group in groups if group.place is Place.CORES)
        return sum(self.facts.cycles(shape, number, group) for number, group in on_cores)

    def _works(self, shape: Shape, places: Sequence[Sequence[int]]) -> dict[int, float]:
        """What groups are expected to take, of all cores that they run on together."""
        works: dict[int, float] = {}
        for number in chain.from_iterable(places):
            group = shape.plan.groups[number]
            cores = len(group.cores) or len(self.network.machine.cores)
            used = 1 if group.core_split is None else cores
            cycles = self.facts.cycles(shape, number, group) if group.place is Place.CORES else inf
            works[number] = used * cycles if cycles < inf else 0.0
        return works

    def _on(self, shape: Shape, number: int, lot: tuple[str, ...], fewer: bool) -> GroupPlan:
        """A group on some cores, or on the first of them."""
        group = shape.plan.groups[number]
        if group.place is not Place.CORES:
            return group
        found: list[GroupPlan] = []
        size = len(lot)
        while size:
            found += self._ways(shape, number, lot[:size])[:1]
            size = size // 2 if fewer else 0
        best = min(found, key=lambda way: self.facts.cycles(shape, number, way), default=group)
        return replace(best, nodes=group.nodes)

    def swapped(self, shape: Shape, site: Site) -> Iterator[Plan]:
        """Each of two groups on the cores of the other, or one of them there and the other on cores
        that neither had; each issued where it was, or in the place of the other."""
        one, other = (shape.plan.groups[number].cores for number in site.places[0])
        apart = [cores for cores in self.cuts.kinds if cores not in (one, other)]
        lots = [(other, one), *((other, cores) for cores in apart), *((c, one) for c in apart)]
        turned = {n: m for pair in site.places for n, m in (pair, pair[::-1])}
        for cores, rank in product(lots, range(RANKS)):
            groups = list(shape.plan.groups)
            for number, lot in chain.from_iterable(zip(p, cores, strict=True) for p in site.places):
                if ways := self._ways(shape, number, lot)[: rank + 1]:
                    groups[number] = replace(ways[-1], nodes=groups[number].nodes)
            plan = replace(shape.plan, groups=tuple(groups))
            order = [groups[turned.get(number, number)] for number in range(len(groups))]
            plans = dict.fromkeys((plan, self.facts.ordered(plan, order)))
            yield from (found for found in plans if found not in (None, shape.plan))
