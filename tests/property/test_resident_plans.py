"""Any plan that can be lowered is right: random networks, groups, cuts, spreads and resident
tensors, on machines with one core, two and more, with much memory and little.

`TILEWRIGHT_EXAMPLES=20 pytest tests/property` searches twenty times as long.
"""

import os
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.builder import GraphBuilder
from support.random_plans import (
    aligned,
    case_of,
    depthwise,
    halves,
    joined,
    plans,
    pointwise,
    squeeze,
    with_copies_inside,
)
from support.strategies import (
    LAYOUT,
    Operator,
    concat,
    conv,
    conv3,
    matmul,
    networks,
    norm,
    pool,
    residual,
    resize,
    softmax,
    transposed,
    unary,
)
from tilewright.errors import TilewrightError
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.tiling.grid import Halo, Split

MORE = int(os.environ.get("TILEWRIGHT_EXAMPLES", "1"))
MACHINES = {name: load_machine(name) for name in ("npu-2.7", "npu-4.0", "mcu", "three-core-bus")}
KIBIBYTES = (None, 8, 16, 24, 40, 64, 128)
IMAGES = ((1, 8, 24, 20), (1, 4, 32, 16), (2, 3, 12, 10))
OTHERS = ((1, 4, 9, 8), (2, 6, 5), (1, 2, 12), (5, 6))


def family(
    operators: tuple[Operator, ...],
    examples: int,
    shapes: tuple[tuple[int, ...], ...],
    *,
    on_cores: bool = False,
) -> Callable[[], None]:
    """A property over networks of these operators, with data movement `on_cores` or anywhere."""

    @settings(max_examples=examples * MORE)
    @given(data=st.data())
    def property_(data: st.DataObject) -> None:
        size = data.draw(st.sampled_from((3, 6, 9)), "nodes")
        graph = data.draw(networks(operators, nodes=size, shapes=shapes))
        machine = MACHINES[data.draw(st.sampled_from(list(MACHINES)), "machine")]
        memory = data.draw(st.sampled_from(KIBIBYTES), "KiB of memory")
        if memory is not None:
            machine = machine.with_memory(memory * 1024)
        if data.draw(st.booleans(), "copies inside"):
            machine = with_copies_inside(machine)
        case = case_of(graph, machine)
        assume(case is not None)
        plan = data.draw(plans(case.graph, machine, on_cores=on_cores), "plan")
        try:
            case.check(plan)
        except TilewrightError as error:
            # What cannot be lowered is told plainly; faults are AssertionErrors.
            assert len(str(error)) > 20

    return property_


test_chains_and_shortcuts = family((conv3, depthwise, pointwise, residual, residual), 45, IMAGES)
test_windows_and_squeezes = family(
    (conv3, depthwise, pointwise, pool, conv, transposed, concat, residual, squeeze, unary),
    45,
    IMAGES,
)
test_matrices_and_movement = family(
    (*(move for move in LAYOUT if move is not resize), matmul, softmax, norm, unary, residual),
    45,
    OTHERS,
)


test_parts_of_resident_tensors = family(
    (aligned, aligned, halves, joined, joined, residual),
    45,
    ((1, 32, 12, 10), (1, 16, 9, 8)),
    on_cores=True,
)


# --- what such plans have found -----------------------------------------------------------------


def check(graph: Graph, machine: str, *groups: GroupPlan, resident: tuple[str, ...] = ()) -> None:
    """A group without nodes has all of the network."""
    target = with_copies_inside(MACHINES[machine])
    case = case_of(graph, target)
    assert case is not None
    named = tuple(g if g.nodes else replace(g, nodes=all_nodes(case.graph)) for g in groups)
    case.check(Plan("found", target.name, target.dtype, named, resident))


def all_nodes(graph: Graph) -> tuple[str, ...]:
    return tuple(node.name for node in graph.nodes)


