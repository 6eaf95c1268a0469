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
from tilewright.manycore import state as s
from tilewright.manycore.ledger import (
    note_arrival,
    note_need,
    note_task,
    note_use,
    release_copy,
    take_bytes,
)
from tilewright.manycore.state import Column
from tilewright.manycore.transfers import fetch, length, space


@njit(cache=True)
def _span(net: Column, at: Column, pieces: int, starts: int, tile: int) -> tuple[int, int]:
    """Where the pieces that a tile reads, or those that it makes, are listed."""
    start = at[starts] + tile
    return at[pieces] + net[start], at[pieces] + net[start + 1]


@njit(cache=True)
def _wake(net: Column, st: Column, at: Column, part: int, active: int) -> int:
    """See whether the next tile of a part can go on: then it is active, from the time on at which
    its inputs can be there, carriers being free; else it waits for the first tile that is not
    done. How many are active."""
    tile, places = st[at[s.FOLLOWING] + part], at[s.PLACES]
    roles = at[s.INPUT_PLACE] + 2 * st[at[s.CORE_OF] + part]
    ready, fetched = 0, st[at[s.DROPS]]
    first, stop = _span(net, at, s.READS, s.READ_START, tile)
    for entry in range(first, stop):
        piece, place = net[entry] >> 1, net[roles + (net[entry] & 1)]
        copies = at[s.COPIES] + piece * places * s.RECORD
        there = st[copies + place * s.RECORD + s.ARRIVE]
        if there < 0:
            maker = net[at[s.MAKER] + piece]
            if maker >= 0 and not st[at[s.DONE] + maker]:
                st[at[s.NEXT_WAITER] + part] = st[at[s.WAITER] + maker]
                st[at[s.WAITER] + maker] = part
                return active
            there, fetched = s.NEVER, -1
            for other in range(places):
                time = st[copies + other * s.RECORD + s.ARRIVE]
                if time >= 0:
                    pair = other * places + place
                    if net[at[s.WAY_COUNT] + pair] > 0:
                        time += length(net, at, piece, net[at[s.WAY_START] + pair])
                    there = min(there, time)
        ready = max(ready, there)
    st[at[s.READY] + part] = ready
    st[at[s.FETCHED] + part] = fetched
    st[at[s.ACTIVE] + active] = part
    return active + 1


@njit(cache=True)
def _inputs(net: Column, st: Column, at: Column, part: int) -> bool:
    """Fetch all that the next tile of a part reads; False where it does not fit."""
    tile, places = st[at[s.FOLLOWING] + part], at[s.PLACES]
    roles = at[s.INPUT_PLACE] + 2 * st[at[s.CORE_OF] + part]
    first, stop = _span(net, at, s.READS, s.READ_START, tile)
    missing = 0
    for entry in range(first, stop):
        copy = (net[entry] >> 1) * places + net[roles + (net[entry] & 1)]
        copy = at[s.COPIES] + copy * s.RECORD
        st[copy + s.PINNED] = tile
        missing += st[copy + s.ARRIVE] < 0
    ready = 0
    for entry in range(first, stop):
        piece, place = net[entry] >> 1, net[roles + (net[entry] & 1)]
        copies = at[s.COPIES] + piece * places * s.RECORD
        if missing > 0 and st[copies + place * s.RECORD + s.ARRIVE] < 0:
            if not fetch(net, st, at, piece, place, tile):
                return False
            if st[at[s.WANTED] + piece] == 0 or st[copies + s.ARRIVE] > 0:
                for other in range(1, places):
                    release_copy(net, st, at, piece, other)
        ready = max(ready, st[copies + place * s.RECORD + s.ARRIVE])
    st[at[s.READY] + part] = ready
    st[at[s.FETCHED] + part] = st[at[s.DROPS]]
    return True


