"""What cannot be tiled is refused in one line that names it; axes and splits as people write."""

import re

import pytest

import tilewright
from support.builder import GraphBuilder
from tilewright.errors import TilingError
from tilewright.geometry.interval import Interval
from tilewright.graph.graph import Graph
from tilewright.report.tiles import tiles_table
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import Cut, Halo, Split, axis_of, parse_splits, whole_cut
from tilewright.tiling.group import find_node, group_between
from tilewright.tiling.rewrite import tile_graph

pytestmark = pytest.mark.quick


def diamond() -> Graph:
    """a is read by b and c, which meet in d."""
    b = GraphBuilder()
    x = b.input(1, 2, 6, 4)
    a = b.add("Relu", x, name="a")
    left = b.add("Neg", a, name="b")
    right = b.add("Softmax", a, axis=2, name="c")
    b.add("Add", left, right, name="d")
    return b.graph()


def refusal(graph: Graph, nodes: list[int], *splits: Split) -> str:
    with pytest.raises(TilingError) as caught:
        tile_graph(graph, [cut_group(graph, nodes, splits)])
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_split_larger_than_the_axis() -> None:
    text = refusal(diamond(), [0], Split(2, 7))
    assert text == "axis 2 of 'a' has 6 positions: it cannot be cut in 7"


def test_axis_that_needs_to_be_whole() -> None:
    text = refusal(diamond(), [2], Split(2, 2))
    assert text == "axis 2 of 'c' cannot be cut: Softmax needs it whole"


def test_axis_that_does_not_exist() -> None:
    assert refusal(diamond(), [0], Split(4, 2)) == "output 'a' has no axis 4"


def test_group_that_is_not_convex() -> None:
    text = refusal(diamond(), [0, 1, 3], Split(3, 2))
    assert text == "the group is not convex: a path leaves it and returns through 'Softmax_c'"


def test_empty_group_and_unread_group() -> None:
    assert refusal(diamond(), [], Split(2, 2)) == "the group is empty"
    b = GraphBuilder()
    x = b.input(1, 6)
    b.add("Relu", x, name="unread")
    graph = b.graph(b.add("Neg", x, name="y"))
    assert refusal(graph, [0], Split(1, 2)) == "nothing outside the group reads what it makes"


def test_axis_cut_twice() -> None:
    assert refusal(diamond(), [0], Split(2, 2), Split(2, 3)) == "an axis is cut twice"


def test_unknown_operator_runs_whole() -> None:
    b = GraphBuilder()
    b.add("NonZero", b.input(2, 3), name="n")
    assert refusal(b.graph(), [0], Split(1, 2)) == (
        "node 'NonZero_n' (NonZero) runs whole: it cannot be in a group"
    )


def test_attributes_that_forbid_a_cut() -> None:
    b = GraphBuilder()
    b.add("MaxPool", b.input(1, 2, 6, 6), kernel_shape=[2, 2], outputs=2, name="p")
    assert refusal(b.graph(), [0], Split(2, 2)) == (
        "node 'MaxPool_p' (MaxPool) cannot be cut with these attributes"
    )


def test_no_elements() -> None:
    b = GraphBuilder()
    lists = (b.constant([v], "int64") for v in (3, 3, 2))
    b.add("Slice", b.input(1, 6, 4), *lists, name="s")
    assert refusal(b.graph(), [0], Split(1, 2)) == "node 'Slice_s' (Slice) has no elements to cut"


def test_node_in_two_groups_and_groups_in_a_circle() -> None:
    graph = diamond()
    whole = cut_group(graph, [0], (Split(2, 2),))
    with pytest.raises(TilingError, match="node 'Relu_a' is in two groups"):
        tile_graph(graph, [whole, whole])
    b = GraphBuilder()
    x, y = b.input(1, 6), b.input(1, 6)
    first, second = b.add("Relu", x), b.add("Relu", y)
    b.add("Neg", first)
    b.add("Neg", second)
    crossed = b.graph()
    groups = [cut_group(crossed, nodes, (Split(1, 2),)) for nodes in ([0, 3], [1, 2])]
    with pytest.raises(TilingError, match="groups depend on each other in a circle"):
        tile_graph(crossed, groups)


def test_unknown_node_is_named_with_a_hint() -> None:
    graph = diamond()
    assert find_node(graph, "Neg_b") == 1
    assert find_node(graph, "b") == 1  # by the value it makes
    with pytest.raises(TilingError, match=re.escape("there is no node 'soft': did you mean Soft")):
        find_node(graph, "soft")
    with pytest.raises(TilingError, match=re.escape("there is no node 'zz': `tilewright show")):
        find_node(graph, "zz")


