"""Moves on tensors alone: they stay in the scratchpads, leave them, or are read again."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilewright.graph.graph import Graph
from tilewright.plan.plan import Place, Plan
from tilewright.search.improvement.shape import Shape, Site


def keeping(plan: Plan, names: Sequence[str]) -> Plan:
    """The plan with tensors kept for all who read them."""
    reloaded = tuple(row for row in plan.reloaded if row[0] not in names)
    return replace(plan, resident=tuple(dict.fromkeys((*plan.resident, *names))), reloaded=reloaded)


def kept(graph: Graph, shape: Shape, site: Site) -> Iterator[Plan]:
    """Tensors stay; as it is, or with their readers, makers or both cut twice as finely."""
    plan = keeping(shape.plan, site.names)
    yield plan
    makers = [number for (number,) in site.places]
    readers = [number for name in site.names for number in _readers(graph, shape, name)]
    for numbers in (readers, makers, (*makers, *readers)):
        finer = _finer(plan, numbers)
        if finer != plan:
            yield finer


def _readers(graph: Graph, shape: Shape, name: str) -> list[int]:
    """Groups that read a tensor."""
    return sorted({shape.home[node] for node in graph.consumers.get(name, ())})


def _finer(plan: Plan, numbers: Sequence[int]) -> Plan:
    """The plan with groups cut twice as finely."""
    groups = list(plan.groups)
    for number in dict.fromkeys(numbers):
        splits = groups[number].splits
        if groups[number].place is Place.CORES and splits:
            last = replace(splits[-1], parts=2 * splits[-1].parts)
            groups[number] = replace(groups[number], splits=(*splits[:-1], last))
    return replace(plan, groups=tuple(groups))


def dropped(shape: Shape, site: Site) -> Iterator[Plan]:
    """Tensors go through the main memory."""
    plan, gone = shape.plan, set(site.names)
    resident = tuple(name for name in plan.resident if name not in gone)
    reloaded = tuple(row for row in plan.reloaded if row[0] not in gone)
    yield replace(plan, resident=resident, reloaded=reloaded)


def reloaded(graph: Graph, shape: Shape, site: Site) -> Iterator[Plan]:
    """Tensors read again from the main memory by the last group, by all but the first, or by one
    in between."""
    readers = [_readers(graph, shape, name) for name in site.names]
    most = max(map(len, readers), default=0)
    single = (slice(place, place + 1) for place in range(1, most - 1))
    for chosen in (slice(-1, None), slice(1, None), *single):
        rows = dict(shape.plan.reloaded)
        for name, groups in zip(site.names, readers, strict=True):
            later = set(groups[chosen]) if len(groups) > 1 else set[int]()
            nodes = (n for n in graph.consumers.get(name, ()) if shape.home[n] in later)
            rows[name] = tuple(graph.nodes[node].name for node in nodes)
        plan = replace(shape.plan, reloaded=tuple(row for row in rows.items() if row[1]))
        if plan != shape.plan:
            yield plan
