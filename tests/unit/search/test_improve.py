"""Moves make sound plans, and the improvement loop only ever makes plans better."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from random import Random

import pytest

from support.builder import GraphBuilder
from support.networks import residual, u_shape
from support.programs import Lowered, relative_error, transformer_block
from tilewright.frontend.weights import seeded
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Place, Plan
from tilewright.planning import check_plan, prepared, validate
from tilewright.program.lower import lowered
from tilewright.program.metrics import Metrics, Objective, score
from tilewright.search.effort import Effort
from tilewright.search.found import Found
from tilewright.search.fusion import Fusion
from tilewright.search.grouping.patterns import Action, Pattern
from tilewright.search.improvement import improve
from tilewright.search.improvement.climb import Better
from tilewright.search.improvement.cuts import Cuts, Divided
from tilewright.search.improvement.improve import Improver, evaluations_of
from tilewright.search.improvement.moves import Moves
from tilewright.search.improvement.shape import Kind, Shape, Site
from tilewright.search.improvement.splice import better_spliced, spliced

EXECUTED = 8  # plans of each network that are run


@dataclass(frozen=True)
class Case:
    """A network on a machine, and its moves."""

    original: Graph
    machine: Machine
    search: Fusion
    moves: Moves

    def made(self, plan: Plan) -> Iterator[tuple[Site, Plan]]:
        """All plans of all moves."""
        shape = Shape(self.moves.graph, plan)
        for site in self.moves.sites(shape):
            for changed in self.moves.plans(shape, site):
                yield site, changed

    def start(self) -> tuple[Plan, Metrics]:
        """Layer by layer."""
        plan = self.search.space.plan("net", self.search.space.singles)
        metrics = self.search.evaluate(plan)
        assert metrics is not None
        return plan, metrics

    def improver(self, objective: Objective = Objective.LATENCY, seed: int = 0) -> Improver:
        search = self.search
        return Improver(
            self.moves,
            search.candidates.sections,
            search.lowering,
            search.evaluate,
            objective,
            seed,
        )

    def error(self, plan: Plan) -> float:
        """How far the numbers of a plan, executed, are from the original's."""
        search = self.search
        placed = lowered(search.graph, self.machine, plan, lowering=search.lowering)
        validate(placed, self.machine)
        case = Lowered(self.original, search.graph, self.machine, placed)
        return relative_error(case.execute().outputs, case.reference())


def case_of(graph: Graph, machine: str, memory: int | None = None) -> Case:
    target = load_machine(machine)
    target = target if memory is None else target.with_memory(memory)
    numbered = seeded(graph)
    search = Fusion(prepared(numbered, target, target.dtype).graph, target, target.dtype, "net")
    signatures = search.lowering.context.signatures
    moves = Moves(Cuts(search.network, search.candidates.tiler, signatures), search.space.may_stay)
    return Case(numbered, target, search, moves)


CASES = [
    (u_shape, "npu-2.7", None),
    (u_shape, "trn2", None),
    (u_shape, "mcu", 16 * 1024),
    (transformer_block, "npu-2.7", None),
]


@pytest.mark.parametrize(("network", "machine", "memory"), CASES)
def test_every_move_makes_a_sound_plan_or_one_that_is_refused(
    network: Callable[[], Graph], machine: str, memory: int | None
) -> None:
    """From the plainest plan, and from one with much to undo."""
    case = case_of(network(), machine, memory)
    plan, metrics = case.start()
    better = [*case.improver().better(plan, metrics, 120)]
    pick, kinds = Random(0), set[Kind]()
    names = sorted(node.name for node in case.search.graph.nodes)
    for base in (plan, better[-1].plan):
        rows: dict[Kind, list[Plan]] = {}
        for site, changed in dict.fromkeys(case.made(base)):
            rows.setdefault(site.kind, []).append(changed)
        by_kind: dict[Kind, list[Plan]] = {}
        sampled = ((k, plan) for k, row in rows.items() for plan in pick.sample(row, len(row))[:12])
        for kind, changed in sampled:
            assert changed != base
            assert sorted(name for group in changed.groups for name in group.nodes) == names
            if case.search.evaluate(changed) is not None:
                check_plan(changed, Path("plan"), case.search.graph, case.search.machine)
                by_kind.setdefault(kind, []).append(changed)
        kinds.update(by_kind)
        some = [row[0] for row in by_kind.values()]
        some += [changed for row in by_kind.values() for changed in row[1:3]]
        for changed in some[:EXECUTED]:
            assert case.error(changed) < 1e-4
    assert {Kind.MERGE, Kind.RECUT, Kind.PART, Kind.KEEP, Kind.SHIFT} <= kinds


