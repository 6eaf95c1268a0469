"""Refinement: kinds of groups, their changes, and that the simulator's word counts."""

from dataclasses import replace

import pytest

from support.builder import GraphBuilder
from tilewright import api
from tilewright.machine.load import load_machine
from tilewright.plan.plan import Place
from tilewright.planning import prepared
from tilewright.program.timed import Timed
from tilewright.search import fusion
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.tiles import Tiler
from tilewright.search.effort import Effort
from tilewright.search.fusion import Fusion
from tilewright.search.improvement.refine import RANKS, Refiner, estimates_of
from tilewright.tiling.grid import Split

NPU = load_machine("npu-2.7")


def search(model: str) -> Fusion:
    graph = prepared(api.load(model).graph, NPU, "fp16").graph
    return Fusion(graph, NPU, "fp16", model)


def test_kinds_hold_every_group_on_cores_once_and_change_only_theirs() -> None:
    found = search("mobilenet_v2@64x64")
    plan = found.space.plan("m", found.space.singles)
    timed = found.lowering.timed(plan)
    assert isinstance(timed, Timed)
    kinds = Refiner(found.network, found.candidates).kinds(plan, timed)
    numbers = sorted(number for kind in kinds for number in kind.groups)
    assert numbers == [n for n, g in enumerate(plan.groups) if g.place is Place.CORES]
    assert any(len(kind.groups) > 1 for kind in kinds), "repeated blocks are of one kind"
    assert [k.loss for k in kinds] == sorted((k.loss for k in kinds), reverse=True)
    for rank in RANKS:
        for kind, estimate in estimates_of(kinds[:5], rank):
            changed = kind.changed(plan, estimate)
            differing = [
                n
                for n, (a, b) in enumerate(zip(plan.groups, changed.groups, strict=True))
                if a != b
            ]
            assert tuple(differing) == kind.groups
            assert [g.nodes for g in changed.groups] == [g.nodes for g in plan.groups]


def test_refinement_helps_and_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fusion.EVALUATIONS, Effort.NORMAL, 0)
    refined = search("resnet18@64x64").run().best
    monkeypatch.setattr(fusion, "REFINED", 0)
    plain = search("resnet18@64x64").run().best
    assert refined.cycles < plain.cycles
    assert refined.name == "fused, cut otherwise"


def test_groups_that_join_channels_are_not_cut_along_them() -> None:
    """The first tile would need all filters of one input, the second none."""
    b = GraphBuilder()
    x = b.input(1, 64, 16, 16)
    y = b.add("Conv", x, b.weight(64, 64, 3, 3), pads=[1, 1, 1, 1])
    b.add("Sigmoid", b.add("Concat", y, x, axis=1))
    network = Network(prepared(b.graph(), NPU, "fp16").graph, NPU, "fp16")
    tiler = Tiler(network)
    units = [u.number for u in network.units if network.on_cores(u.number)]
    nodes = sorted(n for u in units for n in network.units[u].nodes)
    ops = tuple(op for u in units for op in network.ops(u))
    options = tiler.fused(ops, tiler.exported(nodes), tiler.usable)
    assert options and any(op.node.kind == "Concat" for op in ops)
    assert all(split.axis != 1 for option in options for split in option.splits)


def test_groups_that_do_not_fit_are_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    found = search("four_convs")
    found.run(Effort.LOW)
    whole = sum(found.space.singles)
    trial = found.attempt("all", (whole,))
    assert trial is not None and trial.groups == (whole,)
    found.at_fault = frozenset({0})
    plan = found.space.plan("m", (whole,))
    assert found._parted(plan, (whole,)) == found.space.singles  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(fusion, "SMALL_GROUP", 1)
    assert found._parted(plan, (whole,)) == (whole,)  # pyright: ignore[reportPrivateUsage]


def test_a_plan_that_cannot_be_lowered_is_no_trial() -> None:
    """Whatever the reason: a search goes on with the others."""
    found = search("four_convs")
    found.run(Effort.LOW)
    plan = found.space.plan("m", found.space.singles)
    lost = replace(plan.groups[0], nodes=("nowhere",))
    assert found.evaluate(replace(plan, groups=(lost, *plan.groups[1:]))) is None
    split = replace(plan.groups[0], splits=(Split(9, 2),), core_split=0)
    assert found.evaluate(replace(plan, groups=(split, *plan.groups[1:]))) is None
