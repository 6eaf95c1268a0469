"""`tilewright plan` and `tilewright verify`, from files to files."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any, cast

import pytest

from support.builder import GraphBuilder
from support.golden import check_golden
from tilewright import api
from tilewright.frontend.save import save_onnx
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.program import store
from tilewright.runs.folder import write_run
from tilewright.runs.saved import FOLDER, MANIFEST, reseal

FILES = {
    "plan.yaml",
    "program.txt",
    "schedule.json",
    "report.html",
    "memory.png",
    "summary.json",
    FOLDER,
}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a small network on the MCU core."""
    folder = tmp_path_factory.mktemp("planned") / "run"
    planned = api.plan(
        api.load("four_convs@16x16"), load_machine("mcu"), layer_by_layer=True
    ).planned
    write_run(planned, folder)
    return folder


@pytest.fixture
def planned(original: Path, tmp_path: Path) -> Path:
    """A copy of it, to spoil."""
    return copytree(original, tmp_path / "run")


@pytest.mark.parametrize("machine", ["mcu", "npu-2.7"])
@pytest.mark.parametrize("model", ["four_convs", "rn50_stem", "fsrcnn@32x48"])
def test_plans_are_executed_and_verified(succeeds, tmp_path: Path, model: str, machine: str):
    folder = tmp_path / "new" / "run"
    arguments = ("plan", model, "--on", machine, "--layer-by-layer", "--out", folder, "--json")
    summary = succeeds(*arguments).json
    assert {path.name for path in folder.iterdir()} == FILES
    assert summary == json.loads((folder / "summary.json").read_text())
    assert summary["model"] == model
    assert summary["machine"] == machine
    assert summary["verified"]["max_rel_error"] <= 1e-4
    assert summary["verified"]["tasks_executed"] == summary["tasks"]
    assert 0 < summary["lower_bound_cycles"] <= summary["latency_cycles"]
    moved = summary["dram_read_bytes"] + summary["dram_write_bytes"]
    assert summary["compulsory_bytes"] <= moved
    assert all(0 <= e["utilisation"] <= 1 for e in summary["engines"].values())
    assert summary["spills"] == 0
    text = (folder / "program.txt").read_text()
    assert sum(line.startswith("t") for line in text.splitlines()) == summary["tasks"]
    check_trace(json.loads((folder / "schedule.json").read_text()), summary)
    assert "tasks executed" in succeeds("verify", folder).out


def check_trace(trace: dict[str, Any], summary: dict[str, Any]) -> None:
    """One event a task; on every track busy cycles add up to the summary's."""
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(events) == summary["tasks"]
    tracks = {
        event["tid"]: event["args"]["name"]
        for event in trace["traceEvents"]
        if event["name"] == "thread_name"
    }
    assert set(tracks.values()) == set(summary["engines"])
    busy = dict.fromkeys(tracks.values(), 0)
    for event in events:
        busy[tracks[event["tid"]]] += event["args"]["cycles"]
        assert {"task", "node", "tile", "reads", "writes"} <= set(event["args"])
    assert busy == {name: use["busy_cycles"] for name, use in summary["engines"].items()}
    ends = [event["args"]["start_cycle"] + event["args"]["cycles"] for event in events]
    assert max(ends) == summary["latency_cycles"]


def test_report_for_a_person(succeeds, tmp_path: Path) -> None:
    outcome = succeeds("plan", "four_convs@16x16", "--on", "mcu", "--layer-by-layer")
    for word in ("latency", "lower bound", "traffic", "core.array", "core.sram", "verified: "):
        assert word in outcome.out
    assert "seeded random" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_two_runs_are_byte_identical(succeeds, tmp_path: Path) -> None:
    for name in ("one", "two"):
        arguments = ("--on", "npu-2.7", "--layer-by-layer", "--out", tmp_path / name)
        succeeds("plan", "rn50_stem@64x64", *arguments)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_replaying_the_written_plan_gives_the_same_run(succeeds, planned: Path, tmp_path: Path):
    again = tmp_path / "again"
    plan = planned / "plan.yaml"
    succeeds("plan", "four_convs@16x16", "--on", "mcu", "--plan", plan, "--out", again)
    assert contents(again) == contents(planned)


