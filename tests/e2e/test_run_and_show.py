"""`tilewright run`, `show`, `--help`: they work, teach, and speak JSON."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from tilewright.frontend import zoo
from tilewright.frontend.save import serialize
from tilewright.frontend.weights import seeded

Command = Callable[..., Any]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(serialize(seeded(zoo.build("four_convs@12x12"))))
    return path


@pytest.mark.quick
def test_run_prints_what_came_out(succeeds: Command, model: Path) -> None:
    said = succeeds("run", model).out
    assert "float32[1, 8, 12, 12]" in said
    assert "peak memory of the run" in said
    assert "CPU time" in said and "CPU time 0.00" not in said


@pytest.mark.quick
def test_run_json(succeeds: Command, model: Path) -> None:
    result = succeeds("run", model, "--json").json
    (output,) = result["outputs"].values()
    assert output == {"shape": [1, 8, 12, 12], "dtype": "float32"}
    assert result["cpu_seconds"] >= 0
    assert result["peak_bytes"] is None or result["peak_bytes"] >= 0


@pytest.mark.quick
def test_run_stores_outputs_and_depends_on_the_seed(
    succeeds: Command, model: Path, tmp_path: Path
) -> None:
    stored: list[np.ndarray] = []
    for seed, name in ((0, "a.npz"), (0, "b.npz"), (1, "c.npz")):
        succeeds("run", model, "-o", tmp_path / name, "--seed", seed)
        with np.load(tmp_path / name) as arrays:
            (key,) = arrays.files
            stored.append(arrays[key])
    assert np.array_equal(stored[0], stored[1])
    assert not np.array_equal(stored[0], stored[2])
    assert np.isfinite(stored[0]).all() and stored[0].std() > 0.1


@pytest.mark.quick
def test_run_takes_inputs_of_any_name(succeeds: Command, tmp_path: Path) -> None:
    """`file` is the name of a parameter of numpy.savez; slashes come from exporters."""
    names = ["file", "model/x:0"]
    graph = oh.make_graph(
        [oh.make_node("Add", names, ["sum/y:0"])],
        "odd",
        [oh.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ("n", 2)) for name in names],
        [oh.make_tensor_value_info("sum/y:0", onnx.TensorProto.FLOAT, ("n", 2))],
    )
    path, results = tmp_path / "odd.onnx", tmp_path / "results.npz"
    path.write_bytes(
        oh.make_model(
            graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8
        ).SerializeToString()
    )
    shapes = [part for name in names for part in ("--shape", f"{name}=3,2")]
    succeeds("run", path, *shapes, "-o", results)
    with np.load(results) as arrays:
        assert arrays["sum/y:0"].shape == (3, 2)


@pytest.mark.quick
def test_show_ops_lists_every_operator(succeeds: Command) -> None:
    from tilewright.graph.ops import SPECS

    rows = succeeds("show", "ops", "--json").json["operators"]
    assert {row["op"] for row in rows} == {spec.kind for spec in SPECS.values()}
    assert all(row["axes"] for row in rows)
    said = succeeds("show", "ops").out
    assert "Conv" in said and "runs whole" in said


@pytest.mark.quick
def test_show_models_lists_the_zoo(succeeds: Command) -> None:
    rows = succeeds("show", "models", "--json").json["models"]
    wanted = "resnet18 resnet50 mobilenet_v2 vgg16 fsrcnn unet vit_b16 bert_base sd15_down_block"
    assert {*wanted.split(), "four_convs", "rn50_stem"} <= {row["name"] for row in rows}
    assert "fsrcnn@1080x1920" in succeeds("show", "models").out


@pytest.mark.quick
def test_show_model(succeeds: Command, model: Path) -> None:
    result = succeeds("show", "model", model, "--json").json
    assert (result["nodes"], result["tileable_nodes"]) == (4, 4)
    assert result["macs"] == 12 * 12 * 9 * 8 * (3 + 8 + 8 + 8)
    assert result["tileable_macs_share"] == 1
    assert result["weightless"] is False
    said = succeeds("show", "model", "four_convs").out
    assert "conv4" in said and "100.0%" in said and "not in the file" in said


@pytest.mark.quick
def test_names_with_brackets_are_printed_as_they_are(succeeds: Command, tmp_path: Path) -> None:
    """Rich would take them for markup, and `:smile:` for a picture."""
    name = "block[/0]/[bold]:smile:"
    graph = oh.make_graph(
        [oh.make_node("Relu", ["x"], ["y"], name=name)],
        "odd",
        [oh.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 2, 4, 4))],
        [oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 2, 4, 4))],
    )
    path = tmp_path / "odd[red].onnx"
    path.write_bytes(
        oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)]).SerializeToString()
    )
    assert name in succeeds("show", "model", path).out
    assert name in succeeds("tile", path, "--node", name, "--split", "H=2").out


@pytest.mark.quick
@pytest.mark.parametrize(
    "words, taught",
    [
        ((), ("tile", "shrink", "run", "show", "--help")),
        (("tile",), ("--split", "H=4", "--halo", "cache", "--from", "--shape", "rn50_stem")),
        (("shrink",), ("--memory", "64MB|60%", "--measure", "fsrcnn@1080x1920", "-o")),
        (("run",), ("--inputs", "FILE.npz", "--threads", "--seed")),
        (("show",), ("ops", "models", "model")),
        (("show", "model"), ("MODEL", "--shape", "--json")),
    ],
)
def test_help_teaches(succeeds: Command, words: tuple[str, ...], taught: tuple[str, ...]) -> None:
    said = succeeds(*words, "--help").out
    for word in taught:
        assert word in said


@pytest.mark.quick
def test_version(succeeds: Command) -> None:
    assert succeeds("--version").out.startswith("tilewright ")


def test_long_names_survive_a_pipe() -> None:
    """Piped output is not broken at 80 columns."""
    code = "from tilewright.cli import main; main()"
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-c", code, "show", "model", "sd15_down_block@8x8"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert "…" not in done.stdout


def test_a_closed_or_full_output_is_no_traceback() -> None:
    tell = [sys.executable, "-c", "from tilewright.cli import main; main()", "show", "machines"]
    closed = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *tell], capture_output=True, text=True)
    assert (closed.returncode, closed.stderr) == (0, "")
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(tell, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2 and len(ended.stderr.splitlines()) == 1
    assert "cannot write to standard output" in ended.stderr


def test_a_closed_pipe_is_no_error() -> None:
    code = "from tilewright.cli import main; main()"
    command = f'{sys.executable} -c "{code}" show model resnet50 | head -1'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr


def test_run_and_measure_use_one_method(
    succeeds: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ask for the same thing in a fresh process, and find the same peak."""
    small = tmp_path / "small.onnx"
    arguments = ("shrink", "fsrcnn@240x320", "--memory", "40%", "-o", small, "--measure", "--json")
    measured = succeeds(*arguments).json["measured_peak_bytes"]
    peak = succeeds("run", small, "--json").json["peak_bytes"]
    if peak is None:
        pytest.skip("this system does not report peaks")
    assert peak == pytest.approx(measured, rel=0.05)
