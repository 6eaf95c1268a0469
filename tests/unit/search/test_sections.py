"""Sections look ahead: how a unit is divided among the cores suits those behind it too."""

import pytest

from support.builder import GraphBuilder
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.planning import prepared
from tilewright.search.candidates import sections
from tilewright.search.candidates.candidate import Candidates
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.sections import Section

pytestmark = pytest.mark.quick


def narrowing() -> Graph:
    """Images that become small and deep: positions are best to divide first, channels at last."""
    b = GraphBuilder()
    y, depth = b.input(1, 32, 28, 28), 32
    for stride in (1, 2, 1, 2, 1):
        wide = depth * stride
        y = b.add("Conv", y, b.weight(wide, depth, 3, 3), pads=(1, 1, 1, 1), strides=(stride,) * 2)
        y, depth = b.add("Conv", y, b.weight(wide, wide, 1, 1)), wide
    return b.graph(y)


def whole_section(machine_name: str) -> Section:
    """The whole network as one section."""
    machine = load_machine(machine_name)
    graph = prepared(narrowing(), machine, machine.dtype).graph
    network = Network(graph, machine, machine.dtype)
    found = Candidates(network).sections.section((1 << len(network.units)) - 1)
    assert found is not None
    return found


@pytest.mark.parametrize("machine", ["npu-2.7", "npu-4.0"])
def test_a_section_is_no_worse_than_one_that_looks_at_each_unit_alone(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = whole_section(machine)
    monkeypatch.setattr(sections, "DIVISIONS", 1)
    alone = whole_section(machine)
    assert ahead.spent <= alone.spent


def test_looking_ahead_pays_where_the_best_division_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = whole_section("npu-4.0")
    monkeypatch.setattr(sections, "DIVISIONS", 1)
    assert ahead.spent < 0.99 * whole_section("npu-4.0").spent
    axes = {option.axis for _, option in ahead.choices}
    assert len(axes) > 1
