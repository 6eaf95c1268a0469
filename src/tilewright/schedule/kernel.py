"""The simulator's event loop, compiled. What it computes is said in `simulate.py`."""

import numpy as np

from tilewright.compiled import njit
from tilewright.schedule.problem import Flags, Ids, Quantities

_NEVER = 2**62


@njit(inner=True)
def _push(keys: Quantities, tasks: Ids, base: int, size: int, key: int, task: int) -> None:
    """Add to a heap that starts at `base`: smallest key first, then program order."""
    hole = size
    while hole > 0:
        parent = (hole - 1) >> 1
        other = keys[base + parent]
        if other < key or (other == key and tasks[base + parent] < task):
            break
        keys[base + hole] = other
        tasks[base + hole] = tasks[base + parent]
        hole = parent
    keys[base + hole] = key
    tasks[base + hole] = task


@njit(inner=True)
def _pop(keys: Quantities, tasks: Ids, base: int, size: int) -> None:
    """Remove the first entry of a heap of `size`."""
    last = base + size - 1
    key = keys[last]
    task = tasks[last]
    hole = base
    while True:
        child = 2 * hole - base + 1
        if child >= last:
            break
        if child + 1 < last and (
            keys[child + 1] < keys[child]
            or (keys[child + 1] == keys[child] and tasks[child + 1] < tasks[child])
        ):
            child += 1
        if key < keys[child] or (key == keys[child] and task < tasks[child]):
            break
        keys[hole] = keys[child]
        tasks[hole] = tasks[child]
        hole = child
    keys[hole] = key
    tasks[hole] = task


@njit(inner=True)
def _join_pool(
    active: Ids, peak: Quantities, left: Quantities, base: int, size: int, task: int, most: int
) -> int:
    """Make room for a transfer, by port rate, then program order; the slot it takes."""
    slot = base + size
    while slot > base and (
        peak[slot - 1] > most or (peak[slot - 1] == most and active[slot - 1] > task)
    ):
        active[slot] = active[slot - 1]
        peak[slot] = peak[slot - 1]
        left[slot] = left[slot - 1]
        slot -= 1
    active[slot] = task
    peak[slot] = most
    return slot


