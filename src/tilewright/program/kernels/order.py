# pyright: basic, reportArgumentType=false, reportReturnType=false
# Numba checks the types of compiled functions; what it infers of arrays, pyright cannot.
"""The order tasks are issued in, and the links that copies take."""

from typing import NamedTuple

import numpy as np

from tilewright.compiled import njit
from tilewright.program.columns import COPY, Columns, Copies, Hardware, Needs
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
    """Give each copy to the link that is free first; large loads leave one link to all others where
    the rest fill the bandwidth of the main memory, because they wait in line for room and
    bandwidth, and what computed data waits for does not stand behind them. Loads of data that was
    just stored are waited for too. What passes from core to core takes any link that is still busy
    when it is ready. Links that carry no loads from the main memory are for all. Unless copies are
    dealt, each stays on the link it has."""
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
                high = max(ways - urgent, min(ways, hardware.filling))
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
