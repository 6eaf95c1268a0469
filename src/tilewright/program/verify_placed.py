"""Naive checks of addresses and times, apart from the allocator and the simulator.

Live buffers may not share addresses, engines must be able to keep the times, and accesses to the
same bytes have to be put in order by edges or by engines, never by timing alone.
"""

from bisect import bisect_left
from itertools import pairwise
from math import ceil

import numpy as np

from tilewright.errors import VerificationError
from tilewright.machine.machine import Machine
from tilewright.program.footprint import Footprints
from tilewright.program.place import Placed
from tilewright.program.program import Task, Transfer
from tilewright.schedule.problem import Quantities
from tilewright.schedule.races import Accesses, find_races
from tilewright.schedule.validate import validate_schedule

_ROUNDING = 1.01  # rates are rounded to small fractions before they are simulated


def where_is(number: int, task: Task) -> str:
    """How messages call a task."""
    return f"task {number} '{task.name}'"


def verify_placed(placed: Placed, machine: Machine) -> None:
    """Raise `VerificationError` unless buffers that live together lie apart, engines can keep the
    times, and conflicting accesses are ordered by edges or engines, never by timing alone."""
    _check_addresses(placed, machine)
    _check_problem(placed, machine)
    faults = validate_schedule(placed.problem, placed.schedule)
    if faults:
        named = [where_is(t, placed.program.tasks[t]) for t in faults[0].tasks[:2]]
        raise VerificationError(f"schedule: {' / '.join(named)}: {faults[0].kind.value}")
    races = find_races(placed.problem, _accesses(placed, machine))
    for race in races:
        tasks = [where_is(t, placed.program.tasks[t]) for t in (race.first, race.second)]
        memory = machine.memories[race.memory].name
        raise VerificationError(
            f"{' and '.join(tasks)} race on bytes {race.start}-{race.stop} of {memory} "
            f"({race.conflict.value})"
        )


def _check_addresses(placed: Placed, machine: Machine) -> None:
    """Every buffer within its memory, at its alignment, and apart from those that live with it."""
    program = placed.program
    if len(placed.address) != len(program.buffers):
        raise VerificationError(f"{len(placed.address)} addresses, {len(program.buffers)} buffers")
    highest = dict.fromkeys((memory.name for memory in machine.memories), 0)
    usable = {memory.name: memory.usable for memory in machine.memories}
    for buffer, start in zip(program.buffers, placed.address, strict=True):
        stop = start + buffer.size
        if start < 0 or stop > usable[buffer.memory]:
            raise VerificationError(
                f"buffer '{buffer.name}': bytes {start}-{stop} of {buffer.memory}, which has "
                f"{usable[buffer.memory]}"
            )
        if start % buffer.alignment:
            raise VerificationError(
                f"buffer '{buffer.name}': address {start} is no multiple of {buffer.alignment}"
            )
        highest[buffer.memory] = max(highest[buffer.memory], stop)
    if highest != dict(placed.highest):
        raise VerificationError(f"highest addresses are {highest}, not {dict(placed.highest)}")
    peaks = {memory.name: _check_apart(placed, memory.name) for memory in machine.memories}
    if peaks != dict(placed.most_live):
        raise VerificationError(f"peaks are {peaks}, not {dict(placed.most_live)}")


def _check_apart(placed: Placed, memory: str) -> int:
    """Walk the order of tasks with the live buffers sorted by address: neighbours must not touch
    each other's bytes. Gives the most bytes that are live at once."""
    born: dict[int, int] = {}
    dies: dict[int, int] = {}
    program = placed.program
    for _, view in (*program.inputs, *program.constants, *program.outputs):
        born[view.buffer], dies[view.buffer] = -1, len(program.tasks)
    for number, task in enumerate(program.tasks):
        for view in (*task.reads, *task.writes):
            born.setdefault(view.buffer, number)
            dies[view.buffer] = max(dies.get(view.buffer, 0), number)
    inside = [b for b in born if program.buffers[b].memory == memory]
    events = sorted([(born[b], 1, b) for b in inside] + [(dies[b] + 1, 0, b) for b in inside])
    live: list[tuple[int, int]] = []
    held = most = 0
    for _, starts, number in events:
        place = bisect_left(live, (placed.address[number], number))
        held += program.buffers[number].size if starts else -program.buffers[number].size
        most = max(most, held)
        if not starts:
            del live[place]
            continue
        live.insert(place, (placed.address[number], number))
        for (low, one), (high, other) in pairwise(live[max(0, place - 1) : place + 2]):
            if low + program.buffers[one].size > high:
                raise VerificationError(
                    f"buffers '{program.buffers[one].name}' and '{program.buffers[other].name}' "
                    f"share bytes of {memory} while both are live"
                )
    return most


