"""A plan edited by hand: what has no effect is said, what is wrong has its line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.builder import GraphBuilder
from tilewright.frontend.save import save_onnx
from tilewright.runs.saved import reseal

Refused = Callable[..., str]
NETWORK = ("four_convs@12x12", "--on", "npu-2.7", "--no-verify")
PLAN = """\
model: four_convs
machine: npu-2.7
dtype: fp16
groups:
- nodes: [conv1]
- nodes: [conv2]
- nodes: [conv3]
- nodes: [conv4]
"""


def edited(folder: Path, old: str, new: str) -> Path:
    """The plan with an edit, as a file."""
    path = folder / "plan.yaml"
    path.write_text(PLAN.replace(old, new))
    return path


CACHED = "{axis: 2, parts: 2, halo: cache}, {axis: 3, parts: 2, halo: cache}"
WRONG = {
    "batched: [conv1]": ":4: batched: has no effect without `images`",
    "images: 2": ":4: no operator can be repeated for 2 images",
    "images: 2\nbatched: [fc]": ":5: there is no node 'fc' to stay batched",
}
WRONG_CONV2 = {
    "place: main\n  splits: [{axis: 2, parts: 2}]": ":8: groups[1].splits: has no effect with "
    "`place: main`, which runs on no core",
    "place: view": ":6: 'conv2' (Conv) cannot be a view: its result is no part of what it reads",
    f"splits: [{CACHED}]": ":6: groups[1] ('conv2') keeps its halo along two axes: one can",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_key_has_its_line(refused: Refused, tmp_path: Path, wrong: str) -> None:
    path = edited(tmp_path, "groups", f"{wrong}\ngroups")
    assert f"{path}{WRONG[wrong]}" in refused("plan", *NETWORK, "--plan", path)


@pytest.mark.parametrize("wrong", WRONG_CONV2)
def test_a_wrong_group_has_its_line(refused: Refused, tmp_path: Path, wrong: str) -> None:
    path = edited(tmp_path, "[conv2]", f"[conv2]\n  {wrong}")
    assert f"{path}{WRONG_CONV2[wrong]}" in refused("plan", *NETWORK, "--plan", path)


def test_rewrites_without_a_choice_are_noted(succeeds: Any, tmp_path: Path) -> None:
    path = edited(tmp_path, "groups", "rewrites: [conv2]\ngroups")
    told = succeeds("plan", *NETWORK, "--plan", path).err
    assert f"{path}:4: rewrites names 'conv2' to no effect: npu-2.7 has no other form of it" in told


def test_a_note_on_a_plan_has_its_line(succeeds: Any, tmp_path: Path) -> None:
    path = edited(tmp_path, "[conv1]\n- nodes: [conv2]", "[conv1, conv2]\nresident: [conv1]")
    text = path.read_text().replace("resident: [conv1]\n", "") + "resident: [conv1]\n"
    path.write_text(text)
    told = succeeds("plan", *NETWORK, "--plan", path).err
    assert f"{path}:8: 'conv1' is not kept as resident: only groups[0]" in told


def test_what_does_not_fit_names_the_tensors_of_the_network(
    refused: Refused, tmp_path: Path
) -> None:
    """`relu1` is divided along channels: each core holds all of `relu0`, spilled or not."""
    b = GraphBuilder()
    value = b.input(1, 16, 128, 128)
    for number in range(4):
        weights = b.weight(64, b.shape(value)[1], 3, 3)
        value = b.add("Conv", value, weights, name=f"conv{number}", pads=[1] * 4)
        value = b.add("Relu", value, name=f"relu{number}")
    model, path = tmp_path / "net.onnx", tmp_path / "plan.yaml"
    save_onnx(b.graph(), model)
    rows = "{axis: 2, parts: 8}"
    groups = [
        f"- {{nodes: [Conv_conv{n}, Relu_relu{n}], splits: [{cuts}], core_split: 0}}\n"
        for n, cuts in enumerate((rows, f"{{axis: 1, parts: 2}}, {rows}", rows, rows))
    ]
    head = "model: net\nmachine: npu-2.7\ndtype: fp16\nresident: [relu0, relu1, relu2]\ngroups:\n"
    path.write_text(head + "".join(groups))
    told = refused("plan", model, "--on", "npu-2.7", "--plan", path, "--no-verify")
    assert f"{path}:6: memory cluster0.cmx: 4.2 MB are needed" in told
    assert "between 'Conv_conv0' (tile 0) and 'Conv_conv2' (tile" in told
    assert "most of it 'relu0' 2.1 MB, 'relu1' 2.1 MB" in told
    assert "reload" not in told and "@" not in told


def test_verify_takes_the_plan_of_a_run_again(succeeds: Any, tmp_path: Path) -> None:
    run, plan = tmp_path / "run", tmp_path / "plan.yaml"
    plan.write_text(PLAN + "resident: [conv1]\n")
    succeeds("plan", *NETWORK, "--plan", plan, "--out", run)
    assert succeeds("verify", run).err == ""
    for path in (run / "plan.yaml", run / "run" / "plan.yaml"):
        path.write_text(path.read_text().replace("resident: [conv1]\n", ""))
    reseal(run)
    told = succeeds("verify", run).err
    assert "plan.yaml' gives" in told and "they are not one" in told


def test_a_tensor_that_is_shared_twice_or_in_vain_is_told(command, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    groups = "".join(f"- nodes: [conv{n}]\n" for n in (1, 2, 3, 4))
    head = f"model: four_convs\nmachine: eight-core-l2\ndtype: int8\ngroups:\n{groups}"
    plan.write_text(f"{head}shared:\n  l2: [conv1, conv2, conv1]\n")
    told = command("check", plan, "--model", "four_convs@16x16").out
    assert f"{plan}:10: 'conv1' cannot lie in l2: it lies in l2 by an earlier entry" in told
    plan.write_text(f"{head}resident: [conv1]\nshared:\n  l2: [conv1, conv2]\n")
    told = command("plan", "four_convs@16x16", "--on", "eight-core-l2", "--plan", plan).err
    assert f"{plan}:11: 'conv1' is in l2 to no effect: it is resident, and not reloaded" in told
    assert "'conv2' is in l2" not in told
