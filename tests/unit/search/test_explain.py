"""Reasons for boundaries: seeded ones are found, with numbers that hold."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from support.builder import GraphBuilder
from support.networks import pair, residual, u_shape, view_between
from support.unlike import core, unlike_cores
from tilewright import api
from tilewright.frontend.builder import Builder
from tilewright.frontend.normalize import normalize
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.machine.rates import bytes_per_cycle, main_bytes_per_cycle
from tilewright.plan.order import order_with
from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.planning import prepared
from tilewright.program import lower
from tilewright.program.account import traffic
from tilewright.program.lower import lowered
from tilewright.report.explained import boundary_lines, explanation_json
from tilewright.search.candidates.layers import layer_by_layer
from tilewright.search.explanation.explain import Boundary, Explanation, explain, grid_words
from tilewright.search.explanation.trials import NOT_SPILLED, BoundaryKind, How, Trials
from tilewright.search.improvement.boundaries import Edge
from tilewright.tiling.grid import Split


def explained(
    graph: Graph, machine: Machine, *resident: str, limit: int | None = None
) -> Explanation:
    plan = layer_by_layer(graph, machine, machine.dtype, "net")
    plan = replace(plan, resident=resident)
    return explain(graph, machine, plan, lowered(graph, machine, plan), limit=limit)


def only(explanation: Explanation) -> Boundary:
    (boundary,) = explanation.boundaries
    return boundary


def test_a_memory_that_is_too_small_for_the_filters_is_named_with_its_bytes() -> None:
    graph, usable = pair(3, 64, 16), 64 * 1024
    machine = load_machine("npu-2.7").with_memory(usable)
    plan = layer_by_layer(graph, machine, machine.dtype, "net")
    forced = Trials(graph, machine, plan).together(0, 1)
    assert forced.cycles is None
    assert forced.obstacle == (BoundaryKind.MEMORY, "")
    short = forced.shortage
    assert short is not None
    assert (short.memory, short.there) == ("cluster0.cmx", usable)
    filters = 64 * 64 * 9 * 2  # of the first convolution: every tile needs all of them
    assert filters < short.needed < filters + 32_000
    # With the bytes that were said to be missing, the same trial can be simulated.
    enough = Trials(graph, machine.with_memory(short.needed), plan).together(0, 1)
    assert enough.cycles is not None
    boundary = only(explained(graph, machine))
    assert f"cluster0.cmx is short by {short.short_by:,} bytes" in boundary.text


def test_beside_a_plan_no_trial_is_spilled_to_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes as long as dozens of trials; where it was left out, that is said."""
    machine = load_machine("mcu").with_memory(32 * 1024)
    plan = layer_by_layer(pair(3, 16, 64), machine, machine.dtype, "net")
    trials = Trials(pair(3, 16, 64), machine, plan, remedies=False)

    def made_to_fit(*_: object) -> None:
        pytest.fail("a trial was made to fit")

    monkeypatch.setattr(lower, "_made_to_fit", made_to_fit)
    forced = trials.kept(Edge("first", 0, 1))
    assert forced.obstacle == (BoundaryKind.MEMORY, "") and forced.shortage is not None
    assert forced.shortage.remedy == NOT_SPILLED and forced.shortage.short_by > 0


def test_groups_are_joined_on_their_own_cores() -> None:
    """A core that they do not use has no say: its scratchpad holds no tile of both."""
    graph = pair(3, 64, 16)
    machine = unlike_cores(large=core(16, kib=256), small=core(8, kib=16))
    plan = layer_by_layer(graph, machine, machine.dtype, "net")
    groups = tuple(replace(g, splits=(), core_split=None, cores=("large",)) for g in plan.groups)
    plan = replace(plan, groups=groups)
    found = only(explain(graph, machine, plan, lowered(graph, machine, plan)))
    joined = next(trial for trial in found.trials if trial.how is How.TOGETHER)
    assert joined.cycles is not None and joined.cut is not None
    assert joined.cut.cores == ("large",)
    assert "small.sram" not in found.text
    # Where there is no room, it is the scratchpad of their own core that is short.
    narrow = unlike_cores(large=core(16, kib=40), small=core(8, kib=16))
    short = Trials(graph, narrow, plan).together(0, 1).shortage
    assert short is not None
    assert short.memory == "large.sram"