@njit(cache=True)
def _compute(net: Column, st: Column, at: Column, part: int) -> bool:
    """Run the next tile of a part, whose inputs are there; False where there is no room."""
    tile, core, places = st[at[s.FOLLOWING] + part], st[at[s.CORE_OF] + part], at[s.PLACES]
    out = net[at[s.OUTPUT_PLACE] + core]
    first, stop = _span(net, at, s.WRITES, s.WRITE_START, tile)
    made = 0
    for entry in range(first, stop):
        made += net[at[s.SIZE] + net[entry]]
    # What makes room must leave the inputs; what others let go meanwhile is fetched again.
    tight = st[at[s.FREE] + out] < made or st[at[s.FETCHED] + part] != st[at[s.DROPS]]
    if tight and not _inputs(net, st, at, part):
        return False
    start = max(st[at[s.CORE_FREE] + core], st[at[s.READY] + part])
    for entry in range(first, stop):
        size = net[at[s.SIZE] + net[entry]]
        room = space(net, st, at, out, size, tile)
        if room < 0:
            return False
        start = max(start, room)
        copy = at[s.COPIES] + (net[entry] * places + out) * s.RECORD
        st[copy + s.PINNED] = tile
        st[copy + s.BRING] = take_bytes(st, at, out, size, room)
    for entry in range(first, stop):
        note_need(st, at, st[at[s.COPIES] + (net[entry] * places + out) * s.RECORD + s.BRING])
    end = start + net[at[s.CYCLES] + net[at[s.TILE_SHAPE] + tile] * at[s.CORES] + core]
    task, roles = st[at[s.TASKS]], at[s.INPUT_PLACE] + 2 * core
    first_read, last_read = _span(net, at, s.READS, s.READ_START, tile)
    for entry in range(first_read, last_read):
        piece, place = net[entry] >> 1, net[roles + (net[entry] & 1)]
        copy = at[s.COPIES] + (piece * places + place) * s.RECORD
        note_need(st, at, st[copy + s.BRING])
        note_use(st, copy, end, task)
        st[copy + s.USES] -= 1
        if st[copy + s.USES] == 0:
            release_copy(net, st, at, piece, place)
    note_task(st, at, s.COMPUTE, core, tile, start, end, -1)
    st[at[s.CORE_FREE] + core] = end
    for entry in range(first, stop):
        piece = net[entry]
        note_arrival(st, at, piece, out, end, task)
        leaves = net[at[s.FINAL] + piece] and at[s.WRITE_FINAL]
        if leaves and not fetch(net, st, at, piece, 0, tile):
            return False
        release_copy(net, st, at, piece, out)
    return True


@njit(cache=True)
def _begin(net: Column, st: Column, at: Column) -> int:
    """What is wanted where; the parts that can go on, and how many."""
    for part in range(at[s.PARTS]):
        st[at[s.FOLLOWING] + part] = net[at[s.PART_FIRST] + part]
    for piece in range(at[s.PIECES]):
        copies = at[s.COPIES] + piece * at[s.PLACES] * s.RECORD
        if net[at[s.MAKER] + piece] < 0:
            st[copies + s.ARRIVE] = 0
        for use in range(net[at[s.USE_START] + piece], net[at[s.USE_START] + piece + 1]):
            core = st[at[s.CORE_OF] + net[at[s.USE_PART] + use]]
            place = net[at[s.INPUT_PLACE] + 2 * core + net[at[s.WEIGHT] + piece]]
            if st[copies + place * s.RECORD + s.USES] == 0:
                st[at[s.WANTED] + piece] += 1
            st[copies + place * s.RECORD + s.USES] += net[at[s.USE_COUNT] + use]
    active = 0
    for part in range(at[s.PARTS]):
        active = _wake(net, st, at, part, active)
    return active


@njit(cache=True)
def run(net: Column, st: Column, at: Column) -> None:
    """Time one allocation; `st` is fresh, with the core of each part, and holds the record
    afterwards."""
    active, left, front = _begin(net, st, at), at[s.TILES], 0
    while left > 0:
        while st[at[s.DONE] + net[at[s.BY_RANK] + front]]:
            front += 1
        slot, chosen, soonest, layer = -1, -1, s.NEVER, -1
        for entry in range(active):
            part = st[at[s.ACTIVE] + entry]
            if net[at[s.RANK] + st[at[s.FOLLOWING] + part]] > front + at[s.WINDOW]:
                continue
            time = max(st[at[s.READY] + part], st[at[s.CORE_FREE] + st[at[s.CORE_OF] + part]])
            depth = net[at[s.PART_LAYER] + part]
            better = depth > layer or (depth == layer and part < chosen)
            if time < soonest or (time == soonest and better):
                slot, chosen, soonest, layer = entry, part, time, depth
        core, tile = st[at[s.CORE_OF] + chosen], st[at[s.FOLLOWING] + chosen]
        if st[at[s.FETCHED] + chosen] < 0:
            if not _inputs(net, st, at, chosen):
                return
            if max(st[at[s.READY] + chosen], st[at[s.CORE_FREE] + core]) > soonest:
                continue  # it takes longer than thought: others may come first
        if not _compute(net, st, at, chosen) or st[at[s.FAULT]] != 0:
            return
        st[at[s.DONE] + tile] = 1
        st[at[s.FOLLOWING] + chosen] += 1
        left -= 1
        active -= 1
        st[at[s.ACTIVE] + slot] = st[at[s.ACTIVE] + active]
        if tile + 1 < net[at[s.PART_FIRST] + chosen + 1]:
            active = _wake(net, st, at, chosen, active)
        waiting = st[at[s.WAITER] + tile]
        while waiting >= 0:
            following = st[at[s.NEXT_WAITER] + waiting]
            active = _wake(net, st, at, waiting, active)
            waiting = following
