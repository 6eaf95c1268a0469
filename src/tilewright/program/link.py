"""Data dependencies: who wrote what a task reads. Order of tasks in, `after` out."""

from collections.abc import Iterable
from dataclasses import replace

from tilewright.program.program import Program, Task, View


def linked(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks in this order, each waiting for those that wrote what it reads."""
    written: dict[int, list[tuple[int, int, int]]] = {}
    result: list[Task] = []
    for number, task in enumerate(tasks):
        after: set[int] = set()
        for view in task.reads:
            low, high = span(view)
            for start, stop, writer in written.get(view.buffer, ()):
                if start < high and low < stop:
                    after.add(writer)
        for view in task.writes:
            written.setdefault(view.buffer, []).append((*span(view), number))
        result.append(replace(task, after=tuple(sorted(after))))
    return tuple(result)


def rebuilt(program: Program, tasks: Iterable[Task]) -> Program:
    """The program with these tasks: dependencies found anew, buffers nobody uses dropped."""
    kept = tuple(tasks)
    outside = [view for _, view in (*program.inputs, *program.constants, *program.outputs)]
    used = {view.buffer for task in kept for view in (*task.reads, *task.writes)}
    used |= {view.buffer for view in outside}
    number = {old: new for new, old in enumerate(sorted(used))}

    def moved(view: View) -> View:
        return replace(view, buffer=number[view.buffer])

    def all_moved(rows: tuple[tuple[str, View], ...]) -> tuple[tuple[str, View], ...]:
        return tuple((name, moved(view)) for name, view in rows)

    renumbered = (
        replace(
            task,
            reads=tuple(moved(view) for view in task.reads),
            writes=tuple(moved(view) for view in task.writes),
        )
        for task in kept
    )
    return replace(
        program,
        tasks=linked(renumbered),
        buffers=tuple(program.buffers[old] for old in sorted(used)),
        inputs=all_moved(program.inputs),
        constants=all_moved(program.constants),
        outputs=all_moved(program.outputs),
    )


def span(view: View) -> tuple[int, int]:
    """First byte, and the byte after the last, that a view touches in its buffer."""
    reach = sum((extent - 1) * s for extent, s in zip(view.shape, view.strides, strict=True))
    return view.offset, view.offset + reach + view.item
