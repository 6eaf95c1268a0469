"""One row per group: its work, time, traffic and memory. Traffic adds up to the account's."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tilewright.graph.graph import Graph
from tilewright.plan.plan import GroupPlan
from tilewright.planning import Planned
from tilewright.program.account import added_cycles, counted
from tilewright.program.program import Compute, Task, Transfer
from tilewright.search.explanation.explain import group_facts
from tilewright.tiling.grid import Halo
from tilewright.tiling.group import output_axes

CLASSES = ("matrix", "vector", "copy")
K = TypeVar("K")


@dataclass(slots=True)
class TaskSums:
    """What the tasks of a group, or of a node, add up to."""

    tasks: int = 0
    tiles: set[int] = field(default_factory=set[int])
    start: int | None = None  # of its first task
    active: int | None = None  # of its first task that computes; copies may run far ahead of it
    end: int = 0
    macs: int = 0
    energy_pj: float = 0.0
    busy: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0))
    read_weights: int = 0
    read_activations: int = 0
    written: int = 0
    engines: Counter[str] = field(default_factory=Counter[str])  # busy cycles of each
    computing: Counter[str] = field(default_factory=Counter[str])  # the same without copies

    @property
    def read(self) -> int:
        """Bytes read from the main memory."""
        return self.read_weights + self.read_activations


def group_rows(planned: Planned) -> list[dict[str, Any]]:
    """The rows, in the plan's order."""
    sums, graph = group_sums(planned), planned.graph
    facts = group_facts(graph, planned.machine, planned.plan, planned.placed)
    peaks = _peaks(planned)
    rows: list[dict[str, Any]] = []
    added = added_cycles(total.end for total in sums)
    for number, (group, total) in enumerate(zip(planned.plan.groups, sums, strict=True)):
        fact = facts[number]
        rows.append(
            {
                "nodes": list(group.nodes),
                "kinds": [graph.nodes[graph.index[name]].kind for name in group.nodes],
                "place": group.place.value,
                "splits": [
                    [axis, s.parts, "" if s.halo is Halo.RECOMPUTE else "cache"]
                    for axis, s in zip(_axes(graph, group), group.splits, strict=True)
                ],
                "core_splits": group.core_splits,
                "shares": group.shares,
                "tiles": len(total.tiles),
                "tasks": total.tasks,
                "start": total.start or 0,
                "active": total.active if total.active is not None else total.start or 0,
                "end": total.end,
                "adds": added[number],
                "macs": total.macs,
                "energy_pj": counted(planned.machine, total.energy_pj),
                "busy": [total.busy[kind] for kind in CLASSES],
                "read_weights": total.read_weights,
                "read_activations": total.read_activations,
                "written": total.written,
                "peak": peaks[number],
                "halo": round(fact.halo_share, 6),
                "binding": fact.binding,
                "note": fact.grid,
            }
        )
    return rows


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
        parts.append(
            {
                "nodes": list(group.nodes),
                "axes": _axes(graph, group),
                "cycles": adds,
                "read_bytes": total.read,
                "written_bytes": total.written,
                "energy_pj": counted(planned.machine, total.energy_pj),
                "resident": [
                    value
                    for name in group.nodes
                    for value in graph.nodes[graph.index[name]].writes
                    if value in kept
                ],
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
    placed, kinds = planned.placed, {e.name: e.kind for e in planned.machine.engines}
    found = task_sums(planned, lambda task: task.group)
    sums = [found.get(number, TaskSums()) for number in range(len(planned.plan.groups))]
    starts, ends = placed.schedule.start.tolist(), placed.schedule.end.tolist()
    for task, start, end in zip(placed.program.tasks, starts, ends, strict=True):
        total = sums[task.group]
        inside = end - max(start, total.active or 0)
        total.busy[kinds.get(task.engine, "copy")] += max(0, inside)
    return sums


def task_sums(planned: Planned, owner: Callable[[Task], K]) -> dict[K, TaskSums]:
    """The sums of tasks by what they belong to; `busy` is left out."""
    placed, machine = planned.placed, planned.machine
    program = placed.program
    main = {i for i, b in enumerate(program.buffers) if b.memory == machine.main_memory.name}
    constant = {view.buffer for _, view in program.constants}
    sums: dict[K, TaskSums] = {}
    starts, ends = placed.schedule.start.tolist(), placed.schedule.end.tolist()
    for task, start, end in zip(program.tasks, starts, ends, strict=True):
        total = sums.setdefault(owner(task), TaskSums())
        total.tasks += 1
        total.tiles.add(task.tile)
        total.start = start if total.start is None else min(total.start, start)
        total.end = max(total.end, end)
        total.energy_pj += task.energy_pj
        for view in task.reads:
            if view.buffer in constant:
                total.read_weights += view.bytes if view.buffer in main else 0
            elif view.buffer in main:
                total.read_activations += view.bytes
        total.written += sum(view.bytes for view in task.writes if view.buffer in main)
        if not isinstance(task.work, Transfer):
            total.active = start if total.active is None else min(total.active, start)
            total.computing[task.engine] += end - start
        if isinstance(task.work, Compute) and task.work.workload.product:
            total.macs += task.work.workload.macs
        total.engines[task.engine] += end - start
    return sums


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
        level = 0
        for _, change in sorted(rows):
            level += change
            peaks[group] = max(peaks[group], level)
    return peaks
