"""A region that is in a core's memory already is not loaded again, nor twice for two cores."""

from tilewright.machine.machine import Machine
from tilewright.program.link import rebuilt
from tilewright.program.program import Program, Task, Transfer, View


def remove_duplicate_copies(program: Program, machine: Machine) -> Program:
    """Within a group, a tile uses what the tile before it on the same core has loaded."""
    main = machine.main_memory.name
    renamed: dict[int, int] = {}
    held: dict[tuple[str, View], tuple[int, int]] = {}
    last_tile: dict[str, list[int]] = {}
    tasks: list[Task] = []
    group = -1
    for task in program.tasks:
        if task.group != group:
            group = task.group
            held.clear()
            last_tile.clear()
        current = _renamed(task, renamed)
        if isinstance(task.work, Transfer) and task.work.route[0] == main:
            memory = program.buffers[task.writes[0].buffer].memory
            turns = last_tile.setdefault(memory, [])
            if not turns or turns[-1] != task.tile:
                turns.append(task.tile)
            key = (memory, task.reads[0])
            known = held.get(key)
            if known is not None and known[1] in turns[-2:]:
                renamed[task.writes[0].buffer] = known[0]
                held[key] = (known[0], task.tile)
                continue
            held[key] = (task.writes[0].buffer, task.tile)
        tasks.append(current)
    return rebuilt(program, tasks) if len(tasks) < len(program.tasks) else program


def _renamed(task: Task, renamed: dict[int, int]) -> Task:
    if not any(view.buffer in renamed for view in task.reads):
        return task
    reads = tuple(
        view.at(renamed[view.buffer]) if view.buffer in renamed else view for view in task.reads
    )
    return task.linked(reads, task.writes, task.after)