def test_views_between_operators_are_no_walls() -> None:
    """A network's data movement gets onto the cores, alone and inside groups, and is right."""
    case = case_of(transformer_block(), "npu-2.7")
    plan, _ = case.start()
    views = {name for g in plan.groups if g.place is not Place.CORES for name in g.nodes}
    inside: list[Plan] = []
    for site, changed in case.made(plan):
        rows = [g for g in changed.groups if g.place is Place.CORES and views & set(g.nodes)]
        if site.kind in (Kind.MERGE, Kind.PLACE) and rows:
            inside.append(changed)
    fitting = [changed for changed in inside[::7] if case.search.evaluate(changed) is not None]
    assert len(fitting) > 5
    for changed in fitting[:EXECUTED]:
        assert case.error(changed) < 1e-4


@pytest.mark.parametrize("objective", [Objective.LATENCY, Objective.TRAFFIC])
def test_every_plan_is_better_than_the_one_before(objective: Objective) -> None:
    case = case_of(u_shape(), "npu-2.7")
    plan, metrics = case.start()
    rows = [*case.improver(objective).better(plan, metrics, 150)]
    scores = [score(m, objective) for m in (metrics, *(row.metrics for row in rows))]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] < scores[0]
    assert case.search.evaluate(rows[-1].plan) == rows[-1].metrics
    assert rows[-1].evaluations <= 150


def test_the_seed_alone_decides() -> None:
    def rows(seed: int) -> list[Better[Plan, Metrics]]:
        case = case_of(u_shape(), "npu-2.7")
        return [*case.improver(seed=seed).better(*case.start(), 60)]

    first = rows(0)
    assert rows(0) == first
    assert rows(1) != first


def test_neighbours_are_divided_alike_in_one_move() -> None:
    """By channels, by positions, or not at all: one of them alone would pass all of its data on."""
    case = case_of(u_shape(), "npu-2.7")
    plan, _ = case.start()
    cuts = case.moves.cuts
    shape, seen = Shape(case.moves.graph, plan), set[frozenset[Divided]]()
    for site, changed in case.made(plan):
        if site.kind is Kind.ALIGN:
            new = [n for n, group in enumerate(changed.groups) if group != plan.groups[n]]
            assert set(new) <= {number for place in site.places for number in place}
            seen.add(frozenset(cuts.divided(shape.members[n], changed.groups[n]) for n in new))
    assert {frozenset({divided}) for divided in Divided} <= seen
    alone = case_of(u_shape(), "mcu", 16 * 1024)
    kinds = {site.kind for site, _ in alone.made(alone.start()[0])}
    assert Kind.ALIGN not in kinds, "there is nothing to divide on a single core"


def test_what_helped_is_tried_at_places_that_look_alike() -> None:
    """Of eight convolutions in a row two became one group: so may others, but for the first and the
    last, whose data lie in the main memory."""
    b = GraphBuilder()
    y = b.input(1, 32, 16, 16)
    for _ in range(8):
        y = b.add("Conv", y, b.weight(32, 32, 3, 3), pads=[1] * 4)
    case = case_of(b.graph(y), "npu-2.7")
    plan, _ = case.start()
    improver, before = case.improver(), Shape(case.moves.graph, plan)
    one = next(
        site
        for site in case.moves.sites(before)
        if site.kind is Kind.MERGE and site.places == ((2, 3),)
    )
    made = next(case.moves.plans(before, one))
    merged = {group.nodes for group in made.groups if len(group.nodes) == 2}
    echoes = dict(improver.echoes(before, one, 0, Shape(case.moves.graph, made)))
    pairs = [
        {group.nodes for group in echo.groups if len(group.nodes) == 2} for echo in echoes.values()
    ]
    names = [node.name for node in case.search.graph.nodes]
    assert all(merged < found for found in pairs)
    others = {pair for found in pairs for pair in found - merged}
    assert others == {tuple(names[4:6]), tuple(names[5:7])}
    alike = next(site for site in case.moves.sites(before) if site.alike)
    assert not list(improver.echoes(before, alike, 0, before)), "it was all of them"


