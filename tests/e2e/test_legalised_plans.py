"""Plans of legalised networks: the steps are told, the names are stable, saved runs hold; and the
reference that decides where onnxruntime's optimiser rounds otherwise."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from support.builder import GraphBuilder
from tilewright.frontend.save import save_onnx
from tilewright.graph.graph import Array, Graph
from tilewright.machine.load import load_machine
from tilewright.planning import proof
from tilewright.program import store
from tilewright.program.place import Placed
from tilewright.program.program import Compute

NPU = ("--on", "npu-2.7", "--layer-by-layer")


def written(graph: Graph, folder: Path) -> Path:
    path = folder / "net.onnx"
    save_onnx(graph, path)
    return path


def beyond_the_limits() -> Graph:
    """A dilated filter, a large kernel, a pad too long, a dense layer too deep."""
    b = GraphBuilder()
    x = b.input(1, 3, 64, 64)
    x = b.add("Conv", x, b.weight(4, 3, 3, 3), name="dilated", dilations=[2, 2])
    x = b.add("Conv", x, b.weight(4, 4, 13, 13), name="large", pads=[6, 6, 6, 6])
    x = b.add("Conv", x, b.weight(4, 4, 3, 3), name="padded", pads=[2, 2, 2, 2])
    x = b.add("Flatten", x, name="flat")
    b.add("MatMul", x, b.weight(b.shape(x)[1], 10), name="dense")
    return b.graph()


def test_limits_are_met_before_the_plan(succeeds: Any, tmp_path: Path) -> None:
    model, folder = written(beyond_the_limits(), tmp_path), tmp_path / "run"
    summary = succeeds("plan", model, *NPU, "--out", folder, "--json").json
    assert summary["verified"]["max_rel_error"] <= 1e-4
    steps = summary["legalisation"]
    assert steps == json.loads((folder / "summary.json").read_text())["legalisation"]
    rewritten = {(s["node"], s["limit"]) for s in steps if s["outcome"] == "rewritten"}
    assert rewritten >= {
        ("Conv_dilated", "dilation"),
        ("Conv_large", "kernel"),
        ("Conv_padded", "pads"),
        ("MatMul_dense", "dimension"),
    }
    nodes = [name for group in plan_of(folder)["groups"] for name in group["nodes"]]
    assert {"Conv_dilated", "Conv_large/part", "Conv_padded/pad", "MatMul_dense/part"} <= {*nodes}
    assert "tasks executed" in succeeds("verify", folder).out
    text = succeeds("plan", model, *NPU, "--no-verify").out
    assert f"legalised    {len(steps)} steps (" in text and "expanded to 5x5" in text
    assert f"{len(steps) - 3} more in summary.json" in text


def plan_of(folder: Path) -> Any:
    return yaml.safe_load((folder / "plan.yaml").read_text())


def test_a_written_plan_names_legalised_nodes(succeeds: Any, tmp_path: Path) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    succeeds("plan", "fsrcnn@16x24", *NPU, "--out", first)
    names = [name for group in plan_of(first)["groups"] for name in group["nodes"]]
    assert {"upscale/phases", "upscale"} <= set(names)
    plan = first / "plan.yaml"
    succeeds("plan", "fsrcnn@16x24", "--on", "npu-2.7", "--plan", plan, "--out", again)
    assert plan_of(again) == plan_of(first)
    assert "tasks executed" in succeeds("verify", again).out


def test_the_first_layer_takes_its_input_packed(succeeds: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    summary = succeeds("plan", "rn50_stem@64x64", *NPU, "--out", folder, "--json").json
    (step,) = summary["legalisation"]
    assert step["outcome"] == "layout" and "input channels (3) stay packed" in step["what"]
    placed = store.load(Placed, folder / "run" / "placed.json")
    works = [task.work for task in placed.program.tasks if isinstance(task.work, Compute)]
    assert {w.workload.kind for w in works if w.steps[0].kind == "Conv"} == {"first_conv"}
    inputs = [b for b in placed.program.buffers if b.value == "input" and "cmx" in b.memory]
    assert inputs and all(b.size % (64 * 3 * 2) == 0 for b in inputs)  # whole rows of 3 channels


def test_pools_the_array_cannot_run_go_to_the_vector_engine(succeeds: Any, tmp_path: Path) -> None:
    b = GraphBuilder()
    x = b.add("AveragePool", b.input(1, 16, 40, 40), kernel_shape=[13, 13], name="large")
    b.add("AveragePool", x, kernel_shape=[3, 3], name="small")
    folder = tmp_path / "run"
    summary = succeeds("plan", written(b.graph(), tmp_path), *NPU, "--out", folder, "--json").json
    assert [step["outcome"] for step in summary["legalisation"]] == ["vector"]
    lines = (folder / "program.txt").read_text().splitlines()
    engines = {
        name: {line.split()[1].partition(".")[2] for line in lines if f"Pool_{name}@" in line}
        for name in ("large", "small")
    }
    assert "dpu" not in engines["large"] and "shave" in engines["large"]
    assert "dpu" in engines["small"]


def test_a_plan_for_another_machine_is_noted(succeeds: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    succeeds("plan", "four_convs@16x16", "--on", "npu-2.7", "--layer-by-layer", "--out", folder)
    plan = folder / "plan.yaml"
    outcome = succeeds("plan", "four_convs@16x16", "--on", "mcu", "--plan", plan, "--json")
    assert f"'{plan}' was made for npu-2.7, not for mcu" in outcome.err.replace("\n", "")
    outcome = succeeds("plan", "four_convs@16x16", "--on", "npu-2.7", "--plan", plan, "--json")
    assert "was made for" not in outcome.err


# Quantised networks.


def quantised(operator: bool) -> Graph:
    """A convolution and an activation in 8 bits, as QLinearConv or between Q and DQ."""
    b = GraphBuilder()
    scale, zero = b.constant(0.03, "float32"), b.constant(128, "uint8")
    weight, flat = b.constant(0.02, "float32"), b.constant(0, "int8")
    end = b.constant(0.21, "float32")
    filters = b.constant(np.random.default_rng(3).integers(-127, 127, (8, 3, 3, 3)), "int8")
    x = b.add("QuantizeLinear", b.input(1, 3, 20, 20), scale, zero)
    if operator:
        x = b.add("QLinearConv", x, scale, zero, filters, weight, flat, end, zero)
    else:
        x = b.add("DequantizeLinear", x, scale, zero)
        y = b.add("Conv", x, b.add("DequantizeLinear", filters, weight, flat))
        x = b.add("QuantizeLinear", b.add("Relu", y), end, zero)
    b.add("DequantizeLinear", x, end, zero, name="y")
    return b.graph()


@pytest.mark.parametrize("machine", ["npu-2.7", "mcu"])
@pytest.mark.parametrize("operator", [True, False], ids=["QOperator", "QDQ"])
def test_quantised_networks(succeeds: Any, tmp_path: Path, operator: bool, machine: str) -> None:
    model, folder = written(quantised(operator), tmp_path), tmp_path / "run"
    arguments = ("plan", model, "--on", machine, "--layer-by-layer", "--out", folder)
    assert "verified: " in succeeds(*arguments).out
    assert "tasks executed" in succeeds("verify", folder).out


def test_onnxruntime_knows_types_that_onnx_does_not(succeeds: Any, tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    names = ("x", "s", "z", "x", "s", "z", "s", "z")
    info = [helper.make_tensor_value_info(n, 1, [2, 8]) for n in ("data", "y")]
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["data", "s", "z"], ["x"], "q"),
            helper.make_node("QLinearAdd", names, ["sum"], "add", domain="com.microsoft"),
            helper.make_node("DequantizeLinear", ["sum", "s", "z"], ["y"], "d"),
        ],
        "net",
        info[:1],
        info[1:],
        [
            helper.make_tensor("s", TensorProto.FLOAT, [], [0.05]),
            helper.make_tensor("z", TensorProto.UINT8, [], [128]),
        ],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "net.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    )
    summary = succeeds("plan", path, *NPU, "--json").json
    assert summary["verified"]["max_rel_error"] == 0.0


def test_operators_as_written_decide(
    succeeds: Any, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where onnxruntime's fusions round elsewhere, its optimiser is switched off, and that said."""
    true, off = proof.reference, 0.01

    def rounded(*given: Any, optimise: bool = True) -> Mapping[str, Array]:
        found = true(*given, optimise=optimise)
        return {k: v + off * np.abs(v).max() for k, v in found.items()} if optimise else found

    monkeypatch.setattr(proof, "reference", rounded)
    folder = tmp_path / "run"
    arguments = ("plan", "four_convs@16x16", "--on", "mcu", "--layer-by-layer")
    assert "operators as written" in succeeds(*arguments, "--out", folder).out
    summary = json.loads((folder / "summary.json").read_text())
    assert "as written" in summary["verified"]["reference"]
    assert "tasks executed" in succeeds("verify", folder).out

    def wrong(*given: Any, optimise: bool = True) -> Mapping[str, Array]:
        return {k: v + off * np.abs(v).max() for k, v in true(*given, optimise=optimise).items()}

    monkeypatch.setattr(proof, "reference", wrong)
    failed = command(*arguments, "--out", tmp_path / "other")
    assert failed.code == 3 and "differs by" in failed.out


