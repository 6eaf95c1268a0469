"""`tilewright partition` as people and programs call it."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

Command = Callable[..., Any]
SHARED = Path(__file__).parents[3] / "shared" / "data" / "models"


@pytest.mark.quick
def test_json_has_every_figure(succeeds: Command) -> None:
    found = succeeds("partition", "resnet18", "--on", "h100-sxm", "--json").json
    assert (found["operators"], found["kernels"]) == (69, 32)
    assert found["bytes_op_by_op"] == found["bytes_fused"] + 2 * found["bytes_internal"]
    assert round(found["saved_ratio"], 3) == 0.328
    assert found["patterns"] == {"Conv+BN": 11, "Conv+BN+ReLU": 9, "Add+ReLU": 8, "single": 4}
    assert set(found["pattern_saved_ratio"]) == set(found["patterns"])
    kernels = found["kernel_list"]
    assert sum(k["macs"] for k in kernels) == found["macs"] == found["flops_matmul"] // 2
    assert sum(k["flops"] for k in kernels) == found["flops_matmul"]
    assert sum(k["flops_total"] for k in kernels) == found["flops_total"]
    assert sum(k["bytes_external"] for k in kernels) == found["bytes_fused"]
    assert sum(k["bytes_internal"] for k in kernels) == found["bytes_internal"]
    assert sum(k["flops_share"] for k in kernels) == pytest.approx(1.0)
    assert sum(len(k["operators"]) for k in kernels) == 69
    assert {s["operator"] for s in found["singles"]} == {"maxpool", "avgpool", "flatten", "fc"}
    assert all(s["reason"] for s in found["singles"])
    assert found["launches"] == {"before": 68, "after": 31}
    assert {k["bottleneck"] for k in kernels} <= {"compute", "hbm", "l2", "shared", "nothing"}
    after = found["mapping"]["after"]
    assert after["seconds"] == pytest.approx(sum(k["mapping"]["seconds"] for k in kernels))
    assert found["critical_path"][0] == "conv1" and found["parallel_width"] == 2


def test_table_says_what_matters(succeeds: Command) -> None:
    said = succeeds("partition", "mobilenet_v2", "--on", "kpu-t64").out
    assert "152 operators -> 65 kernels" in said
    assert "0.6015 G in products" in said and "0.6413 G with norms" in said
    assert "172.94 MB op by op -> 70.67 MB fused (59.1% saved)" in said
    assert "single (its result has 2 readers)" in said
    assert "scheduling operations" in said and "DRAM accesses" in said


def test_small_networks_are_told_in_small_units(succeeds: Command) -> None:
    said = succeeds("partition", "four_convs@8x8").out
    assert "kFLOP" in said and "0.2488 M in products" in said and "22.88 kB op by op" in said
    assert "Add+ReLU 8 (40% saved)" in succeeds("partition", "resnet18").out


def test_options_that_would_say_nothing_are_refused(refused: Command) -> None:
    assert "goes with --on" in refused("partition", "resnet18", "--dtype", "int8")
    assert "one graph alone" in refused("partition", "resnet18", "--graph", "aten")


def test_what_cannot_be_counted_is_said(
    succeeds: Command, refused: Command, tmp_path: Path
) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 4])
    y = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    path = tmp_path / "net.onnx"
    found = helper.make_node("NonZero", ["x"], ["y"], name="where")
    onnx.save(helper.make_model(helper.make_graph([found], "net", [x], [y])), path)
    assert "not counted: what where gives" in succeeds("partition", path).out
    assert json.loads(succeeds("partition", path, "--json").out)["uncounted"] == ["where"]
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 3, 7, 7], [0.0] * 588)
    conv = helper.make_node("Conv", ["x", "w"], ["y"], name="large")
    z = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    onnx.save(helper.make_model(helper.make_graph([conv], "net", [x], [z], [weights])), path)
    assert "'large' (Conv) is not valid: its kernel is larger" in refused("partition", path)


def test_files(succeeds: Command, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    succeeds("partition", "resnet18@64x64", "--level", "block", "--on", "tpu-v4", "--out", folder)
    names = {path.name for path in folder.iterdir()}
    assert names == {f"partition.{end}" for end in ("html", "json", "csv", "mmd", "dot")}
    found = json.loads((folder / "partition.json").read_text())
    with (folder / "partition.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == found["kernels"] == 13
    assert sum(int(row["macs"]) for row in rows) == found["macs"]
    mermaid = (folder / "partition.mmd").read_text()
    assert mermaid.startswith("flowchart TD") and mermaid.count("-->") == 12
    dot = (folder / "partition.dot").read_text()
    assert dot.count(" -> ") == 12 and dot.rstrip().endswith("}")
    assert dot.count("fillcolor") == 13


def test_capacity_says_which_tile_and_how_much_halo(succeeds: Command) -> None:
    arguments = ("partition", "four_convs", "--level", "capacity", "--on", "kpu-t64", "--json")
    found = succeeds(*arguments).json
    for kernel in found["kernel_list"]:
        tiling = kernel["tiling"]
        assert tiling["working_set_bytes"] <= 256 * 1024
        assert tiling["halo_ratio"] >= 0.0 and tiling["tile_shape"]


@pytest.mark.peer
@pytest.mark.parametrize(
    ("name", "nodes", "kernels"), [("resnet18", 49, 32), ("mobilenet_v2", 100, 65)]
)
def test_exports_with_folded_norms(succeeds: Command, name: str, nodes: int, kernels: int) -> None:
    path = SHARED / f"{name}.onnx"
    if not path.exists():
        pytest.skip("the exported networks are not here")
    found = succeeds("partition", path, "--json").json
    plain = succeeds("partition", name, "--json").json
    assert (found["operators"], found["kernels"]) == (nodes, kernels)
    assert found["flops_matmul"] == plain["flops_matmul"]
    # Kernels move the same bytes, but for the parameters of norms that became biases.
    norms = plain["bytes_parameters"] - found["bytes_parameters"]
    assert 0 < norms == plain["bytes_fused"] - found["bytes_fused"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("resnet18", "--level", "capacity"), "needs a machine"),
        (("resnet18", "--on", "h200"), "no machine 'h200': give one of a100, h100-sxm"),
        (("resnet18", "--level", "whole"), "--level"),
        (("no_such_net",), "there is no file"),
        (("no.such.module:build",), "cannot be imported"),
        (("absent.py:build",), "there is no file 'absent.py'"),
    ],
)
def test_mistakes(refused: Callable[..., str], arguments: tuple[str, ...], words: str) -> None:
    assert words in refused("partition", *arguments)


def test_out_that_is_a_file(refused: Callable[..., str], tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("here")
    assert "not a folder" in refused("partition", "four_convs", "--out", taken)


def test_help_teaches(succeeds: Command) -> None:
    said = succeeds("partition", "--help").out
    for word in ("pattern", "block", "capacity", "h100-sxm", "package.module:build", "--dtype"):
        assert word in said


def test_bytes_are_told_in_the_type_that_times_are_for(succeeds: Command) -> None:
    """A float network on a machine that computes with int8: a quarter of the bytes, and said so."""
    shown = succeeds("partition", "four_convs@64x64", "--on", "mcu").out
    assert "in int8" in shown.splitlines()[1] and "bytes above are of the network's own" in shown
    own = succeeds("partition", "four_convs@64x64").out
    assert "in int8" not in own and "network's own types" not in own
