"""The boundaries of a plan, explained."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan
from tilewright.report.explained import explanation_json, explanation_lines
from tilewright.search.explanation.applied import Applied
from tilewright.search.explanation.explain import Explanation, label_of
from tilewright.tables import Cell, Shown, Table
from tilewright.units import several


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
        """The lines that `tilewright explain` prints above its tables."""
        return [
            *explanation_lines(self.plan, self.machine, self.explanation),
            *([] if self.applied is None else [applied_line(self.applied)]),
        ]

    def as_table(self) -> Table:
        """One row per boundary."""
        groups = self.plan.groups
        rows: list[tuple[Cell, ...]] = []
        for b in self.explanation.boundaries:
            cycles = None if b.trial is None else b.trial.cycles
            ends = label_of(groups[b.edge.before]), label_of(groups[b.edge.after])
            names = ", ".join(b.tensors)
            rows.append((names, b.bytes, b.through, *ends, b.kind.value, cycles, b.text))
        columns = "tensors bytes goes_through before after kind joined_cycles reason".split()
        return Table("boundaries", tuple(columns), tuple(rows))


def applied_line(applied: Applied) -> str:
    """What taking boundaries away gave."""
    if not applied.tensors:
        return "no boundary is better joined: the plan is written as it was"
    count = several(len(applied.tensors), "boundary", "boundaries")
    tensors, first, last = ", ".join(applied.tensors), applied.cycles[0], applied.cycles[-1]
    return f"{count} joined ({tensors}): {first:,} -> {last:,} cycles"
