# pyright: basic, reportArgumentType=false, reportReturnType=false
# Numba checks the types of compiled functions; what it infers of arrays, pyright cannot.
"""Room for what is computed and for what loads bring, while the loads are put in order.

What is computed is placed first, at the low addresses. Loads look for room beginning at their use
and going back in time as far as they want to, or as far as there is room: each below the one before
it, and from the top again where nothing is left, as in a ring. Bytes become free in the order they
were taken, so they do not end up in pieces. Or those that a single task uses look from below:
`apart` from those that stay, which else may end up in the middle.
"""

from typing import NamedTuple

import numpy as np

from tilewright.compiled import njit
from tilewright.memory.greedy import ORDERS, lowest_offsets, ranked
from tilewright.program.columns import Columns, Hardware
from tilewright.program.kernels.prefetch import Loads
from tilewright.schedule.problem import Flags, Ids, Quantities

_BUCKET = 5  # 32 positions, and 4 times as many for what stays longer: see `_Shelves`
_WIDER = 2
_NEVER = 2**30
_PLACED = 10_000  # buffers, in all orders that are tried beside that of the program, or in one


class Space(NamedTuple):
    """Addresses of all buffers (-1: none found), where each load is issued, and of each memory the
    positions at which something wanted to be there that found no room."""

    address: Quantities
    issue: Ids
    short: Flags


class Standing(NamedTuple):
    """Where all lies that is used but not loaded: addresses (-1: none), up to which position every
    buffer is held (-1: not used), and of each memory the positions at which something wanted to be
    there that found no room."""

    address: Quantities
    last: Quantities
    short: Flags


@njit()
def find_standing(columns: Columns, hardware: Hardware, loads: Loads, held: Ids) -> Standing:
    """Addresses of what is computed, in all memories but the main one."""
    buffers = columns.memory.size
    last = np.full(buffers, -1, np.int64)
    for buffer in range(buffers):
        if loads.first[buffer] >= 0:
            last[buffer] = held[loads.last[buffer]]
    short = np.zeros((hardware.home.size, loads.rest.size + 1), np.bool_)
    return Standing(_computed(columns, hardware, loads, last, short), last, short)


@njit()
def find_space(
    columns: Columns, hardware: Hardware, loads: Loads, standing: Standing, apart: bool
) -> Space:
    """Addresses of what is loaded beside what is computed, and where each load is issued: as
    wanted, or as soon after as there is room until it is used. In every group, what is there for
    most of it looks for room first. Where those that stay lie `apart`, all have to find room: the
    first without is the last that is looked at."""
    buffers, count = columns.memory.size, loads.rest.size
    address, last = standing.address.copy(), standing.last.copy()
    short = standing.short.copy()
    high = np.empty(buffers, np.int64)
    for buffer in range(buffers):
        high[buffer] = address[buffer] + columns.size[buffer]
    memories = hardware.home.size
    levels = 1
    while count >> (_BUCKET + _WIDER * (levels - 1)):
        levels += 1
    starts = np.zeros(levels + 1, np.int64)
    for level in range(levels):
        starts[level + 1] = starts[level] + (count >> (_BUCKET + _WIDER * level)) + 2
    shelves = _Shelves(
        np.full(buffers, -1, np.int64),
        last,
        address,
        high,
        starts,
        np.full((memories, starts[levels]), -1, np.int32),
        np.full(buffers, -1, np.int32),
        np.full((memories, count + 2), -1, np.int32),
        np.full(buffers, -1, np.int32),
    )
    for buffer in range(buffers):
        if address[buffer] >= 0:
            _take(shelves, columns.memory[buffer], buffer, np.int64(loads.first[buffer]))
    gaps = np.empty((2, buffers + 2), np.int64)
    begin = np.empty(buffers, np.int64)  # where each target of a load found room by itself
    below = hardware.usable.copy()  # what was loaded last into each memory lies from here on
    issue = np.empty(loads.loads.size, np.int32)
    for index in _ranked(columns, loads, last):
        task, use = loads.loads[index], loads.use[index]
        want = np.int64(min(max(loads.ready[index], loads.wanted[index]), use))
        place = want
        for again in range(2):  # all targets of a load begin where the last of them can
            for access in range(columns.access_start[task], columns.access_start[task + 1]):
                buffer = columns.buffer[access]
                if not columns.write[access] or (again and begin[buffer] == place):
                    continue
                if last[buffer] < use:  # not used itself: there while the other targets arrive
                    last[buffer] = use
                begin[buffer], address[buffer] = _back(
                    shelves,
                    columns.memory[buffer],
                    gaps,
                    place if again else want,
                    use,
                    last[buffer],
                    columns.size[buffer],
                    columns.alignment[buffer],
                    hardware.usable[columns.memory[buffer]],
                    below[columns.memory[buffer]],
                    apart and loads.last[buffer] <= use,
                )
                if not again:
                    place = max(place, begin[buffer])
        for access in range(columns.access_start[task], columns.access_start[task + 1]):
            buffer = columns.buffer[access]
            if not columns.write[access]:
                continue
            if address[buffer] < 0:
                for lacking in range(place, last[buffer] + 1):
                    short[columns.memory[buffer], lacking] = True
                if apart:
                    return Space(address, issue, short)
                continue
            shelves.low[buffer] = address[buffer]
            if not apart:
                below[columns.memory[buffer]] = address[buffer]
            shelves.high[buffer] = address[buffer] + columns.size[buffer]
            _take(shelves, columns.memory[buffer], buffer, place)
        issue[index] = place
    return Space(address, issue, short)


