"""Values that pass through a memory that the cores share instead of the main one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tilewright.graph.graph import Graph
from tilewright.plan.plan import Place, Plan, by_memory
from tilewright.search.candidates.network import Network
from tilewright.tiling.group import exports

ONE_BY_ONE = 32  # values, the largest that are left, that are tried by themselves


def _crossing(network: Network, may_stay: Callable[[str], bool], plan: Plan) -> Iterator[str]:
    """Values that go through the main memory between groups on cores, largest first."""
    graph, names = network.graph, list[str]()
    partly = {name for name, _ in plan.reloaded}
    for group in plan.groups:
        if group.place is not Place.CORES:
            continue
        for name in exports(graph, [graph.index[node] for node in group.nodes]):
            stays = network.keepable(name) and may_stay(name)
            if (name in partly or name not in plan.resident) and stays:
                names.append(name)
    yield from sorted(names, key=lambda name: (-graph.types[name].bytes, name))


def sharing_plans(
    network: Network, may_stay: Callable[[str], bool], plan: Plan, memory: str
) -> Iterator[Plan]:
    """Plans that put values of the main memory, the largest first, into another: all that can be
    there, then fewer and fewer, without the largest."""
    names = _shareable(network, may_stay, plan)
    while names:
        yield _shared(plan, memory, names)
        names = names[len(names) // 4 + 1 :]


def sharing_one_more(
    network: Network, may_stay: Callable[[str], bool], memory: str, best: Callable[[], Plan]
) -> Iterator[Plan]:
    """The best plan, each time, with one more value in that memory: each of the largest once."""
    for name in _shareable(network, may_stay, best())[:ONE_BY_ONE]:
        yield _shared(best(), memory, [name])


def _shareable(network: Network, may_stay: Callable[[str], bool], plan: Plan) -> list[str]:
    crossing = _crossing(network, may_stay, plan)
    return [name for name in crossing if _on_cores(network.graph, plan, name)]


def _shared(plan: Plan, memory: str, names: Sequence[str]) -> Plan:
    return replace(plan, shared=by_memory((*plan.shared, (memory, names))))


def _on_cores(graph: Graph, plan: Plan, name: str) -> bool:
    """Whether all who read a value do so on cores, and it is not in a shared memory yet."""
    readers = {graph.nodes[number].name for number in graph.consumers.get(name, ())}
    off = any(g.place is not Place.CORES and readers & set(g.nodes) for g in plan.groups)
    known = any(name in names for _, names in plan.shared)
    return not (off or known or name in graph.outputs)