@pytest.mark.parametrize(("kib", "kind"), [(32, BoundaryKind.MEMORY), (88, None)])
def test_a_tensor_that_cannot_stay_is_told_with_its_bytes(
    kib: int, kind: BoundaryKind | None
) -> None:
    graph, usable = pair(3, 16, 64), kib * 1024
    machine = load_machine("mcu").with_memory(usable)
    plan = layer_by_layer(graph, machine, machine.dtype, "net")
    forced = Trials(graph, machine, plan).kept(Edge("first", 0, 1))
    if kind is None:
        assert forced.cycles is not None
        assert forced.shortage is None
        return
    assert forced.obstacle == (kind, "")
    short = forced.shortage
    assert short is not None
    assert (short.memory, short.there) == ("core.sram", usable)
    assert 64 * 64 * 16 < short.needed < 88 * 1024


@pytest.mark.parametrize(
    ("machine", "kib", "channels", "filters"), [("npu-2.7", 64, 64, 64), ("mcu", 12, 16, 8)]
)
def test_large_kernels_are_kept_apart_by_their_halo(
    machine: str, kib: int, channels: int, filters: int
) -> None:
    target = load_machine(machine).with_memory(kib * 1024)
    boundary = only(explained(pair(11, channels, 32, filters), target))
    assert boundary.kind is BoundaryKind.HALO, boundary.text
    trial = boundary.trial
    assert trial is not None
    assert trial.how is How.TOGETHER
    assert trial.compute is not None
    fused, unfused = trial.compute
    saved = 2 * boundary.bytes / main_bytes_per_cycle(target)
    assert boundary.saved_dma == pytest.approx(saved)
    assert fused - unfused > saved
    rule = f"extra compute = {fused:,.0f} - {unfused:,.0f} = {fused - unfused:,.0f} cycles"
    assert rule in boundary.text
    assert f"saved DMA = 2 x {boundary.bytes:,} B" in boundary.text
    assert ": the rule of thumb keeps apart" in boundary.text and "otherwise" not in boundary.text
    assert "again of what the group takes uncut" in boundary.text


def test_trials_are_the_simulators() -> None:
    graph = pair(3, 16, 16)
    machine = load_machine("mcu")
    plan = layer_by_layer(graph, machine, machine.dtype, "net")
    found = only(explain(graph, machine, plan, lowered(graph, machine, plan)))
    assert found.kind is BoundaryKind.MISSED  # layer by layer was asked for
    kept = next(trial for trial in found.trials if trial.how is How.KEPT)
    placed = lowered(graph, machine, replace(plan, resident=("first",)))
    assert kept.cycles == placed.schedule.makespan
    assert kept.dram_bytes == sum(traffic(placed.program, machine.main_memory.name))
    cut = next(trial for trial in found.trials if trial.how is How.TOGETHER)
    assert cut.cut is not None
    placed = lowered(graph, machine, replace(plan, groups=(cut.cut,)))
    assert cut.cycles == placed.schedule.makespan


def test_trials_on_fewer_cores_are_made_where_there_are_several() -> None:
    """What is divided among eight cores is passed between them: for the first layers of a small
    network one core is better, and that is told as simulated."""
    machine = load_machine("eight-core-l2")
    graph = prepared(u_shape(32, 32), machine, machine.dtype).graph
    plan = layer_by_layer(graph, machine, machine.dtype, "net")
    found = explain(graph, machine, plan, lowered(graph, machine, plan))
    fewer = [(row, trial) for row in found.boundaries for trial in row.trials if trial.cores]
    assert {trial.how for _, trial in fewer} == {How.TOGETHER, How.KEPT}
    for boundary, trial in fewer:
        assert trial.plan is not None and 0 < len(trial.cores) < len(machine.cores)
        ends = {plan.groups[n].nodes[0] for n in (boundary.edge.before, boundary.edge.after)}
        on = {g.cores for g in trial.plan.groups if g.place is Place.CORES and ends & set(g.nodes)}
        assert on == {trial.cores} and f"{trial.how} on {trial.cores[0]}" in boundary.text
        assert trial.cycles == lowered(graph, machine, trial.plan).schedule.makespan
    best = [
        row for row, trial in fewer if row.trials[0] is trial and row.kind is BoundaryKind.MISSED
    ]
    assert best and all("joined on fewer cores is better" in row.text for row in best)


def test_a_single_core_has_no_fewer() -> None:
    boundary = only(explained(pair(3, 8, 8), load_machine("mcu")))
    assert not any(trial.cores for trial in boundary.trials)


