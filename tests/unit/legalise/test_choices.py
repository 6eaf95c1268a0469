"""Rewrites that a network may do without: asked for by name, chosen by plans, told by a plan."""

from dataclasses import replace
from functools import partial
from itertools import permutations
from math import inf
from pathlib import Path

import numpy as np
import pytest

from support.builder import GraphBuilder, feeds_of
from support.compare import assert_same, run_graph
from support.networks import one_conv
from support.programs import Lowered
from support.unlike import unlike_cores
from tilewright.compare.differ import difference
from tilewright.compare.side import PlanSide, side_of
from tilewright.compare.told import notes
from tilewright.frontend.builder import Builder
from tilewright.frontend.weights import seeded
from tilewright.graph.graph import Graph
from tilewright.legalise import dilated, legalise, transposed
from tilewright.legalise.costs import LegalCosts
from tilewright.legalise.steps import SCALES, rewritten_name
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Place, Plan, plan_text
from tilewright.plan.read import read_plan
from tilewright.planning import Options, plan, prepared
from tilewright.planning.check import PlanFaultsError
from tilewright.planning.variants import carried
from tilewright.program.lower import lowered
from tilewright.report.plan_summary import summary_json, summary_lines
from tilewright.search.candidates.layers import layer_by_layer
from tilewright.search.effort import Effort

upscale = partial(one_conv, (1, 16, 12, 12), 8, (2, 2), transposed=True, strides=[2, 2])
NPU = load_machine("npu-2.7")
CASES = [
    (upscale(), unlike_cores()),
    (one_conv((1, 16, 24, 24), 16, (3, 3), dilations=[2, 2], pads=[2] * 4), NPU),
]


@pytest.mark.parametrize(("graph", "machine"), CASES)
def test_a_rewrite_is_made_or_not_as_asked_for(graph: Graph, machine: Machine) -> None:
    (node,) = graph.nodes
    without, with_it = (
        legalise(graph, machine, machine.dtype, wish) for wish in ((), (node.name,))
    )
    assert without.choices == ((node.name, False),) and without.rewrites == ()
    assert with_it.choices == ((node.name, True),) and with_it.rewrites == (node.name,)
    assert len(with_it.graph.nodes) > len(without.graph.nodes)
    feeds = feeds_of(graph)
    for result in (without, with_it):
        assert_same(run_graph(result.graph, feeds), run_graph(graph, feeds))


def test_where_there_is_no_choice_none_is_told() -> None:
    graph = one_conv((1, 16, 8, 8), 16, (3, 3))
    legal = legalise(graph, NPU, NPU.dtype)
    assert legal.rewrites is None
    made = plan(graph, NPU, Options(layer_by_layer=True)).plan
    assert made.rewrites is None and "rewrites" not in plan_text(made)


@pytest.mark.parametrize(("graph", "machine"), CASES)
@pytest.mark.parametrize("layers", [True, False])
def test_plans_decide_whatever_the_estimate_says(
    monkeypatch: pytest.MonkeyPatch, graph: Graph, machine: Machine, layers: bool
) -> None:
    options = Options(layer_by_layer=layers, effort=Effort.LOW)
    found: list[int] = []
    for cheap in (0.0, inf):
        monkeypatch.setattr(LegalCosts, "whole", lambda self, cheap=cheap: cheap)
        monkeypatch.setattr(dilated, "_expansion", lambda *_, cheap=cheap: cheap)
        found.append(plan(graph, machine, options).placed.schedule.makespan)
    assert found[0] == found[1]


@pytest.mark.parametrize("effort", [Effort.LOW, Effort.NORMAL])
def test_what_fusion_gains_is_told_against_the_form_that_is_best_layer_by_layer(
    effort: Effort,
) -> None:
    """Which need not be the form that is best fused."""
    graph, machine = three_upscales(), unlike_cores()
    apart = plan(graph, machine, Options(layer_by_layer=True))
    found = plan(graph, machine, Options(effort=effort)).found
    assert found is not None
    assert found.rivals[0].name == "layer by layer"
    assert found.rivals[0].cycles == apart.placed.schedule.makespan


def three_upscales() -> Graph:
    """A decoder."""
    b = GraphBuilder()
    y = b.input(1, 32, 8, 8)
    for _ in range(2):
        y = b.add("Relu", b.add("ConvTranspose", y, b.weight(32, 32, 2, 2), strides=[2, 2]))
        y = b.add("Conv", y, b.weight(32, 32, 3, 3), pads=[1] * 4)
    return b.graph(y)


def two_upscales() -> Graph:
    """Of the first, most phases would be nothing but zeros."""
    b = GraphBuilder()
    y = b.input(1, 16, 6, 6)
    y = b.add("ConvTranspose", y, b.weight(16, 16, 1, 1), strides=[3, 3])
    y = b.add("ConvTranspose", y, b.weight(16, 8, 4, 4), strides=[2, 2], pads=[1] * 4)
    return b.graph(y)


