"""The main memory of a plan: where values lie when some operators are views of others' results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.graph.graph import Graph, Node
from tilewright.graph.ops import SPECS, runs_whole
from tilewright.graph.ops.spec import op_of
from tilewright.machine.machine import Machine
from tilewright.plan.plan import GroupPlan, Place
from tilewright.program.context import Context, Lying
from tilewright.program.faults import LoweringError, at_node
from tilewright.program.main_rows import needs_own_group
from tilewright.program.shared import Shared
from tilewright.program.views import concat_parts, view_of
from tilewright.schedule.problem import Quantities


@dataclass(frozen=True, slots=True, eq=False)
class Main:
    """The main memory under some choice of views: where every value of a view lies, and the nodes
    outside the cores with the values that they read. `given` has a row for each shared buffer of
    the host (of inputs, constants and outputs): its number, and 0 for the byte it begins at.
    `number` counts choices."""

    number: int
    lying: Mapping[str, Lying]
    nodes: frozenset[str]
    read: frozenset[str]
    given: Quantities


def main_of(
    shared: Shared,
    off: Sequence[GroupPlan],
    elsewhere: Sequence[tuple[str, Sequence[str]]],
    number: int,
) -> Main:
    """The main memory where these groups do not run on cores, and these values lie in other
    memories."""
    context, graph = shared.context, shared.context.graph
    members = [
        (group.place, graph.nodes[graph.index[name]])
        for group in off
        for name in sorted(group.nodes, key=graph.index.__getitem__)
        if name in graph.index
    ]
    views = [node for place, node in members if place is Place.VIEW]
    lying = _joined(context, views)
    _viewed(context, views, lying)

    held = (name for name, constant in graph.constants.items() if constant.type.size)
    outer = (*graph.inputs, *held, *graph.outputs)
    given = (shared.between(lying.get(name) or context.lying(name)) for name in outer)
    read = frozenset(name for _, node in members for name in node.reads)
    used = off_cores(graph, off) if elsewhere else frozenset[str]()
    for memory, names in elsewhere:
        _put(context, memory, names, used, lying)
    rows = [(buffer, 0) for buffer in dict.fromkeys(given)]
    nodes = frozenset(node.name for _, node in members)
    return Main(number, lying, nodes, read, np.array(rows, np.int64).reshape(-1, 2))


def _joined(context: Context, views: Sequence[Node]) -> dict[str, Lying]:
    """Inputs of a concat that is no work lie inside its result."""
    graph = context.graph
    lying: dict[str, Lying] = {}
    taken = {*graph.inputs, *graph.constants}
    for node in views:
        op = op_of(graph, node)
        if op is None or not _joins(node.kind):
            continue
        result = lying.get(node.outputs[0]) or context.lying(node.outputs[0])
        parts = concat_parts(op, context.view(result))
        for source, view in zip(node.inputs, parts, strict=True):
            if source in taken:
                raise _no_view(node, f"'{source}' lies elsewhere")
            taken.add(source)
            layout = context.tables.layout(view.shape, view.strides, view.dtype, view.item)
            lying[source] = Lying(result.root, view.offset, layout, context.main)
    return lying


def _viewed(context: Context, views: Sequence[Node], lying: dict[str, Lying]) -> None:
    """Results of other views lie inside what they are taken from."""
    graph = context.graph
    for node in views:
        if runs_whole(graph, node):
            raise at_node(node, needs_own_group(node))
        op = op_of(graph, node)
        for position, name in enumerate(node.outputs):
            if not name or (op is not None and _joins(node.kind)):
                continue
            if name in lying:
                raise _no_view(node, f"'{name}' lies inside what a concat makes of it")
            source = lying.get(node.inputs[0]) or context.lying(node.inputs[0])
            view = None if op is None else view_of(op, context.view(source), position)
            if view is None or name in graph.outputs:
                other = "its result is no part of what it reads"
                raise _no_view(node, "it is an output" if name in graph.outputs else other)
            layout = context.tables.layout(view.shape, view.strides, view.dtype, view.item)
            lying[name] = Lying(source.root, view.offset, layout, context.main)


def _no_view(node: Node, why: str) -> LoweringError:
    return at_node(node, f"'{node.name}' ({node.kind}) cannot be a view: {why}")


def _put(
    context: Context,
    memory: str,
    names: Sequence[str],
    used: frozenset[str],
    lying: dict[str, Lying],
) -> None:
    """Values that lie in another memory than the main one."""
    fault = not_on_chip(context.machine, memory)
    if fault:
        raise LoweringError(fault)
    number = context.tables.memory_number[memory]
    for name in names:
        why = unshareable(context.graph, used, name)
        if why:
            raise LoweringError(f"'{name}' cannot lie in {memory}: {why}")
        lying[name] = context.lying(name)._replace(memory=number)


def not_on_chip(machine: Machine, memory: str) -> str:
    """Why a memory is none that values can pass through between cores, or nothing."""
    there = [m.name for m in machine.on_chip]
    if memory in there:
        return ""
    if memory == machine.main_memory.name:
        return f"'{memory}' is the main memory: leave its tensors out, they pass through it anyway"
    known = f"there are {', '.join(there)}" if there else "there are none"
    what = "is a core's own" if memory in {m.name for m in machine.memories} else "is no memory"
    return f"'{memory}' {what}: of memories that all cores of {machine.name} share, {known}"


def off_cores(graph: Graph, groups: Sequence[GroupPlan]) -> frozenset[str]:
    """Values that only the main memory can hold: operators outside the cores read them, or they
    are one with what a view makes of them."""
    places = ((group.place, name) for group in groups for name in group.nodes)
    nodes = [
        (place, graph.nodes[graph.index[name]]) for place, name in places if name in graph.index
    ]
    read = {name for place, node in nodes if place is not Place.CORES for name in node.reads}
    made = {name for place, node in nodes if place is Place.VIEW for name in node.writes}
    return frozenset(read | made)


def unshareable(graph: Graph, used: frozenset[str], name: str) -> str:
    """Why a value cannot lie in a memory that cores share, where those are `used` outside the
    cores; or nothing."""
    if name not in graph.producer:
        return "no operator makes it"
    if name in graph.outputs:
        return "it is a result of the network"
    return "operators outside the cores use it, or it is a view" if name in used else ""


def _joins(kind: str) -> bool:
    spec = SPECS.get(kind)
    return spec is not None and spec.parts is not None
