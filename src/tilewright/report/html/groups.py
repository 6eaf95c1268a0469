"""One row per group: its work, time, traffic and memory. Traffic adds up to the account's."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from tilewright.graph.graph import Graph
from tilewright.plan.plan import GroupPlan
from tilewright.planning import Planned
from tilewright.program.account import TaskSums, added_cycles, counted, task_sums
from tilewright.search.explanation.explain import group_facts
from tilewright.tables import picked
from tilewright.tiling.grid import Halo, Split
from tilewright.tiling.group import output_axes

CLASSES = ("matrix", "vector", "copy")


def group_rows(planned: Planned) -> list[dict[str, Any]]:
    """The rows, in the plan's order."""
    sums, graph = group_sums(planned), planned.graph
    facts = group_facts(graph, planned.machine, planned.plan, planned.placed)
    busy, peaks = _busy(planned, sums), _peaks(planned)
    rows: list[dict[str, Any]] = []
    for number, (group, total) in enumerate(zip(planned.plan.groups, sums, strict=True)):
        fact = facts[number]
        rows.append(
            {
                "nodes": list(group.nodes),
                "kinds": [graph.nodes[graph.index[name]].kind for name in group.nodes],
                "place": group.place.value,
                "splits": [
                    [axis, s.parts, " ".join(_further(s))]
                    for axis, s in zip(_axes(graph, group), group.splits, strict=True)
                ],
                "core_splits": group.core_splits,
                "shares": group.shares,
                "tiles": len(total.tiles),
                "tasks": total.tasks,
                "start": total.start or 0,
                "active": total.active if total.active is not None else total.start or 0,
                "end": total.end,
                "adds": fact.adds,
                "macs": total.macs,
                "energy_pj": counted(planned.machine, total.energy_pj),
                "busy": [busy[number][kind] for kind in CLASSES],
                "engines": _engines(planned, group),
                **picked(total, "read_weights", "read_activations", "written"),
                "peak": peaks[number],
                "halo": round(fact.halo_share, 6),
                "binding": fact.binding,
                "note": fact.grid,
            }
        )
    return rows


def _further(split: Split) -> Iterator[str]:
    """What a dimension of the grid has beside an axis and a number of parts."""
    if split.grain > 1:
        yield f"by {split.grain}"
    if split.halo is Halo.CACHE:
        yield "cache"


def group_parts(planned: Planned) -> list[dict[str, Any]]:
    """What each group adds to the run: cycles that add up to the latency, bytes that add up to the
    traffic, its results that stay resident, and nodes that run in the output stage of another; for
    summaries and comparisons."""
    sums = group_sums(planned)
    added = added_cycles(total.end for total in sums)
    graph, kept = planned.graph, frozenset(planned.plan.resident)
    folded = planned.placed.program.folded()
    parts: list[dict[str, Any]] = []
    for group, total, adds in zip(planned.plan.groups, sums, added, strict=True):
        made = (v for name in group.nodes for v in graph.nodes[graph.index[name]].writes)
        parts.append(
            {
                "nodes": list(group.nodes),
                "axes": _axes(graph, group),
                "cycles": adds,
                "read_bytes": total.read,
                "written_bytes": total.written,
                "energy_pj": counted(planned.machine, total.energy_pj),
                "resident": [value for value in made if value in kept],
                "folded": {name: folded[name] for name in group.nodes if name in folded},
            }
        )
    return parts


def _axes(graph: Graph, group: GroupPlan) -> list[str]:
    """The axes that a group is cut along, as people call them."""
    if not group.splits:
        return []
    _, letters = output_axes(graph, group.nodes)
    return [letters.get(split.axis, f"axis {split.axis}") for split in group.splits]


def group_sums(planned: Planned) -> list[TaskSums]:
    """The sums of every group."""
    found = task_sums(planned.placed, planned.machine, lambda task: task.group)
    return [found.get(number, TaskSums()) for number in range(len(planned.plan.groups))]


def _busy(planned: Planned, sums: Sequence[TaskSums]) -> list[Counter[str]]:
    """Busy cycles of each class of engines while the groups compute."""
    placed, kinds = planned.placed, {e.name: e.kind for e in planned.machine.engines}
    busy = [Counter[str]() for _ in sums]
    starts, ends = placed.schedule.start.tolist(), placed.schedule.end.tolist()
    for task, start, end in zip(placed.program.tasks, starts, ends, strict=True):
        inside = end - max(start, sums[task.group].active or 0)
        busy[task.group][kinds.get(task.engine, "copy")] += max(0, inside)
    return busy


def _engines(planned: Planned, group: GroupPlan) -> list[int]:
    """How many engines of each class a group has: those of its cores, and all that copy."""
    kinds = Counter(
        engine.kind
        for core in planned.machine.cores
        if not group.cores or core.name in group.cores
        for engine in core.engines
    )
    copying = len(planned.account.engines) - len(planned.machine.engines)
    return [*(kinds[kind] for kind in CLASSES[:-1]), copying]


def _peaks(planned: Planned) -> list[int]:
    """For every group the most bytes of one scratchpad that buffers it uses take up at once."""
    placed, machine = planned.placed, planned.machine
    program = placed.program
    own = {memory.name for core in machine.cores for memory in core.memories}
    life: dict[tuple[int, int], tuple[int, int]] = {}
    starts, ends = placed.schedule.start.tolist(), placed.schedule.end.tolist()
    for number, task in enumerate(program.tasks):
        for view in (*task.reads, *task.writes):
            if program.buffers[view.buffer].memory in own:
                key = (task.group, view.buffer)
                first, last = life.get(key, (starts[number], 0))
                life[key] = (min(first, starts[number]), max(last, ends[number]))
    changes: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for (group, number), (first, last) in life.items():
        buffer = program.buffers[number]
        rows = changes.setdefault((group, buffer.memory), [])
        rows += [(first, buffer.size), (last, -buffer.size)]
    peaks = [0] * len(planned.plan.groups)
    for (group, _), rows in changes.items():
        levels = accumulate(change for _, change in sorted(rows))
        peaks[group] = max(peaks[group], *levels)
    return peaks
