"""A region that several cores load at the same time is read once and written to all of them."""

from dataclasses import replace

from tilewright.machine.machine import Machine
from tilewright.program.link import rebuilt
from tilewright.program.program import Program, Task, Transfer, View


def multicast(program: Program, machine: Machine) -> Program:
    """Join loads of the same region for different cores where the link can write to several."""
    main = machine.main_memory.name
    able = {
        link.name
        for link in machine.links
        if all(route.multicast for route in link.routes if route.source == main)
    }
    first: dict[tuple[int, View], int] = {}
    tasks: list[Task | None] = list(program.tasks)
    for number, task in enumerate(program.tasks):
        if not isinstance(task.work, Transfer) or task.work.route[0] != main:
            continue
        if task.engine not in able:
            continue
        key = (task.group, task.reads[0])
        known = first.setdefault(key, number)
        earlier = tasks[known]
        if known == number or earlier is None:
            continue
        if task.tile - earlier.tile >= len(machine.cores):
            first[key] = number  # another turn: joining would hold the region for too long
            continue
        memories = {program.buffers[view.buffer].memory for view in earlier.writes}
        if program.buffers[task.writes[0].buffer].memory in memories:
            first[key] = number
            continue
        tasks[known] = replace(earlier, writes=(*earlier.writes, *task.writes))
        tasks[number] = None
    kept = [task for task in tasks if task is not None]
    return rebuilt(program, kept) if len(kept) < len(tasks) else program