def test_operators_with_the_same_weights_run_as_one() -> None:
    """Of two towers: each layer's weights are loaded once then."""
    b = GraphBuilder()
    towers = [b.input(1, 64, 8, 8), b.input(1, 64, 8, 8)]
    for _ in range(2):
        weights = b.weight(64, 64, 3, 3)
        towers = [b.add("Conv", x, weights, kernel_shape=[3, 3], pads=[1] * 4) for x in towers]
    b.add("Concat", *towers, axis=1)
    case = case_of(b.graph(), "npu-2.7")
    plan, metrics = case.start()
    merged = [changed for site, changed in case.made(plan) if site.kind is Kind.MERGE]
    layers = {group.nodes for changed in merged for group in changed.groups}
    names = [node.name for node in case.search.graph.nodes if node.kind == "Conv"]
    assert {tuple(names[:2]), tuple(names[2:])} <= layers
    *_, last = case.improver().better(plan, metrics, 400)
    weights = 2 * 64 * 64 * 9 * 2
    assert last.metrics.dram_bytes < metrics.dram_bytes - weights
    assert last.metrics.dram_bytes < 2 * weights, "each of them is loaded once"
    assert case.error(last.plan) < 1e-4


def test_groups_go_to_cores_of_one_kind_in_one_move() -> None:
    """Where cores differ, two groups become one on either kind alone; where they do not, no half
    of them is proposed for it."""
    for machine, several in (("mixed-cores", True), ("npu-2.7", False)):
        case = case_of(residual(), machine)
        plan, _ = case.start()
        kinds = {
            tuple(core.name for core in alike) for alike in case.search.network.models.core_classes
        }
        assert (len(kinds) > 1) is several
        merged = {
            group.cores
            for site, made in case.made(plan)
            if site.kind is Kind.MERGE and len(made.groups) < len(plan.groups)
            for group in made.groups
        }
        assert kinds <= merged if several else merged == {()}


def test_of_cuts_that_are_not_expected_to_fit_the_smallest_comes_last() -> None:
    case = case_of(residual(64, 32), "npu-2.7")
    cuts, graph = case.moves.cuts, case.search.graph
    conv = next(n for n, node in enumerate(graph.nodes) if node.kind == "Conv")
    full = cuts.tiler.usable * cuts.tiler.cores
    much = full - 40_000 * cuts.tiler.cores  # beside it: 40 kB of each core are left
    plenty = cuts.ways((conv,), frozenset(), 0)
    tight = cuts.ways((conv,), frozenset(), much)
    assert plenty and tight and plenty[0] != tight[0]
    both = [plenty[0], tight[0]]
    assert list(cuts.there_are((conv,), frozenset(), 0, inf, both)) == both
    assert list(cuts.there_are((conv,), frozenset(), much, inf, both)) == both[::-1]
    assert list(cuts.there_are((conv,), frozenset(), full, inf, both)) == tight[:1]


