"""What a search says of itself: what its plan was compared with, how much it looked at, and
whether it was interrupted. The same words in the text, the JSON and the page."""

from typing import Any

from tilewright.planning.result import Planned
from tilewright.program.metrics import Objective
from tilewright.report.objective import layer_by_layer, objective_json
from tilewright.search.grouping.patterns import pattern_row
from tilewright.tables import picked
from tilewright.units import format_bytes, noun, several


def search_json(planned: Planned) -> dict[str, Any] | None:
    """The same for a program; None without a search."""
    found = planned.found
    if found is None:
        return None
    layers = layer_by_layer(planned)
    latency = max(1, planned.account.latency_cycles)
    return {
        "objective": objective_json(planned),
        "rivals": [
            {"name": r.name, "latency_cycles": r.cycles, "dram_bytes": r.dram_bytes}
            for r in found.rivals
        ],
        "speed_up": None if layers is None else round(layers.cycles / latency, 6),
        "fusion_helps": None if found.interrupted and not _helps(planned) else _helps(planned),
        **picked(found, "exact", "groups_looked_at"),
        "plans_simulated": found.simulated,
        **picked(found, "interrupted", "not_looked_at"),
        "patterns": [pattern_row(pattern) for pattern in planned.patterns],
    }


def _helps(planned: Planned) -> bool:
    """Whether anything runs together or stays in the scratchpads in the plan that was found."""
    layers = layer_by_layer(planned)
    return layers is None or planned.plan != layers.plan


def searched_lines(planned: Planned) -> list[str]:
    """What the plan was compared with, and how thorough the search was."""
    found = planned.found
    if found is None:
        return []
    account = planned.account
    moved = max(1, account.dram_read_bytes + account.dram_write_bytes)
    lines: list[str] = []
    for label, rival in zip(("against", ""), found.rivals, strict=False):
        lines.append(
            f"{label:<13}{rival.name}: {rival.cycles:,} {noun(rival.cycles, 'cycle')}, "
            f"{format_bytes(rival.dram_bytes)}; "
            f"the plan is {rival.cycles / max(1, account.latency_cycles):.2f}x as fast "
            f"and moves {moved / max(1, rival.dram_bytes):.2f}x the bytes"
        )
    if not _helps(planned) and not found.interrupted:
        text = "fusion does not help here: no grouping that was simulated beats layer by layer"
        lines.append(f"{'':<13}{text}")
    lines.append(f"search       {search_line(planned)}")
    return lines


def search_line(planned: Planned) -> str:
    """How thorough a search was, and whether it was interrupted; nothing where there was none."""
    found = planned.found
    if found is None:
        return ""
    how = "best of all groupings by estimate, then improved"
    if not found.exact:
        how = "good groupings by estimate (too many to look at all), then improved"
    if found.interrupted and not found.exact:
        how = "incomplete"
    turns = "" if found.objective is Objective.LATENCY else " for all objectives in turn"
    stop = "; interrupted, this is the best plan so far" if found.interrupted else ""
    stop += f" (not looked at: {found.not_looked_at})" if found.not_looked_at else ""
    return (
        f"{how}; {several(found.groups_looked_at, 'group')} looked at, "
        f"{several(found.simulated, 'plan')} simulated{turns}{stop}"
    )
