# pyright: basic, reportArgumentType=false, reportReturnType=false
# Numba checks the types of compiled functions; what it infers of arrays, pyright cannot.
"""The order tasks are issued in, the links copies take, and what follows from shared addresses."""

from typing import NamedTuple

import numpy as np

from tilewright.compiled import njit
from tilewright.memory.greedy import lowest_offsets
from tilewright.program.columns import COPY, Columns, Copies, Hardware, Needs
from tilewright.program.kernels.link import rows_of
from tilewright.program.kernels.prefetch import Loads
from tilewright.schedule.problem import Ids, Quantities


class Issued(NamedTuple):
    """Tasks on their engines, in the order they are issued: latency or time, and bytes moved over
    bandwidth that is shared; `choice` is the link among those that can carry a copy."""

    engine: Ids
    duration: Quantities
    transfer: Quantities
    choice: Ids


@njit()
def issued_order(tasks: int, loads: Loads, issue: Ids) -> Ids:
    """The numbers of the tasks in the order they are issued: loads before the task at whose
    position they are issued, idle ones at the end."""
    count = loads.rest.size
    start = np.zeros(count + 2, np.int64)
    for place in issue:
        start[place + 1] += 1
    for place in range(count + 1):
        start[place + 1] += start[place]
    rows = np.empty(issue.size, np.int32)
    fill = start.copy()
    for index in range(issue.size):
        rows[fill[issue[index]]] = loads.loads[index]
        fill[issue[index]] += 1
    order = np.empty(tasks, np.int32)
    filled = 0
    for place in range(count):
        for entry in range(start[place], start[place + 1]):
            order[filled] = rows[entry]
            filled += 1
        order[filled] = loads.rest[place]
        filled += 1
    for task in loads.idle:
        order[filled] = task
        filled += 1
    return order


@njit()
def own_places(tasks: int, loads: Loads) -> Ids:
    """The positions at which loads stand in the program: where nothing is issued ahead."""
    place = np.zeros(tasks, np.int32)
    rank = 0
    for task in range(tasks):
        place[task] = rank
        if rank < loads.rest.size and loads.rest[rank] == task:
            rank += 1
    return place[loads.loads]


@njit()
def permuted(columns: Columns, order: Ids) -> Columns:
    """The same tasks in another order."""
    start = np.zeros(order.size + 1, np.int64)
    for new in range(order.size):
        start[new + 1] = (
            start[new] + columns.access_start[order[new] + 1] - columns.access_start[order[new]]
        )
    rows = np.empty(columns.buffer.size, np.int64)
    for new in range(order.size):
        for entry in range(start[new + 1] - start[new]):
            rows[start[new] + entry] = columns.access_start[order[new]] + entry
    return Columns(
        columns.kind[order],
        columns.engine[order],
        columns.source[order],
        columns.target[order],
        columns.cycles[order],
        columns.moved[order],
        columns.copy[order],
        columns.choice[order],
        columns.tile[order],
        columns.group[order],
        columns.energy[order],
        start,
        columns.buffer[rows],
        columns.offset[rows],
        columns.look[rows],
        columns.write[rows],
        columns.memory,
        columns.size,
        columns.alignment,
        columns.fixed,
    )


@njit()
def renumbered(order: Ids, needs: Needs) -> tuple[Needs, bool]:
    """What tasks wait for, in another order; False where one then comes before what it waits
    for."""
    tasks = order.size
    place = np.empty(tasks, np.int32)
    for new in range(tasks):
        place[order[new]] = new
    start = np.zeros(tasks + 1, np.int64)
    rows = np.empty(needs.needs.size, np.int32)
    filled = 0
    valid = True
    for new in range(tasks):
        begin = filled
        for entry in range(needs.start[order[new]], needs.start[order[new] + 1]):
            earlier = place[needs.needs[entry]]
            hole = filled
            while hole > begin and rows[hole - 1] > earlier:
                rows[hole] = rows[hole - 1]
                hole -= 1
            rows[hole] = earlier
            filled += 1
        valid = valid and (filled == begin or rows[filled - 1] < new)
        start[new + 1] = filled
    return Needs(start, rows), valid


