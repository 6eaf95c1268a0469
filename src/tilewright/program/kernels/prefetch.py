# pyright: basic, reportArgumentType=false, reportReturnType=false
# Numba checks the types of compiled functions; what it infers of arrays, pyright cannot.
"""Loads ahead of their use: when each has to be issued, and how long buffers are held.

Positions count the tasks that are no loads, in order.
"""

from typing import NamedTuple

import numpy as np

from tilewright.compiled import njit
from tilewright.program.columns import COMPUTE, COPY, Columns, Copies, Floats, Hardware, Needs
from tilewright.program.kernels.link import beyond
from tilewright.schedule.problem import Flags, Ids

SLACK = 1.25  # a copy is planned to take so much longer than it does alone


class Loads(NamedTuple):
    """Which tasks are loads, and the positions of all others. `rest` are the others in order,
    `seen` the buffers in the order they use them, `first` and `last` the positions that use each
    buffer (-1: none does). `loads` are in order of
    their `use`; `ready` and `wanted` are positions before which they cannot, and need not, be
    issued. `idle` are loads that nothing uses."""

    rest: Ids
    seen: Ids
    first: Ids
    last: Ids
    loads: Ids
    use: Ids
    ready: Ids
    wanted: Ids
    idle: Ids


@njit(inner=True)
def alone_cycles(columns: Columns, copies: Copies, task: int) -> float:
    """How long a task takes when nothing shares its bandwidth."""
    if columns.kind[task] == COPY:
        return float(copies.alone[columns.copy[task], columns.choice[task]])
    return float(columns.cycles[task])


@njit(inner=True)
def _interpolated(x: float, xs: Floats, ys: Floats) -> float:
    """The value at x of a line through points, flat beyond its ends."""
    last = xs.size - 1
    if x >= xs[last]:
        return float(ys[last])
    if x <= xs[0]:
        return float(ys[0])
    at = beyond(xs, xs.size, x) - 1
    if xs[at] == x:
        return float(ys[at])
    slope = (ys[at + 1] - ys[at]) / (xs[at + 1] - xs[at])
    return float(slope * (x - xs[at]) + ys[at])


@njit()
def find_loads(columns: Columns, copies: Copies, needs: Needs, hardware: Hardware) -> Loads:
    """Loads with the position at which each has to be issued at the latest: so that it, and those
    needed after it, arrive when they are used. Loads have the time that stores leave."""
    tasks, buffers = columns.kind.size, columns.memory.size
    position = np.full(tasks, -1, np.int32)
    rest = np.empty(tasks, np.int32)
    count = 0
    for task in range(tasks):
        load = columns.kind[task] == COPY and columns.source[task] == hardware.main
        if not load:
            position[task] = count
            rest[count] = task
            count += 1
    rest = rest[:count].copy()
    first = np.full(buffers, -1, np.int32)
    last = np.full(buffers, -1, np.int32)
    seen = np.empty(buffers, np.int32)
    known = 0
    for place in range(count):
        for access in range(
            columns.access_start[rest[place]], columns.access_start[rest[place] + 1]
        ):
            buffer = columns.buffer[access]
            if first[buffer] < 0:
                first[buffer] = place
                seen[known] = buffer
                known += 1
            last[buffer] = place
    use = np.full(tasks, -1, np.int32)
    ready = np.zeros(tasks, np.int32)
    at_use = np.zeros(count + 2, np.int64)
    used = 0
    for task in range(tasks):
        if position[task] >= 0:
            continue
        for entry in range(needs.start[task], needs.start[task + 1]):
            ready[task] = max(ready[task], position[needs.needs[entry]] + 1)
        for access in range(columns.access_start[task], columns.access_start[task + 1]):
            place = first[columns.buffer[access]]
            if columns.write[access] and place >= 0 and (use[task] < 0 or place < use[task]):
                use[task] = place
        if use[task] >= 0:
            at_use[use[task] + 1] += 1
            used += 1
    for place in range(count + 1):
        at_use[place + 1] += at_use[place]
    loads = np.empty(used, np.int32)
    idle = np.empty(tasks - count - used, np.int32)
    left_over = 0
    for task in range(tasks):
        if position[task] >= 0:
            continue
        if use[task] < 0:
            idle[left_over] = task
            left_over += 1
            continue
        loads[at_use[use[task]]] = task
        at_use[use[task]] += 1
    wanted = _wanted(columns, copies, needs, hardware, rest, loads, use)
    used_at = np.empty(used, np.int32)
    ready_at = np.empty(used, np.int32)
    for index in range(used):
        used_at[index], ready_at[index] = use[loads[index]], ready[loads[index]]
    return Loads(rest, seen[:known].copy(), first, last, loads, used_at, ready_at, wanted, idle)


