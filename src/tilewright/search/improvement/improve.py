"""The improvement: plans close to the best one, simulated one after the other.

Proposals come from a model that adds up groups; what groups do to each other only the simulator
sees. So its word decides here: a move is made, the plan simulated, and kept where it is better
(`climb.py`). Places where the schedule loses time come first.
"""

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from tilewright.plan.plan import Place, Plan
from tilewright.program.columns import COPY
from tilewright.program.lowering import Lowering
from tilewright.program.metrics import Metrics, Objective, score
from tilewright.program.timed import Timed
from tilewright.search.candidates.sections import Sections
from tilewright.search.candidates.tiles import TILES
from tilewright.search.effort import Effort
from tilewright.search.improvement.climb import Better, Climber
from tilewright.search.improvement.moves import Moves
from tilewright.search.improvement.shape import Kind, Shape, Site
from tilewright.tiling.grid import tiles_of

EVALUATIONS = {  # plans that are simulated at least
    Effort.LOW: 250,
    Effort.NORMAL: 3_000,
    Effort.HIGH: 10_000,
}
LARGE = 13_000  # tasks; plans of more, which take most of a tenth of a second and up, are fewer
SMALL = 670  # tasks; plans of fewer are timed in a few milliseconds, and up to twice as many are
FEWEST = 1_000  # of an effort that has as many, whatever the size of the network
EXPECTED = {  # gain of a move at its place, in percent, before anything is learnt
    Kind.MERGE: 0.10,
    Kind.KEEP: 0.10,
    Kind.RECUT: 0.08,
    Kind.ALIGN: 0.20,
    Kind.ABREAST: 0.10,
    Kind.SWAP: 0.05,
    Kind.PLACE: 0.06,
    Kind.PART: 0.005,
    Kind.SHIFT: 0.005,
    Kind.RELOAD: 0.005,
    Kind.DROP: 0.003,
    Kind.ORDER: 0.005,
}
ECHOED = frozenset({Kind.MERGE, Kind.PART, Kind.SHIFT, Kind.RECUT, Kind.PLACE})
ALIKE = 3.0  # a move at many places is expected to give so much more
EVERYWHERE = 0.1  # share of the mean loss that a place has at least


def evaluations_of(effort: Effort, tasks: int) -> int:
    """Plans that an effort simulates of a network with plans of so many tasks, those that are run
    in two ways counted twice: more where plans are small, unless low effort is asked for, fewer
    where they are very large."""
    most = EVALUATIONS[effort]
    if tasks > LARGE:
        return max(min(most, FEWEST), most * LARGE // tasks)
    if effort is Effort.LOW or tasks >= SMALL:
        return most
    return min(2 * most, most * SMALL // max(1, tasks))


class Improver(Climber[Plan, Metrics, Shape, Site]):
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
        super().__init__(seed)
        self.moves, self.sections, self.lowering = moves, sections, lowering
        self.evaluate, self.objective = evaluate, objective
        self._lost: dict[Plan, list[float]] = {}

    def look(self, plan: Plan) -> Shape:
        """A plan's groups."""
        return Shape(self.moves.graph, plan)

    def places(self, look: Shape) -> Iterator[tuple[Site, float]]:
        """All places of a plan; those that lose time first."""
        if look.plan not in self._lost:
            self._lost[look.plan] = self._losses(look)
        losses = self._lost[look.plan]
        for site in self.moves.sites(look):
            weight = sum(losses[n] for place in site.places for n in place)
            yield site, weight / len(site.places) ** 0.5

    def touched(self, before: Plan, look: Shape) -> Iterator[Site]:
        """Places at groups and tensors that a plan treats otherwise than the one before."""
        known = set(before.groups)
        touched = {n for n, group in enumerate(look.plan.groups) if group not in known}
        for name in look.kept.symmetric_difference(before.resident):
            touched.add(look.home[self.moves.graph.producer[name]])
        yield from self.moves.sites(look, touched)

    def plans(self, look: Shape, place: Site) -> Iterator[Plan]:
        """The plans of a move, the most promising first."""
        return self.moves.plans(look, place)

    def echoes(
        self, before: Shape, place: Site, number: int, look: Shape
    ) -> Iterator[tuple[Site, Plan]]:
        """For moves of groups."""
        if not place.alike and not place.names and place.kind in ECHOED:
            for site in self.moves.like(before, place, look):
                for plan in islice(self.plans(look, site), number, number + 1):
                    yield site, plan

    def expected(self, place: Site) -> float:
        """What a move usually gives."""
        return EXPECTED[place.kind] * (ALIKE if place.alike else 1.0)

    def value(self, plan: Plan, worst: float) -> Metrics | None:
        """What the simulator says."""
        return self.evaluate(plan)

    def weight(self, plan: Plan) -> int:
        """One, and more where groups have very many tiles: small memories need them."""
        tiles = sum(tiles_of(group.splits) for group in plan.groups)
        return -(-tiles // (TILES * len(plan.groups)))

    def score(self, value: Metrics) -> float:
        """The objective."""
        return score(value, self.objective)

    def ahead(self, found: Metrics, now: Metrics) -> bool:
        """Whether a plan is better: by the objective, or as good with fewer bytes and cycles."""
        reached, before = self.score(found), self.score(now)
        if reached != before:
            return reached < before
        return (found.dram_bytes, found.cycles) < (now.dram_bytes, now.cycles)

    def leeway(self, look: Shape) -> float:
        """As much as one of its groups takes on average, where they are few."""
        return max(super().leeway(look), 1 / len(look.plan.groups))

    def abreast(
        self, plan: Plan, value: Metrics, evaluations: int
    ) -> Iterator[Better[Plan, Metrics]]:
        """Better and better plans with the branches of more and more forks side by side, until all
        forks were looked at or so many plans were evaluated."""
        end = self.evaluations + evaluations
        look, seen = self.look(plan), set[frozenset[int]]()
        while self.evaluations < end:
            sites = {self._nodes(look, site): site for site in self.moves.forks(look)}
            nodes = next((nodes for nodes in sites if nodes not in seen), None)
            if nodes is None:
                return
            seen.add(nodes)
            for changed in self.plans(look, sites[nodes]):
                self.evaluations += self.weight(changed)
                found = self.tried[changed] = self.evaluate(changed)
                if found is not None and self.ahead(found, value):
                    plan, value = changed, found
                    yield Better(plan, value, self.evaluations)
            look = self.look(plan)

    def _nodes(self, look: Shape, site: Site) -> frozenset[int]:
        """The nodes of a place."""
        return frozenset(n for place in site.places for k in place for n in look.members[k])

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
