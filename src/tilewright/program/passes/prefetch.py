"""Loads are issued ahead of their use, across tiles and groups, as far as the scratchpads allow.

Each load has a latest time to start: so that it, and those needed after it, arrive when they are
used. It is issued then, or as soon after as there is room for what it brings: what is computed lies
at the low addresses, what is loaded comes in from above.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.machine.machine import Machine
from tilewright.memory import Buffer as Rectangle
from tilewright.memory import Misfit, Problem, allocate
from tilewright.program.lifetimes import Ahead, ends
from tilewright.program.link import reordered
from tilewright.program.program import Program, Task, Transfer
from tilewright.program.space import Space

Floats = npt.NDArray[np.float64]

SLACK = 1.25  # a copy is planned to take so much longer than it does alone
NODES = 200  # of the exact search for addresses of what is not loaded


@dataclass(frozen=True, slots=True)
class Prefetched:
    """A program whose loads are issued ahead, and addresses that show that all of it fits: per
    buffer of a local memory, or nothing where none were found. `short` are groups during which
    there was not enough room."""

    program: Program
    addresses: Mapping[int, int] | None
    short: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Load:
    """A load: its task number, from where on and until where among the other tasks it may be
    issued."""

    number: int
    ready: int
    use: int


def prefetch(program: Program, machine: Machine) -> Program:
    """Move loads in front of the operators that run while they arrive."""
    return prefetched(program, machine).program


def prefetched(
    program: Program, machine: Machine, ahead: Ahead | None = None, *, engines: bool = True
) -> Prefetched:
    """Issue loads ahead where there are addresses for what they bring until it is used. Groups hold
    what they use as long as `ahead` and `engines` say (`lifetimes.ends`)."""
    is_load = loads_of(program, machine)
    rest = [number for number, load in enumerate(is_load) if not load]
    position = {number: p for p, number in enumerate(rest)}
    spans = _lifetimes(program, position)
    others = [program.tasks[number] for number in rest]
    held = ends(others, machine, ahead or {}, engines=engines)
    spans = {buffer: (first, held.get(last, last)) for buffer, (first, last) in spans.items()}
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
    wanted = _wanted(program, machine, loads, rest)
    spaces = _spaces(program, machine, spans, loads)
    issue = _issued(program, loads, wanted, spans, spaces)
    places = (p for space in spaces.values() for a, b in space.short for p in range(a, b))
    short = frozenset(others[place].group for place in places if place < len(others))
    at: dict[int, list[int]] = {}
    for load, place in zip(loads, issue, strict=True):
        at.setdefault(place, []).append(load.number)
    order: list[int] = []
    for place, number in enumerate(rest):
        order += at.get(place, ())
        order.append(number)
    ordered = reordered(program, order + idle)
    known: dict[int, int] = {}
    for space in spaces.values():
        known |= space.offsets
    whole = not idle and not any(space.short for space in spaces.values())
    same = len(ordered.buffers) == len(program.buffers)
    return Prefetched(ordered, known if whole and same else None, short)


def loads_of(program: Program, machine: Machine) -> list[bool]:
    """Which tasks bring data from the main memory."""
    main = machine.main_memory.name
    return [
        isinstance(task.work, Transfer) and task.work.route[0] == main for task in program.tasks
    ]


def _lifetimes(program: Program, position: dict[int, int]) -> dict[int, tuple[int, int]]:
    """First and last of the other tasks that use each buffer."""
    spans: dict[int, tuple[int, int]] = {}
    for number, place in position.items():
        task = program.tasks[number]
        for view in (*task.reads, *task.writes):
            first, _ = spans.get(view.buffer, (place, place))
            spans[view.buffer] = (first, place)
    return spans


def _spaces(
    program: Program, machine: Machine, spans: dict[int, tuple[int, int]], loads: list[_Load]
) -> dict[str, Space]:
    """Every local memory with the buffers that are not loaded, as far down as they go."""
    loaded = {view.buffer for load in loads for view in program.tasks[load.number].writes}
    spaces: dict[str, Space] = {}
    for memory in (memory for core in machine.cores for memory in core.memories):
        inside = [n for n in spans if program.buffers[n].memory == memory.name]
        fixed = [n for n in inside if n not in loaded]
        rectangles = [
            Rectangle(b.name, spans[n][0], spans[n][1] + 1, b.size, b.alignment)
            for n, b in ((n, program.buffers[n]) for n in fixed)
        ]
        space = spaces[memory.name] = Space(memory.usable, len(inside))
        found = allocate(Problem(tuple(rectangles), memory.usable), node_limit=NODES)
        if isinstance(found, Misfit):
            space.short.append((found.start, found.stop))
            continue
        for number, offset in zip(fixed, found.offsets, strict=True):
            space.take(number, program.buffers[number], *spans[number], offset)
    return spaces


def _times(program: Program, machine: Machine, rest: list[int]) -> tuple[list[float], list[float]]:
    """When each of the other tasks would begin and end if loads took no time."""
    ends: dict[int, float] = {}
    free: dict[str, float] = {}
    begins: list[float] = []
    for number in rest:
        task = program.tasks[number]
        begin = max(free.get(task.engine, 0.0), *(ends.get(a, 0.0) for a in task.after), 0.0)
        ends[number] = free[task.engine] = begin + copy_cycles(task, machine)
        begins.append(begin)
    return begins, list(ends.values())


def copy_cycles(task: Task, machine: Machine) -> float:
    """How long a task takes when nothing shares its bandwidth."""
    if not task.moved or not isinstance(task.work, Transfer):
        return float(task.cycles)
    route = machine.link(task.engine).route(*task.work.route)
    assert route is not None
    return task.cycles + task.moved / machine.alone_bytes_per_cycle(route)


def _wanted(program: Program, machine: Machine, loads: list[_Load], rest: list[int]) -> list[int]:
    """For each load, the place among the other tasks at which it has to be issued at the latest:
    before what runs then, whose bytes it must not be given. Loads have the time that stores
    leave."""
    begins, ends = _times(program, machine, rest)
    reached = np.maximum.accumulate(np.array(ends)) if ends else np.zeros(0)
    clock, left = _left_by_stores(program, machine, rest, begins)
    wanted = [0] * len(loads)
    latest = float("inf")
    for index in range(len(loads) - 1, -1, -1):
        load = loads[index]
        taken = SLACK * copy_cycles(program.tasks[load.number], machine)
        latest = min(latest, float(np.interp(begins[load.use], clock, left))) - taken
        moment = np.interp(latest, left, clock)
        wanted[index] = int(np.searchsorted(reached, moment, side="right"))
    return wanted


def _left_by_stores(
    program: Program, machine: Machine, rest: list[int], begins: list[float]
) -> tuple[Floats, Floats]:
    """Moments, and how much time there was for loads until then, if stores go first."""
    main = machine.main_memory.name
    clock, left = [0.0], [0.0]
    for number, begin in zip(rest, begins, strict=True):
        task = program.tasks[number]
        if isinstance(task.work, Transfer) and task.work.route[1] == main:
            start = max(begin, clock[-1])
            until = left[-1] + start - clock[-1]
            clock += [start, start + copy_cycles(task, machine)]
            left += [until, until + 1e-6]  # moments stay in order
    end = max([clock[-1], *begins])
    return np.array([*clock, end + 1.0]), np.array([*left, left[-1] + end + 1.0 - clock[-1]])


def _issued(
    program: Program,
    loads: list[_Load],
    wanted: list[int],
    spans: dict[int, tuple[int, int]],
    spaces: dict[str, Space],
) -> list[int]:
    """Where each load is issued: as wanted, or as soon after as there is room until it is used. In
    every group, what is there for most of it looks for room first."""
    issue = [0] * len(loads)

    ranges: dict[int, tuple[int, int]] = {}
    for load in loads:
        group = program.tasks[load.number].group
        first, last = ranges.get(group, (load.use, load.use))
        ranges[group] = (min(first, load.use), max(last, load.use))

    def rank(index: int) -> tuple[int, int, int]:
        task, use = program.tasks[loads[index].number], loads[index].use
        buffer = task.writes[0].buffer
        first, last = ranges[task.group]
        stays = last > first and 2 * (spans.get(buffer, (use, use))[1] - use) > last - first
        return task.group, -program.buffers[buffer].size if stays else 0, index

    for index in sorted(range(len(loads)), key=rank):
        load, want = loads[index], wanted[index]
        targets = [view.buffer for view in program.tasks[load.number].writes]

        def gaps(place: int, targets: list[int] = targets) -> list[int | None]:
            buffers = ((program.buffers[n], spans.get(n, (place, place))[1]) for n in targets)
            return [spaces[buffer.memory].gap(buffer, place, last) for buffer, last in buffers]

        low, high = min(max(load.ready, want), load.use), load.use
        found = gaps(low)
        if None in found:
            while low < high:  # the later it is issued, the more room there is
                middle = (low + high) // 2
                low, high = (middle + 1, high) if None in gaps(middle) else (low, middle)
            found = gaps(low)
        for number, offset in zip(targets, found, strict=True):
            buffer = program.buffers[number]
            space = spaces[buffer.memory]
            if offset is None:
                space.short.append((low, low + 1))
                continue
            space.take(number, buffer, low, spans.get(number, (low, low))[1], offset)
        issue[index] = low
    return issue
