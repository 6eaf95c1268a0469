# pyright: basic, reportArgumentType=false, reportReturnType=false
# Numba checks the types of compiled functions; what it infers of arrays, pyright cannot.
"""Loads ahead of their use: when each has to be issued, and where there is room for what it brings.

Positions count the tasks that are no loads, in order. What is computed is placed first, at the low
addresses; loads look for room from above, beginning at their use and going back in time as far as
they want to, or as far as there is room.
"""

from typing import NamedTuple

import numpy as np

from tilewright.compiled import njit
from tilewright.memory.greedy import lowest_offsets
from tilewright.program.columns import COMPUTE, COPY, Columns, Copies, Floats, Hardware, Needs
from tilewright.schedule.problem import Flags, Ids, Quantities

SLACK = 1.25  # a copy is planned to take so much longer than it does alone
_BUCKET = 5  # buffers in a memory are found by their first position, 32 positions to a bucket
_NEVER = 2**30


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


class Space(NamedTuple):
    """Addresses of all buffers (-1: none found), where each load is issued, and the positions at
    which there was no room for something."""

    address: Quantities
    issue: Ids
    short: Flags


@njit()
def alone_cycles(columns: Columns, copies: Copies, task: int) -> float:
    """How long a task takes when nothing shares its bandwidth."""
    if columns.kind[task] == COPY:
        return float(copies.alone[columns.copy[task], columns.choice[task]])
    return float(columns.cycles[task])


@njit()
def _interpolated(x: float, xs: Floats, ys: Floats) -> float:
    """The value at x of a line through points, flat beyond its ends."""
    last = xs.size - 1
    if x >= xs[last]:
        return float(ys[last])
    if x <= xs[0]:
        return float(ys[0])
    at = np.searchsorted(xs, x, side="right") - 1
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
    seen = seen[:known].copy()
    return Loads(rest, seen, first, last, loads, use[loads], ready[loads], wanted, idle)


@njit()
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
        wanted[index] = np.searchsorted(reached, moment, side="right")
    return wanted


@njit()
def held_until(
    columns: Columns, hardware: Hardware, rest: Ids, ahead: Ids, overlapping: bool
) -> Ids:
    """For every position, up to which position what it uses last is held: itself, or longer where
    that lets engines overlap. `ahead` says for each group how many of the next operators on a core
    go on beside a copy out of it; `overlapping`, that two engines of a core work on
    neighbouring tiles.

    The next result would otherwise be given the bytes that a store, or the other engine, still
    reads, and have to wait for bytes, not for data.
    """
    count, groups = rest.size, ahead.size
    held = np.arange(count).astype(np.int32)
    most = max(1, int(ahead.max()))
    upcoming = np.full((hardware.cores, most), -1, np.int32)  # the next operators of every core
    engine_of = np.full((groups, hardware.cores), -1, np.int32)
    several = np.zeros((groups, hardware.cores), np.bool_)
    for place in range(count - 1, -1, -1):
        task = rest[place]
        group = columns.group[task]
        core = hardware.core_of[columns.engine[task]]
        if columns.kind[task] == COMPUTE and core >= 0:
            upcoming[core, 1:] = upcoming[core, :-1].copy()
            upcoming[core, 0] = place
            if engine_of[group, core] < 0:
                engine_of[group, core] = columns.engine[task]
            elif engine_of[group, core] != columns.engine[task]:
                several[group, core] = True
        elif columns.kind[task] == COPY and hardware.home[columns.source[task]] >= 0:
            core = hardware.home[columns.source[task]]
            for further in range(ahead[group]):
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
        if not several[group, core] or ahead[group] == 0:
            continue
        if following[group, engine] >= 0:
            held[place] = following[group, engine] - 1
        following[group, engine] = place
    return held


