"""`tilewright check`: all faults of a file, each with its line and key."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.machine import list_machines

ROOT = Path(__file__).parents[2]
BROKEN = """\
title: Broken
clock: 0 MHz
dtype: int8
source: mine
cores:
  core:
    memories:
      sram: {capacity: lots}
    engines:
      array:
        kind: matrix
        model: array
        parameters:
          modes: {plain: {unroll: {width: 0}}}
          rates: {int8: {conv: {overhead: .nan}}}
      simd:
        kind: vector
        model: vector
        parameters:
          rates:
            sofmax: {per_element: 1}
memories:
  dram: {capacity: 1 GiB, colour: red}
links:
  dma:
    kind: tube
    routes:
      dram: {from: dram, to: core.sram, latency: 1 ns, bandwidth: 1 GB/s}
      back: {from: core.sram, to: drum, latency: 1 ns, bandwidth: 1 GB/s}
"""
EXPECTED = {
    2: "clock",
    8: "cores.core.memories.sram.capacity",
    14: "cores.core.engines.array.parameters.modes.plain.unroll.width",
    15: "cores.core.engines.array.parameters.rates.int8.conv.overhead",
    21: "cores.core.engines.simd.parameters.rates.sofmax",
    23: "memories.dram.colour",
    26: "links.dma.kind",
    29: "links.dma.routes.back",
}
PLAN = """\
model: resnet18
machine: npu-2.7
dtype: fp16
groups:
- nodes: [conv1]
  splits: [{axis: 2, parts: 4}]
