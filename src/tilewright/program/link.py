"""Dependencies: who wrote what a task reads, and who used what it overwrites. Order of tasks in,
`after` out."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tilewright.program.overlap import boxes, hazards
from tilewright.program.program import Program, Task, View

_Access = tuple[int, View, bool]


def linked(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks in this order, each waiting for those that wrote what it reads, and for those that
    read or wrote what it overwrites."""
    listed = tuple(tasks)
    needs = _needs(listed)
    return tuple(
        task if task.after == after else task.linked(task.reads, task.writes, after)
        for task, after in zip(listed, needs, strict=True)
    )


def reordered(program: Program, order: Sequence[int]) -> Program:
    """The program with all of its tasks in another order. Where each still comes after those it
    waits for, who wrote what a task reads is the same; else dependencies are found anew."""
    if list(order) == list(range(len(program.tasks))):
        return program
    place = [0] * len(order)
    for new, old in enumerate(order):
        place[old] = new
    tasks: list[Task] = []
    for new, old in enumerate(order):
        task = program.tasks[old]
        after = tuple(sorted([place[earlier] for earlier in task.after]))
        if after and after[-1] >= new:
            return rebuilt(program, [program.tasks[number] for number in order])
        if after != task.after:
            task = task.linked(task.reads, task.writes, after)
        tasks.append(task)
    return replace(program, tasks=tuple(tasks))


def rebuilt(program: Program, tasks: Iterable[Task]) -> Program:
    """The program with these tasks: dependencies found anew, buffers nobody uses dropped."""
    kept = tuple(tasks)
    used = {view.buffer for task in kept for view in task.reads}
    used.update(view.buffer for task in kept for view in task.writes)
    outside = (*program.inputs, *program.constants, *program.outputs)
    used.update(view.buffer for _, view in outside)
    if len(used) == len(program.buffers):
        return replace(program, tasks=linked(kept))
    number = {old: new for new, old in enumerate(sorted(used))}

    def moved(view: View) -> View:
        new = number[view.buffer]
        return view if new == view.buffer else view.at(new)

    def all_moved(rows: tuple[tuple[str, View], ...]) -> tuple[tuple[str, View], ...]:
        return tuple((name, moved(view)) for name, view in rows)

    return replace(
        program,
        tasks=tuple(
            task.linked(tuple(map(moved, task.reads)), tuple(map(moved, task.writes)), after)
            for task, after in zip(kept, _needs(kept), strict=True)
        ),
        buffers=tuple(program.buffers[old] for old in sorted(used)),
        inputs=all_moved(program.inputs),
        constants=all_moved(program.constants),
        outputs=all_moved(program.outputs),
    )


def span(view: View) -> tuple[int, int]:
    """First byte, and the byte after the last, that a view touches in its buffer."""
    reach = sum((extent - 1) * s for extent, s in zip(view.shape, view.strides, strict=True))
    return view.offset, view.offset + reach + view.item


def _needs(tasks: tuple[Task, ...]) -> list[tuple[int, ...]]:
    """For each task, the earlier ones it has to wait for."""
    counts: dict[int, int] = {}
    for task in tasks:
        for view in task.writes:
            counts[view.buffer] = counts.get(view.buffer, 0) + 1
    several: dict[int, list[_Access]] = {b: [] for b, count in counts.items() if count > 1}
    needs: list[list[int]] = [[] for _ in tasks]
    writer: dict[int, int] = {}
    early: dict[int, list[int]] = {}
    for number, task in enumerate(tasks):
        row = needs[number]
        for view in task.reads:
            buffer = view.buffer
            if buffer in writer:
                row.append(writer[buffer])
            elif buffer in several:
                several[buffer].append((number, view, False))
            elif buffer in counts:
                early.setdefault(buffer, []).append(number)
        for view in task.writes:
            if view.buffer in several:
                several[view.buffer].append((number, view, True))
            else:  # the only one that writes it waits for those that read what was there
                writer[view.buffer] = number
                row += (reader for reader in early.pop(view.buffer, ()) if reader != number)
    for accesses in several.values():
        _order(accesses, needs)
    return [tuple(sorted({*row})) if len(row) > 1 else tuple(row) for row in needs]


def _order(accesses: Sequence[_Access], needs: list[list[int]]) -> None:
    """Several tasks write a buffer: accesses to the same bytes are put in order."""
    low, high, exact = boxes([view for _, view, _ in accesses])
    tasks = np.array([number for number, _, _ in accesses], dtype=np.int32)
    writes = np.array([writes for _, _, writes in accesses], dtype=np.bool_)
    pairs, count = hazards(tasks, writes, low, high, exact)
    found: list[list[int]] = pairs[:count].tolist()
    for earlier, later in found:
        needs[later].append(earlier)
