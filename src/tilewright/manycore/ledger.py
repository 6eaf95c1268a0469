"""What the evaluator keeps: gaps of carriers, free bytes of memories, copies of pieces, and the
record of all tasks; compiled. See `state.py` for the columns."""

from tilewright.compiled import njit
from tilewright.manycore.state import (
    ARRIVE,
    BEYOND,
    BRING,
    COPIES,
    END,
    FAULT,
    FREE,
    FULL,
    GAP_COUNT,
    GAP_END,
    GAP_START,
    HELD,
    HELD_COUNT,
    LAST,
    LAST_TASK,
    LIMIT,
    NEED_LIST,
    NEED_START,
    NEEDS,
    NEVER,
    PIECES,
    PLACES,
    POOL,
    POOL_COUNT,
    POOL_GATE,
    POOL_SIZE,
    POOL_TIME,
    POSITION,
    RECORD,
    ROOM,
    SHORTEST,
    SIZE,
    TARGET_LIST,
    TARGET_START,
    TARGETS,
    TASK_END,
    TASK_ENGINE,
    TASK_ITEM,
    TASK_KIND,
    TASK_START,
    TASK_WAY,
    TASKS,
    USES,
    WANTED,
    Column,
)


@njit(cache=True)
def find_gap(st: Column, at: Column, carrier: int, time: int, length: int) -> int:
    """The earliest time from `time` on at which a carrier is free for so long."""
    starts = at[GAP_START] + carrier * at[ROOM]
    ends = at[GAP_END] + carrier * at[ROOM]
    low, high = 0, st[at[GAP_COUNT] + carrier]
    while low < high:  # the first gap that ends late enough
        middle = (low + high) >> 1
        if st[ends + middle] < time + length:
            low = middle + 1
        else:
            high = middle
    while True:
        start = max(st[starts + low], time)
        if st[ends + low] - start >= length:
            return start
        low += 1


@njit(cache=True)
def book_gap(net: Column, st: Column, at: Column, carrier: int, start: int, length: int) -> None:
    """Take a carrier for a time that `find_gap` found. What is left of a gap and too short for any
    copy is no gap."""
    starts = at[GAP_START] + carrier * at[ROOM]
    ends = at[GAP_END] + carrier * at[ROOM]
    least = net[at[SHORTEST] + carrier]
    count = st[at[GAP_COUNT] + carrier]
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if st[ends + middle] <= start:
            low = middle + 1
        else:
            high = middle
    before = start - st[starts + low] >= least
    after = st[ends + low] - start - length >= least
    if before and after:
        for k in range(count, low, -1):
            st[starts + k] = st[starts + k - 1]
            st[ends + k] = st[ends + k - 1]
        st[ends + low] = start
        st[starts + low + 1] = start + length
        st[at[GAP_COUNT] + carrier] = count + 1
    elif before:
        st[ends + low] = start
    elif after:
        st[starts + low] = start + length
    else:
        for k in range(low, count - 1):
            st[starts + k] = st[starts + k + 1]
            st[ends + k] = st[ends + k + 1]
        st[at[GAP_COUNT] + carrier] = count - 1


@njit(cache=True)
def free_from(st: Column, at: Column, place: int, size: int) -> int:
    """From when on so many bytes are free; there have to be enough."""
    found = 0
    for k in range(st[at[POOL_COUNT] + place]):
        found += st[at[POOL_SIZE] + place * (POOL + 1) + k]
        if found >= size:
            return st[at[POOL_TIME] + place * (POOL + 1) + k]
    return NEVER


@njit(cache=True)
def take_bytes(st: Column, at: Column, place: int, size: int, time: int) -> int:
    """Take bytes that are free at a time, the last released first; the task they wait for."""
    times = at[POOL_TIME] + place * (POOL + 1)
    sizes = at[POOL_SIZE] + place * (POOL + 1)
    gates = at[POOL_GATE] + place * (POOL + 1)
    count = st[at[POOL_COUNT] + place]
    st[at[FREE] + place] -= size
    low, high = 0, count
    while low < high:  # the first that is released later
        middle = (low + high) >> 1
        if st[times + middle] <= time:
            low = middle + 1
        else:
            high = middle
    k, stop = low - 1, low
    gate = st[gates + k]
    while size > 0:
        used = min(size, st[sizes + k])
        st[sizes + k] -= used
        size -= used
        k -= 1
    # Portions that were used up lie between the one that is left and those that come later.
    left = k + 1 + (st[sizes + k + 1] > 0)
    if left < stop:
        for j in range(stop, count):
            st[times + left] = st[times + j]
            st[sizes + left] = st[sizes + j]
            st[gates + left] = st[gates + j]
            left += 1
        st[at[POOL_COUNT] + place] = left
    return gate


