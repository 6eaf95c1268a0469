"""The best way to divide a graph of units into groups, the cost of a group being given.

Exact where the downsets and groups can be counted, part by part of the graph. Where they cannot,
units are merged greedily; the result says so.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import fsum

from tilewright.errors import TilewrightError
from tilewright.search.grouping.downsets import NOTHING, Label, Units, bits, offer


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
    progress: Callable[[float], None] | None = None,
) -> Search:
    """The `keep` cheapest divisions into convex connected groups that can run one after the other.

    Of equal cost, fewer groups and then lower masks come first. `may_grow` is asked of groups that
    are looked at anyway; False means that nothing larger is possible, the group itself may be.
    A connected part of the graph with more than `states` downsets, or with more groups than its
    share of `evaluations`, is what `greedy_merge` makes of it.
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

        if known is not None and (budget is None or _countable(units, known, part, budget)):
            found = _exact(units, known, part, costs, keep, tell_part)
            downsets += len(known)
        else:
            found, exact = [_greedy(units, part, costs)], False
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
        for unit in range(count):
            if self.of(1 << unit) is None:
                raise ImpossibleUnitError(
                    f"unit {unit} cannot run even as a group of its own; "
                    "give the machine more memory or cut the operator smaller"
                )

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


def _countable(units: Units, downsets: Sequence[int], universe: int, most: int) -> bool:
    """Whether an exact search would evaluate few enough groups, however far they may grow."""
    groups: set[int] = set()
    for downset in downsets:
        for group in units.extensions(downset, universe, lambda group: True):
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
    tell: Callable[[float], None],
) -> list[tuple[int, ...]]:
    """Dynamic programming over all downsets of a part."""
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
