"""The same plan with larger scratchpads: copies start in the order of their urgency, so that more
room, which lets loads come earlier, hardly ever costs anything."""

import random

import pytest

from support.searches import segmentation_network
from tilewright.frontend.builder import Builder
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.planning import prepared
from tilewright.program.lowering import Lowering
from tilewright.program.timed import Timed
from tilewright.search.candidates.layers import layer_by_layer

KIBIBYTES = (24, 48, 96, 1024)
WORSE = 0.08  # copies are dispatched greedily: the most that any step up may cost
ON_AVERAGE = 0.02


def convolutions(seed: int) -> Graph:
    """A chain of products of many sizes, some of them with a way around."""
    chance = random.Random(seed)
    b = Builder(f"chain{seed}")
    x = b.input("x", (1, 16, 28, 28))
    for number in range(6):
        with b.scope(f"b{number}"):
            filters, kernel = chance.choice((16, 32, 64)), chance.choice((1, 3))
            y = b.op("Relu", b.conv(x, filters, kernel, pads=kernel // 2))
            x = b.op("Add", y, x) if b.shape(y) == b.shape(x) else y
    return b.finish(x)


def slower(graph: Graph, machine: Machine) -> list[float]:
    """By how much each step up the ladder is slower than the best below it."""
    small = machine.with_memory(KIBIBYTES[0] * 1024)
    graph = prepared(graph, small, small.dtype).graph
    plan = layer_by_layer(graph, small, small.dtype, "network")
    best, found = 0, list[float]()
    for kibibytes in KIBIBYTES:
        timed = Lowering(graph, machine.with_memory(kibibytes * 1024), plan.dtype).timed(plan)
        assert isinstance(timed, Timed), "it fitted into less"
        if best:
            found.append(max(0.0, timed.makespan / best - 1))
        best = min(best or timed.makespan, timed.makespan)
    return found


@pytest.mark.parametrize("gigabytes", [4, 32])
def test_the_same_plan_is_not_slower_with_more_scratchpad(gigabytes: int) -> None:
    steps: list[float] = []
    two, six = (
        load_machine(name).with_bandwidth("ddr", gigabytes * 1e9) for name in ("npu-2.7", "npu-4.0")
    )
    for seed in range(4):
        steps += slower(segmentation_network(seed), two if seed % 2 else six)
        steps += slower(convolutions(seed), two)
    assert max(steps) <= WORSE
    assert sum(steps) / len(steps) <= ON_AVERAGE
