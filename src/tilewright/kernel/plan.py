"""Plan a kernel: its nest chosen or found, assessed and checked."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tilewright.kernel.assess import Assessment, NestModel, floor_check
from tilewright.kernel.execute import Counts, ExecutedNest, count, count_difference, execute
from tilewright.kernel.ladder import LadderRow, ladder, last_rung
from tilewright.kernel.nest import Nest
from tilewright.kernel.nest_file import read_nest
from tilewright.kernel.problem import KernelError, KernelProblem
from tilewright.kernel.search import FoundNest, search
from tilewright.kernel.target import CoreTarget, target_of
from tilewright.kernel.timeline import MOST_STEPS, Simulated, simulated
from tilewright.machine.machine import Machine
from tilewright.tables import Shown, Table

COUNTED_MACS = 10**14  # beyond, not even empty tensors are made
WHOLE_MACS = 500_000_000  # problems up to this size are executed whole by default


@dataclass(frozen=True, slots=True)
class Proof:
    """A run of the nest: all of it, or its first rows where the problem is large. `counts` are of
    the whole problem's loops; None where these are too many to walk through."""

    executed: ExecutedNest
    counts: Counts | None
    rows: int
    of_rows: int


@dataclass(frozen=True, repr=False)
class KernelPlan(Shown):
    """A planned kernel. `found` is what a search found, `proof` the run that checked it."""

    problem: KernelProblem
    machine: Machine
    target: CoreTarget
    assessment: Assessment
    found: FoundNest | None
    proof: Proof | None

    def headline(self) -> list[str]:
        """The kernel, whether it is legal, its time, and what binds it."""
        given = self.assessment
        lines = [
            f"{self.problem.text()} on {self.machine.name}: nest '{given.nest.name}', "
            f"{given.seconds * 1e6:.1f} us, bound by {given.binding}"
        ]
        return lines + [f"illegal: {broken.text}" for broken in given.violations]

    def as_table(self) -> Table:
        """Busy time of every engine, the busiest first."""
        given = self.assessment
        rows = tuple(
            (name, seconds * 1e6, seconds / given.seconds if given.seconds else 0.0)
            for name, seconds in given.ranked
        )
        return Table("engines", ("engine", "busy_us", "share"), rows)

    @cached_property
    def ladder(self) -> tuple[LadderRow, ...]:
        """The ladder's rungs; those of the published problem with what was measured."""
        return ladder(self.problem, self.target)

    @cached_property
    def simulated(self) -> Simulated | None:
        """The kernel's tasks on the engines, with their times; None for a nest that is illegal or
        has too many tasks."""
        given = self.assessment
        return simulated(given) if given.legal and given.steps <= MOST_STEPS else None


def plan_kernel(
    problem: KernelProblem,
    machine: Machine,
    nest: Nest | str | Path | None = None,
    searched: bool = False,
    claim_us: float | None = None,
    check: bool | None = None,
) -> KernelPlan:
    """Plan one kernel on a Trainium-like core, and check it by running it in numpy.

    The nest is the one given, the one found where `searched`, else the last rung of the ladder.
    `check` runs all of it (True), nothing (False), or the first rows of a large problem (None).
    """
    target = target_of(machine)
    found = None
    if searched:
        found = search(problem, target)
        assessment = found.best
    else:
        chosen = nest if isinstance(nest, Nest) else None
        chosen = chosen or (
            last_rung(problem, target) if nest is None else read_nest(Path(str(nest)))
        )
        assessment = NestModel(problem, target).assess(chosen)
    if claim_us is not None:
        floor_check(problem, target, assessment.nest.compute, claim_us * 1e-6)
    proof = None
    if check is not False and assessment.legal:
        proof = prove(assessment, whole=bool(check))
    return KernelPlan(problem, machine, target, assessment, found, proof)


def prove(assessment: Assessment, whole: bool = False) -> Proof:
    """Run a nest, or its first rows; and walk through all of its loops, counting."""
    problem, nest, target = assessment.problem, assessment.nest, assessment.target
    if whole or problem.macs <= WHOLE_MACS:
        executed = execute(assessment)
        return Proof(executed, executed.counts, problem.rows, problem.rows)
    counts = None
    if assessment.steps <= MOST_STEPS and problem.macs <= COUNTED_MACS:
        counts = count(problem, nest)
        difference = count_difference(assessment, counts)
        if difference:
            raise KernelError(f"nest '{nest.name}': executed and counted differ: {difference}")
    rows = min(problem.rows, nest.block_rows + nest.tile_rows)
    below = problem.pads[2] if rows == problem.rows else 0
    top, left, _, right = problem.pads
    height = max(1, (rows - 1) * problem.strides[0] + problem.kernel[0] - top - below)
    first = replace(problem, height=height, pads=(top, left, below, right), batch=1)
    executed = execute(NestModel(first, target).assess(nest))
    return Proof(executed, counts, rows, problem.rows)
