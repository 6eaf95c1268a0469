"""What the evaluator keeps: gaps of carriers, free bytes of memories, copies of pieces, and the
record of all tasks; compiled. See `state.py` for the columns."""

from tilewright.compiled import njit
from tilewright.manycore import state as s
from tilewright.manycore.state import Column


@njit(cache=True)
def find_gap(st: Column, at: Column, carrier: int, time: int, length: int) -> int:
    """The earliest time from `time` on at which a carrier is free for so long."""
    starts = at[s.GAP_START] + carrier * at[s.ROOM]
    ends = at[s.GAP_END] + carrier * at[s.ROOM]
    low, high = 0, st[at[s.GAP_COUNT] + carrier]
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
    starts = at[s.GAP_START] + carrier * at[s.ROOM]
    ends = at[s.GAP_END] + carrier * at[s.ROOM]
    least = net[at[s.SHORTEST] + carrier]
    count = st[at[s.GAP_COUNT] + carrier]
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
        st[at[s.GAP_COUNT] + carrier] = count + 1
    elif before:
        st[ends + low] = start
    elif after:
        st[starts + low] = start + length
    else:
        for k in range(low, count - 1):
            st[starts + k] = st[starts + k + 1]
            st[ends + k] = st[ends + k + 1]
        st[at[s.GAP_COUNT] + carrier] = count - 1


@njit(cache=True)
def free_from(st: Column, at: Column, place: int, size: int) -> int:
    """From when on so many bytes are free; there have to be enough."""
    found = 0
    for k in range(st[at[s.POOL_COUNT] + place]):
        found += st[at[s.POOL_SIZE] + place * (s.POOL + 1) + k]
        if found >= size:
            return st[at[s.POOL_TIME] + place * (s.POOL + 1) + k]
    return s.NEVER


@njit(cache=True)
def take_bytes(st: Column, at: Column, place: int, size: int, time: int) -> int:
    """Take bytes that are free at a time, the last released first; the task they wait for."""
    times = at[s.POOL_TIME] + place * (s.POOL + 1)
    sizes = at[s.POOL_SIZE] + place * (s.POOL + 1)
    gates = at[s.POOL_GATE] + place * (s.POOL + 1)
    count = st[at[s.POOL_COUNT] + place]
    st[at[s.FREE] + place] -= size
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
        st[at[s.POOL_COUNT] + place] = left
    return gate


@njit(cache=True)
def note_need(st: Column, at: Column, task: int) -> None:
    """The task that is being recorded waits for another."""
    if task >= 0:
        st[at[s.NEED_LIST] + st[at[s.NEEDS]]] = task
        st[at[s.NEEDS]] += 1


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
    task = st[at[s.TASKS]]
    st[at[s.TASK_KIND] + task] = kind
    st[at[s.TASK_ENGINE] + task] = engine
    st[at[s.TASK_ITEM] + task] = item
    st[at[s.TASK_START] + task] = start
    st[at[s.TASK_END] + task] = end
    st[at[s.TASK_WAY] + task] = way
    st[at[s.TASKS]] = task + 1
    st[at[s.NEED_START] + task + 1] = st[at[s.NEEDS]]
    st[at[s.TARGET_START] + task + 1] = st[at[s.TARGETS]]
    if end > at[s.LIMIT]:
        st[at[s.FAULT]] = s.BEYOND
    full = task + 2 >= at[s.ROOM] or at[s.NEED_LIST] + st[at[s.NEEDS]] + at[s.PIECES] >= at[s.END]
    if full or at[s.TARGET_LIST] + st[at[s.TARGETS]] + at[s.PLACES] >= at[s.NEED_START]:
        st[at[s.FAULT]] = s.FULL


@njit(cache=True)
def note_arrival(st: Column, at: Column, piece: int, place: int, time: int, task: int) -> None:
    """A piece is in a memory from a time on, by a task."""
    copy = at[s.COPIES] + (piece * at[s.PLACES] + place) * s.RECORD
    if st[copy + s.ARRIVE] < 0:
        if st[copy + s.USES] > 0:
            st[at[s.WANTED] + piece] -= 1
        count = st[at[s.HELD_COUNT] + place]
        st[at[s.HELD] + place * at[s.PIECES] + count] = piece
        st[copy + s.POSITION] = count
        st[at[s.HELD_COUNT] + place] = count + 1
    st[copy + s.ARRIVE] = time
    st[copy + s.LAST] = time
    st[copy + s.LAST_TASK] = task
    st[copy + s.BRING] = task


@njit(cache=True)
def note_target(st: Column, at: Column, piece: int, place: int, time: int, task: int) -> None:
    """The copy that is being recorded brings a piece to a memory."""
    st[at[s.TARGET_LIST] + st[at[s.TARGETS]]] = place
    st[at[s.TARGETS]] += 1
    note_arrival(st, at, piece, place, time, task)


@njit(cache=True)
def note_use(st: Column, copy: int, time: int, task: int) -> None:
    """A task that uses a copy ends at a time."""
    if time >= st[copy + s.LAST]:
        st[copy + s.LAST] = time
        st[copy + s.LAST_TASK] = task


@njit(cache=True)
def drop_copy(net: Column, st: Column, at: Column, piece: int, place: int) -> None:
    """Give the bytes of a copy back from the end of its last use on."""
    copies, places = at[s.COPIES], at[s.PLACES]
    copy = copies + (piece * places + place) * s.RECORD
    st[copy + s.ARRIVE] = -1
    held = at[s.HELD] + place * at[s.PIECES]
    count = st[at[s.HELD_COUNT] + place] - 1
    last = st[held + count]
    st[held + st[copy + s.POSITION]] = last
    st[copies + (last * places + place) * s.RECORD + s.POSITION] = st[copy + s.POSITION]
    st[at[s.HELD_COUNT] + place] = count
    size, time = net[at[s.SIZE] + piece], st[copy + s.LAST]
    st[at[s.FREE] + place] += size
    times = at[s.POOL_TIME] + place * (s.POOL + 1)
    sizes = at[s.POOL_SIZE] + place * (s.POOL + 1)
    gates = at[s.POOL_GATE] + place * (s.POOL + 1)
    count = st[at[s.POOL_COUNT] + place]
    if count == s.POOL:  # join the two oldest: they count as free when the younger is
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
    st[gates + k] = st[copy + s.LAST_TASK]
    st[at[s.POOL_COUNT] + place] = count + 1


@njit(cache=True)
def release_copy(net: Column, st: Column, at: Column, piece: int, place: int) -> None:
    """Give a copy's bytes back if nobody needs it any more."""
    first = at[s.COPIES] + piece * at[s.PLACES] * s.RECORD
    copy = first + place * s.RECORD
    if place == 0 or st[copy + s.ARRIVE] < 0 or st[copy + s.USES] > 0:
        return
    if st[at[s.WANTED] + piece] > 0 and st[first + s.ARRIVE] < 0:
        return
    drop_copy(net, st, at, piece, place)
