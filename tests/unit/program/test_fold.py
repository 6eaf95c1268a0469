"""Biases and activations run inside the product before them, and nothing else does."""

import numpy as np
import pytest

from support.builder import GraphBuilder
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.planning import prepared
from tilewright.program.lower import lowered
from tilewright.search.bounds.bounds import bounds_of
from tilewright.search.candidates.layers import layer_by_layer
from tilewright.search.candidates.network import Network

NPU = load_machine("npu-2.7")


def product(bias: tuple[int, ...], *, first: bool = False) -> Graph:
    """A matrix product, then a sum with a constant, then an activation."""
    b = GraphBuilder()
    x = b.add("MatMul", b.input(1, 64, 32), b.weight(32, 48))
    numbers = b.constant(np.ones(bias, np.float32), "float32")
    x = b.add("Add", numbers, x) if first else b.add("Add", x, numbers)
    b.add("Relu", x)
    return prepared(b.graph(), NPU, "fp16").graph


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("bias", [(48,), (1, 48), (1, 1, 48)])
def test_a_bias_runs_inside_the_product(bias: tuple[int, ...], first: bool) -> None:
    graph = product(bias, first=first)
    network = Network(graph, NPU, "fp16")
    assert [len(unit.nodes) for unit in network.units] == [3]
    placed = lowered(graph, NPU, layer_by_layer(graph, NPU, "fp16", "product"))
    engines = {task.engine for task in placed.program.tasks if not task.name.startswith(("l", "s"))}
    assert engines and all(engine.endswith("dpu") for engine in engines)
    assert bounds_of(graph, NPU, "fp16").vector == 0


@pytest.mark.parametrize("other", [(64, 48), (64, 1), (1, 64, 48)])
def test_a_sum_with_numbers_per_position_does_not(other: tuple[int, ...]) -> None:
    graph = product(other)
    network = Network(graph, NPU, "fp16")
    assert [len(unit.nodes) for unit in network.units] != [3]
    placed = lowered(graph, NPU, layer_by_layer(graph, NPU, "fp16", "product"))
    assert any(task.engine.endswith("shave") for task in placed.program.tasks)
    assert bounds_of(graph, NPU, "fp16").cycles <= placed.schedule.makespan
