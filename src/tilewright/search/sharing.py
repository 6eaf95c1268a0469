"""Values that pass through a memory that the cores share instead of the main one."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tilewright.graph.graph import Graph
from tilewright.plan.plan import Place, Plan


def sharing_plans(graph: Graph, plan: Plan, memory: str, crossing: Iterable[str]) -> Iterator[Plan]:
    """Plans that put values of the main memory, the largest first, into another: all that can be
    there, then fewer and fewer, without the largest."""
    names = [name for name in crossing if _on_cores(graph, plan, name)]
    while names:
        yield replace(plan, shared=(*plan.shared, (memory, tuple(names))))
        names = names[len(names) // 4 + 1 :]


def _on_cores(graph: Graph, plan: Plan, name: str) -> bool:
    """Whether all who read a value do so on cores, and it is not in a shared memory yet."""
    readers = {graph.nodes[number].name for number in graph.consumers.get(name, ())}
    off = any(g.place is not Place.CORES and readers & set(g.nodes) for g in plan.groups)
    known = any(name in names for _, names in plan.shared)
    return not (off or known or name in graph.outputs)
