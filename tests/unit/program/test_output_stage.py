"""What the output stage of an array does is what the machine's file says: no more, and no less."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from support.builder import GraphBuilder, feeds_of
from support.unlike import core, unlike_cores
from tilewright.errors import TilewrightError
from tilewright.execute.runtime import run
from tilewright.execute.vm import VirtualMachine
from tilewright.frontend.save import serialize
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import FINISHES, Finish, Machine
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.planning import prepared
from tilewright.program.lower import lowered
from tilewright.program.program import Compute
from tilewright.search.bounds.bounds import bounds_of
from tilewright.search.candidates.network import Network
from tilewright.search.fusion import Fusion

NPU = load_machine("npu-2.7")
ALL: tuple[Finish, ...] = ("activation", "scale", "add", "bias", "clamp")


def finishing(*finishes: Finish) -> Machine:
    """The two-cluster machine with another output stage."""
    cores = tuple(
        replace(
            core,
            engines=tuple(
                replace(e, output_stage=finishes) if e.kind == "matrix" else e for e in core.engines
            ),
        )
        for core in NPU.cores
    )
    return replace(NPU, cores=cores)


def block(kind: str) -> Graph:
    """A convolution, and something that an output stage may do to its result."""
    b = GraphBuilder()
    x = b.input(1, 16, 8, 8, name="x")
    y = b.add("Conv", x, b.weight(16, 16, 3, 3), pads=(1, 1, 1, 1), name="conv")
    if kind == "Relu":
        return b.graph(b.add("Relu", y, name="end"))
    if kind == "Sigmoid":
        return b.graph(b.add("Sigmoid", y, name="end"))
    if kind == "scale":  # by a result: a constant one is part of the weights
        gate = b.add("Sigmoid", b.add("GlobalAveragePool", x))
        return b.graph(b.add("Mul", gate, y, name="end"))
    if kind == "product of two":
        return b.graph(b.add("Mul", x, y, name="end"))
    if kind == "residual first":
        return b.graph(b.add("Add", x, y, name="end"))
    assert kind == "residual second"
    return b.graph(b.add("Add", y, x, name="end"))


NEEDED = {
    "Relu": "clamp",
    "Sigmoid": "activation",
    "scale": "scale",
    "residual first": "add",
    "residual second": "add",
    "product of two": None,
}


def inside(graph: Graph, machine: Machine) -> bool:
    """Whether the last operator runs in the task of the convolution, all in one group; executed and
    compared."""
    legal = prepared(graph, machine, "fp16").graph
    groups = (GroupPlan(tuple(node.name for node in legal.nodes), ()),)
    placed = lowered(legal, machine, Plan("block", machine.name, "fp16", groups))
    feeds = feeds_of(graph)
    weights = {n: c.data for n, c in legal.constants.items() if c.data is not None}
    outputs = VirtualMachine(placed, machine, legal.opset).run(feeds, weights).outputs
    for name, expected in run(serialize(graph), feeds).items():
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-4, atol=1e-4)
    works = [task.work for task in placed.program.tasks if isinstance(task.work, Compute)]
    last = legal.nodes[-1].kind
    (kinds,) = [[s.kind for s in w.steps] for w in works if any(s.kind == "Conv" for s in w.steps)]
    assert bounds_of(legal, machine, "fp16").cycles <= placed.schedule.makespan
    return last in kinds


@pytest.mark.parametrize(("kind", "finish"), NEEDED.items())
def test_an_operator_runs_on_the_way_out_where_the_stage_can(
    kind: str, finish: Finish | None
) -> None:
    graph = block(kind)
    others = [each for each in FINISHES if each != finish]
    assert not inside(graph, finishing(*others))
    if finish is not None:
        assert inside(graph, finishing(finish))


@pytest.mark.parametrize("kind", [kind for kind, finish in NEEDED.items() if finish])
def test_a_search_takes_it_as_one_unit(kind: str) -> None:
    graph = prepared(block(kind), NPU, "fp16").graph
    (conv,) = [n for n, node in enumerate(graph.nodes) if node.kind == "Conv"]
    ends = dict[str, bool]()
    for name, stage in STAGES.items():
        home = Network(graph, finishing(*stage), "fp16").home
        ends[name] = home[len(graph.nodes) - 1] == home[conv]
    # Of what else is read, the gate is made behind the convolution here: units run in order.
    assert ends == {"all": kind != "scale", "none": False}


STAGES: dict[str, tuple[Finish, ...]] = {"all": ALL, "none": ()}


def residual_blocks() -> Graph:
    """Residual blocks of both orders of the sum, a projection, and activations between."""
    b = GraphBuilder()
    x = b.input(1, 16, 12, 12, name="x")
    conv = partial(b.add, "Conv")
    for first in (False, True):
        y = b.add("Sigmoid", conv(x, b.weight(16, 16, 3, 3), pads=(1, 1, 1, 1)))
        y = conv(y, b.weight(16, 16, 1, 1))
        x = b.add("Relu", b.add("Add", *((x, y) if first else (y, x))))
    projected = conv(x, b.weight(32, 16, 1, 1))
    y = conv(x, b.weight(32, 16, 3, 3), pads=(1, 1, 1, 1))
    return b.graph(b.add("Tanh", b.add("Add", y, projected)))


def test_searched_plans_with_a_full_stage_run_and_are_faster() -> None:
    graph, cycles = residual_blocks(), dict[str, int]()
    for name, stage in STAGES.items():
        machine = finishing(*stage)
        legal = prepared(graph, machine, "fp16").graph
        found = Fusion(legal, machine, "fp16", "blocks").run(fast=True).best
        placed = lowered(legal, machine, found.plan)
        assert placed.schedule.makespan == found.cycles
        feeds = feeds_of(graph)
        weights = {n: c.data for n, c in legal.constants.items() if c.data is not None}
        outputs = VirtualMachine(placed, machine, legal.opset).run(feeds, weights).outputs
        for output, expected in run(serialize(graph), feeds).items():
            np.testing.assert_allclose(outputs[output], expected, rtol=1e-4, atol=1e-4)
        assert bounds_of(legal, machine, "fp16").cycles <= found.cycles
        cycles[name] = found.cycles
    assert cycles["all"] < cycles["none"]


def test_what_is_added_is_read_and_costs_energy() -> None:
    graph = prepared(block("residual first"), NPU, "fp16").graph
    groups = (GroupPlan(tuple(node.name for node in graph.nodes), ()),)
    machine = finishing("add")
    placed = lowered(graph, machine, Plan("block", machine.name, "fp16", groups))
    (task,) = [t for t in placed.program.tasks if isinstance(t.work, Compute)]
    assert isinstance(task.work, Compute) and task.work.workload.added == 16 * 8 * 8
    alone = prepared(block("Relu"), NPU, "fp16").graph
    groups = (GroupPlan(tuple(node.name for node in alone.nodes), ()),)
    plain = lowered(alone, NPU, Plan("block", NPU.name, "fp16", groups))
    (other,) = [t for t in plain.program.tasks if isinstance(t.work, Compute)]
    each = NPU.cores[0].memory.read_pj_per_byte
    assert task.cycles == other.cycles
    assert task.energy_pj == pytest.approx(other.energy_pj + 16 * 8 * 8 * 2 * each)


def test_files_say_what_the_stage_does() -> None:
    machine = unlike_cores(a=core(8, output_stage=["add", "bias"]), b=core(8))
    a, b = (core.engines[0].output_stage for core in machine.cores)
    assert a == ("bias", "add") and b == ("bias", "clamp")
    assert machine.finishes == {"bias", "add", "clamp"}
    assert all(e.output_stage == () for core in machine.cores for e in core.engines[1:])


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        (["gelu"], "output_stage"),
        ("add", "output_stage"),
        (["bias", "add", "bias"], r"engines\.array\.output_stage: names 'bias' 2 times"),
    ],
)
def test_stages_that_no_machine_has_are_refused(stage: list[str], text: str) -> None:
    with pytest.raises(TilewrightError, match=text):
        unlike_cores(a=core(8, output_stage=stage))


def test_a_machine_says_what_its_stages_do_even_if_that_is_nothing() -> None:
    told = [line for line in str(finishing()).splitlines() if "engine" in line]
    assert [line.endswith("output stage: does nothing") for line in told] == [True, False] * 2
    assert "output stage: clamp, scale" in str(finishing("clamp", "scale"))


def test_a_stage_takes_a_chain_in_any_order() -> None:
    b = GraphBuilder()
    x = b.input(1, 16, 8, 8, name="x")
    y = b.add("Conv", x, b.weight(16, 16, 3, 3), pads=(1, 1, 1, 1))
    for kind in ("Relu", "Add", "Sigmoid", "Relu", "Add"):
        y = b.add(kind, *((y, x) if kind == "Add" else (y,)))
    assert inside(b.graph(y), finishing(*ALL))


def test_vector_engines_have_none() -> None:
    given = core(8)
    given["engines"]["simd"]["output_stage"] = ["clamp"]
    with pytest.raises(TilewrightError, match=r"cores\.a\.engines\.simd\.output_stage"):
        unlike_cores(a=given)
