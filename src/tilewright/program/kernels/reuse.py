# pyright: basic, reportArgumentType=false, reportReturnType=false
# Numba checks the types of compiled functions; what it infers of arrays, pyright cannot.
"""Who uses a buffer, the addresses of the main memory, and what waits for bytes to be free."""

from typing import NamedTuple

import numpy as np

from tilewright.compiled import njit
from tilewright.memory.greedy import lowest_offsets
from tilewright.program.columns import Columns, Hardware, Needs
from tilewright.program.kernels.link import longer, rows_of
from tilewright.schedule.problem import Ids, Quantities


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
        latest = np.empty(buffers, np.int32)
        for buffer in range(buffers):
            latest[buffer] = -1
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
    offsets = lowest_offsets(first, last, size, alignment, nothing, zeros, tasks, target, 0)
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
def with_reuse(
    columns: Columns,
    hardware: Hardware,
    engine: Ids,
    needs: Needs,
    users: Users,
    address: Quantities,
) -> tuple[Needs, bool]:
    """What tasks wait for, with edges that keep a buffer's bytes from being overwritten before its
    last users are done; False where buffers that share bytes are live together.

    Engines run their tasks in order, so that a task knows, of every engine, how many tasks are over
    when it starts: no edge is added that follows from others.
    """
    tasks, engines = engine.size, hardware.core_of.size
    first, second, count, sound = _waits(
        columns.memory, columns.size, hardware.home.size, engines, engine, users, address
    )
    waits = rows_of(tasks, first, second, count)
    position = np.empty(tasks, np.int32)
    last_of = np.empty(engines, np.int32)
    for where in range(engines):
        last_of[where] = -1
    over = np.empty((tasks, engines), np.int32)
    start = np.zeros(tasks + 1, np.int64)
    rows = np.empty(needs.needs.size + waits.needs.size, np.int32)
    filled = 0
    for task in range(tasks):
        where = engine[task]
        before = last_of[where]
        position[task] = 0 if before < 0 else position[before] + 1
        last_of[where] = task
        for other in range(engines):
            over[task, other] = over[before, other] if before >= 0 else -1
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
            hole = filled
            while hole > begin and rows[hole - 1] > earlier:
                rows[hole] = rows[hole - 1]
                hole -= 1
            rows[hole] = earlier
            filled += 1
        over[task, where] = position[task]
        start[task + 1] = filled
    return Needs(start, rows[:filled].copy()), sound


@njit(inner=True)
def _waits(
    home: Quantities,
    size: Quantities,
    memories: int,
    engines: int,
    engine: Ids,
    users: Users,
    address: Quantities,
) -> tuple[Ids, Ids, int, bool]:
    """Pairs of tasks to order: the last user on every engine of a buffer, and the first on every
    engine of the one that takes (some of) its bytes next. `home` is the memory of each buffer."""
    buffers, tasks = home.size, engine.size
    inside = np.zeros(memories + 1, np.int64)
    born = np.zeros(tasks + 1, np.int64)  # buffers by their first user, those of a task in order
    for buffer in range(buffers):
        if users.start[buffer + 1] > users.start[buffer] and size[buffer] > 0:
            born[users.users[users.start[buffer]] + 1] += 1
            inside[home[buffer] + 1] += 2
    for task in range(tasks):
        born[task + 1] += born[task]
    arrivals = np.empty(born[tasks], np.int64)
    for buffer in range(buffers):
        if users.start[buffer + 1] > users.start[buffer] and size[buffer] > 0:
            task = users.users[users.start[buffer]]
            arrivals[born[task]] = buffer
            born[task] += 1
    for memory in range(memories):
        inside[memory + 1] += inside[memory] + 4
    low = np.empty(inside[memories], np.int64)
    high = np.empty(inside[memories], np.int64)
    owner = np.empty(inside[memories], np.int32)
    pieces = np.zeros(memories, np.int64)
    first = np.empty(4 * buffers + 64, np.int32)
    second = np.empty(4 * buffers + 64, np.int32)
    firsts = np.empty(engines, np.int32)
    lasts = np.empty(engines, np.int32)
    earlier = np.empty(buffers, np.int32)
    count = 0
    sound = True
    for buffer in arrivals:
        memory = home[buffer]
        base = inside[memory]
        found = _replace(
            low[base : inside[memory + 1]],
            high[base : inside[memory + 1]],
            owner[base : inside[memory + 1]],
            pieces,
            memory,
            address[buffer],
            address[buffer] + size[buffer],
            buffer,
            earlier,
        )
        if found == 0:
            continue
        for one in range(engines):
            firsts[one] = -1
        for entry in range(users.start[buffer], users.start[buffer + 1]):
            task = users.users[entry]
            if firsts[engine[task]] < 0:
                firsts[engine[task]] = task
        if count + found * engines * engines > first.size:
            first = longer(first, 2 * (count + found * engines * engines))
            second = longer(second, 2 * (count + found * engines * engines))
        for index in range(found):
            other = earlier[index]
            begins = users.users[users.start[buffer]]
            sound = sound and users.users[users.start[other + 1] - 1] < begins
            for one in range(engines):
                lasts[one] = -1
            for entry in range(users.start[other], users.start[other + 1]):
                lasts[engine[users.users[entry]]] = users.users[entry]
            for one in range(engines):
                if lasts[one] < 0:
                    continue
                for two in range(engines):
                    if firsts[two] >= 0 and one != two:
                        first[count] = lasts[one]
                        second[count] = firsts[two]
                        count += 1
    return first, second, count, sound


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
    begin, end = 0, count
    while begin < end:
        middle = (begin + end) // 2
        if high[middle] <= start:
            begin = middle + 1
        else:
            end = middle
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
