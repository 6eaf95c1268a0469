"""One allocation, timed: tiles on cores and pieces on carriers, compiled.

A list scheduler. Of all parts of layers whose next tile has its inputs made, and is not too far
ahead in the depth-first order of all tiles, the one that can start first is taken, the deepest
first among equals. Its inputs are fetched: each piece goes over the way on which it arrives first,
into the earliest gap of the carrier, once there is room. A tile then starts when its core is free,
its inputs are there and its results have room. Released bytes are kept with the time and the task
of their release, so that every wait has a task to wait for: the record can be simulated again, to
the cycle.
"""

from tilewright.compiled import njit
from tilewright.manycore.ledger import (
    note_arrival,
    note_need,
    note_task,
    note_use,
    release_copy,
    take_bytes,
)
from tilewright.manycore.state import (
    ACTIVE,
    ARRIVE,
    BRING,
    BY_RANK,
    COMPUTE,
    COPIES,
    CORE_FREE,
    CORE_OF,
    CORES,
    CYCLES,
    DONE,
    DROPS,
    FAULT,
    FETCHED,
    FINAL,
    FOLLOWING,
    FREE,
    INPUT_PLACE,
    MAKER,
    NEVER,
    NEXT_WAITER,
    OUTPUT_PLACE,
    PART_FIRST,
    PART_LAYER,
    PARTS,
    PIECES,
    PINNED,
    PLACES,
    RANK,
    READ_START,
    READS,
    READY,
    RECORD,
    SIZE,
    TASKS,
    TILE_SHAPE,
    TILES,
    USE_COUNT,
    USE_PART,
    USE_START,
    USES,
    WAITER,
    WANTED,
    WAY_COUNT,
    WAY_START,
    WEIGHT,
    WINDOW,
    WRITE_FINAL,
    WRITE_START,
    WRITES,
    Column,
)
from tilewright.manycore.transfers import fetch, length, space


@njit(cache=True)
def _wake(net: Column, st: Column, at: Column, part: int, active: int) -> int:
    """See whether the next tile of a part can go on: then it is active, from the time on at which
    its inputs can be there, carriers being free; else it waits for the first tile that is not
    done. How many are active."""
    tile, places = st[at[FOLLOWING] + part], at[PLACES]
    roles = at[INPUT_PLACE] + 2 * st[at[CORE_OF] + part]
    ready, fetched = 0, st[at[DROPS]]
    for entry in range(
        at[READS] + net[at[READ_START] + tile], at[READS] + net[at[READ_START] + tile + 1]
    ):
        piece, place = net[entry] >> 1, net[roles + (net[entry] & 1)]
        copies = at[COPIES] + piece * places * RECORD
        there = st[copies + place * RECORD + ARRIVE]
        if there < 0:
            maker = net[at[MAKER] + piece]
            if maker >= 0 and not st[at[DONE] + maker]:
                st[at[NEXT_WAITER] + part] = st[at[WAITER] + maker]
                st[at[WAITER] + maker] = part
                return active
            there, fetched = NEVER, -1
            for other in range(places):
                time = st[copies + other * RECORD + ARRIVE]
                if time >= 0:
                    pair = other * places + place
                    if net[at[WAY_COUNT] + pair] > 0:
                        time += length(net, at, piece, net[at[WAY_START] + pair])
                    there = min(there, time)
        ready = max(ready, there)
    st[at[READY] + part] = ready
    st[at[FETCHED] + part] = fetched
    st[at[ACTIVE] + active] = part
    return active + 1


@njit(cache=True)
def _inputs(net: Column, st: Column, at: Column, part: int) -> bool:
    """Fetch all that the next tile of a part reads; False where it does not fit."""
    tile, places = st[at[FOLLOWING] + part], at[PLACES]
    roles = at[INPUT_PLACE] + 2 * st[at[CORE_OF] + part]
    first, stop = at[READS] + net[at[READ_START] + tile], at[READS] + net[at[READ_START] + tile + 1]
    missing = 0
    for entry in range(first, stop):
        copy = (net[entry] >> 1) * places + net[roles + (net[entry] & 1)]
        copy = at[COPIES] + copy * RECORD
        st[copy + PINNED] = tile
        missing += st[copy + ARRIVE] < 0
    ready = 0
    for entry in range(first, stop):
        piece, place = net[entry] >> 1, net[roles + (net[entry] & 1)]
        copies = at[COPIES] + piece * places * RECORD
        if missing > 0 and st[copies + place * RECORD + ARRIVE] < 0:
            if not fetch(net, st, at, piece, place, tile):
                return False
            if st[at[WANTED] + piece] == 0 or st[copies + ARRIVE] > 0:
                for other in range(1, places):
                    release_copy(net, st, at, piece, other)
        ready = max(ready, st[copies + place * RECORD + ARRIVE])
    st[at[READY] + part] = ready
    st[at[FETCHED] + part] = st[at[DROPS]]
    return True


