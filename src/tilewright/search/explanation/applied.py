"""A plan with the boundaries taken away that are better joined: what `explain` found, made."""

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.graph.graph import Graph
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan
from tilewright.program.lower import lowered
from tilewright.program.place import Placed
from tilewright.search.explanation.explain import Boundary, Explanation
from tilewright.search.explanation.trials import BoundaryKind
from tilewright.search.progress import Tell, silent

Explaining = Callable[[Plan, Placed, Tell], Explanation]
ROUNDS = 16  # joins of boundaries, each on the plan that the one before gave


@dataclass(frozen=True, slots=True)
class Applied:
    """A plan that was improved, the tensors whose boundaries were taken away one after the other,
    and the cycles before the first and behind each."""

    plan: Plan
    tensors: tuple[str, ...]
    cycles: tuple[int, ...]


def apply(
    graph: Graph,
    machine: Machine,
    plan: Plan,
    explanation: Explanation,
    explaining: Explaining,
    *,
    without: frozenset[str] = frozenset(),
    tell: Tell = silent,
) -> Applied:
    """Take away the boundary whose trial was best, explain the plan that gives as the first was,
    and so on until no boundary is better joined."""
    tensors: list[str] = []
    cycles = [explanation.cycles]

    def told(text: str, share: float | None = None, /) -> None:
        tell(f"{len(tensors)} joined, at most {ROUNDS}: {text}", share)

    for _ in range(ROUNDS):
        best = _best(explanation)
        if best is None:
            break
        boundary, better = best
        tell(f"joining across '{boundary.edge.tensor}'")
        placed = lowered(graph, machine, better, without)
        if placed.schedule.makespan > cycles[-1]:
            break  # trials and plans are lowered alike; were they not, nothing is made worse
        plan = better
        tensors.append(boundary.edge.tensor)
        cycles.append(placed.schedule.makespan)
        explanation = explaining(plan, placed, told)
    return Applied(plan, tuple(tensors), tuple(cycles))


def _best(explanation: Explanation) -> tuple[Boundary, Plan] | None:
    """The trial with the fewest cycles, then bytes, among those that are better joined."""
    missed = (b for b in explanation.boundaries if b.kind is BoundaryKind.MISSED)
    found = [
        (trial.cycles, trial.dram_bytes or 0, boundary, trial.plan)
        for boundary in missed
        for trial in boundary.trials
        if trial.plan is not None and trial.cycles is not None
    ]
    return min(found, key=lambda row: row[:2])[2:] if found else None
