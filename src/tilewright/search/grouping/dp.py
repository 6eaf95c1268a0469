"""The best way to divide a graph of units into groups, the cost of a group being given.

Exact where the downsets can be counted, part by part of the graph. Where they cannot, a limited
number of groups is considered and a narrow set of downsets is walked; the result says so.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import fsum

from tilewright.errors import TilewrightError
from tilewright.search.grouping.downsets import NOTHING, Label, Units, bits, offer

EVALUATIONS_PER_UNIT = 64
"""Calls of `evaluate` for each unit, about, where the search is not exact."""
_LONGEST_INTERVAL = 16
_MOST_PULLED_IN = 16
_WINDOW = 12
_WINDOW_DOWNSETS = 400


class ImpossibleUnitError(TilewrightError):
    """A unit cannot even run alone, so that no grouping exists."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """A division of all units into groups."""

    groups: tuple[int, ...]
    """Bitmasks of units, in an order in which they can run."""
    cost: float


@dataclass(frozen=True, slots=True)
class Search:
    """What a search found, and what it looked at."""

    groupings: tuple[Grouping, ...]
    """Different ones, best first."""
    exact: bool
    """No grouping that was left out is better."""
    downsets: int
    evaluations: int


def best_groupings(
    predecessors: Sequence[int],
    evaluate: Callable[[int], float | None],
    *,
    keep: int = 1,
    may_grow: Callable[[int], bool] = lambda group: True,
    largest: int | None = None,
    states: int = 20_000,
    evaluations: int | None = None,
    approximate: bool = True,
    progress: Callable[[float], None] | None = None,
) -> Search:
    """The `keep` cheapest divisions into convex connected groups that can run one after the other.

    Of equal cost, fewer groups and then lower masks come first. `may_grow` is asked of groups that
    are looked at anyway; False means that nothing larger is possible, the group itself may be.
    A connected part of the graph with more than `states` downsets, or with more groups than its
    share of `evaluations`, is searched approximately, never worse than `greedy_merge`; or is what
    that makes of it, unless `approximate`.
    """
    if keep < 1 or states < 1 or (largest is not None and largest < 1):
        raise ValueError("keep, states and largest have to be at least 1")
    units = Units(predecessors)
    costs = _Costs(units.count, evaluate, may_grow, largest)
    best: list[tuple[int, ...]] = [()]
    exact, downsets, done = True, 0, 0
    for part in units.parts():
        size = part.bit_count()
        known = units.downsets(0, part, states)
        budget = evaluations and evaluations * size // units.count

        def tell_part(share: float, done: int = done, size: int = size) -> None:
            if progress is not None:
                progress((done + share * size) / units.count)

        grows = costs.grows if approximate else _always
        if known is not None and (budget is None or _countable(units, known, part, grows, budget)):
            found = _exact(units, known, part, costs, keep, tell_part)
            downsets += len(known)
        elif not approximate:
            found, exact = [_greedy(units, part, costs)], False
        else:
            approximation = _Approximation(units, part, costs, keep, states, budget)
            found = approximation.run(tell_part)
            downsets += approximation.walked
            exact = False
        joined = {tuple(sorted(one + other)) for one, other in product(best, found)}
        best = sorted(joined, key=costs.rank)[:keep]
        done += size
        tell_part(1.0)
    groupings = tuple(_grouping(units, groups, costs) for groups in best)
    return Search(groupings, exact, downsets, costs.calls)


def greedy_merge(predecessors: Sequence[int], evaluate: Callable[[int], float | None]) -> Grouping:
    """A unit joins the group of a parent when that is possible and costs no more; for comparison.

    Merges are never taken back.
    """
    units = Units(predecessors)
    costs = _Costs(units.count, evaluate, lambda group: True, None)
    return _grouping(units, _greedy(units, units.all, costs), costs)


class _Costs:
    """Remembers what was evaluated."""

    def __init__(
        self,
        count: int,
        evaluate: Callable[[int], float | None],
        may_grow: Callable[[int], bool],
        largest: int | None,
    ) -> None:
        self.evaluate, self.may_grow = evaluate, may_grow
        self.largest = count if largest is None else largest
        self.known: dict[int, float | None] = {}
        self.growing: dict[int, bool] = {}
        self.alone: list[float] = []
        for unit in range(count):
            cost = self.of(1 << unit)
            if cost is None:
                raise ImpossibleUnitError(
                    f"unit {unit} cannot run even as a group of its own; "
                    "give the machine more memory or cut the operator smaller"
                )
            self.alone.append(cost)

    @property
    def calls(self) -> int:
        return len(self.known)

    def of(self, group: int) -> float | None:
        """Cost of a group; None: not possible. Groups over the largest size count as neither."""
        if group in self.known:
            return self.known[group]
        cost = self.known[group] = self.evaluate(group)
        return cost

    def fits(self, group: int) -> bool:
        return group.bit_count() <= self.largest

    def grows(self, group: int) -> bool:
        """Whether larger groups are worth a look."""
        known = self.growing.get(group)
        if known is None:
            known = group.bit_count() < self.largest and self.may_grow(group)
            self.growing[group] = known
        return known

    def singles(self, group: int) -> float:
        """Cost of the units one by one."""
        return sum(self.alone[unit] for unit in bits(group))

    def total(self, groups: Iterable[int]) -> float:
        """Cost of groups that were evaluated, whatever their order."""
        return fsum(self.known[group] or 0.0 for group in groups)

    def rank(self, groups: tuple[int, ...]) -> tuple[float, int, tuple[int, ...]]:
        """The one order of groupings; `groups` is sorted."""
        return self.total(groups), len(groups), groups


def _grouping(units: Units, groups: Sequence[int], costs: _Costs) -> Grouping:
    order = units.runnable(groups)
    assert order is not None, "groups depend on each other in a circle"
    return Grouping(order, costs.total(order))


def _always(group: int) -> bool:
    return bool(group)


def _countable(
    units: Units,
    downsets: Sequence[int],
    universe: int,
    grows: Callable[[int], bool],
    most: int,
) -> bool:
    """Whether an exact search would evaluate few enough groups."""
    groups: set[int] = set()
    for downset in downsets:
        for group in units.extensions(downset, universe, grows):
            groups.add(group)
            if len(groups) > most:
                return False
    return True


def _exact(
    units: Units,
    downsets: Sequence[int],
    universe: int,
    costs: _Costs,
    keep: int,
    tell: Callable[[float], None] = lambda share: None,
) -> list[tuple[int, ...]]:
    """Dynamic programming over all downsets of a part, or of a window of it."""
    table: dict[int, list[Label]] = {downset: [] for downset in downsets}
    table[downsets[0]].append(NOTHING)
    for index, downset in enumerate(downsets[:-1]):
        labels = table.pop(downset)
        for group in units.extensions(downset, universe, costs.grows):
            cost = costs.of(group) if costs.fits(group) else None
            if cost is None:
                continue
            there = table[downset | group]
            for label in labels:
                if len(there) == keep and label.cost + cost > there[-1].cost:
                    break
                offer(there, label.then(group, cost), keep)
        tell((index + 1) / len(downsets))
    return [label.groups() for label in table[downsets[-1]]]


def _greedy(units: Units, universe: int, costs: _Costs) -> tuple[int, ...]:
    owner = {unit: 1 << unit for unit in bits(universe)}
    for unit in bits(universe):
        for parent in bits(units.predecessors[unit]):
            one, other = owner[parent], owner[unit]
            merged = one | other
            if one == other or not costs.fits(merged):
                continue
            if _leads_around(units, owner, one, other):
                continue
            cost, apart = costs.of(merged), costs.total((one, other))
            if cost is not None and cost <= apart:
                for each in bits(merged):
                    owner[each] = merged
    return tuple(sorted(set(owner.values())))


def _leads_around(units: Units, owner: dict[int, int], one: int, other: int) -> bool:
    """Whether groups lie between two neighbours, so that merging these would make a circle."""
    # What comes after the second group's last unit is not merged yet and cannot lead back to it.
    seen, limit = one | other, (1 << other.bit_length()) - 1
    new = one
    while new:
        after = 0
        for unit in bits(new):
            after |= units.successors[unit]
        if new != one and after & other:
            return True
        new = 0
        for unit in bits(after & limit & ~seen):
            new |= owner[unit]
        seen |= new
    return False


class _Approximation:
    """Search with a limited number of groups and downsets.

    Walks along a few topological orders. The next group always holds the first unit that has not
    run; what the group needs and has not run either is divided on its own and runs just before it.
    So side branches (time embedding, context) do not multiply downsets, whether fused or not.
    """

    def __init__(
        self, units: Units, part: int, costs: _Costs, keep: int, states: int, budget: int | None
    ) -> None:
        self.units, self.part, self.costs, self.keep = units, part, costs, keep
        size = part.bit_count()
        self.per_unit = EVALUATIONS_PER_UNIT if budget is None else max(4, budget // size)
        self.orders = units.orders(part)
        self.width = max(8, states // (size * len(self.orders)))
        self.candidates: set[int] = set()
        self.walked = 0

    def run(self, tell: Callable[[float], None]) -> list[tuple[int, ...]]:
        greedy = _greedy(self.units, self.part, self.costs)
        self.candidates.update(greedy)
        self._choose_candidates(tell)
        found = {greedy}
        for order in self.orders:
            found.update(self._walk(order))
        best = sorted(found, key=self.costs.rank)[: self.keep]
        found.update(self._polish(groups) for groups in best[:3])
        return sorted(found, key=self.costs.rank)[: self.keep]

    def _choose_candidates(self, tell: Callable[[float], None]) -> None:
        """For each unit: runs along the orders, then groups around the unit."""
        places = [{unit: place for place, unit in enumerate(order)} for order in self.orders]
        longest = min(_LONGEST_INTERVAL, self.per_unit // (2 * len(self.orders)) + 1)
        size = self.part.bit_count()
        for index, unit in enumerate(bits(self.part)):
            limit = self.costs.calls + self.per_unit * 3 // 4
            for order, place in zip(self.orders, places, strict=True):
                start = place[unit]
                window = order[start : start + longest]
                for group in self.units.intervals(window, 0, self.costs.grows):
                    self._consider(group)
            for group in self.units.around(unit, self.part, self.costs.grows, self._gain):
                if self.costs.calls >= limit:
                    break
                self._consider(group)
            tell(0.9 * (index + 1) / size)

    def _consider(self, group: int) -> None:
        if self.costs.fits(group) and self.costs.of(group) is not None:
            self.candidates.add(group)

    def _gain(self, group: int) -> float:
        cost = self.costs.known.get(group)
        return 0.0 if cost is None else self.costs.singles(group) - cost

    def _walk(self, order: Sequence[int]) -> list[tuple[int, ...]]:
        place = {unit: index for index, unit in enumerate(order)}
        by_first: dict[int, list[tuple[int, int, float]]] = {unit: [] for unit in order}
        for group in sorted(self.candidates):
            first = min(bits(group), key=place.__getitem__)
            by_first[first].append((group, self.units.above(group), self.costs.known[group] or 0.0))
        covers: dict[int, tuple[tuple[int, ...], float]] = {0: ((), 0.0)}

        def cover(needed: int) -> tuple[tuple[int, ...], float]:
            if needed not in covers:
                inside = [unit for unit in order if needed >> unit & 1]
                groups = best_of(inside, needed, _MOST_PULLED_IN, 1)[0]
                covers[needed] = groups, self.costs.total(groups)
            return covers[needed]

        def best_of(
            inside: Sequence[int], universe: int, width: int, keep: int
        ) -> list[tuple[int, ...]]:
            layers: list[dict[int, list[Label]]] = [{} for _ in range(len(inside) + 1)]
            layers[0][0] = [NOTHING]
            for layer in layers[:-1]:
                for downset in self._narrow(layer, width):
                    first = next(unit for unit in inside if not downset >> unit & 1)
                    for group, above, cost in by_first[first]:
                        if group & downset or group & ~universe:
                            continue
                        needed = above & universe & ~downset
                        if needed.bit_count() > _MOST_PULLED_IN:
                            continue
                        before, cost_before = cover(needed)
                        there = layers[(larger := downset | group | needed).bit_count()]
                        labels = there.setdefault(larger, [])
                        for label in layer[downset]:
                            total = label.cost + cost_before + cost
                            if len(labels) == keep and total > labels[-1].cost:
                                break
                            for each in before:
                                label = label.then(each, self.costs.known[each] or 0.0)
                            offer(labels, label.then(group, cost), keep)
            return [label.groups() for label in layers[-1][universe]]

        return best_of(order, self.part, self.width, self.keep)

    def _narrow(self, layer: dict[int, list[Label]], width: int) -> list[int]:
        """The most promising downsets of a size: those that saved most so far."""
        self.walked += min(len(layer), width)
        if len(layer) <= width:
            return list(layer)

        def loss(downset: int) -> tuple[float, int]:
            return layer[downset][0].cost - self.costs.singles(downset), downset

        return sorted(layer, key=loss)[:width]

    def _polish(self, groups: tuple[int, ...]) -> tuple[int, ...]:
        """Divides windows of neighbouring groups anew, exactly, while the budget lasts."""
        limit = self.costs.calls + self.per_unit * self.part.bit_count() // 16
        order = list(self._in_order(groups))
        start, before = 0, 0
        while start < len(order):
            stop, window = start, 0
            while stop < len(order) and (window | order[stop]).bit_count() <= _WINDOW:
                window |= order[stop]
                stop += 1
            spare = limit - self.costs.calls
            if stop - start > 1 and spare > 0:
                self._divide(order, start, stop, before, window, spare)
            before |= order[start]
            start += 1
        return tuple(sorted(order))

    def _divide(
        self, order: list[int], start: int, stop: int, before: int, window: int, spare: int
    ) -> None:
        downsets = self.units.downsets(before, window, _WINDOW_DOWNSETS)
        if downsets is None:
            return
        new: set[int] = set()
        for downset in downsets:
            for group in self.units.extensions(downset, window, self.costs.grows):
                if group not in self.costs.known:
                    new.add(group)
                    if len(new) > spare:
                        return
        found = _exact(self.units, downsets, window, self.costs, 1)[0]
        if self.costs.total(found) < self.costs.total(order[start:stop]):
            order[start:stop] = self._in_order(found)

    def _in_order(self, groups: Sequence[int]) -> tuple[int, ...]:
        order = self.units.runnable(groups)
        assert order is not None, "groups depend on each other in a circle"
        return order
