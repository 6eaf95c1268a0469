"""Matrix and vector engines work on neighbouring tiles of a group at the same time."""

from tilewright.machine.machine import Machine
from tilewright.program.link import rebuilt
from tilewright.program.program import Compute, Program, Task


def pipeline_engines(program: Program, machine: Machine) -> Program:
    """Order the operators of a group as a wavefront over its tiles, where engines alternate."""
    tasks: list[Task] = []
    pending: list[int] = []
    for number, task in enumerate(program.tasks):
        if pending and program.tasks[pending[-1]].group != task.group:
            tasks += _wavefront(program, pending)
            pending = []
        pending.append(number)
    tasks += _wavefront(program, pending)
    return rebuilt(program, tasks)


def _wavefront(program: Program, group: list[int]) -> list[Task]:
    """Tasks of one group by tile plus the number of engine changes before them in their tile; what
    a task waits for in an earlier tile (a kept halo, a value made once for all) stays before it."""
    level: dict[int, int] = {}
    last: dict[int, tuple[str, int]] = {}
    for number in group:
        task = program.tasks[number]
        engine, stage = last.get(task.tile, ("", 0))
        if isinstance(task.work, Compute) and engine and engine != task.engine:
            stage += 1
        for earlier in task.after:
            stage = max(stage, level.get(earlier, 0) - task.tile)
        if isinstance(task.work, Compute):
            last[task.tile] = (task.engine, stage)
        level[number] = task.tile + stage
    # Of one level, earlier tiles come first: those are further on in their stages.
    order = sorted(group, key=lambda number: (level[number], program.tasks[number].tile, number))
    return [program.tasks[number] for number in order]