def test_cuts_that_are_expected_to_take_much_longer_are_not_simulated() -> None:
    case = case_of(residual(64, 32), "npu-2.7")
    cuts, graph = case.moves.cuts, case.search.graph
    conv = next(n for n, node in enumerate(graph.nodes) if node.kind == "Conv")
    ways = cuts.ways((conv,), frozenset(), 0)
    cycles = [cuts.cycles((conv,), frozenset(), way) for way in ways]
    most = sorted(cycles)[len(ways) // 2]
    assert max(cycles) > most
    kept = list(cuts.there_are((conv,), frozenset(), 0, most, ways))
    assert kept == [way for way, found in zip(ways, cycles, strict=True) if found <= most]


def test_plans_without_room_count_as_others_do() -> None:
    case = case_of(residual(16, 32), "mcu", 24 * 1024)
    improver, simulated = case.improver(), list[bool]()
    evaluate = improver.evaluate

    def counted(plan: Plan) -> Metrics | None:
        found = evaluate(plan)
        simulated.append(found is not None)
        return found

    improver.evaluate = counted
    assert [*improver.better(*case.start(), 80)]
    assert len(simulated) == improver.evaluations == 80
    assert not all(simulated)


def test_it_ends_where_no_move_is_left() -> None:
    case = case_of(residual(8, 8), "mcu")
    improver = case.improver()
    rows = [*improver.better(*case.start(), 100_000)]
    assert improver.evaluations < 20_000
    final = rows[-1]
    for _, changed in case.made(final.plan):
        metrics = case.search.evaluate(changed)
        assert metrics is None or metrics.cycles >= final.metrics.cycles


def test_patterns_bind_the_improvement() -> None:
    """What shall be fused stays fused, what shall be apart stays apart and is not kept."""
    graph = residual(16, 16)
    machine = load_machine("npu-2.7")
    fused = Pattern("fused", ("Conv", "(Relu)", "Conv"), Action.FUSE)
    apart = Pattern("apart", ("Conv", "Add"), Action.APART)
    prepared_graph = prepared(graph, machine, machine.dtype).graph
    search = Fusion(prepared_graph, machine, machine.dtype, "net", patterns=(apart,))
    plan = search.run(Effort.LOW).best.plan
    home = {name: n for n, group in enumerate(plan.groups) for name in group.nodes}
    adds = [node for node in prepared_graph.nodes if node.kind == "Add"]
    assert adds
    for node in adds:
        for name in node.inputs:
            maker = prepared_graph.nodes[prepared_graph.producer[name]]
            if maker.kind == "Conv":
                assert home[maker.name] != home[node.name]
                again = dict(plan.reloaded).get(name, ())
                assert name not in plan.resident or node.name in again
    search = Fusion(prepared_graph, machine, machine.dtype, "net", patterns=(fused,))
    plan = search.run(Effort.LOW).best.plan
    assert any(sum("conv" in n or "stem" in n for n in g.nodes) > 1 for g in plan.groups)


def test_a_search_ends_with_its_improvement_and_an_interrupt_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = load_machine("npu-2.7")
    graph = prepared(u_shape(), machine, machine.dtype).graph

    def search(stop: float | None = None) -> Found:
        def tell(text: str, share: float | None = None, /) -> None:
            if text == "improving the best plan" and stop is not None and (share or 0) > stop:
                raise KeyboardInterrupt

        return Fusion(graph, machine, machine.dtype, "net", progress=tell).run()

    monkeypatch.setitem(improve.EVALUATIONS, Effort.LOW, 0)
    monkeypatch.setitem(improve.EVALUATIONS, Effort.NORMAL, 200)
    full, cut = search(), search(0.1)
    asked = evaluations_of(Effort.NORMAL, full.best.metrics.run_tasks)
    monkeypatch.setitem(improve.EVALUATIONS, Effort.NORMAL, 0)
    without = search()
    assert full.best.cycles < without.best.cycles
    assert full.best.cycles <= cut.best.cycles <= without.best.cycles
    assert cut.interrupted and not full.interrupted
    assert cut.not_looked_at.endswith(f"of {asked} improvements")
    assert not full.not_looked_at


@pytest.mark.parametrize(
    ("objective", "evaluations"),
    [
        (Objective.LATENCY, (12, 30, 60)),
        (Objective.LATENCY, (60, 0, 0)),
        (Objective.TRAFFIC, (20, 0, 0)),
    ],
)
def test_a_larger_effort_never_finds_a_worse_plan(
    objective: Objective, evaluations: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However lucky the smaller one was: it begins with all that that does."""
    machine = load_machine("npu-4.0").with_memory(24 * 1024)
    graph = prepared(transformer_block(), machine, machine.dtype).graph
    for effort, count in zip(Effort, evaluations, strict=True):
        monkeypatch.setitem(improve.EVALUATIONS, effort, count)
    found = [Fusion(graph, machine, machine.dtype, "net", objective).run(e).best for e in Effort]
    scores = [trial.score(objective) for trial in found]
    assert scores == sorted(scores, reverse=True)


def test_every_objective_finds_the_plan_that_is_best_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Among what all objectives find; and least memory is really less of it."""
    machine = load_machine("npu-2.7")
    graph = prepared(residual(8, 16), machine, machine.dtype).graph
    monkeypatch.setitem(improve.EVALUATIONS, Effort.LOW, 60)
    found = {
        objective: Fusion(graph, machine, machine.dtype, "net", objective).run(Effort.LOW)
        for objective in Objective
    }
    for objective in (Objective.ENERGY, Objective.TRAFFIC, Objective.MEMORY, Objective.EDP):
        own = found[objective]
        for other in found.values():
            assert own.best.score(objective) <= other.best.score(objective)
        assert own.rivals == found[Objective.LATENCY].rivals
    fastest = found[Objective.LATENCY].best.metrics.peak_bytes
    assert found[Objective.MEMORY].best.metrics.peak_bytes < 0.8 * fastest


def test_sections_of_one_plan_fit_into_another() -> None:
    """Whatever two climbs did: each splice is a plan with all operators, and gives the numbers."""
    case = case_of(u_shape(), "npu-2.7")
    plan, metrics = case.start()
    one, other = ([*case.improver(seed=n).better(plan, metrics, 80)][-1].plan for n in (0, 1))
    rows = [*spliced(case.search.graph, one, other), *spliced(case.search.graph, plan, other)]
    assert len(set(rows)) > 5
    names = sorted(node.name for node in case.search.graph.nodes)
    known = {group for p in (plan, one, other) for group in p.groups}
    fitting: list[Plan] = []
    for changed in dict.fromkeys(rows):
        assert sorted(name for group in changed.groups for name in group.nodes) == names
        assert known.issuperset(changed.groups)
        if case.search.evaluate(changed) is not None:
            check_plan(changed, Path("plan"), case.search.graph, case.search.machine)
            fitting.append(changed)
    assert len(fitting) > 3
    for changed in fitting[:EXECUTED]:
        assert case.error(changed) < 1e-4


def test_what_two_plans_do_better_at_either_end_is_found() -> None:
    """A plan that is good up to some place only takes the rest from the other."""
    case = case_of(u_shape(), "npu-2.7")
    plan, metrics = case.start()
    good = [*case.improver().better(plan, metrics, 120)][-1]
    halves = [p for p in spliced(case.search.graph, plan, good.plan) if p not in (plan, good.plan)]
    values = [(p, value) for p in halves if (value := case.search.evaluate(p)) is not None]
    worse = [(p, value) for p, value in values if value.cycles > good.metrics.cycles]
    assert worse
    for start in worse[:3]:
        found = [*better_spliced(case.improver(), start, good.plan, 40)]
        assert found
        scores = [value.cycles for _, value in (start, *found)]
        assert scores == sorted(scores, reverse=True)
        assert scores[-1] < scores[0]
        assert case.search.evaluate(found[-1][0]) == found[-1][1]


def test_networks_of_very_many_tasks_have_fewer_plans_but_a_thousand() -> None:
    normal = improve.EVALUATIONS[Effort.NORMAL]
    assert evaluations_of(Effort.NORMAL, 900) == normal
    assert 1_000 < evaluations_of(Effort.NORMAL, 30_000) < normal
    assert evaluations_of(Effort.NORMAL, 10**7) == 1_000
    assert evaluations_of(Effort.LOW, 10**7) == improve.EVALUATIONS[Effort.LOW]