@njit(cache=True)
def _compute(net: Column, st: Column, at: Column, part: int) -> bool:
    """Run the next tile of a part, whose inputs are there; False where there is no room."""
    tile, core, places = st[at[FOLLOWING] + part], st[at[CORE_OF] + part], at[PLACES]
    out = net[at[OUTPUT_PLACE] + core]
    first = at[WRITES] + net[at[WRITE_START] + tile]
    stop = at[WRITES] + net[at[WRITE_START] + tile + 1]
    made = 0
    for entry in range(first, stop):
        made += net[at[SIZE] + net[entry]]
    # What makes room must leave the inputs; what others let go meanwhile is fetched again.
    tight = st[at[FREE] + out] < made or st[at[FETCHED] + part] != st[at[DROPS]]
    if tight and not _inputs(net, st, at, part):
        return False
    start = max(st[at[CORE_FREE] + core], st[at[READY] + part])
    for entry in range(first, stop):
        size = net[at[SIZE] + net[entry]]
        room = space(net, st, at, out, size, tile)
        if room < 0:
            return False
        start = max(start, room)
        copy = at[COPIES] + (net[entry] * places + out) * RECORD
        st[copy + PINNED] = tile
        st[copy + BRING] = take_bytes(st, at, out, size, room)
    for entry in range(first, stop):
        note_need(st, at, st[at[COPIES] + (net[entry] * places + out) * RECORD + BRING])
    end = start + net[at[CYCLES] + net[at[TILE_SHAPE] + tile] * at[CORES] + core]
    task, roles = st[at[TASKS]], at[INPUT_PLACE] + 2 * core
    for entry in range(
        at[READS] + net[at[READ_START] + tile], at[READS] + net[at[READ_START] + tile + 1]
    ):
        piece, place = net[entry] >> 1, net[roles + (net[entry] & 1)]
        copy = at[COPIES] + (piece * places + place) * RECORD
        note_need(st, at, st[copy + BRING])
        note_use(st, copy, end, task)
        st[copy + USES] -= 1
        if st[copy + USES] == 0:
            release_copy(net, st, at, piece, place)
    note_task(st, at, COMPUTE, core, tile, start, end, -1)
    st[at[CORE_FREE] + core] = end
    for entry in range(first, stop):
        piece = net[entry]
        note_arrival(st, at, piece, out, end, task)
        if net[at[FINAL] + piece] and at[WRITE_FINAL] and not fetch(net, st, at, piece, 0, tile):
            return False
        release_copy(net, st, at, piece, out)
    return True


@njit(cache=True)
def _begin(net: Column, st: Column, at: Column) -> int:
    """What is wanted where; the parts that can go on, and how many."""
    for part in range(at[PARTS]):
        st[at[FOLLOWING] + part] = net[at[PART_FIRST] + part]
    for piece in range(at[PIECES]):
        copies = at[COPIES] + piece * at[PLACES] * RECORD
        if net[at[MAKER] + piece] < 0:
            st[copies + ARRIVE] = 0
        for use in range(net[at[USE_START] + piece], net[at[USE_START] + piece + 1]):
            core = st[at[CORE_OF] + net[at[USE_PART] + use]]
            place = net[at[INPUT_PLACE] + 2 * core + net[at[WEIGHT] + piece]]
            if st[copies + place * RECORD + USES] == 0:
                st[at[WANTED] + piece] += 1
            st[copies + place * RECORD + USES] += net[at[USE_COUNT] + use]
    active = 0
    for part in range(at[PARTS]):
        active = _wake(net, st, at, part, active)
    return active


@njit(cache=True)
def run(net: Column, st: Column, at: Column) -> None:
    """Time one allocation; `st` is fresh, with the core of each part, and holds the record
    afterwards."""
    active, left, front = _begin(net, st, at), at[TILES], 0
    while left > 0:
        while st[at[DONE] + net[at[BY_RANK] + front]]:
            front += 1
        slot, chosen, soonest, layer = -1, -1, NEVER, -1
        for entry in range(active):
            part = st[at[ACTIVE] + entry]
            if net[at[RANK] + st[at[FOLLOWING] + part]] > front + at[WINDOW]:
                continue
            time = max(st[at[READY] + part], st[at[CORE_FREE] + st[at[CORE_OF] + part]])
            depth = net[at[PART_LAYER] + part]
            better = depth > layer or (depth == layer and part < chosen)
            if time < soonest or (time == soonest and better):
                slot, chosen, soonest, layer = entry, part, time, depth
        core, tile = st[at[CORE_OF] + chosen], st[at[FOLLOWING] + chosen]
        if st[at[FETCHED] + chosen] < 0:
            if not _inputs(net, st, at, chosen):
                return
            if max(st[at[READY] + chosen], st[at[CORE_FREE] + core]) > soonest:
                continue  # it takes longer than thought: others may come first
        if not _compute(net, st, at, chosen) or st[at[FAULT]] != 0:
            return
        st[at[DONE] + tile] = 1
        st[at[FOLLOWING] + chosen] += 1
        left -= 1
        active -= 1
        st[at[ACTIVE] + slot] = st[at[ACTIVE] + active]
        if tile + 1 < net[at[PART_FIRST] + chosen + 1]:
            active = _wake(net, st, at, chosen, active)
        waiting = st[at[WAITER] + tile]
        while waiting >= 0:
            following = st[at[NEXT_WAITER] + waiting]
            active = _wake(net, st, at, waiting, active)
            waiting = following
