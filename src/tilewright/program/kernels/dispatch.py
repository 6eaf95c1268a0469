# pyright: basic, reportArgumentType=false, reportReturnType=false
# Numba checks the types of compiled functions; what it infers of arrays, pyright cannot.
"""Copies in the order of their urgency: the order tasks start in, and the links that copies take.

Addresses are settled by then, and so is who waits for whose bytes. Whatever order respects that is
sound, so this one is found as time passes: whenever a link is free it takes the copy that most of
the run waits for. Engines of cores keep the order they have.
"""

from typing import NamedTuple

import numpy as np

from tilewright.compiled import njit
from tilewright.program.columns import COPY, Columns, Copies, Hardware, Needs
from tilewright.program.kernels.link import rows_of
from tilewright.program.kernels.prefetch import alone_cycles
from tilewright.schedule.kernel import join_pool, leave_pools, next_due, pools_of, pop, push
from tilewright.schedule.problem import Ids, Quantities

_NEVER = 2**62


class Rates(NamedTuple):
    """What engines move, and the bandwidth they share (-1: none), as the simulator counts it."""

    pool: Quantities
    units_per_byte: Quantities
    units_per_cycle: Quantities
    pool_units_per_cycle: Quantities


class Line(NamedTuple):
    """Tasks in an order that they may run in. Those of a core's engine keep it (`lane` is -1); the
    others wait in lanes for a link, `most[lane]` of them at once: copies (`copy` is their interned
    number, or -1) for any of the first `ways` that can carry them. `cycles` are those alone."""

    engine: Ids
    copy: Ids
    ways: Ids
    lane: Ids
    cycles: Quantities
    moved: Quantities
    most: Quantities


class Dispatch(NamedTuple):
    """The tasks in the order they start, the way that each copy takes, when each task ends, and
    when the last does."""

    sequence: Ids
    choice: Ids
    end: Quantities
    makespan: int


@njit()
def by_urgency(
    columns: Columns,
    copies: Copies,
    hardware: Hardware,
    rates: Rates,
    order: Ids,
    needs: Needs,
    waits: Needs,
) -> Dispatch:
    """Dispatch by what follows each task at the least; then backwards in time, what ended last
    first, which tells how late each can be where links are busy; then by that. The better of both.
    `waits` are those for data and for bytes."""
    line = _line_of(columns, copies, hardware, order, needs)
    urgency = _tails(line, hardware, waits)
    mirrored, backwards = _mirrored(line), _backwards(waits)
    best = Dispatch(order, order, urgency, _NEVER)
    for turn in range(3):  # one call: three would be compiled three times
        found = _dispatched(line, copies, rates, hardware.core_of, waits, urgency)
        if turn != 1 and found.makespan < best.makespan:
            best = found
        urgency = _reversed(found.end)
        line, mirrored = mirrored, line
        waits, backwards = backwards, waits
    return best


@njit(inner=True)
def _line_of(
    columns: Columns, copies: Copies, hardware: Hardware, order: Ids, needs: Needs
) -> Line:
    """Loads that are more than their latency, and that nothing computed goes into, are patient: no
    more of them run at once than fill the main memory's bandwidth. More would only take it from
    each other, and the links from all other copies."""
    tasks, engines, wide = order.size, hardware.core_of.size, copies.link.shape[1]
    engine = np.empty(tasks, np.int32)
    copy_of = np.full(tasks, -1, np.int32)
    ways = np.ones(tasks, np.int32)
    lane = np.full(tasks, -1, np.int32)
    cycles = np.empty(tasks, np.int64)
    moved = np.empty(tasks, np.int64)
    number = np.full(2 * engines * (wide + 1), -1, np.int32)
    most = np.empty(number.size, np.int64)
    lanes = 0
    for new in range(tasks):
        task = order[new]
        engine[new], moved[new] = columns.engine[task], columns.moved[task]
        cycles[new] = columns.cycles[task]
        link, together, patient = engine[new], 1, 0
        if columns.kind[task] == COPY:
            copy = columns.copy[task]
            copy_of[new] = copy
            cycles[new] = int(alone_cycles(columns, copies, task))
            link, count = copies.link[copy, 0], 0
            while count < wide and copies.link[copy, count] >= 0:
                count += 1
            ways[new] = together = count
            load = columns.source[task] == hardware.main and not copies.small[copy]
            if load and needs.start[new + 1] == needs.start[new]:
                patient = 1
                together = min(count, hardware.filling)
        elif hardware.core_of[link] >= 0:
            continue
        key = 2 * (link * (wide + 1) + ways[new]) + patient
        if number[key] < 0:
            number[key] = lanes
            most[lanes] = together
            lanes += 1
        lane[new] = number[key]
    return Line(engine, copy_of, ways, lane, cycles, moved, most[:lanes].copy())


