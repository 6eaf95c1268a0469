"""Tiled networks against torch's own operators on the CPU: an independent reference."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.builder import GraphBuilder
from tilewright import api
from tilewright.execute.runtime import run
from tilewright.frontend.save import serialize
from tilewright.graph.graph import Array, Graph
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import Halo, Split
from tilewright.tiling.rewrite import tile_graph

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


class Late:
    """A module that is imported when it is first used: torch takes seconds."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self.name), attribute)


torch: Any = Late("torch")
functional: Any = Late("torch.nn.functional")
HALOS = pytest.mark.parametrize("halo", list(Halo), ids=lambda halo: halo.value)


def tensor(array: Array) -> Any:
    return torch.from_numpy(np.ascontiguousarray(array))


def weights(graph: Graph) -> dict[str, Any]:
    return {
        name: tensor(constant.data)
        for name, constant in graph.constants.items()
        if constant.data is not None
    }


def check(graph: Graph, splits: tuple[Split, ...], reference: Callable[..., Any]) -> None:
    """The whole graph as one group, cut, gives torch's numbers."""
    random = np.random.default_rng(3)
    feeds = {
        name: random.standard_normal(graph.types[name].shape, np.float32) for name in graph.inputs
    }
    tiled = tile_graph(graph, [cut_group(graph, range(len(graph.nodes)), splits)])
    assert len(tiled.nodes) > len(graph.nodes)
    (actual,) = run(serialize(tiled), feeds).values()
    with torch.no_grad():
        expected = reference(*(tensor(feeds[name]) for name in graph.inputs)).numpy()
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= 1e-5 * np.abs(expected).max()


