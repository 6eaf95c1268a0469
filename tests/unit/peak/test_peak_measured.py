"""Predictions against real runs of onnxruntime, each in a process of its own.

Memory is deterministic under the settings of `execute`, so these compare numbers, not times.
"""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from support.builder import GraphBuilder, feeds_of
from tilewright import api
from tilewright.execute.memory_settings import high_water_mark, mapped
from tilewright.files import save_arrays
from tilewright.frontend.save import save_onnx
from tilewright.frontend.weights import seeded
from tilewright.graph.graph import Graph
from tilewright.peak import predict_peak
from tilewright.peak.dequantised import beside_readers
from tilewright.shrink.measure import FEW_PAGES, measure_peak, measure_peaks
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import Split
from tilewright.tiling.rewrite import tile_graph

WITHIN = 0.15


pytestmark = pytest.mark.skipif(
    high_water_mark(reset=True) is None, reason="this system does not report peaks"
)


def check(graph: Graph, folder: Path, within: float = WITHIN) -> None:
    """Predict, save, run, compare."""
    model, inputs = folder / "model.onnx", folder / "inputs.npz"
    save_onnx(graph, model)
    save_arrays(feeds_of(graph), inputs)
    measured = measure_peak(model, inputs)
    assert predict_peak(graph).peak == pytest.approx(measured, rel=within)


def cut(graph: Graph, stop: int, *parts: tuple[int, int]) -> Graph:
    """The first nodes of a network in tiles: (axis, parts) of each axis."""
    splits = tuple(Split(axis, count) for axis, count in parts)
    return tile_graph(graph, [cut_group(graph, range(stop), splits)])


def test_a_network_in_the_blocked_layout_whole_and_tiled(tmp_path: Path) -> None:
    graph = seeded(api.load("mobilenet_v2@384x384").graph, 0)
    check(graph, tmp_path)
    check(cut(graph, graph.producer["features.3.add"] + 1, (2, 4), (3, 2)), tmp_path)


@pytest.mark.skipif(mapped() is None, reason="this C library counts no blocks")
def test_peaks_of_small_networks_are_counted_block_by_block(tmp_path: Path) -> None:
    """What the system counts of a process is off by as much as such a network takes."""
    b = GraphBuilder()
    x = b.add("Relu", b.add("Conv", b.input(1, 3, 40, 40), b.weight(16, 3, 3, 3), pads=[1] * 4))
    b.add("Conv", x, b.weight(8, 16, 3, 3), pads=[1] * 4)
    graph = b.graph()
    model, inputs = tmp_path / "model.onnx", tmp_path / "inputs.npz"
    save_onnx(graph, model)
    save_arrays(feeds_of(graph), inputs)
    found = [measure_peaks(model, inputs) for _ in range(2)]
    assert any(exact for _, exact in found)
    for peaks, exact in found:
        if exact:  # else the system saw more, as far as it can tell
            (peak,) = peaks
            assert peak < 256 * 1024
            assert predict_peak(graph).peak == pytest.approx(peak, abs=FEW_PAGES)


@pytest.mark.skipif(mapped() is None, reason="this C library counts no blocks")
def test_small_networks_in_tiny_tiles(tmp_path: Path) -> None:
    """What is left of the heap that a thread begins with would hide 132 KiB of them."""
    b = GraphBuilder()
    x = b.input(1, 3, 96, 96)
    for channels in (16, 24, 24):
        x = b.add("Relu", b.add("Conv", x, b.weight(channels, b.shape(x)[1], 3, 3), pads=[1] * 4))
    b.add("MaxPool", x, kernel_shape=[8, 8], strides=[8, 8])
    graph = b.graph()
    small = cut(graph, len(graph.nodes), (2, 12), (3, 4))
    assert predict_peak(small).peak < 160 * 1024
    check(small, tmp_path)


def test_scratch_of_transposed_convolutions(tmp_path: Path) -> None:
    graph = seeded(api.load("fsrcnn@180x320").graph, 0)
    check(graph, tmp_path)
    check(cut(graph, len(graph.nodes), (2, 6), (3, 4)), tmp_path)