def _check_problem(placed: Placed, machine: Machine) -> None:
    """What was simulated is the program: its engines, times, bytes and edges, and rates no better
    than the machine's."""
    program, problem = placed.program, placed.problem
    if problem.count != len(program.tasks):
        raise VerificationError(f"{problem.count} tasks scheduled of {len(program.tasks)}")
    names = [*(engine.name for engine in machine.engines), *(link.name for link in machine.links)]
    resources = problem.resources
    if len(resources.engines) != len(names) or not all(e.serial for e in resources.engines):
        raise VerificationError("what was simulated are not the engines of the machine")
    durations, transfers = problem.duration.tolist(), problem.transfer.tolist()
    needs, bounds = problem.needs.tolist(), problem.need_start.tolist()
    routes = {
        (link.name, route.source, route.destination): route
        for link in machine.links
        for route in link.routes
    }
    for number, task in enumerate(program.tasks):
        where = where_is(number, task)
        engine = int(problem.engine[number])
        if names[engine] != task.engine:
            raise VerificationError(f"{where}: scheduled on {names[engine]}, not {task.engine}")
        expected, limit = (task.cycles, task.moved), 0.0
        if isinstance(task.work, Transfer):
            route = routes.get((task.engine, *task.work.route))
            limit = 0.0 if route is None else machine.alone_bytes_per_cycle(route)
            if route is not None and not route.groups:
                alone = max(1, ceil(round(task.moved / limit, 6)))  # nothing to share
                expected, limit = (task.cycles + alone, 0), 0.0
        if (durations[number], transfers[number]) != expected:
            raise VerificationError(f"{where}: scheduled with other cycles or bytes than its own")
        if not {*task.after} <= {*needs[bounds[number] : bounds[number + 1]]}:
            raise VerificationError(f"{where}: scheduled without waiting for all it needs")
        if isinstance(task.work, Transfer) and expected[1]:
            simulated = resources.engines[engine]
            rates = [rate for rate in (simulated.rate,) if rate is not None]
            rates += [] if simulated.pool is None else [resources.pools[simulated.pool]]
            if not rates or min(rates) > limit * _ROUNDING:
                raise VerificationError(f"{where}: scheduled faster than its route")


def _accesses(placed: Placed, machine: Machine) -> Accesses:
    """Every run of bytes that a task reads or writes, at its address."""
    memories = {memory.name: i for i, memory in enumerate(machine.memories)}
    footprints = Footprints()
    starts: list[Quantities] = []
    stops: list[Quantities] = []
    rows: list[tuple[int, int, bool, int]] = []
    for number, task in enumerate(placed.program.tasks):
        views = [(view, False) for view in task.reads] + [(view, True) for view in task.writes]
        for view, writes in views:
            low, high = footprints.intervals(view)
            base = placed.address[view.buffer] + view.offset
            starts.append(low + base)
            stops.append(high + base)
            memory = memories[placed.program.buffers[view.buffer].memory]
            rows.append((number, memory, writes, low.size))
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    task_of, memory_of, write_of = np.repeat(table[:, :3], table[:, 3], axis=0).T
    nothing = [np.empty(0, dtype=np.int64)]
    bytes = np.concatenate(starts or nothing), np.concatenate(stops or nothing)
    return Accesses(
        task_of.astype(np.int32), memory_of.astype(np.int32), *bytes, write_of.astype(np.bool_)
    )
