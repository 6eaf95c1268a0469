"""A network with its nodes repeated for every image gives the numbers of the batch."""

from collections.abc import Callable

import numpy as np
import pytest

from support.builder import GraphBuilder, feeds_of
from support.compare import run_graph
from tilewright.errors import TilingError
from tilewright.graph.graph import Graph
from tilewright.graph.verify import verify
from tilewright.tiling.images import by_image, image_counts, repeatable

IMAGES = 3


def convolutions() -> Graph:
    """A stride that leaves a row out, a residual, a constant with a part for every image."""
    b = GraphBuilder()
    x = b.add("Conv", b.input(IMAGES, 4, 9, 9), b.weight(8, 4, 3, 3), pads=[1] * 4, name="stem")
    y = b.add("Conv", x, b.weight(8, 8, 1, 1), strides=[2, 2], name="down")
    y = b.add("Add", y, b.weight(IMAGES, 8, 1, 1), name="offset")
    y = b.add("Concat", y, b.add("Relu", y, name="relu"), axis=1, name="both")
    return b.graph(b.add("GlobalAveragePool", y, name="pool"))


def attention() -> Graph:
    """Heads by reshape and transpose, rows of all images in one matrix, a mask of its own."""
    b = GraphBuilder()
    x, mask = b.input(IMAGES, 6, 8), b.input(IMAGES, 1, 1, 6)
    flat = b.add("Reshape", x, b.constant([IMAGES * 6, 8], "int64"))
    packed = b.add("MatMul", flat, b.weight(8, 24))
    packed = b.add("Reshape", packed, b.constant([IMAGES, 6, 3, 2, 4], "int64"))
    packed = b.add("Transpose", packed, perm=[2, 0, 3, 1, 4])
    parts = [
        b.add("Squeeze", b.add("Slice", packed, *(b.constant([n], "int64") for n in ends)), first)
        for ends in ((0, 1, 0), (1, 2, 0), (2, 3, 0))
        for first in (b.constant([0], "int64"),)
    ]
    scores = b.add("MatMul", parts[0], b.add("Transpose", parts[1], perm=[0, 1, 3, 2]))
    scores = b.add("Softmax", b.add("Add", scores, mask), axis=-1)
    found = b.add("Transpose", b.add("MatMul", scores, parts[2]), perm=[0, 2, 1, 3])
    return b.graph(b.add("Reshape", found, b.constant([IMAGES, 6, 8], "int64"), name="heads"))


def parts_and_lookups() -> Graph:
    """Split, gather of rows by number, pads, a resize, two results."""
    b = GraphBuilder()
    rows = b.add("Gather", b.weight(10, 8), b.input(IMAGES, 4, dtype="int64"), axis=0)
    left = b.add("Split", rows, b.constant([2, 6], "int64"), outputs=2, axis=2)
    image = b.add("Unsqueeze", f"{left}.1", b.constant([1], "int64"))
    image = b.add("Pad", image, b.constant([0, 0, 1, 1, 0, 0, 1, 1], "int64"))
    scales = b.constant([1.0, 1.0, 2.0, 2.0], "float32")
    b.add("Resize", image, "", scales, mode="nearest", name="large")
    return b.graph(left, "large")


@pytest.mark.parametrize("build", [convolutions, attention, parts_and_lookups])
def test_all_nodes_are_repeated_and_the_numbers_stay(build: Callable[[], Graph]) -> None:
    graph = build()
    assert image_counts(graph) == (IMAGES,)
    assert len(repeatable(graph, IMAGES)) == len(graph.nodes)
    found = by_image(graph, IMAGES)
    verify(found.graph)
    verify(found.single)
    feeds = feeds_of(graph)
    if graph.types[graph.inputs[0]].dtype == "int64":
        feeds = {name: np.abs(array) for name, array in feeds.items()}
    expected, given = run_graph(graph, feeds), run_graph(found.graph, feeds)
    for name, array in expected.items():
        assert np.allclose(given[name], array, atol=1e-5), name
    # One image alone is a network too, and gives its part of the result.
    alone = {n: array[: len(array) // IMAGES] for n, array in feeds.items()}
    for name, array in run_graph(found.single, alone).items():
        assert np.allclose(array, expected[name][: len(expected[name]) // IMAGES], atol=1e-5)


def test_copies_are_called_after_the_nodes_and_share_their_weights() -> None:
    graph = convolutions()
    found = by_image(graph, IMAGES)
    assert [names["down"] for names in found.copies] == ["down@0", "down@1", "down@2"]
    assert [n.name for n in found.single.nodes] == [n.name for n in graph.nodes]
    stems = [node for node in found.graph.nodes if node.name.startswith("Conv_stem@")]
    assert len(stems) == IMAGES and len({node.inputs[1] for node in stems}) == 1
    assert found.graph.inputs == graph.inputs and found.graph.outputs == graph.outputs


def test_what_mixes_images_stays_and_so_does_all_behind_it() -> None:
    b = GraphBuilder()
    x = b.add("Relu", b.input(IMAGES, 4, 6), name="apart")
    mean = b.add("ReduceMean", x, b.constant([0], "int64"), keepdims=1, name="mixed")
    graph = b.graph(b.add("Sub", x, mean, name="behind"))
    assert [graph.nodes[n].name for n in repeatable(graph, IMAGES)] == ["Relu_apart"]
    found = by_image(graph, IMAGES)
    verify(found.graph)
    feeds = feeds_of(graph)
    assert np.allclose(run_graph(found.graph, feeds)["behind"], run_graph(graph, feeds)["behind"])


def test_nodes_that_are_to_stay_batched_do() -> None:
    graph = convolutions()
    found = by_image(graph, IMAGES, ["Add_offset"])
    names = [node.name for node in found.graph.nodes]
    assert "Conv_down@2" in names and "Add_offset" in names and "Relu_relu" in names
    with pytest.raises(TilingError, match="no node 'nothing' to stay batched"):
        by_image(graph, IMAGES, ["nothing"])
    with pytest.raises(TilingError, match="no operator can be repeated for 2 images"):
        by_image(graph, 2)
