"""The fusion search as its caller sees it: rivals, interrupts, progress, ablation."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from support.builder import GraphBuilder
from support.networks import attention, residual
from support.programs import Lowered, relative_error
from tilewright import api
from tilewright.frontend.builder import Builder
from tilewright.frontend.normalize import normalize
from tilewright.frontend.weights import seeded
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Place
from tilewright.planning import prepared
from tilewright.program.lower import lowered
from tilewright.program.lowering import Lowering
from tilewright.program.metrics import Objective, metrics_of
from tilewright.program.timed import Timed
from tilewright.report.plan_summary import summary_json, summary_lines
from tilewright.search.candidates.candidate import NoTileFitsError
from tilewright.search.candidates.layers import layer_by_layer
from tilewright.search.candidates.tiles import TILES
from tilewright.search.effort import Effort
from tilewright.search.explanation.ablation import PIPELINING, RESHAPE, ablate
from tilewright.search.fusion import Fusion
from tilewright.search.grouping import patterns as grouping
from tilewright.search.improvement import improve
from tilewright.search.progress import Tell
from tilewright.tiling.grid import Split, tiles_of


class Stops:
    """Hears of progress and interrupts at a word."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.heard: list[tuple[str, float | None]] = []

    def __call__(self, text: str, share: float | None = None, /) -> None:
        self.heard.append((text, share))
        if self.word and self.word in text:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    "word", ["merging greedily", "looking at all groups", "simulating the best grouping"]
)
def test_an_interrupt_keeps_the_best_plan_so_far(word: str) -> None:
    machine = load_machine("mcu").with_memory(24 * 1024)
    graph = normalize(residual(16, 32))
    full = Fusion(graph, machine, machine.dtype, "net").run(Effort.LOW)
    found = Fusion(graph, machine, machine.dtype, "net", progress=Stops(word)).run(Effort.LOW)
    assert found.interrupted
    assert not full.interrupted
    assert found.exact is (word == "simulating the best grouping")
    assert found.simulated <= full.simulated
    assert full.best.cycles <= found.best.cycles * 1.005
    if word == "merging greedily":
        assert found.best.name == "layer by layer"


def test_an_interrupt_before_any_plan_is_passed_on() -> None:
    machine = load_machine("mcu")
    stops = Stops("layer by layer")
    with pytest.raises(KeyboardInterrupt):
        Fusion(residual(), machine, machine.dtype, "net", progress=stops).run()


def test_an_interrupted_plan_is_executed_and_says_so() -> None:
    model = api.load("four_convs@16x16")
    planned = api.plan(model, load_machine("mcu"), progress=Stops("looking at all groups")).planned
    assert planned.verified is not None
    shown = "\n".join(summary_lines(planned))
    assert "best plan so far" in shown and "additive" not in shown
    assert summary_json(planned)["search"]["interrupted"]


class StopsOnce(Stops):
    """Interrupts the first time only."""

    def __call__(self, text: str, share: float | None = None, /) -> None:
        word, self.word = self.word, "" if self.word in text else self.word
        if word and word in text:
            raise KeyboardInterrupt


@pytest.mark.parametrize("word", ["bounding", "lowering, placing", "executing"])
def test_an_interrupt_behind_a_search_does_not_lose_its_plan(word: str) -> None:
    model, machine = api.load("four_convs@16x16"), load_machine("mcu")
    planned = api.plan(model, machine, fast=True, progress=StopsOnce(word)).planned
    assert planned.found is not None and not planned.found.interrupted
    assert (planned.verified is None) == (word == "executing")
    assert any("interrupted" in note for note in planned.notes) == (word == "executing")
    with pytest.raises(KeyboardInterrupt):
        api.plan(model, machine, layer_by_layer=True, progress=StopsOnce(word))


def test_an_interrupt_before_any_grouping_says_nothing_about_fusion() -> None:
    model = api.load("four_convs@16x16")
    planned = api.plan(model, load_machine("mcu"), progress=Stops("merging greedily")).planned
    shown = "\n".join(summary_lines(planned))
    assert "fusion does not help" not in shown and "too many to look" not in shown
    assert "not looked at: greedy merging, groupings by estimate, improvements" in shown
    assert summary_json(planned)["search"]["fusion_helps"] is None


def test_an_interrupt_among_objectives_says_which_were_not_searched() -> None:
    machine = load_machine("mcu")
    graph = normalize(residual())
    search = Fusion(
        graph, machine, machine.dtype, "net", Objective.TRAFFIC, progress=Stops("looking at all")
    )
    found = search.run(Effort.LOW)
    assert found.interrupted and found.not_looked_at.startswith("for latency groupings by estimate")
    assert found.not_looked_at.endswith("; all of traffic; all of edp")


