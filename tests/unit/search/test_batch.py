"""A batch costs no more than its images, in whichever way it is planned, and runs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilewright import api
from tilewright.execute.compare import Comparison
from tilewright.frontend.builder import Builder
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.model import Model
from tilewright.plan.plan import PlanError, plan_text
from tilewright.plan.read import read_plan
from tilewright.planning import Planned, prepared, proof
from tilewright.planning.judge import proven
from tilewright.planning.proof import prove
from tilewright.search.batch import image_copies, repeated_plan
from tilewright.search.candidates.layers import layer_by_layer
from tilewright.search.candidates.network import Network
from tilewright.search.effort import Effort
from tilewright.tiling.images import by_image

IMAGES = 4


def network(images: int) -> Graph:
    """Large tensors first, large weights last."""
    b = Builder("net")
    x = b.input("input", (images, 3, 24, 24))
    x = b.op("Relu", b.conv(x, 24, 3, pads=1, name="stem"), name="relu")
    y = b.op("Relu", b.conv(x, 24, 3, pads=1, name="one"), name="relu1")
    x = b.op("Add", b.conv(y, 24, 3, pads=1, name="two"), x, name="add")
    x = b.conv(x, 64, 3, stride=2, pads=1, name="down")
    x = b.reshape(b.op("GlobalAveragePool", x, name="pool"), (images, 64), name="flat")
    return b.finish(b.linear(x, 100, name="fc"))


def small(name: str) -> Machine:
    """A machine whose scratchpads hold one image's tensors at best."""
    return load_machine(name).with_memory(64 * 1024)


def planned(images: int, machine: Machine, *, verify: bool = True) -> Planned:
    model = Model("net", network(images), None)
    return api.plan(model, machine, effort=Effort.LOW, verify=verify).planned


@pytest.mark.parametrize("name", ["npu-2.7", "three-core-bus", "mcu"])
def test_a_batch_takes_no_longer_than_its_images(name: str) -> None:
    machine = small(name)
    one, all_of_them = planned(1, machine, verify=False), planned(IMAGES, machine)
    assert all_of_them.verified is not None
    assert all_of_them.account.latency_cycles <= 4.05 * one.account.latency_cycles


def test_a_plan_image_by_image_is_written_read_and_run_again(tmp_path: Path) -> None:
    images = 2 * IMAGES  # more than fit together
    found = planned(images, load_machine("npu-2.7").with_memory(16 * 1024))
    assert found.plan.images == images
    path = tmp_path / "plan.yaml"
    path.write_text(plan_text(found.plan))
    assert read_plan(path) == found.plan
    model = Model("net", network(images), None)
    again = api.plan(model, found.machine, plan=path).planned
    assert again.verified is not None
    assert again.account.latency_cycles == found.account.latency_cycles


def test_images_with_little_room_together_are_planned_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And judged as the batch that they are: by its names, the original's values are known."""
    judged: list[Graph] = []

    def noted(original: Graph, planned: Graph, *rest: Any) -> Comparison:
        judged.append(planned)
        return proven(original, planned, *rest)

    monkeypatch.setattr(proof, "proven", noted)
    machine = load_machine("npu-2.7").with_memory(16 * 1024)
    found = planned(2 * IMAGES, machine)
    assert all({"stem", "down", "fc"} <= set(graph.index) for graph in judged) and judged
    assert found.verified is not None and found.plan.images == 2 * IMAGES
    assert found.found is not None
    assert found.found.rivals[0].name == "layer by layer"


def test_every_core_can_take_an_image() -> None:
    machine = load_machine("npu-2.7")
    model = Model("net", network(IMAGES), None)
    numbered = model.with_numbers(0)
    graph = prepared(numbered, machine, machine.dtype).graph
    images = by_image(graph, IMAGES)
    cores = [(core.name,) for core in machine.cores]
    single = layer_by_layer(images.single, machine.with_cores(cores[0]), machine.dtype, "net")
    plan = repeated_plan(Network(images.graph, machine, machine.dtype), images, single, cores)
    assert {group.cores for group in plan.groups if "two@1" in group.nodes} == {cores[1]}
    found = api.plan(model, machine, plan=plan).planned
    assert found.verified is not None and found.failure is None
    busy = [use.busy for name, use in found.account.engines if name.endswith("dpu")]
    assert len(busy) == len(cores) and min(busy) == max(busy)
    assert prove(found, model, numbered, seed=1).verified is not None


def test_plans_that_repeat_what_they_cannot_are_refused() -> None:
    machine = small("mcu")
    model = Model("net", network(IMAGES), None)
    plan = api.plan(model, machine, layer_by_layer=True, verify=False).plan
    with pytest.raises(PlanError, match="the plan: no operator can be repeated for 3 images"):
        api.plan(model, machine, plan=replace(plan, images=3))
    with pytest.raises(PlanError, match="'stem': no such node"):
        api.plan(model, machine, plan=replace(plan, images=IMAGES))


def test_many_images_go_through_in_few_copies() -> None:
    assert image_copies(network(1)) is None
    assert image_copies(network(24)) == 12
    assert image_copies(network(17)) is None
