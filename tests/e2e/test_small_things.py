"""What a person stumbles over in the first hour: interrupts, pipes, dimensions, help, tables."""

import ast
import csv
import html
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright
from support.builder import GraphBuilder
from tilewright.cli.app import COMMANDS, load_command
from tilewright.errors import OutputError, TilewrightError
from tilewright.execute.vm import VirtualMachine
from tilewright.files import check_writable
from tilewright.frontend import zoo
from tilewright.frontend.save import serialize
from tilewright.frontend.weights import seeded
from tilewright.runs.folder import check_folder
from tilewright.runs.saved import reseal

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(serialize(seeded(zoo.build("four_convs@16x16"))))
    return path


@pytest.mark.parametrize(
    "moment",
    "tilewright tilewright.api typer tilewright.cli.app rich.console numpy tilewright.model onnx "
    "numba".split(),
)
@pytest.mark.parametrize("job", [["tile", "four_convs", "--node", "conv1", "--split", "H=2"]])
def test_an_interrupt_while_modules_are_imported_is_one_line(moment: str, job: list[str]) -> None:
    code = f"""
        import sys

        class Interrupt:
            def find_spec(self, name, path=None, target=None):
                if name == {moment!r}:
                    raise KeyboardInterrupt

        sys.meta_path.insert(0, Interrupt())
        sys.argv = ["tilewright", *{job!r}]
        from tilewright_command import main
        main()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "tilewright: interrupted\n")


def test_an_interrupt_while_explaining_is_one_line(
    command, succeeds, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    succeeds("plan", net, "--on", "mcu", "--layer-by-layer", "--no-verify", "--out", folder)
    from tilewright.search.explanation import explain

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(explain.Trials, "together", interrupted)
    outcome = command("explain", folder)
    assert outcome.code == 130 and outcome.err.strip().endswith("tilewright: interrupted")
    assert "Traceback" not in outcome.err


def test_an_interrupted_execution_is_written_and_ends_as_interrupted(
    command, succeeds, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = VirtualMachine._begin  # pyright: ignore[reportPrivateUsage]

    def interrupted(self: VirtualMachine, task: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return began(self, task)

    folder = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(VirtualMachine, "_begin", interrupted)
        found = command("plan", net, "--on", "mcu", "--fast", "--out", folder)
    assert found.code == 130 and found.err.strip().endswith("tilewright: interrupted")
    assert "its numbers are not compared" in found.err and "not executed: interrupted" in found.out
    assert "not executed" in succeeds("verify", folder).out


def test_a_second_interrupt_ends_a_command_within_compiled_code(net: Path) -> None:
    code = """
        import signal, sys
        from tilewright.cli import main
        from tilewright.program.lowering import Lowering

        def interrupted(*arguments):
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
            raise AssertionError("it goes on")

        Lowering.timed = interrupted
        sys.argv = ["tilewright", "plan", sys.argv[1], "--on", "mcu", "--fast"]
        main()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), net],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "tilewright: interrupted\n")


