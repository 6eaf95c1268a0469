"""Each pass keeps the promise of its docstring, on a small program for two cores; and every stage
computes what the network does."""

from collections import Counter
from dataclasses import FrozenInstanceError, fields, is_dataclass

import numpy as np
import pytest

from support.builder import GraphBuilder, feeds_of
from support.two_cores import TwoCores, place_of, titled, two_cores, two_cores_network
from tilewright.execute.runtime import run
from tilewright.execute.vm import VirtualMachine
from tilewright.frontend.save import serialize
from tilewright.machine.load import load_machine, machine_of
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.planning import prepared
from tilewright.planning.proof import validate
from tilewright.program.kernels.link import link
from tilewright.program.lower import BUILD, lowered, stages
from tilewright.program.lowering import Lowering
from tilewright.program.materialise import program_of
from tilewright.program.pipeline import PASSES, STEPS, description
from tilewright.program.place import place
from tilewright.program.program import Compute, Program, Task, Transfer, View
from tilewright.program.verify import verify_program
from tilewright.tiling.grid import Split

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def case() -> TwoCores:
    return two_cores()


def kinds(task: Task) -> tuple[str, ...]:
    """The operators that a task runs."""
    return tuple(s.kind for s in task.work.steps) if isinstance(task.work, Compute) else ()


def loads(program: Program) -> list[Task]:
    return titled(program, "load ")


def memories(program: Program, task: Task) -> list[str]:
    """Where a task writes to."""
    return [program.buffers[view.buffer].memory for view in task.writes]


# --- all of them --------------------------------------------------------------------------------


def test_steps_are_frozen_values_that_say_what_they_do() -> None:
    for step in STEPS:
        assert is_dataclass(step)
        assert description(step) and step.requires and step.ensures
        with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
            step.name = "other"  # type: ignore[misc]
        for option in fields(step):
            with pytest.raises(FrozenInstanceError):
                setattr(step, option.name, 0)


@pytest.mark.parametrize("step", [BUILD, *(step.name for step in PASSES)])
def test_the_program_behind_each_step_is_sound_and_right(case: TwoCores, step: str) -> None:
    program = case.after(step)
    verify_program(program, case.machine)
    original = two_cores_network()
    feeds = feeds_of(original)
    weights = {n: c.data for n, c in case.graph.constants.items() if c.data is not None}
    placed = place(program, case.machine, deal=False)
    outputs = VirtualMachine(placed, case.machine, case.graph.opset).run(feeds, weights).outputs
    for name, expected in run(serialize(original), feeds).items():
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-5, atol=1e-5)


# --- within a group -----------------------------------------------------------------------------


def test_fold_joins_an_activation_with_the_product_before_it(case: TwoCores) -> None:
    step = "fold-activations"
    before, after = case.before(step), case.after(step)
    assert Counter(map(kinds, before.tasks))["Relu",] == 4
    found = Counter(kinds(task) for task in after.tasks if kinds(task))
    assert found == {("Conv", "Relu"): 4, ("Softmax",): 4, ("Conv",): 2}
    folded = [task for task in after.tasks if kinds(task) == ("Conv", "Relu")]
    assert all(task.engine.endswith(".dpu") for task in folded)
    gone = {b.name for b in before.buffers} - {b.name for b in after.buffers}
    assert gone == {f"conv@{tile}" for tile in range(4)}  # what lay in between


def test_duplicates_load_once_what_the_tile_before_has(case: TwoCores) -> None:
    step = "duplicate-copies"
    before, after = case.before(step), case.after(step)

    def into(program: Program) -> Counter[tuple[str, View]]:
        return Counter((memories(program, t)[0], t.reads[0]) for t in loads(program))

    assert max(into(before).values()) == 2  # each core loads its weights for both of its tiles
    assert set(into(after).values()) == {1}
    assert set(into(before)) == set(into(after))  # nothing that is read is left out


