"""Loads of a tile are issued while the tile before it computes."""

from tilewright.machine.machine import Machine
from tilewright.program.link import rebuilt
from tilewright.program.program import Program, Task, Transfer


def prefetch(program: Program, machine: Machine) -> Program:
    """Within a group, move the loads of later tiles in front of the operators of earlier ones."""
    main = machine.main_memory.name
    groups: dict[int, dict[int, tuple[list[Task], list[Task]]]] = {}
    for task in program.tasks:
        loads, rest = groups.setdefault(task.group, {}).setdefault(task.tile, ([], []))
        is_load = isinstance(task.work, Transfer) and task.work.route[0] == main
        (loads if is_load else rest).append(task)
    ahead = max(1, len(machine.cores))
    tasks: list[Task] = []
    for tiles in groups.values():
        order = sorted(tiles)
        for position, tile in enumerate(order):
            if position == 0:
                for early in order[:ahead]:
                    tasks += tiles[early][0]
            if position + ahead < len(order):
                tasks += tiles[order[position + ahead]][0]
            tasks += tiles[tile][1]
    return rebuilt(program, tasks)