@pytest.mark.parametrize("cheap", [0.0, inf])
def test_single_rewrites_are_made_where_plans_are_better_with_them(
    monkeypatch: pytest.MonkeyPatch, cheap: float
) -> None:
    """Though estimates like all of them, or none."""
    monkeypatch.setattr(LegalCosts, "whole", lambda self: cheap)
    graph, machine = two_upscales(), unlike_cores()
    found = plan(graph, machine, Options(effort=Effort.NORMAL))
    assert found.plan.rewrites is not None
    taken = {rewritten_name(entry) for entry in found.plan.rewrites}
    assert taken == {graph.nodes[1].name}
    for node in graph.nodes:
        rewrites = taken.symmetric_difference({node.name})
        other = prepared(graph, machine, machine.dtype, rewrites).graph
        changed = carried(found.plan, found.graph, other, node.name)
        if changed is not None:
            timed = lowered(other, machine, changed).schedule
            assert timed.makespan >= found.placed.schedule.makespan


@pytest.mark.parametrize("kept", [True, False])
def test_a_plan_is_carried_over_to_another_form_of_an_operator(kept: bool) -> None:
    """And runs: together with its neighbours, or by itself."""
    graph, machine = two_upscales(), unlike_cores()
    first, second = graph.nodes
    forms = {
        rewrites: prepared(graph, machine, machine.dtype, rewrites).graph
        for rewrites in ((), (second.name,))
    }
    for one, other in permutations(forms):
        made = layer_by_layer(forms[one], machine, machine.dtype, "net")
        resident = first.outputs if kept else ()
        changed = carried(replace(made, resident=resident), forms[one], forms[other], second.name)
        assert changed is not None and changed.resident == resident
        placed = lowered(forms[other], machine, changed)
        done = Lowered(graph, forms[other], machine, placed)
        assert_same(done.execute().outputs, done.reference())


def attentions() -> Graph:
    """Two, with queries of joint and of single projections."""
    b = Builder("attentions")
    x = b.input("x", (1, 64, 32))
    with b.scope("single"):
        q, k, v = (b.heads(b.linear(x, 32), 2) for _ in range(3))
        x = b.op("Add", b.linear(b.attention(q, k, v), 32), x)
    with b.scope("joint"):
        sizes = b.constant("sizes", np.asarray([32] * 3, np.int64))
        rows = b.split_op("Split", b.linear(x, 96), sizes, results=3, axis=2)
        x = b.op("Add", b.attention(*(b.heads(row, 2) for row in rows)), x)
    return seeded(b.finish(x))


@pytest.mark.parametrize("kept", [True, False])
def test_scales_are_a_choice_and_plans_are_carried_over(kept: bool) -> None:
    """In both directions; tensors stay, whoever makes them now."""
    graph = attentions()
    forms = [prepared(graph, NPU, NPU.dtype, rewrites) for rewrites in ((), (SCALES,))]
    assert [legal.choices for legal in forms] == [((SCALES, False),), ((SCALES, True),)]
    scales = [node for node in forms[0].graph.nodes if node.kind == "Mul"]
    told = [step.node for step in forms[1].steps if step.outcome == "rewritten"]
    assert told == [node.name for node in scales] and len(scales) == 2
    for one, other in permutations(forms):
        made = layer_by_layer(one.graph, NPU, NPU.dtype, "net")
        passed = [name for node in scales for name in (node.inputs[0], node.outputs[0])]
        there = [name for name in passed if kept and name in one.graph.producer]
        moved = [replace(group, place=Place.CORES) for group in made.groups]
        given = replace(made, groups=tuple(moved), resident=tuple(there))
        changed = carried(given, one.graph, other.graph, SCALES)
        assert changed is not None and len(changed.resident) == 2 * kept
        done = Lowered(graph, other.graph, NPU, lowered(other.graph, NPU, changed))
        assert_same(done.execute().outputs, done.reference())


def test_scales_are_folded_where_plans_are_better_without() -> None:
    graph = attentions()
    found = plan(graph, NPU, Options(effort=Effort.LOW))
    assert found.plan.rewrites == (SCALES,)
    again = plan(graph, NPU, Options(plan=found.plan))
    assert again.placed.schedule.makespan == found.placed.schedule.makespan
    older = plan(graph, NPU, Options(plan=replace(plan_of_scales(graph), rewrites=None)))
    assert older.plan.rewrites == ()


def plan_of_scales(graph: Graph) -> Plan:
    return layer_by_layer(prepared(graph, NPU, NPU.dtype).graph, NPU, NPU.dtype, "net")


