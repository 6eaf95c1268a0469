# pyright: basic, reportArgumentType=false, reportReturnType=false
# Numba checks the types of compiled functions; what it infers of arrays, pyright cannot.
"""Who uses a buffer, the addresses of the main memory, and what waits for bytes to be free."""

from typing import NamedTuple

import numpy as np

from tilewright.compiled import njit
from tilewright.memory.greedy import ORDERS, lowest_offsets
from tilewright.program.columns import Columns, Hardware, Needs
from tilewright.program.kernels.link import beyond, longer, put_sorted, rows_of
from tilewright.schedule.problem import Flags, Ids, Quantities


class Users(NamedTuple):
    """Tasks that touch each buffer, by their place in the order: those of buffer b are
    `users[start[b]:start[b + 1]]`."""

    start: Quantities
    users: Ids


@njit()
def users_of(columns: Columns, order: Ids) -> Users:
    """Who uses each buffer, and when."""
    buffers = columns.memory.size
    start = np.zeros(buffers + 1, np.int64)
    users = np.empty(columns.buffer.size, np.int32)
    for fill in range(2):
        at = start.copy()
        latest = np.full(buffers, -1, np.int32)
        for new in range(order.size):
            for access in range(
                columns.access_start[order[new]], columns.access_start[order[new] + 1]
            ):
                buffer = columns.buffer[access]
                if latest[buffer] == new:
                    continue
                latest[buffer] = new
                if fill:
                    users[at[buffer]] = new
                    at[buffer] += 1
                else:
                    start[buffer + 1] += 1
        if not fill:
            for buffer in range(buffers):
                start[buffer + 1] += start[buffer]
    return Users(start, users[: start[buffers]].copy())


@njit()
def place_main(
    columns: Columns, hardware: Hardware, users: Users, tasks: int, address: Quantities
) -> int:
    """Fill in addresses of the main memory: the host's buffers below, the others above, each by
    itself as long as there is room, so that none waits for another's bytes. The highest byte
    used."""
    top = np.int64(0)
    others = np.empty(columns.memory.size, np.int64)
    count = 0
    for turn in range(2):
        for buffer in range(columns.memory.size):
            if columns.memory[buffer] != hardware.main or columns.fixed[buffer] != (turn == 0):
                continue
            if turn == 1:
                if users.start[buffer + 1] == users.start[buffer]:
                    address[buffer] = 0
                    continue
                others[count] = buffer
                count += 1
            unit = columns.alignment[buffer]
            address[buffer] = (top + unit - 1) // unit * unit
            top = address[buffer] + columns.size[buffer]
    if top <= hardware.usable[hardware.main] or count == 0:
        return int(top)
    base = address[others[0]]
    first = np.empty(count, np.int64)
    last = np.empty(count, np.int64)
    size = np.empty(count, np.int64)
    alignment = np.empty(count, np.int64)
    for index in range(count):
        buffer = others[index]
        first[index] = users.users[users.start[buffer]]
        last[index] = users.users[users.start[buffer + 1] - 1] + 1
        size[index], alignment[index] = columns.size[buffer], columns.alignment[buffer]
    nothing, zeros = np.empty(0, np.int64), np.zeros(count, np.int64)
    target = hardware.usable[hardware.main] - base
    offsets = lowest_offsets(first, last, size, alignment, nothing, zeros, tasks, target, ORDERS, 0)
    top = base
    for index in range(count):
        address[others[index]] = base + offsets[index]
        top = max(top, base + offsets[index] + size[index])
    return int(top)


@njit()
def peaks_of(
    columns: Columns, hardware: Hardware, users: Users, tasks: int, address: Quantities
) -> tuple[Quantities, Quantities]:
    """For each memory the highest byte used, and the most bytes that are live at once."""
    memories = hardware.home.size
    peak = np.zeros(memories, np.int64)
    live = np.zeros((memories, tasks + 2), np.int64)
    most = np.zeros(memories, np.int64)
    for buffer in range(columns.memory.size):
        memory, size = columns.memory[buffer], columns.size[buffer]
        begin, end = users.start[buffer], users.start[buffer + 1]
        if columns.fixed[buffer]:
            live[memory, 0] += size
        elif end > begin:
            live[memory, users.users[begin]] += size
            live[memory, users.users[end - 1] + 1] -= size
        else:
            continue
        peak[memory] = max(peak[memory], address[buffer] + size)
    for memory in range(memories):
        total = np.int64(0)
        for place in range(tasks + 1):
            total += live[memory, place]
            most[memory] = max(most[memory], total)
    return peak, most


