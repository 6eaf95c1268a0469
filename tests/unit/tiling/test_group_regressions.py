"""Groups that once went wrong, or easily could, each cut both ways and compared."""

import pytest

from support.builder import GraphBuilder, feeds_of
from support.compare import check_split, check_tiled, run_graph
from tilewright.errors import TilingError
from tilewright.graph.graph import Graph, Node
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import Halo, Split


def piece(b: GraphBuilder, x: str, start: int, stop: int, axis: int = 2, step: int = 1) -> str:
    lists = (b.constant([v], "int64") for v in (start, stop, axis, step))
    return b.add("Slice", x, *lists)


def check(graph: Graph, **parts: int) -> None:
    check_split(graph, feeds_of(graph), **parts)


def test_rows_kept_across_a_tile_that_needs_none() -> None:
    """The middle tile reads only y; the last needs rows of x that the first computed."""
    b = GraphBuilder()
    x, y = b.add("Relu", b.input(1, 1, 6, 3)), b.add("Relu", b.input(1, 1, 6, 3))
    b.add("Concat", piece(b, x, 0, 4), piece(b, y, 0, 4), piece(b, x, 2, 6), axis=2)
    graph = b.graph()
    check(graph, axis2=3)
    tiles = cut_group(graph, range(len(graph.nodes)), (Split(2, 3, Halo.CACHE),))
    assert tiles.fallbacks == ()
    assert tiles.line_buffer_bytes == 2 * 3 * 4


def test_concat_of_a_value_with_itself() -> None:
    b = GraphBuilder()
    x, y = b.add("Relu", b.input(1, 1, 4, 3)), b.add("Relu", b.input(1, 1, 4, 3))
    b.add("Concat", x, y, x, axis=2)
    check(b.graph(), axis2=3)
    check(b.graph(), axis2=5)


@pytest.mark.parametrize("exported", [False, True])
def test_one_grid_dimension_drives_two_axes(exported: bool) -> None:
    """x and its transpose, each cut by the same rows: the tiles of x lie on a diagonal."""
    b = GraphBuilder()
    x = b.add("Relu", b.input(1, 1, 6, 6), name="x")
    turned = b.add("Transpose", x, perm=[0, 1, 3, 2])
    b.add("Add", piece(b, x, 0, 3, axis=3), piece(b, turned, 0, 3, axis=3), name="y")
    check(b.graph("y", "x") if exported else b.graph("y"), axis2=3)


def test_absent_optional_outputs() -> None:
    b = GraphBuilder()
    x = b.input(1, 6, 4)
    node = Node("norm", "LayerNormalization", (x, b.weight(4), b.weight(4)), ("y", "", ""))
    b.inference.add(node)
    b.nodes.append(node)
    check(b.graph("y"), axis1=3)


def test_unread_part_of_a_split() -> None:
    b = GraphBuilder()
    x = b.input(1, 6, 4)
    first = b.add("Split", x, b.constant([2, 4], "int64"), axis=1, outputs=2)
    check(b.graph(b.add("Relu", f"{first}.1")), axis1=2)


def test_reflected_padding_with_a_cropped_axis() -> None:
    b = GraphBuilder()
    pads = b.constant([0, 0, 2, -1, 0, 0, 1, 2], "int64")
    b.add("Pad", b.input(1, 2, 6, 5), pads, mode="reflect")
    check(b.graph(), axis2=3)


def test_resize_whose_scale_rounds_to_one_runs_whole_there() -> None:
    """1.3 x 2 rows are 2 rows again, but not the same ones."""
    b = GraphBuilder()
    scales = b.constant([1, 1, 1.3, 2], "float32")
    b.add("Resize", b.input(1, 1, 2, 4), "", scales, mode="linear")
    graph = b.graph()
    check(graph, axis3=2)
    (tiled,) = cut_group(graph, [0], (Split(3, 2),)).ops
    assert 2 not in tiled.access[0].tileable()


