"""What a plan was searched for, by its own measure: against layer by layer, and its bound."""

from typing import Any

from tilewright.planning.result import Planned
from tilewright.program.metrics import Objective
from tilewright.search.bounds.bounds import Bounds
from tilewright.search.found import Trial
from tilewright.units import format_bytes

LAYERS = "layer by layer"  # the rival that ratios refer to


def layer_by_layer(planned: Planned) -> Trial | None:
    """The plan that ratios refer to, where a search looked at it."""
    rivals = planned.found.rivals if planned.found is not None else ()
    return next((rival for rival in rivals if rival.name == LAYERS), None)


def bound_of(bounds: Bounds, objective: Objective) -> float | None:
    """What no plan can undercut by a measure, where that is known."""
    known: dict[Objective, float] = {
        Objective.LATENCY: bounds.cycles,
        Objective.ENERGY: bounds.energy_pj,
        Objective.TRAFFIC: bounds.compulsory_bytes,
        Objective.EDP: bounds.energy_pj * bounds.cycles,
    }
    return known.get(objective) or None


def objective_json(planned: Planned) -> dict[str, Any] | None:
    """The measure of a search: its value, layer by layer's and the bound, and the ratios."""
    found = planned.found
    if found is None:
        return None
    own = found.best.score(found.objective)
    rival = layer_by_layer(planned)
    layers = 0 if rival is None else rival.score(found.objective)
    bound = bound_of(planned.bounds, found.objective)
    return {
        "name": found.objective.value,
        "value": own,
        "layer_by_layer": layers or None,
        "of_layer_by_layer": round(own / layers, 6) if layers else None,
        "bound": bound,
        "of_bound": round(own / bound, 6) if bound else None,
    }


def objective_lines(planned: Planned) -> list[str]:
    """The same in a line, for objectives that no other line is about."""
    row = objective_json(planned)
    if row is None or planned.found is None or planned.found.objective is Objective.LATENCY:
        return []
    objective = planned.found.objective

    units = {Objective.ENERGY: (1e6, "uJ"), Objective.EDP: (1e12, "J x cycles")}

    def told(value: float) -> str:
        factor, unit = units.get(objective, (1.0, ""))
        return f"{value / factor:.4g} {unit}" if unit else format_bytes(int(value))

    text = f"objective    least {row['name']}: {told(row['value'])}"
    if row["layer_by_layer"]:
        text += f"; {row['of_layer_by_layer']:.2f}x of layer by layer"
    if row["bound"]:
        text += f"; at least {told(row['bound'])} ({row['of_bound']:.2f}x)"
    return [text]
