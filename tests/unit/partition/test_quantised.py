"""Quantised networks are counted as operators on integers: no launch for a conversion, weights in
the bytes they are stored in."""

import ml_dtypes
import numpy as np
import pytest

from support.builder import GraphBuilder
from tilewright.graph.graph import Graph
from tilewright.partition.partition import FusionLevel, partition_graph
from tilewright.partition.target import load_target

SIZE = 8 * 6 * 6


class Network(GraphBuilder):
    """Builds networks with conversions to and from int8, and weights of four bits."""

    def __init__(self) -> None:
        super().__init__(opset=21)

    def step(self, scale: float) -> tuple[str, str]:
        """A scale and a zero point."""
        return self.constant(scale, "float32"), self.constant(0, "int8")

    def quantised(self, x: str, scale: float = 0.1) -> str:
        """A value as integers."""
        return self.add("QuantizeLinear", x, *self.step(scale))

    def real(self, x: str, scale: float = 0.1) -> str:
        """The numbers that integers stand for."""
        return self.add("DequantizeLinear", x, *self.step(scale))

    def packed(self, rows: int, columns: int, block: int) -> str:
        """Weights of four bits, with a scale for so many of a column."""
        stored = self.constant(np.ones((rows, columns)).astype(ml_dtypes.int4))
        scales = self.weight(rows // block, columns)
        return self.add("DequantizeLinear", stored, scales, axis=0, block_size=block)


@pytest.mark.quick
@pytest.mark.parametrize("turned", [False, True])
def test_weights_of_four_bits_are_read_packed_with_their_scales(turned: bool) -> None:
    b = Network()
    x, weights = b.input(8, 128), b.packed(128, 128, 32)
    if turned:
        weights = b.add("Transpose", weights, perm=[1, 0])
    b.add("MatMul", x, weights, name="product")
    found = partition_graph(b.graph())
    assert [operator.name for operator in found.operators] == ["MatMul_product"]
    assert found.traffic.parameters == 128 * 128 // 2 + 4 * 128 * 4
    assert found.launches_before == 1
    assert found.work.flops_total == 2 * 8 * 128 * 128


def test_a_quantised_table_is_read_where_it_is_looked_up() -> None:
    b = Network()
    table = b.packed(1000, 16, 8)
    b.add("Gather", table, b.input(1, 5, dtype="int64"))
    scales = -(-125 * 16 * 4 * 5 // 1000)
    assert partition_graph(b.graph()).traffic.parameters == 5 * 16 // 2 + scales


def block() -> Graph:
    """A convolution and a sum, every value between them quantised; the input is read twice."""
    b = Network()
    x = b.real(b.quantised(b.input(1, 8, 6, 6)))
    weights = b.real(b.constant(np.ones((8, 8, 1, 1)), "int8"))
    made = b.add("Conv", x, weights)
    total = b.add("Add", b.real(b.quantised(made)), x)
    b.real(b.quantised(total))
    return b.graph()


def test_conversions_are_part_of_the_operator_between() -> None:
    found = partition_graph(block())
    assert [kernel.label for kernel in found.kernels] == ["QuantizeLinear", "Conv", "Add"]
    assert (found.launches_before, found.launches_after) == (3, 3)
    convolution, add = found.kernels[1:]
    assert (convolution.traffic.reads, convolution.traffic.writes) == (SIZE, SIZE)
    assert convolution.traffic.parameters == 8 * 8
    # The sum reads both of its operands as bytes, and gives the network's result as real numbers.
    assert (add.traffic.reads, add.traffic.writes) == (2 * SIZE, 4 * SIZE)


@pytest.mark.parametrize(("after", "launches"), [(0.1, 0), (0.2, 1)])
def test_a_view_launches_only_where_the_scale_changes(after: float, launches: int) -> None:
    b = Network()
    x = b.real(b.input(1, 8, 4, 4, dtype="int8"))
    b.quantised(b.add("Reshape", x, b.constant([1, 128])), after)
    assert partition_graph(b.graph()).launches_before == launches


def test_kernels_that_read_the_same_integers_are_cut() -> None:
    target = load_target("kpu-t64", "int8")
    found = partition_graph(block(), FusionLevel.CAPACITY, target=target)
    assert all(kernel.tiling is not None for kernel in found.kernels)
    assert found.kernels[-1].traffic.writes == 4 * SIZE