def test_a_resident_tensor_saves_no_dma() -> None:
    graph, machine = pair(3, 16, 16), load_machine("mcu")
    boundary = only(explained(graph, machine, "first"))
    assert boundary.resident
    assert boundary.saved_dma == 0
    assert [trial.how for trial in boundary.trials] == [How.TOGETHER]
    assert "saved DMA = 0 cycles" in boundary.text


def test_a_path_around_two_groups_is_told_with_an_operator_on_it() -> None:
    machine = load_machine("mcu")
    rows = explained(normalize(residual()), machine).boundaries
    around = next(row for row in rows if row.edge.tensor == "stem" and row.edge.after != 1)
    (together,) = (trial for trial in around.trials if trial.how is How.TOGETHER)
    assert together.obstacle is not None
    assert together.obstacle[0] is BoundaryKind.NOT_CONVEX
    assert "returns through 'conv1'" in together.obstacle[1]


def test_a_view_between_is_no_reason_by_itself() -> None:
    """A trial runs it on the cores, within one group or by itself, and the figures decide."""
    graph, machine = normalize(view_between()), load_machine("mcu")
    found = explained(graph, machine)
    boundary = next(row for row in found.boundaries if row.edge.tensor == "conv")
    assert boundary.edge.via == ("flat",)
    assert "'flat' (Reshape) is a view of the main memory" in boundary.text
    best = boundary.trial
    assert best is not None and best.plan is not None and best.cycles is not None
    assert boundary.kind is BoundaryKind.MISSED
    assert all(group.place is Place.CORES for group in best.plan.groups)
    again = lowered(graph, machine, best.plan)
    assert again.schedule.makespan == best.cycles < found.cycles
    better = explain(graph, machine, best.plan, again)
    assert all(row.kind is not BoundaryKind.MISSED for row in better.boundaries)