@njit(inner=True)
def _wanted(
    columns: Columns,
    copies: Copies,
    needs: Needs,
    hardware: Hardware,
    rest: Ids,
    loads: Ids,
    use: Ids,
) -> Ids:
    """The position at which each load has to be issued at the latest: before what runs then, whose
    bytes it must not be given."""
    count = rest.size
    ends = np.zeros(columns.kind.size, np.float64)
    free = np.zeros(hardware.core_of.size, np.float64)
    begins = np.empty(count, np.float64)
    reached = np.empty(count, np.float64)
    clock = np.zeros(2 * count + 2, np.float64)
    left = np.zeros(2 * count + 2, np.float64)
    points = 1
    top = 0.0
    for place in range(count):
        task = rest[place]
        begin = free[columns.engine[task]]
        for entry in range(needs.start[task], needs.start[task + 1]):
            begin = max(begin, ends[needs.needs[entry]])
        taken = alone_cycles(columns, copies, task)
        begins[place] = begin
        ends[task] = begin + taken
        free[columns.engine[task]] = ends[task]
        top = max(top, ends[task])
        reached[place] = top
        if columns.kind[task] == COPY and columns.target[task] == hardware.main:
            start = max(begin, clock[points - 1])
            until = left[points - 1] + start - clock[points - 1]
            clock[points], clock[points + 1] = start, start + taken
            left[points], left[points + 1] = until, until + 1e-6  # moments stay in order
            points += 2
    end = clock[points - 1]
    for place in range(count):
        end = max(end, begins[place])
    clock[points] = end + 1.0
    left[points] = left[points - 1] + end + 1.0 - clock[points - 1]
    clock, left = clock[: points + 1], left[: points + 1]
    wanted = np.zeros(loads.size, np.int32)
    latest = np.inf
    for index in range(loads.size - 1, -1, -1):
        task = loads[index]
        taken = SLACK * alone_cycles(columns, copies, task)
        latest = min(latest, _interpolated(begins[use[task]], clock, left)) - taken
        moment = _interpolated(latest, left, clock)
        wanted[index] = beyond(reached, reached.size, moment)
    return wanted


@njit()
def held_until(
    columns: Columns, hardware: Hardware, rest: Ids, ahead: Ids, overlapping: bool
) -> Ids:
    """For every position, up to which position what it uses last is held: itself, or longer where
    that lets engines overlap. `ahead` says for each position how many of the next operators on a
    core go on beside a copy out of it (0: nothing of it is held any longer); `overlapping`, that
    two engines of a core work on neighbouring tiles.

    The next result would otherwise be given the bytes that a store, or the other engine, still
    reads, and have to wait for bytes, not for data.
    """
    count, groups, most = rest.size, 1, 1
    held = np.empty(count, np.int32)
    for place in range(count):
        held[place] = place
        groups = max(groups, columns.group[rest[place]] + 1)
        most = max(most, ahead[place])
    upcoming = np.full((hardware.cores, most), -1, np.int32)  # the next operators of every core
    engine_of = np.full((groups, hardware.cores), -1, np.int32)
    several = np.zeros((groups, hardware.cores), np.bool_)
    for place in range(count - 1, -1, -1):
        task = rest[place]
        group = columns.group[task]
        core = hardware.core_of[columns.engine[task]]
        if columns.kind[task] == COMPUTE and core >= 0:
            for further in range(most - 1, 0, -1):
                upcoming[core, further] = upcoming[core, further - 1]
            upcoming[core, 0] = place
            if engine_of[group, core] < 0:
                engine_of[group, core] = columns.engine[task]
            elif engine_of[group, core] != columns.engine[task]:
                several[group, core] = True
        elif columns.kind[task] == COPY and hardware.home[columns.source[task]] >= 0:
            core = hardware.home[columns.source[task]]
            for further in range(ahead[place]):
                held[place] = max(held[place], upcoming[core, further])
    if not overlapping:
        return held
    following = np.full((groups, hardware.core_of.size), -1, np.int32)
    for place in range(count - 1, -1, -1):
        task = rest[place]
        group, engine = columns.group[task], columns.engine[task]
        core = hardware.core_of[engine]
        if columns.kind[task] != COMPUTE or core < 0:
            continue
        if not several[group, core]:
            continue
        if following[group, engine] >= 0 and ahead[place] > 0:
            held[place] = following[group, engine] - 1
        following[group, engine] = place
    return held


class Late(NamedTuple):
    """What loads lose by coming later than wanted: the `cycles` of them that nothing their cores
    compute hides, and the `groups` that they wait for, with their own."""

    cycles: int
    groups: Flags


@njit()
def late_loads(
    columns: Columns, copies: Copies, hardware: Hardware, loads: Loads, issue: Ids, groups: int
) -> Late:
    """What is lost where loads are issued so: those that find room where they want it lose
    nothing."""
    count = loads.rest.size
    busy = np.zeros((hardware.cores, count + 1), np.int64)
    for place in range(count):
        task = loads.rest[place]
        for core in range(hardware.cores):
            busy[core, place + 1] = busy[core, place]
        core = hardware.core_of[columns.engine[task]]
        if columns.kind[task] == COMPUTE and core >= 0:
            busy[core, place + 1] += columns.cycles[task]
    cycles = np.int64(0)
    waited = np.zeros(groups, np.bool_)
    for index in range(issue.size):
        task, use, place = loads.loads[index], loads.use[index], issue[index]
        want = min(max(loads.ready[index], loads.wanted[index]), use)
        core = hardware.home[columns.target[task]]
        if place <= want or core < 0:
            continue
        taken = np.int64(alone_cycles(columns, copies, task))
        shown = max(0, taken - (busy[core, use] - busy[core, place]))
        lost = shown - max(0, taken - (busy[core, use] - busy[core, want]))
        if lost > 0:
            cycles += lost
            waited[columns.group[task]] = True
            waited[columns.group[loads.rest[place - 1]]] = True
    return Late(cycles, waited)
