"""Networks that onnxruntime quantised itself: planned, executed and proven by steps."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)

from support.builder import GraphBuilder
from tilewright import api
from tilewright.frontend.save import save_onnx
from tilewright.graph.ops import costed_by_bytes
from tilewright.machine.load import load_machine


class Net(GraphBuilder):
    """Networks with weights that keep numbers of one size."""

    def normal(self, *shape: int) -> str:
        scale = 1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else 100)
        return self.constant(self.random.standard_normal(shape) * scale, "float32")

    def conv(self, x: str, filters: int, kernel: int = 3, stride: int = 1, group: int = 1) -> str:
        weight = self.normal(filters, self.shape(x)[1] // group, kernel, kernel)
        pads = [kernel // 2] * 4
        attributes = {"pads": pads, "strides": [stride, stride], "group": group}
        return self.add("Conv", x, weight, self.normal(filters), **attributes)

    def silu(self, x: str) -> str:
        return self.add("Mul", x, self.add("Sigmoid", x))


def residual(b: Net) -> None:
    y = b.add("Relu", b.conv(b.input(1, 3, 16, 16), 8))
    y = b.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = b.add("Relu", b.add("Add", b.conv(b.add("Relu", b.conv(y, 8)), 8), y))
    y = b.add("Flatten", b.add("GlobalAveragePool", y))
    b.add("Gemm", y, b.normal(10, 8), b.normal(10), transB=1)


def depthwise(b: Net) -> None:
    low, high = b.constant(0.0, "float32"), b.constant(6.0, "float32")
    y = b.add("Clip", b.conv(b.input(1, 3, 16, 16), 16, stride=2), low, high)
    y = b.conv(b.add("Clip", b.conv(y, 16, group=16), low, high), 24, 1)
    y = b.add("Reshape", b.add("GlobalAveragePool", y), b.constant([1, 24], "int64"))
    b.add("MatMul", y, b.normal(24, 10))


def detector(b: Net) -> None:
    y = b.silu(b.conv(b.input(1, 3, 16, 16), 8, stride=2))
    z = b.silu(b.conv(y, 8))
    y = b.silu(b.conv(b.add("Concat", y, z, axis=1), 12, stride=2))
    scales = b.constant([1, 1, 2, 2], "float32")
    mode = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    y = b.add("Concat", b.add("Resize", y, "", scales, mode="nearest", **mode), z, axis=1)
    b.conv(y, 8, 1)


def hourglass(b: Net) -> None:
    y = b.add("LeakyRelu", b.conv(b.input(1, 3, 16, 16), 8), alpha=0.1)
    z = b.add("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2])
    z = b.add("Relu", b.conv(z, 12))
    z = b.add("ConvTranspose", z, b.normal(12, 8, 2, 2), strides=[2, 2])
    b.add("Sigmoid", b.conv(b.add("Concat", y, z, axis=1), 4))


def attention(b: Net) -> None:
    x = b.input(1, 12, 16)
    query, key, value = (b.add("MatMul", x, b.normal(16, 16)) for _ in range(3))
    scores = b.add("MatMul", query, b.add("Transpose", key, perm=[0, 2, 1]))
    y = b.add("Add", b.add("MatMul", b.add("Softmax", scores, axis=-1), value), x)
    b.add("MatMul", b.add("Relu", b.add("MatMul", y, b.normal(16, 32))), b.normal(32, 16))


class Inputs(CalibrationDataReader):
    """A few inputs to calibrate with."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        random = np.random.default_rng(2)
        self.left = [{"x0": random.standard_normal(shape).astype(np.float32)} for _ in range(4)]

    def get_next(self) -> dict[str, np.ndarray] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.left.pop() if self.left else None


MACHINES = ("npu-2.7", "mcu", "three-core-bus")
NETS = (residual, depthwise, detector, hourglass, attention)


