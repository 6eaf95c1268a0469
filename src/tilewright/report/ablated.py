"""What each technique buys, as a table, as text and as JSON."""

from typing import Any

from rich.table import Table

from tilewright.machine.machine import Machine
from tilewright.planning import Planned
from tilewright.report import right
from tilewright.search.explanation.ablation import PUBLISHED, PUBLISHED_FOR, Ablation
from tilewright.units import format_bytes

CAVEATS = (
    "published: another block and a machine that is not named, its softmax known to be "
    "mis-measured; shown for comparison, never tuned to"
)


def published(planned: Planned) -> tuple[float, ...] | None:
    """The published times beside this network's, in ms."""
    name = planned.plan.model.partition("@")[0]
    return PUBLISHED if name in PUBLISHED_FOR else None


def ablation_json(planned: Planned) -> dict[str, Any] | None:
    """Every step, for a program."""
    ablation = planned.ablation
    if ablation is None:
        return None
    times, there = published(planned), times_of(ablation, planned.machine)
    return {
        "steps": [
            {
                "name": step.name,
                "passes_left_out": sorted(step.without),
                "latency_cycles": step.cycles,
                "latency_ms": round(there[number], 9),
                "dram_bytes": step.dram_bytes,
                "factor": round(_factor(ablation, number, number - 1), 6),
                "factor_in_all": round(_factor(ablation, number, 0), 6),
                "kept": step.kept or None,
                "published_ms": None if times is None else times[number],
            }
            for number, step in enumerate(ablation.steps)
        ],
        "notes": notes(planned),
    }


def times_of(ablation: Ablation, machine: Machine) -> list[float]:
    """Milliseconds of every step."""
    return [machine.seconds(step.cycles) * 1e3 for step in ablation.steps]


def notes(planned: Planned) -> list[str]:
    """Remarks below the table."""
    if planned.ablation is None:
        return []
    found = list(planned.ablation.notes)
    return [*found, CAVEATS] if published(planned) is not None else found


def ablation_table(planned: Planned) -> Table:
    """The steps side by side."""
    ablation = planned.ablation
    assert ablation is not None
    times = published(planned)
    others = right("published ms", "published factor") if times is not None else ()
    figures = right("ms", "cycles", "DRAM", "to the row before", "in all")
    table = Table("plan with", *figures, *others)
    for number, (step, ms) in enumerate(
        zip(ablation.steps, times_of(ablation, planned.machine), strict=True)
    ):
        row = [step.name, f"{ms:.4g}", f"{step.cycles:,}", format_bytes(step.dram_bytes)]
        row += [f"{_factor(ablation, number, number - 1):.2f}x" if number else ""]
        row += [f"{_factor(ablation, number, 0):.2f}x" if number else ""]
        if times is not None:
            row += [f"{times[number]:.0f}"]
            row += [f"{times[number - 1] / times[number]:.2f}x" if number else ""]
        table.add_row(*row)
    return table


def _factor(ablation: Ablation, number: int, before: int) -> float:
    steps = ablation.steps
    return steps[max(0, before)].cycles / max(1, steps[number].cycles)
