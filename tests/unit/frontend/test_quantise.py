"""Quantisation folds into integer operators, whose results are the float ones' up to a step."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from support.builder import GraphBuilder
from support.compare import run_kernels
from tilewright.cost.from_graph import workload_of
from tilewright.execute.runtime import run
from tilewright.frontend.normalize.quantise import fold_quantisation
from tilewright.frontend.save import serialize
from tilewright.graph.graph import Graph
from tilewright.tiling.group import typed_group, whole_tile

Body = Callable[["Quantised"], str]


class Quantised(GraphBuilder):
    """Builds networks with a quantisation around every operator."""

    def dequantised(
        self,
        value: str,
        scale: object = 0.05,
        zero: object = 3,
        dtype: str = "uint8",
        axis: int = 1,
    ) -> str:
        """The numbers that integers stand for."""
        step, point = self.constant(scale, "float32"), self.constant(zero, dtype)
        return self.add("DequantizeLinear", value, step, point, axis=axis)

    def quantised(
        self, value: str, scale: float = 0.05, zero: int = 3, dtype: str = "uint8"
    ) -> str:
        """A value as integers."""
        step, point = self.constant(scale, "float32"), self.constant(zero, dtype)
        return self.add("QuantizeLinear", value, step, point)

    def image(self, channels: int = 4) -> str:
        """A dequantised input."""
        return self.dequantised(self.input(1, channels, 6, 6, dtype="uint8"))

    def weights(self, *shape: int, axis: int | None = None) -> str:
        """Dequantised 8-bit weights, with a scale for all or one per position of an axis."""
        data = self.constant(self.random.integers(-90, 90, shape), "int8")
        if axis is None:
            return self.dequantised(data, 0.01, 0, "int8", 0)
        scales = np.linspace(0.005, 0.02, shape[axis])
        return self.dequantised(data, scales, [0] * shape[axis], "int8", axis)


def feeds(graph: Graph) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    return {
        name: random.integers(0, 255, graph.types[name].shape).astype(graph.types[name].dtype)
        for name in graph.inputs
    }


def folded(b: Quantised, *outputs: str) -> Graph:
    """The folded network, once its integers are shown to be the original's, up to a step."""
    graph = b.graph(*outputs)
    after = fold_quantisation(graph)
    given = feeds(graph)
    got, want = run_kernels(after, given), run(serialize(graph), given, precise=True)
    for name, expected in want.items():
        assert got[name].dtype == expected.dtype
        steps = np.abs(got[name].astype(np.int64) - expected.astype(np.int64))
        assert steps.max() <= 1
        assert np.mean(steps > 0) < 0.05
        assert expected.min() != expected.max()
    return after


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("bias", ["", "float", "integer"])
@pytest.mark.parametrize(("bound", "left"), [("", 0), ("Relu", 1), ("Clip", 1)])
def test_a_convolution_runs_on_integers(axis: int | None, bias: str, bound: str, left: int) -> None:
    b = Quantised()
    inputs = [b.image(), b.weights(8, 4, 3, 3, axis=axis)]
    if bias == "float":
        inputs.append(b.constant(b.random.uniform(-1, 1, 8), "float32"))
    elif bias == "integer":
        scales = 0.05 * (np.full(8, 0.01) if axis is None else np.linspace(0.005, 0.02, 8))
        data = b.constant(b.random.integers(-900, 900, 8), "int32")
        inputs.append(b.dequantised(data, scales, [0] * 8, "int32", 0))
    y = b.add("Conv", *inputs, pads=(1, 1, 1, 1))
    if bound == "Relu":
        y = b.add("Relu", y)
    if bound == "Clip":
        y = b.add("Clip", y, b.constant(0.0, "float32"), b.constant(6.0, "float32"))
    after = folded(b, b.quantised(y, 0.1, 100))
    assert kinds(after) == ["QLinearConv", "Clip"][: 1 + left]
    assert "tilewright" not in {node.domain for node in after.nodes}


def test_a_relu_is_nothing_where_zero_is_the_least_integer() -> None:
    b = Quantised()
    y = b.add("Relu", b.add("Conv", b.image(), b.weights(8, 4, 1, 1)))
    assert kinds(folded(b, b.quantised(y, 0.1, 0))) == ["QLinearConv"]


