"""Loads that find no room where they want it make some, if the run is faster for it."""

from pathlib import Path

from tilewright.frontend.builder import Builder
from tilewright.machine.load import load_machine
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.planning import prepared
from tilewright.program.lower import lowered
from tilewright.tiling.grid import Split

MINIMAL = Path(__file__).parents[3] / "examples" / "machines" / "1-minimal.yaml"


def test_an_activation_in_the_group_of_its_convolution_does_not_cost_prefetch() -> None:
    b = Builder("wide")
    network = b.finish(b.op("HardSwish", b.conv(b.input("x", (1, 96, 40, 40)), 96, 3, pads=1)))
    machine = load_machine(str(MINIMAL)).with_memory(48 * 1024)
    graph = prepared(network, machine, machine.dtype).graph
    splits = (Split(2, 5), Split(3, 3), Split(1, 6))
    conv, activation = (node.name for node in graph.nodes)

    def cycles(*groups: tuple[str, ...]) -> int:
        cut = tuple(GroupPlan(nodes, splits) for nodes in groups)
        plan = Plan("wide", machine.name, machine.dtype, cut)
        return lowered(graph, machine, plan).schedule.makespan

    assert cycles((conv, activation)) < cycles((conv,), (activation,))
