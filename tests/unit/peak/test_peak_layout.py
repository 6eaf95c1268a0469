"""The blocked layout: what moves there, what it costs at the borders, and names that lead back."""

import pytest

from support.builder import GraphBuilder
from tilewright.graph.graph import Graph
from tilewright.peak import Moment, Runtime, predict_peak
from tilewright.peak.layout import conv_is_blocked, reads_plain
from tilewright.peak.predict import lower
from tilewright.peak.runtime import native_block

pytestmark = pytest.mark.quick

BLOCKED = Runtime(block=8, bookkeeping=False)
PLANE = 64 * 64 * 4  # bytes of one channel


def kinds(graph: Graph) -> list[str]:
    return [kernel.kind for kernel in lower(graph, BLOCKED).in_order()]


def conv(b: GraphBuilder, x: str, channels: int, size: int = 3) -> str:
    weight = b.weight(channels, b.shape(x)[1], size, size)
    return b.add("Conv", x, weight, pads=[size // 2] * 4)


@pytest.mark.parametrize(
    ("weight", "group", "expected"),
    [
        ((8, 3, 3, 3), 1, True),  # fewer channels than a block: read as they are
        ((8, 12, 3, 3), 1, True),
        ((8, 9, 3, 3), 1, False),
        ((3, 16, 3, 3), 1, True),  # three output channels take a block of eight
        ((32, 1, 3, 3), 32, True),
        ((30, 1, 3, 3), 30, False),
        ((32, 8, 3, 3), 4, True),
        ((32, 4, 3, 3), 8, False),
        ((8, 8, 3), 1, False),
    ],
)
def test_which_convolutions_move(weight: tuple[int, ...], group: int, expected: bool) -> None:
    assert conv_is_blocked(weight, group, block=8) is expected
    assert not conv_is_blocked(weight, group, block=1)


def test_few_input_channels_are_read_plain() -> None:
    assert reads_plain((8, 3, 3, 3), 1, block=8)
    assert not reads_plain((8, 8, 3, 3), 1, block=8)
    assert not reads_plain((8, 1, 3, 3), 8, block=8)


def test_reorders_stand_at_the_borders() -> None:
    b = GraphBuilder()
    x = conv(b, conv(b, b.add("Abs", b.input(1, 16, 64, 64)), 16), 16)
    b.add("Exp", x)
    assert kinds(b.graph()) == ["Abs", "ReorderInput", "Conv", "Conv", "ReorderOutput", "Exp"]


def test_an_operator_the_layout_does_not_know_costs_two_reorders() -> None:
    b = GraphBuilder()
    x = b.add("PRelu", conv(b, b.input(1, 3, 64, 64), 16), b.weight(16, 1, 1))
    conv(b, x, 16)
    expected = ["Conv", "ReorderOutput", "PRelu", "ReorderInput", "Conv", "ReorderOutput"]
    assert kinds(b.graph()) == expected


def test_channels_are_rounded_up_to_the_block() -> None:
    b = GraphBuilder()
    conv(b, conv(b, b.input(1, 3, 64, 64), 16), 3)
    found = predict_peak(b.graph(), BLOCKED)
    assert [moment.bytes for moment in found.trace] == [16 * PLANE, 24 * PLANE, 11 * PLANE]


def test_a_residual_sum_accumulates_in_place() -> None:
    b = GraphBuilder()
    x = conv(b, b.input(1, 3, 64, 64), 16)
    y = b.add("Relu", b.add("Add", conv(b, b.add("Relu", conv(b, x, 16)), 16), x))
    b.add("GlobalAveragePool", y)
    graph = b.graph()
    found = ["Conv", "Conv", "Conv", "GlobalAveragePool", "ReorderOutput"]
    assert kinds(graph) == found
    levels = [moment.bytes for moment in predict_peak(graph, BLOCKED).trace]
    assert levels[:3] == [16 * PLANE, 32 * PLANE, 32 * PLANE]


def test_concat_of_whole_blocks_stays_blocked() -> None:
    for channels, reorders in ((16, 1), (12, 2)):
        b = GraphBuilder()
        x = b.input(1, 3, 64, 64)
        b.add("Concat", conv(b, x, channels), conv(b, x, channels), axis=1)
        assert kinds(b.graph()).count("ReorderOutput") == reorders


def test_tiles_are_joined_outside_the_layout() -> None:
    b = GraphBuilder()
    x = b.input(1, 3, 64, 64)
    b.add("Concat", conv(b, x, 16), conv(b, x, 16), axis=2)
    assert kinds(b.graph()) == ["Conv", "ReorderOutput", "Conv", "ReorderOutput", "Concat"]


def test_names_are_those_of_the_graph() -> None:
    b = GraphBuilder()
    x = b.add("Abs", b.input(1, 16, 64, 64), name="x")
    weight = b.weight(16, 16, 3, 3)
    y = b.add("Relu", b.add("Conv", x, weight, pads=[1, 1, 1, 1], name="c"), name="y")
    b.add("Exp", b.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2], name="p"), name="z")
    found = predict_peak(b.graph(), BLOCKED)
    assert [moment.value for moment in found.trace] == ["x", "x", "y", "p", "p", "z"]
    assert found.at == "x"
    assert [live.name for live in found.live] == ["x", "x"]  # plain, and reordered
    assert found.trace[2] == Moment("y", 32 * PLANE)


def test_this_processors_block() -> None:
    assert native_block() in (8, 16)
    assert Runtime().block == native_block()