@pytest.mark.parametrize(
    "job",
    [
        ["plan", "four_convs@16x16", "--on", "mcu", "--layer-by-layer"],
        ["show", "ops", "--json"],
        ["plan", "--help"],
    ],
)
def test_who_stops_reading_changes_nothing(job: list[str]) -> None:
    """`tilewright ... | head` is quiet, and ends with the exit code that it would have had."""
    with subprocess.Popen(
        [sys.executable, "-m", "tilewright", *job], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as told:
        assert told.stdout is not None and told.stderr is not None
        told.stdout.close()
        said = told.stderr.read().decode()
    assert told.returncode == 0 and "Traceback" not in said and "Broken" not in said


def test_the_report_says_what_it_is_about_without_scripts(succeeds, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    said = succeeds("plan", "four_convs@16x16", "--on", "mcu", "--fast", "--out", folder).out
    page = (folder / "report.html").read_text()
    plain = page.partition("<noscript>")[2].partition("</noscript>")[0]
    for line in said.splitlines()[:3]:
        assert html.escape(line) in plain
    assert "verified: " in plain


def test_rows_that_are_recomputed_after_all_are_told_in_one_line() -> None:
    tiles = tilewright.tile("four_convs@16x16", "H=4", first="conv1", last="conv4", halo="cache")
    told = len(tiles.headline())
    some = replace(tiles, group=replace(tiles.group, fallbacks=("conv1", "conv2")))
    assert some.headline()[told:] == [
        "'conv1', 'conv2' are recomputed: their rows are not needed in order"
    ]


def test_a_halo_that_cannot_be_kept_is_not_called_a_resident_tensor(
    refused, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "model: net\nmachine: 1-minimal\ndtype: int8\ngroups:\n"
        "- nodes: [conv1, conv2, conv3, conv4]\n"
        "  splits: [{axis: 2, parts: 4, halo: cache}]\n"
    )
    machine = EXAMPLES / "machines" / "1-minimal.yaml"
    text = refused("plan", "four_convs@16x16", "--on", machine, "--plan", plan)
    assert "the halo of 'conv1' cannot be kept (halo: cache): no link" in text
    assert "copies within core.sram" in text and "resident" not in text


def test_kernels_are_taken_from_models_with_open_dimensions(
    succeeds, refused, tmp_path: Path
) -> None:
    path = tmp_path / "open.onnx"
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 3, 3, 3], [0.0] * 108)
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, "h", "w_"])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    graph = helper.make_graph([node], "open", [image], [out], [weights])
    opsets = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    path.write_bytes(model.SerializeToString())
    asked = ("kernel", "conv2d", "--from", path, "--node", "conv", "--no-check")
    assert "--shape x=1,3,224,224" in refused(*asked)
    told = succeeds(*asked, "--shape", "x=1,3,16,20").out
    assert told.startswith("conv2d 3x16x20 -> 4 channels")
    assert refused("kernel", "conv2d", "--shape", "x=1") == "--shape needs --from MODEL"


def test_smallest_speaks_of_no_budget(succeeds, tmp_path: Path) -> None:
    b = GraphBuilder()
    path = tmp_path / "net.onnx"
    path.write_bytes(serialize(b.graph(b.add("Relu", b.input(1, 4)))))
    smallest = succeeds("shrink", path, "--memory", "smallest", "-o", tmp_path / "s.onnx").out
    assert "No cut was found that needs less memory" in smallest and "budget" not in smallest
    whole = succeeds("shrink", path, "--memory", "100%", "-o", tmp_path / "w.onnx").out
    assert "within the budget as it is" in whole


def test_a_model_is_read_from_standard_input(net: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "show", "model", "-", "--json"],
        input=net.read_bytes(),
        capture_output=True,
        check=True,
    )
    assert b'"nodes": 4' in done.stdout
    bad = subprocess.run(
        [sys.executable, "-m", "tilewright", "show", "model", "-"],
        input=b"no model",
        capture_output=True,
        check=False,
    )
    assert bad.returncode == 2 and b"standard input is not an ONNX model" in bad.stderr


def test_open_dimensions_by_name(succeeds, refused, tmp_path: Path) -> None:
    shape = ["batch", 3, 8, 8]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "open",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    path = tmp_path / "open.onnx"
    opsets = [helper.make_opsetid("", 18)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    )
    shown = succeeds("show", "model", path, "--shape", "batch=2", "--json").json
    assert shown["inputs"] == {"x": [2, 3, 8, 8]}
    assert "--shape batch=1" in refused("show", "model", path)


def test_dimensions_of_one_input_are_those_of_others_by_the_same_names(tmp_path: Path) -> None:
    path = tmp_path / "two.onnx"
    dims = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3, "h", "w"]) for n in "lr"]
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, "h", "w"])
    graph = helper.make_graph([helper.make_node("Add", ["l", "r"], ["y"])], "two", dims, [made])
    path.write_bytes(helper.make_model(graph).SerializeToString())
    loaded = tilewright.load(path, {"l": (1, 3, 20, 24)})
    assert loaded.graph.types["r"].shape == (1, 3, 20, 24)
    wider = {"l": (1, 3, 20, 24), "r": (1, 1, 20, 24)}
    assert tilewright.load(path, wider).graph.types["r"].shape == (1, 1, 20, 24)
    with pytest.raises(TilewrightError, match="no input and no open dimension is called 'depth'"):
        tilewright.load(path, {"depth": 3})


