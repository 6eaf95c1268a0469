"""Cuts along three axes and more: where memory is small, as coarse as fits."""

from dataclasses import replace
from pathlib import Path

import pytest

from tilewright import api
from tilewright.frontend.builder import Builder
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.model import Model
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.planning import prepared
from tilewright.program.lowering import Lowering
from tilewright.program.timed import Timed
from tilewright.search.candidates.candidate import NoTileFitsError
from tilewright.search.candidates.finer import parts_of
from tilewright.search.candidates.layers import layer_by_layer
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.tiles import Tiler
from tilewright.search.improvement.cuts import Cuts
from tilewright.tiling.grid import Split, tiles_of

MINIMAL = Path(__file__).parents[3] / "examples" / "machines" / "1-minimal.yaml"


def machine_with(kibibytes: float) -> Machine:
    return load_machine(str(MINIMAL)).with_memory(int(kibibytes * 1024))


def wide(images: int = 1) -> Graph:
    b = Builder("wide")
    return b.finish(b.conv(b.input("x", (images, 48, 14, 14)), 48, 3, pads=1))


def products(batch: tuple[int, ...], rows: int, inner: int, columns: int) -> Graph:
    b = Builder("products")
    left, right = b.input("x", (*batch, rows, inner)), b.input("y", (*batch, inner, columns))
    return b.finish(b.op("MatMul", left, right))


def cycles_of(graph: Graph, machine: Machine) -> tuple[Plan, int]:
    legal = prepared(graph, machine, machine.dtype).graph
    plan = layer_by_layer(legal, machine, machine.dtype, "net")
    found = Lowering(legal, machine, machine.dtype).timed(plan)
    assert isinstance(found, Timed)
    return plan, found.makespan


def test_parts_are_those_with_smaller_tiles_each() -> None:
    assert parts_of(40, 1) == [2, 3, 4, 5, 6, 7, 8, 10, 14, 20, 40]
    assert parts_of(28, 6) == [6, 12, 18]
    assert parts_of(1, 1) == []


def test_a_wide_convolution_in_little_memory_is_faster_along_three_axes() -> None:
    machine = machine_with(8)
    plan, cycles = cycles_of(wide(), machine)
    assert len(plan.groups[0].splits) == 3
    legal = prepared(wide(), machine, machine.dtype).graph
    lowering = Lowering(legal, machine, machine.dtype)
    for axis in (2, 3):
        for parts, channels in ((14, 12), (14, 24), (14, 48), (7, 48)):
            for order in (1, -1):
                splits = (Split(axis, parts), Split(1, channels))[::order]
                group = GroupPlan(plan.groups[0].nodes, splits, 0)
                other = lowering.cycles(Plan("net", machine.name, machine.dtype, (group,)))
                assert other is None or other > cycles


@pytest.mark.parametrize(
    ("graph", "kibibytes"),
    [(wide(), 3), (wide(images=2), 3), (products((1, 4), 48, 64, 48), 4)],
    ids=["convolution", "images", "heads"],
)
def test_what_fits_along_all_axes_only_is_planned_and_executed(
    graph: Graph, kibibytes: int
) -> None:
    machine = machine_with(kibibytes)
    found = api.plan(Model("net", graph, None), machine, layer_by_layer=True).planned
    assert found.verified is not None and found.failure is None


def test_a_tile_that_does_not_fit_is_a_single_position() -> None:
    machine = machine_with(0.25)
    legal = prepared(wide(), machine, machine.dtype).graph
    with pytest.raises(NoTileFitsError) as told:
        layer_by_layer(legal, machine, machine.dtype, "net")
    # Inputs and weights of one element of the result, 3 x 3 x 48 each, and the result.
    assert 2 * 9 * 48 < told.value.needed < 1.2 * 2 * 9 * 48


def test_tiles_for_which_there_are_no_addresses_become_smaller() -> None:
    b = Builder("feed_forward")
    wider = b.op("Relu", b.linear(b.input("x", (1, 196, 256)), 1024))
    cycles_of(b.finish(b.linear(wider, 256)), machine_with(48))


def test_tiles_become_no_smaller_than_addresses_ask_for() -> None:
    b = Builder("feed_forward")
    wider = b.op("Relu", b.linear(b.input("x", (1, 196, 256)), 1024))
    graph, machine = b.finish(b.linear(wider, 256)), machine_with(48)
    plan, cycles = cycles_of(graph, machine)
    legal = prepared(graph, machine, machine.dtype).graph
    lowering = Lowering(legal, machine, machine.dtype)
    for rows in (49, 66):
        last = replace(plan.groups[1], splits=(Split(2, 8), Split(1, rows)), core_split=0)
        other = lowering.cycles(replace(plan, groups=(plan.groups[0], last)))
        assert other is not None and cycles <= other


def test_each_loop_is_exchanged_with_the_next() -> None:
    machine = machine_with(12)
    legal = prepared(wide(), machine, machine.dtype).graph
    network = Network(legal, machine, machine.dtype)
    lowering = Lowering(legal, machine, machine.dtype)
    cuts = Cuts(network, Tiler(network), lowering.context.signatures)
    one, two, three = Split(1, 4), Split(2, 6), Split(3, 8)
    near = list(cuts.near(GroupPlan((legal.nodes[0].name,), (one, two, three), 2)))
    assert GroupPlan((), (two, one, three), 2) in near
    assert GroupPlan((), (one, three, two), 1) in near


def test_moves_may_cut_as_finely_as_little_memory_needs() -> None:
    machine = machine_with(1.5)
    legal = prepared(wide(), machine, machine.dtype).graph
    plan = layer_by_layer(legal, machine, machine.dtype, "net")
    network = Network(legal, machine, machine.dtype)
    lowering = Lowering(legal, machine, machine.dtype)
    cuts = Cuts(network, Tiler(network), lowering.context.signatures)
    ways = cuts.ways((0,), frozenset(), 0)
    assert tiles_of(plan.groups[0].splits) > 512
    assert list(cuts.there_are((0,), frozenset(), 0, float("inf"), ways[:1])) == ways[:1]
