"""Tiles that begin at multiples of a grain: in plan files, executed, estimated, proposed."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.builder import GraphBuilder
from support.compare import assert_same
from support.programs import Lowered
from tilewright.errors import TilewrightError
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.plan.plan import GroupPlan, Plan, plan_text
from tilewright.plan.read import PlanFileError, plan_of, read_plan
from tilewright.planning import check_plan, prepared
from tilewright.program.lower import lowered
from tilewright.program.program import Compute
from tilewright.search.candidates.grained import regrained, wastes
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.tiles import Tiler
from tilewright.search.explanation.explain import grid_words
from tilewright.tiling.grid import Halo, Split
from tilewright.tiling.group import exports, typed_group

pytestmark = pytest.mark.quick

MACHINE = load_machine("npu-2.7")


def tokens(width: int = 64) -> Graph:
    """A product for 197 tokens, of so many channels."""
    b = GraphBuilder()
    x = b.input(1, 197, width)
    return b.graph(b.add("MatMul", x, b.weight(width, 4 * width)))


def plan_with(graph: Graph, *splits: Split) -> Plan:
    group = GroupPlan(tuple(node.name for node in graph.nodes), splits, 0)
    return Plan("net", MACHINE.name, MACHINE.dtype, (group,))


def run_of(graph: Graph, plan: Plan) -> Lowered:
    return Lowered(graph, graph, MACHINE, lowered(graph, MACHINE, plan))


@pytest.mark.parametrize("halo", list(Halo))
@pytest.mark.parametrize("grain", [1, 3, 4, 12])
def test_tiles_of_any_grain_give_the_same_results(grain: int, halo: Halo) -> None:
    b = GraphBuilder()
    y = b.input(1, 8, 47, 8)
    for _ in range(2):
        y = b.add("Conv", y, b.weight(8, 8, 3, 3), pads=[1] * 4)
    graph = b.graph(y)
    run = run_of(graph, plan_with(graph, Split(2, 4, halo, grain=grain)))
    assert_same(run.execute().outputs, run.reference())


def test_parts_begin_at_multiples_and_take_fewer_steps() -> None:
    """197 tokens for an array that takes 16 at a time."""
    graph = prepared(tokens(), MACHINE, MACHINE.dtype).graph
    taken = {}
    for grain in (1, 16):
        run = run_of(graph, plan_with(graph, Split(1, 4, grain=grain)))
        works = [task for task in run.program.tasks if isinstance(task.work, Compute)]
        taken[grain] = sorted(task.writes[0].shape[1] for task in works)
    assert taken == {1: [49, 49, 49, 50], 16: [48, 48, 48, 53]}


def test_estimates_know_what_the_grain_saves() -> None:
    graph = prepared(tokens(), MACHINE, MACHINE.dtype).graph
    tiler = Tiler(Network(graph, MACHINE, MACHINE.dtype))
    ops, exported = typed_group(graph, [0]), exports(graph, [0])
    even, grained = (
        tiler.estimate(ops, exported, (Split(1, 4, grain=grain),), 0) for grain in (1, 16)
    )
    assert even is not None and grained is not None
    assert grained.compute < 0.95 * even.compute
    assert grained.dma == pytest.approx(even.dma, rel=0.01)
    assert grained.bytes >= even.bytes  # its largest tile is larger
    assert tiler.estimate(ops, exported, (Split(1, 14, grain=16),), 0) is None


def test_only_cuts_that_waste_steps_have_another_grain() -> None:
    assert wastes(197, 4, 16) and not wastes(192, 4, 16) and not wastes(197, 14, 16)
    assert not wastes(14, 2, 4)  # 7 and 7 rows take four steps, as 14 do
    found = list(regrained((Split(1, 4), Split(2, 2)), {1: 197, 2: 64}, (4, 16)))
    assert [[s.grain for s in splits] for splits in found] == [[4, 1], [16, 1]]
    back = list(regrained((Split(1, 4, grain=16),), {1: 197}, (16,)))
    assert back == [(Split(1, 4),)]


def test_cuts_with_a_grain_are_proposed_where_they_compute_less() -> None:
    graph = prepared(tokens(128), MACHINE, MACHINE.dtype).graph
    tiler = Tiler(Network(graph, MACHINE, MACHINE.dtype))
    options = tiler.options(typed_group(graph, [0]), exports(graph, [0]), frozenset())
    by_cut = {(option.splits, option.core_split): option for option in options}
    grained = [key for key in by_cut if any(split.grain > 1 for split in key[0])]
    assert grained
    for splits, core_split in grained:
        even = by_cut[tuple(replace(split, grain=1) for split in splits), core_split]
        assert by_cut[splits, core_split].compute < even.compute


def test_plan_files_name_the_grain(tmp_path: Path) -> None:
    graph = tokens()
    plan = plan_with(graph, Split(1, 4, grain=16))
    path = tmp_path / "plan.yaml"
    path.write_text(plan_text(plan))
    assert "{axis: 1, parts: 4, halo: recompute, grain: 16}" in path.read_text()
    assert read_plan(path) == plan
    assert "grain" not in plan_text(plan_with(graph, Split(1, 4)))
    assert "in 4 of up to 53" in grid_words(graph, plan.groups[0], 2)


@pytest.mark.parametrize("grain", [0, -1, 1.5, True, "16"])
def test_a_grain_is_a_whole_number(grain: object) -> None:
    groups = [{"nodes": ["a"], "splits": [{"axis": 1, "parts": 2, "grain": grain}]}]
    with pytest.raises(PlanFileError, match=r"grain.*whole number from 1 on"):
        plan_of({"model": "m", "machine": "npu-2.7", "dtype": "fp16", "groups": groups})


def test_more_parts_than_grains_are_told() -> None:
    graph = prepared(tokens(), MACHINE, MACHINE.dtype).graph
    with pytest.raises(TilewrightError, match="cannot be cut in 14 with a grain of 16"):
        check_plan(plan_with(graph, Split(1, 14, grain=16)), "the plan", graph, MACHINE)
