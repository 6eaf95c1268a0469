"""Blocks: whole residual, inverted residual, attention and MLP blocks are one kernel."""

import pytest

from tilewright import api
from tilewright.frontend.builder import Builder
from tilewright.partition.partition import FusionLevel, Partition, partition_graph


def blocks(name: str) -> Partition:
    return partition_graph(api.load(name).graph, FusionLevel.BLOCK)


@pytest.mark.quick
def test_residual_blocks_of_a_resnet() -> None:
    found = blocks("resnet18")
    sizes = sorted(len(k.operators) for k in found.kernels if k.pattern == "ResidualBlock")
    assert sizes == [7] * 5 + [9] * 3
    assert len(found.kernels) == 13


def test_inverted_residuals() -> None:
    found = blocks("mobilenet_v2")
    sizes = sorted(len(k.operators) for k in found.kernels if k.pattern == "InvertedResidual")
    assert sizes == [8] * 6 + [9] * 10
    assert found.patterns["DepthwisePointwise"] == 1


@pytest.mark.parametrize(("name", "layers"), [("vit_b16@64x64", 12), ("bert_base@16", 12)])
def test_transformer_layers_are_two_kernels(name: str, layers: int) -> None:
    found = blocks(name)
    assert found.patterns["AttentionBlock"] == layers
    assert found.patterns["MLPBlock"] == layers
    assert len(found.kernels) <= 8 * layers


def test_squeeze_and_excite_joins_its_depthwise_convolution() -> None:
    b = Builder("gate")
    x = b.input("x", (1, 16, 8, 8))
    y = b.op("Relu", b.conv(x, 16, 3, pads=1, groups=16, name="depthwise"), name="relu")
    gate = b.op("GlobalAveragePool", y, name="pool")
    gate = b.op("Relu", b.conv(gate, 4, 1, name="down"), name="relu2")
    gate = b.op("Sigmoid", b.conv(gate, 16, 1, name="up"), name="sigmoid")
    y = b.op("Mul", y, gate, name="mul")
    graph = b.finish(b.conv(y, 24, 1, name="project"))
    (kernel,) = partition_graph(graph, FusionLevel.BLOCK).kernels
    assert len(kernel.operators) == len(graph.nodes)


def test_a_value_that_leaves_the_block_keeps_it_apart() -> None:
    b = Builder("escapes")
    x = b.input("x", (1, 8, 8, 8))
    y = b.op("Relu", b.conv(x, 8, 3, pads=1, name="conv1"), name="relu1")
    z = b.conv(y, 8, 3, pads=1, name="conv2")
    graph = b.finish(b.op("Add", z, x, name="add"), y)
    found = partition_graph(graph, FusionLevel.BLOCK)
    assert all(kernel.pattern != "ResidualBlock" for kernel in found.kernels)


def test_the_same_block_with_a_side_input() -> None:
    """A time embedding is read from outside; the residual is one block nevertheless."""
    b = Builder("time")
    x, shift = b.input("x", (1, 8, 8, 8)), b.input("time", (1, 8, 1, 1))
    shift = b.op("Relu", shift, name="shared")
    for index in range(2):
        with b.scope(f"block{index}"):
            y = b.op("Add", b.conv(x, 8, 3, pads=1, name="conv1"), shift, name="shifted")
            y = b.conv(b.op("Relu", y, name="relu"), 8, 3, pads=1, name="conv2")
            x = b.op("Add", x, y, name="add")
    found = partition_graph(b.finish(x), FusionLevel.BLOCK)
    assert found.patterns.get("ResidualBlock") == 2
