"""Branches that do not wait for each other run side by side where that is faster, and cores that
do not help are left alone."""

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from support.programs import Lowered, relative_error
from support.unlike import unlike_cores
from tilewright.frontend.builder import Builder
from tilewright.frontend.weights import seeded
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.planning import prepared, validate
from tilewright.program.lower import lowered
from tilewright.search.effort import Effort
from tilewright.search.fusion import Fusion
from tilewright.search.improvement import improve
from tilewright.search.improvement.branches import abreast, dealt, forks, quickest
from tilewright.search.improvement.shape import Kind, Shape, Site

MACHINES = Path(__file__).parents[3] / "examples" / "machines"


def towers(count: int = 2, depth: int = 3, size: int = 32, channels: int = 16) -> Graph:
    """Chains of convolutions on one image, joined."""
    b = Builder("towers")
    image, ends = b.input("x", (1, 3, size, size)), list[str]()
    for tower in range(count):
        x = image
        for layer in range(depth):
            x = b.op("Relu", b.conv(x, channels, 3, pads=1, name=f"conv{tower}.{layer}"))
        ends.append(x)
    x = b.op("Concat", *ends, axis=1, name="join")
    return b.finish(b.conv(x, channels, 1, name="last"))


def nested() -> Graph:
    """A branch that parts again: a, then b beside (c, then d beside e, then f), then g."""
    b = Builder("nested")
    a = b.op("Relu", b.input("x", (1, 8, 8, 8)), name="a")
    side = b.op("Relu", a, name="b")
    c = b.op("Relu", a, name="c")
    inner = b.op("Add", b.op("Relu", c, name="d"), b.op("Relu", c, name="e"), name="f")
    return b.finish(b.op("Add", side, inner, name="g"))


def small_cores(count: int, folder: Path) -> Machine:
    """So many cores of 64 KiB that share the way to the main memory."""
    path = folder / f"c{count}.yaml"
    path.write_text(
        f"extends: {MACHINES / '2-second-core.yaml'}\ntitle: c{count}\n"
        f"cores: {{core: {{count: {count}, memories: {{sram: {{capacity: 64 KiB}}}}}}}}\n"
    )
    return load_machine(str(path))


def one_by_one(graph: Graph) -> Shape:
    groups = tuple(GroupPlan((node.name,), ()) for node in graph.nodes)
    return Shape(graph, Plan("net", "machine", "int8", groups))


def named(graph: Graph) -> list[list[set[str]]]:
    rows = forks(one_by_one(graph))
    return [[{graph.nodes[n].name for n in branch} for branch in fork] for fork in rows]


def test_branches_are_found_the_outermost_first() -> None:
    assert named(nested()) == [[{"b"}, {"c", "d", "e", "f"}], [{"d"}, {"e"}]]


def test_every_tower_is_a_branch_and_a_chain_has_none() -> None:
    (fork,) = named(towers(count=3, depth=2))
    assert [len(branch) for branch in fork] == [4, 4, 4]
    assert named(towers(count=1)) == []


@pytest.mark.parametrize(
    ("works", "lots", "sizes"),
    [([3, 1], 2, [3, 1]), ([1, 1, 1], 3, [2, 1, 1]), ([5, 1, 1, 1, 1, 1], 2, [2, 2, 2, 2, 2, 2])],
)
def test_cores_are_dealt_in_proportion_to_the_work(
    works: list[float], lots: int, sizes: list[int]
) -> None:
    cores = dealt(works, ["a", "b", "c", "d"], lots)
    assert [len(lot) for lot in cores] == sizes
    assert sorted({name for lot in cores for name in lot}) == ["a", "b", "c", "d"]
    assert len({frozenset(lot) for lot in cores}) == lots


def test_branches_come_forward_alike() -> None:
    works = {0: 2.0, 1: 2.0, 2: 1.0, 3: 1.0, 4: 1.0, 5: 1.0}
    assert abreast(((0, 1), (2, 3, 4, 5)), ("a", "b"), works) == [0, 2, 3, 1, 4, 5]


def test_branches_of_one_lot_run_one_after_the_other() -> None:
    works = dict.fromkeys(range(6), 1.0)
    assert abreast(((0, 1), (2, 3), (4, 5)), ("a", "b", "a"), works) == [0, 2, 1, 4, 3, 5]


@pytest.mark.parametrize(
    ("times", "lots"),
    [
        ([[1, 4]] * 5, [0, 0, 0, 0, 1]),  # the slow one gets what the fast one cannot do before
        ([[1, 9]] * 5, [0] * 5),
        ([[8, 9], [2, 1], [9, 20]], [1, 1, 0]),
        ([[inf, 3], [1, inf]], [1, 0]),  # not every core can run everything
    ],
)
def test_branches_go_where_they_are_done_first(times: list[list[float]], lots: list[int]) -> None:
    assert quickest(times) == lots