def test_little_memory_is_the_least_that_layer_by_layer_fits_in_with_few_tiles() -> None:
    machine = load_machine("npu-2.7")
    graph = prepared(residual(16, 32), machine, machine.dtype).graph
    found = Fusion(graph, machine, machine.dtype, "net", Objective.MEMORY).run(Effort.LOW)
    limit = found.best.plan.memory_limit
    assert limit is not None and found.best.metrics.peak_bytes <= limit
    assert found.best.metrics.peak_bytes < machine.cores[0].memory.usable / 20

    def fits(machine: Machine) -> bool:
        try:
            plan = layer_by_layer(graph, machine, machine.dtype, "net")
        except NoTileFitsError:
            return False
        if max(tiles_of(group.splits) for group in plan.groups) > TILES:
            return False
        return isinstance(Lowering(graph, machine, machine.dtype).timed(plan), Timed)

    less = limit * 9 // 10
    assert not fits(machine.within(less))
    tighter = replace(found.best.plan, memory_limit=less)
    assert not isinstance(Lowering(graph, machine, machine.dtype).timed(tighter), Timed)


def test_where_nothing_fits_twice_what_fits_once_is_taken() -> None:
    """Long reductions: two heads of the sums fit, three do not, and none twice at once."""
    machine = load_machine("three-core-bus")
    b = GraphBuilder()
    b.add("MatMul", b.input(1, 8, 8, 3137), b.input(1, 8, 3137, 8))
    graph = prepared(b.graph(), machine, machine.dtype).graph
    plan = layer_by_layer(graph, machine, machine.dtype, "sums")
    assert lowered(graph, machine, plan, remedies=False).schedule.makespan > 0


def test_a_limit_is_the_machine_with_less_memory() -> None:
    machine = load_machine("npu-2.7")
    graph = prepared(residual(16, 32), machine, machine.dtype).graph
    within = machine.within(24 * 1024)
    plan = Fusion(graph, within, machine.dtype, "net").run(Effort.LOW).best.plan
    on_less = Lowering(graph, within, machine.dtype).timed(plan)
    limited = Lowering(graph, machine, machine.dtype).timed(replace(plan, memory_limit=24 * 1024))
    free = Lowering(graph, machine, machine.dtype).timed(plan)
    assert isinstance(on_less, Timed) and isinstance(limited, Timed) and isinstance(free, Timed)
    assert metrics_of(limited) == metrics_of(on_less) != metrics_of(free)
    again = lowered(graph, machine, replace(plan, memory_limit=24 * 1024))
    assert again.schedule.makespan == limited.makespan


def test_the_share_that_is_done_grows_to_one() -> None:
    machine = load_machine("mcu")
    hears = Stops("")
    Fusion(normalize(residual()), machine, machine.dtype, "net", progress=hears).run(Effort.LOW)
    shares = [share for text, share in hears.heard if text == "looking at all groups"]
    assert shares[-1] == 1.0
    assert shares == sorted(share or 0.0 for share in shares)
    assert None in [share for _, share in hears.heard]


def test_the_summary_tells_rivals_bound_and_thoroughness() -> None:
    planned = api.plan(api.load("four_convs@16x16"), load_machine("npu-2.7"), verify=False).planned
    summary = summary_json(planned)
    search = summary["search"]
    assert [rival["name"] for rival in search["rivals"]] == ["layer by layer", "greedy merge"]
    assert search["speed_up"] > 1
    assert search["fusion_helps"]
    assert search["exact"]
    assert search["groups_looked_at"] > 0
    assert search["plans_simulated"] >= 2
    parts = dict(planned.bounds.parts)
    assert parts[summary["lower_bound"]] == summary["lower_bound_cycles"]
    gap = summary["latency_cycles"] / summary["lower_bound_cycles"] - 1
    assert summary["gap"] == pytest.approx(gap, abs=1e-6)
    text = "\n".join(summary_lines(planned))
    for word in (
        "layer by layer",
        "greedy merge",
        "best of all groupings",
        "groups looked at",
        "by ",
    ):
        assert word in text


def test_where_fusion_does_not_help_the_text_says_so() -> None:
    planned = api.plan(api.load("four_convs@16x16"), load_machine("mcu"), verify=False).planned
    found = planned.found
    assert found is not None
    layers = found.rivals[0]
    alone = replace(planned, plan=layers.plan, found=replace(found, best=layers))
    assert "fusion does not help here" in "\n".join(summary_lines(alone))
    assert summary_json(alone)["search"]["fusion_helps"] is False


def searching(graph: Graph, machine: Machine) -> Callable[[frozenset[str], Tell], Fusion]:
    """Begins searches of a network without some passes."""
    return lambda passes, tell: Fusion(
        graph, machine, machine.dtype, "net", without=passes, progress=tell
    )


@pytest.mark.parametrize("machine", ["npu-2.7", "mcu"])
def test_no_step_of_an_ablation_is_slower_than_the_one_before(machine: str) -> None:
    target = load_machine(machine)
    ablation, found = ablate(searching(normalize(attention()), target), Effort.LOW)
    cycles = [step.cycles for step in ablation.steps]
    assert [step.name.split()[-1] for step in ablation.steps] == [
        "none",
        "fusion",
        "reshape",
        "pipelining",
    ]
    assert cycles == sorted(cycles, reverse=True)
    assert ablation.steps[0].without == {RESHAPE, PIPELINING}
    assert ablation.steps[-1].cycles <= found.best.cycles
    assert "pipelining switch" in ablation.notes[0]


