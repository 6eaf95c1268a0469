"""Operators outside `show ops`: they run whole, by themselves, and give onnxruntime's numbers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper as helper
import onnx.numpy_helper as numpy_helper
import pytest

from support.builder import GraphBuilder
from tilewright.frontend.save import save_onnx
from tilewright.graph.graph import Graph


def planned(succeeds: Any, tmp_path: Path, graph: Graph | onnx.ModelProto, machine: str) -> Any:
    """The summary and the plan of a network that is executed, saved, and checked again."""
    model, folder = tmp_path / "net.onnx", tmp_path / "run"
    if isinstance(graph, Graph):
        save_onnx(graph, model)
    else:
        model.write_bytes(graph.SerializeToString())
    arguments = ("--on", machine, "--layer-by-layer", "--out", folder, "--json")
    summary = succeeds("plan", model, *arguments).json
    assert summary["verified"]["max_rel_error"] <= 1e-4
    assert "executed, largest difference" in succeeds("verify", folder).out
    return summary, (folder / "plan.yaml").read_text(), (folder / "program.txt").read_text()


def network(*between: Any, opset: int = 18) -> Graph:
    """A convolution, what is asked for, and an activation."""
    b = GraphBuilder(opset=opset)
    x = b.add("Conv", b.input(1, 3, 12, 12), b.weight(8, 3, 3, 3), name="conv")
    for step in between:
        x = step(b, x)
    b.add("Relu", x, name="y")
    return b.graph()


def einsum(b: GraphBuilder, x: str) -> str:
    return b.add("Einsum", x, b.weight(10, 7), equation="bchw,wk->bchk")


def scatter(b: GraphBuilder, x: str) -> str:
    rows = b.constant([[0, 1], [0, 5]], "int64")
    return b.add("ScatterND", x, rows, b.weight(2, 10, 10), reduction="add")


def grid_sample(b: GraphBuilder, x: str) -> str:
    grid = b.constant(np.random.default_rng(1).uniform(-1, 1, (1, 5, 6, 2)), "float32")
    return b.add("GridSample", x, grid, mode="bilinear", align_corners=1)


def one_hot(b: GraphBuilder, x: str) -> str:
    best = b.add("ArgMax", x, axis=1, keepdims=0)
    return b.add("OneHot", best, b.constant(8, "int64"), b.constant([0.0, 1.0], "float32"), axis=1)


def dynamic_quantise(b: GraphBuilder, x: str) -> str:
    quantised = b.add("DynamicQuantizeLinear", x, outputs=3)
    return b.add("DequantizeLinear", quantised, f"{quantised}.1", f"{quantised}.2")


def spectra(b: GraphBuilder, x: str) -> str:
    """One-sided, as no attribute says otherwise; the window gives the length."""
    signal = b.add("Reshape", x, b.constant([8, 100, 1], "int64"))
    return b.add("STFT", signal, b.constant(7, "int64"), b.weight(16))


def trilu(b: GraphBuilder, x: str) -> str:
    return b.add("Trilu", x, upper=0)


def indices(b: GraphBuilder, x: str) -> str:
    """Known, but not to be cut: indices count positions of the whole input."""
    pooled = b.add("MaxPool", x, outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    where = b.add("Cast", f"{pooled}.1", to=1)
    return b.add("Add", pooled, where)


CASES = {
    "Einsum": einsum,
    "STFT": spectra,
    "ScatterND": scatter,
    "GridSample": grid_sample,
    "OneHot": one_hot,
    "DynamicQuantizeLinear": dynamic_quantise,
    "Trilu": trilu,
    "MaxPool": indices,
}


@pytest.mark.parametrize("kind", CASES)
def test_unknown_operators_run_whole(succeeds: Any, tmp_path: Path, kind: str) -> None:
    opset = 18 if kind != "GridSample" else 16
    _, plan, program = planned(succeeds, tmp_path, network(CASES[kind], opset=opset), "npu-2.7")
    name = next(n for n in plan.split() if n.startswith(f"[{kind}_")).strip("[],")
    assert f" {kind} whole {name}: " in program
    assert plan.count("place: main") >= 1


def test_cost_is_that_of_the_bytes(succeeds: Any, tmp_path: Path) -> None:
    b = GraphBuilder()
    b.add("Trilu", b.input(1, 64, 128), name="y")
    summary, _, _ = planned(succeeds, tmp_path, b.graph(), "mcu")
    assert summary["dram_read_bytes"] == summary["dram_write_bytes"] == 64 * 128
    moved, bytes_per_cycle = 2 * 64 * 128, 1  # 400 MB/s at 400 MHz
    assert moved / bytes_per_cycle <= summary["latency_cycles"] < 1.1 * moved / bytes_per_cycle


def conditional(dynamic: bool = False) -> onnx.ModelProto:
    """If, whose branches read a value from outside."""

    def branch(kind: str) -> onnx.GraphProto:
        result = helper.make_tensor_value_info(f"{kind}_r", 1, [1, 4])
        node = helper.make_node(kind, ["h"], [f"{kind}_r"])
        return helper.make_graph([node], kind, [], [result])

    condition = numpy_helper.from_array(np.array(0.0, np.float32), "zero")
    axes = numpy_helper.from_array(np.array([0, 1], np.int64), "axes")
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="relu"),
        helper.make_node("ReduceSum", ["h", "axes"], ["total"], name="total", keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["positive"], name="greater"),
        helper.make_node(
            "If", ["positive"], ["r"], "if",
            then_branch=branch("Neg"), else_branch=branch("Exp"),
        ),
        helper.make_node("NonZero" if dynamic else "Abs", ["r"], ["y"], name="last"),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, [1, 4])],
        [helper.make_tensor_value_info("y", 7 if dynamic else 1, [2, None] if dynamic else [1, 4])],
        [condition, axes],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_subgraphs_with_captures(succeeds: Any, tmp_path: Path) -> None:
    _, _, program = planned(succeeds, tmp_path, conditional(), "npu-2.7")
    assert " If whole if: " in program


def test_results_of_unknown_size_are_refused(refused: Any, tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(conditional(dynamic=True).SerializeToString())
    complaint = refused("plan", model, "--on", "mcu", "--layer-by-layer")
    assert "node 'last' (NonZero): the shape of its result 'y' is not known" in complaint


def test_operators_of_another_domain(succeeds: Any, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("BiasGelu", ["x", "b"], ["h"], name="gelu", domain="com.microsoft"),
        helper.make_node("Relu", ["h"], ["y"], name="relu"),
    ]
    info = [helper.make_tensor_value_info(name, 1, [2, 8]) for name in ("x", "y", "h")]
    bias = numpy_helper.from_array(np.arange(8, dtype=np.float32), "b")
    graph = helper.make_graph(nodes, "net", info[:1], info[1:2], [bias], value_info=info[2:])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    _, plan, _ = planned(succeeds, tmp_path, model, "mcu")
    assert "nodes: [gelu]" in plan


def test_they_need_a_group_of_their_own(refused: Any, succeeds: Any, tmp_path: Path) -> None:
    _, text, _ = planned(succeeds, tmp_path, network(trilu), "mcu")
    model, plan = tmp_path / "net.onnx", tmp_path / "plan.yaml"
    plan.write_text(text.replace("place: main", "place: view"))
    complaint = refused("plan", model, "--on", "mcu", "--plan", plan)
    assert "runs whole: give it a group of its own, place: main" in complaint
    plan.write_text(text.replace("place: main", "place: cores"))
    assert "runs whole" in refused("plan", model, "--on", "mcu", "--plan", plan)


def test_the_saved_run_has_the_operator_in_it(succeeds: Any, tmp_path: Path) -> None:
    planned(succeeds, tmp_path, conditional(), "mcu")
    (tmp_path / "net.onnx").unlink()
    manifest = json.loads((tmp_path / "run" / "run" / "run.json").read_text())
    assert manifest["opsets"] == {"": 18}
    assert "tasks executed" in succeeds("verify", tmp_path / "run").out