@pytest.mark.parametrize(("room", "times"), [("4 MiB", 1), ("128 KiB", 2)])
def test_duplicates_bring_weights_once_to_an_l2_that_has_room(room: str, times: int) -> None:
    """Rows outside, channels inside: every part of the weights is used again four tiles later."""
    tree = {"name": "small", "extends": "eight-core-l2", "memories": {"l2": {"capacity": room}}}
    machine = machine_of(tree, "small")
    b = GraphBuilder()
    network = b.graph(b.add("Conv", b.input(1, 128, 18, 18), b.weight(128, 128, 3, 3), name="conv"))
    graph = prepared(network, machine, machine.dtype).graph
    group = GroupPlan((graph.nodes[0].name,), (Split(2, 16), Split(1, 4)), 0)
    plan = Plan("reuse", machine.name, machine.dtype, (group,))
    program = dict(stages(Lowering(graph, machine, machine.dtype), plan))["duplicate-copies"]
    (weights,) = graph.constants
    found = Counter(
        task.reads[0]
        for task in loads(program)
        if program.buffers[task.reads[0].buffer].name == weights
    )
    assert len(found) == 4 and set(found.values()) == {times}


def test_multicast_reads_once_what_both_cores_load(case: TwoCores) -> None:
    step = "multicast"
    before, after = case.before(step), case.after(step)
    twice = {view for view, n in Counter(t.reads[0] for t in loads(before)).items() if n == 2}
    assert len(twice) == 2  # weights of both products
    for task in loads(after):
        cores = 2 if task.reads[0] in twice else 1
        assert len(set(memories(after, task))) == len(task.writes) == cores
    assert len({t.reads[0] for t in loads(after)}) == len(loads(after))


def test_reshape_never_costs_more_and_moves_nothing(case: TwoCores) -> None:
    step = "implicit-reshape"
    before, after = case.before(step), case.after(step)
    pairs = list(zip(before.tasks, after.tasks, strict=True))
    assert all(a.cycles <= b.cycles for b, a in pairs)
    assert any(a.cycles < b.cycles for b, a in pairs)
    for b, a in pairs:
        assert (a.name, a.engine, a.reads, a.writes) == (b.name, b.engine, b.reads, b.writes)
        if isinstance(a.work, Transfer):
            assert (a.cycles, a.moved) == (b.cycles, b.moved)


def test_pipelining_runs_the_next_product_before_the_vector_work(case: TwoCores) -> None:
    """On the same core, so that both of its engines have something to do."""
    step = "pipelining"
    before, after = case.before(step), case.after(step)
    for first, second in ((0, 1), (2, 3)):
        product, vector = f"Conv_conv@{second}+Relu", f"Softmax_soft@{first}"
        assert place_of(before, product) > place_of(before, vector)
        assert place_of(after, product) < place_of(after, vector)
    assert Counter(t.name for t in before.tasks) == Counter(t.name for t in after.tasks)


# --- over all groups ----------------------------------------------------------------------------


def test_prefetch_issues_loads_ahead_of_work_they_do_not_need(case: TwoCores) -> None:
    """Weights of the second group come while the first still runs; the order of all that is no
    load stays, and so do the reads and writes of all tasks."""
    step = "prefetch"
    before, after = case.before(step), case.after(step)
    weights = next(t.name for t in loads(before) if t.name.startswith("load c6"))
    stores = [task.name for task in titled(before, "store soft")]
    assert all(place_of(before, weights) > place_of(before, store) for store in stores)
    assert all(place_of(after, weights) < place_of(after, store) for store in stores)

    def rest(program: Program) -> list[tuple[str, tuple[View, ...]]]:
        return [(t.name, t.writes) for t in program.tasks if not t.name.startswith("load ")]

    assert rest(before) == rest(after)
    assert {t.name: t.reads for t in loads(before)} == {t.name: t.reads for t in loads(after)}
    for number, task in enumerate(after.tasks):
        assert all(need < number for need in task.after)


