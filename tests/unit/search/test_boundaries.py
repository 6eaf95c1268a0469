"""Boundaries that are better taken away are taken away by the search."""

from collections.abc import Callable

import pytest

from support.builder import GraphBuilder
from support.networks import u_shape, view_between
from tilewright.frontend.normalize import normalize
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.plan.plan import Place, Plan
from tilewright.planning.check import check_plan
from tilewright.program.lower import lowered
from tilewright.program.lowering import Lowering
from tilewright.program.metrics import Metrics, Objective, metrics_of
from tilewright.program.timed import Timed
from tilewright.search.candidates.layers import layer_by_layer
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.tiles import Tiler
from tilewright.search.effort import Effort
from tilewright.search.explanation.explain import explain
from tilewright.search.explanation.trials import BoundaryKind
from tilewright.search.fusion import Fusion
from tilewright.search.improvement.boundaries import Joins, edges_of, moving_groups


def test_views_and_what_they_move_come_onto_the_cores() -> None:
    graph, machine = normalize(view_between()), load_machine("mcu")
    plan = layer_by_layer(graph, machine, machine.dtype, "net")
    (edge,) = (edge for edge in edges_of(graph, plan) if edge.tensor == "conv")
    assert edge.via == ("flat",)
    assert [plan.groups[n].nodes for n in moving_groups(plan, edge)] == [("flat",)]
    lowering = Lowering(graph, machine, machine.dtype)

    def evaluate(plan: Plan) -> Metrics | None:
        found = lowering.timed(plan)
        return metrics_of(found) if isinstance(found, Timed) else None

    network = Network(graph, machine, machine.dtype)
    joins, start = Joins(network, Tiler(network)), evaluate(plan)
    assert start is not None
    found = list(joins.better(plan, start, evaluate, Objective.LATENCY, 50))
    cycles = [start.cycles, *(metrics.cycles for _, metrics in found)]
    assert found and cycles == sorted(cycles, reverse=True)
    assert all(group.place is Place.CORES for group in found[-1][0].groups)
    assert not list(joins.better(*found[-1], evaluate, Objective.LATENCY, 50))
    assert not list(joins.better(plan, start, evaluate, Objective.LATENCY, 0))


def test_a_result_of_the_network_that_nothing_reads_is_not_kept() -> None:
    """A plan that says so could not be read again."""
    machine, b = load_machine("mcu"), GraphBuilder()
    conv = b.add("Conv", b.input(1, 8, 16, 16), b.weight(8, 8, 3, 3), pads=[1, 1, 1, 1])
    turned = b.add("Transpose", conv, perm=[0, 2, 3, 1])
    graph = b.graph(turned)
    plan = layer_by_layer(graph, machine, machine.dtype, "net")
    network = Network(graph, machine, machine.dtype)
    joins = Joins(network, Tiler(network))
    (number,) = (n for n, g in enumerate(plan.groups) if g.place is not Place.CORES)
    cut = joins.options(joins.members(plan, (number,)))[0]
    kept = joins.kept(plan, conv, [(number, cut)])
    assert kept.resident == (conv,)
    check_plan(kept, "the plan", graph, machine)


@pytest.mark.parametrize("machine", ["npu-2.7", "trn2"])
@pytest.mark.parametrize("network", [u_shape, view_between])
def test_a_searched_plan_has_no_boundary_that_is_better_joined(
    network: Callable[[], Graph], machine: str
) -> None:
    graph, target = normalize(network()), load_machine(machine)
    plan = Fusion(graph, target, target.dtype, "net").run(Effort.LOW).best.plan
    found = explain(graph, target, plan, lowered(graph, target, plan))
    assert all(row.kind is not BoundaryKind.MISSED for row in found.boundaries)