def test_resize_whose_product_is_rounded_up() -> None:
    """onnx infers 12 rows, onnxruntime makes 13."""
    b = GraphBuilder()
    scales = b.constant([1, 1, 1.3, 2], "float32")
    b.add("Resize", b.input(1, 1, 10, 4), "", scales, mode="linear", name="y")
    assert b.shape("y") == (1, 1, 13, 8)
    check(b.graph(), axis3=2)


def test_pool_without_the_window_that_lies_in_the_padding() -> None:
    """Up to operator set 21 onnx counts it, onnxruntime never does."""
    b = GraphBuilder(opset=13)
    window = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [2, 1, 2, 1], "ceil_mode": 1}
    b.add("MaxPool", b.input(1, 2, 8, 8), **window, name="y")
    assert b.shape("y") == (1, 2, 5, 3)
    check(b.graph(), axis2=2, axis3=3)


def test_transposed_convolution_to_a_shape_smaller_than_its_input() -> None:
    """onnx's inference leaves off the smaller axis."""
    b = GraphBuilder()
    b.add("ConvTranspose", b.input(1, 2, 6, 8), b.weight(2, 3, 1, 1), output_shape=[6, 7], name="y")
    graph = b.graph()
    assert graph.types["y"].shape == (1, 3, 6, 7)
    check(graph, axis2=3, axis3=2)


def test_numbers_for_all_inside_a_group() -> None:
    """A bound computed from everything is computed once and read by every tile."""
    b = GraphBuilder()
    x = b.input(1, 6, 4)
    low = b.add("ReduceMin", x, keepdims=0, name="low")
    b.add("Clip", b.add("Neg", x), low, name="y")
    for outputs in (("y",), ("y", "low")):
        check(b.graph(*outputs), axis1=3, axis2=2)
    tiles = cut_group(b.graph("y"), range(3), (Split(1, 3), Split(2, 2)))
    assert tiles.computed("low") == 1


def test_attention_cut_over_rows() -> None:
    b = GraphBuilder()
    x = b.input(2, 8, 4)
    query, key, value = (b.add("MatMul", x, b.weight(4, 4)) for _ in range(3))
    scores = b.add("MatMul", query, b.add("Transpose", key, perm=[0, 2, 1]))
    b.add("MatMul", b.add("Softmax", scores, axis=-1), value, name="y")
    graph = b.graph()
    check(graph, axis1=4)
    check(graph, axis1=2, axis2=2)
    tiles = cut_group(graph, range(len(graph.nodes)), (Split(1, 4),))
    assert tiles.recompute_ratio == 0  # keys and values are made once, rows of scores per tile
    # Columns of the result share their rows of scores: made again, or kept.
    again, kept = (
        cut_group(graph, range(len(graph.nodes)), (Split(1, 4, halo), Split(2, 2, halo)))
        for halo in Halo
    )
    assert again.recompute_ratio > 0 == kept.recompute_ratio


def test_u_net_skip_and_strided_skip() -> None:
    """Down, up, and both kinds of skip: concat of equal size, and every second row."""
    b = GraphBuilder()
    x = b.input(1, 2, 16, 12)
    top = b.add("Conv", x, b.weight(4, 2, 3, 3), pads=[1] * 4)
    down = b.add("MaxPool", top, kernel_shape=[2, 2], strides=[2, 2])
    deep = b.add("Conv", down, b.weight(4, 4, 3, 3), pads=[1] * 4)
    thin = piece(b, piece(b, top, 0, 16, step=2), 0, 12, axis=3, step=2)
    deep = b.add("Add", deep, thin)
    up = b.add("ConvTranspose", deep, b.weight(4, 3, 2, 2), strides=[2, 2])
    joined = b.add("Concat", up, top, axis=1)
    b.add("Conv", joined, b.weight(2, 7, 3, 3), pads=[1] * 4, name="y")
    graph = b.graph()
    check(graph, axis2=4)
    check(graph, axis2=4, axis3=3)