"""


def test_all_faults_of_a_machine_file_at_once(command, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(BROKEN)
    outcome = command("check", path, "--json")
    (result,) = outcome.json["files"]
    assert outcome.code == 2 and result["kind"] == "machine" and not result["ok"]
    assert {fault["line"]: fault["key"] for fault in result["faults"]} == EXPECTED
    shown = command("check", path)
    assert shown.code == 2 and shown.err == ""
    for line, key in EXPECTED.items():
        assert f"{path}:{line}: {key}: " in shown.out
    assert "no such operator class: known are softmax" in shown.out
    assert "names no pair of memories: to: did you mean 'dram'?" in shown.out
    assert f"{path}: machine, 8 faults" in shown.out


def test_faults_between_keys_come_at_once_too(command, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(
        "extends: three-core-bus\n"
        "links:\n"
        "  bus: {clock: 900 GHz, routes: {cores: {to: moon}}}\n"
        "  offchip:\n"
        "    routes:\n"
        "      dram: {bandwidth: 1 B/s, groups: [noc]}\n"
    )
    result = command("check", path, "--json").json["files"][0]
    found = [(fault["line"], fault["key"]) for fault in result["faults"]]
    assert found == [
        (3, "links.bus.clock"),
        (3, "links.bus.routes.cores"),
        (6, "links.offchip.routes.dram.bandwidth"),
        (6, "links.offchip.routes.dram.groups"),
    ]


def test_a_fault_of_a_plan_command_points_to_check(refused, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(BROKEN)
    line = refused("plan", "four_convs@12x12", "--on", path, "--layer-by-layer")
    assert line.startswith(f"{path}:2: clock: ")
    assert line.endswith(f"(and 7 more: tilewright check {path})")


def test_plans_and_patterns(command, succeeds, tmp_path: Path) -> None:
    plan, patterns = tmp_path / "plan.yaml", ROOT / "examples" / "patterns" / "attention.yaml"
    plan.write_text(PLAN)
    shown = succeeds("check", plan, patterns, ROOT / "examples" / "machines" / "3-l2.yaml").out
    assert f"{plan}: plan, no faults: 1 group of resnet18 for npu-2.7" in shown
    assert f"{patterns}: patterns, no faults" in shown
    assert "machine, no faults: My machine, two cores behind an L2" in shown
    plan.write_text(PLAN.replace("parts: 4", "parts: 0"))
    wrong = command("check", plan, patterns)
    assert wrong.code == 2 and f"{plan}:6: groups[0].splits[0].parts: has to be a" in wrong.out
    plan.write_text("- {name: x, operators: [Conv, Rilu], action: fuse}\n")
    assert "there is no operator 'Rilu'" in command("check", plan).out


@pytest.mark.parametrize("text", [None, "", "a: [", "3", "\x00"])
def test_what_is_no_such_file_is_said(command, tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "none.yaml"
    if text is not None:
        path.write_text(text)
    outcome = command("check", path)
    assert outcome.code == 2 and outcome.err == "" and str(path) in outcome.out


UNKNOWN = {
    "a.yaml": ("hello: [", r"is text, and no YAML \(line 1: .*\)"),
    "b.yaml": ("colour: red\nsize: 3\n", "is YAML with the keys colour, size"),
    "c.json": ('{"a": 1}', "is JSON with the keys a"),
    "d.txt": ("only words", "is text without keys"),
    "e.yaml": ("", "is empty"),
    "f.yaml": ("[1, 2]", "is JSON that is a list"),
    "g.onnx": ("\x08\x07", "is an ONNX model .*show model"),
    "h.bin": ("\x08\x07", "is binary, maybe an ONNX model"),
    "i.py": ("x = 1", "is Python"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_of_no_known_kind_is_not_called_a_machine(
    command, tmp_path: Path, name: str
) -> None:
    content, told = UNKNOWN[name]
    file = tmp_path / name
    file.write_text(content)
    outcome = command("check", file)
    assert outcome.code == 2 and not outcome.err
    first, last = outcome.out.splitlines()
    assert re.search(f"{name}: {told}.*: no kind of file that can be checked; known are", first)
    assert all(kind in first for kind in ("machine (cores, ", "plan (model", "space (axes)"))
    assert last == f"{file}: 1 fault"
    assert command("check", file, "--json").json["files"][0]["kind"] == "unknown"


def test_a_broken_file_is_taken_for_what_its_keys_say(command, tmp_path: Path) -> None:
    keys = {"machine": "cores", "plan": "groups:\n- nodes: [a]\nmodel", "space": "axes"}
    for kind, key in keys.items():
        file = tmp_path / f"{kind}.yaml"
        file.write_text(f"name: x\n{key}: [\n")
        assert command("check", file).out.splitlines()[-1] == f"{file}: {kind}, 1 fault"
    folder = command("check", tmp_path).out
    assert "is a folder (tilewright verify FOLDER" in folder


def test_keys_and_schema_are_shown(succeeds) -> None:
    assert "| `read_pj_per_byte` |" in succeeds("show", "keys").out
    schema = json.loads(succeeds("show", "schema").out)
    assert "MachineFile" in schema["$defs"]
    assert all(name in succeeds("show", "machines").out for name in list_machines())


@pytest.mark.parametrize(
    "name", ["1-minimal", "2-second-core", "6-energy", "7-roles", "8-depthwise", "9-output-stage"]
)
def test_the_machines_of_the_page_run(succeeds, name: str) -> None:
    file = ROOT / "examples" / "machines" / f"{name}.yaml"
    planned = succeeds("plan", "four_convs@16x16", "--on", file, "--layer-by-layer", "--json").json
    assert planned["verified"]["tasks_executed"] > 0
    assert (planned["energy_pj"] is not None) == (name[0] in "67")
    shown = succeeds("plan", "four_convs@16x16", "--on", file, "--layer-by-layer", "--no-verify")
    assert ("not counted: the machine has no figures" in shown.out) == (name[0] in "1289")


SPACE = """\
name: two
fixed: {machine: npu-2.7, effort: layers}
axes:
  model: [four_convs@16x16]
  pad: {field: machine.cores.cluster.memories.cmx.usable, values: [64 KiB, 128 KiB]}
