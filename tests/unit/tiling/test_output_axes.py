"""Axes of a group's result have the letters that people give them."""

from support.builder import GraphBuilder
from tilewright.tiling.group import output_axes


def test_channels_and_positions_of_a_signal() -> None:
    b = GraphBuilder()
    b.add("Conv", b.input(1, 4, 32), b.weight(8, 4, 3), name="y", pads=[1, 1])
    assert output_axes(b.graph(), ["Conv_y"]) == ("y", {0: "N", 1: "C", 2: "L"})


def test_rows_of_a_sequence_and_images() -> None:
    b = GraphBuilder()
    b.add("Relu", b.input(1, 32, 4), name="y")
    assert output_axes(b.graph(), ["Relu_y"]) == ("y", {0: "N", 1: "S", 2: "C"})
    b = GraphBuilder()
    one = b.add("Relu", b.input(1, 4, 8, 8), name="one")
    b.add("Sigmoid", one, name="two")
    axes = {0: "N", 1: "C", 2: "H", 3: "W"}
    assert output_axes(b.graph(), ["Relu_one", "Sigmoid_two"]) == ("two", axes)
