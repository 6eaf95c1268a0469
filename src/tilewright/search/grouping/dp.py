"""The best way to divide a graph of units into groups, the cost of a group being given.

Exact where the downsets and groups can be counted, part by part of the graph. Where they cannot,
units are merged greedily; the result says so.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import fsum

from tilewright.errors import TilewrightError
from tilewright.search.grouping.downsets import NOTHING, Label, Units, bits


class ImpossibleUnitError(TilewrightError):
    """A unit cannot even run alone, so that no grouping exists."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """A division of all units into groups."""

    groups: tuple[int, ...]
    """Bitmasks of units, in an order in which they can run."""
    cost: float


@dataclass(frozen=True, slots=True)
class Best:
    """The grouping found, and what was looked at."""

    grouping: Grouping
    exact: bool
    """No grouping is better."""
    downsets: int
    evaluations: int


def best_grouping(
    predecessors: Sequence[int],
    evaluate: Callable[[int], float | None],
    *,
    may_grow: Callable[[int], bool] = lambda group: True,
    states: int = 20_000,
    evaluations: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Best:
    """The cheapest division into convex connected groups that can run one after the other.

    Of equal cost, fewer groups and then lower masks come first. `may_grow` is asked of groups that
    are looked at anyway; False means that nothing larger is possible, the group itself may be.
    A connected part of the graph with more than `states` downsets, or with more groups than its
    share of `evaluations`, is what `greedy_merge` makes of it.
    """
    units = Units(predecessors)
    costs = _Costs(units.count, evaluate, may_grow)
    groups: list[int] = []
    exact, downsets, done = True, 0, 0
    for part in units.parts():
        size = part.bit_count()
        known = units.downsets(0, part, states)
        budget = evaluations and evaluations * size // units.count

        def tell_part(share: float, done: int = done, size: int = size) -> None:
            if progress is not None:
                progress((done + share * size) / units.count)

        if known is not None and (budget is None or _countable(units, known, part, budget)):
            groups += _exact(units, known, part, costs, tell_part)
            downsets += len(known)
        else:
            groups += _greedy(units, part, costs)
            exact = False
        done += size
        tell_part(1.0)
    return Best(_grouping(units, sorted(groups), costs), exact, downsets, len(costs.known))


def greedy_merge(predecessors: Sequence[int], evaluate: Callable[[int], float | None]) -> Grouping:
    """A unit joins the group of a parent when that is possible and costs no more; for comparison.

    Merges are never taken back.
    """
    units = Units(predecessors)
    costs = _Costs(units.count, evaluate, lambda group: True)
    return _grouping(units, _greedy(units, units.all, costs), costs)


class _Costs:
    """Remembers what was evaluated."""

    def __init__(
        self,
        count: int,
        evaluate: Callable[[int], float | None],
        may_grow: Callable[[int], bool],
    ) -> None:
        self.evaluate, self.may_grow = evaluate, may_grow
        self.known: dict[int, float | None] = {}
        self.growing: dict[int, bool] = {}
        for unit in range(count):
            if self.of(1 << unit) is None:
                raise ImpossibleUnitError(
                    f"unit {unit} cannot run even as a group of its own; "
                    "give the machine more memory or cut the operator smaller"
                )

    def of(self, group: int) -> float | None:
        """Cost of a group; None: not possible."""
        if group in self.known:
            return self.known[group]
        cost = self.known[group] = self.evaluate(group)
        return cost

    def grows(self, group: int) -> bool:
        """Whether larger groups are worth a look."""
        known = self.growing.get(group)
        if known is None:
            known = self.growing[group] = self.may_grow(group)
        return known

    def total(self, groups: Iterable[int]) -> float:
        """Cost of groups that were evaluated, whatever their order."""
        return fsum(self.known[group] or 0.0 for group in groups)


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
    tell: Callable[[float], None],
) -> tuple[int, ...]:
    """Dynamic programming over all downsets of a part."""
    table: dict[int, Label] = {downsets[0]: NOTHING}
    for index, downset in enumerate(downsets[:-1]):
        label = table.pop(downset)
        for group in units.extensions(downset, universe, costs.grows):
            cost, known = costs.of(group), table.get(downset | group)
            if cost is None or (known is not None and label.cost + cost > known.cost):
                continue
            new = label.then(group, cost)
            if known is None or new.better(known):
                table[downset | group] = new
        tell((index + 1) / len(downsets))
    return table[downsets[-1]].groups()


def _greedy(units: Units, universe: int, costs: _Costs) -> tuple[int, ...]:
    owner = {unit: 1 << unit for unit in bits(universe)}
    for unit in bits(universe):
        for parent in bits(units.predecessors[unit]):
            one, other = owner[parent], owner[unit]
            merged = one | other
            if one == other or _leads_around(units, owner, one, other):
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
