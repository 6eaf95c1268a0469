"""A search's own measure is told with its ratio to layer by layer and its bound."""

import pytest

from tilewright import api
from tilewright.machine.load import load_machine
from tilewright.program.metrics import Objective, score
from tilewright.report.objective import bound_of, objective_json, objective_lines
from tilewright.search.effort import Effort


@pytest.mark.parametrize("objective", [Objective.EDP, Objective.MEMORY])
def test_the_measure_of_a_search_is_told(objective: Objective) -> None:
    planned = api.plan(
        api.load("four_convs@12x12"),
        load_machine("npu-2.7"),
        objective=objective,
        effort=Effort.LOW,
        verify=False,
    ).planned
    assert planned.found is not None
    row = objective_json(planned)
    assert row is not None and row["name"] == objective.value
    layers = next(r for r in planned.found.rivals if r.name == "layer by layer")
    own = score(planned.found.best.metrics, objective)
    assert row["of_layer_by_layer"] == pytest.approx(
        own / score(layers.metrics, objective), abs=1e-6
    )
    bound = bound_of(planned.bounds, objective)
    assert (bound is None) == (objective is Objective.MEMORY)
    assert bound is None or bound <= own
    (line,) = objective_lines(planned)
    assert f"least {objective.value}" in line
    assert ("at least" in line) == (bound is not None)