@njit(inner=True)
def _divide_pool(
    left: Quantities, rate: Quantities, peak: Quantities, base: int, size: int, units: int
) -> int:
    """Give every active transfer its max-min fair rate; in how many cycles the first one ends."""
    soonest = _NEVER
    for index in range(size):
        share = units // (size - index)
        granted = min(share, peak[base + index])
        units -= granted
        rate[base + index] = granted
        soonest = min(soonest, (left[base + index] + granted - 1) // granted)
    return soonest


@njit(inner=True)
def _advance_pool(left: Quantities, rate: Quantities, base: int, size: int, cycles: int) -> None:
    """Let every active transfer move at its rate for so many cycles."""
    for slot in range(base, base + size):
        left[slot] -= rate[slot] * cycles


@njit(inner=True)
def _touch(touched: Ids, is_touched: Flags, count: int, where: int) -> int:
    """Note that an engine may have something to start; how many are noted now."""
    if is_touched[where]:
        return count
    is_touched[where] = True
    touched[count] = where
    return count + 1


@njit()
def run(
    engine: Ids,
    duration: Quantities,
    transfer: Quantities,
    priority: Quantities,
    need_start: Quantities,
    needs: Ids,
    in_order: Flags,
    servers: Quantities,
    engine_pool: Quantities,
    units_per_byte: Quantities,
    units_per_cycle: Quantities,
    pool_units: Quantities,
    start: Quantities,
    end: Quantities,
) -> None:
    """The event loop; fills start and end.

    A task waits on one unfinished dependency at a time, the latest in program order first, and is
    looked at again when that one ends. Of an in-order engine only the head of its queue waits.
    """
    tasks, engines, pools = engine.size, in_order.size, pool_units.size
    head = np.full(engines, -1, dtype=np.int32)  # in order: the next task to start
    behind = np.empty(tasks, dtype=np.int32)  # in order: the task after this one in its queue
    ready_base = np.zeros(engines + 1, dtype=np.int64)
    for task in range(tasks - 1, -1, -1):
        where: int = engine[task]
        if in_order[where]:
            behind[task] = head[where]
            head[where] = task
        else:
            ready_base[where + 1] += 1
    for index in range(engines):
        ready_base[index + 1] += ready_base[index]
    ready = np.empty(ready_base[engines], dtype=np.int32)  # out of order: heaps of ready tasks
    ready_key = np.empty(ready_base[engines], dtype=np.int64)
    ready_count = np.zeros(engines, dtype=np.int64)  # in order: 1 when the head may start
    free = servers.copy()

    done = np.zeros(tasks, dtype=np.bool_)
    cursor = need_start[1:].copy()
    waiter = np.full(tasks, -1, dtype=np.int32)  # the first of those waiting on a task
    next_waiter = np.empty(tasks, dtype=np.int32)

    slots = np.zeros(pools + 1, dtype=np.int64)
    room = 0
    for index in range(engines):
        usable = min(servers[index], tasks)
        room += usable
        if engine_pool[index] >= 0:
            slots[engine_pool[index] + 1] += usable
    for index in range(pools):
        slots[index + 1] += slots[index]
    event_time = np.empty(room, dtype=np.int64)
    event_task = np.empty(room, dtype=np.int32)
    root = int(np.int64(0))  # where the heap of events begins: no literal, one signature
    events = root
    active = np.empty(slots[pools], dtype=np.int32)
    peak = np.empty(slots[pools], dtype=np.int64)
    left = np.empty(slots[pools], dtype=np.int64)
    rate = np.empty(slots[pools], dtype=np.int64)
    pool_count = np.zeros(pools, dtype=np.int64)
    pool_time = np.zeros(pools, dtype=np.int64)
    pool_due = np.full(pools, _NEVER, dtype=np.int64)
    pool_changed = np.zeros(pools, dtype=np.bool_)

    ended = np.empty(room, dtype=np.int32)  # the tasks that end in this round
    ended_count = 0
    touched = np.empty(engines, dtype=np.int32)  # the engines that may start something
    touched_count = root
    is_touched = np.zeros(engines, dtype=np.bool_)
    # `check` holds tasks whose dependencies are to be looked at: first all that may ever wait.
    check = np.empty(tasks + engines, dtype=np.int32)
    check_count = 0
    for task in range(tasks):
        if not in_order[engine[task]] or head[engine[task]] == task:
            check[check_count] = task
            check_count += 1
    remaining = tasks
    now = np.int64(0)

    while True:
        # One round: what is due has ended; look at those that waited on it, then start.
        for index in range(ended_count):
            task: int = ended[index]
            done[task] = True
            where = engine[task]
            free[where] += 1
            touched_count = _touch(touched, is_touched, touched_count, where)
            waiting = waiter[task]
            while waiting >= 0:
                check[check_count] = waiting
                check_count += 1
                waiting = next_waiter[waiting]
        remaining -= ended_count
        ended_count = 0
        if remaining == 0:
            return

        while check_count > 0 or touched_count > 0:
            while check_count > 0:
                check_count -= 1
                task = check[check_count]
                first = need_start[task]
                entry = cursor[task] - 1
                while entry >= first and done[needs[entry]]:
                    entry -= 1
                cursor[task] = entry + 1
                if entry >= first:
                    next_waiter[task] = waiter[needs[entry]]
                    waiter[needs[entry]] = task
                    continue
                where = engine[task]
                if in_order[where]:
                    ready_count[where] = 1
                else:
                    base: int = ready_base[where]
                    _push(ready_key, ready, base, ready_count[where], priority[task], task)
                    ready_count[where] += 1
                touched_count = _touch(touched, is_touched, touched_count, where)

            while touched_count > 0 and check_count == 0:
                where = touched[touched_count - 1]
                if free[where] == 0 or ready_count[where] == 0:
                    touched_count -= 1
                    is_touched[where] = False
                    continue
                if in_order[where]:
                    task = head[where]
                    head[where] = behind[task]
                    ready_count[where] = 0
                    if behind[task] >= 0:
                        check[check_count] = behind[task]
                        check_count += 1
                else:
                    base = ready_base[where]
                    task = ready[base]
                    _pop(ready_key, ready, base, ready_count[where])
                    ready_count[where] -= 1
                free[where] -= 1
                start[task] = now
                time: int = now + duration[task]
                if transfer[task] > 0 and engine_pool[where] < 0:
                    units = transfer[task] * units_per_byte[where]
                    time += (units + units_per_cycle[where] - 1) // units_per_cycle[where]
                _push(event_time, event_task, root, events, time, task)
                events += 1

        # Nothing more in this moment: divide the pools that changed, then go to the next one.
        if events == 0 or event_time[0] > now:
            upcoming = event_time[0] if events > 0 else _NEVER
            for pool in range(pools):
                if pool_changed[pool]:
                    pool_changed[pool] = False
                    pool_due[pool] = now + _divide_pool(
                        left, rate, peak, slots[pool], pool_count[pool], pool_units[pool]
                    )
                upcoming = min(upcoming, pool_due[pool])
            now = upcoming
            for pool in range(pools):
                if pool_due[pool] != now:
                    continue
                base = slots[pool]
                _advance_pool(left, rate, base, pool_count[pool], now - pool_time[pool])
                pool_time[pool] = now
                pool_changed[pool] = True
                kept = base
                for slot in range(base, base + pool_count[pool]):
                    if left[slot] <= 0:
                        end[active[slot]] = now
                        ended[ended_count] = active[slot]
                        ended_count += 1
                        continue
                    active[kept] = active[slot]
                    peak[kept] = peak[slot]
                    left[kept] = left[slot]
                    kept += 1
                pool_count[pool] = kept - base

        while events > 0 and event_time[0] == now:
            task = event_task[0]
            _pop(event_time, event_task, root, events)
            events -= 1
            where = engine[task]
            pool: int = engine_pool[where]
            if transfer[task] == 0 or pool < 0:
                end[task] = now
                ended[ended_count] = task
                ended_count += 1
                continue
            base = slots[pool]
            count: int = pool_count[pool]
            _advance_pool(left, rate, base, count, now - pool_time[pool])
            pool_time[pool] = now
            pool_changed[pool] = True
            slot = _join_pool(active, peak, left, base, count, task, units_per_cycle[where])
            left[slot] = transfer[task] * units_per_byte[where]
            pool_count[pool] = count + 1