define: {cost: pad / KiB}
require: [pad > 1]
"""


def test_spaces_nests_and_processors(succeeds, tmp_path: Path) -> None:
    space, nest = tmp_path / "space.yaml", tmp_path / "nest.yaml"
    space.write_text(SPACE)
    nest.write_text("nest: mine\nloops: [image, out, block, row, in, fh, fw]\n")
    processor = ROOT / "src" / "tilewright" / "processor" / "targets" / "a100.yaml"
    shown = succeeds("check", space, nest, processor, ROOT / "examples/sweeps/edge.yaml").out
    assert f"{space}: space, no faults: two: 2 axes, 2 points before 'require'" in shown
    assert f"{nest}: nest, no faults: mine: image > out > block" in shown
    assert f"{processor}: processor, no faults: NVIDIA A100" in shown
    assert "edge.yaml: space, no faults: edge NPU: 6 axes, 48 points" in shown


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("layers", "fastest", ":2: fixed.effort: 'fastest' has to be one of"),
        ("define", "defin", ":6: defin: no such key: did you mean 'define'?"),
        ("[64 KiB, 128 KiB]", "[]", ":5: axes.pad.values: needs"),
        ("64 KiB", "1 QiB", "cmx.usable: has to be a number of bytes"),
        ("pad / KiB", "pad / 0", "'pad / 0' divides by zero"),
        ("pad > 1", "pad < 1", ":7: require: no point meets all of it"),
        ("four_convs@16x16", "os:getcwd", "a space runs no code"),
    ],
)
def test_a_fault_of_a_space(command, tmp_path: Path, old: str, new: str, told: str) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(SPACE.replace(old, new))
    found = command("check", path)
    assert found.code == 2 and told in found.out, found.out


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("title:", "titel:", "titel: no such key: did you mean 'title'?"),
        ("sram: {capacity", "sram: {capcity", "capcity: no such key: did you mean 'capacity'?"),
        ("mac: {per_element", "mac: {per_elem", "no such key: did you mean 'per_element'?"),
        ("both_ways", "bothways", "dram.bothways: no such key: did you mean 'both_ways'?"),
        ("latency:", "colour: red, latency:", "dram.colour: no such key"),
    ],
)  # fmt: skip
def test_a_misspelt_key_is_told_its_right_name(
    command, tmp_path: Path, old: str, new: str, told: str
) -> None:
    text = (ROOT / "examples" / "machines" / "1-minimal.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(old, new, 1))
    done = command("check", path)
    assert done.code == 2
    assert any(line.endswith(told) for line in done.out.splitlines()), done.out


def test_files_of_stream_are_checked_as_what_they_are(command, succeeds, tmp_path: Path) -> None:
    folder = ROOT / "examples" / "manycore"
    files = [*sorted(folder.glob("*.yaml")), *sorted((folder / "cores").glob("*.yaml"))]
    out = succeeds("check", *files).out
    for told in ("three_cores.yaml: accelerator of Stream, no faults: three_cores: 3 cores",
                 "newer.yaml: mapping of Stream, no faults: 1 entry, 1 fused group",
                 "channels.yaml: core of Stream, no faults: channels: 256 units"):  # fmt: skip
        assert told in out
    path = tmp_path / "mapping.yaml"
    path.write_text("- {name: Conv, core_allocation: [one]}\n")
    done = command("check", path)
    assert done.code == 2 and "core_allocation: has to be numbers of cores" in done.out


WRONG_PLAN = """\
model: resnet18
machine: 3
dtype: fp17
group: []
images: 0
groups:
- nodes: [conv1]
  splits: [{axis: -1, parts: 0, halo: kept}, {axes: 2, axis: 2, parts: 2}]
  core_split: 4
- {nodes: [], place: moon, cores: cluster0}
- conv2
resident: conv1
reloaded: {conv1: conv2}
"""
WRONG_PATTERNS = """\
- {name: 3, operators: [Conv], action: fuse}
- {name: b, operators: [(Conv), Rilu], action: join, also: x}
- conv
"""
WRONG_SPACE = """\
fixed: {machine: npu-2.7, effort: fastest, colour: red}
axes:
  model: []
  pad: {field: machine.cores.cluster.memories.cmx.usable, value: [64 KiB]}