@njit()
def byte_waits(
    columns: Columns,
    hardware: Hardware,
    order: Ids,
    needs: Needs,
    users: Users,
    address: Quantities,
) -> tuple[Needs, bool]:
    """Who waits for whose bytes, whatever order the copies take: all users of a buffer come before
    all of the one that takes (some of) its bytes next. False where buffers that share bytes are
    live together. Only users of the first that no other waits for, and users of the second that
    wait for no other, get edges, and of a core's engine the last or the first of them."""
    buffers, memories, engines = columns.memory.size, hardware.home.size, hardware.core_of.size
    leads, trails = _ends(order.size, needs, users)
    arrivals = _arrivals(order.size, columns.size, users)
    inside = np.zeros(memories + 1, np.int64)
    for buffer in arrivals:
        inside[columns.memory[buffer] + 1] += 2
    for memory in range(memories):
        inside[memory + 1] += inside[memory] + 4
    low = np.empty(inside[memories], np.int64)
    high = np.empty(inside[memories], np.int64)
    owner = np.empty(inside[memories], np.int32)
    pieces = np.zeros(memories, np.int64)
    first = np.empty(4 * buffers + 64, np.int32)
    second = np.empty(4 * buffers + 64, np.int32)
    heads = np.empty(order.size, np.int32)
    tails = np.empty(order.size, np.int32)
    earlier = np.empty(buffers, np.int32)
    turn = np.full(engines, -1, np.int64)  # of buffers, in which an engine was met last
    turns = 0
    count = 0
    sound = True
    for buffer in arrivals:
        born = users.users[users.start[buffer]]
        memory = columns.memory[buffer]
        base = inside[memory]
        found = _replace(
            low[base : inside[memory + 1]],
            high[base : inside[memory + 1]],
            owner[base : inside[memory + 1]],
            pieces,
            memory,
            address[buffer],
            address[buffer] + columns.size[buffer],
            buffer,
            earlier,
        )
        if found == 0:
            continue
        begin, stop = users.start[buffer], users.start[buffer + 1]
        entries = (begin, stop, 1)
        ahead = _outermost(
            columns, hardware, order, users.users, entries, leads, turn, turns, heads
        )
        turns += 1
        for index in range(found):
            other = earlier[index]
            sound = sound and users.users[users.start[other + 1] - 1] < born
            entries = (users.start[other + 1] - 1, users.start[other] - 1, -1)
            behind = _outermost(
                columns, hardware, order, users.users, entries, trails, turn, turns, tails
            )
            turns += 1
            if count + ahead * behind > first.size:
                first = longer(first, 2 * (count + ahead * behind))
                second = longer(second, 2 * (count + ahead * behind))
            for one in range(behind):
                for two in range(ahead):
                    first[count] = tails[one]
                    second[count] = heads[two]
                    count += 1
    return rows_of(order.size, first, second, count), sound


@njit(inner=True)
def _outermost(
    columns: Columns,
    hardware: Hardware,
    order: Ids,
    users: Ids,
    entries: tuple[int, int, int],
    marked: Flags,
    turn: Quantities,
    turns: int,
    found: Ids,
) -> int:
    """Fill `found` with the marked users among entries (start, stop, step), of a core's engine no
    more than the first; how many there are."""
    count = 0
    for entry in range(entries[0], entries[1], entries[2]):
        where = columns.engine[order[users[entry]]]
        core = hardware.core_of[where] >= 0
        if marked[entry] and not (core and turn[where] == turns):
            found[count] = users[entry]
            count += 1
        if core:
            turn[where] = turns
    return count


@njit(inner=True)
def _arrivals(tasks: int, size: Quantities, users: Users) -> Quantities:
    """Buffers that are used, by their first user, those of one user in order."""
    begins = np.zeros(tasks + 1, np.int64)
    for buffer in range(size.size):
        if users.start[buffer + 1] > users.start[buffer] and size[buffer] > 0:
            begins[users.users[users.start[buffer]] + 1] += 1
    for task in range(tasks):
        begins[task + 1] += begins[task]
    arrivals = np.empty(begins[tasks], np.int64)
    for buffer in range(size.size):
        if users.start[buffer + 1] > users.start[buffer] and size[buffer] > 0:
            task = users.users[users.start[buffer]]
            arrivals[begins[task]] = buffer
            begins[task] += 1
    return arrivals


