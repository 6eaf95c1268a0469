"""The boundaries of a plan, explained."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan
from tilewright.report.explained import explanation_json
from tilewright.search.explanation.applied import Applied
from tilewright.search.explanation.explain import Explanation, label_of
from tilewright.tables import Cell, Shown, Table
from tilewright.units import noun


@dataclass(frozen=True, slots=True, repr=False)
class Explained(Shown):
    """Why every boundary of a plan is where it is, from trials that took it away."""

    plan: Plan
    machine: Machine
    explanation: Explanation
    notes: tuple[str, ...] = ()
    applied: Applied | None = None

    @property
    def json(self) -> dict[str, Any]:
        """Everything, as `tilewright explain --json` prints it."""
        return explanation_json(self.plan, self.machine, self.explanation)

    def headline(self) -> Sequence[str]:
        """How many boundaries were tried, and how many of them would pay."""
        told = self.explanation
        count = len(told.boundaries)
        faster = sum(b.trial is not None and (b.trial.cycles or 0) < told.cycles
                     for b in told.boundaries)  # fmt: skip
        return [
            f"{self.plan.model} on {self.machine.name}: {count} "
            f"{noun(count, 'boundary', 'boundaries')}, {told.simulated} "
            f"{noun(told.simulated, 'trial')} simulated; {faster} would be faster without",
            *([] if self.applied is None else [applied_line(self.applied)]),
        ]

    def as_table(self) -> Table:
        """One row per boundary."""
        groups, base = self.plan.groups, self.explanation.cycles
        rows: list[tuple[Cell, ...]] = []
        for b in self.explanation.boundaries:
            cycles = None if b.trial is None or b.trial.cycles is None else b.trial.cycles - base
            ends = label_of(groups[b.edge.before]), label_of(groups[b.edge.after])
            rows.append((b.edge.tensor, *ends, b.bytes, b.resident, b.kind.value, cycles, b.text))
        columns = "tensor before after bytes resident kind cycles_without text".split()
        return Table("boundaries", tuple(columns), tuple(rows))


def applied_line(applied: Applied) -> str:
    """What taking boundaries away gave."""
    first, last, count = applied.cycles[0], applied.cycles[-1], len(applied.tensors)
    if not count:
        return "no boundary is better joined: the plan is written as it was"
    return (
        f"{count} {noun(count, 'boundary', 'boundaries')} joined ({', '.join(applied.tensors)}): "
        f"{first:,} -> {last:,} cycles"
    )