def noise(b: GraphBuilder, *shape: int) -> str:
    return b.constant(b.random.standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("splits", [((2, 4),), ((3, 3),), ((2, 4), (3, 2)), ((1, 2), (2, 3))])
def test_strided_convolution_with_uneven_pads(splits: tuple[tuple[int, int], ...]) -> None:
    b = GraphBuilder()
    x, w, bias = b.input(1, 3, 31, 29), noise(b, 8, 3, 7, 7), noise(b, 8)
    b.add("Conv", x, w, bias, strides=[2, 2], pads=[2, 1, 3, 4])
    graph = b.graph()
    known = weights(graph)
    check(
        graph,
        tuple(Split(axis, parts) for axis, parts in splits),
        lambda data: functional.conv2d(
            functional.pad(data, (1, 4, 2, 3)), known[w], known[bias], stride=2
        ),
    )


@pytest.mark.parametrize("axis, parts", [(1, 3), (2, 5), (3, 4)])
def test_grouped_dilated_convolution(axis: int, parts: int) -> None:
    b = GraphBuilder()
    x, w = b.input(2, 6, 17, 16), noise(b, 9, 2, 3, 3)
    b.add("Conv", x, w, group=3, dilations=[2, 3], pads=[2, 3, 2, 3])
    graph = b.graph()
    known = weights(graph)
    check(
        graph,
        (Split(axis, parts),),
        lambda data: functional.conv2d(data, known[w], padding=(2, 3), dilation=(2, 3), groups=3),
    )


@pytest.mark.parametrize("axis, parts", [(2, 4), (3, 7), (0, 2)])
def test_transposed_convolution(axis: int, parts: int) -> None:
    b = GraphBuilder()
    x, w, bias = b.input(2, 4, 9, 8), noise(b, 4, 3, 5, 4), noise(b, 6)
    b.add(
        "ConvTranspose",
        x,
        w,
        bias,
        strides=[3, 2],
        pads=[2, 1, 2, 1],
        output_padding=[1, 0],
        group=2,
    )
    graph = b.graph()
    known = weights(graph)
    check(
        graph,
        (Split(axis, parts),),
        lambda data: functional.conv_transpose2d(
            data, known[w], known[bias], (3, 2), (2, 1), (1, 0), groups=2
        ),
    )


@HALOS
def test_residual_block_with_strided_skip(halo: Halo) -> None:
    b = GraphBuilder()
    x = b.input(1, 4, 24, 20)
    w1, w2, w3 = noise(b, 8, 4, 3, 3), noise(b, 8, 8, 3, 3), noise(b, 8, 4, 1, 1)
    y = b.add("Relu", b.add("Conv", x, w1, pads=[1] * 4, strides=[2, 2]))
    y = b.add("Conv", y, w2, pads=[1] * 4)
    b.add("Relu", b.add("Add", y, b.add("Conv", x, w3, strides=[2, 2])))
    graph = b.graph()
    known = weights(graph)

    def reference(data: Any) -> Any:
        inner = functional.relu(functional.conv2d(data, known[w1], stride=2, padding=1))
        skip = functional.conv2d(data, known[w3], stride=2)
        return functional.relu(functional.conv2d(inner, known[w2], padding=1) + skip)

    check(graph, (Split(2, 4, halo), Split(3, 2)), reference)


@HALOS
def test_pooling_up_sampling_and_concatenation(halo: Halo) -> None:
    b = GraphBuilder()
    x, w = b.input(1, 3, 16, 16), noise(b, 5, 3, 3, 3)
    y = b.add("Conv", x, w, pads=[1] * 4)
    low = b.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    low = b.add("AveragePool", low, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
    scales = b.constant([1, 1, 2, 2], "float32")
    high = b.add(
        "Resize", low, "", scales, mode="linear", coordinate_transformation_mode="half_pixel"
    )
    b.add("Concat", y, high, axis=1)
    graph = b.graph()
    known = weights(graph)

    def reference(data: Any) -> Any:
        inner = functional.conv2d(data, known[w], padding=1)
        small = functional.avg_pool2d(functional.max_pool2d(inner, 2), 3, stride=1, padding=1)
        large = functional.interpolate(small, scale_factor=2, mode="bilinear", align_corners=False)
        return torch.cat((inner, large), dim=1)

    check(graph, (Split(2, 4, halo),), reference)


@pytest.mark.parametrize("splits", [((2, 4),), ((1, 2), (2, 3)), ((0, 2),)])
def test_rows_of_attention(splits: tuple[tuple[int, int], ...]) -> None:
    b = GraphBuilder()
    q, k, v = (b.input(2, 4, 12, 8) for _ in range(3))
    scores = b.add("MatMul", q, b.add("Transpose", k, perm=[0, 1, 3, 2]))
    scaled = b.add("Mul", scores, b.constant(8**-0.5, "float32"))
    b.add("MatMul", b.add("Softmax", scaled, axis=-1), v)
    graph = b.graph()
    check(
        graph,
        tuple(Split(axis, parts) for axis, parts in splits),
        lambda *data: functional.scaled_dot_product_attention(*data),
    )


def test_rows_of_a_feed_forward_block_with_layer_norm() -> None:
    b = GraphBuilder()
    x, gain, bias = b.input(2, 10, 16), noise(b, 16), noise(b, 16)
    up, down = noise(b, 16, 32), noise(b, 32, 16)
    y = b.add("LayerNormalization", x, gain, bias, axis=-1, epsilon=1e-5)
    y = b.add("MatMul", y, up)
    y = b.add("Tanh", y)
    b.add("Add", b.add("MatMul", y, down), x)
    graph = b.graph()
    known = weights(graph)

    def reference(data: Any) -> Any:
        inner = functional.layer_norm(data, (16,), known[gain], known[bias])
        return torch.tanh(inner @ known[up]) @ known[down] + data

    check(graph, (Split(1, 4),), reference)


def test_zoo_network_shrunk_by_the_program(tmp_path: Path) -> None:
    """FSRCNN as torch would write it, with the zoo's seeded weights, against the shrunk file."""
    model = api.load("fsrcnn@64x96")
    output = tmp_path / "small.onnx"
    api.shrink(model, 0.6, output)
    graph = model.with_numbers()
    known = weights(graph)
    random = np.random.default_rng(11)
    feeds = {graph.inputs[0]: random.standard_normal((1, 1, 64, 96), np.float32)}
    (actual,) = run(output, feeds).values()
    data = tensor(feeds[graph.inputs[0]])
    with torch.no_grad():
        for node in graph.nodes:
            arguments = [known[name] for name in node.inputs[1:]]
            attributes = node.attributes
            if node.kind == "PRelu":
                data = functional.prelu(data, arguments[0].flatten())
                continue
            top, left, bottom, right = attributes.get("pads", (0, 0, 0, 0))
            stride = attributes.get("strides", (1, 1))
            assert (top, left) == (bottom, right)
            if node.kind == "Conv":
                data = functional.conv2d(data, *arguments, stride=stride, padding=(top, left))
            else:
                assert node.kind == "ConvTranspose"
                more = attributes.get("output_padding", (0, 0))
                data = functional.conv_transpose2d(
                    data, *arguments, stride=stride, padding=(top, left), output_padding=more
                )
    expected = data.numpy()
    assert np.abs(actual - expected).max() <= 1e-5 * np.abs(expected).max()