@njit()
def deal_copies(
    columns: Columns, copies: Copies, hardware: Hardware, order: Ids, needs: Needs, deal: bool
) -> Issued:
    """Give each copy to the link that is free first; large loads leave one link to all others,
    because they wait in line for room and bandwidth, and what computed data waits for does not
    stand behind them. Loads of data that was just stored are waited for too. What
    passes from core to core takes any link that is still busy when it is ready. Links that carry no
    loads from the main memory are for all. Unless copies are dealt, each stays on the link it
    has."""
    tasks = order.size
    ends = np.zeros(tasks, np.float64)
    free = np.zeros(hardware.core_of.size, np.float64)
    engine = np.empty(tasks, np.int32)
    duration = np.empty(tasks, np.int64)
    transfer = np.empty(tasks, np.int64)
    chosen = np.zeros(tasks, np.int32)
    clock = 0.0  # a copy reuses bytes of what ran before it: it does not begin long before
    loading = np.zeros(hardware.core_of.size, np.bool_)
    for task in range(tasks):
        if columns.kind[task] == COPY and columns.source[task] == hardware.main:
            for way in range(copies.link.shape[1]):
                if copies.link[columns.copy[task], way] >= 0:
                    loading[copies.link[columns.copy[task], way]] = True
    for new in range(tasks):
        task = order[new]
        ready = 0.0
        for entry in range(needs.start[new], needs.start[new + 1]):
            ready = max(ready, ends[needs.needs[entry]])
        if columns.kind[task] != COPY:
            where = columns.engine[task]
            begin = max(ready, free[where])
            clock = max(clock, begin)
            ends[new] = begin + columns.cycles[task]
            free[where] = ends[new]
            engine[new] = where
            duration[new], transfer[new] = columns.cycles[task], columns.moved[task]
            continue
        copy = columns.copy[task]
        ways = 0
        while ways < copies.link.shape[1] and copies.link[copy, ways] >= 0:
            ways += 1
        low, high = 0, ways
        if not deal:
            low, high = columns.choice[task], columns.choice[task] + 1
        elif ways > 1 and loading[copies.link[copy, ways - 1]]:
            load = columns.source[task] == hardware.main
            fresh = needs.start[new + 1] > needs.start[new] and ready >= clock
            urgent = max(1, ways // 4)
            if not load:
                low = ways - urgent
            elif not fresh and not copies.small[copy]:
                high = ways - urgent
        best, until = -1, 0.0
        source, target = columns.source[task], columns.target[task]
        passed = hardware.home[source] >= 0 and hardware.home[target] >= 0
        for way in range(0 if deal and passed else low, high):
            if way < low and free[copies.link[copy, way]] < max(ready, clock):
                continue  # what waits for data holds up the loads behind it
            begin = max(ready, clock, free[copies.link[copy, way]])
            end = begin + copies.alone[copy, way]
            if best < 0 or end < until:
                best, until = way, end
        ends[new] = until
        free[copies.link[copy, best]] = until
        engine[new] = copies.link[copy, best]
        chosen[new] = best
        duration[new], transfer[new] = copies.cycles[copy, best], copies.moved[copy, best]
        if copies.unshared[copy, best] >= 0:
            duration[new] += copies.unshared[copy, best]
            transfer[new] = 0
    return Issued(engine, duration, transfer, chosen)


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
    chosen = others[:count].copy()
    base = address[chosen[0]]
    first = np.empty(count, np.int64)
    last = np.empty(count, np.int64)
    for index in range(count):
        first[index] = users.users[users.start[chosen[index]]]
        last[index] = users.users[users.start[chosen[index] + 1] - 1] + 1
    size, alignment = columns.size[chosen], columns.alignment[chosen]
    nothing, zeros = np.empty(0, np.int64), np.zeros(count, np.int64)
    target = hardware.usable[hardware.main] - base
    offsets = lowest_offsets(first, last, size, alignment, nothing, zeros, tasks, target, 0)
    top = base
    for index in range(count):
        address[chosen[index]] = base + offsets[index]
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
    first, second, count, sound = _waits(columns, hardware, engine, users, address)
    waits = rows_of(tasks, first, second, count)
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
            over[task] = over[before]
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


@njit()
def _waits(
    columns: Columns, hardware: Hardware, engine: Ids, users: Users, address: Quantities
) -> tuple[Ids, Ids, int, bool]:
    """Pairs of tasks to order: the last user on every engine of a buffer, and the first on every
    engine of the one that takes (some of) its bytes next."""
    buffers, memories, engines = columns.memory.size, hardware.home.size, hardware.core_of.size
    born = np.full(buffers, 2**40, np.int64)
    inside = np.zeros(memories + 1, np.int64)
    for buffer in range(buffers):
        if users.start[buffer + 1] > users.start[buffer] and columns.size[buffer] > 0:
            born[buffer] = users.users[users.start[buffer]]
            inside[columns.memory[buffer] + 1] += 2
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
    for buffer in np.argsort(born, kind="mergesort"):
        if born[buffer] >= 2**40:
            break
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
        firsts[:] = -1
        for entry in range(users.start[buffer], users.start[buffer + 1]):
            task = users.users[entry]
            if firsts[engine[task]] < 0:
                firsts[engine[task]] = task
        if count + found * engines * engines > first.size:
            first = _longer(first, 2 * (count + found * engines * engines))
            second = _longer(second, 2 * (count + found * engines * engines))
        for index in range(found):
            other = earlier[index]
            sound = sound and users.users[users.start[other + 1] - 1] < born[buffer]
            lasts[:] = -1
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


@njit()
def _longer(array: Ids, size: int) -> Ids:
    larger = np.empty(size, np.int32)
    larger[: array.size] = array
    return larger


@njit()
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