def test_queues_deal_copies_out_over_the_links(case: TwoCores) -> None:
    """In the order they start: what tasks do and wait for stays, and so does the order on each
    engine of a core."""
    step = "copy-queues"
    before, after = case.before(step), case.after(step)
    links = {link.name: link for link in case.machine.links}
    assert len({t.engine for t in loads(before)}) == 1
    assert len({t.engine for t in loads(after)}) == 2

    def content(program: Program) -> dict[str, object]:
        names = [task.name for task in program.tasks]
        return {t.name: (t.reads, t.writes, {names[n] for n in t.after}) for t in program.tasks}

    def computed(program: Program) -> dict[str, list[str]]:
        engines = {t.engine for t in program.tasks if not isinstance(t.work, Transfer)}
        return {e: [t.name for t in program.tasks if t.engine == e] for e in engines}

    assert content(before) == content(after)
    assert computed(before) == computed(after)
    for number, task in enumerate(after.tasks):
        assert all(need < number for need in task.after)
        if isinstance(task.work, Transfer):
            assert links[task.engine].route(*task.work.route) is not None


# --- results over operands ----------------------------------------------------------------------


def chain(second: str, *, twice: bool = False, output: bool = False) -> set[str]:
    """A product, a softmax and another operator, in two tiles of one group: the kinds of those
    whose result may lie over an operand."""
    tree = {"name": "one", "extends": "npu-2.7", "cores": {"cluster": {"count": 1}}}
    machine = machine_of(tree, "one")
    b = GraphBuilder()
    x = b.add("MatMul", b.input(8, 16, name="x"), b.weight(16, 16), name="product")
    y = b.add("Softmax", x, axis=-1, name="first")
    z = b.add(second, y, *((x,) if twice else ()), name="second")
    graph = prepared(b.graph(z, *((x,) if output else ())), machine, machine.dtype).graph
    group = GroupPlan(tuple(node.name for node in graph.nodes), (Split(0, 2),))
    lowering = Lowering(graph, machine, machine.dtype)
    linked = lowering.linked(Plan("chain", machine.name, machine.dtype, (group,)))
    columns = linked.columns
    program = program_of(lowering, linked, link(columns, lowering.context.tables.views))
    return {
        kinds(task)[0]
        for task in program.tasks
        for view in task.writes
        if columns.over[view.buffer] >= 0
    }


def test_results_may_lie_over_operands_that_die() -> None:
    assert chain("Exp") == {"Softmax", "Exp"}
    assert chain("Add", twice=True) == {"Add"}  # the product is read once more
    assert chain("Exp", output=True) == {"Exp"}  # or stored
    assert chain("Transpose") == {"Softmax"}


def test_where_room_is_short_results_lie_over_operands() -> None:
    """A softmax in tiles that fill the scratchpad: executed, and faster than beside each other."""
    b = GraphBuilder()
    x = b.add("Softmax", b.input(8, 64, 64, name="x"), axis=-1)
    network = b.graph(b.add("Exp", x))
    machine = load_machine("npu-2.7").with_memory(16 * 1024)
    graph = prepared(network, machine, machine.dtype).graph
    group = GroupPlan(tuple(node.name for node in graph.nodes), (Split(0, 8),), 0)
    plan = Plan("softmax", machine.name, machine.dtype, (group,))
    placed = lowered(graph, machine, plan)
    over = [t for t in placed.program.tasks if kinds(t) and set(t.reads) & set(t.writes)]
    assert over
    validate(placed, machine)
    feeds = feeds_of(network)
    outputs = VirtualMachine(placed, machine, graph.opset).run(feeds, {}).outputs
    for name, expected in run(serialize(network), feeds).items():
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-4, atol=1e-4)
    beside = lowered(graph, machine, plan, frozenset({"in-place"}))
    assert beside.schedule.makespan > placed.schedule.makespan
    roomy = machine.with_memory(1024 * 1024)
    there = lowered(graph, roomy, plan).program.tasks
    assert not any(set(task.reads) & set(task.writes) for task in there)