@njit()
def held_over(columns: Columns, loads: Loads, held: Ids, short: Flags) -> Flags:
    """Positions of which something is held, longer than it is used, while there is no room for
    something else in its memory."""
    memories, count = short.shape
    until = np.empty((memories, count), np.int64)  # the next position without room
    for memory in range(memories):
        found = np.int64(_NEVER)
        for place in range(count - 1, -1, -1):
            found = place if short[memory, place] else found
            until[memory, place] = found
    over = np.zeros(count - 1, np.bool_)
    for buffer in loads.seen:
        used = loads.last[buffer]
        if until[columns.memory[buffer], used + 1] <= held[used]:
            over[used] = True
    return over


@njit(inner=True)
def _computed(
    columns: Columns, hardware: Hardware, loads: Loads, last: Quantities, short: Flags
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
        begin = np.empty(count, np.int64)
        stop = np.empty(count, np.int64)
        size = np.empty(count, np.int64)
        unit = np.empty(count, np.int64)
        for index in range(count):
            buffer = mine[index]
            begin[index], stop[index] = loads.first[buffer], last[buffer] + 1
            size[index], unit[index] = columns.size[buffer], columns.alignment[buffer]
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
            for place in range(short.shape[1]):
                sum_live += live[place]
                short[memory, place] = sum_live > hardware.usable[memory]
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
            min(ORDERS, max(1, _PLACED // count)),
            0,
        )
        for index in range(count):
            if offsets[index] + size[index] <= hardware.usable[memory]:
                address[mine[index]] = offsets[index]
                continue
            for place in range(begin[index], stop[index]):
                short[memory, place] = True
    return address


@njit(inner=True)
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
    group_of = np.empty(count, np.int64)
    rank = np.zeros(count, np.int64)
    for index in range(count):
        task, use = loads.loads[index], loads.use[index]
        group = columns.group[task]
        buffer = columns.buffer[columns.access_start[task] + 1]
        group_of[index] = group
        if 2 * (max(last[buffer], use) - use) > end[group] - begin[group] > 0:
            rank[index] = -columns.size[buffer]
    return ranked(group_of, rank)


class _Shelves(NamedTuple):
    """Buffers in their memories: from position `begin` to `last`, bytes from `low` to `high`. Those
    that begin in a bucket of positions are chained from `heads` by `behind`. The buckets of a level
    are wider than those of the level before it (its buckets are from `starts` on), and a buffer is
    in the first level with buckets as wide as it is long: who is there at some position began in
    the bucket of it, or in the one before. Those that end at a position are chained from `ends`."""

    begin: Quantities
    last: Quantities
    low: Quantities
    high: Quantities
    starts: Quantities
    heads: Ids
    behind: Ids
    ends: Ids
    ends_behind: Ids


@njit(inner=True)
def _take(shelves: _Shelves, memory: int, buffer: int, begin: int) -> None:
    """Put a buffer there from a position on."""
    shelves.begin[buffer] = begin
    last = shelves.last[buffer]
    level, shift = 0, _BUCKET
    while (last - begin) >> shift:
        level, shift = level + 1, shift + _WIDER
    bucket = shelves.starts[level] + (begin >> shift)
    shelves.behind[buffer] = shelves.heads[memory, bucket]
    shelves.heads[memory, bucket] = buffer
    shelves.ends_behind[buffer] = shelves.ends[memory, last]
    shelves.ends[memory, last] = buffer


@njit(inner=True)
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
    below: int,
    lowest: bool,
) -> tuple[int, int]:
    """The earliest position, not before the wanted one, from which there is room until `last`, and
    the next place there (-1: not even from the use on)."""
    gaps[0, 0], gaps[1, 0] = 0, usable
    count = np.int64(1)
    shift = _BUCKET
    for level in range(shelves.starts.size - 1):
        start = shelves.starts[level]
        for bucket in range(start + max(0, (use >> shift) - 1), start + (last >> shift) + 1):
            buffer = shelves.heads[memory, bucket]
            while buffer >= 0:
                if shelves.begin[buffer] <= last and shelves.last[buffer] >= use:
                    count = _without(gaps, count, shelves.low[buffer], shelves.high[buffer], size)
                buffer = shelves.behind[buffer]
        shift += _WIDER
    place = _place(gaps, count, size, alignment, below, lowest)
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
            other = _place(gaps, count, size, alignment, below, lowest)
            if other < 0:
                return position + 1, place
            place = other
    return want, place


@njit(inner=True)
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


@njit(inner=True)
def _place(
    gaps: Quantities, count: int, size: int, alignment: int, below: int, lowest: bool
) -> int:
    """The highest aligned place in a gap that ends by `below`, or else of all; or the lowest of
    all; or -1."""
    if lowest:
        for gap in range(count - 1, -1, -1):
            place = (gaps[0, gap] + alignment - 1) // alignment * alignment
            if place <= gaps[1, gap] - size:
                return place
        return -1
    for top in (below, gaps[1, 0] if count else below):
        for gap in range(count):
            place = (min(gaps[1, gap], top) - size) // alignment * alignment
            if place >= gaps[0, gap]:
                return place
    return -1