def test_matrix_products_and_norms(tmp_path: Path) -> None:
    """Attention over 512 positions: scores of 8 MiB, in place through the softmax."""
    b = GraphBuilder(opset=18)
    x = b.input(1, 512, 256)

    def heads(name: str) -> str:
        y = b.add("Add", b.add("MatMul", name, b.weight(256, 256)), b.weight(256))
        y = b.add("Reshape", y, b.constant([1, 512, 8, 32], "int64"))
        return b.add("Transpose", y, perm=[0, 2, 1, 3])

    q, k, v = (heads(x) for _ in range(3))
    scores = b.add("MatMul", q, b.add("Transpose", k, perm=[0, 1, 3, 2]))
    shares = b.add("Softmax", b.add("Div", scores, b.constant(32.0**0.5, "float32")), axis=-1)
    y = b.add("Transpose", b.add("MatMul", shares, v), perm=[0, 2, 1, 3])
    b.add("Reshape", y, b.constant([1, 512, 256], "int64"))
    check(b.graph(), tmp_path)


def test_quantised_convolutions(tmp_path: Path) -> None:
    b = GraphBuilder()
    scale, zero = b.constant(0.1, "float32"), b.constant(0, "uint8")

    def real(x: str) -> str:
        return b.add("DequantizeLinear", x, scale, zero)

    x = b.add("QuantizeLinear", b.input(1, 8, 256, 256), scale, zero)
    for channels in (32, 32, 24):
        shape = (channels, b.shape(x)[1], 3, 3)
        weight = real(b.constant(b.random.integers(0, 3, shape), "uint8"))
        y = b.add("Relu", b.add("Conv", real(x), weight, pads=[1, 1, 1, 1]))
        x = b.add("QuantizeLinear", y, scale, zero)
    b.add("ReduceMax", real(x), keepdims=0)
    check(b.graph(), tmp_path)


def quantised(b: GraphBuilder, x: str, dtype: str = "uint8") -> str:
    """A value with the pair that a quantiser puts behind it."""
    scale, zero = b.constant(0.1, "float32"), b.constant(0, dtype)
    return b.add("DequantizeLinear", b.add("QuantizeLinear", x, scale, zero), scale, zero)