@pytest.mark.parametrize(
    ("shape", "suggested"),
    [
        (["batch", 3, "height", "width"], "batch=1 --shape height=224 --shape width=224"),
        (["N", "rows", "cols", 3], "N=1 --shape rows=224 --shape cols=224"),
        (["batch_size", "seq_len", 64], "batch_size=1 --shape seq_len=128"),
        (["b", "tokens"], "b=1 --shape tokens=128"),
    ],
)
def test_suggested_dimensions_are_those_of_such_inputs(
    refused, tmp_path: Path, shape: list[int | str], suggested: str
) -> None:
    path = tmp_path / "open.onnx"
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "open",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    opsets = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    path.write_bytes(model.SerializeToString())
    assert f"by name: --shape {suggested}" in refused("show", "model", path)


def written_model(
    path: Path, nodes: list[Any], inputs: dict[str, list[Any]], **weights: Any
) -> Path:
    """A model file whose inputs have open dimensions."""
    graph = helper.make_graph(
        nodes,
        "open",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def test_suggested_options_work_when_they_are_pasted(succeeds, refused, tmp_path: Path) -> None:
    """Of several inputs that share dimensions, sums of them, names with spaces; and where the
    operators take one size alone."""
    grown = written_model(
        tmp_path / "grown.onnx",
        [
            helper.make_node("Concat", ["past", "new"], ["all"], axis=1),
            helper.make_node("MatMul", ["mask", "all"], ["y"]),
        ],
        {
            "past": ["batch size", "past_len", 64],
            "new": ["batch size", "seq_len", 64],
            "mask": ["batch size", "seq_len", "past_len + seq_len"],
        },
    )
    small = written_model(
        tmp_path / "small.onnx",
        [
            helper.make_node("Flatten", ["image"], ["flat"]),
            helper.make_node("Gemm", ["flat", "weights"], ["y"]),
        ],
        {"image": ["N", 3, "H", "W"]},
        weights=np.zeros((3 * 32 * 32, 10), np.float32),
    )
    for path in (grown, small):
        told = refused("show", "model", path)
        for options in (
            told.partition("e.g. ")[2].partition(" (in Python")[0].split(", or by name: ")
        ):
            assert succeeds("show", "model", path, *shlex.split(options), "--json").json["inputs"]
        shapes = ast.literal_eval(told.partition("shapes=")[2].removesuffix(")"))
        assert tilewright.load(path, shapes)
    again = refused("show", "model", grown, "--shape", "past_len=5")
    assert "or by name: --shape 'batch size=1' --shape past_len=5 --shape seq_len=128" in again


def test_sizes_that_nobody_can_guess_are_not_suggested_as_if_they_fitted(
    refused, tmp_path: Path
) -> None:
    path = written_model(
        tmp_path / "odd.onnx",
        [helper.make_node("MatMul", ["x", "weights"], ["y"])],
        {"x": ["b", "n_features"]},
        weights=np.zeros((7777, 2), np.float32),
    )
    told = refused("show", "model", path)
    assert "e.g." not in told and "Fix them with --shape x=SIZES" in told
    assert re.search("none of the sizes tried fits: with --shape x=[0-9,]+, node 'MatMul_y'", told)


@pytest.mark.parametrize("job", ["plan", "explain", "shrink", "kernel"])
def test_what_takes_long_says_so_in_a_pipe_too(
    succeeds, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    run = tmp_path / "run"
    jobs: dict[str, list[object]] = {
        "plan": ["plan", net, "--on", "mcu", "--layer-by-layer", "--json"],
        "explain": ["explain", run, "--apply", tmp_path / "better.yaml", "--json"],
        "shrink": ["shrink", net, "--memory", "smallest", "-o", tmp_path / "s.onnx", "--json"],
        "kernel": ["kernel", "matmul", "--size", "512x512x512", "--search", "--json"],
    }
    if job == "explain":
        succeeds("plan", net, "--on", "mcu", "--layer-by-layer", "--no-verify", "--out", run)
    assert succeeds(*jobs[job]).err.count("... ") == 0  # what is over soon is not talked about
    monkeypatch.setattr("tilewright.cli.progress.FIRST", 1e-4)
    monkeypatch.setattr("tilewright.cli.progress.EVERY", 1e-2)
    slow = succeeds(*jobs[job])
    said = [line for line in slow.err.splitlines() if line.startswith("... ")]
    assert said and all(line.endswith(" s)") for line in said) and slow.json


def test_a_fast_search_is_none_of_high_effort(refused, net: Path) -> None:
    text = refused("plan", net, "--on", "mcu", "--fast", "--effort", "high")
    assert text == "fast is effort low: give either it or effort high, not both"


def test_tables_go_to_csv_from_every_command(succeeds, net: Path, tmp_path: Path) -> None:
    def written(*arguments: object) -> list[dict[str, str]]:
        file = tmp_path / "table.csv"
        succeeds(*arguments, "--csv", file)
        return list(csv.DictReader(io.StringIO(file.read_text())))

    assert len(written("show", "model", net)) == 4
    assert len(written("tile", net, "--node", "conv1", "--split", "H=4")) == 4
    assert written("partition", net)[0]["macs"]
    layers = written("plan", net, "--on", "npu-2.7", "--layer-by-layer", "--no-verify")
    assert [row["node"] for row in layers] == ["conv1", "conv2", "conv3", "conv4"]
    assert all(float(row["share"]) > 0 and row["engine"] for row in layers)
    groups = list(csv.DictReader((tmp_path / "table.groups.csv").open()))
    assert sum(float(row["share"]) for row in groups) == pytest.approx(1)
    assert written("kernel", "matmul", "--size", "128x128x512")[0]["engine"]
    for number, machine in enumerate(("npu-2.7", "mcu")):
        options = ("--layer-by-layer", "--no-verify", "--out", tmp_path / f"run{number}")
        succeeds("plan", net, "--on", machine, *options)
    causes = written("compare", tmp_path / "run0", tmp_path / "run1")
    assert {row["plan"] for row in causes} == {str(tmp_path / "run1")}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_is_true(name: str) -> None:
    """Each is there, with help of its own."""
    command = load_command(name)
    assert command.name == name
    assert len(command.help or "") > 20


def test_help_is_as_wide_as_there_is_room() -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "TERMINAL_WIDTH")}
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) > 90
    assert sum("Check a saved run" in line for line in lines) == 1
    told = [line for line in lines if line.strip().startswith("plan ")]
    assert told and "write all of it down." in told[0]