def test_work_beyond_the_limits_has_no_engine_without_a_vector_engine() -> None:
    from dataclasses import replace

    from tilewright.cost.base import CostError, WorkKind, Workload
    from tilewright.cost.models import CostModels

    machine = load_machine("npu-2.7")
    long = Workload(WorkKind.CONV, "fp16", 16, 16, 20, 20, 32, 32, 13, 13)
    assert CostModels(machine).best(machine.cores[0], long)[0].kind == "vector"
    cores = tuple(
        replace(core, engines=tuple(e for e in core.engines if e.kind == "matrix"))
        for core in machine.cores
    )
    bare = replace(machine, cores=cores)
    with pytest.raises(CostError, match="kernel 13 is beyond 11"):
        CostModels(bare).best(bare.cores[0], long)


def test_a_shape_that_contradicts_the_file(refused: Any, succeeds: Any, tmp_path: Path) -> None:
    b = GraphBuilder()
    b.add("Conv", b.input(1, 3, 20, 20, name="x"), b.weight(8, 3, 3, 3), name="y")
    model = written(b.graph(), tmp_path)
    complaint = refused("plan", model, *NPU, "--shape", "x=1,4,20,20")
    assert "shape x=1,4,20,20 contradicts" in complaint and "[1,3,20,20]" in complaint
    succeeds("plan", model, *NPU, "--shape", "x=1,3,16,24", "--json")  # one that does not