@njit(inner=True)
def _tails(line: Line, hardware: Hardware, waits: Needs) -> Quantities:
    """For every task, the cycles from its start to the end of all that waits for it: for its data
    or bytes, or behind it for a core's engine."""
    tail = np.zeros(line.engine.size, np.int64)
    queue = np.zeros(hardware.core_of.size, np.int64)
    for task in range(tail.size - 1, -1, -1):
        where = line.engine[task]
        if line.lane[task] < 0:
            tail[task] = max(tail[task], queue[where])
        tail[task] += line.cycles[task]
        if line.lane[task] < 0:
            queue[where] = tail[task]
        for entry in range(waits.start[task], waits.start[task + 1]):
            earlier = waits.needs[entry]
            tail[earlier] = max(tail[earlier], tail[task])
    return tail


@njit(inner=True)
def _mirrored(line: Line) -> Line:
    """The last task first."""
    tasks = line.engine.size
    engine = np.empty(tasks, np.int32)
    copy = np.empty(tasks, np.int32)
    ways = np.empty(tasks, np.int32)
    lane = np.empty(tasks, np.int32)
    for new in range(tasks):
        old = tasks - 1 - new
        engine[new], copy[new] = line.engine[old], line.copy[old]
        ways[new], lane[new] = line.ways[old], line.lane[old]
    return Line(engine, copy, ways, lane, _reversed(line.cycles), _reversed(line.moved), line.most)


@njit(inner=True)
def _reversed(numbers: Quantities) -> Quantities:
    """The last number first."""
    mirrored = np.empty(numbers.size, np.int64)
    for place in range(numbers.size):
        mirrored[place] = numbers[numbers.size - 1 - place]
    return mirrored


@njit(inner=True)
def _backwards(waits: Needs) -> Needs:
    """Who waits for whom where time runs backwards, and the last task is the first."""
    tasks = waits.start.size - 1
    first = np.empty(waits.needs.size, np.int32)
    second = np.empty(waits.needs.size, np.int32)
    count = 0
    for task in range(tasks - 1, -1, -1):  # the last first: rows are filled in their order
        for entry in range(waits.start[task], waits.start[task + 1]):
            first[count] = tasks - 1 - task
            second[count] = tasks - 1 - waits.needs[entry]
            count += 1
    return rows_of(tasks, first, second, first.size)