@pytest.mark.parametrize("cores", [6, 8])
def test_towers_side_by_side_are_faster_and_give_the_same_numbers(
    tmp_path: Path, cores: int
) -> None:
    """Before any other move is made: it is a start, not luck."""
    machine, original = small_cores(cores, tmp_path), seeded(towers())
    graph = prepared(original, machine, machine.dtype).graph
    search = Fusion(graph, machine, machine.dtype, "net")
    search.propose()
    best, improver = search.starts[0], search._made_improver(0)  # pyright: ignore[reportPrivateUsage]
    *_, better = improver.abreast(best.plan, best.metrics, 20)
    assert better.metrics.cycles < best.cycles
    homes = {name: frozenset(group.cores) for group in better.plan.groups for name in group.nodes}
    lots = [{homes[f"conv{tower}.{layer}"] for layer in range(3)} for tower in range(2)]
    assert frozenset().union(*lots[0]).isdisjoint(frozenset().union(*lots[1]))
    placed = lowered(graph, machine, better.plan, lowering=search.lowering)
    assert placed.schedule.makespan == better.metrics.cycles
    validate(placed, machine)
    case = Lowered(original, graph, machine, placed)
    assert relative_error(case.execute().outputs, case.reference()) < 1e-4


def test_a_fast_core_gets_more_branches_than_slow_ones() -> None:
    """Three of five, each core by itself, where even shares would give two or one."""
    machine, original = unlike_cores(), seeded(towers(count=5, depth=2))
    graph = prepared(original, machine, machine.dtype).graph
    search = Fusion(graph, machine, machine.dtype, "net")
    search.propose()
    best, improver = search.best(), search._made_improver(0)  # pyright: ignore[reportPrivateUsage]
    shape = improver.look(search.space.plan("net", search.space.singles))
    (site,) = improver.moves.forks(shape)
    homes = [
        {name: group.cores for group in plan.groups for name in group.nodes}
        for plan in improver.plans(shape, site)
    ]
    dealt_out = [[home[f"conv{tower}.0"] for tower in range(5)] for home in homes]
    assert dealt_out[0].count(("large",)) >= 3
    *_, better = improver.abreast(best.plan, best.metrics, 20)
    assert better.metrics.cycles < best.cycles
    placed = lowered(graph, machine, better.plan, lowering=search.lowering)
    case = Lowered(original, graph, machine, placed)
    assert relative_error(case.execute().outputs, case.reference()) < 1e-4


def test_two_groups_exchange_their_cores_in_one_move() -> None:
    """One alone would have to wait where the other runs. Groups that wait for each other, or have
    the same cores, do not."""
    machine, original = unlike_cores(), seeded(towers())
    graph = prepared(original, machine, machine.dtype).graph
    search = Fusion(graph, machine, machine.dtype, "net")
    improver = search._made_improver(0)  # pyright: ignore[reportPrivateUsage]
    plan = search.space.plan("net", search.space.singles)

    def swaps(plan: Plan) -> list[tuple[Site, Plan]]:
        shape = improver.look(plan)
        sites = [site for site in improver.moves.sites(shape) if site.kind is Kind.SWAP]
        return [(site, made) for site in sites for made in improver.plans(shape, site)]

    assert not swaps(plan), "all have the same cores"
    homes = {"conv0.0": ("large",), "conv1.1": ("small0", "small1")}
    groups = (
        replace(group, cores=homes[name], splits=(), core_split=None)
        if (name := group.nodes[0]) in homes
        else group
        for group in plan.groups
    )
    plan = replace(plan, groups=tuple(groups))
    found, shape = swaps(plan), improver.look(plan)
    for site, _ in found:
        assert all(not shape.related(*pair) for pair in site.places)
        assert all(len({plan.groups[n].cores for n in pair}) == 2 for pair in site.places)
    exchanged = [
        made
        for _, made in found
        if {group.nodes[0]: group.cores for group in made.groups if group.nodes[0] in homes}
        == {"conv0.0": homes["conv1.1"], "conv1.1": homes["conv0.0"]}
    ]
    fitting = [made for made in exchanged if search.evaluate(made) is not None]
    assert fitting
    for made in fitting:
        case = Lowered(original, graph, machine, lowered(graph, machine, made))
        assert relative_error(case.execute().outputs, case.reference()) < 1e-4


@pytest.mark.parametrize("network", [towers(), towers(count=1, depth=4, size=16, channels=8)])
def test_more_cores_are_never_slower(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, network: Graph
) -> None:
    monkeypatch.setattr(improve, "EVALUATIONS", {Effort.LOW: 20})
    reached: list[int] = []
    for cores in (1, 2, 4, 8):
        machine = small_cores(cores, tmp_path)
        graph = prepared(network, machine, machine.dtype).graph
        reached.append(Fusion(graph, machine, machine.dtype, "net").run(Effort.LOW).best.cycles)
    assert reached == sorted(reached, reverse=True)
