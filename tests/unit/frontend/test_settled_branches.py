"""An If whose condition follows from shapes is the branch it takes, whatever the branches hold."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
import pytest

from tilewright.execute.runtime import run
from tilewright.frontend.load import load_onnx
from tilewright.frontend.save import serialize
from tilewright.graph.graph import Graph

pytestmark = pytest.mark.quick
FLOAT = onnx.TensorProto.FLOAT
node = oh.make_node


def branch(nodes: list[Any], output: str, **tensors: Any) -> onnx.GraphProto:
    constants = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in tensors.items()]
    return oh.make_graph(
        nodes, "b", [], [oh.make_tensor_value_info(output, FLOAT, None)], constants
    )


def asking(rank: int, yes: onnx.GraphProto, no: onnx.GraphProto, result: str) -> list[Any]:
    """An If that asks whether x has so many dimensions, as exporters write it."""
    names = [f"{result}_{part}" for part in ("shape", "rank", "number", "same")]
    shape, rank_of, number, same = names
    return [
        node("Shape", ["x"], [shape]),
        node("Size", [shape], [rank_of]),
        node("Constant", [], [number], value_int=rank),
        node("Equal", [rank_of, number], [same]),
        node("If", [same], [result], then_branch=yes, else_branch=no),
    ]


def checked(tmp_path: Path, nodes: list[Any]) -> Graph:
    """The graph, which gives what the file gives."""
    x = oh.make_tensor_value_info("x", FLOAT, (1, 2, 4))
    outputs = [oh.make_tensor_value_info("y", FLOAT, None)]
    model = oh.make_model(
        oh.make_graph(nodes, "net", [x], outputs),
        opset_imports=[oh.make_opsetid("", 17)],
        ir_version=8,
    )
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    graph = load_onnx(path).graph
    feeds = {"x": np.linspace(-2, 2, 8, dtype=np.float32).reshape(1, 2, 4)}
    np.testing.assert_array_equal(run(serialize(graph), feeds)["y"], run(path, feeds)["y"])
    return graph


@pytest.mark.parametrize(("rank", "kind"), [(3, "Neg"), (4, "Relu")])
def test_the_branch_that_is_taken_stands_in_its_place(tmp_path: Path, rank: int, kind: str) -> None:
    yes = branch([node("Neg", ["h"], ["a"])], "a")
    no = branch([node("Relu", ["h"], ["b"])], "b")
    nodes = [node("Exp", ["x"], ["h"]), *asking(rank, yes, no, "r"), node("Abs", ["r"], ["y"])]
    graph = checked(tmp_path, nodes)
    assert [n.kind for n in graph.nodes] == ["Exp", kind, "Abs"]
    assert "r" in graph.types


def test_a_branch_within_a_branch_with_weights_of_its_own(tmp_path: Path) -> None:
    scaled = branch([node("Mul", ["t", "w"], ["p"])], "p", w=np.float32([2, 3, 4, 5]))
    other = branch([node("Identity", ["t"], ["q"])], "q")
    yes = branch([node("Neg", ["x"], ["t"]), *asking(3, scaled, other, "s")], "s")
    no = branch([node("Identity", ["x"], ["u"])], "u")
    graph = checked(tmp_path, asking(3, yes, no, "y"))
    assert [n.kind for n in graph.nodes] == ["Neg", "Mul"]


def test_names_that_are_used_twice_stay_apart(tmp_path: Path) -> None:
    """Branches that call their values alike."""
    inner = [node("Exp", ["x"], ["t"]), node("Neg", ["t"], ["u"])]
    passed = branch([node("Identity", ["x"], ["t"])], "t")
    nodes = [
        *asking(3, branch(inner, "u"), passed, "first"),
        *asking(3, branch(inner, "u"), passed, "second"),
        *asking(5, branch(inner, "u"), passed, "third"),
        node("Sum", ["first", "second", "third"], ["y"]),
    ]
    graph = checked(tmp_path, nodes)
    kinds = [n.kind for n in graph.nodes]
    assert kinds.count("Exp") == kinds.count("Neg") == 2
    assert "If" not in kinds


def test_what_data_decide_stays(tmp_path: Path) -> None:
    yes, no = branch([node("Neg", ["x"], ["a"])], "a"), branch([node("Abs", ["x"], ["b"])], "b")
    nodes = [
        node("ReduceMax", ["x"], ["m"], keepdims=0),
        node("Cast", ["m"], ["c"], to=onnx.TensorProto.BOOL),
        node("If", ["c"], ["y"], then_branch=yes, else_branch=no),
    ]
    assert checked(tmp_path, nodes).nodes[-1].kind == "If"
