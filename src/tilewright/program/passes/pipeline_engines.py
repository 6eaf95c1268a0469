"""Matrix and vector engines work on neighbouring tiles of a group at the same time."""

from tilewright.machine.machine import Machine
from tilewright.program.link import rebuilt
from tilewright.program.program import Compute, Program, Task


def pipeline_engines(program: Program, machine: Machine) -> Program:
    """Order the operators of a group as a wavefront over its tiles, where engines alternate."""
    tasks: list[Task] = []
    pending: list[Task] = []
    for task in program.tasks:
        if pending and pending[-1].group != task.group:
            tasks += _wavefront(pending)
            pending = []
        pending.append(task)
    tasks += _wavefront(pending)
    return rebuilt(program, tasks)


def _wavefront(group: list[Task]) -> list[Task]:
    """Tasks of one group by tile plus the number of engine changes before them in their tile."""
    stages: list[int] = []
    last: dict[int, tuple[str, int]] = {}
    for task in group:
        engine, stage = last.get(task.tile, ("", 0))
        if isinstance(task.work, Compute):
            if engine and engine != task.engine:
                stage += 1
            last[task.tile] = (task.engine, stage)
        stages.append(stage)
    if max(stages, default=0) == 0:
        return group
    order = sorted(range(len(group)), key=lambda i: (group[i].tile + stages[i], -stages[i], i))
    return [group[i] for i in order]