def test_an_earlier_run_is_replaced_by_force_alone_and_other_files_stay(
    succeeds, refused, planned: Path
) -> None:
    (planned / "notes.txt").write_text("mine")
    before = contents(planned)
    command = ("plan", "four_convs@16x16", "--on", "mcu", "--layer-by-layer", "--out", planned)
    assert "force=True (--force) replaces it" in refused(*command)
    command = (*command, "--force")
    succeeds(*command)
    assert contents(planned) == before
    succeeds(*command, "--no-verify")
    assert (planned / "notes.txt").read_text() == "mine"
    assert not (planned / FOLDER / "expected.npz").exists()
    assert json.loads((planned / "summary.json").read_text())["verified"] is None
    assert "not executed" in succeeds("verify", planned).out


def test_a_model_with_weights_keeps_them_with_the_run(succeeds, tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    succeeds("shrink", "four_convs@16x16", "--memory", "100%", "-o", model)
    folder = tmp_path / "run"
    succeeds("plan", model, "--on", "mcu", "--layer-by-layer", "--out", folder)
    model.unlink()
    assert (folder / FOLDER / "weights.npz").is_file()
    assert "tasks executed" in succeeds("verify", folder).out


def test_every_pass_can_be_left_out(succeeds) -> None:
    shown = succeeds("show", "passes", "--json").json["passes"]
    passes = [row["name"] for row in shown if row["optional"]]
    assert [row["name"] for row in shown if not row["optional"]] == ["spilling"]
    switches = [f"--no-{name}" for name in passes]
    summary = succeeds(
        "plan", "rn50_stem@64x64", "--on", "npu-2.7", "--layer-by-layer", "--json", *switches
    ).json
    assert summary["verified"]["max_rel_error"] <= 1e-4


def test_other_element_types(succeeds) -> None:
    arguments = ("plan", "four_convs@16x16", "--on", "npu-2.7", "--layer-by-layer", "--json")
    narrow = succeeds(*arguments, "--dtype", "int8").json
    wide = succeeds(*arguments, "--dtype", "float16").json
    assert (narrow["dtype"], wide["dtype"]) == ("int8", "fp16")
    assert 2 * narrow["compulsory_bytes"] == wide["compulsory_bytes"]


# What `verify` has to notice.


def placed_of(folder: Path) -> Any:
    return json.loads((folder / FOLDER / "placed.json").read_text())


def field(document: Any, kind: str, name: str, value: Any) -> Any:
    """A field of a stored dataclass."""
    return value[kind][document["fields"][kind].index(name)]


def shift_address(document: Any) -> None:
    buffers = field(document, "Program", "buffers", program_of(document))
    memories = [field(document, "Buffer", "memory", buffer) for buffer in buffers]
    addresses = field(document, "Placed", "address", document["content"])
    local = [i for i, memory in enumerate(memories) if memory == "core.sram"]
    occupied = next(i for i in local if addresses[i] != addresses[local[0]])
    addresses[occupied] = addresses[local[0]]


def program_of(document: Any) -> Any:
    return field(document, "Placed", "program", document["content"])


def remove_edges(document: Any) -> None:
    for task in field(document, "Program", "tasks", program_of(document)):
        after = document["fields"]["Task"].index("after")
        if task["Task"][after]:
            task["Task"][after] = []
            return


def remove_scheduled_edges(document: Any) -> None:
    problem = field(document, "Placed", "problem", document["content"])
    names = document["fields"]["Problem"]
    starts = problem["Problem"][names.index("need_start")]["array"]
    needs = problem["Problem"][names.index("needs")]["array"]
    starts[2] = [0] * len(starts[2])
    needs[1], needs[2] = [0], []


def start_early(document: Any) -> None:
    schedule = field(document, "Placed", "schedule", document["content"])
    names = document["fields"]["Schedule"]
    for name in ("start", "end"):
        times = schedule["Schedule"][names.index(name)]["array"][2]
        times[-1] -= 1


def shrink_halo(document: Any) -> None:
    tasks = field(document, "Program", "tasks", program_of(document))
    view = field(document, "Task", "reads", tasks[0])[0]["View"]
    offset = document["fields"]["View"].index("offset")
    strides = view[document["fields"]["View"].index("strides")]
    view[offset] += strides[3]


def drop_task(document: Any) -> None:
    field(document, "Program", "tasks", program_of(document)).pop()


CORRUPTIONS = [
    shift_address,
    remove_edges,
    remove_scheduled_edges,
    start_early,
    shrink_halo,
    drop_task,
]


@pytest.mark.parametrize("corrupt", CORRUPTIONS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "resealed"])
def test_corrupted_programs_are_refused(
    refused, planned: Path, corrupt: Callable[[Any], None], sealed: bool
) -> None:
    document = placed_of(planned)
    corrupt(document)
    (planned / FOLDER / "placed.json").write_text(json.dumps(document))
    if sealed:  # by one who knows the digests: the validators and the execution still notice
        reseal(planned)
    complaint = refused("verify", planned)
    assert sealed != ("placed.json' is not as it was written" in complaint)


