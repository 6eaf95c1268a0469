"""Sections look ahead: how a unit is divided among the cores suits those behind it too."""

import pytest

from support.builder import GraphBuilder
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.planning import prepared
from tilewright.program.lowering import Lowering
from tilewright.program.timed import Timed
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


def gated() -> Graph:
    """Convolutions with activations of the vector engine between them, on which a mean waits."""
    b = GraphBuilder()
    y = b.input(1, 64, 28, 28)
    y = b.add("Conv", y, b.weight(384, 64, 1, 1))
    y = b.add("Sigmoid", y)
    y = b.add("Conv", y, b.weight(384, 1, 5, 5), pads=(2, 2, 2, 2), group=384)
    y = b.add("Sigmoid", y)
    return b.graph(b.add("GlobalAveragePool", y))


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


def test_engines_overlap_within_a_section(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = load_machine("npu-2.7")
    graph = prepared(gated(), machine, machine.dtype).graph
    cycles: list[int] = []
    runs: list[int] = []
    for longest in (1, sections.LONGEST):
        monkeypatch.setattr(sections, "LONGEST", longest)
        network = Network(graph, machine, machine.dtype)
        whole = (1 << len(network.units)) - 1
        candidates = Candidates(network)
        found = candidates.sections.section(whole)
        assert found is not None
        runs.append(max(len(run) for run, _ in found.choices))
        timed = Lowering(graph, machine, machine.dtype).timed(candidates.plan("gated", (whole,)))
        assert isinstance(timed, Timed)
        cycles.append(timed.makespan)
    assert runs[0] == 1 < runs[1]  # several units are cut as one
    assert cycles[1] < 0.85 * cycles[0]


def test_runs_divide_each_operator_among_the_cores() -> None:
    """The columns of a product do not divide the normalisation before it: one core would compute
    all of that, and pass it on for every tile."""
    b = GraphBuilder()
    y = b.add("LayerNormalization", b.input(1, 64, 256), b.weight(256), axis=2)
    graph = b.graph(b.add("MatMul", y, b.weight(256, 512)))
    machine = load_machine("npu-2.7")
    network = Network(prepared(graph, machine, machine.dtype).graph, machine, machine.dtype)
    tiler = Candidates(network).tiler
    nodes = [node for unit in network.units for node in unit.nodes]
    ops, exported = network.joined_ops(range(len(network.units))), tiler.exported(nodes)
    options = tiler.fused(ops, exported, tiler.usable, crossed=True)
    spread = tiler.spread(ops, exported, options)
    assert {option.axis for option in options} == {1, 2}
    assert {option.axis for option in spread} == {1}


def test_units_of_a_section_can_be_kept_apart() -> None:
    machine = load_machine("npu-2.7")
    graph = prepared(gated(), machine, machine.dtype).graph
    candidates = Candidates(Network(graph, machine, machine.dtype))
    whole = (1 << len(candidates.network.units)) - 1
    for some, longest in ((candidates, 2), (candidates.apart(), 1)):
        found = some.sections.section(whole)
        assert found is not None
        assert (max(len(run) for run, _ in found.choices) >= 2) == (longest == 2)
