"""Copies are dealt out over the links that can carry them."""

from dataclasses import replace

from tilewright.cost.base import Copy
from tilewright.cost.dma import moved_bytes, start_cycles
from tilewright.machine.machine import Link, Machine, Route
from tilewright.program.program import Program, Task, Transfer

SMALL = 2  # a load is small if its bytes take less than so many times its latency


def spread_copies(program: Program, machine: Machine) -> Program:
    """Give each copy to the link that is free first; large loads leave one link to all others."""
    main = machine.main_memory.name
    ways: dict[tuple[str, str], list[tuple[Link, Route]]] = {}
    ends: dict[int, float] = {}
    free: dict[str, float] = {}
    tasks: list[Task] = []
    clock = 0.0  # a copy reuses bytes of what ran before it: it does not begin long before
    for number, task in enumerate(program.tasks):
        ready = max((ends[a] for a in task.after), default=0.0)
        if not isinstance(task.work, Transfer):
            begin = max(ready, free.get(task.engine, 0.0))
            clock = max(clock, begin)
            ends[number] = free[task.engine] = begin + task.cycles
            tasks.append(task)
            continue
        route = task.work.route
        if route not in ways:
            ways[route] = list(machine.routes(*route))
        choices: list[tuple[float, Task]] = []
        fresh = bool(task.after) and ready >= clock
        for link, way in _allowed(task, ways[route], machine, route[0] == main, fresh):
            choice = _on(task, link, way)
            took = choice.cycles + choice.moved / machine.alone_bytes_per_cycle(way)
            choices.append((max(ready, clock, free.get(link.name, 0.0)) + took, choice))
        until, best = min(choices, key=lambda pair: pair[0])
        ends[number] = free[best.engine] = until
        tasks.append(best)
    return replace(program, tasks=tuple(tasks))


def _allowed(
    task: Task, ways: list[tuple[Link, Route]], machine: Machine, is_load: bool, fresh: bool
) -> list[tuple[Link, Route]]:
    """Large loads wait in line for room and bandwidth; what computed data waits for does not
    stand behind them. Loads of data that was just stored are waited for too."""
    if len(ways) == 1:
        return ways
    _, way = ways[0]
    if is_load and fresh:
        return ways
    if is_load and task.moved / machine.alone_bytes_per_cycle(way) < SMALL * way.latency:
        return ways
    urgent = max(1, len(ways) // 4)
    return ways[:-urgent] if is_load else ways[-urgent:]


def _on(task: Task, link: Link, route: Route) -> Task:
    """The copy on another link."""
    if link.name == task.engine:
        return task
    views = (task.reads[0], task.writes[0])
    copies = [Copy(*view.runs()) for view in views]
    copy = max(copies, key=lambda c: c.runs)
    cycles, moved = start_cycles(copy, link, route), moved_bytes(copy, route)
    return replace(task, engine=link.name, cycles=cycles, moved=moved)
