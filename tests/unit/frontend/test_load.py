"""From a file to a Graph: names, order, constants, open shapes, external data."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
import pytest

from tilewright.errors import ModelError, ShapeError
from tilewright.execute.runtime import run
from tilewright.frontend import proto
from tilewright.frontend.load import Loaded, load_data, load_onnx
from tilewright.frontend.save import save_onnx, serialize
from tilewright.graph.graph import Graph

pytestmark = pytest.mark.quick
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
node = oh.make_node


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "net.onnx"


def write(path: Path, nodes: list[Any], *, opset: int = 17, **parts: Any) -> Path:
    """A file with the input `x` (1x2x4x4) and the output `y`, unless told otherwise."""
    graph = oh.make_graph(
        nodes,
        parts.get("name", "net"),
        parts.get("inputs", [oh.make_tensor_value_info("x", FLOAT, (1, 2, 4, 4))]),
        [onnx.ValueInfoProto(name=name) for name in parts.get("outputs", ["y"])],
        [onnx.numpy_helper.from_array(a, n) for n, a in parts.get("tensors", {}).items()],
    )
    model = oh.make_model(
        graph,
        opset_imports=[oh.make_opsetid(parts.get("domain", ""), opset)],
        ir_version=8,
        functions=parts.get("functions", []),
    )
    path.write_bytes(model.SerializeToString())
    return path


def loaded(path: Path, nodes: list[Any], **parts: Any) -> Graph:
    return load_onnx(write(path, nodes, **parts)).graph


def test_nodes_without_or_with_the_same_name_get_one_of_their_own(path: Path) -> None:
    chain = [
        node("Relu", ["x"], ["a"]),
        node("Relu", ["a"], ["b"], name="same"),
        node("Relu", ["b"], ["y"], name="same"),
    ]
    names = [n.name for n in loaded(path, chain).nodes]
    assert names == ["Relu_a", "same", "same_2"]


def test_nodes_in_the_wrong_order_are_sorted(path: Path) -> None:
    chain = [node("Relu", [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(300)]
    graph = loaded(path, chain[::-1], outputs=["v300"])
    assert [n.outputs[0] for n in graph.nodes] == [f"v{i + 1}" for i in range(300)]


def test_what_nothing_reads_is_dropped(path: Path) -> None:
    nodes = [node("Relu", ["x"], ["y"]), node("Tanh", ["x"], ["unused"])]
    graph = loaded(path, nodes, tensors={"w": np.ones(3, np.float32)})
    assert [n.kind for n in graph.nodes] == ["Relu"]
    assert not graph.constants


def test_shapes_computed_by_the_network_become_constants(path: Path) -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Unsqueeze", ["n", "axis"], ["n1"]),
        node("Concat", ["n1", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    tensors = {"zero": np.asarray(0), "axis": np.asarray([0]), "rest": np.asarray([-1])}
    graph = loaded(path, nodes, tensors=tensors)
    assert [n.kind for n in graph.nodes] == ["Reshape"]
    assert graph.types["y"].shape == (1, 32)


def test_an_output_that_is_constant_is_still_written(path: Path) -> None:
    graph = loaded(path, [node("Shape", ["x"], ["y"])])
    (only,) = graph.nodes
    assert (only.kind, only.outputs) == ("Identity", ("y",))
    result = run(serialize(graph), {"x": np.ones((1, 2, 4, 4), np.float32)})
    assert result["y"].tolist() == [1, 2, 4, 4]


def test_weights_listed_as_inputs_are_weights(path: Path) -> None:
    inputs = [
        oh.make_tensor_value_info("x", FLOAT, (1, 2, 4, 4)),
        oh.make_tensor_value_info("w", FLOAT, (1,)),
    ]
    graph = loaded(
        path, [node("Mul", ["x", "w"], ["y"])], inputs=inputs, tensors={"w": np.ones(1, np.float32)}
    )
    assert graph.inputs == ("x",)


def test_functions_of_the_model_are_inlined(path: Path) -> None:
    function = oh.make_function(
        "own", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], [oh.make_opsetid("", 17)]
    )
    write(path, [node("Twice", ["x"], ["y"], domain="own")], functions=[function])
    model = onnx.load(path)
    model.opset_import.add(domain="own", version=1)
    path.write_bytes(model.SerializeToString())
    assert [n.kind for n in load_onnx(path).graph.nodes] == ["Add"]


def test_subgraphs_keep_what_they_read_alive(path: Path) -> None:
    inner = oh.make_graph(
        [node("Add", ["hidden", "hidden"], ["z"])], "i", [], [onnx.ValueInfoProto(name="z")]
    )
    nodes = [
        node("Relu", ["x"], ["hidden"]),
        node("ReduceMax", ["x"], ["m"], keepdims=0),
        node("Cast", ["m"], ["c"], to=onnx.TensorProto.BOOL),
        node("If", ["c"], ["y"], then_branch=inner, else_branch=inner),
    ]
    graph = loaded(path, nodes)
    assert graph.nodes[-1].captures == ("hidden",)
    assert "Relu" in {n.kind for n in graph.nodes}


def test_unknown_operators_keep_their_place(path: Path) -> None:
    nodes = [node("Mystery", ["x"], ["h"], domain="own", level=3), node("Relu", ["h"], ["y"])]
    graph = loaded(path, nodes)
    assert [n.kind for n in graph.nodes] == ["Mystery", "Relu"]
    assert graph.nodes[0].attributes["level"] == 3
    assert "h" not in graph.types


def test_both_names_of_the_standard_domain(path: Path) -> None:
    graph = loaded(path, [node("Relu", ["x"], ["y"], domain="ai.onnx")], domain="ai.onnx")
    assert graph.nodes[0].domain == ""
    assert graph.opset == 17


def test_text_constants_do_no_harm(path: Path) -> None:
    words = onnx.numpy_helper.from_array(np.asarray(["a", "bc"], dtype=object), "words")
    nodes = [node("Relu", ["x"], ["y"]), node("Identity", ["words"], ["z"])]
    write(path, nodes, outputs=["y", "z"])
    model = onnx.load(path)
    model.graph.initializer.append(words)
    path.write_bytes(model.SerializeToString())
    graph = load_onnx(path).graph
    assert graph.weight_bytes >= 0
    assert run(serialize(graph), {"x": np.ones((1, 2, 4, 4), np.float32)})["z"].tolist() == [
        "a",
        "bc",
    ]
    assert [n.kind for n in graph.nodes] == ["Relu", "Identity"]


def test_a_filled_constant_takes_no_memory(path: Path) -> None:
    nodes = [node("ConstantOfShape", ["s"], ["w"]), node("MatMul", ["x", "w"], ["y"])]
    tensors = {"s": np.asarray([4, 2**24])}
    graph = loaded(path, nodes, tensors=tensors)
    data = graph.constants["w"].data
    assert data is not None and data.strides == (0, 0)
    assert graph.types["y"].shape == (1, 2, 4, 2**24)


# --- open dimensions -----------------------------------------------------------------------------


def open_relu(path: Path) -> Path:
    inputs = [oh.make_tensor_value_info("x", FLOAT, ("n", 3, None, None))]
    return write(path, [node("Relu", ["x"], ["y"])], inputs=inputs)


def test_open_dimensions_are_named_and_closed(path: Path) -> None:
    with pytest.raises(ShapeError, match=r"'x' is \[n,3,\?,\?\].*--shape x=1,3,224,224"):
        load_onnx(open_relu(path))
    result = load_onnx(open_relu(path), {"x": (2, 3, 5, 7)})
    assert result.graph.types["y"].shape == (2, 3, 5, 7)
    assert not result.reshaped


def test_an_input_of_any_rank(path: Path) -> None:
    inputs = [oh.make_tensor_value_info("x", FLOAT, None)]
    write(path, [node("Relu", ["x"], ["y"])], inputs=inputs)
    with pytest.raises(ShapeError, match="any rank"):
        load_onnx(path)
    assert load_onnx(path, {"x": (4, 4)}).graph.types["y"].shape == (4, 4)


def test_fixed_dimensions_can_be_replaced(path: Path) -> None:
    write(path, [node("Relu", ["x"], ["y"])])
    result = load_onnx(path, {"x": (1, 2, 9, 9)})
    assert result.reshaped
    assert result.graph.types["y"].shape == (1, 2, 9, 9)
    assert not load_onnx(path, {"x": (1, 2, 4, 4)}).reshaped


def test_shapes_that_stood_in_the_file_are_not_trusted_after_a_change(path: Path) -> None:
    write(path, [node("Mystery", ["x"], ["h"], domain="own"), node("Relu", ["h"], ["y"])])
    model = onnx.load(path)
    model.graph.value_info.append(oh.make_tensor_value_info("h", FLOAT, (1, 2, 4, 4)))
    path.write_bytes(model.SerializeToString())
    assert load_onnx(path).graph.types["h"].shape == (1, 2, 4, 4)
    assert "h" not in load_onnx(path, {"x": (1, 2, 9, 9)}).graph.types


# --- numbers in other files ----------------------------------------------------------------------


def with_external(path: Path, array: np.ndarray, location: str, **fields: int) -> Path:
    write(path, [node("Mul", ["x", "w"], ["y"])], tensors={"w": array})
    model = onnx.load(path)
    (tensor,) = model.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **fields}.items():
        tensor.external_data.add(key=key, value=str(value))
    path.write_bytes(model.SerializeToString())
    return path


def test_external_data_is_read_where_it_is(path: Path) -> None:
    array = np.arange(4, dtype=np.float32)
    (path.parent / "w.bin").write_bytes(b"????" + array.tobytes() + b"rest")
    result = load_onnx(with_external(path, array, "w.bin", offset=4, length=16))
    assert result.missing_files == ()
    assert np.array_equal(result.graph.constants["w"].data, array)


def test_external_data_that_is_missing_leaves_the_weight_empty(path: Path) -> None:
    result = load_onnx(with_external(path, np.ones(4, np.float32), "w.bin"))
    assert result.missing_files == ("w.bin",)
    assert result.graph.weightless
    assert result.graph.constants["w"].type.shape == (4,)


def test_cleared_weights_are_weights_without_numbers(path: Path) -> None:
    write(path, [node("Mul", ["x", "w"], ["y"])], tensors={"w": np.ones(4, np.float32)})
    model = onnx.load(path)
    model.graph.initializer[0].ClearField("raw_data")
    path.write_bytes(model.SerializeToString())
    assert load_onnx(path).graph.weightless


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8", "int32", "bool"])
def test_weights_keep_their_type_there_and_back(path: Path, dtype: str) -> None:
    array = np.asarray([[0, 1], [1, 0]], dtype=dtype)
    nodes = [node("Relu", ["x"], ["y"]), node("Identity", ["w"], ["z"])]
    graph = loaded(path, nodes, outputs=["y", "z"], tensors={"w": array})
    again = path.with_name("again.onnx")
    save_onnx(graph, again, {"key": "value"})
    second = load_onnx(again).graph
    stored = [c.data for c in second.constants.values()]
    assert any(
        d is not None and d.dtype == array.dtype and np.array_equal(d, array) for d in stored
    )
    assert onnx.load(again).metadata_props[0].key == "key"


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [1, 8, proto.NEWEST_OPSET + 1, 2**31, 2**62])
def test_operator_sets_nobody_knows(path: Path, opset: int) -> None:
    with pytest.raises(ModelError, match=rf"operator set {opset}; 9 to {proto.NEWEST_OPSET}"):
        loaded(path, [node("Relu", ["x"], ["y"])], opset=opset)


@pytest.mark.parametrize("opset", [9, 12, 13, 17, 22])
def test_operator_sets_that_are_promised(path: Path, opset: int) -> None:
    assert loaded(path, [node("Relu", ["x"], ["y"])], opset=opset).nodes


@pytest.mark.parametrize(
    "bad",
    [
        node("ConstantOfShape", ["scalar"], ["y"], name="n"),
        node("ConstantOfShape", ["minus"], ["y"], name="n"),
        node("ConstantOfShape", ["x"], ["y"], name="n", value=3),
        node("ConstantOfShape", [], ["y"], name="n"),
        node("Shape", [], ["y"], name="n"),
        node("Shape", ["x"], ["y"], name="n", start="a"),
        node("Transpose", ["x"], ["y"], name="n", perm=[0, 0, 9, 1]),
        node("Concat", ["x", "x"], ["y"], name="n", axis=9),
        node("Conv", ["x", "x"], ["y"], name="n", group=0, strides=[0, 0]),
        node("MaxPool", ["x"], ["y"], name="n", kernel_shape=[-1, 2**40]),
    ],
)
def test_nodes_that_make_no_sense(path: Path, bad: Any) -> None:
    tensors = {"scalar": np.asarray(3), "minus": np.asarray([-1])}
    write(path, [bad], tensors=tensors)
    try:
        result: Loaded | None = load_onnx(path)
    except ModelError as error:
        assert "'n'" in str(error)
        result = None
    if result is not None:  # onnx accepts some; then no shape may be made up
        assert all(extent >= 0 for kind in result.graph.types.values() for extent in kind.shape)


def test_sparse_weights(path: Path) -> None:
    write(path, [node("Relu", ["x"], ["y"])])
    model = onnx.load(path)
    model.graph.sparse_initializer.add()
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="sparse"):
        load_onnx(path)


def test_an_input_that_is_no_tensor(path: Path) -> None:
    sequence = oh.make_tensor_sequence_value_info("x", FLOAT, None)
    with pytest.raises(ModelError, match="not a tensor"):
        loaded(path, [node("ConcatFromSequence", ["x"], ["y"], axis=0)], inputs=[sequence])


@pytest.mark.parametrize(
    ("kind", "attributes", "fault"),
    [
        ("Conv", {"kernel_shape": [2**31 - 1, 3]}, "kernel_shape"),
        ("Softmax", {"axis": 2**62}, "no axis"),
    ],
)
def test_attributes_that_no_runtime_takes(
    kind: str, attributes: dict[str, Any], fault: str
) -> None:
    weight = [oh.make_tensor("w", onnx.TensorProto.FLOAT, [4, 3, 3, 3], [0.0] * 108)]
    inputs = ["x", "w"] if kind == "Conv" else ["x"]
    graph = oh.make_graph(
        [oh.make_node(kind, inputs, ["y"], **attributes)],
        "odd",
        [oh.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 8, 8])],
        [oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        weight,
    )
    opsets = [oh.make_opsetid("", 18)]
    model = oh.make_model(graph, opset_imports=opsets, ir_version=10)
    with pytest.raises(ModelError, match=fault):
        load_data(model.SerializeToString(), "odd")


@pytest.mark.parametrize(("kind", "left"), [("Sub", []), ("Expand", ["Expand"])])
def test_what_is_computed_of_constants_folds_and_what_is_repeated_stays(
    path: Path, kind: str, left: list[str]
) -> None:
    """A mask of 200 KB is worked out once; repeating a row where it is read loads less."""
    tensors = {"a": np.zeros((1, 1, 1, 224), np.float32), "b": np.ones((1, 1, 224, 1), np.float32)}
    tensors["shape"] = np.array([1, 1, 224, 224])
    inputs = ["a", "b"] if kind == "Sub" else ["a", "shape"]
    nodes = [node(kind, inputs, ["mask"]), node("Add", ["x", "mask"], ["y"])]
    x = oh.make_tensor_value_info("x", FLOAT, (1, 1, 224, 224))
    graph = loaded(path, nodes, tensors=tensors, inputs=[x])
    assert [n.kind for n in graph.nodes] == [*left, "Add"]