@njit(inner=True)
def _ends(tasks: int, needs: Needs, users: Users) -> tuple[Flags, Flags]:
    """Of all users of buffers, those that wait for no other of the same, and those that no other
    waits for."""
    leads = np.ones(users.users.size, np.bool_)
    trails = np.ones(users.users.size, np.bool_)
    entry_of = np.full(tasks, -1, np.int64)
    for buffer in range(users.start.size - 1):
        begin = users.start[buffer]
        for entry in range(begin, users.start[buffer + 1]):
            task = users.users[entry]
            for other in range(needs.start[task], needs.start[task + 1]):
                earlier = entry_of[needs.needs[other]]
                if earlier >= begin:
                    leads[entry] = False
                    trails[earlier] = False
            entry_of[task] = entry
    return leads, trails


@njit()
def with_waits(needs: Needs, waits: Needs) -> Needs:
    """What tasks wait for by their data and by bytes."""
    tasks = needs.start.size - 1
    first = np.empty(needs.needs.size + waits.needs.size, np.int32)
    second = np.empty(needs.needs.size + waits.needs.size, np.int32)
    count = 0
    for task in range(tasks):
        for entry in range(needs.start[task], needs.start[task + 1]):
            first[count], second[count] = needs.needs[entry], task
            count += 1
        for entry in range(waits.start[task], waits.start[task + 1]):
            first[count], second[count] = waits.needs[entry], task
            count += 1
    return rows_of(tasks, first, second, count)


@njit()
def needed_waits(engine: Ids, engines: int, needs: Needs, waits: Needs) -> Needs:
    """What tasks wait for by their data, and by bytes where that does not follow from the rest.

    Engines run their tasks in order, so that a task knows, of every engine, how many tasks are over
    when it starts: no edge is added that follows from others.
    """
    tasks = engine.size
    position = np.empty(tasks, np.int32)
    last_of = np.full(engines, -1, np.int32)
    over = np.full((tasks, engines), -1, np.int32)
    start = np.zeros(tasks + 1, np.int64)
    rows = np.empty(needs.needs.size + waits.needs.size, np.int32)
    filled = 0
    for task in range(tasks):
        where = engine[task]
        before = last_of[where]
        position[task] = 0 if before < 0 else position[before] + 1
        last_of[where] = task
        if before >= 0:
            for other in range(engines):
                over[task, other] = over[before, other]
        begin = filled
        for entry in range(needs.start[task], needs.start[task + 1]):
            earlier = needs.needs[entry]
            rows[filled] = earlier
            filled += 1
            for other in range(engines):
                over[task, other] = max(over[task, other], over[earlier, other])
        for entry in range(waits.start[task + 1] - 1, waits.start[task] - 1, -1):
            earlier = waits.needs[entry]
            if over[task, engine[earlier]] >= position[earlier]:
                continue
            for other in range(engines):
                over[task, other] = max(over[task, other], over[earlier, other])
            put_sorted(rows, begin, filled, earlier)
            filled += 1
        over[task, where] = position[task]
        start[task + 1] = filled
    return Needs(start, rows[:filled].copy())


@njit(inner=True)
def _replace(
    low: Quantities,
    high: Quantities,
    owner: Ids,
    pieces: Quantities,
    memory: int,
    start: int,
    stop: int,
    buffer: int,
    earlier: Ids,
) -> int:
    """Give [start, stop) to a buffer in a memory's sorted pieces; `earlier` gets who had it."""
    count = pieces[memory]
    begin = beyond(high, count, start)
    end = begin
    found = 0
    left_start, left_owner = np.int64(0), -1
    right_stop, right_owner = np.int64(0), -1
    while end < count and low[end] < stop:
        if low[end] < start:
            left_start, left_owner = low[end], owner[end]
        if stop < high[end]:
            right_stop, right_owner = high[end], owner[end]
        known = False
        for index in range(found):
            known = known or earlier[index] == owner[end]
        if not known:
            earlier[found] = owner[end]
            found += 1
        end += 1
    shift = 1 + (left_owner >= 0) + (right_owner >= 0) - (end - begin)
    if shift > 0:
        for piece in range(count - 1, end - 1, -1):
            low[piece + shift] = low[piece]
            high[piece + shift] = high[piece]
            owner[piece + shift] = owner[piece]
    elif shift < 0:
        for piece in range(end, count):
            low[piece + shift] = low[piece]
            high[piece + shift] = high[piece]
            owner[piece + shift] = owner[piece]
    pieces[memory] = count + shift
    at = begin
    if left_owner >= 0:
        low[at], high[at], owner[at] = left_start, start, left_owner
        at += 1
    low[at], high[at], owner[at] = start, stop, buffer
    at += 1
    if right_owner >= 0:
        low[at], high[at], owner[at] = stop, right_stop, right_owner
    return found