@njit()
def find_space(columns: Columns, hardware: Hardware, loads: Loads, held: Ids) -> Space:
    """Addresses in all memories but the main one, and where each load is issued: as wanted, or as
    soon after as there is room until it is used. In every group, what is there for most of it looks
    for room first."""
    buffers, count = columns.memory.size, loads.rest.size
    last = np.full(buffers, -1, np.int64)
    for buffer in range(buffers):
        if loads.first[buffer] >= 0:
            last[buffer] = held[loads.last[buffer]]
    short = np.zeros(count + 1, np.bool_)
    address = _computed(columns, hardware, loads, last, short)
    memories = hardware.home.size
    shelves = _Shelves(
        np.full(buffers, -1, np.int64),
        last,
        address,
        address + columns.size,
        np.full((memories, (count >> _BUCKET) + 2), -1, np.int32),
        np.full((memories, (count >> _BUCKET) + 2), -1, np.int64),
        np.full(buffers, -1, np.int32),
        np.full((memories, count + 2), -1, np.int32),
        np.full(buffers, -1, np.int32),
    )
    for buffer in range(buffers):
        if address[buffer] >= 0:
            _take(shelves, columns.memory[buffer], buffer, np.int64(loads.first[buffer]))
    gaps = np.empty((2, buffers + 2), np.int64)
    issue = np.empty(loads.loads.size, np.int32)
    for index in _ranked(columns, loads, last):
        task, use = loads.loads[index], loads.use[index]
        want = np.int64(min(max(loads.ready[index], loads.wanted[index]), use))
        place = want
        for again in range(2):  # all targets of a load begin where the last of them can
            if again and columns.access_start[task + 1] - columns.access_start[task] <= 2:
                break
            for access in range(columns.access_start[task], columns.access_start[task + 1]):
                buffer = columns.buffer[access]
                if not columns.write[access]:
                    continue
                if last[buffer] < use:  # not used itself: there while the other targets arrive
                    last[buffer] = use
                found, address[buffer] = _back(
                    shelves,
                    columns.memory[buffer],
                    gaps,
                    place if again else want,
                    use,
                    last[buffer],
                    columns.size[buffer],
                    columns.alignment[buffer],
                    hardware.usable[columns.memory[buffer]],
                )
                if not again:
                    place = max(place, found)
        for access in range(columns.access_start[task], columns.access_start[task + 1]):
            buffer = columns.buffer[access]
            if not columns.write[access]:
                continue
            if address[buffer] < 0:
                short[place] = True
                continue
            shelves.low[buffer] = address[buffer]
            shelves.high[buffer] = address[buffer] + columns.size[buffer]
            _take(shelves, columns.memory[buffer], buffer, place)
        issue[index] = place
    return Space(address, issue, short)


@njit()
def _computed(
    columns: Columns,
    hardware: Hardware,
    loads: Loads,
    last: Quantities,
    short: Flags,
) -> Quantities:
    """Addresses of all that is used but not loaded, as far down as it goes, memory by memory."""
    buffers = columns.memory.size
    address = np.full(buffers, -1, np.int64)
    loaded = np.zeros(buffers, np.bool_)
    for task in loads.loads:
        for access in range(columns.access_start[task], columns.access_start[task + 1]):
            if columns.write[access]:
                loaded[columns.buffer[access]] = True
    mine = np.empty(buffers, np.int64)
    nothing = np.empty(0, np.int32)
    for memory in range(hardware.home.size):
        count = 0
        for buffer in loads.seen if memory != hardware.main else nothing:
            if columns.memory[buffer] == memory and not loaded[buffer]:
                mine[count] = buffer
                count += 1
        if count == 0:
            continue
        chosen = mine[:count].copy()
        begin, stop = loads.first[chosen].astype(np.int64), last[chosen] + 1
        size, unit = columns.size[chosen], columns.alignment[chosen]
        live = np.zeros(loads.rest.size + 2, np.int64)
        for index in range(count):
            live[begin[index]] += size[index]
            live[stop[index]] -= size[index]
        least, sum_live = np.int64(0), np.int64(0)
        for place in range(live.size):
            sum_live += live[place]
            least = max(least, sum_live)
        if least > hardware.usable[memory]:
            sum_live = np.int64(0)
            for place in range(short.size):
                sum_live += live[place]
                short[place] = short[place] or sum_live > hardware.usable[memory]
            continue
        offsets = lowest_offsets(
            begin,
            stop,
            size,
            unit,
            np.empty(0, np.int64),
            np.zeros(count, np.int64),
            loads.rest.size + 1,
            least,
            0,
        )
        for index in range(count):
            if offsets[index] + size[index] <= hardware.usable[memory]:
                address[chosen[index]] = offsets[index]
            else:
                short[begin[index] : stop[index]] = True
    return address


