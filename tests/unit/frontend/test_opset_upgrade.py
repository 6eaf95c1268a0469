"""Models of operator sets 9 to 12 load, are written as 13, and compute the same numbers."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
import pytest

from support.compare import assert_same
from tilewright.errors import ModelError
from tilewright.execute.runtime import run
from tilewright.frontend.load import load_onnx
from tilewright.frontend.save import serialize

F, B = onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL
X = (2, 3, 4, 5)


class Case(NamedTuple):
    """A node of an old operator set, with the shape of its first input."""

    opset: int
    kind: str
    extra: tuple[object, ...]
    shape: tuple[int, ...]
    outputs: int
    attributes: dict[str, object]


def case(
    opset: int,
    kind: str,
    *extra: object,
    shape: tuple[int, ...] = X,
    outputs: int = 1,
    **attributes: object,
):
    """A node of an old operator set; arrays among `extra` become initializers, "" is absent."""
    label = f"{kind}-{opset}" + "".join(
        f"-{k}{v}".replace(" ", "") for k, v in attributes.items() if not isinstance(v, bytes)
    )
    return pytest.param(Case(opset, kind, extra, shape, outputs, attributes), id=label[:60])


CASES = [
    case(9, "Slice", starts=[1, -3], ends=[100, -1], axes=[2, 3]),
    case(9, "Slice", starts=[0, 1], ends=[1, 2]),
    case(10, "Slice", np.array([3]), np.array([0]), np.array([2]), np.array([-1])),
    case(9, "Pad", pads=[0, 0, 1, 2, 0, 0, 2, 1], mode="constant", value=1.5),
    case(10, "Pad", pads=[0, 0, 1, 2, 0, 0, 2, 1], mode="reflect"),
    case(10, "Pad", pads=[0, 0, -1, 0, 0, 0, 0, -2]),
    case(11, "Pad", np.array([0, 0, 1, 2, 0, 0, 2, 1]), np.float32(2)),
    case(9, "Clip", min=-1.0, max=2.0),
    case(9, "Clip", min=0.5),
    case(10, "Clip", max=0.5),
    case(10, "Clip"),
    case(11, "Clip", np.float32(-1), np.float32(2)),
    case(12, "Clip", "", np.float32(2)),
    case(9, "Squeeze", shape=(1, 3, 1, 5), axes=[0, 2]),
    case(11, "Squeeze", shape=(1, 3, 1, 5), axes=[-2]),
    case(11, "Squeeze", shape=(1, 3, 1, 5)),
    case(9, "Unsqueeze", axes=[0, 5]),
    case(11, "Unsqueeze", axes=[-1]),
    case(9, "Split", outputs=2, split=[1, 3], axis=2),
    case(11, "Split", outputs=2, axis=-2),
    case(9, "ReduceSum", axes=[1, 3], keepdims=0),
    case(11, "ReduceSum", axes=[-1]),
    case(11, "ReduceSum"),
    case(12, "ReduceMax", axes=[2], keepdims=0),
    case(9, "Upsample", np.float32([1, 1, 2, 3]), mode="nearest"),
    case(9, "Upsample", np.float32([1, 1, 2, 2]), mode="linear"),
    case(10, "Resize", np.float32([1, 1, 2, 3]), mode="nearest"),
    case(10, "Resize", np.float32([1, 1, 0.5, 0.6]), mode="nearest"),
    case(10, "Resize", np.float32([1, 1, 2, 2]), mode="linear"),
    case(11, "Resize", np.float32([]), np.float32([1, 1, 2, 2]), mode="linear",
         coordinate_transformation_mode="align_corners"),
    case(11, "Resize", np.float32([]), np.float32([]), np.array([2, 3, 8, 10]), mode="nearest"),
    case(9, "Softmax"),
    case(9, "Softmax", axis=3),
    case(11, "Softmax", axis=-2),
    case(12, "Softmax", axis=2, shape=(2, 3, 1, 5)),
    case(11, "Softmax", axis=0),
    case(11, "LogSoftmax", axis=2),
    case(11, "Hardmax", axis=1),
    case(9, "Dropout", ratio=0.3),
    case(10, "Dropout", ratio=0.3),
    case(12, "Dropout", np.float32(0.4)),
    case(12, "Dropout", np.float32(0.4), np.array(False)),
    case(9, "Flatten", axis=2),
    case(9, "TopK", outputs=2, k=2, axis=1),
    case(10, "TopK", np.array([2]), outputs=2, axis=1),
    case(9, "Scatter", np.zeros((1, 3, 4, 5), np.int64), np.ones((1, 3, 4, 5), np.float32)),
    case(9, "BatchNormalization", *(np.float32([0.5, 1, 2]) for _ in range(4))),
    case(9, "Gemm", np.ones((5, 4), np.float32), np.ones(4, np.float32), shape=(3, 5)),
    case(11, "ArgMax", axis=1, keepdims=0),
    case(10, "MaxPool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    case(9, "PRelu", np.full((3, 1, 1), 0.1, np.float32)),
]  # fmt: skip


def model_of(case: Case) -> onnx.ModelProto:
    """The node between two others, so that names and order matter too."""
    names: list[str] = []
    tensors: list[onnx.TensorProto] = []
    for number, value in enumerate(case.extra):
        names.append("" if isinstance(value, str) else f"c{number}")
        if not isinstance(value, str):
            tensors.append(onnx.numpy_helper.from_array(np.asarray(value), f"c{number}"))
    results = [f"y{k}" for k in range(case.outputs)]
    nodes = [
        oh.make_node("Neg", ["x"], ["n"]),
        oh.make_node(case.kind, ["n", *names], results, **case.attributes),
        *(oh.make_node("Identity", [name], [f"{name}out"]) for name in results),
    ]
    graph = oh.make_graph(
        nodes,
        "old",
        [oh.make_tensor_value_info("x", F, case.shape)],
        [onnx.ValueInfoProto(name=f"{name}out") for name in results],
        tensors,
    )
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", case.opset)], ir_version=7)
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize("case", CASES)
def test_old_model_gives_the_same_numbers(tmp_path: Path, case: Case) -> None:
    model = model_of(case)
    path = tmp_path / "old.onnx"
    path.write_bytes(model.SerializeToString())
    feeds = {"x": np.random.default_rng(3).normal(size=case.shape).astype(np.float32) * 2}
    expected = run(path, feeds)
    graph = load_onnx(path).graph
    assert graph.opset == 13
    for name, result in expected.items():
        assert graph.types[name].shape == result.shape
        assert graph.types[name].dtype == str(result.dtype)
    assert_same(run(serialize(graph), feeds), expected)


def test_softmax_of_unknown_shape(tmp_path: Path) -> None:
    """NonZero's shape is only known when it runs: the rows are flattened without it."""
    nodes = [
        oh.make_node("NonZero", ["x"], ["i"]),
        oh.make_node("Cast", ["i"], ["f"], to=F),
        oh.make_node("Softmax", ["f"], ["y"], axis=0),
    ]
    graph = oh.make_graph(
        nodes, "old", [oh.make_tensor_value_info("x", F, X)], [onnx.ValueInfoProto(name="y")]
    )
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 11)], ir_version=7)
    path = tmp_path / "old.onnx"
    path.write_bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())
    feeds = {"x": np.random.default_rng(3).integers(0, 2, X).astype(np.float32)}
    assert_same(run(serialize(load_onnx(path).graph), feeds), run(path, feeds))


