"""Random changes of a plan, as a search makes them: a group cut otherwise or on other cores,
neighbours joined, a tensor kept in the scratchpads or not."""

from dataclasses import replace

from hypothesis import strategies as st

from support.random_plans import Draw, random_cut
from tilewright.graph.graph import Graph
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Place, Plan
from tilewright.tiling.group import exports

MOVES = ("recut", "recut", "divide", "divide", "merge", "keep", "keep", "drop")


def members_of(graph: Graph, nodes: tuple[str, ...]) -> tuple[int, ...]:
    """The numbers of a group's nodes."""
    return tuple(sorted(graph.index[name] for name in nodes))


def crossing(graph: Graph, plan: Plan) -> list[str]:
    """Values that groups on the cores hand to others."""
    return [
        name
        for group in plan.groups
        if group.place is Place.CORES
        for name in exports(graph, members_of(graph, group.nodes))
    ]


@st.composite
def moved(draw: Draw, graph: Graph, machine: Machine, plan: Plan) -> Plan:
    """The plan after one move; as it was where there is nothing to move."""
    on_cores = [n for n, group in enumerate(plan.groups) if group.place is Place.CORES]
    pairs = [n for n in on_cores if n + 1 in on_cores]
    candidates = [name for name in crossing(graph, plan) if name not in plan.resident]
    move = draw(st.sampled_from(MOVES))
    if move == "recut" and on_cores:
        number = draw(st.sampled_from(on_cores))
        return _with_group(draw, graph, plan, number, 1)
    if move == "divide" and on_cores:
        return _divided(draw, machine, plan, draw(st.sampled_from(on_cores)))
    if move == "merge" and pairs:
        return _with_group(draw, graph, plan, draw(st.sampled_from(pairs)), 2)
    if move == "keep" and candidates:
        return replace(plan, resident=(*plan.resident, draw(st.sampled_from(candidates))))
    if move == "drop" and plan.resident:
        gone = draw(st.sampled_from(plan.resident))
        return replace(plan, resident=tuple(n for n in plan.resident if n != gone))
    return plan


def _divided(draw: Draw, machine: Machine, plan: Plan, number: int) -> Plan:
    """A group cut as it was, its tiles given to cores in another way."""
    group = plan.groups[number]
    names = [core.name for core in machine.cores]
    cores = draw(st.sampled_from(((), *((name,) for name in names), tuple(names[:2]))))
    dimension = draw(st.sampled_from((None, *range(len(group.splits)))))
    replicated = dimension is None and draw(st.booleans())
    crossed = draw(st.booleans())
    splits = tuple(
        replace(s, crossed=crossed and k != dimension) for k, s in enumerate(group.splits)
    )
    other = replace(group, splits=splits, core_split=dimension, replicated=replicated, cores=cores)
    if dimension is not None and draw(st.booleans()):
        some = [draw(st.integers(1, 4)) for _ in cores or names]
        other = replace(other, shares=tuple(some))
    else:
        other = replace(other, shares=())
    return replace(plan, groups=(*plan.groups[:number], other, *plan.groups[number + 1 :]))


def _with_group(draw: Draw, graph: Graph, plan: Plan, first: int, count: int) -> Plan:
    """So many groups from `first` on as one, cut anew; what it keeps to itself is not resident."""
    groups = plan.groups
    nodes = tuple(name for group in groups[first : first + count] for name in group.nodes)
    group = random_cut(draw, graph, members_of(graph, nodes), nodes)
    changed = replace(plan, groups=(*groups[:first], group, *groups[first + count :]))
    given = crossing(graph, changed)
    return replace(changed, resident=tuple(name for name in plan.resident if name in given))