def squeezed() -> GraphBuilder:
    b = GraphBuilder()
    x = b.input(1, 3, 20, 16)
    y = b.add("Conv", x, b.weight(4, 3, 3, 3), pads=[1] * 4)
    z = b.add("Conv", b.add("GlobalAveragePool", y), b.weight(2, 4, 1, 1))
    z = b.add("Conv", b.add("Softmax", z, axis=1), b.weight(4, 2, 1, 1))
    b.add("Conv", b.add("Mul", y, b.add("Tanh", z)), b.weight(5, 4, 1, 1))
    return b


def test_engines_in_turns_wait_for_what_is_made_once() -> None:
    """A chain of both engines, computed by the first tile, is read by all: also by those that a
    wavefront would have run before."""
    graph = squeezed().graph()
    for machine in MACHINES:
        for parts in (2, 5):
            check(graph, machine, GroupPlan((), (Split(2, parts),), 0))
            check(graph, machine, GroupPlan((), (Split(2, parts, Halo.CACHE),)))


def test_a_value_that_a_dimension_does_not_cut_is_given_once() -> None:
    """Under a cut of the channels each tile computes the first convolution: one of them stores."""
    b = GraphBuilder()
    first = b.add("Conv", b.input(1, 4, 12, 10), b.weight(6, 4, 3, 3), pads=[1] * 4)
    second = b.add("Conv", first, b.weight(8, 6, 1, 1))
    graph = b.graph(second, first, b.add("Relu", first))
    names = all_nodes(graph)
    for resident in ((), (first,)):
        for splits in ((Split(1, 3),), (Split(2, 2), Split(1, 2)), (Split(1, 2), Split(2, 3))):
            for core_split in (None, *range(len(splits))):
                one = GroupPlan(names[:2], splits, core_split)
                check(graph, "npu-2.7", one, GroupPlan(names[2:], (), None), resident=resident)


def test_halos_are_kept_within_a_core() -> None:
    """The split that is divided among the cores keeps its halo: the first tile of every core
    computes all it needs, since the one before is another core's, and may not be done."""
    b = GraphBuilder()
    x = b.add("Conv", b.input(1, 4, 22, 12), b.weight(6, 4, 3, 3), pads=[1] * 4)
    y = b.add("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
    z = b.add("Conv", b.add("Add", x, y), b.weight(5, 6, 5, 3), pads=[2, 1, 2, 1])
    graph = b.graph(z, y)
    for machine in MACHINES:
        for parts in (2, 5, 7):
            cached = Split(2, parts, Halo.CACHE)
            check(graph, machine, GroupPlan((), (cached,), 0))
            check(graph, machine, GroupPlan((), (Split(3, 2), cached), 1))
            check(graph, machine, GroupPlan((), (cached, Split(3, 2)), 0))


def test_what_earlier_tiles_computed_is_still_given() -> None:
    """Repeats come from one tile; the tiles behind it have nothing to compute and all to give."""
    b = GraphBuilder()
    tiled = b.add("Tile", b.input(1, 4, 11, 6), b.constant([1, 1, 2, 1], "int64"))
    graph = b.graph(b.add("Softmax", tiled, axis=1), b.add("Softmax", tiled, axis=3))
    names = all_nodes(graph)
    for halo in Halo:
        cut = GroupPlan(names[:2], (Split(2, 2, halo),), 0)
        for resident in ((), (tiled,)):
            check(graph, "npu-4.0", cut, GroupPlan(names[2:], ()), resident=resident)


def test_a_part_that_is_larger_than_the_memory_is_told_with_its_bytes() -> None:
    graph = squeezed().graph()
    machine = MACHINES["npu-2.7"].with_memory(4096)
    case = case_of(graph, machine)
    assert case is not None
    plan = Plan("large", machine.name, machine.dtype, (GroupPlan(all_nodes(case.graph), ()),))
    with pytest.raises(
        TilewrightError, match=r"takes [0-9.]+ kB of cluster0.cmx, 4.1 kB are there"
    ):
        case.check(plan)
