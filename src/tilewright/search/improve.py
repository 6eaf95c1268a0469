"""The improvement: plans close to the best one, simulated one after the other.

Proposals come from a model that adds up groups; what groups do to each other only the simulator
sees. So its word decides here: a move is made, the plan simulated, and kept where it is better.
Which moves pay is learnt on the way, and places where the schedule loses time come first.
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
from tilewright.search.moves import Kind, Moves, Shape, Site
from tilewright.search.sections import Sections

EVALUATIONS = 1_000  # plans that are simulated, whatever the size of the network
FAST = 200  # the same for a fast search
EXPECTED = {  # gain of a move at its place, in percent, before anything is learnt
    Kind.MERGE: 0.10,
    Kind.KEEP: 0.10,
    Kind.RECUT: 0.08,
    Kind.PLACE: 0.06,
    Kind.PART: 0.03,
    Kind.RELOAD: 0.02,
    Kind.DROP: 0.02,
}
ALIKE = 3.0  # a move at many places is expected to give so much more
TRUST = 8  # evaluations that the expectation counts for
LEAST = 0.01  # percent that any move is expected to give: none is given up
EVERYWHERE = 0.1  # share of the mean loss that a place has at least


@dataclass
class _Pay:
    """What a kind of move gave so far, in percent."""

    expected: float
    tries: float = TRUST

    def __post_init__(self) -> None:
        self.gain = self.expected * TRUST

    @property
    def worth(self) -> float:
        """What the next one is expected to give."""
        return max(LEAST, self.gain / self.tries)


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
        self.pays: dict[tuple[Kind, bool], _Pay] = {}
        self.tried: set[Plan] = set()
        self.seen: dict[Hashable, int] = {}  # plans of each site that were looked at
        self.evaluations = 0

    def better(self, plan: Plan, metrics: Metrics, evaluations: int) -> Iterator[Better]:
        """Better and better plans, until so many more were simulated or no move is left."""
        end = self.evaluations + evaluations
        found = True
        while found and self.evaluations < end:
            found = False
            for better in self._round(plan, metrics, end):
                plan, metrics, found = better.plan, better.metrics, True
                yield better
            self.seen.clear()  # what did not help before may do now

    def _round(self, plan: Plan, metrics: Metrics, end: int) -> Iterator[Better]:
        """Better plans until every move at every place was looked at."""
        self.tried.add(plan)
        while self.evaluations < end:
            shape = Shape(self.moves.graph, plan)
            better = self._next(shape, metrics, end)
            if better is None:
                return
            plan, metrics = better.plan, better.metrics
            yield better

    def _next(self, shape: Shape, metrics: Metrics, end: int) -> Better | None:
        """The first plan found that is better than the one given."""
        now = score(metrics, self.objective)
        losses = self._losses(shape)
        open_sites: dict[tuple[Kind, bool], list[tuple[Site, float]]] = {}
        for site in self.moves.sites(shape):
            weight = sum(losses[n] for place in site.places for n in place)
            row = open_sites.setdefault((site.kind, site.alike), [])
            row.append((site, weight / len(site.places) ** 0.5))
        plans: dict[Hashable, Iterator[Plan]] = {}
        while open_sites and self.evaluations < end:
            worth = [self._pay(key).worth for key in open_sites]
            what = list(open_sites)[self._chosen(worth)]
            sites = open_sites[what]
            number = self._chosen([weight for _, weight in sites])
            site = sites[number][0]
            plan = self._candidate(shape, site, plans)
            if plan is None:
                del sites[number]
                if not sites:
                    del open_sites[what]
                continue
            found = self.evaluate(plan)
            self.evaluations += 1
            reached = now if found is None else score(found, self.objective)
            pay = self._pay(what)
            pay.tries += 1
            if found is not None and _less(found, reached, metrics, now):
                pay.gain += 100 * (now - reached) / now
                return Better(plan, found, site.kind, self.evaluations)
        return None

    def _candidate(
        self, shape: Shape, site: Site, plans: dict[Hashable, Iterator[Plan]]
    ) -> Plan | None:
        """The next plan of a site that was not simulated yet."""
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

    def _pay(self, what: tuple[Kind, bool]) -> _Pay:
        expected = EXPECTED[what[0]] * (ALIKE if what[1] else 1.0)
        return self.pays.setdefault(what, _Pay(expected))

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


def _less(found: Metrics, reached: float, metrics: Metrics, now: float) -> bool:
    """Whether a plan is better: by the objective, or as good with fewer bytes and cycles."""
    if reached != now:
        return reached < now
    return (found.dram_bytes, found.cycles) < (metrics.dram_bytes, metrics.cycles)
