"""Cores that have different shares of a group's tiles: in plan files, and executed."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.builder import GraphBuilder
from support.compare import assert_same
from support.programs import Lowered
from support.unlike import unlike_cores
from tilewright.errors import TilewrightError
from tilewright.graph.graph import Graph
from tilewright.plan.plan import GroupPlan, Plan, plan_text
from tilewright.plan.read import read_plan
from tilewright.planning import check_plan
from tilewright.program.lower import lowered
from tilewright.program.program import Compute
from tilewright.tiling.grid import Halo, Split, dealt

pytestmark = pytest.mark.quick

MACHINE = unlike_cores()  # a large core and two small ones


def chain() -> Graph:
    """Two convolutions with a halo between them."""
    b = GraphBuilder()
    y = b.input(1, 8, 24, 8)
    for _ in range(2):
        y = b.add("Conv", y, b.weight(8, 8, 3, 3), pads=[1] * 4)
    return b.graph(y)


def shared(graph: Graph, shares: tuple[int, ...], halo: Halo, *, apart: bool) -> Plan:
    """Both convolutions in eight bands of rows, as one group or as two that keep what passes."""
    splits, names = (Split(2, 8, halo),), tuple(node.name for node in graph.nodes)
    rows = [(name,) for name in names] if apart else [names]
    groups = tuple(GroupPlan(row, splits, 0, shares=shares) for row in rows)
    kept = graph.nodes[0].outputs if apart else ()
    return Plan("net", MACHINE.name, MACHINE.dtype, groups, kept)


@pytest.mark.parametrize("shares", [(6, 1, 1), (1, 2, 1), (9, 1, 1), (1, 1, 1)])
@pytest.mark.parametrize("halo", [Halo.RECOMPUTE, Halo.CACHE])
@pytest.mark.parametrize("apart", [True, False])
def test_cores_have_the_tiles_of_their_shares(
    shares: tuple[int, ...], halo: Halo, apart: bool
) -> None:
    """And the results are those of onnxruntime."""
    graph = chain()
    plan = shared(graph, shares, halo, apart=apart)
    if apart:
        plan = replace(plan, groups=(replace(plan.groups[0], shares=()), plan.groups[1]))
    run = Lowered(graph, graph, MACHINE, lowered(graph, MACHINE, plan))
    assert_same(run.execute().outputs, run.reference())
    counts = {core.name: 0 for core in MACHINE.cores}
    for task in run.program.tasks:
        if isinstance(task.work, Compute) and task.node == graph.nodes[1].name:
            counts[task.engine.split(".")[0]] += 1
    assert list(counts.values()) == [len(part) for part in dealt(8, shares)]


def test_equal_shares_are_none() -> None:
    graph = chain()
    plans = (shared(graph, shares, Halo.RECOMPUTE, apart=False) for shares in ((), (3, 3, 3)))
    one, other = (lowered(graph, MACHINE, plan) for plan in plans)
    assert one.schedule.end.tolist() == other.schedule.end.tolist()


@pytest.mark.parametrize(
    ("parts", "shares", "expected"),
    [
        (8, (5, 2, 1), [5, 2, 1]),
        (16, (5, 2, 1), [10, 4, 2]),
        (7, (1, 1, 1), [3, 2, 2]),
        (2, (4, 1, 1), [2, 0, 0]),
        (3, (1, 4), [1, 2]),
    ],
)
def test_parts_are_dealt_by_shares(
    parts: int, shares: tuple[int, ...], expected: list[int]
) -> None:
    assert [len(part) for part in dealt(parts, shares)] == expected


def written(folder: Path, keys: str) -> Path:
    """A plan file whose group has these keys."""
    path = folder / "plan.yaml"
    path.write_text(
        "model: net\nmachine: unlike\ndtype: int8\ngroups:\n- nodes: [a]\n"
        f"  splits: [{{axis: 2, parts: 8}}, {{axis: 3, parts: 2}}]\n  {keys}\n"
    )
    return path


def test_a_file_says_shares(tmp_path: Path) -> None:
    path = written(tmp_path, "core_split: 0\n  cores: [large, small0]\n  shares: [5, 1]")
    plan = read_plan(path)
    assert plan.groups[0].shares == (5, 1)
    path.write_text(plan_text(plan))
    assert read_plan(path) == plan


@pytest.mark.parametrize(
    "keys",
    [
        "core_split: 0\n  shares: [1, 0, 2]",
        "core_split: 0\n  shares: [1, true]",
        "core_split: 0\n  shares: []",
        "core_split: 0\n  cores: [large]\n  shares: [1, 2]",
        "core_split: [0, 1]\n  shares: [1, 2, 3]",
        "shares: [1, 2, 3]",
    ],
)
def test_wrong_shares_are_told(keys: str, tmp_path: Path) -> None:
    with pytest.raises(TilewrightError, match="shares"):
        read_plan(written(tmp_path, keys))


def test_shares_of_other_cores_than_there_are_are_told() -> None:
    graph = chain()
    plan = shared(graph, (1, 2), Halo.RECOMPUTE, apart=False)
    with pytest.raises(TilewrightError, match="has 2 shares for 3 cores"):
        check_plan(plan, "the plan", graph, MACHINE)
    with pytest.raises(TilewrightError, match="has 2 shares for 3 cores"):
        lowered(graph, MACHINE, plan)
