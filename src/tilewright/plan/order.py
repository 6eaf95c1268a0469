"""Orders in which the groups of a plan can run."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from tilewright.graph.graph import Graph
from tilewright.plan.plan import GroupPlan, Place, Plan, by_memory


def order_with(
    graph: Graph, groups: Sequence[GroupPlan], together: Sequence[int]
) -> list[int] | None:
    """An order of the groups with some of them as one (the first of these stands for all), close to
    the one they have; None where they would wait for each other."""
    first, *others = together
    home = {name: i for i, group in enumerate(groups) for name in group.nodes}
    joined = {name: first if number in others else number for name, number in home.items()}
    order = order_of(graph, joined, len(groups))
    return None if order is None else [number for number in order if number not in others]


def order_of(graph: Graph, home: Mapping[str, int], count: int) -> list[int] | None:
    """An order in which groups can run, close to that of their numbers, given the group of every
    node; None where some would wait for each other."""
    homes = [home[node.name] for node in graph.nodes]
    pairs = {(homes[before], homes[behind]) for before, behind in graph.edges}
    followers: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for before, behind in pairs:
        if before != behind:
            followers[before].append(behind)
            waiting[behind] += 1
    ready = [number for number, left in enumerate(waiting) if not left]
    order: list[int] = []
    while ready:
        number = heappop(ready)
        order.append(number)
        for other in followers[number]:
            waiting[other] -= 1
            if not waiting[other]:
                heappush(ready, other)
    return order if len(order) == count else None


def in_order(
    graph: Graph,
    plan: Plan,
    groups: Sequence[GroupPlan],
    leaving: Callable[[tuple[str, ...]], Collection[str]],
) -> Plan | None:
    """A plan with other groups, in an order that runs, and only those tensors kept that pass
    between them; None where some would wait for each other. `leaving` are values that nodes hand to
    others."""
    home = {name: number for number, group in enumerate(groups) for name in group.nodes}
    order = order_of(graph, home, len(groups))
    if order is None:
        return None
    on_cores = (group.nodes for group in groups if group.place is Place.CORES)
    passed = {name for nodes in on_cores for name in leaving(nodes)}
    shared = ((memory, [n for n in row if n in passed]) for memory, row in plan.shared)
    return replace(
        plan,
        groups=tuple(groups[number] for number in order),
        resident=tuple(name for name in plan.resident if name in passed),
        reloaded=tuple(row for row in plan.reloaded if row[0] in passed),
        shared=by_memory(shared),
    )
