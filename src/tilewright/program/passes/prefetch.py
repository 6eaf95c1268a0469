"""Loads are issued ahead of their use, across tiles and groups, as far as the scratchpads allow.

Each load has a latest time to start: so that it, and those needed after it, arrive when they are
used. It is issued then, or as soon after as there is room for what it brings.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.machine.machine import Machine
from tilewright.program.link import rebuilt
from tilewright.program.program import Program, Task, Transfer

SLACK = 1.25  # a copy is planned to take so much longer than it does alone
ROOM = 0.95  # share of a scratchpad that prefetched data may fill: addresses need some slack

_Profile = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Load:
    """A load: its task number, from where on and until where among the other tasks it may be
    issued."""

    number: int
    ready: int
    use: int


def prefetch(program: Program, machine: Machine, room: float = ROOM) -> Program:
    """Move loads in front of the operators that run while they arrive."""
    main = machine.main_memory.name
    is_load = [
        isinstance(task.work, Transfer) and task.work.route[0] == main for task in program.tasks
    ]
    rest = [number for number, load in enumerate(is_load) if not load]
    position = {number: p for p, number in enumerate(rest)}
    spans = _lifetimes(program, position)
    loads: list[_Load] = []
    idle: list[int] = []  # loads nobody reads
    for number, load in enumerate(is_load):
        if not load:
            continue
        task = program.tasks[number]
        ready = max((position[a] + 1 for a in task.after if a in position), default=0)
        uses = [spans[view.buffer][0] for view in task.writes if view.buffer in spans]
        if uses:
            loads.append(_Load(number, ready, min(uses)))
        else:
            idle.append(number)
    loads.sort(key=lambda load: (load.use, load.number))
    begins = _begins(program, machine, rest)
    wanted = _wanted(program, machine, loads, begins)
    profiles = _profiles(program, machine, spans, len(rest))
    free = {m.name: int(room * m.usable) for m in machine.memories if m.name in profiles}
    issue = _issued(program, free, loads, wanted, profiles)
    at: dict[int, list[int]] = {}
    for load, place in zip(loads, issue, strict=True):
        at.setdefault(place, []).append(load.number)
    tasks: list[Task] = []
    for place, number in enumerate(rest):
        tasks += (program.tasks[early] for early in at.get(place, ()))
        tasks.append(program.tasks[number])
    tasks += (program.tasks[number] for number in idle)
    return rebuilt(program, tasks)


def _lifetimes(program: Program, position: dict[int, int]) -> dict[int, tuple[int, int]]:
    """First and last of the other tasks that use each buffer."""
    spans: dict[int, tuple[int, int]] = {}
    for number, place in position.items():
        task = program.tasks[number]
        for view in (*task.reads, *task.writes):
            first, _ = spans.get(view.buffer, (place, place))
            spans[view.buffer] = (first, place)
    return spans


def _profiles(
    program: Program, machine: Machine, spans: dict[int, tuple[int, int]], count: int
) -> dict[str, _Profile]:
    """Bytes in use in every local memory at every one of the other tasks."""
    steps = {m.name: np.zeros(count + 1, np.int64) for core in machine.cores for m in core.memories}
    for number, (first, last) in spans.items():
        buffer = program.buffers[number]
        if buffer.memory in steps:
            size = -(-buffer.size // buffer.alignment) * buffer.alignment
            steps[buffer.memory][first] += size
            steps[buffer.memory][last + 1] -= size
    return {name: np.cumsum(step)[:-1] for name, step in steps.items()}


def _begins(program: Program, machine: Machine, rest: list[int]) -> list[float]:
    """When each of the other tasks would begin if loads took no time."""
    ends: dict[int, float] = {}
    free: dict[str, float] = {}
    begins: list[float] = []
    for number in rest:
        task = program.tasks[number]
        begin = max(free.get(task.engine, 0.0), *(ends.get(a, 0.0) for a in task.after), 0.0)
        ends[number] = free[task.engine] = begin + copy_cycles(task, machine)
        begins.append(begin)
    return begins


def copy_cycles(task: Task, machine: Machine) -> float:
    """How long a task takes when nothing shares its bandwidth."""
    if not task.moved or not isinstance(task.work, Transfer):
        return float(task.cycles)
    route = machine.link(task.engine).route(*task.work.route)
    assert route is not None
    return task.cycles + task.moved / machine.alone_bytes_per_cycle(route)


def _wanted(
    program: Program, machine: Machine, loads: list[_Load], begins: list[float]
) -> list[int]:
    """For each load, the place among the other tasks at which it has to be issued at the latest."""
    reached = np.maximum.accumulate(np.array(begins)) if begins else np.zeros(0)
    wanted = [0] * len(loads)
    latest = float("inf")
    for index in range(len(loads) - 1, -1, -1):
        load = loads[index]
        taken = SLACK * copy_cycles(program.tasks[load.number], machine)
        latest = min(latest, begins[load.use]) - taken
        wanted[index] = int(np.searchsorted(reached, latest))
    return wanted


def _issued(
    program: Program,
    free: dict[str, int],
    loads: list[_Load],
    wanted: list[int],
    profiles: dict[str, _Profile],
) -> list[int]:
    """Where each load is issued: as wanted, or as soon after as its bytes have room until used."""
    issue: list[int] = []
    for load, want in zip(loads, wanted, strict=True):
        place = min(max(load.ready, want), load.use)
        targets = [program.buffers[view.buffer] for view in program.tasks[load.number].writes]
        for buffer in targets:
            profile = profiles.get(buffer.memory)
            if profile is None or place >= load.use:
                continue
            full = np.flatnonzero(profile[place : load.use] > free[buffer.memory] - buffer.size)
            if full.size:
                place += int(full[-1]) + 1
        for buffer in targets:
            if buffer.memory in profiles:
                size = -(-buffer.size // buffer.alignment) * buffer.alignment
                profiles[buffer.memory][place : load.use] += size
        issue.append(place)
    return issue