def test_group_between_two_nodes() -> None:
    graph = diamond()
    assert group_between(graph, "a", "d") == (0, 1, 2, 3)
    assert group_between(graph, "b", "d") == (1, 3)
    with pytest.raises(TilingError, match="no path leads from 'd' to 'a'"):
        group_between(graph, "d", "a")


@pytest.mark.parametrize(
    "name, rank, axis",
    [
        *[("H", 4, 2), ("w", 4, 3), ("C", 4, 1), ("N", 4, 0), ("D", 5, 2), ("H", 5, 3)],
        *[("S", 3, 1), ("rows", 2, 0), ("S", 1, 0), ("2", 4, 2), ("-1", 4, 3), (" H ", 4, 2)],
    ],
)
def test_axis_names(name: str, rank: int, axis: int) -> None:
    assert axis_of(name, rank) == axis


@pytest.mark.parametrize(
    "name, rank", [("Q", 4), ("4", 4), ("-5", 4), ("--1", 4), ("²", 4), ("", 4)]
)
def test_axis_names_that_are_none(name: str, rank: int) -> None:
    with pytest.raises(TilingError, match=f"is no axis of a tensor of rank {rank}: use N, C, H, W"):
        axis_of(name, rank)


def test_axis_of_a_scalar() -> None:
    with pytest.raises(TilingError, match="'H' is no axis of a tensor of rank 0: use none"):
        axis_of("H", 0)


@pytest.mark.parametrize(("name", "axis"), [("N", 0), ("C", 1), ("L", 2), ("W", 2), ("S", 2)])
def test_axes_of_a_signal_are_those_of_its_convolutions(name: str, axis: int) -> None:
    assert axis_of(name, 3, signal=True) == axis
    assert axis_of("C", 3) == 2  # rows of a sequence have their channels last


def test_channels_of_a_signal_are_cut_and_named_so() -> None:
    b = GraphBuilder()
    conv = b.add("Conv", b.input(1, 8, 64), b.weight(16, 8, 3), pads=[1, 1], name="conv")
    graph = b.graph(conv)
    (node,) = graph.nodes
    by_channels = tilewright.tile(graph, node=node.name, split="C=4")
    assert by_channels.as_table().column("output")[1] == "0-1 x 4-8 x 0-64"
    by_length = tilewright.tile(graph, node=node.name, split="L=4")
    assert by_length.as_table().column("output")[1] == "0-1 x 0-16 x 16-32"
    named = [
        [*tiles_table(tiles.group, tiles.group.ops[0]).columns[1].cells][1]
        for tiles in (by_channels, by_length)
    ]
    assert named == ["C 4-8", "L 16-32"]


def test_parse_splits() -> None:
    assert parse_splits(["H=4"], 4) == (Split(2, 4, Halo.RECOMPUTE),)
    assert parse_splits(["H=4", "W=2"], 4, ["W"]) == (Split(2, 4), Split(3, 2, Halo.CACHE))
    assert parse_splits(["H=4", "W=2"], 4, ["all"]) == (
        Split(2, 4, Halo.CACHE),
        Split(3, 2, Halo.CACHE),
    )


@pytest.mark.parametrize("text", ["H", "H=", "H=0", "H=-1", "H=x", "H=²", "=4", "H=4.5"])
def test_splits_that_are_none(text: str) -> None:
    with pytest.raises(TilingError):
        parse_splits([text], 4)


def test_splits_of_one_axis_twice_or_none_at_all() -> None:
    with pytest.raises(TilingError, match="'2=3' cuts an axis that is cut already"):
        parse_splits(["H=4", "2=3"], 4)
    with pytest.raises(TilingError, match="no split given"):
        parse_splits([], 4)


def test_cuts_that_meet() -> None:
    """The same dimension: hulls; two dimensions: the whole axis; a fixed part: its hull."""
    first = Cut(0, (Interval(0, 2), Interval(2, 4)))
    second = Cut(0, (Interval(1, 3), Interval(3, 5)))
    assert first.hull(second, 6) == Cut(0, (Interval(0, 3), Interval(2, 5)))
    assert first.hull(Cut(1, second.intervals), 6) == whole_cut(6)
    assert first.hull(whole_cut(6), 6) == whole_cut(6)
    fixed = Cut(None, (Interval(1, 3),))
    assert fixed.hull(first, 6) == Cut(0, (Interval(0, 3), Interval(1, 4)))
    assert first.covered() == 4