def quantised(
    build: Callable[[Net], None],
    form: QuantFormat,
    per_channel: bool,
    activations: QuantType,
    folder: Path,
) -> Path:
    """A network as onnxruntime quantises it."""
    b = Net(opset=15)
    build(b)
    graph = b.graph()
    save_onnx(graph, folder / "float.onnx")
    path = folder / "net.onnx"
    quantize_static(
        folder / "float.onnx",
        path,
        Inputs(graph.types["x0"].shape),
        quant_format=form,
        per_channel=per_channel,
        activation_type=activations,
        weight_type=QuantType.QInt8,
    )
    return path


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator], ids=["QDQ", "QOperator"])
def test_signed_activations_as_onnxruntime_quantises_by_default(
    form: QuantFormat, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of operators on signed numbers, its exact sums know no kernel: it runs without them, and
    nothing of its own is printed."""
    path = quantised(detector, form, True, QuantType.QInt8, tmp_path)
    capfd.readouterr()
    planned = api.plan(api.load(str(path)), load_machine("mcu"), layer_by_layer=True).planned
    assert planned.verified is not None
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator], ids=["QDQ", "QOperator"])
@pytest.mark.parametrize("build", NETS, ids=[build.__name__ for build in NETS])
def test_a_network_quantised_by_onnxruntime(
    build: Callable[[Net], None], form: QuantFormat, per_channel: bool, tmp_path: Path
) -> None:
    path = quantised(build, form, per_channel, QuantType.QUInt8, tmp_path)
    for machine in MACHINES:
        planned = api.plan(api.load(str(path)), load_machine(machine), layer_by_layer=True).planned
        assert planned.verified is not None, machine
        assert not any(costed_by_bytes(planned.graph, node) for node in planned.graph.nodes)
        left = [n.kind for n in planned.graph.nodes if n.kind == "DequantizeLinear"]
        assert len(left) <= (3 if build is hourglass else 1)  # a transposed convolution is float


def test_a_saved_run_is_verified_with_the_difference_that_its_plan_told(tmp_path: Path) -> None:
    """Numbers one step apart are judged once, and told alike."""
    path = quantised(attention, QuantFormat.QDQ, False, QuantType.QUInt8, tmp_path)
    run = api.plan(str(path), on="mcu", layer_by_layer=True)
    assert run.planned.verified is not None
    run.save(tmp_path / "run")
    again = api.verify(tmp_path / "run")
    assert again.verified == run.planned.verified
    assert f"{run.planned.verified.difference.max_rel_error:.1e}" in str(again)


def blocks(b: Net) -> None:
    """A residual block on a large image, then a convolution whose weights are larger."""
    y = b.add("Relu", b.conv(b.input(1, 3, 96, 96), 16))
    y = b.add("Relu", b.add("Add", b.conv(b.add("Relu", b.conv(y, 16)), 16), y))
    y = b.add("MaxPool", y, kernel_shape=[16, 16], strides=[16, 16])
    b.add("GlobalAveragePool", b.add("Relu", b.conv(b.add("Relu", b.conv(y, 128)), 256)))


def test_both_forms_of_a_quantised_network_shrink_alike(tmp_path: Path) -> None:
    """Pairs of QuantizeLinear and DequantizeLinear are cut with their operator: between groups
    there are bytes, and weights are read where they are used."""
    smallest: dict[str, int] = {}
    for form in (QuantFormat.QOperator, QuantFormat.QDQ):
        folder = tmp_path / form.name
        folder.mkdir()
        path = quantised(blocks, form, False, QuantType.QUInt8, folder)
        found = api.shrink(path, "smallest", folder / "small.onnx")
        assert found.predicted_peak_bytes < 0.5 * found.original_peak_bytes
        smallest[form.name] = found.predicted_peak_bytes
        assert found.difference.max_rel_error <= 1e-6
    assert smallest["QDQ"] <= 1.1 * smallest["QOperator"]