@pytest.mark.parametrize("kind", ["Squeeze", "Slice", "Pad", "Clip", "Split", "Upsample", "TopK"])
def test_damaged_old_node_is_one_clear_error(tmp_path: Path, kind: str) -> None:
    """No inputs, and attributes of the wrong type."""
    wrong = dict.fromkeys(("axes", "starts", "ends", "pads", "min", "split", "scales", "k"), "abc")
    for inputs in ([], ["x"]):
        node = oh.make_node(kind, inputs, ["y"], **wrong)
        outputs = [oh.make_tensor_value_info("y", F, X)]
        graph = oh.make_graph([node], "old", [oh.make_tensor_value_info("x", F, X)], outputs)
        model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 9)], ir_version=7)
        path = tmp_path / "old.onnx"
        path.write_bytes(model.SerializeToString())
        with pytest.raises(ModelError):
            load_onnx(path)


def test_dropout_with_a_mask(tmp_path: Path) -> None:
    """The copy is exact; what an old inference dropout puts into its mask is not defined."""
    model = model_of(Case(11, "Dropout", (), X, 2, {"ratio": 0.3}))
    path = tmp_path / "old.onnx"
    path.write_bytes(model.SerializeToString())
    feeds = {"x": np.ones(X, np.float32)}
    results = run(serialize(load_onnx(path).graph), feeds)
    np.testing.assert_array_equal(results["y0out"], -feeds["x"])
    assert results["y1out"].dtype == bool


def test_old_operators_inside_a_subgraph(tmp_path: Path) -> None:
    """The branches of an If are of the old operator set as well."""
    x = oh.make_tensor_value_info("x", F, (1, 3, 4))
    condition = oh.make_tensor_value_info("c", B, ())

    def branch(name: str, node: onnx.NodeProto) -> onnx.GraphProto:
        result = oh.make_tensor_value_info(node.output[0], F, (3, 4))
        return oh.make_graph([node], name, [], [result])

    node = oh.make_node(
        "If",
        ["c"],
        ["y"],
        then_branch=branch("yes", oh.make_node("Squeeze", ["x"], ["a"], axes=[0])),
        else_branch=branch("no", oh.make_node("ReduceSum", ["x"], ["b"], axes=[0], keepdims=0)),
    )
    graph = oh.make_graph([node], "g", [x, condition], [oh.make_tensor_value_info("y", F, (3, 4))])
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 11)], ir_version=7)
    path = tmp_path / "if.onnx"
    path.write_bytes(model.SerializeToString())
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(1, 3, 4), "c": np.array(True)}
    assert_same(run(serialize(load_onnx(path).graph), feeds), run(path, feeds))
