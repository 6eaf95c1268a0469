"""A program as text: one line a buffer, one line a task. Stable, for golden files and diffs."""

from collections.abc import Iterator, Sequence

from tilewright.program.place import Placed
from tilewright.program.program import Compute, Program, Task, View, Whole


def program_text(program: Program, placed: Placed | None = None) -> str:
    """The program; with addresses and times once it is placed."""
    return "\n".join(_lines(program, placed)) + "\n"


def _lines(program: Program, placed: Placed | None) -> Iterator[str]:
    tasks, buffers = len(program.tasks), len(program.buffers)
    yield f"program for {program.machine}: {tasks} tasks, {buffers} buffers"
    for title, rows in (
        ("input", program.inputs),
        ("constant", program.constants),
        ("output", program.outputs),
    ):
        yield from (f"{title} {name} = {_view(view)}" for name, view in rows)
    for number, buffer in enumerate(program.buffers):
        at = f" at {placed.address[number]}" if placed is not None else ""
        holds = f" of {buffer.value}" if buffer.value not in ("", buffer.name) else ""
        yield f"buffer b{number} {buffer.memory} {buffer.size} B{at}: {buffer.name}{holds}"
    if placed is None:
        yield from (_task(number, task, task.after) for number, task in enumerate(program.tasks))
        return
    starts: list[int] = placed.schedule.start.tolist()
    ends: list[int] = placed.schedule.end.tolist()
    for number, task in enumerate(program.tasks):
        line = _task(number, task, placed.problem.needs_of(number))
        yield f"{line} [{starts[number]}, {ends[number]})"


def _task(number: int, task: Task, after: Sequence[int]) -> str:
    """`t3 cluster0.dpu Conv conv1@0: b2[1x3x8x8] b1[4] -> b3[1x4x8x8] 120 cycles after t1 t2`."""
    work = task.work
    if isinstance(work, Compute):
        what = "+".join(step.kind for step in work.steps)
        cost = f"{task.cycles} cycles"
    else:
        what = work.kind if isinstance(work, Whole) else f"{work.route[0]}->{work.route[1]}"
        cost = f"{task.cycles} cycles + {task.moved} B"
    reads, writes = (" ".join(map(_view, views)) for views in (task.reads, task.writes))
    waits = f" after {' '.join(f't{before}' for before in after)}" if after else ""
    return f"t{number} {task.engine} {what} {task.name}: {reads} -> {writes} {cost}{waits}"


def _view(view: View) -> str:
    """`b3+64[1x4x8x8]/(256,2,32,4)`: buffer, byte offset, shape, byte strides."""
    offset = f"+{view.offset}" if view.offset else ""
    shape = "x".join(map(str, view.shape)) or "scalar"
    strides = f"/({','.join(map(str, view.strides))})" if view.strides else ""
    return f"b{view.buffer}{offset}[{shape}]{strides}"