def test_tiles_of_a_quantised_network(tmp_path: Path) -> None:
    """Slices, pools and joins move bytes, channels last; a residual sum is one kernel."""
    b = GraphBuilder()
    scale, zero = b.constant(0.1, "float32"), b.constant(0, "int8")

    def conv(x: str, channels: int, size: int = 3) -> str:
        shape = (channels, b.shape(x)[1], size, size)
        weight = b.add("DequantizeLinear", b.weight(*shape, dtype="int8"), scale, zero)
        y = b.add("Conv", x, weight, pads=[size // 2] * 4)
        return quantised(b, b.add("Relu", y))

    x = conv(quantised(b, b.input(1, 8, 192, 192)), 32)
    pooled = b.add("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])
    x = quantised(b, b.add("Add", conv(quantised(b, pooled), 32), x))
    conv(quantised(b, b.add("Concat", x, conv(x, 16), axis=1)), 4)
    graph = b.graph()
    check(graph, tmp_path)
    check(cut(graph, len(graph.nodes), (2, 6), (3, 4)), tmp_path)


@pytest.mark.skipif(mapped() is None, reason="this C library counts no blocks")
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_small_tiles_of_quantised_residuals(dtype: str, tmp_path: Path) -> None:
    """What the runtime holds beside the numbers is most of it: places for constants, pages of
    scratch, and where bytes are signed a copy of the weights for every tile."""
    b = GraphBuilder()
    scale, zero = b.constant(0.1, "float32"), b.constant(0, "int8")

    def conv(x: str, channels: int, size: int = 1, group: int = 1) -> str:
        shape = (channels, b.shape(x)[1] // group, size, size)
        weight = b.add("DequantizeLinear", b.weight(*shape, dtype="int8"), scale, zero)
        y = b.add("Conv", x, weight, pads=[size // 2] * 4, group=group)
        return quantised(b, y, dtype)

    x = conv(quantised(b, b.input(1, 3, 64, 64), dtype), 16, 3)
    for _ in range(2):
        y = conv(conv(conv(x, 96), 96, 3, 96), 16)
        x = quantised(b, b.add("Add", x, y), dtype)
    quantised(b, b.add("MaxPool", x, kernel_shape=[8, 8], strides=[8, 8]), dtype)
    graph = beside_readers(b.graph())
    small = cut(graph, len(graph.nodes), (2, 4), (3, 4))
    check(small, tmp_path, 0.07)


def test_unsigned_bytes_and_signed_constants_have_no_kernel(tmp_path: Path) -> None:
    """A product of both runs on real numbers."""
    b = GraphBuilder()
    scale, zero = b.constant(0.1, "float32"), b.constant(0, "int8")
    real = b.add("DequantizeLinear", b.weight(256, dtype="int8"), scale, zero)
    weight = b.add("DequantizeLinear", b.weight(64, 256, dtype="int8"), scale, zero)
    x = quantised(b, b.add("MatMul", quantised(b, b.input(1, 1024, 64), "int8"), weight), "int8")
    x = quantised(b, b.add("Mul", x, real), "int8")
    b.add("ReduceMax", x, keepdims=0)
    check(b.graph(), tmp_path)


def test_branches_of_signed_bytes_run_in_the_order_of_the_file(tmp_path: Path) -> None:
    b = GraphBuilder()
    scale, zero = b.constant(0.1, "float32"), b.constant(0, "int8")

    def conv(x: str, channels: int, size: int) -> str:
        shape = (channels, b.shape(x)[1], size, size)
        weight = b.add("DequantizeLinear", b.weight(*shape, dtype="int8"), scale, zero)
        return quantised(b, b.add("Conv", x, weight, pads=[size // 2] * 4), "int8")

    x = quantised(b, b.input(1, 48, 96, 96), "int8")
    parts = [conv(x, 16, 1), conv(conv(x, 12, 1), 16, 3), conv(conv(x, 8, 1), 8, 5)]
    pooled = b.add("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])
    parts.append(conv(quantised(b, pooled, "int8"), 8, 1))
    b.add("ReduceMax", b.add("Concat", *parts, axis=1), keepdims=0)
    check(b.graph(), tmp_path)


def test_sums_of_quantised_products(tmp_path: Path) -> None:
    """Products keep sums of 32 bits, averages real numbers, integer convolutions columns."""
    b = GraphBuilder()
    s, z = b.constant(0.1, "float32"), b.constant(3, "uint8")
    x = b.input(2, 1024, 256, dtype="uint8")
    b.add("QLinearMatMul", x, s, z, b.weight(256, 1024, dtype="uint8"), s, z, s, z)
    check(b.graph(), tmp_path)
    b = GraphBuilder()
    b.add(
        "ConvInteger",
        b.input(1, 16, 256, 256, dtype="uint8"),
        b.weight(32, 16, 3, 3, dtype="uint8"),
    )
    check(b.graph(), tmp_path)
    b = GraphBuilder()
    s, z = b.constant(0.1, "float32"), b.constant(3, "uint8")
    x, window = b.input(1, 32, 256, 256, dtype="uint8"), [2, 2]
    pool = ("QLinearAveragePool", x, s, z, s, z)
    b.add(*pool, domain="com.microsoft", kernel_shape=window, strides=window)
    check(b.graph(), tmp_path)


def test_many_small_tiles_are_not_free(tmp_path: Path) -> None:
    """Thousands of values in the frame of a run, hundreds of pieces that wait to be joined."""
    b = GraphBuilder()
    x = b.input(1, 24, 64, 64)  # what a run varies by, 0.1 MB, is little of what it needs
    for _ in range(8):
        x = b.add("Neg", b.add("Abs", x))
    graph = b.graph()
    check(cut(graph, len(graph.nodes), (2, 32), (3, 32)), tmp_path)


def packed(layers: int, activation: str, rows: int = 64, width: int = 512) -> Graph:
    """Products with weights of four bits, a scale for every 32 of a column."""
    b = GraphBuilder(opset=21)
    x = b.input(rows, width)
    for _ in range(layers):
        stored = b.constant(b.random.integers(-8, 8, (width, width)).astype(ml_dtypes.int4))
        scales = b.constant(np.full((width // 32, width), 0.01), "float32")
        weights = b.add("DequantizeLinear", stored, scales, axis=0, block_size=32)
        bias = b.constant(np.ones(width), "float32")
        x = b.add(activation, b.add("Add", b.add("MatMul", x, weights), bias))
    return b.graph()


@pytest.mark.parametrize("activation", ["Sigmoid", "Relu"])
def test_products_with_packed_weights(activation: str, tmp_path: Path) -> None:
    """One kernel, which quantises what it reads; a Relu with one reader keeps weights real."""
    graph = packed(3, activation)
    check(graph, tmp_path, within=0.05)
    tiles = tile_graph(graph, [cut_group(graph, range(4), (Split(1, 4),))])
    check(tiles, tmp_path, within=0.05)