def test_any_changed_byte_is_noticed(refused, planned: Path, tmp_path: Path) -> None:
    for name, data in contents(planned).items():
        if name == "plan.yaml":  # people edit it: the next test
            continue
        broken = tmp_path / "broken"
        copytree(planned, broken, dirs_exist_ok=True)
        middle = len(data) // 2
        (broken / name).write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        assert name in refused("verify", broken)
        (broken / name).write_bytes(data)


@pytest.mark.parametrize("job", ["verify", "explain"])
def test_a_run_sealed_over_a_clock_that_is_none_is_refused(
    refused, planned: Path, job: str
) -> None:
    file = planned / "run" / "machine.json"
    machine = store.load(Machine, file)
    store.save(replace(machine, clock_hz=cast(float, "fast")), file)
    reseal(planned)
    assert "a clock of 'fast'" in refused(job, planned)


@pytest.mark.parametrize("job", ["verify", "explain"])
def test_an_edited_plan_is_no_fault_and_one_is_told_how_to_replay_it(
    succeeds, planned: Path, tmp_path: Path, job: str
) -> None:
    with (planned / "plan.yaml").open("a") as file:
        file.write("# mine\n")
    told = succeeds(job, planned, "--json").err
    assert "was edited since" in told
    command = told.split("tilewright ")[1].replace("NEW_DIR", str(tmp_path / "new")).split()
    succeeds(*command)


def test_the_way_to_replay_names_no_machine_that_only_a_file_knows(
    succeeds, tmp_path: Path
) -> None:
    machine, run = tmp_path / "mine.yaml", tmp_path / "run"
    machine.write_text("extends: mcu\nname: mine\n")
    command = ("plan", "four_convs@16x16", "--on", machine, "--layer-by-layer", "--out", run)
    succeeds(*command)
    with (run / "plan.yaml").open("a") as file:
        file.write("# mine\n")
    assert "--on MACHINE --plan" in succeeds("verify", run, "--json").err


def test_a_comparison_is_of_the_plans_that_ran(succeeds, planned: Path, tmp_path: Path) -> None:
    edited = tmp_path / "edited"
    copytree(planned, edited)
    text = (edited / "plan.yaml").read_text()
    (edited / "plan.yaml").write_text(text.replace("parts: ", "parts: 1"))
    assert (edited / "plan.yaml").read_text() != text
    shown = succeeds("compare", planned, edited).out
    assert "plan.yaml' was edited since" in " ".join(shown.split())
    assert succeeds("compare", planned, edited, "--json").json["compared"][0]["causes"] == []