define: {cost: 3 +}
require: [pad >]
front: latency_ms
under_ms: soon
"""
ALL_AT_ONCE = {
    WRONG_PLAN: [
        (2, "machine"),
        (3, "dtype"),
        (4, "group"),
        (5, "images"),
        (8, "groups[0].splits[0].axis"),
        (8, "groups[0].splits[0].parts"),
        (8, "groups[0].splits[0].halo"),
        (8, "groups[0].splits[1].axes"),
        (9, "groups[0].core_split"),
        (10, "groups[1].nodes"),
        (10, "groups[1].place"),
        (10, "groups[1].cores"),
        (11, "groups[2]"),
        (12, "resident"),
        (13, "reloaded.conv1"),
    ],
    WRONG_PATTERNS: [
        (1, "[0].name"),
        (1, "[0].operators"),
        (2, "[1].also"),
        (2, "[1].action"),
        (2, "[1].operators[1]"),
        (2, "[1].operators"),
        (3, "[2]"),
    ],
    WRONG_SPACE: [
        (1, "fixed.effort"),
        (1, "fixed.colour"),
        (3, "axes.model.values"),
        (4, "axes.pad.value"),
        (5, "define.cost"),
        (6, "require[0]"),
        (7, "front"),
        (8, "under_ms"),
    ],
}


@pytest.mark.parametrize(("text", "expected"), ALL_AT_ONCE.items(), ids=("plan", "list", "space"))
def test_all_faults_of_other_files_at_once(
    command, tmp_path: Path, text: str, expected: list[tuple[int, str]]
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    found = command("check", path, "--json").json["files"][0]["faults"]
    assert [(fault["line"], fault["key"]) for fault in found] == expected


def test_a_plan_is_checked_for_its_network_all_faults_with_their_lines(command, tmp_path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(
        "model: four_convs\nmachine: mcu\ndtype: int8\n"
        "groups:\n"
        "- nodes: [conv1]\n"
        "- nodes: [conv2, conv9]\n"
        "- nodes: [conv4]\n"
        "- {nodes: [conv3], cores: [none, core, core],\n"
        "  splits: [{axis: 7, parts: 2}]}\n"
        "resident: [nothing, conv1, conv1]\n"
    )
    alone = command("check", path)
    assert alone.code == 0 and "not checked: nodes, tensors, cuts and room" in alone.out
    outcome = command("check", path, "--model", "four_convs@16x16", "--json")
    (result,) = outcome.json["files"]
    assert outcome.code == 2
    assert [(fault["line"], fault["text"]) for fault in result["faults"]] == [
        (6, "groups[1] names 'conv9': no such node"),
        (8, "groups[3] ('conv3') names core 'none': there are core"),
        (8, "groups[3] ('conv3') names core 'core' twice"),
        (7, "groups[2] ('conv4') needs 'conv3', which groups[3] ('conv3') makes only later"),
        (8, "groups[3] ('conv3'): output 'conv3' has no axis 7"),
        (10, "'nothing' cannot be resident: no node makes a tensor of this name"),
        (10, "'conv1' cannot be resident: it is named twice"),
    ]
    planned = command("plan", "four_convs@16x16", "--on", "mcu", "--plan", path)
    assert f"{path}:6: groups[1] names" in planned.err and "--model MODEL)" in planned.err
    text = path.read_text().replace(", conv9", "").replace(", cores: [none, core, core]", "")
    path.write_text(text.replace("axis: 7", "axis: 2"))
    lines = path.read_text().splitlines()[:-1]
    path.write_text("\n".join([*lines[:6], *lines[7:], lines[6]]))
    sound = command("check", path, "--model", "four_convs@16x16")
    assert sound.code == 0 and "not checked" not in sound.out


MINIMAL = (ROOT / "examples" / "machines" / "1-minimal.yaml").read_text()


def test_what_a_machine_file_may_have_meant(command, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINIMAL.replace("\n  core:\n", "\n  core:\n    count: 2\n"))
    assert "count 2 makes cores core0, core1, ...: write 'core*." in command("check", path).out
    path.write_text(MINIMAL.replace("to: core.", "to: croe."))
    assert "did you mean 'core." in command("check", path).out
    path.write_text(MINIMAL.replace("kind: vector", "kind: matrix"))
    assert "a matrix engine takes array or table" in command("check", path).out


def test_energy_without_figures_is_no_estimate(command, tmp_path: Path) -> None:
    shown = command("show", "machines", ROOT / "examples" / "machines" / "1-minimal.yaml").out
    assert "energy not counted" in shown and "estimate" not in shown


def test_a_plan_finds_its_machine_beside_it_and_in_its_run(
    command, succeeds, tmp_path: Path
) -> None:
    """Wherever the command is run."""
    machine, run = tmp_path / "mine.yaml", tmp_path / "run"
    machine.write_text("extends: mcu\ntitle: Mine\n")
    succeeds("plan", "four_convs@16x16", "--on", machine, "--layer-by-layer", "--out", run)
    asked = ("--model", "four_convs@16x16")
    assert "no faults: 4 groups" in succeeds("check", run / "plan.yaml", *asked).out
    plan = tmp_path / "plan.yaml"
    plan.write_text((run / "plan.yaml").read_text())
    assert "for mine" in succeeds("check", plan, *asked).out
    machine.unlink()
    found = command("check", plan, *asked)
    assert found.code == 2 and "plan.yaml:2: machine: 'mine' is none that is shipped" in found.out
    assert "--on" in found.out


def test_a_list_of_no_cores_is_refused(command, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("model: net\nmachine: mcu\ndtype: int8\ngroups:\n- nodes: [a]\n  cores: []\n")
    found = command("check", plan)
    assert found.code == 2
    assert "plan.yaml:6: groups[0].cores: names no core: leave it out for all" in found.out


NET = "model: four_convs\nmachine: eight-core-l2\ndtype: int8\n"
GROUPS = "groups:\n- nodes: [conv1]\n- nodes: [conv2]\n- nodes: [conv3]\n- nodes: [conv4]\n"


@pytest.mark.parametrize(
    ("text", "told"),
    {
        "reloaded: {nothing: [conv2]}": [(9, "'nothing' cannot be reloaded: no node makes it")],
        "reloaded: {conv1: []}": [(9, "'conv1' cannot be reloaded: it is not resident")],
        "resident: [conv1]\nreloaded:\n  conv1: [conv2, conv4, nobody]": [
            (11, "'conv4' cannot reload 'conv1': it does not read it"),
            (11, "'nobody' cannot reload 'conv1': there is no such node"),
        ],
        "shared: {l9: [conv1], l2: [conv4]}": [
            (
                9,
                "'l9' is no memory: of memories that all cores of eight-core-l2 share, "
                "there are l2",
            ),
            (9, "'conv4' cannot lie in l2: it is a result of the network"),
        ],
        "shared: {dram: [conv1]}": [
            (9, "'dram' is the main memory: leave its tensors out, they pass through it anyway")
        ],
        "memory_limit: 100": [
            (
                9,
                "a memory limit of 100 B is too small for this plan: 'input' takes 768 B of "
                "core0.sram, 100 B are there: cut its group into more tiles",
            )
        ],
    }.items(),
)
def test_what_a_plan_says_of_tensors_and_memories_is_told_with_its_line(
    command, tmp_path: Path, text: str, told: list[tuple[int, str]]
) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(f"{NET}{GROUPS}{text}\n")
    found = command("check", path, "--model", "four_convs@16x16", "--json").json["files"][0]
    assert [(fault["line"], fault["text"]) for fault in found["faults"]] == told


def test_a_missing_node_is_told_before_what_follows_from_it(command, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(f"{NET}{GROUPS}resident: [nothing]\n".replace("- nodes: [conv3]\n", ""))
    found = command("check", path, "--model", "four_convs@16x16", "--json").json["files"][0]
    assert [(fault["line"], fault["text"]) for fault in found["faults"]] == [
        (4, "no group has node 'conv3'"),
        (8, "'nothing' cannot be resident: no node makes a tensor of this name"),
    ]


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_what_comes_through_a_pipe_is_checked(name: str) -> None:
    def told(text: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "tilewright", "check", name]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        return done.returncode, done.stdout

    code, out = told("extends: mcu\n")
    assert code == 0 and out.startswith(f"{name}: machine, no faults: ")
    code, out = told("extends: mcu\nclock: fast\n")
    assert code == 2 and out.startswith(f"{name}:2: clock: has to be a frequency")