@njit(cache=True)
def note_need(st: Column, at: Column, task: int) -> None:
    """The task that is being recorded waits for another."""
    if task >= 0:
        st[at[NEED_LIST] + st[at[NEEDS]]] = task
        st[at[NEEDS]] += 1


@njit(cache=True)
def note_task(
    st: Column,
    at: Column,
    kind: int,
    engine: int,
    item: int,
    start: int,
    end: int,
    way: int,
) -> None:
    """Record a task whose needs and targets are recorded."""
    task = st[at[TASKS]]
    st[at[TASK_KIND] + task] = kind
    st[at[TASK_ENGINE] + task] = engine
    st[at[TASK_ITEM] + task] = item
    st[at[TASK_START] + task] = start
    st[at[TASK_END] + task] = end
    st[at[TASK_WAY] + task] = way
    st[at[TASKS]] = task + 1
    st[at[NEED_START] + task + 1] = st[at[NEEDS]]
    st[at[TARGET_START] + task + 1] = st[at[TARGETS]]
    if end > at[LIMIT]:
        st[at[FAULT]] = BEYOND
    full = task + 2 >= at[ROOM] or at[NEED_LIST] + st[at[NEEDS]] + at[PIECES] >= at[END]
    if full or at[TARGET_LIST] + st[at[TARGETS]] + at[PLACES] >= at[NEED_START]:
        st[at[FAULT]] = FULL


@njit(cache=True)
def note_arrival(st: Column, at: Column, piece: int, place: int, time: int, task: int) -> None:
    """A piece is in a memory from a time on, by a task."""
    copy = at[COPIES] + (piece * at[PLACES] + place) * RECORD
    if st[copy + ARRIVE] < 0:
        if st[copy + USES] > 0:
            st[at[WANTED] + piece] -= 1
        count = st[at[HELD_COUNT] + place]
        st[at[HELD] + place * at[PIECES] + count] = piece
        st[copy + POSITION] = count
        st[at[HELD_COUNT] + place] = count + 1
    st[copy + ARRIVE] = time
    st[copy + LAST] = time
    st[copy + LAST_TASK] = task
    st[copy + BRING] = task


@njit(cache=True)
def note_target(st: Column, at: Column, piece: int, place: int, time: int, task: int) -> None:
    """The copy that is being recorded brings a piece to a memory."""
    st[at[TARGET_LIST] + st[at[TARGETS]]] = place
    st[at[TARGETS]] += 1
    note_arrival(st, at, piece, place, time, task)


@njit(cache=True)
def note_use(st: Column, copy: int, time: int, task: int) -> None:
    """A task that uses a copy ends at a time."""
    if time >= st[copy + LAST]:
        st[copy + LAST] = time
        st[copy + LAST_TASK] = task


@njit(cache=True)
def drop_copy(net: Column, st: Column, at: Column, piece: int, place: int) -> None:
    """Give the bytes of a copy back from the end of its last use on."""
    copies, places = at[COPIES], at[PLACES]
    copy = copies + (piece * places + place) * RECORD
    st[copy + ARRIVE] = -1
    held = at[HELD] + place * at[PIECES]
    count = st[at[HELD_COUNT] + place] - 1
    last = st[held + count]
    st[held + st[copy + POSITION]] = last
    st[copies + (last * places + place) * RECORD + POSITION] = st[copy + POSITION]
    st[at[HELD_COUNT] + place] = count
    size, time = net[at[SIZE] + piece], st[copy + LAST]
    st[at[FREE] + place] += size
    times = at[POOL_TIME] + place * (POOL + 1)
    sizes = at[POOL_SIZE] + place * (POOL + 1)
    gates = at[POOL_GATE] + place * (POOL + 1)
    count = st[at[POOL_COUNT] + place]
    if count == POOL:  # join the two oldest: they count as free when the younger is
        st[sizes + 1] += st[sizes]
        for k in range(count - 1):
            st[times + k] = st[times + k + 1]
            st[sizes + k] = st[sizes + k + 1]
            st[gates + k] = st[gates + k + 1]
        count -= 1
    k = count
    while k > 0 and st[times + k - 1] > time:
        st[times + k] = st[times + k - 1]
        st[sizes + k] = st[sizes + k - 1]
        st[gates + k] = st[gates + k - 1]
        k -= 1
    st[times + k] = time
    st[sizes + k] = size
    st[gates + k] = st[copy + LAST_TASK]
    st[at[POOL_COUNT] + place] = count + 1


@njit(cache=True)
def release_copy(net: Column, st: Column, at: Column, piece: int, place: int) -> None:
    """Give a copy's bytes back if nobody needs it any more."""
    first = at[COPIES] + piece * at[PLACES] * RECORD
    copy = first + place * RECORD
    if place == 0 or st[copy + ARRIVE] < 0 or st[copy + USES] > 0:
        return
    if st[at[WANTED] + piece] > 0 and st[first + ARRIVE] < 0:
        return
    drop_copy(net, st, at, piece, place)