def test_a_foreign_folder_is_never_written_into(refused, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    command = ("plan", "four_convs@16x16", "--on", "mcu", "--layer-by-layer", "--out", tmp_path)
    assert "not of a run" in refused(*command)
    assert "not of a run" in refused(*command, "--force")


def test_wrong_numbers_are_written_marked_and_told(
    command, wrong_numbers: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run whose execution gives other numbers is there to be looked at, and says so in every
    file; nothing passes for verified."""
    folder = tmp_path / "wrong"
    csv = tmp_path / "layers.csv"
    base = ("plan", "four_convs@16x16", "--on", "mcu", "--layer-by-layer")
    outcome = command(*base, "--out", folder, "--csv", csv)
    assert outcome.code == 3
    assert "UNVERIFIED: output 'conv4' differs" in outcome.out
    assert (
        "at [0, 3, 5, 7]" in outcome.err and "likely cause: a fault of the program" in outcome.err
    )
    assert outcome.out.splitlines()[0].endswith("UNVERIFIED")
    for name in ("report.html", "plan.yaml", "program.txt", "schedule.json"):
        assert "UNVERIFIED" in (folder / name).read_text(), name
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["verified"] is None
    assert summary["failure"]["tensor"] == "conv4" and summary["failure"]["place"] == [0, 3, 5, 7]
    wrong_numbers.undo()
    again = command("verify", folder)
    assert again.code == 3 and "UNVERIFIED" in again.out
    replayed = command(*base[:4], "--plan", folder / "plan.yaml")
    assert replayed.code == 0, replayed.err


def test_energy_is_no_objective_where_nothing_is_known_of_it(refused, tmp_path: Path) -> None:
    silent = tmp_path / "silent.yaml"
    none = "{read_pj_per_byte: null, write_pj_per_byte: null}"
    silent.write_text(
        f"extends: mcu\nenergy: null\nmemories: {{external: {none}}}\n"
        f"cores: {{core: {{memories: {{sram: {none}}}}}}}\n"
    )
    base = ("plan", "four_convs@16x16", "--on", silent, "--objective")
    for name in ("energy", "edp"):
        assert "no energy figures" in refused(*base, name)


def test_a_main_memory_that_is_too_small_is_refused_at_once(refused, tmp_path: Path) -> None:
    tiny = tmp_path / "tiny.yaml"
    tiny.write_text("extends: mcu\nmemories: {external: {capacity: 1 KiB}}\n")
    told = refused("plan", "four_convs@16x16", "--on", tiny)
    assert "memory external: inputs and outputs of the network take" in told


@pytest.mark.parametrize("name", ["placed.json", "machine.json", "expected.npz", MANIFEST])
def test_missing_files_are_named(refused, planned: Path, name: str) -> None:
    (planned / FOLDER / name).unlink()
    assert name in refused("verify", planned)


def test_a_folder_that_is_no_run(refused, tmp_path: Path) -> None:
    assert "is no run" in refused("verify", tmp_path)


# Mistakes of the user: one line, nothing written.

BASE = ("four_convs@16x16", "--on", "mcu")
TWO_CACHED = "[{axis: 1, parts: 2, halo: cache}, {axis: 2, parts: 2, halo: cache}]"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("four_convs", "--on", "abacus", "--layer-by-layer"), "no machine 'abacus'"),
        (("nonet", "--on", "mcu", "--layer-by-layer"), "there is no file 'nonet'"),
        ((*BASE, "--layer-by-layer", "--dtype", "int3"), "elements of type 'int3'"),
        ((*BASE, "--layer-by-layer", "--print-after", "magic"), "there is no pass 'magic'"),
        (
            (*BASE, "--layer-by-layer", "--print-after", "prefetch", "--no-prefetch"),
            "nothing to print",
        ),
        ((*BASE, "--plan", "nowhere.yaml"), "nowhere.yaml: cannot be read"),
        (("four_convs", "--layer-by-layer"), "--on"),
    ],
)
def test_mistakes(refused, tmp_path: Path, arguments: tuple[str, ...], complaint: str) -> None:
    assert complaint in refused("plan", *arguments, "--out", tmp_path / "run")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("conv2]", "conv9]", "names 'conv9': no such node"),
        ("conv2]", "conv1]", "'conv1' is in groups[0] and [1]"),
        ("conv4]", "conv3]", "'conv3' is in groups[2]"),
        ("groups:", "gruppen:", "gruppen: no such key"),
        ("parts:", "teile:", ".teile: no such key"),
        ("halo: recompute", "halo: magic", "halo: is recompute or cache"),
        ("dtype: int8", "dtype: int3", "elements of type 'int3'"),
        ("axis: 2", "axis: 9", "groups[0] ('conv1'): output 'conv1' has no axis 9"),
        (
            "[{axis: 1",
            "[{axis: 1, parts: 2}, {axis: 1",
            "groups[2] ('conv3'): an axis is cut twice",
        ),
        ("parts: 2", "parts: 99", "groups[0] ('conv1'): axis 2 of 'conv1' has 16 positions"),
        (
            "[{axis: 2, parts: 2, halo: recompute}]",
            TWO_CACHED,
            "('conv1') keeps its halo along two",
        ),
        ("[conv1]", "[conv2]", "'conv2' is in groups[0] and [1]"),
        ("model: four_convs\n", "", "model: is missing"),
        ("model: four_convs", "model: 7", "model: has to be text"),
        ("groups:", "groups: [", ":5: not YAML: did not find expected node content"),
        ("groups:", "resident: [input]\ngroups:", "'input' cannot be resident: it is an input"),
        ("groups:", "resident: [conv1.weight]\ngroups:", "cannot be resident: it is a constant"),
        ("groups:", "resident: [conv9]\ngroups:", "cannot be resident: no node makes a tensor"),
        ("groups:", "resident: [conv4]\ngroups:", "'conv4' cannot be resident: nothing reads it"),
    ],
)
def test_wrong_plans(refused, tmp_path: Path, old: str, new: str, complaint: str) -> None:
    path = tmp_path / "plan.yaml"
    assert old in HAND_WRITTEN
    path.write_text(HAND_WRITTEN.replace(old, new, 1))
    line = refused("plan", *BASE, "--plan", path, "--out", tmp_path / "run")
    assert complaint in line
    assert str(path) in line


def test_plans_that_leave_out_or_turn_round(refused, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    lines = HAND_WRITTEN.splitlines(keepends=True)
    path.write_text("".join(lines[:-2]))
    assert "no group has node 'conv4'" in refused("plan", *BASE, "--plan", path)
    path.write_text("".join((*lines[:4], *lines[6:], *lines[4:6])))
    complaint = "groups[0] ('conv2') needs 'conv1', which groups[3] ('conv1') makes only later"
    assert complaint in refused("plan", *BASE, "--plan", path)


def test_tensors_that_stay_inside_a_group_or_the_main_memory(
    succeeds, refused, tmp_path: Path
) -> None:
    path = tmp_path / "plan.yaml"
    joined = HAND_WRITTEN.replace("[conv1]", "[conv1, conv2]").replace(
        "- nodes: [conv2]\n  s", "  s"
    )
    lines = joined.splitlines(keepends=True)
    # As people merge two groups by hand: what was kept between them is an inner tensor now.
    left_over = "resident: [conv1, conv3]\nreloaded: {conv1: [conv2]}\n"
    path.write_text("".join((*lines[:5], *lines[6:], left_over)))
    outcome = succeeds("plan", *BASE, "--plan", path, "--out", tmp_path / "run")
    assert "'conv1' is not kept as resident: only groups[0] ('conv1' ...) reads it" in outcome.err
    assert outcome.err.count("not kept") == 1
    one = "model: net\nmachine: npu-2.7\ndtype: fp16\ngroups:\n"
    path.write_text(
        f"{one}- nodes: [conv1, conv2, conv3, conv4]\nresident: [conv1, conv2, conv3]\n"
    )
    said = succeeds("plan", *BASE, "--plan", path, "--no-verify").err
    assert "'conv1', 'conv2', 'conv3' are not kept as resident: only groups[0]" in said
    assert said.count("not kept") == 1
    assert "\nresident: [conv3]\n" in (tmp_path / "run" / "plan.yaml").read_text()
    b = GraphBuilder()
    b.add("Relu", b.add("Transpose", b.input(1, 4, 6, 6), perm=[0, 2, 3, 1], name="t"), name="y")
    model = tmp_path / "net.onnx"
    save_onnx(b.graph(), model)
    head = "model: net\nmachine: mcu\ndtype: int8\nresident: [t]\ngroups:\n"
    path.write_text(f"{head}- {{nodes: [Transpose_t], place: main}}\n- nodes: [Relu_y]\n")
    complaint = "'t' cannot be resident: groups[0] ('Transpose_t') does not run on the cores"
    assert complaint in refused("plan", model, "--on", "mcu", "--plan", path)


def test_an_output_that_others_read_may_be_kept(succeeds, tmp_path: Path) -> None:
    b = GraphBuilder()
    x = b.add("Conv", b.input(1, 4, 8, 8), b.weight(4, 4, 3, 3), name="x")
    b.add("Conv", x, b.weight(4, 4, 3, 3), name="y")
    model, path = tmp_path / "net.onnx", tmp_path / "plan.yaml"
    save_onnx(b.graph("x", "y"), model)
    head = "model: net\nmachine: mcu\ndtype: int8\nresident: [x]\ngroups:\n"
    path.write_text(f"{head}- nodes: [Conv_x]\n- nodes: [Conv_y]\n")
    summary = succeeds("plan", model, "--on", "mcu", "--plan", path, "--json").json
    assert summary["verified"]["max_rel_error"] <= 1e-4
    assert summary["dram_write_bytes"] == 4 * 6 * 6 + 4 * 4 * 4  # stored, and not loaded again
    assert summary["dram_read_bytes"] < 4 * 8 * 8 + 2 * 4 * 4 * 9 + 4 * 6 * 6


def test_an_operator_that_no_engine_runs_is_named(refused, tmp_path: Path) -> None:
    machine = tmp_path / "bare.yaml"
    machine.write_text("extends: npu-2.7\ncores: {cluster: {engines: {shave: null}}}\n")
    for how in ("--layer-by-layer", "--fast"):
        complaint = refused("plan", "vit_b16@32x32", "--on", machine, how, "--no-verify")
        assert "node 'embedded' (Add): no engine of bare's cluster0 runs add" in complaint


def test_a_core_without_the_elements_is_named(refused, tmp_path: Path) -> None:
    machine = tmp_path / "uneven.yaml"
    narrow = "{engines: {simd: {parameters: {dtype_factors: {int8: 1}}}}}"
    machine.write_text(f"extends: three-core-bus\ncores: {{core1: {narrow}}}\n")
    told = "uneven's core1 cannot run conv: it has no elements of type fp16 (it has int8)"
    for how in ("--layer-by-layer", "--fast"):
        complaint = refused("plan", "four_convs@12x12", "--on", machine, how, "--dtype", "fp16")
        assert told in complaint


def test_what_has_to_move_is_only_what_is_needed(succeeds, tmp_path: Path) -> None:
    b = GraphBuilder()
    ends = [b.constant([v], "int64") for v in (0, 8, 2)]
    b.add("Relu", b.add("Slice", b.input(1, 16, 32, 32), *ends), name="y")
    model = tmp_path / "net.onnx"
    save_onnx(b.graph(), model)
    summary = succeeds("plan", model, "--on", "npu-2.7", "--layer-by-layer", "--json").json
    assert summary["compulsory_bytes"] == 2 * 2 * 16 * 8 * 32  # in and out, 8 of 32 rows


def test_one_of_a_thing_is_no_plural(succeeds, tmp_path: Path) -> None:
    b = GraphBuilder()
    b.add("Conv", b.input(1, 4, 8, 8), b.weight(4, 4, 3, 3), name="y")
    model, folder = tmp_path / "net.onnx", tmp_path / "run"
    save_onnx(b.graph(), model)
    text = succeeds("plan", model, "--on", "mcu", "--layer-by-layer", "--out", folder).out
    assert "net on mcu, int8: 1 group, " in text
    assert "net on mcu: 1 group, 0 boundaries" in succeeds("explain", folder).out
    assert "1 node, " in succeeds("show", "model", model).out


def test_a_scratchpad_that_is_too_small(refused, tmp_path: Path) -> None:
    machine = tmp_path / "tiny.yaml"
    small = "{memories: {sram: {capacity: 1KiB, usable: 1KiB}}}"
    machine.write_text(f"extends: mcu\ncores: {{core: {small}}}\n")
    complaint = refused(
        "plan", "resnet18@32x32", "--on", machine, "--layer-by-layer", "--out", tmp_path / "run"
    )
    assert "fits" in complaint


def test_places_that_cannot_be_written(refused, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        assert "cannot write" in refused("plan", *BASE, "--layer-by-layer", "--out", folder)


HAND_WRITTEN = """model: four_convs
machine: mcu
dtype: int8
groups:
- nodes: [conv1]
  splits: [{axis: 2, parts: 2, halo: recompute}]
- nodes: [conv2]
  splits: [{axis: 2, parts: 2, halo: recompute}]
- nodes: [conv3]
  splits: [{axis: 1, parts: 2, halo: recompute}]
- nodes: [conv4]
  splits: [{axis: 2, parts: 2, halo: recompute}]
"""


@pytest.mark.golden
@pytest.mark.parametrize("step", ["build", "prefetch"])
def test_print_after_matches_the_golden_file(succeeds, tmp_path: Path, step: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(HAND_WRITTEN)
    arguments = ("plan", *BASE, "--plan", path, "--no-verify", "--print-after", step)
    text = succeeds(*arguments).out.partition("four_convs@16x16 on mcu")[0]
    check_golden(f"program_four_convs_after_{step}.txt", text)


def test_show_machines(succeeds, refused) -> None:
    names = [row["name"] for row in succeeds("show", "machines", "--json").json["machines"]]
    assert {"mcu", "npu-2.7", "npu-4.0"} <= set(names)
    assert "cluster0.cmx" in succeeds("show", "machines", "npu-2.7").out
    one = succeeds("show", "machines", "mcu", "--json").json
    assert one["memories"][0]["name"] == "external"
    assert "no machine 'abacus'" in refused("show", "machines", "abacus")


def test_a_plan_within_a_limit_of_memory_is_replayed_within_it(
    succeeds, refused, command, tmp_path: Path
) -> None:
    call = ("plan", "four_convs", "--on", "npu-2.7", "--effort", "low")
    summary = succeeds(*call, "--memory-limit", "20KiB", "--out", tmp_path / "run", "--json").json
    peaks = [size for name, size in summary["peak_bytes"].items() if name != "ddr"]
    assert len(peaks) == 2 and max(peaks) <= 20 * 1024
    again = succeeds(*call[:4], "--plan", tmp_path / "run" / "plan.yaml", "--json").json
    assert again["latency_cycles"] == summary["latency_cycles"]
    call = ("plan", "four_convs@16x16", *call[2:])
    short = refused(*call, "--memory-limit", "300B")
    assert "a memory limit of 300 B is too small: no tile of 'conv2' (Conv) fits: " in short
    needed = re.search(r"([0-9]+) B needed, 300 B there", short)
    assert needed is not None  # which is the most of any operator: with a quarter more it runs
    rows = ("--layer-by-layer", "--no-verify", "--memory-limit", f"{int(needed[1]) * 5 // 4}B")
    assert "too small" not in command(*call[:4], *rows).err
    assert "leaves nothing" in refused(*call, "--memory-limit", "0")
