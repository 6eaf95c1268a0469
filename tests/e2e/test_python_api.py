"""The Python API as a program uses it: what it takes, what it gives, how that shows itself."""

import ast
import doctest
import inspect
import pydoc
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
import yaml

import tilewright
from support.networks import attention
from tilewright import api
from tilewright.frontend.save import serialize
from tilewright.frontend.weights import seeded
from tilewright.report.explained import explanation_lines
from tilewright.search.explanation.explain import RULE_OF_THUMB

ROOT = Path(__file__).parents[2]
JOBS = (
    "load tile shrink run plan allocate explain verify partition kernel sweep compare machine"
).split()


def net(size: int = 16):
    return seeded(api.load(f"four_convs@{size}x{size}").graph, 0)


@pytest.mark.parametrize("name", JOBS)
def test_every_job_is_there_documented_and_its_example_runs(name: str, tmp_path: Path) -> None:
    job = getattr(tilewright, name)
    assert callable(job)
    function = getattr(api, name)
    assert inspect.signature(job) == inspect.signature(function)
    told = inspect.getdoc(function)
    assert told is not None and (inspect.getdoc(job) or "").endswith(told)
    kinds = {p.kind for p in inspect.signature(function).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds, "options are named"
    assert all(p.annotation is not p.empty for p in inspect.signature(function).parameters.values())
    places = {"tilewright": tilewright, "folder": tmp_path, "examples": ROOT / "examples"}
    (example,) = [
        test
        for test in doctest.DocTestFinder(recurse=False).find(function, name, globs=places)
        if test.examples
    ]
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    lines: list[str] = []
    failed = doctest.DocTestRunner(optionflags=flags).run(example, out=lines.append)
    assert failed.failed == 0, "".join(lines)


def test_a_model_is_taken_as_people_have_it(tmp_path: Path) -> None:
    data = serialize(net())
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    proto = onnx.load_from_string(data)
    for given in (str(path), path, proto, data, net(), api.load(path)):
        assert len(tilewright.load(given).graph.nodes) == 4
    with pytest.raises(tilewright.TilewrightError, match="is no model"):
        tilewright.load(3.5)


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda: tilewright.plan(net(), cast(Any, None)), "machine None: has to be a machine's"),
        (lambda: tilewright.plan(net(), "."), "'.' is a folder"),
        (lambda: tilewright.plan(net(), "mcu", patterns=cast(Any, 3)), "patterns 3: has to be"),
        (lambda: tilewright.machine("npu-2.7").with_cores(cast(Any, 2)), "takes names of cluster0"),
        (lambda: tilewright.shrink(net(), "50%", cast(Any, 3)), "output 3: has to be"),
    ],
)
def test_arguments_of_another_kind_are_one_line(mistake: Callable[[], object], told: str) -> None:
    with pytest.raises(tilewright.TilewrightError, match=re.escape(told)):
        mistake()


