"""Groups that name their cores, cores that differ, and memories between the main one and the
cores: lowered, validated, executed."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.networks import residual, u_shape
from tilewright import api
from tilewright.execute.runtime import run
from tilewright.execute.vm import VirtualMachine
from tilewright.frontend.builder import Builder
from tilewright.frontend.normalize import normalize
from tilewright.frontend.save import serialize
from tilewright.frontend.weights import seeded, seeded_inputs
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.plan.plan import GroupPlan, Place, Plan, PlanError
from tilewright.program.faults import LoweringError
from tilewright.program.lower import lowered
from tilewright.program.metrics import metrics_of_placed
from tilewright.program.place import Placed
from tilewright.program.verify import verify_placed, verify_program
from tilewright.search.bounds.bounds import bounds_of
from tilewright.search.fusion import Fusion
from tilewright.tiling.grid import Split

MACHINES = ("npu-2.7", "three-core-bus", "mixed-cores", "eight-core-l2")


def two_branches(channels: int = 16) -> Graph:
    """Two convolutions of the same input: nothing orders them."""
    b = Builder("net")
    x = b.input("x", (1, channels, 32, 32))
    left = b.conv(x, 32, 3, pads=1, bias=True, name="left")
    right = b.conv(x, 32, 3, pads=1, bias=True, name="right")
    return seeded(b.finish(left, right), 0)


def plan_on(graph: Graph, machine: Machine, *cores: tuple[str, ...]) -> Plan:
    groups = tuple(
        GroupPlan((node.name,), (Split(2, 2),), 0, cores=some)
        for node, some in zip(graph.nodes, cores, strict=True)
    )
    return Plan(graph.name, machine.name, machine.dtype, groups)


def test_what_some_cores_all_compute_reaches_the_others() -> None:
    """Every core that is named computes all of it; the cores that are not are given it."""
    machine = load_machine("three-core-bus")
    b = Builder("net")
    first = b.conv(b.input("x", (1, 8, 12, 12)), 8, 3, pads=1, name="first")
    graph = seeded(b.finish(b.conv(first, 8, 3, pads=1, name="second")), 0)
    some = tuple(core.name for core in machine.cores[1:])
    groups = (
        GroupPlan(("first",), (), None, replicated=True, cores=some),
        GroupPlan(("second",), (Split(2, 3),), 0),
    )
    plan = Plan("net", machine.name, machine.dtype, groups, ("first",))
    check(graph, graph, machine, lowered(graph, machine, plan))


def check(original: Graph, graph: Graph, machine: Machine, placed: Placed) -> None:
    """Validate, execute, compare."""
    verify_program(placed.program, machine)
    verify_placed(placed, machine)
    feeds = seeded_inputs(original, 0)
    weights = {name: c.data for name, c in graph.constants.items() if c.data is not None}
    got = VirtualMachine(placed, machine, graph.opset).run(feeds, weights).outputs
    for name, expected in run(serialize(original), feeds).items():
        assert np.allclose(got[name], expected, atol=1e-4)


@pytest.mark.parametrize("name", MACHINES)
def test_groups_run_on_the_cores_they_name(name: str) -> None:
    original, machine = two_branches(), load_machine(name)
    graph = normalize(original)
    one, other = (core.name for core in machine.cores[:2])
    placed = lowered(graph, machine, plan_on(graph, machine, (one,), (other,)))
    check(original, graph, machine, placed)
    home = {engine.name: engine.core for engine in machine.engines}
    cores = [
        {home[t.engine] for t in placed.program.tasks if t.engine in home and t.group == g}
        for g in (0, 1)
    ]
    assert cores == [{one}, {other}]
    assert placed.schedule.makespan >= bounds_of(graph, machine, machine.dtype).cycles


def test_groups_on_different_cores_run_side_by_side() -> None:
    original, machine = two_branches(channels=48), load_machine("three-core-bus")
    graph = normalize(original)
    cores = [core.name for core in machine.cores]
    behind = lowered(graph, machine, plan_on(graph, machine, (cores[0],), (cores[0],)))
    beside = lowered(graph, machine, plan_on(graph, machine, (cores[0],), (cores[1],)))
    assert beside.schedule.makespan < 0.8 * behind.schedule.makespan
    spans = []
    for group in (0, 1):
        inside = [n for n, t in enumerate(beside.program.tasks) if t.group == group]
        spans.append((beside.schedule.start[inside].min(), beside.schedule.end[inside].max()))
    assert spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1]


def test_a_core_that_is_not_there_is_named() -> None:
    machine = load_machine("npu-2.7")
    graph = normalize(two_branches())
    with pytest.raises(LoweringError, match="cluster9"):
        lowered(graph, machine, plan_on(graph, machine, ("cluster9",), ()))


@pytest.mark.parametrize("name", ["eight-core-l2", "mixed-cores", "three-core-bus"])
def test_machines_with_levels_and_unlike_cores_are_searched_and_executed(name: str) -> None:
    machine = load_machine(name)
    planned = api.plan(api.load("four_convs@32x32"), machine, fast=True).planned
    assert planned.verified is not None and planned.verified.tasks > 0
    assert planned.account.latency_cycles >= planned.bounds.cycles


def test_copies_pass_the_memory_between() -> None:
    """No link leads from DRAM to a core: everything goes through the L2, which holds it."""
    original, machine = two_branches(), load_machine("eight-core-l2")
    graph = normalize(original)
    placed = lowered(graph, machine, plan_on(graph, machine, (), ()))
    highest = dict(placed.highest)
    assert 0 < highest["l2"] <= machine.memory("l2").usable


def chain() -> Graph:
    b = Builder("net")
    x = b.input("x", (1, 16, 32, 32))
    x = b.conv(x, 32, 3, pads=1, bias=True, name="one")
    x = b.conv(x, 32, 3, pads=1, bias=True, name="two")
    return seeded(b.finish(b.conv(x, 16, 3, pads=1, bias=True, name="three")), 0)


def test_tensors_that_lie_in_a_shared_memory_never_see_the_main_one() -> None:
    original, machine = chain(), load_machine("eight-core-l2")
    graph = normalize(original)
    plain = plan_on(graph, machine, (), (), ())
    passed = graph.nodes[0].outputs[0], graph.nodes[1].outputs[0]
    shared = replace(plain, shared=(("l2", passed),))
    before, after = lowered(graph, machine, plain), lowered(graph, machine, shared)
    check(original, graph, machine, after)
    written_and_read = 2 * sum(graph.types[name].size for name in passed)  # int8: bytes
    assert traffic(before) - traffic(after) >= written_and_read
    homes = {b.value: b.memory for b in after.program.buffers if "@" not in b.name}
    assert [homes[name] for name in passed] == ["l2", "l2"]


def traffic(placed: Placed) -> int:
    return metrics_of_placed(placed, "dram").dram_bytes


@pytest.mark.parametrize(
    ("memory", "tensor", "why"),
    [
        (
            "l3",
            0,
            "'l3' is no memory: of memories that all cores of eight-core-l2 share, there are",
        ),
        ("dram", 0, "'dram' is the main memory"),
        ("core0.sram", 0, "'core0.sram' is a core's own"),
        ("l2", 2, "cannot lie in l2: it is a result of the network"),
        ("l2", None, "'nowhere' cannot lie in l2: no operator makes it"),
    ],
)
def test_what_cannot_lie_in_a_shared_memory_is_told(
    memory: str, tensor: int | None, why: str
) -> None:
    machine = load_machine("eight-core-l2")
    graph = normalize(chain())
    name = "nowhere" if tensor is None else graph.nodes[tensor].outputs[0]
    plan = replace(plan_on(graph, machine, (), (), ()), shared=((memory, (name,)),))
    with pytest.raises(LoweringError, match=re.escape(why)):
        lowered(graph, machine, plan)


def test_all_links_that_carry_no_loads_share_the_copies() -> None:
    """Four links lead from the L2 to the cores, and none of them from DRAM."""
    machine = load_machine("eight-core-l2")
    graph = normalize(chain())
    placed = lowered(graph, machine, plan_on(graph, machine, (), (), ()))
    used = {task.engine for task in placed.program.tasks if task.engine.startswith("fabric")}
    assert len(used) > 1


def test_the_search_passes_on_through_shared_memories_what_is_not_kept() -> None:
    machine = load_machine("eight-core-l2")
    graph = normalize(chain())
    search = Fusion(graph, machine, machine.dtype, "chain")
    search.begin()
    before = search.best()
    search._share()
    after = search.best()
    ((memory, names),) = after.plan.shared
    assert memory == "l2" and set(names) == {node.outputs[0] for node in graph.nodes[:2]}
    assert after.metrics.cycles < before.metrics.cycles
    assert after.metrics.dram_bytes < before.metrics.dram_bytes


def test_a_view_cannot_lie_in_a_shared_memory_nor_what_it_is_made_of(tmp_path: Path) -> None:
    """Refused with the line, where the program once read bytes that nothing had written."""
    machine = load_machine("eight-core-l2")
    model = api.load(seeded(u_shape()))
    plain = api.plan(model, machine, layer_by_layer=True, verify=False).plan
    (join,) = (group for group in plain.groups if "join" in group.nodes)
    assert join.place is Place.VIEW
    path = tmp_path / "plan.yaml"
    for name in ("join", "up"):
        path.write_text(str(replace(plain, shared=(("l2", (name,)),))))
        line = 1 + path.read_text().splitlines().index(f"  l2: [{name}]")
        why = f"plan.yaml:{line}: '{name}' cannot lie in l2: operators outside the cores use it"
        with pytest.raises(PlanError, match=re.escape(why)):
            api.plan(model, machine, plan=path, verify=False)


def test_a_tensor_that_no_link_copies_within_its_scratchpad_is_refused(tmp_path: Path) -> None:
    """Its own group reads it with a halo, and gives it on without: that takes a copy on the core,
    which a machine need not be able to make."""
    model = api.load(seeded(residual()))
    splits = (Split(2, 2),)
    first, rest = ("stem", "conv1", "relu1"), ("conv2", "add", "relu2")
    plan = Plan(
        "residual",
        "mcu",
        "int8",
        (GroupPlan(first, splits), GroupPlan(rest, splits)),
        resident=("relu1", "stem"),
    )
    path = tmp_path / "plan.yaml"
    path.write_text(str(plan))
    machine = load_machine("mcu")
    assert not any(machine.routes(machine.cores[0].memory.name, machine.cores[0].memory.name))
    with pytest.raises(PlanError, match="'stem' cannot be resident: its own group reads") as error:
        api.plan(model, machine, plan=path, verify=False)
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "stem]" in text)
    assert f"plan.yaml:{line}: " in str(error.value)