def test_an_interrupted_ablation_ends_with_what_it_has() -> None:
    machine = load_machine("mcu")
    stops = Stops("+ implicit reshape: looking")
    ablation, found = ablate(searching(attention(), machine), progress=stops)
    assert [step.name for step in ablation.steps] == [
        "none",
        "+ vertical fusion",
        "+ implicit reshape",
    ]
    assert found.interrupted


def searched(model: str) -> Fusion:
    machine = load_machine("npu-2.7")
    graph = prepared(api.load(model).graph, machine, "fp16").graph
    return Fusion(graph, machine, "fp16", model)


def test_groups_that_do_not_fit_are_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    found = searched("four_convs")
    found.run(Effort.LOW)
    whole = sum(found.space.singles)
    trial = found.proposals.attempt("all", (whole,))
    assert trial is not None and trial.groups == (whole,)
    nodes = found.space.plan("m", (whole,)).groups[0].nodes
    assert found.space.parted((whole,), nodes) == found.space.singles
    assert found.space.parted((whole,), ()) == (whole,)
    monkeypatch.setattr(grouping, "SMALL_GROUP", 1)
    assert found.space.parted((whole,), nodes) == (whole,)


def test_a_plan_that_cannot_be_lowered_is_no_trial() -> None:
    """Whatever the reason: a search goes on with the others."""
    found = searched("four_convs")
    found.run(Effort.LOW)
    plan = found.space.plan("m", found.space.singles)
    lost = replace(plan.groups[0], nodes=("nowhere",))
    assert found.evaluate(replace(plan, groups=(lost, *plan.groups[1:]))) is None
    split = replace(plan.groups[0], splits=(Split(9, 2),), core_split=0)
    assert found.evaluate(replace(plan, groups=(split, *plan.groups[1:]))) is None


@pytest.mark.parametrize("effort", [Effort.LOW, Effort.NORMAL])
def test_cores_that_differ_are_no_worse_than_those_of_one_kind(
    monkeypatch: pytest.MonkeyPatch, effort: Effort
) -> None:
    machine = load_machine("mixed-cores")
    graph = prepared(residual(), machine, machine.dtype).graph
    monkeypatch.setattr(improve, "EVALUATIONS", {Effort.LOW: 20, Effort.NORMAL: 40})
    reached = Fusion(graph, machine, machine.dtype, "net").run(effort).best.cycles
    kinds = Fusion(graph, machine, machine.dtype, "net").network.models.core_classes
    assert len(kinds) > 1
    for alike in kinds:
        alone = machine.with_cores([core.name for core in alike])
        assert reached <= Fusion(graph, alone, machine.dtype, "net").run(Effort.LOW).best.cycles


def test_groups_that_would_copy_within_a_core_are_not_proposed_where_no_link_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What stays for a later group and is read with its halo in its own has to be copied."""
    monkeypatch.setattr(grouping, "SMALL_GROUP", 0)  # nothing is taken apart to make it fit
    machine = load_machine("tpu-like")
    links = (
        replace(link, routes=tuple(r for r in link.routes if r.source != r.destination))
        for link in machine.links
    )
    without = replace(machine, links=tuple(link for link in links if link.routes))
    graph = prepared(api.load("mobilenet_v2@64x64").graph, without, machine.dtype).graph
    search = Fusion(graph, without, machine.dtype, "net")
    search.propose()
    assert search.best().name != "layer by layer"


def test_a_concat_runs_on_the_cores_in_one_of_the_starts() -> None:
    """Behind a view in the main memory, what a U shape joins would be stored and loaded again."""
    b = Builder("skip")
    first = b.op("Relu", b.conv(b.input("x", (1, 8, 32, 32)), 16, 3, pads=1))
    low = b.op("Relu", b.conv(b.pool("MaxPool", first, 2, 2), 16, 3, pads=1))
    scales = b.constant("scales", np.asarray([1, 1, 2, 2], np.float32))
    high = b.op("Resize", low, "", scales, mode="nearest", name="up")
    joined = b.op("Concat", high, first, axis=1, name="join")
    original, machine = seeded(b.finish(b.conv(joined, 8, 1))), load_machine("npu-2.7")
    graph = prepared(original, machine, machine.dtype).graph
    search = Fusion(graph, machine, machine.dtype, "net")
    search.propose()
    usual, moved = search.starts
    places = [{n: g.place for g in t.plan.groups for n in g.nodes} for t in (usual, moved)]
    assert places[0]["join"] is not Place.CORES
    assert places[1]["join"] is places[1]["up"] is Place.CORES
    assert moved.cycles < usual.cycles
    placed = lowered(graph, machine, moved.plan, lowering=search.lowering)
    assert placed.schedule.makespan == moved.cycles
    case = Lowered(original, graph, machine, placed)
    assert relative_error(case.execute().outputs, case.reference()) < 1e-4