def test_inputs_that_are_no_arrays_are_told(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(serialize(net()))
    name = tilewright.load(path).graph.inputs[0]
    with pytest.raises(tilewright.TilewrightError, match="holds a str, not an array"):
        tilewright.run(path, inputs=cast(Any, {name: "a"}))


def test_a_proto_is_verified_against_itself(tmp_path: Path) -> None:
    proto = onnx.load_from_string(serialize(net()))
    run = tilewright.plan(proto, "mcu", layer_by_layer=True)
    assert run.verified
    folder = run.save(tmp_path / "run")
    assert tilewright.verify(folder).verified is not None


def test_a_torch_module_is_planned_saved_and_verified(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU())
    model = tilewright.load(module, inputs=torch.zeros(1, 3, 16, 16))
    run = tilewright.plan(model, "npu-2.7", layer_by_layer=True)
    assert run.verified
    assert tilewright.verify(run.save(tmp_path / "run")).verified is not None


def test_budgets_machines_and_plans_are_taken_as_text_and_as_objects(tmp_path: Path) -> None:
    one = tilewright.shrink("fsrcnn@64x64", "70%")
    two = tilewright.shrink("fsrcnn@64x64", one.original_peak_bytes * 7 // 10)
    assert one.predicted_peak_bytes == two.predicted_peak_bytes
    assert onnx.load(one.save(tmp_path / "small.onnx")).graph.node
    machine = tilewright.machine("mcu")
    assert tilewright.machine(machine) is machine
    first = tilewright.plan("four_convs@16x16", machine, layer_by_layer=True, verify=False)
    path = tmp_path / "plan.yaml"
    path.write_text(first.yaml)
    for given in (first, first.plan, path, str(path)):
        again = tilewright.plan("four_convs@16x16", "mcu", plan=given, verify=False)
        assert again.latency_cycles == first.latency_cycles


def test_machines_go_wherever_a_machine_is_wanted(tmp_path: Path) -> None:
    """By name, file, mapping and object, whatever the job."""
    path = ROOT / "examples" / "machines" / "1-minimal.yaml"
    whole = yaml.safe_load(path.read_text())
    small = tilewright.machine(path)
    given = (path, str(path), whole, small)
    cycles = {
        tilewright.plan(net(), on, layer_by_layer=True, verify=False).latency_cycles for on in given
    }
    assert len(cycles) == 1
    assert len({len(tilewright.partition(net(), on=on).as_table()) for on in given}) == 1
    assert len({tilewright.tile(net(), "H=2", node="conv1", on=on).counts for on in given}) == 1
    core = tilewright.machine("trn2")
    for on in ("trn2", core):
        assert tilewright.kernel("matmul", size=(128, 128, 512), on=on).machine == core


def test_a_kernel_is_taken_out_of_a_model_in_memory() -> None:
    found = tilewright.kernel(model=net(), node="conv1", dtype="fp32")
    assert found.problem.text().startswith("conv2d 3x16x16 -> 8 channels, 3x3")


def test_plans_are_taken_from_folders_and_files_of_runs(tmp_path: Path) -> None:
    run = tilewright.plan(net(), "mcu", layer_by_layer=True)
    folder = run.save(tmp_path / "run")
    for given in (folder, folder / "plan.yaml", run.plan, run):
        assert (
            tilewright.plan(net(), "mcu", plan=given, verify=False).plan.groups == run.plan.groups
        )
    for given in (folder, folder / "plan.yaml", str(folder / "summary.json"), run):
        assert tilewright.verify(given).verified is not None
        assert len(tilewright.explain(given).as_table()) == 3


def test_a_run_takes_arrays(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(serialize(net()))
    ones = np.ones((1, 3, 16, 16), np.float32)
    done = tilewright.run(path, {"input": ones})
    np.savez(tmp_path / "ones.npz", input=ones)
    again = tilewright.run(path, tmp_path / "ones.npz")
    assert np.array_equal(done.outputs["conv4"], again.outputs["conv4"])
    assert np.any(done.outputs["conv4"] != tilewright.run(path).outputs["conv4"])
    row = next(iter(done.as_table()))
    assert row["shape"] == "1x8x16x16" and row["largest"] == done.outputs["conv4"].max()
    with pytest.raises(tilewright.TilewrightError, match="no array for input 'input'"):
        tilewright.run(path, {"other": ones})


def test_comparisons_go_to_pages_and_tables(tmp_path: Path) -> None:
    first, second = (
        tilewright.plan(net(), on, layer_by_layer=True, verify=False) for on in ("mcu", "npu-2.7")
    )
    found = tilewright.compare(first, second, first)
    assert len(found) == 2 and [each.before for each in found] == [found[0].before] * 2
    assert {row["plan"] for row in found.as_table()} == {found[0].after.name}
    assert "</html>" in found.save(tmp_path / "compare.html").read_text()


def test_plans_of_different_networks_are_said_to_be(tmp_path: Path) -> None:
    one, small, other = (
        tilewright.plan(graph, "mcu", layer_by_layer=True, verify=False)
        for graph in (net(), net(12), seeded(attention(), 0))
    )
    (same, strange) = tilewright.compare(one, small, other)
    assert same.strangers == "" and len(same.headline()) >= 1
    assert "DIFFERENT NETWORKS: four_convs (4 operators) and attention (" in strange.headline()[1]
    assert "none of them by the same name" in strange.strangers
    (told,) = tilewright.compare(one, other).json["compared"]
    assert told["different_networks"] is True


def test_planning_is_a_function_of_its_arguments(monkeypatch, capsys, tmp_path: Path) -> None:
    """`plan(graph, machine, options)` opens no file of a user, prints nothing, and gives equal
    plans for equal arguments."""
    from tilewright.planning import Options, plan
    from tilewright.search.effort import Effort

    graph, machine = net(), tilewright.machine("npu-2.7")
    monkeypatch.chdir(tmp_path)
    runs = [plan(graph, machine, Options(effort=Effort.LOW)) for _ in range(2)]
    assert runs[0].plan == runs[1].plan
    assert runs[0].account == runs[1].account
    assert list(tmp_path.iterdir()) == []
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_results_are_read_at_a_glance() -> None:
    run = tilewright.plan("four_convs@16x16", "npu-2.7", layer_by_layer=True)
    shown = [
        tilewright.load("resnet18"),
        tilewright.tile("rn50_stem", "H=4", node="conv1"),
        run,
        tilewright.explain(run),
        tilewright.verify(run),
        tilewright.partition("resnet18"),
        tilewright.kernel("matmul", size="512x256x1024"),
        tilewright.compare(run, run),
        *tilewright.compare(run, run),
        tilewright.shrink("fsrcnn@64x64", "50%"),
        tilewright.run(onnx.load_from_string(serialize(net()))),
    ]
    for result in shown:
        assert 0 < len(repr(result)) < 2500, type(result)
        page = result._repr_html_()
        assert page.startswith("<p><b>") and "</table>" in page
        assert result.to_csv().count("\n") == len(result.as_table()) + 1
    assert len(repr(tilewright.load("resnet18").graph)) < 100
    for thing in (tilewright.machine("npu-2.7"), run.plan):
        assert len(repr(thing)) < 200 and str(thing).count("\n") > 5
        assert thing._repr_html_().startswith("<pre>")
    assert str(run.plan) == run.yaml


def test_long_names_are_cut_at_a_prompt_and_whole_in_files() -> None:
    """A group of a quantised network names hundreds of nodes."""
    found = tilewright.shrink("mobilenet_v2@128x128", "smallest")
    nodes = max(map(str, found.as_table().column("nodes")), key=len)
    assert len(nodes) > 100 and nodes in found.to_csv()
    assert max(map(len, str(found).splitlines())) < 160
    assert nodes[:60] in str(found) and nodes not in found._repr_html_()


def test_tables_add_up_and_go_to_files(tmp_path: Path) -> None:
    run = tilewright.plan("rn50_stem@64x64", "npu-2.7", fast=True, verify=False)
    groups, layers = run.groups, run.layers
    account = run.planned.account
    assert sum(groups.column("cycles")) == account.latency_cycles
    read = sum(groups.column("bytes_read_weights")) + sum(groups.column("bytes_read_activations"))
    assert read == sum(layers.column("bytes_read")) == account.dram_read_bytes
    assert sum(layers.column("bytes_written")) == account.dram_write_bytes
    assert sum(layers.column("share")) == pytest.approx(1)
    assert all(row["engine"] for row in layers)
    text = layers.to_csv(tmp_path / "layers.csv")
    assert (tmp_path / "layers.csv").read_text() == text
    assert text.splitlines()[0].startswith("node,operator,group,engine,macs")


def test_pandas_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    table = tilewright.load("four_convs@16x16").as_table()

    class Frame:
        def __init__(self, rows, columns) -> None:
            self.rows, self.columns = rows, columns

    class Pandas:
        DataFrame = Frame

    monkeypatch.setitem(sys.modules, "pandas", Pandas)
    frame = table.to_pandas()
    assert frame.columns == list(table.columns) and len(frame.rows) == len(table)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(tilewright.TilewrightError, match="to_csv"):
        table.to_pandas()


def test_importing_is_light_and_packages_stay_packages() -> None:
    code = """
        import sys, tilewright
        assert not {"numpy", "onnx", "numba", "rich", "typer", "pydantic"} & set(sys.modules)
        from tilewright.plan.plan import Plan
        import tilewright.machine.load as loading
        assert callable(tilewright.plan) and callable(tilewright.machine)
        assert loading.load_machine("mcu") is tilewright.machine("mcu")
        assert tilewright.plan.plan.Plan is Plan is tilewright.Plan
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_help_imports_nothing_heavy() -> None:
    code = """
        import sys
        from tilewright.cli import main
        sys.argv = ["tilewright", "--help"]
        try:
            main()
        except SystemExit:
            pass
        assert not {"numpy", "onnx", "numba", "pydantic", "tilewright.model"} & set(sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True, text=True
    )
    assert "partition" in done.stdout


def test_open_dimensions_are_fixed_by_name(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    shape = ["batch", 3, "side", "side"]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "open",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    loaded = tilewright.load(model, {"batch": (2,), "side": (8,)})
    assert loaded.graph.types["x"].shape == (2, 3, 8, 8)
    with pytest.raises(tilewright.TilewrightError, match="by name: --shape batch=1"):
        tilewright.load(model)
    with pytest.raises(tilewright.TilewrightError, match=r"no input .* is called 'depth'"):
        tilewright.load(model, {"depth": (2,)})
    assert np.prod(loaded.graph.types["y"].shape) == 384
    with pytest.raises(tilewright.TilewrightError, match="inputs are: x; open dimensions: batch"):
        tilewright.load(model, {"btch": (2,)})
    with pytest.raises(tilewright.TilewrightError, match=r"still open: .* --shape side=224"):
        tilewright.load(model, {"batch": (2,)})


def test_open_dimensions_are_those_of_the_arrays_that_a_model_is_fed(tmp_path: Path) -> None:
    path, feeds = tmp_path / "open.onnx", tmp_path / "feeds.npz"
    ends = [onnx.helper.make_tensor_value_info(n, 1, ["n", "t"]) for n in ("x", "y")]
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "open", ends[:1], ends[1:])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(feeds, x=array)
    for given in ({"x": array}, feeds):
        np.testing.assert_array_equal(tilewright.run(path, given).outputs["y"], array)
    with pytest.raises(tilewright.TilewrightError, match="dimensions are open"):
        tilewright.run(path)


def test_a_dimension_needs_no_brackets(tmp_path: Path) -> None:
    proto = onnx.load_from_string(serialize(net()))
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    for given in ({"batch": 2}, {"batch": np.int64(2)}, {"batch": [2]}):
        assert tilewright.load(proto, shapes=given).graph.types["input"].shape[0] == 2


def test_a_plan_is_taken_as_the_mapping_of_its_file() -> None:
    found = tilewright.plan(net(), "mcu", layer_by_layer=True, verify=False)
    again = tilewright.plan(net(), "mcu", plan=yaml.safe_load(str(found.plan)), verify=False)
    assert again.latency_cycles == found.latency_cycles


WRONG = {
    "shapes": (lambda: tilewright.load("net.onnx", shapes={"b": 2.5}), "whole numbers from 1"),
    "no shapes": (lambda: tilewright.load("net.onnx", shapes=5), "has to be a mapping"),
    "late shapes": (lambda: tilewright.load(net(), shapes={"b": 2}), "shapes go to `load`"),
    "empty plan": (lambda: tilewright.plan(net(), "mcu", plan={}), "the plan: model: is missing"),
    "no plan": (lambda: tilewright.plan(net(), "mcu", plan=5), "plan 5: has to be a plan.yaml"),
    "no run": (lambda: tilewright.verify(5), "run 5: has to be the folder of a run"),
    "nothing": (lambda: tilewright.machine("mcu").with_memory(0), "a whole number of bytes above"),
    "half": (lambda: tilewright.machine("mcu").with_memory(0.5), "a whole number of bytes above"),
    "memory": (lambda: tilewright.machine("mcu").with_memory(1, "l9"), "no memory 'l9' .it has "),
    "less": (lambda: tilewright.machine("npu-2.7").with_bandwidth("ddr", -1), "bytes per second"),
    "share": (lambda: tilewright.shrink(net(), 50.0), "50.0 is no memory budget: write 64_000_000"),
    "node": (lambda: tilewright.tile(net(), "H=2", node=3), "node 3: has to be the name of a node"),
    "processor": (lambda: tilewright.machine("h100-sxm"), "is a processor: `partition` counts"),
    "no place": (lambda: tilewright.shrink(net(), 1.0).save(None), "cannot write to None: give"),
    "python": (lambda: tilewright.load("build.py"), "is Python: say what makes .* build.py:build"),
    "budget": (lambda: tilewright.shrink(net(), [1]), "is no memory budget"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_nobody_can_use_is_one_line_that_says_what_is_expected(what: str) -> None:
    call, expected = WRONG[what]
    with pytest.raises(tilewright.TilewrightError, match=expected) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_splits_are_taken_as_a_mapping_and_choices_are_named() -> None:
    cut = tilewright.tile("rn50_stem", {"H": 4, "W": 2}, node="conv1")
    runs = [
        tilewright.plan(
            "four_convs@16x16", "mcu", layer_by_layer=True, without=names
        ).latency_cycles
        for names in ("prefetch", ["prefetch"], ())
    ]
    assert runs[0] == runs[1] > runs[2]
    assert cut.json == tilewright.tile("rn50_stem", "H=4,W=2", node="conv1").json
    with pytest.raises(tilewright.TilewrightError, match="effort 'lo': has to be one of low, nor"):
        tilewright.plan("four_convs@16x16", "mcu", effort="lo")
    with pytest.raises(tilewright.TilewrightError, match="level 'x': has to be one of"):
        tilewright.partition("four_convs", level="x")
    with pytest.raises(tilewright.TilewrightError, match="without 'prefech': has to be one of"):
        tilewright.plan("four_convs@16x16", "mcu", without=["prefech"])
    with pytest.raises(tilewright.TilewrightError, match="objective 'speed': has to be one of lat"):
        tilewright.plan("four_convs@16x16", "mcu", objective="speed")


def test_help_shows_signatures() -> None:
    shown = pydoc.render_doc(tilewright.plan, renderer=pydoc.plaintext)
    assert "plan(model, on, *, plan=None, layer_by_layer=False" in shown
    assert "effort='normal'" in shown and "How a network runs on a machine" in shown


@pytest.mark.parametrize("job", ["explain", "verify"])
def test_a_plan_on_many_cores_is_refused_in_one_line(job: str) -> None:
    example = ROOT / "examples" / "manycore"
    found = tilewright.allocate(
        net(8), example / "three_cores.yaml", example / "fused.yaml", effort="low", verify=False
    )
    with pytest.raises(tilewright.TilewrightError) as told:
        getattr(api, job)(found)
    text = str(told.value)
    assert "\n" not in text and len(text) < 300
    assert "many cores" in text or "has to be" in text


def test_an_explanation_says_in_python_what_the_command_prints() -> None:
    run = tilewright.plan("four_convs@16x16", "mcu", layer_by_layer=True, verify=False)
    why = tilewright.explain(run)
    printed = explanation_lines(why.plan, why.machine, why.explanation)
    assert list(why.headline()) == printed
    assert any("rule of thumb: join where" in line for line in printed)
    assert why.json["rule_of_thumb"] == RULE_OF_THUMB
    rows = list(why.as_table())
    assert any("the rule of thumb" in str(row["reason"]) for row in rows)
    for row, boundary in zip(rows, why.explanation.boundaries, strict=True):
        assert row["joined_cycles"] == (boundary.trial and boundary.trial.cycles)
        assert row["goes_through"] == boundary.through


@pytest.mark.parametrize("seed", ["x", 1.5, -1, True, None])
def test_seeds_are_whole_numbers(seed: Any) -> None:
    with pytest.raises(tilewright.TilewrightError, match=r"seed .*: has to be a whole number"):
        tilewright.plan("four_convs@16x16", "mcu", layer_by_layer=True, seed=seed)
    with pytest.raises(tilewright.TilewrightError, match=r"seed .*: has to be a whole number"):
        tilewright.shrink("four_convs@16x16", "90%", seed=seed)


def test_errors_of_the_library_do_not_speak_as_commands_do() -> None:
    """Options of the command line stand beside the library's own words, in brackets."""
    package = Path(tilewright.__file__).parent
    bare: list[str] = []
    for path in sorted(package.rglob("*.py")):
        if "cli" in path.relative_to(package).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Raise):
                continue
            text = "".join(
                part.value
                for part in ast.walk(node)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )
            bare += [f"{path.name}: {text}" for _ in re.findall(r"(?<![(\w])(?<!, )--[a-z]", text)]
    assert not bare


def test_faults_of_files_and_plans_are_there_for_programs(tmp_path: Path) -> None:
    """Every kind of mistake has its type, and all faults at once."""
    machine, plan = tmp_path / "mine.yaml", tmp_path / "plan.yaml"
    machine.write_text("extends: mcu\nclock: fast\ncolour: red\n")
    with pytest.raises(tilewright.FileError) as wrong:
        tilewright.machine(machine)
    assert [(fault.line, fault.key) for fault in wrong.value.faults] == [
        (2, "clock"),
        (3, "colour"),
    ]
    own = tilewright.plan("four_convs@16x16", "mcu", layer_by_layer=True, verify=False).plan
    plan.write_text(str(replace(own, resident=("nothing",))))
    with pytest.raises(tilewright.PlanFileError) as wrong:
        tilewright.plan("four_convs@16x16", "mcu", plan=plan)
    assert wrong.value.faults[0].line and isinstance(wrong.value, tilewright.FileError)
    with pytest.raises(tilewright.PlanFaultsError) as other:
        tilewright.plan("four_convs@16x16", "mcu", plan=replace(own, resident=("nothing",)))
    assert other.value.faults
    with pytest.raises(tilewright.BudgetError):
        tilewright.shrink("four_convs@16x16", 10)
    with pytest.raises(tilewright.ModelError):
        tilewright.load("no such network")


@pytest.mark.parametrize("limit", [[1], float("nan"), float("inf"), True, 1.5, "nan"])
def test_a_limit_of_memory_that_is_no_amount(limit: Any) -> None:
    with pytest.raises(tilewright.TilewrightError, match=r"memory_limit|amount of memory"):
        tilewright.plan("four_convs@16x16", on="npu-2.7", memory_limit=limit, verify=False)


def test_partition_takes_the_type_that_is_asked_for_or_none() -> None:
    for machine, dtype in (("npu-2.7", "fp64"), ("h100-sxm", "int2")):
        with pytest.raises(tilewright.TilewrightError, match=f"{machine} has no elements of type"):
            tilewright.partition("four_convs@16x16", on=machine, dtype=dtype)
    half = tilewright.partition("four_convs@16x16", on="npu-2.7", dtype="int8").mapped
    assert half is not None and half.target.dtype == "int8"


def test_what_takes_no_time_says_so() -> None:
    """A split inside a group only looks at what is there otherwise; an activation names the
    operator that it runs in."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        net (float[64, 32] x, float[32, 64] w) => (float[64, 32] y) {
            a = MatMul(x, w)
            b = Relu(a)
            c, d = Split<axis = 1>(b)
            y = Mul(c, d)
        }"""
    )
    names = [node.name for node in tilewright.load(model).graph.nodes]
    groups = [{"nodes": names, "core_split": None}]
    made = {"model": "net", "machine": "npu-2.7", "dtype": "fp16", "groups": groups}
    found = tilewright.plan(model, "npu-2.7", plan=made, verify=False)
    rows = dict(zip(found.layers.column("operator"), found.layers.column("engine"), strict=True))
    assert rows["Split"] == "a view" and rows["Relu"].startswith("folded into ")


def test_outputs_that_are_no_numbers_are_told() -> None:
    """What onnxruntime makes infinite too is no proof of anything."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        net (float[1, 4] x) => (float[1, 4] y) <float[1] zero = {0.0}> { y = Div(x, zero) }"""
    )
    found = tilewright.plan(model, "npu-2.7", fast=True)
    assert any("4 of 4 numbers are infinite or NaN" in note for note in found.planned.notes)