@njit(inner=True)
def _dispatched(
    line: Line, copies: Copies, rates: Rates, core_of: Ids, waits: Needs, urgency: Quantities
) -> Dispatch:
    """The event loop of the simulator, for tasks whose links are not chosen yet."""
    tasks, engines, pools = line.engine.size, rates.pool.size, rates.pool_units_per_cycle.size
    engine, copy_of, lane_of = line.engine, line.copy, line.lane
    ways, most, link, alone = line.ways, line.most, copies.link, copies.alone
    wait_start, needs, port = waits.start, waits.needs, rates.units_per_cycle
    head = np.full(engines, -1, np.int32)  # of a core's engine: the next task to start
    behind = np.full(tasks, -1, np.int32)
    for task in range(tasks - 1, -1, -1):
        if lane_of[task] < 0:
            behind[task] = head[engine[task]]
            head[engine[task]] = task
    idle_links = 0
    for where in range(engines):
        idle_links += core_of[where] < 0
    lanes = most.size  # heaps of tasks that wait for a link, the most urgent first
    base = np.zeros(lanes + 1, np.int64)
    for lane in lane_of:
        if lane >= 0:
            base[lane + 1] += 1
    for lane in range(lanes):
        base[lane + 1] += base[lane]
    key = np.empty(base[lanes], np.int64)
    queued = np.empty(base[lanes], np.int32)
    waiting = np.zeros(lanes, np.int64)
    running = np.zeros(lanes, np.int64)
    since = np.zeros(engines, np.int64)  # when an engine became free; -1: it is not
    able = np.zeros(engines, np.bool_)
    startable = 0  # engines that are free and able
    done = np.zeros(tasks, np.bool_)
    cursor = wait_start[1:].copy()
    waiter = np.full(tasks, -1, np.int32)  # the first of those waiting on a task
    next_waiter = np.empty(tasks, np.int32)
    event_time = np.empty(engines, np.int64)
    event_task = np.empty(engines, np.int32)
    root = int(np.int64(0))  # where the heap of events begins: no literal, one signature
    events = root
    shared, moving = pools_of(rates.pool_units_per_cycle, np.arange(pools + 1) * engines)
    on = line.engine.copy()
    moved, lasting = line.moved.copy(), line.cycles.copy()
    choice = np.zeros(tasks, np.int32)
    sequence = np.empty(tasks, np.int32)
    end = np.zeros(tasks, np.int64)
    started, over = 0, 0
    ended = np.empty(engines, np.int32)
    ended_count = 0
    check = np.empty(tasks + engines, np.int32)
    check_count = 0
    for task in range(tasks):
        if lane_of[task] >= 0 or head[engine[task]] == task:
            check[check_count] = task
            check_count += 1
    now = int(np.int64(0))
    while True:
        for index in range(ended_count):
            task = ended[index]
            done[task] = True
            end[task] = now
            since[on[task]] = now
            if lane_of[task] >= 0:
                running[lane_of[task]] -= 1
                idle_links += 1
            elif able[on[task]]:
                startable += 1
            follower = waiter[task]
            while follower >= 0:
                check[check_count] = follower
                check_count += 1
                follower = next_waiter[follower]
        over += ended_count
        ended_count = 0
        if over == tasks:
            return Dispatch(sequence, choice, end, now)

        while True:
            while check_count > 0:
                check_count -= 1
                task = check[check_count]
                entry = cursor[task] - 1
                while entry >= wait_start[task] and done[needs[entry]]:
                    entry -= 1
                cursor[task] = entry + 1
                lane = lane_of[task]
                if entry >= wait_start[task]:
                    next_waiter[task] = waiter[needs[entry]]
                    waiter[needs[entry]] = task
                elif lane < 0:
                    able[engine[task]] = True
                    startable += since[engine[task]] >= 0
                else:
                    push(key, queued, base[lane], waiting[lane], -urgency[task], task)
                    waiting[lane] += 1
            task = -1
            for where in range(engines if startable > 0 else 0):
                if able[where] and since[where] >= 0:
                    startable -= 1
                    task = head[where]
                    able[where] = False
                    head[where] = behind[task]
                    if behind[task] >= 0:
                        check[check_count] = behind[task]
                        check_count += 1
                    break
            if task < 0:
                best, best_way, lane = -1, -1, -1
                for other in range(lanes if idle_links > 0 else 0):
                    if waiting[other] == 0 or running[other] >= most[other]:
                        continue
                    first = base[other]
                    task, copy = queued[first], copy_of[queued[first]]
                    if best >= 0 and key[first] > key[base[lane]]:
                        continue
                    if best >= 0 and key[first] == key[base[lane]] and task > best:
                        continue
                    way, soonest, latest = -1, 0.0, now
                    if copy < 0:
                        way = 0 if since[engine[task]] >= 0 else -1
                    for one in range(ways[task] if copy >= 0 else 0):
                        idle = since[link[copy, one]]
                        if idle < 0:
                            continue
                        taken = alone[copy, one]  # the quickest, behind what ended last
                        if way < 0 or taken < soonest or (taken == soonest and idle > latest):
                            way, soonest, latest = one, taken, idle
                    if way >= 0:
                        best, best_way, lane = task, way, other
                if best < 0:
                    break
                task, way = best, best_way
                pop(key, queued, base[lane], waiting[lane])
                waiting[lane] -= 1
                running[lane] += 1
                idle_links -= 1
                copy = copy_of[task]
                if copy >= 0:
                    choice[task] = way
                    on[task] = link[copy, way]
                    lasting[task] = copies.cycles[copy, way]
                    moved[task] = copies.moved[copy, way]
                    if copies.unshared[copy, way] >= 0:
                        lasting[task] += copies.unshared[copy, way]
                        moved[task] = 0
            where = on[task]
            since[where] = -1
            if moved[task] > 0 and rates.pool[where] < 0:
                units = moved[task] * rates.units_per_byte[where]
                lasting[task] += (units + port[where] - 1) // port[where]
            sequence[started] = task
            started += 1
            push(event_time, event_task, root, events, now + lasting[task], task)
            events += 1

        # Nothing more in this moment: divide the pools that changed, then go to the next one.
        if events == 0 or event_time[0] > now:
            upcoming = event_time[0] if events > 0 else _NEVER
            now = next_due(shared, moving, now, upcoming)
            ended_count = leave_pools(shared, moving, now, ended, ended_count)

        while events > 0 and event_time[0] == now:
            task = event_task[0]
            pop(event_time, event_task, root, events)
            events -= 1
            where = on[task]
            pool = rates.pool[where]
            if moved[task] == 0 or pool < 0:
                ended[ended_count] = task
                ended_count += 1
                continue
            units = moved[task] * rates.units_per_byte[where]
            join_pool(shared, moving, pool, task, port[where], units, now)