@pytest.mark.parametrize(("graph", "machine"), CASES)
@pytest.mark.parametrize("rewritten", [True, False])
def test_a_plan_is_replayed_with_its_own_rewrites(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    graph: Graph,
    machine: Machine,
    rewritten: bool,
) -> None:
    """On a machine that would decide otherwise, from its file."""
    whole = inf if rewritten else 0.0
    monkeypatch.setattr(LegalCosts, "whole", lambda self: whole)
    monkeypatch.setattr(dilated, "_expansion", lambda *_: whole)
    legal = prepared(graph, machine, machine.dtype)
    assert legal.rewrites == ((graph.nodes[0].name,) if rewritten else ())
    made = layer_by_layer(legal.graph, machine, machine.dtype, "net")
    path = tmp_path / "plan.yaml"
    path.write_text(plan_text(replace(made, rewrites=legal.rewrites)))
    given = read_plan(path)
    assert given.rewrites == legal.rewrites
    monkeypatch.setattr(LegalCosts, "whole", lambda self: 0.0 if rewritten else inf)
    monkeypatch.setattr(dilated, "_expansion", lambda *_: 0.0 if rewritten else inf)
    again = plan(graph, machine, Options(plan=given))
    assert [node.name for node in again.graph.nodes] == [node.name for node in legal.graph.nodes]
    assert again.plan.rewrites == legal.rewrites


def test_rewrites_of_unknown_operators_are_faults() -> None:
    graph, machine = CASES[0]
    made = plan(graph, machine, Options(layer_by_layer=True)).plan
    wrong = replace(made, rewrites=(*(made.rewrites or ()), "nobody"))
    with pytest.raises(PlanFaultsError, match="rewrites names 'nobody': no such node"):
        plan(graph, machine, Options(plan=wrong))


def test_a_plan_of_another_form_of_the_network_says_what_its_nodes_depend_on() -> None:
    graph, machine = CASES[0]
    names = [(), (graph.nodes[0].name,)]
    legal = [prepared(graph, machine, machine.dtype, chosen).graph for chosen in names]
    made = [layer_by_layer(form, machine, machine.dtype, "net") for form in legal]
    for other, chosen in zip(made, reversed(names), strict=True):
        with pytest.raises(PlanFaultsError) as caught:
            plan(graph, machine, Options(plan=replace(other, rewrites=chosen)))
        keys, text = caught.value.faults[-1]
        assert keys == ("rewrites",)
        assert f"here {', '.join(chosen) or 'none'}; it has a choice of {names[1][0]}" in text


# Four taps of which the first row is cut off: phases can begin with the kernel or with the output.
padded = partial(one_conv, (1, 16, 12, 12), 8, (4, 4), transposed=True, strides=[2, 2])


def test_a_rewrite_is_made_in_the_form_that_is_asked_for() -> None:
    graph, machine = padded(pads=[1] * 4), unlike_cores()
    name, feeds = graph.nodes[0].name, feeds_of(graph)
    entries = [f"{name}/{form}" for form in ("cropped", "uncropped")]
    found = [legalise(graph, machine, machine.dtype, (entry,)) for entry in entries]
    assert [legal.rewrites for legal in found] == [(entry,) for entry in entries]
    names = [[node.name for node in legal.graph.nodes] for legal in found]
    assert names[0] != names[1]
    for legal in found:
        assert_same(run_graph(legal.graph, feeds), run_graph(graph, feeds))
    # A name alone, as older plans have it: the costs decide about the form.
    either = legalise(graph, machine, machine.dtype, (name,)).rewrites
    assert either is not None and set(either) < set(entries)


@pytest.mark.parametrize("cropped", [True, False])
def test_a_plan_is_replayed_in_its_own_form(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cropped: bool
) -> None:
    """On a machine whose costs would have the other form, from its file."""
    graph, machine = padded(pads=[1] * 4), unlike_cores()

    def cheaper(wanted: bool) -> None:
        def cost(_: object, axes: tuple[transposed._PhaseAxis, ...]) -> float:
            return float((axes[0].crop > 0) != wanted)

        monkeypatch.setattr(transposed, "_in_phases", cost)
        monkeypatch.setattr(LegalCosts, "whole", lambda _: inf)

    cheaper(cropped)
    legal = prepared(graph, machine, machine.dtype)
    made = layer_by_layer(legal.graph, machine, machine.dtype, "net")
    path = tmp_path / "plan.yaml"
    path.write_text(plan_text(replace(made, rewrites=legal.rewrites)))
    cheaper(not cropped)
    again = plan(graph, machine, Options(plan=read_plan(path))).plan
    assert again.groups == made.groups and again.rewrites == legal.rewrites


def test_a_bound_is_told_to_be_of_the_network_as_rewritten() -> None:
    graph, machine = CASES[0]
    (node,) = graph.nodes
    sides: list[PlanSide] = []
    for label, rewrites in (("phases", (node.name,)), ("plain", ())):
        legal = prepared(graph, machine, machine.dtype, rewrites)
        made = layer_by_layer(legal.graph, machine, machine.dtype, "net")
        run = plan(graph, machine, Options(plan=replace(made, rewrites=rewrites)))
        (line,) = [row for row in summary_lines(run) if row.startswith("lower bound")]
        assert f"of the network {'as' if rewrites else 'not'} rewritten" in line
        sides.append(side_of(label, summary_json(run), run.plan))
    told = list(notes(difference(*sides)))
    wanted = f"rewrites: {node.name} against none; each lower bound is of its network as rewritten"
    assert wanted in told
