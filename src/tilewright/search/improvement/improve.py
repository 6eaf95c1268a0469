"""The improvement: plans close to the best one, simulated one after the other.

Proposals come from a model that adds up groups; what groups do to each other only the simulator
sees. So its word decides here: a move is made, the plan simulated, and kept where it is better.
Which moves pay is learnt on the way, and places where the schedule loses time come first.

Where no move is left, the best plan is kicked: a few moves are made though they do not help, and
what they touched is improved again.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from random import Random

import numpy as np

from tilewright.plan.plan import Place, Plan
from tilewright.program.columns import COPY
from tilewright.program.lowering import Lowering
from tilewright.program.metrics import Metrics, Objective, score
from tilewright.program.timed import Timed
from tilewright.search.candidates.sections import Sections
from tilewright.search.effort import Effort
from tilewright.search.improvement.moves import Moves
from tilewright.search.improvement.shape import Kind, Shape, Site

EVALUATIONS = {  # plans that are simulated, whatever the size of the network
    Effort.LOW: 250,
    Effort.NORMAL: 1_500,
    Effort.HIGH: 7_500,
}
EXPECTED = {  # gain of a move at its place, in percent, before anything is learnt
    Kind.MERGE: 0.10,
    Kind.KEEP: 0.10,
    Kind.RECUT: 0.08,
    Kind.ALIGN: 0.20,
    Kind.PLACE: 0.06,
    Kind.PART: 0.03,
    Kind.SHIFT: 0.03,
    Kind.RELOAD: 0.02,
    Kind.DROP: 0.02,
    Kind.ORDER: 0.01,
}
ALIKE = 3.0  # a move at many places is expected to give so much more
DEEPER = 0.6  # and the next plans of a place so much less than the ones before
DEPTHS = 3
KICKS = 60  # in a row without success, after which no more are tried
KICKED = 0.10  # share by which a kicked plan may be worse
STRENGTH = (1, 2, 3)  # moves of a kick
KICK_PLANS = 12  # of a place that a kick chooses from
TRUST = 8  # evaluations that the expectation counts for
FORGET = 0.97  # what a try counts for after the next one
LEAST = 0.1  # share of the first expectation that any move has at least: none is given up
EVERYWHERE = 0.1  # share of the mean loss that a place has at least

Arm = tuple[Kind, bool, int]
"""A kind of move, whether at many places, and how many plans of the place were looked at before
(none, one, a few, more): what is learnt about together."""
Places = dict[Arm, list[tuple[Site, float]]]
"""Where moves can be made, and the weight of each place."""


@dataclass
class _Pay:
    """What a kind of move gave lately, in percent."""

    expected: float
    tries: float = TRUST

    def __post_init__(self) -> None:
        self.gain = self.expected * TRUST

    def learn(self, gain: float) -> None:
        """One more try; the older others are, the less they count."""
        self.tries = FORGET * self.tries + 1.0
        self.gain = FORGET * self.gain + gain

    @property
    def worth(self) -> float:
        """What the next one is expected to give."""
        return max(LEAST * self.expected, self.gain / self.tries)


@dataclass(frozen=True, slots=True)
class Better:
    """A plan that is better than all before, by which move, after how many evaluations."""

    plan: Plan
    metrics: Metrics
    kind: Kind
    evaluations: int


class Improver:
    """Improves plans of one network for an objective."""

    def __init__(
        self,
        moves: Moves,
        sections: Sections,
        lowering: Lowering,
        evaluate: Callable[[Plan], Metrics | None],
        objective: Objective,
        seed: int = 0,
    ) -> None:
        self.moves, self.sections, self.lowering = moves, sections, lowering
        self.evaluate, self.objective = evaluate, objective
        self.pick = Random(seed)
        self.pays: dict[Arm, _Pay] = {}
        self.tried: set[Plan] = set()
        self.seen: dict[Hashable, int] = {}  # plans of each site that were looked at
        self.evaluations = 0

    def better(self, plan: Plan, metrics: Metrics, evaluations: int) -> Iterator[Better]:
        """Better and better plans, until so many more were simulated or no move is left."""
        end = self.evaluations + evaluations
        for better in self._climbed(plan, metrics, end):
            plan, metrics = better.plan, better.metrics
            yield better
        failed = 0
        while failed < KICKS and self.evaluations < end:
            failed += 1
            for better in self._kicked(plan, metrics, end):
                if _better(better.metrics, metrics, self.objective):
                    plan, metrics, failed = better.plan, better.metrics, 0
                    yield better

    def _climbed(self, plan: Plan, metrics: Metrics, end: int) -> Iterator[Better]:
        """Better plans until every move at every place was looked at, and again where some were."""
        found = True
        while found and self.evaluations < end:
            found = False
            self.tried.add(plan)
            while self.evaluations < end:
                shape = Shape(self.moves.graph, plan)
                better = self._next(shape, self._places(shape), metrics, end)
                if better is None:
                    break
                plan, metrics, found = better.plan, better.metrics, True
                yield better
            self.seen.clear()  # what did not help before may do now

    def _kicked(self, plan: Plan, metrics: Metrics, end: int) -> Iterator[Better]:
        """Plans better and better from one that a few moves made of the given one."""
        moved, now = plan, metrics
        for _ in range(self.pick.choice(STRENGTH)):
            shape = Shape(self.moves.graph, moved)
            sites = [entry for row in self._places(shape).values() for entry in row]
            if not sites:
                return
            site = sites[self._chosen([weight for _, weight in sites])][0]
            plans = list(islice(self.moves.plans(shape, site), KICK_PLANS))
            if not plans or self.evaluations >= end:
                return
            changed = self.pick.choice(plans)
            found = self.evaluate(changed)
            self.evaluations += 1
            if found is None or self._score(found) > (1 + KICKED) * self._score(metrics):
                continue
            moved, now = changed, found
        if moved == plan:
            return
        self.tried.add(moved)
        if _better(now, metrics, self.objective):
            yield Better(moved, now, Kind.RECUT, self.evaluations)
        self.seen.clear()
        while self.evaluations < end:
            shape = Shape(self.moves.graph, moved)
            better = self._next(shape, self._touched(plan, shape), now, end)
            if better is None:
                return
            moved, now = better.plan, better.metrics
            yield better

    def _next(self, shape: Shape, places: Places, metrics: Metrics, end: int) -> Better | None:
        """The first plan found that is better than the one given."""
        now = self._score(metrics)
        plans: dict[Hashable, Iterator[Plan]] = {}
        while places and self.evaluations < end:
            arm = list(places)[self._chosen([self._pay(key).worth for key in places])]
            row = places[arm]
            number = self._chosen([weight for _, weight in row])
            site = row[number][0]
            plan = self._candidate(shape, site, plans)
            entry = row.pop(number)
            if not row:
                del places[arm]
            if plan is None:
                continue
            places.setdefault(self._arm(site), []).append(entry)
            found = self.evaluate(plan)
            self.evaluations += 1
            better = found is not None and _better(found, metrics, self.objective)
            gain = (now - self._score(found)) / now if found is not None and better else 0.0
            self._pay(arm).learn(100 * gain)
            if found is not None and better:
                return Better(plan, found, site.kind, self.evaluations)
        return None

    def _places(self, shape: Shape) -> Places:
        """All places of a plan; those that lose time first."""
        losses = self._losses(shape)
        places: Places = {}
        for site in self.moves.sites(shape):
            weight = sum(losses[n] for place in site.places for n in place)
            row = places.setdefault(self._arm(site), [])
            row.append((site, weight / len(site.places) ** 0.5))
        return places

    def _touched(self, before: Plan, shape: Shape) -> Places:
        """Places at what a plan does otherwise than the one before."""
        known = set(before.groups)
        touched = {n for n, group in enumerate(shape.plan.groups) if group not in known}
        for name in shape.kept.symmetric_difference(before.resident):
            touched.add(shape.home[self.moves.graph.producer[name]])
        places: Places = {}
        for site in self.moves.sites(shape, touched):
            places.setdefault(self._arm(site), []).append((site, 1.0))
        return places

    def _candidate(
        self, shape: Shape, site: Site, plans: dict[Hashable, Iterator[Plan]]
    ) -> Plan | None:
        """The next plan of a place that was not simulated yet."""
        rows = plans.get(site.key)
        if rows is None:
            rows = islice(self.moves.plans(shape, site), self.seen.get(site.key, 0), None)
            plans[site.key] = rows
        for plan in rows:
            self.seen[site.key] = self.seen.get(site.key, 0) + 1
            if plan not in self.tried:
                self.tried.add(plan)
                return plan
        return None

    def _score(self, metrics: Metrics) -> float:
        return score(metrics, self.objective)

    def _arm(self, site: Site) -> Arm:
        return site.kind, site.alike, min(DEPTHS, self.seen.get(site.key, 0).bit_length())

    def _pay(self, arm: Arm) -> _Pay:
        kind, alike, depth = arm
        expected = EXPECTED[kind] * (ALIKE if alike else 1.0) * DEEPER**depth
        return self.pays.setdefault(arm, _Pay(expected))

    def _chosen(self, weights: Sequence[float]) -> int:
        """A number, the more probable the larger its weight."""
        sums = list(accumulate(weights))
        return bisect_right(sums, self.pick.random() * sums[-1], hi=len(sums) - 1)

    def _losses(self, shape: Shape) -> list[float]:
        """By how much each group takes longer than the least its operators need, and a little."""
        timed = self.lowering.timed(shape.plan)
        count = len(shape.plan.groups)
        if not isinstance(timed, Timed):  # it was made to fit by remedies
            return [1.0] * count
        added = added_cycles(timed, count, self.lowering.context.main)
        losses = [max(0.0, added[number] - self._least(shape, number)) for number in range(count)]
        floor = EVERYWHERE * sum(losses) / count + 1.0
        return [loss + floor for loss in losses]

    def _least(self, shape: Shape, number: int) -> float:
        """The fewest cycles in which a group's operators can be computed."""
        network = self.moves.network
        units = (network.units[network.home[node]] for node in shape.members[number])
        inside = {unit.number: unit for unit in units if unit.place is Place.CORES}
        here = set(shape.members[number])
        return sum(
            self.sections.least(unit.number)[1] for unit in inside.values() if unit.nodes[0] in here
        )


def added_cycles(timed: Timed, groups: int, main: int) -> list[int]:
    """By how many cycles each group moves the end of the run; loads may be early."""
    columns, order = timed.columns, timed.order
    rest = (columns.kind[order] != COPY) | (columns.source[order] != main)
    ends = np.zeros(groups, np.int64)
    np.maximum.at(ends, columns.group[order[rest]], timed.end[rest])
    added: list[int] = np.diff(np.maximum.accumulate(ends), prepend=0).tolist()
    return added


def _better(found: Metrics, metrics: Metrics, objective: Objective) -> bool:
    """Whether a plan is better: by the objective, or as good with fewer bytes and cycles."""
    reached, now = score(found, objective), score(metrics, objective)
    if reached != now:
        return reached < now
    return (found.dram_bytes, found.cycles) < (metrics.dram_bytes, metrics.cycles)