def test_the_command_line_can_be_called_again_and_again() -> None:
    code = """
        import sys
        sys.argv = ["tilewright", "--version"]
        for _ in range(2):
            from tilewright.cli import main
            try:
                main()
            except SystemExit as end:
                assert not end.code
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


@pytest.mark.parametrize("change", ["nodes", "inputs", "placed"])
def test_a_run_that_was_tampered_with_and_sealed_anew_is_one_line(
    succeeds, refused, net: Path, tmp_path: Path, change: str
) -> None:
    """`explain` and `compare` trust a run no more than `verify` does."""
    folder = tmp_path / "run"
    succeeds("plan", net, "--on", "mcu", "--layer-by-layer", "--no-verify", "--out", folder)
    if change == "nodes":
        network = folder / "run" / "network.json"
        network.write_text(network.read_text().replace('"conv2"', '"other"', 1))
    elif change == "inputs":
        network = folder / "run" / "network.json"
        network.write_text(network.read_text().replace('"conv1.weight"', '""'))
    else:
        placed = folder / "run" / "placed.json"
        document = json.loads(placed.read_text())
        placed.write_text(json.dumps(dict.fromkeys(document)))
    summary = folder / "summary.json"
    figures = json.loads(summary.read_text())
    figures["parts"][0].pop("read_bytes")
    summary.write_text(json.dumps(figures))
    reseal(folder)
    assert str(folder) in refused("explain", folder)
    assert "makes no sense" in refused("compare", folder, folder)
    figures["parts"][0]["read_bytes"] = figures["parts"][0]["cycles"] = []
    summary.write_text(json.dumps(figures))
    assert "makes no sense" in refused("compare", folder, folder)


def test_a_summary_that_makes_no_sense_is_one_line_to_compare(
    succeeds, command, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    call = ("plan", "four_convs@12x12", "--on", "mcu", "--layer-by-layer", "--no-verify")
    succeeds(*call, "--out", folder)
    file = folder / "summary.json"
    sound = json.loads(file.read_text())
    engine = next(iter(sound["engines"]))
    places = [(key,) for key in sound] + [("engines", engine), ("engines", engine, "busy_cycles")]
    refused = set[tuple[str, ...]]()
    for place in places:
        for value in (1.5, True, [], {}, "abc", [[1]], {"a": 1}):
            summary = json.loads(json.dumps(sound))
            inner = summary
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = value
            file.write_text(json.dumps(summary))
            page = tmp_path / "page.html"
            outcome = command("compare", folder, folder, "--html", page)
            assert outcome.code in (0, 2), (place, value)
            if outcome.code:
                assert len(outcome.told) == 1 and "Traceback" not in outcome.err, (place, value)
                refused.add(place)
    assert {("engines",), ("engines", engine), ("peak_bytes",), ("latency_cycles",)} <= refused
    assert ("title",) not in refused and len(refused) < len(places)


def test_a_run_whose_memories_are_aligned_to_nothing_is_one_line(
    succeeds, refused, net: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    succeeds("plan", net, "--on", "mcu", "--layer-by-layer", "--no-verify", "--out", folder)
    machine = folder / "run" / "machine.json"
    document = json.loads(machine.read_text())
    alignment = document["fields"]["Memory"].index("alignment")

    def unaligned(record: dict[str, list[object]]) -> dict[str, list[object]]:
        if "Memory" in record:
            record["Memory"][alignment] = 0
        return record

    content = json.loads(json.dumps(document["content"]), object_hook=unaligned)
    machine.write_text(json.dumps({**document, "content": content}))
    reseal(folder)
    assert "makes no sense" in refused("verify", folder)
    assert "makes no sense" in refused("explain", folder)


def test_energy_that_nobody_knows_is_not_zero(succeeds, tmp_path: Path) -> None:
    machine = Path(__file__).parents[2] / "examples" / "machines" / "1-minimal.yaml"
    one, other, layers = tmp_path / "one", tmp_path / "other", tmp_path / "layers.csv"
    base = ("plan", "four_convs@12x12", "--layer-by-layer", "--no-verify", "--on")
    planned = succeeds(*base, machine, "--out", one, "--csv", layers, "--json").json
    assert planned["energy_pj"] is None
    head, *rows = (row.split(",") for row in layers.read_text().splitlines())
    assert {row[head.index("energy_pj")] for row in rows} == {""}
    assert succeeds("verify", one).code == 0
    succeeds(*base, "mcu", "--out", other)
    (figures,) = succeeds("compare", one, other, "--json").json["compared"]
    assert figures["figures"]["energy_pj"]["before"] is None
    assert {cause["energy_pj"] for cause in figures["causes"]} == {None}


def test_near_misses_are_told(succeeds, refused) -> None:
    assert "did you mean 'plan'?" in refused("plann", "resnet18")
    assert "did you mean 'mcu'?" in refused("plan", "four_convs", "--on", "mcc")
    assert "did you mean 'resnet18@64x64'?" in refused("show", "model", "resnet81@64x64")
    sized = refused("show", "model", "fsrcnn@64x64", "--shape", "input=4,1,64,64")
    assert sized.endswith("one image and take their size in the name: fsrcnn@HEIGHTxWIDTH")
    assert succeeds("-h").out == succeeds("--help").out
    assert "--layer-by-layer" in succeeds("plan", "-h").out


def test_what_holds_a_budget_up_is_named_once(refused, tmp_path: Path) -> None:
    text = refused("shrink", "four_convs@64x64", "--memory", "1%", "-o", tmp_path / "x.onnx")
    held = text.split(" holds it up with ")[1].split(", ")
    names = [" ".join(word for word in part.split()[:-2] if not word.isdecimal()) for part in held]
    assert len(names) == len(set(names)) > 1, text


def test_a_network_without_operators_has_nothing_to_bound(succeeds, tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])
    path = tmp_path / "through.onnx"
    opsets = [helper.make_opsetid("", 17)]
    graph = helper.make_graph([], "through", [x], [x])
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    )
    shown = succeeds("plan", path, "--on", "mcu").out
    assert "lower bound  nothing: no operator is left to run" in shown and "unknown" not in shown


RESIDENT_VIEW = """\
model: net
machine: npu-2.7
dtype: fp16
groups:
- {nodes: [Conv_a]}
- {nodes: [Conv_b]}
- {nodes: [Concat_both], place: view}
- {nodes: [Conv_c]}
resident: [a]
"""


def test_a_resident_input_of_a_view_is_noted(succeeds, tmp_path: Path) -> None:
    b = GraphBuilder()
    x = b.input(1, 16, 8, 8)
    one = b.add("Conv", x, b.weight(16, 16, 1, 1), name="a")
    other = b.add("Conv", x, b.weight(16, 16, 3, 3), name="b", pads=[1] * 4)
    both = b.add("Concat", one, other, name="both", axis=1)
    b.add("Conv", both, b.weight(8, 32, 1, 1), name="c")
    model, plan = tmp_path / "net.onnx", tmp_path / "plan.yaml"
    model.write_bytes(serialize(b.graph()))
    plan.write_text(RESIDENT_VIEW)
    told = succeeds("plan", model, "--on", "npu-2.7", "--plan", plan).err
    assert "'a' is resident to no effect: only 'Concat_both' (Concat, place: view) reads it" in told
    plan.write_text(RESIDENT_VIEW.replace(", place: view", ""))
    assert "no effect" not in succeeds("plan", model, "--on", "npu-2.7", "--plan", plan).err


def test_a_file_that_is_none_of_a_run_is_named(refused, tmp_path: Path) -> None:
    path = tmp_path / "m1.yaml"
    path.write_text("title: mine\n")
    for job in ("verify", "explain"):
        assert f"'{path}' is no file of a run" in refused(job, path)


def test_two_ways_to_run_layers_exclude_each_other(refused) -> None:
    many = Path(__file__).parents[2] / "examples" / "manycore"
    base = ("plan", "four_convs@16x16", "--on", many / "three_cores.yaml")
    both = ("--mode", "fused", "--layer-by-layer")
    text = refused(*base, "--mapping", many / "fused.yaml", *both)
    assert "either --mode fused or --layer-by-layer" in text
    assert "--mode needs --mapping" in refused("plan", "resnet18", "--on", "mcu", *both)


def test_places_that_cannot_be_written_are_told_before_the_work(tmp_path: Path) -> None:
    for check in (check_folder, check_writable):
        with pytest.raises(OutputError, match="cannot write"):
            check(tmp_path / ("long" * 100))
    assert not list(tmp_path.iterdir())


def test_a_kernel_of_a_model_without_a_node_names_what_there_is() -> None:
    with pytest.raises(TilewrightError, match=r"say which node of it .*: conv1"):
        tilewright.kernel(model="resnet18")


def test_an_interrupt_that_native_code_has_wrapped_is_one(command, monkeypatch) -> None:
    def wrapped() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ValueError("Error building `literal` serializer") from None

    monkeypatch.setattr("tilewright.cli.app.run", wrapped)
    outcome = command("show", "machines")
    assert (outcome.code, outcome.err) == (130, "tilewright: interrupted\n")


def test_a_mistake_that_speaks_of_interrupts_is_none(command, monkeypatch) -> None:
    def wrong() -> None:
        raise ValueError("no node 'KeyboardInterrupt'")

    monkeypatch.setattr("tilewright.cli.app.run", wrong)
    with pytest.raises(ValueError, match="no node"):
        command("show", "machines")
