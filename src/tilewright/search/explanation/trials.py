"""Forced trials: a plan with one boundary taken away, lowered and simulated as a whole.

Two ways to take it away: both groups as one, depth-first, cut as the search would cut it; or the
tensor between them kept in the scratchpads. Data movement between them runs on the cores then,
within the group or by itself. Groups stay on their cores; either way on fewer cores too: what is
not divided is not passed between them. Everything else stays as it is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from tilewright.cost.base import CostError
from tilewright.cost.limits import broken_limit
from tilewright.errors import TilewrightError, TilingError
from tilewright.graph.graph import Graph
from tilewright.machine.machine import Machine
from tilewright.plan.order import order_with
from tilewright.plan.plan import GroupPlan, Place, Plan, moved_to_cores
from tilewright.program.account import traffic
from tilewright.program.lower import lowered
from tilewright.program.lowering import Lowering
from tilewright.program.pipeline import LESS_AT_ONCE
from tilewright.program.place import DoesNotFitError, Placed
from tilewright.program.program import Compute, Program
from tilewright.program.timed import Short
from tilewright.search.candidates.core_sets import kinds_of_cores, parts_of_cores
from tilewright.search.candidates.estimates import Estimate
from tilewright.search.candidates.forced import least_bytes
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.tiles import Tiler
from tilewright.search.improvement.boundaries import CUTS, Edge, Joins, moving_groups
from tilewright.tiling.group import TiledOp, exports, typed_group

VAST = 1 << 40  # bytes
NOT_SPILLED = "not tried with spills or less overlap"


class BoundaryKind(StrEnum):
    """Why a boundary is there."""

    MEMORY = "memory"
    HALO = "halo"
    NOT_TILEABLE = "not tileable"
    LIMIT = "limit"
    NOT_CONVEX = "not convex"
    NO_GAIN = "no gain"
    KEPT_APART = "kept apart"
    MISSED = "better joined"
    NOT_LOWERED = "cannot be lowered"
    NOT_TRIED = "not tried"


class How(StrEnum):
    """How a trial takes a boundary away."""

    TOGETHER = "tiled together"
    KEPT = "kept in the scratchpads"


@dataclass(frozen=True, slots=True)
class Shortage:
    """A memory that is too small: bytes needed at once, and there. `remedy` is what made the trial
    fit all the same, if anything did, or that nothing was tried."""

    memory: str
    needed: int
    there: int
    remedy: str = ""

    @property
    def short_by(self) -> int:
        """Bytes that are missing."""
        return self.needed - self.there


@dataclass(frozen=True, slots=True)
class Forced:
    """A trial. Without cycles it could not be simulated, and `obstacle` says why; `compute` are the
    cycles that each of their cores computes, as one group and apart. `cores` are those that both
    groups run on where these are forced too."""

    how: How
    cycles: int | None = None
    dram_bytes: int | None = None
    obstacle: tuple[BoundaryKind, str] | None = None
    shortage: Shortage | None = None
    compute: tuple[float, float] | None = None
    limit: str = ""
    cut: GroupPlan | None = None
    plan: Plan | None = None  # the plan that was simulated
    cores: tuple[str, ...] = ()
    tensor: str = ""  # that is kept, where it is one of several

    @property
    def told(self) -> str:
        """How the boundary was taken away, in words."""
        how = f"'{self.tensor}' {self.how}" if self.tensor else self.how.value
        return f"{how} on {', '.join(self.cores)}" if self.cores else how


class Trials:
    """Forced trials of one plan. Without `remedies`, one that does not fit is not made to fit by
    spills or less overlap, which takes as long as dozens of others."""

    def __init__(
        self,
        graph: Graph,
        machine: Machine,
        plan: Plan,
        without: frozenset[str] = frozenset(),
        *,
        remedies: bool = True,
    ) -> None:
        self.remedies = remedies
        self.graph, self.machine, self.plan, self.without = graph, machine, plan, without
        self.network = Network(graph, machine, plan.dtype)
        self.lowering = Lowering(graph, machine, plan.dtype, without).of(plan)
        self.machine = self.lowering.machine  # within the plan's limit of memory
        self.tiler = Tiler(self.network)
        self.tiler.pipelines = "pipelining" not in without
        self.tiler.costs.reshapes = "implicit-reshape" not in without
        self.joins = Joins(self.network, self.tiler)
        self.simulated = 0

    @cached_property
    def base(self) -> Placed:
        """The plan as it is, lowered as its trials are."""
        return lowered(self.graph, self.machine, self.plan, lowering=self.lowering)

    @cached_property
    def base_bytes(self) -> int:
        """Main-memory traffic of the plan as it is."""
        return sum(traffic(self.base.program, self.machine.main_memory.name))

    def kept(self, edge: Edge, *, named: bool = False) -> Forced:
        """A tensor stays in the scratchpads; groups that only move it do so on the cores of those
        it is between, and what comes out of them stays too. The trial has its name where it is
        `named`."""
        name, moved = edge.tensor, moving_groups(self.plan, edge)
        tensor, cores = name if named else "", self._cores(edge.before, edge.after)
        cuts: list[tuple[int, Estimate]] = []
        for number in moved:
            options = self._options((number,), cores)
            if isinstance(options, Forced):
                return replace(options, how=How.KEPT, tensor=tensor)
            cuts.append((number, options[0]))
        return replace(self._run(How.KEPT, self.joins.kept(self.plan, name, cuts)), tensor=tensor)

    def together(self, *numbers: int) -> Forced:
        """Groups as one: the faster of the cuts that are tried."""
        order = order_with(self.graph, self.plan.groups, numbers)
        if order is None:
            text = f"a path leaves the group and returns through '{self._between(numbers)}'"
            return Forced(How.TOGETHER, obstacle=(BoundaryKind.NOT_CONVEX, text))
        options = self._options(numbers, self._cores(*numbers))
        if isinstance(options, Forced):
            return options
        found: list[Forced] = []
        for option in options[:CUTS]:
            changed = self.joins.joined(self.plan, numbers, order, option)
            place = order.index(numbers[0])
            forced = self._run(How.TOGETHER, changed, (place, numbers))
            found.append(replace(forced, cut=changed.groups[place]))
        return min(found, key=lambda forced: (forced.cycles is None, forced.cycles or 0))

    def on_fewer_cores(
        self, numbers: Sequence[int], together: Forced, kept: Forced | None
    ) -> Forced | None:
        """The fastest of other trials on fewer cores, or on those of one kind; None where none can
        be simulated. Where there is no trial that keeps the tensor, it is kept as it is."""
        found: list[tuple[int, int, How, Plan, tuple[str, ...]]] = []
        staying = self.plan if kept is None else kept.plan
        parts = parts_of_cores(self.network)  # of equal cores either half will do
        for cores in dict.fromkeys((*parts[:1], *parts[-1:], *kinds_of_cores(self.network))):
            for how, plan in ((How.TOGETHER, together.plan), (How.KEPT, staying)):
                nodes = {name for n in numbers for name in self.plan.groups[n].nodes}
                other = None if plan is None else moved_to_cores(plan, cores, nodes)
                cycles = None if other is None or other == plan else self.lowering.cycles(other)
                if other is not None and cycles is not None:
                    found.append((cycles, len(found), how, other, cores))
        if not found:
            return None
        _, _, how, plan, cores = min(found, key=lambda row: row[:2])
        tensor = kept.tensor if kept is not None and how is How.KEPT else ""
        return replace(self._run(how, plan), cores=cores, tensor=tensor)

    def _cores(self, *numbers: int) -> tuple[str, ...]:
        return self.joins.cores_of(self.plan, numbers)

    def _options(self, numbers: Sequence[int], cores: tuple[str, ...]) -> list[Estimate] | Forced:
        """Ways to cut groups as one for some cores, at least one, or why there are none."""
        nodes = self.joins.members(self.plan, numbers)
        try:
            options = self.joins.options(nodes, cores)
        except TilingError as error:
            return Forced(How.TOGETHER, obstacle=(BoundaryKind.NOT_TILEABLE, str(error)))
        except CostError as error:
            return Forced(How.TOGETHER, obstacle=(BoundaryKind.LIMIT, str(error)))
        ops, exported = typed_group(self.graph, nodes), exports(self.graph, nodes)
        return options or self._no_cut(ops, exported, cores)

    def _run(self, how: How, plan: Plan, joined: tuple[int, Sequence[int]] | None = None) -> Forced:
        self.simulated += 1
        try:
            short = None if self.remedies else self._short(plan, NOT_SPILLED)
            if short is not None:
                return Forced(how, obstacle=(BoundaryKind.MEMORY, ""), shortage=short)
            placed = lowered(self.graph, self.machine, plan, lowering=self.lowering)
        except DoesNotFitError as error:
            there, short_by = error.misfit.capacity, error.misfit.short_by
            short = Shortage(error.memory, there + short_by, there)
            return Forced(how, obstacle=(BoundaryKind.MEMORY, ""), shortage=short)
        except CostError as error:
            return Forced(how, obstacle=(BoundaryKind.LIMIT, str(error)))
        except TilingError as error:
            return Forced(how, obstacle=(BoundaryKind.NOT_TILEABLE, str(error)))
        except TilewrightError as error:
            short = self._with_all_bytes(plan)
            if short is not None:
                return Forced(how, obstacle=(BoundaryKind.MEMORY, ""), shortage=short)
            return Forced(how, obstacle=(BoundaryKind.NOT_LOWERED, str(error)))
        main = self.machine.main_memory.name
        forced = Forced(
            how,
            placed.schedule.makespan,
            sum(traffic(placed.program, main)),
            shortage=self._made_to_fit(plan, placed),
            plan=plan,
        )
        if joined is None:
            return forced
        number, parts = joined
        return replace(
            forced,
            compute=(
                self._compute(placed.program, plan, (number,)),
                self._compute(self.base.program, self.plan, parts),
            ),
            limit=self._new_limit(placed.program, number, parts),
        )

    def _with_all_bytes(self, plan: Plan) -> Shortage | None:
        """What is short where even a single buffer is too large: the most bytes that are live at
        once on a machine that holds everything."""
        vast = self.machine.with_memory(VAST)
        without = self.without | frozenset(LESS_AT_ONCE)
        try:
            placed = lowered(self.graph, vast, replace(plan, memory_limit=None), without)
        except TilewrightError:
            return None
        rows = [
            Shortage(memory, live, self.machine.memory(memory).usable)
            for memory, live in placed.most_live
            if memory != self.machine.main_memory.name
        ]
        worst = max(rows, key=lambda short: short.short_by)
        return worst if worst.short_by > 0 else None

    def _made_to_fit(self, plan: Plan, placed: Placed) -> Shortage | None:
        """What was short, where the trial fits only with spills or with passes left out."""
        spilled, before = (sum(s.moved for s in each.spills) for each in (placed, self.base))
        remedy = f"{spilled - before:,} bytes spilled" if spilled > before else "less overlap"
        return self._short(plan, remedy)

    def _short(self, plan: Plan, remedy: str) -> Shortage | None:
        """What is short where the plan does not fit as it is."""
        short = self.lowering.timed_of(self.lowering.linked(plan))
        if not isinstance(short, Short):
            return None
        needed = short.misfit.capacity + short.misfit.short_by
        memory = self.machine.memories[short.memory].name
        return Shortage(memory, needed, short.misfit.capacity, remedy)

    def _compute(self, program: Program, plan: Plan, groups: Iterable[int]) -> float:
        """Cycles that groups compute on each of their cores."""
        total = dict.fromkeys(groups, 0)
        for task in program.tasks:
            if task.group in total and isinstance(task.work, Compute):
                total[task.group] += task.cycles
        cores = {n: len(plan.groups[n].cores or self.machine.cores) for n in total}
        return sum(cycles / cores[n] for n, cycles in total.items())

    def _new_limit(self, program: Program, number: int, parts: Sequence[int]) -> str:
        """A limit of the arrays that a tile of the joined group breaks, and no group alone."""
        limits = self.machine.limits

        def broken(program: Program, groups: Iterable[int]) -> dict[str, str]:
            wanted = set(groups)
            found: dict[str, str] = {}
            for task in program.tasks:
                if task.group in wanted and isinstance(task.work, Compute):
                    text = broken_limit(task.work.workload, limits)
                    if text:
                        found.setdefault(task.node, text)
            return found

        before = broken(self.base.program, parts)
        new = {n: t for n, t in broken(program, (number,)).items() if n not in before}
        return next((f"'{node}': {text}" for node, text in new.items()), "")

    def _no_cut(
        self, ops: tuple[TiledOp, ...], exported: dict[str, bool], cores: tuple[str, ...]
    ) -> Forced:
        """Why no cut of a group is possible: it cannot be cut, or its finest tiles are too big."""
        least = least_bytes(self.tiler.on(cores), ops, exported)
        if isinstance(least, str):
            return Forced(How.TOGETHER, obstacle=(BoundaryKind.NOT_TILEABLE, least))
        there = [core for core in self.machine.cores if not cores or core.name in cores]
        memory = min(there, key=lambda core: core.memory.usable).memory
        short = Shortage(memory.name, least, memory.usable)
        return Forced(How.TOGETHER, obstacle=(BoundaryKind.MEMORY, ""), shortage=short)

    def _between(self, numbers: Sequence[int]) -> str:
        """A node on a path from one of the groups to another that lies in none of them."""
        home = {name: i for i, group in enumerate(self.plan.groups) for name in group.nodes}
        inside = set(numbers)
        todo = [self.graph.index[name] for n in numbers for name in self.plan.groups[n].nodes]
        seen: set[int] = set()
        while todo:
            for index in sorted(self.graph.successors(todo.pop())):
                number = home[self.graph.nodes[index].name]
                if number in inside or number in seen:
                    continue
                seen.add(number)
                members = [self.graph.index[n] for n in self.plan.groups[number].nodes]
                reached = self.graph.reachable(members, forward=True)
                if any(home[self.graph.nodes[i].name] in inside for i in reached):
                    return self.graph.nodes[index].name
                todo += members
        return self.plan.groups[numbers[-1]].nodes[0]


def on_cores(group: GroupPlan) -> bool:
    """Whether a group runs on the cores."""
    return group.place is Place.CORES