def test_copies_within_the_main_memory_are_tried_on_the_cores() -> None:
    b = Builder("padded")
    x = b.conv(b.input("x", (1, 16, 24, 24)), 16, 3, pads=1, name="first")
    pads = b.constant("pads", np.asarray([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    graph = normalize(b.finish(b.conv(b.op("Pad", x, pads, name="pad"), 16, 3, name="second")))
    machine = load_machine("npu-2.7")
    plan = layer_by_layer(graph, machine, machine.dtype, "net")
    apart = replace(plan, groups=tuple(GroupPlan((node.name,), ()) for node in graph.nodes))
    names = [node.name for node in graph.nodes]
    assert "pad" in names
    number = names.index("pad")
    outside = replace(apart.groups[number], place=Place.MAIN)
    apart = replace(apart, groups=(*apart.groups[:number], outside, *apart.groups[number + 1 :]))
    found = explain(graph, machine, apart, lowered(graph, machine, apart))
    assert all(row.trials for row in found.boundaries)
    assert any("copies within the main memory" in row.text for row in found.boundaries)


def test_no_gain_shows_both_figures() -> None:
    graph, machine = pair(3, 64, 64), load_machine("npu-2.7").with_memory(1000 * 1024)
    plan = layer_by_layer(graph, machine, machine.dtype, "net")
    better = replace(plan, resident=("first",))
    found = explain(graph, machine, better, lowered(graph, machine, better))
    boundary = only(found)
    assert boundary.kind in (BoundaryKind.NO_GAIN, BoundaryKind.HALO)
    trial = boundary.trial
    assert trial is not None
    assert f"{trial.cycles:,} cycles instead of {found.cycles:,}" in boundary.text


def test_the_largest_tensors_are_tried_first_and_the_rest_is_counted() -> None:
    graph, machine = normalize(api.load("four_convs@16x16").graph), load_machine("mcu")
    few = explained(graph, machine, limit=1)
    assert few.left_out == 2
    assert sum(bool(b.trials) for b in few.boundaries) == 1
    assert [b.kind for b in few.boundaries].count(BoundaryKind.NOT_TRIED) == 2
    assert explained(graph, machine).left_out == 0


def test_progress_grows() -> None:
    graph, machine = normalize(api.load("four_convs@16x16").graph), load_machine("mcu")
    plan = layer_by_layer(graph, machine, machine.dtype, "net")
    shares: list[float] = []

    def tell(text: str, share: float | None = None, /) -> None:
        shares.append(share or 0.0)

    explain(graph, machine, plan, lowered(graph, machine, plan), tell=tell)
    assert len(shares) == 3
    assert all(one < other for one, other in pairwise(shares))


def test_patterns_are_named() -> None:
    graph, machine = pair(3, 16, 16), load_machine("mcu")
    plan = layer_by_layer(graph, machine, machine.dtype, "net")
    placed = lowered(graph, machine, plan)
    found = explain(graph, machine, plan, placed, apart={("first", "second"): "mine"})
    boundary = only(found)
    assert boundary.kind is BoundaryKind.KEPT_APART
    assert "pattern 'mine'" in boundary.text
    assert boundary.trials


def test_facts_of_groups() -> None:
    graph = normalize(api.load("four_convs@32x32").graph)
    machine = load_machine("npu-2.7")
    nodes = tuple(node.name for node in graph.nodes)
    plan = layer_by_layer(graph, machine, machine.dtype, "net")
    joined = replace(plan, groups=(replace(plan.groups[0], nodes=nodes),))
    placed = lowered(graph, machine, joined)
    (facts,) = explain(graph, machine, joined, placed).groups
    reads, writes = traffic(placed.program, machine.main_memory.name)
    assert (facts.read_bytes, facts.written_bytes) == (reads, writes)
    assert facts.label == "conv1 .. conv4"
    assert facts.halo_share > 0
    assert "over 2 cores" in facts.grid
    assert facts.binding in {engine.name for engine in machine.engines} | {"dma0", "dma1"}
    assert facts.tiles > 1


def test_groups_that_would_wait_for_each_other() -> None:
    graph = normalize(residual())
    groups = [GroupPlan((node.name,), (), None, Place.CORES) for node in graph.nodes]
    names = [node.name for node in graph.nodes]
    assert order_with(graph, groups, (names.index("stem"), names.index("add"))) is None
    order = order_with(graph, groups, (names.index("stem"), names.index("conv1")))
    assert order is not None
    assert len(order) == len(groups) - 1


def test_plans_of_nothing_but_one_group_have_no_boundaries() -> None:
    graph, machine = pair(3, 16, 16), load_machine("mcu")
    plan = Plan("net", machine.name, machine.dtype, (GroupPlan(("first", "second"), ()),))
    found = explain(graph, machine, plan, lowered(graph, machine, plan))
    assert found.boundaries == ()
    assert found.simulated == 0


@pytest.mark.parametrize("machine", ["npu-2.7", "three-core-bus"])
def test_kinds_say_what_their_reasons_say(machine: str) -> None:
    """And only groups with halos are kept apart by them: a chain of activations has none."""
    words = {
        BoundaryKind.MISSED: "is better",
        BoundaryKind.HALO: "% of the work is halo",
        BoundaryKind.MEMORY: " is short by ",
        BoundaryKind.NOT_CONVEX: "a path leaves the group",
    }
    b = Builder("chain")
    x = b.conv(b.input("x", (1, 16, 24, 24)), 16, 3, pads=1, name="conv")
    for number in range(3):
        x = b.op("Sigmoid", x, name=f"unary{number}")
    chain = normalize(b.finish(x))
    for graph in (chain, normalize(api.load("resnet18@32x32").graph)):
        found = explained(graph, load_machine(machine), limit=6)
        kinds = {row.kind for row in found.boundaries}
        assert graph is not chain or BoundaryKind.HALO not in kinds
        tried = [row for row in found.boundaries if row.trials]
        assert len(tried) == min(6, len(found.boundaries))
        for row in tried:
            first = row.text.split(f"{row.trials[0].told}: ", 1)[1]
            first = first.split("; kept in")[0].split("; tiled together")[0]
            if row.kind in words:
                assert words[row.kind] in first, row.text
            if row.kind is BoundaryKind.NO_GAIN:
                assert any(f": {w}" in first for w in ("slower", "as fast", "less than half"))


def test_group_cycles_are_those_of_every_other_table() -> None:
    run = api.plan("resnet18@32x32", "npu-2.7", effort="low", verify=False)
    why = explain(run.planned.graph, run.planned.machine, run.plan, run.planned.placed, limit=0)
    assert [facts.adds for facts in why.groups] == run.groups.column("cycles")
    assert sum(facts.adds for facts in why.groups) == why.reported_cycles == run.latency_cycles


def test_a_group_that_nobody_reads_has_a_grid_in_words() -> None:
    """As a run has it whose files were changed and sealed anew."""
    graph = replace(normalize(api.load("four_convs@16x16").graph), outputs=("conv1",))
    group = GroupPlan(("conv4",), (Split(2, 4),), 0)
    assert grid_words(graph, group, 2) == "H 16 in 4 of 4 over 2 cores"


def test_groups_on_some_cores_are_told_so_and_fewer_parts_than_cores_leave_some_idle() -> None:
    graph = normalize(api.load("four_convs@16x16").graph)
    group = GroupPlan(("conv4",), (Split(2, 2),), 0)
    assert grid_words(graph, group, 8) == "H 16 in 2 of 8 over 2 cores"
    one = replace(group, cores=("core6",))
    assert grid_words(graph, one, 8) == "H 16 in 2 of 8 on core6"
    two = replace(group, cores=("core0", "core1"))
    assert grid_words(graph, two, 8) == "H 16 in 2 of 8 over 2 cores on core0, core1"
    whole = replace(two, splits=(), core_split=None, replicated=True)
    assert grid_words(graph, whole, 8) == "in one piece on core0, core1, on each"


def test_what_the_rule_says_is_held_against_the_run_and_an_l2_is_no_main_memory() -> None:
    """Rows whose rule and whose simulated run disagree say so; saved copies are those of the memory
    that the tensor lies in."""
    machine = load_machine("eight-core-l2")
    graph = prepared(u_shape(32, 32), machine, machine.dtype).graph
    plan = layer_by_layer(graph, machine, machine.dtype, "net")
    first = plan.groups[0].nodes[-1]
    (name,) = graph.nodes[graph.index[first]].writes
    plan = replace(plan, shared=(("l2", (name,)),))
    placed = lowered(graph, machine, plan)
    told = explain(graph, machine, plan, placed)
    shared = [b for b in told.boundaries if b.edge.tensor == name]
    assert shared and {b.through for b in shared} == {"l2"}
    for boundary in shared:
        assert boundary.saved_dma == 2 * boundary.bytes / bytes_per_cycle(machine, "l2")
    assert {b.through for b in told.boundaries if b.edge.tensor != name} == {"dram"}
    checked = 0
    for boundary in told.boundaries:
        for trial in boundary.trials:
            if trial.compute is None or trial.cycles is None:
                continue
            fused, unfused = trial.compute
            joins = fused - unfused < boundary.saved_dma
            assert f"the rule of thumb {'joins' if joins else 'keeps apart'}" in boundary.text
            disagree = joins != (trial.cycles < told.cycles)
            assert disagree == ("the simulated run says otherwise" in boundary.text)
            checked += 1
    assert checked


def test_two_groups_are_one_boundary_with_all_their_tensors() -> None:
    machine, b = load_machine("mcu"), GraphBuilder()
    x = b.input(1, 8, 16, 16)
    pads = [1, 1, 1, 1]
    one = b.add("Conv", x, b.weight(8, 8, 3, 3), pads=pads)
    other = b.add("Conv", one, b.weight(16, 8, 3, 3), pads=pads)
    left = b.add("Conv", one, b.weight(8, 8, 3, 3), pads=pads)
    right = b.add("Conv", other, b.weight(8, 16, 3, 3), pads=pads)
    graph = b.graph(left, right)
    names = [node.name for node in graph.nodes]
    groups = (GroupPlan(tuple(names[:2]), ()), GroupPlan(tuple(names[2:]), ()))
    plan = Plan("net", machine.name, machine.dtype, groups)
    found = explain(graph, machine, plan, lowered(graph, machine, plan))
    boundary = only(found)
    assert boundary.tensors == (other, one)  # the larger first
    assert boundary.bytes == 16 * 16 * (16 + 8)
    kept = [trial.tensor for trial in boundary.trials if trial.how is How.KEPT]
    assert sorted(kept) == sorted((one, other))
    assert sum(trial.how is How.TOGETHER for trial in boundary.trials) == 1
    assert f"'{one}' kept in the scratchpads" in boundary.text
    (row,) = explanation_json(plan, machine, found)["boundaries"]
    assert [tensor["name"] for tensor in row["tensors"]] == [other, one]
    lines = boundary_lines(plan, found)
    assert len(lines) == 2 and f"{other}, {one}: 6,144 bytes" in lines[1]