def product(kind: str, axis: int | None, **attributes: int) -> Body:
    def build(b: Quantised) -> str:
        x = b.dequantised(b.input(5, 16, dtype="uint8"))
        shape = (8, 16) if attributes else (16, 8)
        inputs = [x, b.weights(*shape, axis=axis)]
        if kind == "Gemm":
            inputs.append(b.constant(b.random.uniform(-1, 1, 8), "float32"))
        return b.quantised(b.add(kind, *inputs, **attributes), 0.2, 120)

    return build


def pointwise(kind: str, inputs: int = 1, scale: float = 0.05, **attributes: object) -> Body:
    def build(b: Quantised) -> str:
        given = [
            b.dequantised(b.input(1, 4, 6, 6, dtype="uint8"), 0.02 + 0.01 * k, 128)
            for k in range(inputs)
        ]
        return b.quantised(b.add(kind, *given, **attributes), scale, 100)

    return build


def carried(kind: str, *lists: Sequence[float], dtype: str = "int64", **attributes: object) -> Body:
    def build(b: Quantised) -> str:
        more = [b.constant(values, dtype) if values else "" for values in lists]
        return b.quantised(b.add(kind, b.image(), *more, **attributes))

    return build


def joined(scale: float) -> Body:
    def build(b: Quantised) -> str:
        return b.quantised(b.add("Concat", b.image(), b.image(2), axis=1), scale)

    return build


BODIES: dict[str, tuple[str, Body]] = {
    "matmul": ("QLinearMatMul", product("MatMul", None)),
    "matmul-columns": ("QLinearMatMul", product("MatMul", 1)),
    "gemm": ("QGemm", product("Gemm", None)),
    "gemm-columns": ("QGemm", product("Gemm", 1)),
    "gemm-turned": ("QGemm", product("Gemm", 0, transB=1)),
    "add": ("QLinearAdd", pointwise("Add", 2)),
    "mul": ("QLinearMul", pointwise("Mul", 2)),
    "sigmoid": ("QLinearSigmoid", pointwise("Sigmoid", scale=1 / 128)),
    "leaky": ("QLinearLeakyRelu", pointwise("LeakyRelu", alpha=0.1)),
    "softmax": ("QLinearSoftmax", pointwise("Softmax", scale=1 / 128, axis=3)),
    "tanh": ("QLinearTanh", pointwise("Tanh", scale=1 / 100)),
    "average": ("QLinearAveragePool", pointwise("AveragePool", kernel_shape=(3, 3), scale=0.01)),
    "mean": ("QLinearGlobalAveragePool", pointwise("GlobalAveragePool", scale=0.005)),
    "maximum": ("MaxPool", carried("MaxPool", kernel_shape=(2, 2))),
    "reshape": ("Reshape", carried("Reshape", [1, -1])),
    "transpose": ("Transpose", carried("Transpose", perm=(0, 2, 3, 1))),
    "concat": ("Concat", joined(0.05)),
    "concat-steps": ("QLinearConcat", joined(0.07)),
    "nearest": ("Resize", carried("Resize", [], [1, 1, 2, 2], dtype="float32", mode="nearest")),
}


@pytest.mark.parametrize("name", BODIES)
def test_an_operator_runs_on_integers(name: str) -> None:
    kind, build = BODIES[name]
    b = Quantised()
    after = folded(b, build(b))
    assert kinds(after) == [kind]
    (tiled,) = typed_group(after, [0])
    assert workload_of(tiled.spec, tiled.op, whole_tile(tiled), "fp16").dtype == "uint8"


def test_one_dequantisation_serves_several_operators() -> None:
    b = Quantised()
    x = b.image()
    left = b.quantised(b.add("Conv", x, b.weights(4, 4, 1, 1)), 0.1, 100)
    right = b.quantised(b.add("Sigmoid", x), 1 / 128)
    assert kinds(folded(b, left, right)) == ["QLinearConv", "QLinearSigmoid"]


def test_floats_that_something_else_reads_stay_floats() -> None:
    b = Quantised()
    y = b.add("Conv", b.image(), b.weights(4, 4, 1, 1))
    graph = b.graph(b.quantised(y), b.add("Abs", y))
    assert fold_quantisation(graph) is graph


def test_quantised_weights_alone_stay_as_they_are() -> None:
    b = Quantised()
    graph = b.graph(b.quantised(b.add("Conv", b.input(1, 4, 6, 6), b.weights(4, 4, 1, 1))))
    assert fold_quantisation(graph) is graph


def test_other_steps_of_a_carried_tensor_stay() -> None:
    b = Quantised()
    y = b.add("MaxPool", b.image(), kernel_shape=(2, 2))
    graph = b.graph(b.quantised(y, 0.1))
    assert fold_quantisation(graph) is graph
