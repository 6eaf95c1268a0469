"""Resident tensors that a concat joins, or that are taken out of another, lie together: makers
write their part, readers read it there, and nothing is copied."""

from collections.abc import Callable

import pytest

from support.builder import GraphBuilder
from support.random_plans import case_of
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.program.place import Placed
from tilewright.program.program import Compute
from tilewright.tiling.grid import Split

pytestmark = pytest.mark.quick

NPU = load_machine("npu-2.7")
ROWS = (Split(2, 2),)
MOVES = {"Concat", "Split", "Slice"}


def conv(b: GraphBuilder, x: str, filters: int, kernel: int = 1, name: str | None = None) -> str:
    weight = b.weight(filters, b.shape(x)[1], kernel, kernel)
    return b.add("Conv", x, weight, pads=[kernel // 2] * 4, name=name)


def concat(channels: int = 32, axis: int = 1) -> Graph:
    """Two convolutions, joined, and a third that reads rows around its own."""
    b = GraphBuilder()
    x = b.input(1, 16, 24, 20)
    both = b.add("Concat", conv(b, x, channels), conv(b, x, channels), axis=axis, name="both")
    return b.graph(conv(b, both, 16, 3))


def c2f() -> Graph:
    """A split whose second half goes through two convolutions; all of it joined again."""
    b = GraphBuilder()
    x = conv(b, b.input(1, 16, 12, 10), 32)
    first = b.add("Split", x, b.constant([16, 16]), outputs=2, axis=1)
    third = conv(b, f"{first}.1", 16, 3)
    fourth = conv(b, third, 16, 3)
    return b.graph(conv(b, b.add("Concat", first, f"{first}.1", third, fourth, axis=1), 16))


def dense() -> Graph:
    """Concats of concats, each read by a convolution."""
    b = GraphBuilder()
    x = conv(b, b.input(1, 16, 12, 10), 16)
    for _ in range(3):
        x = b.add("Concat", x, conv(b, x, 16, 3), axis=1)
    return b.graph(conv(b, x, 16))


def slices() -> Graph:
    """Parts of a tensor that overlap."""
    b = GraphBuilder()
    x = conv(b, b.input(1, 16, 12, 10), 48)
    parts = [
        b.add("Slice", x, b.constant([start]), b.constant([start + 32]), b.constant([1]))
        for start in (0, 16)
    ]
    return b.graph(b.add("Add", *[conv(b, part, 16, 3) for part in parts]))


def pairs(*orders: tuple[int, int]) -> Graph:
    """Two concats, each of two of three tensors."""
    b = GraphBuilder()
    x = b.input(1, 16, 12, 10)
    three = [conv(b, x, 16) for _ in range(3)]
    joined = [b.add("Concat", three[one], three[two], axis=1) for one, two in orders]
    return b.graph(b.add("Add", *[conv(b, pair, 16, 3) for pair in joined]))


def in_two_concats() -> Graph:
    """A tensor that two concats join with others, at different places."""
    return pairs((0, 1), (2, 0))


def beside_another() -> Graph:
    """Two concats that begin with the same tensor: what follows it there differs."""
    return pairs((0, 1), (0, 2))


def executed(graph: Graph, machine: Machine, *joined: str) -> Placed:
    """Every node by itself, but for kinds that are `joined` with what reads them, cut by rows and
    divided among the cores; all between groups resident. Validated, run and compared."""
    case = case_of(graph, machine)
    assert case is not None
    legal, groups = case.graph, list[tuple[str, ...]]()
    for node in legal.nodes:
        before = [legal.nodes[p] for p in legal.predecessors(legal.index[node.name])]
        mine = [p.name for p in before if p.kind in joined]
        groups = [g for g in groups if not set(g) & set(mine)] + [
            (*(name for g in groups if set(g) & set(mine) for name in g), node.name)
        ]
    made = {name: number for number, g in enumerate(groups) for name in g}
    crossing = [
        name
        for name, maker in legal.producer.items()
        if any(
            made[legal.nodes[reader].name] != made[legal.nodes[maker].name]
            for reader in legal.consumers.get(name, ())
        )
    ]
    split = tuple(GroupPlan(nodes, ROWS, 0) for nodes in groups)
    return case.check(Plan("net", machine.name, machine.dtype, split, tuple(crossing)))


def copied(graph: Graph, placed: Placed) -> list[str]:
    """Kinds of data movement that tasks are left of."""
    kinds = {node.name: node.kind for node in graph.nodes if node.kind in MOVES}
    done = {task.node for task in placed.program.tasks if isinstance(task.work, Compute)}
    return sorted(kinds[name] for name in done & kinds.keys())


@pytest.mark.parametrize("network", [concat, lambda: concat(axis=2), c2f, dense, slices])
@pytest.mark.parametrize("machine", [NPU, load_machine("mcu"), load_machine("npu-4.0")])
def test_nothing_is_moved_between_resident_tensors(
    network: Callable[[], Graph], machine: Machine
) -> None:
    graph = network()
    assert copied(graph, executed(graph, machine)) == []


@pytest.mark.parametrize("network", [concat, c2f, dense])
def test_what_reads_a_concat_in_its_group_finds_it_in_the_parts(
    network: Callable[[], Graph],
) -> None:
    graph = network()
    assert copied(graph, executed(graph, NPU, "Concat")) == []


def test_what_a_group_makes_itself_is_written_beside_what_is_resident() -> None:
    """One operand of the concat is resident, the other is computed tile by tile in its group."""
    b = GraphBuilder()
    x = b.input(1, 16, 12, 10)
    one = b.add("Relu", conv(b, x, 16), name="one")
    two = b.add("Sigmoid", conv(b, one, 16, 3), name="two")
    graph = b.graph(conv(b, b.add("Concat", one, two, axis=1), 16))
    assert copied(graph, executed(graph, NPU, "Sigmoid", "Concat")) == []


def test_all_parts_are_in_one_buffer_of_every_core() -> None:
    placed = executed(concat(), NPU)
    inside = [b for b in placed.program.buffers if b.name == "both"]
    assert {b.memory for b in inside} == {core.memory.name for core in NPU.cores}
    makers = [t for t in placed.program.tasks if isinstance(t.work, Compute)][:2]
    assert {placed.program.buffers[t.writes[0].buffer].name for t in makers} == {"both"}


@pytest.mark.parametrize("network", [in_two_concats, beside_another])
def test_a_place_that_two_would_need_goes_to_the_first(network: Callable[[], Graph]) -> None:
    graph = network()
    placed = executed(graph, NPU)
    assert copied(graph, placed) == ["Concat"] * (network is beside_another)


def test_a_result_of_the_network_that_nothing_else_reads_lies_with_its_parts() -> None:
    b = GraphBuilder()
    x = b.input(1, 16, 12, 10)
    one, two = conv(b, x, 64), conv(b, x, 64)
    case = case_of(b.graph(b.add("Concat", one, two, axis=1, name="both")), NPU)
    assert case is not None
    groups = tuple(GroupPlan((node.name,), ROWS, 0) for node in case.graph.nodes)
    placed = case.check(Plan("net", NPU.name, NPU.dtype, groups, (one, two, "both")))
    assert copied(case.graph, placed) == []


def test_rows_that_engines_would_not_find_are_copied() -> None:
    graph = concat(channels=24)  # arrays read channels in sixteens
    assert copied(graph, executed(graph, NPU)) == ["Concat"]


def test_tensors_lie_apart_where_there_is_no_room_to_hold_all_of_them_from_the_start() -> None:
    """The second half of a concat is made when most of what is between is gone: both halves
    together, all that time, are too many bytes."""
    b = GraphBuilder()
    skip = conv(b, b.input(1, 16, 16, 16), 16)
    wide = b.add("Relu", conv(b, skip, 96))
    late = conv(b, wide, 64)
    graph = b.graph(conv(b, b.add("Concat", skip, late, axis=1), 16))
    for kibibytes, kinds in ((96, []), (64, ["Concat"])):
        machine = NPU.with_memory(kibibytes * 1024)
        assert copied(graph, executed(graph, machine)) == kinds
