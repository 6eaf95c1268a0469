"""The fusion search: groups by dynamic programming on the additive model, then the simulator.

The additive model knows no overlap between groups; it only proposes. Every plan that is compared
is lowered, placed and simulated, and the simulator's cycles are the only ones reported.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import fsum

from tilewright.errors import TilewrightError
from tilewright.graph.graph import Graph
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Place, Plan
from tilewright.program.account import traffic
from tilewright.program.lower import lowered
from tilewright.program.place import Placed
from tilewright.search.dp import best_groupings, greedy_merge
from tilewright.search.network import Network
from tilewright.search.ways import Objective, Ways
from tilewright.tiling.group import exports

TIE = 0.005  # plans within half a percent count as equal: fewer bytes win
KEPT = 3  # groupings of the additive model that are simulated
EVALUATIONS = 150  # groups per unit that the additive model may look at
PROMOTIONS = 8  # values that are tried as resident after the groups are chosen


@dataclass(frozen=True, slots=True)
class Trial:
    """A plan as the simulator sees it; `groups` are the units of each group as bitmasks."""

    name: str
    plan: Plan
    groups: tuple[int, ...]
    cycles: int
    dram_bytes: int
    energy_pj: float
    peak_bytes: int

    def score(self, objective: Objective) -> float:
        """What the search wants least of."""
        return {
            Objective.LATENCY: float(self.cycles),
            Objective.ENERGY: self.energy_pj,
            Objective.TRAFFIC: float(self.dram_bytes),
            Objective.MEMORY: float(self.peak_bytes),
            Objective.EDP: self.energy_pj * self.cycles,
        }[objective]


@dataclass(frozen=True, slots=True)
class Found:
    """The best plan, and those it was compared with. `exact`: no grouping of the additive model is
    better than the one proposed."""

    best: Trial
    rivals: tuple[Trial, ...]
    exact: bool
    groups_looked_at: int
    simulated: int
    interrupted: bool = False


class Fusion:
    """One search."""

    def __init__(
        self,
        graph: Graph,
        machine: Machine,
        dtype: str,
        model: str,
        objective: Objective = Objective.LATENCY,
        *,
        without: frozenset[str] = frozenset(),
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.graph, self.machine, self.model = graph, machine, model
        self.network = Network(graph, machine, dtype)
        self.ways = Ways(self.network, objective)
        self.objective, self.without, self.progress = objective, without, progress
        self.trials: list[Trial] = []
        self.exact = True
        self.looked_at = 0

    def run(self, *, fast: bool = False) -> Found:
        """Search, simulate, refine. An interrupt ends it with the best plan so far, if any."""
        singles = tuple(1 << unit.number for unit in self.network.units)
        self.progress("layer by layer, as a start")
        self.attempt("layer by layer", singles)
        interrupted = False
        try:
            self._search(fast)
        except KeyboardInterrupt:
            if not self.trials:
                raise
            interrupted = True
        best = self.best()
        rivals = tuple(t for t in self.trials if t.name in ("layer by layer", "greedy merge"))
        return Found(best, rivals, self.exact, self.looked_at, len(self.trials), interrupted)

    def _search(self, fast: bool) -> None:
        self.progress("merging greedily, as compilers do")
        merged = greedy_merge(self.network.predecessors, self.score)
        self.attempt("greedy merge", merged.groups)
        units = len(self.network.units)

        def share(done: float) -> None:
            self.progress(f"looking at all groups, {done:.0%} done")

        found = best_groupings(
            self.network.predecessors,
            self.score,
            keep=1 if fast else KEPT,
            may_grow=self._may_grow,
            evaluations=(EVALUATIONS // 5 if fast else EVALUATIONS) * units,
            progress=share,
        )
        self.exact, self.looked_at = found.exact, found.evaluations
        for number, grouping in enumerate(found.groupings):
            self.progress(f"simulating grouping {number + 1} of {len(found.groupings)}")
            self.attempt("fused", grouping.groups)
        self._promote(2 if fast else PROMOTIONS)

    def _promote(self, limit: int) -> None:
        """Keep values between groups in the scratchpads too, where that helps: all, then the
        largest one by one."""
        best = self.best()
        names = list(self.crossing(best.plan))
        if not names:
            return
        self.progress("keeping values between groups")
        self.attempt("fused, all kept", best.groups, tuple(names))
        for name in names[:limit]:
            best = self.best()
            if name not in best.plan.resident:
                self.attempt("fused, more kept", best.groups, (*best.plan.resident, name))

    def score(self, mask: int) -> float | None:
        """The additive model's cost of a group."""
        way = self.ways.way(mask)
        return None if way is None else way.score(self.objective)

    def _may_grow(self, mask: int) -> bool:
        return self.ways.way(mask) is not None

    def crossing(self, plan: Plan) -> Iterator[str]:
        """Values that go through the main memory between groups on cores, largest first."""
        names: list[str] = []
        for group in plan.groups:
            if group.place is not Place.CORES:
                continue
            nodes = [self.graph.index[name] for name in group.nodes]
            for name in exports(self.graph, nodes):
                if name not in plan.resident and self.network.keepable(name):
                    names.append(name)
        types = self.graph.types
        yield from sorted(names, key=lambda name: (-types[name].bytes, name))

    def attempt(
        self, name: str, groups: tuple[int, ...], kept: tuple[str, ...] = ()
    ) -> Trial | None:
        """Lower and simulate a grouping; None where it does not fit."""
        plan = self.ways.plan(self.model, groups)
        plan = replace(plan, resident=tuple(dict.fromkeys((*plan.resident, *kept))))
        placed = self.placed(plan)
        if placed is None:
            return None
        trial = Trial(
            name,
            plan,
            groups,
            placed.schedule.makespan,
            sum(traffic(placed.program, self.machine.main_memory.name)),
            fsum(task.energy_pj for task in placed.program.tasks),
            max(peak for memory, peak in placed.peaks if memory != self.machine.main_memory.name),
        )
        self.trials.append(trial)
        return trial

    def placed(self, plan: Plan) -> Placed | None:
        """The plan lowered, or None where it does not fit."""
        try:
            return lowered(self.graph, self.machine, plan, self.without, verify=False)
        except TilewrightError:
            return None

    def best(self) -> Trial:
        """The best by the objective; of those within a tie, the one with the fewest bytes."""
        if not self.trials:
            raise TilewrightError(f"no plan of {self.model} fits {self.machine.name}")
        least = min(trial.score(self.objective) for trial in self.trials)
        close = [t for t in self.trials if t.score(self.objective) <= least * (1 + TIE)]
        return min(close, key=lambda t: (t.dram_bytes, t.cycles))
