"""What a person is told of machines: how two of them differ, and what runs in output stages."""

from pathlib import Path
from typing import Any

import pytest

import tilewright
from support.builder import GraphBuilder
from tilewright.results.planned import PlanResult

STAGES: dict[str, Any] = {
    "extends": "npu-2.7",
    "name": "adds",
    "memories": {"ddr": {"bandwidth": "10 GB/s"}},
    "cores": {"cluster": {"engines": {"dpu": {"output_stage": ["bias", "clamp", "add"]}}}},
}


def planned(machine: Any) -> PlanResult:
    b = GraphBuilder()
    x = b.input(1, 16, 8, 8, name="x")
    y = b.add("Conv", x, b.weight(16, 16, 3, 3), pads=(1, 1, 1, 1), name="conv1")
    y = b.add("Relu", y, name="relu1")
    y = b.add("Conv", y, b.weight(16, 16, 3, 3), pads=(1, 1, 1, 1), name="conv2")
    y = b.add("Relu", b.add("Add", x, y, name="add"), name="relu2")
    return tilewright.plan(b.graph(y), machine, layer_by_layer=True, verify=False)


@pytest.fixture(scope="module")
def runs() -> tuple[PlanResult, PlanResult]:
    """The same network without and with a residual sum in the output stage."""
    return planned("npu-2.7"), planned(STAGES)


def test_keys_that_machine_files_differ_in_are_told(runs, command, tmp_path: Path) -> None:
    folders = [str(run.save(tmp_path / name)) for run, name in zip(runs, "ab", strict=True)]
    outcome = command("compare", *folders)
    for line in (
        "machine file, memories.ddr.bandwidth: 27 GB/s -> 10 GB/s",
        "machine file, cores.cluster.engines.dpu.output_stage: [bias, clamp] -> [bias, clamp, add]",
    ):
        assert line in outcome.out
        assert line in "\n".join(tilewright.compare(*runs)[0].headline())
    pairs = command("compare", *folders, "--json").json["compared"][0]["machine_keys"]
    assert pairs["memories.ddr.bandwidth"] == ["27 GB/s", "10 GB/s"]
    assert len(pairs) == 2


def test_keys_of_two_unlike_machines_are_counted() -> None:
    lines = tilewright.compare(planned("npu-2.7"), planned("mcu"))[0].headline()
    told = [line for line in lines if line.startswith("machine file")]
    assert len(told) == 13 and "more keys differ" in told[-1]


def test_operators_that_move_into_an_output_stage_are_told(runs) -> None:
    (difference,) = tilewright.compare(*runs)
    told = [what for region in difference.regions for what in region.what]
    assert "now in an output stage: Add_add (of Conv_conv2), Relu_relu2 (of Conv_conv2)" in told
    (back,) = tilewright.compare(*runs[::-1])
    told = [what for region in back.regions for what in region.what]
    assert (
        "in no output stage now: Add_add" in told
        and "now in an output stage: Relu_relu2 (of Add_add)" in told
    )


def test_operators_in_output_stages_say_in_which(runs, command, tmp_path: Path) -> None:
    run = runs[1]
    hosts = dict(zip(run.layers.column("node"), run.layers.column("engine"), strict=True))
    assert (
        hosts["Relu_relu1"] == "folded into Conv_conv1"
        and hosts["Add_add"] == "folded into Conv_conv2"
    )
    assert (
        "folded       3 operators into output stages (Relu_relu1 into Conv_conv1; Add_add into "
        in str(run)
    )
    explained = tilewright.explain(run)
    assert any(line.startswith("folded 3 operators") for line in explained.headline())
    assert {k: v for g in explained.json["groups"] for k, v in g["folded"].items()} == {
        "Relu_relu1": "Conv_conv1",
        "Add_add": "Conv_conv2",
        "Relu_relu2": "Conv_conv2",
    }
    assert command("explain", run.save(tmp_path / "run")).out.count("into output stages") == 1
    cores = {"cluster": {"engines": {"dpu": {"output_stage": []}}}}
    alone = planned({"extends": "npu-2.7", "cores": cores})
    assert "folded" not in str(alone) and "folded into" not in alone.layers.to_csv()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda m: m.with_memory(512 * 1024), "npu-2.7 with 512 KiB"),
        (lambda m: m.with_memory(1 << 30, "ddr"), "npu-2.7 with ddr of 1 GiB"),
        (lambda m: m.with_memory(1000), "npu-2.7 with 1000 B"),
        (lambda m: m.with_memory("1.5 MiB", "cmx"), "npu-2.7 with cmx of 1536 KiB"),
        (lambda m: m.with_bandwidth("ddr", "20 GB/s"), "npu-2.7 with ddr at 20.0 GB/s"),
        (lambda m: m.with_bandwidth("ddr", 20e9), "npu-2.7 with ddr at 20.0 GB/s"),
        (lambda m: m.with_cores(["cluster1"]), "npu-2.7 with cluster1 only"),
    ],
)
def test_machines_that_were_changed_are_called_so(change, name: str) -> None:
    machine = tilewright.machine("npu-2.7")
    assert change(machine).name == name
    assert machine.name == "npu-2.7"


def test_pooling_executes_no_multiply_accumulates() -> None:
    b = GraphBuilder()
    x = b.input(1, 16, 16, 16, name="x")
    y = b.add("Conv", x, b.weight(16, 16, 3, 3), pads=(1, 1, 1, 1))
    for kind in ("MaxPool", "AveragePool"):
        y = b.add(kind, y, kernel_shape=(2, 2), strides=(2, 2))
    run = tilewright.plan(b.graph(y), "npu-2.7", layer_by_layer=True, verify=False)
    macs = 16 * 16 * 16 * 16 * 9
    assert run.layers.column("macs") == run.layers.column("macs_executed") == [macs, 0, 0]
    assert sum(run.groups.column("macs_executed")) == macs
