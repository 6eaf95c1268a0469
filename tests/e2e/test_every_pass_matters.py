"""No pass is for show: without it, the program of a zoo network differs, and is no better."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import unified_diff
from functools import cache
from itertools import islice

import pytest

from tilewright import api
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.planning import prepared, validate
from tilewright.program.account import traffic
from tilewright.program.lower import lowered
from tilewright.program.pipeline import PASSES
from tilewright.program.place import Placed
from tilewright.program.text import program_text
from tilewright.search.candidates.layers import layer_by_layer
from tilewright.search.fusion import Fusion
from tilewright.tiling.grid import Split
from tilewright.tiling.group import exports

ATTENTION = ("mul1", "scores", "softmax1", "mix")


@dataclass(frozen=True, slots=True)
class Planned:
    """A network, and a plan for it."""

    graph: Graph
    machine: Machine
    plan: Plan

    def lowered(self, *without: str) -> Placed:
        """The program, with passes left out."""
        return lowered(self.graph, self.machine, self.plan, frozenset(without))

    def bytes_moved(self, placed: Placed) -> int:
        """Traffic of the main memory."""
        return sum(traffic(placed.program, self.machine.main_memory.name))


def graph_of(model: str, machine: Machine) -> Graph:
    return prepared(api.load(model).graph, machine, machine.dtype).graph


@cache
def layers(model: str, machine: str) -> Planned:
    """Every operator alone."""
    target = load_machine(machine)
    graph = graph_of(model, target)
    return Planned(graph, target, layer_by_layer(graph, target, target.dtype, model))


@cache
def fused(model: str, machine: str) -> Planned:
    """As the search plans it."""
    target = load_machine(machine)
    graph = graph_of(model, target)
    found = Fusion(graph, target, target.dtype, model).run(fast=True)
    return Planned(graph, target, found.best.plan)


@cache
def attention(model: str, machine: str) -> Planned:
    """One attention of a network as a group of its own: matrix and vector engines in turns."""
    target = load_machine(machine)
    whole = graph_of(model, target)
    names = tuple(f"transformer0.attention1.{name}" for name in ATTENTION)
    nodes = tuple(whole.nodes[whole.index[name]] for name in names)
    made = {name for node in nodes for name in node.writes}
    reads = dict.fromkeys(name for node in nodes for name in node.inputs)
    inputs = tuple(n for n in reads if n not in made and n not in whole.constants)
    outputs = tuple(exports(whole, [whole.index[name] for name in names]))
    graph = replace(whole, nodes=nodes, inputs=inputs, outputs=outputs)
    group = GroupPlan(names, (Split(1, 8), Split(2, 8)), 0)
    return Planned(graph, target, Plan(model, machine, target.dtype, (group,)))


def in_larger_tiles(model: str, machine: str) -> Planned:
    """The same attention in half as many tiles, which there is hardly room for."""
    planned = attention(model, machine)
    (group,) = planned.plan.groups
    larger = replace(group, splits=(Split(1, 8), Split(2, 4)))
    return replace(planned, plan=replace(planned.plan, groups=(larger,)))


@dataclass(frozen=True, slots=True)
class Shown:
    """Where a pass shows: how the network is planned, which, on what; and by which factor latency
    and traffic grow without it, at least."""

    how: Callable[[str, str], Planned]
    model: str
    machine: str
    slower: float
    more_bytes: float = 1.0


SHOWN = {
    "fold-activations": Shown(fused, "fsrcnn@32x48", "npu-2.7", 1.05),
    "implicit-reshape": Shown(layers, "sd15_down_block@8x8", "npu-2.7", 1.05),
    "duplicate-copies": Shown(fused, "fsrcnn@32x48", "npu-2.7", 1.0, 1.02),
    "multicast": Shown(fused, "fsrcnn@32x48", "npu-2.7", 1.0, 1.1),
    "pipelining": Shown(attention, "sd15_down_block@32x32", "npu-2.7", 1.05),
    "prefetch": Shown(fused, "four_convs", "npu-2.7", 1.05),
    "copy-queues": Shown(fused, "four_convs", "npu-4.0", 1.02),
    "in-place": Shown(in_larger_tiles, "sd15_down_block@32x32", "npu-2.7", 1.2),
}


def difference(one: str, other: str) -> str:
    return "\n".join(islice(unified_diff(one.splitlines(), other.splitlines(), n=0), 12))


def test_every_pass_is_shown() -> None:
    assert [step.name for step in PASSES] == list(SHOWN)


@pytest.mark.parametrize("step", SHOWN)
def test_a_pass_changes_a_program_for_the_better(step: str) -> None:
    shown = SHOWN[step]
    planned = shown.how(shown.model, shown.machine)
    with_it, without = planned.lowered(), planned.lowered(step)
    diff = difference(program_text(with_it.program), program_text(without.program))
    assert diff, f"{step} does nothing to {shown.model}"
    slower = without.schedule.makespan / with_it.schedule.makespan
    more = planned.bytes_moved(without) / planned.bytes_moved(with_it)
    found = f"without {step}, {shown.model} takes {slower:.3f}x the time, {more:.3f}x the bytes"
    assert slower >= shown.slower and more >= shown.more_bytes, f"{found}:\n{diff}"


def long_skips(kibibytes: int) -> Planned:
    """A U-Net whose skips stay in the scratchpads all the way down and up again."""
    machine = load_machine("npu-2.7").with_memory(kibibytes * 1024)
    graph = graph_of("unet@32x32", machine)
    plan = layer_by_layer(graph, machine, machine.dtype, "unet@32x32")
    joins = {node.name: node for node in graph.nodes if node.kind == "Concat"}
    groups = tuple(
        GroupPlan(group.nodes, (Split(2, 4),), 0) if group.nodes[0] in joins else group
        for group in plan.groups
    )
    skips = tuple(
        min(node.inputs, key=lambda name: graph.producer[name]) for node in joins.values()
    )
    return Planned(graph, machine, replace(plan, groups=groups, resident=skips))


def test_spilling_makes_kept_tensors_fit() -> None:
    planned = long_skips(150)
    placed = planned.lowered()
    validate(placed, planned.machine)
    skips = {spill.buffer.rstrip("'") for spill in placed.spills} & {*planned.plan.resident}
    assert skips, "no skip leaves the scratchpad for a while"
    names = [task.name for task in placed.program.tasks]
    assert any(name.startswith("reload ") for name in names)
    # It trades traffic for room.
    roomy = replace(planned, machine=planned.machine.with_memory(1024 * 1024)).lowered()
    assert not roomy.spills
    assert planned.bytes_moved(placed) > planned.bytes_moved(roomy)