@njit()
def _ranked(columns: Columns, loads: Loads, last: Quantities) -> Quantities:
    """The order in which loads look for room: group by group, what stays for most of the group and
    is large first, then by use."""
    count = loads.loads.size
    groups = 0
    for task in loads.loads:
        groups = max(groups, columns.group[task] + 1)
    begin = np.full(groups, _NEVER, np.int64)
    end = np.full(groups, -1, np.int64)
    for index in range(count):
        group = columns.group[loads.loads[index]]
        begin[group] = min(begin[group], loads.use[index])
        end[group] = max(end[group], loads.use[index])
    key = np.empty(count, np.int64)
    for index in range(count):
        task, use = loads.loads[index], loads.use[index]
        group = columns.group[task]
        buffer = columns.buffer[columns.access_start[task] + 1]
        stays = 2 * (max(last[buffer], use) - use) > end[group] - begin[group] > 0
        rank = np.int64(1) << 40
        if stays:
            rank -= columns.size[buffer]
        key[index] = np.int64(group) * (np.int64(1) << 41) + rank
    return np.argsort(key, kind="mergesort")


class _Shelves(NamedTuple):
    """Buffers in their memories: from position `begin` to `last`, bytes from `low` to `high`. Those
    that begin in a bucket of positions are chained from `heads` by `behind`; `reach` is the latest
    end in a bucket and all before it; those that end at a position are chained from `ends`."""

    begin: Quantities
    last: Quantities
    low: Quantities
    high: Quantities
    heads: Ids
    reach: Quantities
    behind: Ids
    ends: Ids
    ends_behind: Ids


@njit()
def _take(shelves: _Shelves, memory: int, buffer: int, begin: int) -> None:
    """Put a buffer there from a position on."""
    shelves.begin[buffer] = begin
    last = shelves.last[buffer]
    bucket = begin >> _BUCKET
    shelves.behind[buffer] = shelves.heads[memory, bucket]
    shelves.heads[memory, bucket] = buffer
    while bucket < shelves.reach.shape[1] and shelves.reach[memory, bucket] < last:
        shelves.reach[memory, bucket] = last
        bucket += 1
    shelves.ends_behind[buffer] = shelves.ends[memory, last]
    shelves.ends[memory, last] = buffer


@njit()
def _back(
    shelves: _Shelves,
    memory: int,
    gaps: Quantities,
    want: int,
    use: int,
    last: int,
    size: int,
    alignment: int,
    usable: int,
) -> tuple[int, int]:
    """The earliest position, not before the wanted one, from which there is room until `last`, and
    the highest place there (-1: not even from the use on)."""
    gaps[0, 0], gaps[1, 0] = 0, usable
    count = np.int64(1)
    bucket = last >> _BUCKET
    while bucket >= 0 and shelves.reach[memory, bucket] >= use:
        buffer = shelves.heads[memory, bucket]
        while buffer >= 0:
            if shelves.begin[buffer] <= last and shelves.last[buffer] >= use:
                count = _without(gaps, count, shelves.low[buffer], shelves.high[buffer], size)
            buffer = shelves.behind[buffer]
        bucket -= 1
    place = _highest(gaps, count, size, alignment)
    if place < 0:
        return use, -1
    for position in range(use - 1, want - 1, -1):
        buffer = shelves.ends[memory, position]
        hit = False
        while buffer >= 0:
            low, high = shelves.low[buffer], shelves.high[buffer]
            hit = hit or (low < place + size and high > place)
            count = _without(gaps, count, low, high, size)
            buffer = shelves.ends_behind[buffer]
        if hit:
            lower = _highest(gaps, count, size, alignment)
            if lower < 0:
                return position + 1, place
            place = lower
    return want, place


@njit()
def _without(gaps: Quantities, count: int, low: int, high: int, size: int) -> int:
    """Gaps (from, to; the highest first) less a range of bytes, and how many are left; those too
    small go."""
    above = 0
    while above < count and gaps[0, above] >= high:
        above += 1
    below = above
    while below < count and gaps[1, below] > low:
        below += 1
    if above == below:
        return count
    top, bottom = gaps[1, above], gaps[0, below - 1]
    upper, lower = top - high >= size, low - bottom >= size
    shift = int(upper) + int(lower) - (below - above)
    if shift > 0:
        for gap in range(count - 1, below - 1, -1):
            gaps[0, gap + shift], gaps[1, gap + shift] = gaps[0, gap], gaps[1, gap]
    elif shift < 0:
        for gap in range(below, count):
            gaps[0, gap + shift], gaps[1, gap + shift] = gaps[0, gap], gaps[1, gap]
    if upper:
        gaps[0, above], gaps[1, above] = high, top
        above += 1
    if lower:
        gaps[0, above], gaps[1, above] = bottom, low
    return count + shift


@njit()
def _highest(gaps: Quantities, count: int, size: int, alignment: int) -> int:
    """The highest aligned place in a gap, or -1."""
    for gap in range(count):
        place = (gaps[1, gap] - size) // alignment * alignment
        if place >= gaps[0, gap]:
            return place
    return -1
