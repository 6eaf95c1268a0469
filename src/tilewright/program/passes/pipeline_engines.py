"""Matrix and vector engines work on neighbouring tiles of a group at the same time."""

from collections.abc import Mapping

from tilewright.machine.machine import Machine
from tilewright.program.link import reordered
from tilewright.program.program import Compute, Program, Task


def pipeline_engines(program: Program, machine: Machine) -> Program:
    """Order the operators of a group as a wavefront over its tiles, where engines alternate."""
    cores = {engine.name: engine.core for engine in machine.engines}
    order: list[int] = []
    pending: list[int] = []
    for number, task in enumerate(program.tasks):
        if pending and program.tasks[pending[-1]].group != task.group:
            order += _wavefront(program, pending, cores)
            pending = []
        pending.append(number)
    order += _wavefront(program, pending, cores) if pending else []
    return reordered(program, order)


def _wavefront(program: Program, group: list[int], cores: Mapping[str, str]) -> list[int]:
    """Tasks of one group by turn of their core plus the number of engine changes before them in
    their tile; what a task waits for in an earlier tile (a kept halo, a value made once for all)
    stays before it. Of one level, later tiles come first: they do not take the room of what the
    other engine still reads."""
    turns = _turns([program.tasks[number] for number in group], cores)
    level: dict[int, int] = {}
    last: dict[int, tuple[str, int]] = {}
    first: set[int] = set()  # copies that wait for nothing in the group
    for number in group:
        task = program.tasks[number]
        engine, stage = last.get(task.tile, ("", 0))
        if isinstance(task.work, Compute) and engine and engine != task.engine:
            stage += 1
        inside = [earlier for earlier in task.after if earlier in level]
        for earlier in inside:
            behind = earlier not in first and program.tasks[earlier].tile != task.tile
            stage = max(stage, level[earlier] + behind - turns[task.tile])
        if isinstance(task.work, Compute):
            last[task.tile] = (task.engine, stage)
        elif not inside:
            first.add(number)
        level[number] = turns[task.tile] + stage
    if max(level[number] - turns[program.tasks[number].tile] for number in group) == 0:
        return group

    def place(number: int) -> tuple[int, bool, int, int]:
        return level[number], number not in first, -program.tasks[number].tile, number

    return sorted(group, key=place)


def _turns(tasks: list[Task], cores: Mapping[str, str]) -> dict[int, int]:
    """For each tile, how many tiles its core has run before it."""
    home = dict.fromkeys(sorted({task.tile for task in tasks}), "")
    for task in tasks:
        if isinstance(task.work, Compute):
            home[task.tile] = cores.get(task.engine, "")
    taken: dict[str, int] = {}
    turns: dict[int, int] = {}
    for tile, core in home.items():
        turns[tile] = taken.get(core, 0)
        taken[core] = turns[tile] + 1
    return turns