def test_two_groups_and_a_node_between() -> None:
    b = GraphBuilder()
    y = b.add("Conv", b.input(1, 2, 8, 8), b.weight(2, 2, 3, 3), pads=[1] * 4)
    y = b.add("NonZero", b.add("Relu", y))
    y = b.add("Cast", y, to=1)
    y = b.add("Mul", b.add("Neg", "x0"), b.add("Relu", "x0"), name="z")
    graph = b.graph()
    feeds = feeds_of(graph)
    index = graph.index
    first = [index["Conv_v2"], index["Relu_v3"]]
    second = [graph.producer["z"], *sorted(graph.predecessors(graph.producer["z"]))]
    groups = [cut_group(graph, nodes, (Split(2, 2),)) for nodes in (first, second)]
    check_tiled(graph, groups, feeds, run_graph(graph, feeds))


def test_tiling_a_tiled_graph_again() -> None:
    """The result is a graph like any other: names stay unique."""
    b = GraphBuilder()
    y = b.add("Conv", b.input(1, 2, 12, 8), b.weight(2, 2, 3, 3), pads=[1] * 4)
    b.add("Conv", y, b.weight(2, 2, 3, 3), pads=[1] * 4)
    graph = b.graph()
    feeds = feeds_of(graph)
    expected = run_graph(graph, feeds)
    once = check_tiled(graph, [cut_group(graph, range(2), (Split(2, 2),))], feeds, expected)
    last = max(i for i, node in enumerate(once.nodes) if node.kind == "Conv")
    check_tiled(once, [cut_group(once, [last], (Split(3, 2),))], feeds, expected)


def test_result_that_is_all_padding_runs_whole() -> None:
    """Nothing of the input is left in a tile, or in all of them."""
    b = GraphBuilder()
    b.add("Pad", b.input(1, 4, 1), b.constant([0, 0, 1, 0, 0, -1], "int64"))
    b.add("Conv", b.input(1, 4, 1), b.weight(2, 4, 2), pads=[5, 0], strides=[10])
    graph = b.graph()
    for number in range(2):
        with pytest.raises(TilingError, match="cannot be cut with these attributes"):
            cut_group(graph, [number], (Split(1, 2),))


def test_convolution_padded_beyond_its_kernel() -> None:
    """Tiles that lie in the padding are enlarged to a real row, and no result changes."""
    b = GraphBuilder()
    x = b.add("Relu", b.input(1, 2, 4, 3))
    b.add("Conv", x, b.weight(2, 2, 2, 2), pads=[6, 3, 5, 0])
    check(b.graph(), axis2=7, axis3=2)


@pytest.mark.parametrize(
    ("attributes", "rows"),
    [
        ({"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, (4, 8)),
        ({}, (4, 8)),
        ({"coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil"}, (4, 9)),
        ({"nearest_mode": "floor"}, (3, 8)),
        ({"mode": "linear"}, (3, 9)),
        ({"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, (4, 9)),
        ({"mode": "cubic"}, (2, 10)),
    ],
)
def test_a_resize_reads_the_rows_that_it_is_made_of(
    attributes: dict[str, str], rows: tuple[int, int]
) -> None:
    """Doubled: a tile of eight rows has four of its own, and neighbours as its mode takes them."""
    b = GraphBuilder()
    x = b.input(1, 3, 16, 8)
    scales = b.constant([1, 1, 2, 2], "float32")
    graph = b.graph(b.add("Resize", x, "", scales, **attributes))
    group = cut_group(graph, [0], (Split(2, 4),))
    read = group.inputs[x][2].intervals[1]
    assert (read.start, read.stop) == rows
    check(graph, axis2=4)


def test_rows_and_columns_of_tokens_are_computed_once_where_columns_are_kept() -> None:
    """A tile of rows and columns is no interval of the tokens: all columns of its rows are made by
    the first tile and kept for the others."""
    b = GraphBuilder()
    x = b.add("Relu", b.input(2, 36, 8))
    b.add("Relu", b.add("Reshape", x, b.constant([2, 6, 6, 8], "int64")))
    graph = b.graph()
    check(graph, axis1=2, axis2=3)
    kept = cut_group(graph, range(len(graph.nodes)), (Split(1, 2), Split(2, 3, Halo.CACHE)))
    again = cut_group(graph, range(len(graph.nodes)), (Split(1, 2), Split(2, 3)))
    assert kept.recompute_ratio == 0 < again.recompute_ratio
