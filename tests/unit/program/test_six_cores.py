"""Six cores: what one has and all others need is sent once, and loads take all links where it takes
them all to fill the bandwidth of the main memory."""

from math import prod

import numpy as np
import pytest

from support.builder import GraphBuilder, feeds_of
from support.two_cores import titled
from tilewright.execute.runtime import run
from tilewright.execute.vm import VirtualMachine
from tilewright.frontend.save import serialize
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.planning import prepared
from tilewright.program.lower import lowered
from tilewright.program.place import Placed
from tilewright.program.program import Compute
from tilewright.tiling.grid import Split

pytestmark = pytest.mark.quick


def network() -> Graph:
    """Two convolutions of 96 channels, divided by channels: each core needs all of the first."""
    b = GraphBuilder()
    y = b.input(1, 96, 8, 8)
    for _ in range(2):
        y = b.add("Conv", y, b.weight(96, 96, 3, 3), pads=(1, 1, 1, 1))
    return b.graph(y)


def placed(machine_name: str, *splits: Split) -> tuple[Graph, Placed]:
    """The network, both convolutions cut alike: by channels, unless it is said otherwise."""
    machine = load_machine(machine_name)
    graph = prepared(network(), machine, machine.dtype).graph
    splits = splits or (Split(1, len(machine.cores)),)
    groups = tuple(GroupPlan((node.name,), splits, 0) for node in graph.nodes)
    kept = graph.nodes[0].outputs[0]
    plan = Plan("two", machine.name, machine.dtype, groups, (kept,))
    return graph, lowered(graph, machine, plan)


def test_what_all_cores_need_is_passed_to_them_at_once() -> None:
    graph, found = placed("npu-4.0")
    passes = titled(found.program, "pass ")
    assert len(passes) == 6  # one of each core
    for task in passes:
        memories = {found.program.buffers[view.buffer].memory for view in task.writes}
        assert len(memories) == len(task.writes) == 5
    check(graph, found)


def check(graph: Graph, found: Placed) -> None:
    """Whether the program gives onnxruntime's numbers."""
    machine, original = load_machine("npu-4.0"), network()
    feeds = feeds_of(original)
    weights = {n: c.data for n, c in graph.constants.items() if c.data is not None}
    outputs = VirtualMachine(found, machine, graph.opset).run(feeds, weights).outputs
    for name, expected in run(serialize(original), feeds).items():
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("splits", "shape"),
    [
        ((Split(2, 2), Split(3, 3, crossed=True)), (96, 4, 3)),
        ((Split(1, 3), Split(2, 2, crossed=True)), (32, 4, 8)),
        ((Split(3, 2), Split(1, 6, crossed=True)), (16, 8, 4)),  # two tiles on each core
    ],
    ids=["rows-columns", "channels-rows", "columns-channels"],
)
def test_cores_share_two_axes(splits: tuple[Split, ...], shape: tuple[int, ...]) -> None:
    graph, found = placed("npu-4.0", *splits)
    tiles = prod(split.parts for split in splits)
    last = graph.nodes[-1].name
    done = [t for t in found.program.tasks if t.node == last and isinstance(t.work, Compute)]
    assert len(done) == tiles
    assert max(task.writes[0].shape for task in done) == (1, *shape)
    engines = [task.engine for task in done]
    assert {engines.count(engine) for engine in engines} == {tiles // 6}
    check(graph, found)


@pytest.mark.parametrize(("machine", "links"), [("npu-4.0", 2), ("npu-2.7", 1)])
def test_large_loads_take_as_many_links_as_fill_the_bandwidth(machine: str, links: int) -> None:
    _, found = placed(machine)
    large = [t for t in titled(found.program, "load ") if t.moved > 16_000]
    assert len(large) > 2 and len({task.engine for task in large}) == links
