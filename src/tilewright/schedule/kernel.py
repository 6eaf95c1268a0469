"""The simulator's event loop, compiled. What it computes is said in `simulate.py`."""

import numpy as np

from tilewright.compiled import njit
from tilewright.schedule.problem import Flags, Ids, Quantities

_NEVER = 2**62


@njit(inner=True)
def push(keys: Quantities, tasks: Ids, base: int, size: int, key: int, task: int) -> None:
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
def pop(keys: Quantities, tasks: Ids, base: int, size: int) -> None:
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


# Pools and the transfers under way in them are two tables, as compiled code passes few arrays
# faster than many. Rows of pools: their units per cycle; the slot of the first transfer, how many
# there are; the moment up to which they moved; when the first of them ends; whether some began or
# ended since. Rows of transfers, by port rate, then program order: the task; the most units per
# cycle; the units left; the share of the pool.
_UNITS, _BASE, _SIZE, _TIME, _DUE, _CHANGED = range(6)
_TASK, _PEAK, _LEFT, _RATE = range(4)


@njit(inner=True)
def pools_of(units: Quantities, base: Quantities) -> tuple[Quantities, Quantities]:
    """Empty pools of so many units per cycle, and room for their transfers from `base` on."""
    pools = np.zeros((6, units.size), np.int64)
    for pool in range(units.size):
        pools[_UNITS, pool] = units[pool]
        pools[_BASE, pool] = base[pool]
        pools[_DUE, pool] = _NEVER
    return pools, np.zeros((4, base[units.size]), np.int64)


@njit(inner=True)
def join_pool(
    pools: Quantities, moving: Quantities, pool: int, task: int, most: int, amount: int, now: int
) -> None:
    """A transfer begins: so many units, no more than `most` of them a cycle."""
    _advance(pools, moving, pool, now)
    base = pools[_BASE, pool]
    slot = base + pools[_SIZE, pool]
    while slot > base and (
        moving[_PEAK, slot - 1] > most
        or (moving[_PEAK, slot - 1] == most and moving[_TASK, slot - 1] > task)
    ):
        for row in range(_RATE):
            moving[row, slot] = moving[row, slot - 1]
        slot -= 1
    moving[_TASK, slot] = task
    moving[_PEAK, slot] = most
    moving[_LEFT, slot] = amount
    pools[_SIZE, pool] += 1


@njit(inner=True)
def next_due(pools: Quantities, moving: Quantities, now: int, upcoming: int) -> int:
    """The next moment at which a transfer ends, if it is before the one that is known. Where
    transfers began or ended, each gets its max-min fair share first."""
    for pool in range(pools.shape[1]):
        if pools[_CHANGED, pool]:
            pools[_CHANGED, pool] = 0
            base, units = pools[_BASE, pool], pools[_UNITS, pool]
            stop = base + pools[_SIZE, pool]
            soonest = _NEVER
            for slot in range(base, stop):
                granted = min(units // (stop - slot), moving[_PEAK, slot])
                units -= granted
                moving[_RATE, slot] = granted
                soonest = min(soonest, (moving[_LEFT, slot] + granted - 1) // granted)
            pools[_DUE, pool] = now + soonest
        upcoming = min(upcoming, pools[_DUE, pool])
    return upcoming


@njit(inner=True)
def leave_pools(pools: Quantities, moving: Quantities, now: int, ended: Ids, count: int) -> int:
    """Transfers that are over now go, and are noted behind the `count` that have ended."""
    for pool in range(pools.shape[1]):
        if pools[_DUE, pool] != now:
            continue
        _advance(pools, moving, pool, now)
        base = pools[_BASE, pool]
        kept = base
        for slot in range(base, base + pools[_SIZE, pool]):
            if moving[_LEFT, slot] <= 0:
                ended[count] = moving[_TASK, slot]
                count += 1
                continue
            for row in range(_RATE):
                moving[row, kept] = moving[row, slot]
            kept += 1
        pools[_SIZE, pool] = kept - base
    return count


@njit(inner=True)
def _advance(pools: Quantities, moving: Quantities, pool: int, now: int) -> None:
    """Let every transfer of a pool move at its rate until now; then rates change."""
    cycles = now - pools[_TIME, pool]
    base = pools[_BASE, pool]
    for slot in range(base, base + pools[_SIZE, pool]):
        moving[_LEFT, slot] -= moving[_RATE, slot] * cycles
    pools[_TIME, pool] = now
    pools[_CHANGED, pool] = 1


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
    shared, moving = pools_of(pool_units, slots)

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
    now = int(np.int64(0))

    while True:
        # One round: what is due has ended; look at those that waited on it, then start.
        for index in range(ended_count):
            task: int = ended[index]
            done[task] = True
            end[task] = now
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
                    push(ready_key, ready, base, ready_count[where], priority[task], task)
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
                    pop(ready_key, ready, base, ready_count[where])
                    ready_count[where] -= 1
                free[where] -= 1
                start[task] = now
                time: int = now + duration[task]
                if transfer[task] > 0 and engine_pool[where] < 0:
                    units = transfer[task] * units_per_byte[where]
                    time += (units + units_per_cycle[where] - 1) // units_per_cycle[where]
                push(event_time, event_task, root, events, time, task)
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
            where = engine[task]
            pool: int = engine_pool[where]
            if transfer[task] == 0 or pool < 0:
                ended[ended_count] = task
                ended_count += 1
                continue
            units = transfer[task] * units_per_byte[where]
            join_pool(shared, moving, pool, task, units_per_cycle[where], units, now)
