"""One allocation, timed: tiles on cores and pieces on carriers, compiled.

A list scheduler. Of all parts of layers whose next tile has its inputs made, the one that can start
first is taken, the deepest first among equals. Its inputs are fetched: each piece goes over the way
on which it arrives first, into the earliest gap of the carrier, once there is room. A tile then
starts when its core is free, its inputs are there and its results have room. Released bytes are
kept with the time and the task of their release, so that every wait has a task to wait for: the
record can be simulated again, to the cycle.
"""

from tilewright.compiled import njit
from tilewright.manycore.ledger import (
    book_gap,
    drop_copy,
    find_gap,
    free_from,
    note_arrival,
    note_need,
    note_target,
    note_task,
    note_use,
    release_copy,
    take_bytes,
)
from tilewright.manycore.state import (
    ACTIVE,
    ARRIVE,
    AVOID,
    BRING,
    BUS,
    BUS_WAY,
    COMPUTE,
    COPY,
    CORE_FREE,
    CORE_OF,
    CORES,
    CYCLES,
    DONE,
    FAULT,
    FAULT_PLACE,
    FAULT_TILE,
    FETCHED,
    FINAL,
    FOLLOWING,
    FREE,
    HELD,
    HELD_COUNT,
    INPUT_PLACE,
    MAKER,
    NEVER,
    NEXT_HOP,
    NEXT_WAITER,
    OUTPUT_PLACE,
    PART_FIRST,
    PART_LAYER,
    PARTS,
    PIECES,
    PINNED,
    PLACE_CORE,
    PLACES,
    POLICY,
    RANK,
    READ_START,
    READS,
    READY,
    SIZE,
    SPILLS,
    TASKS,
    TILE_SHAPE,
    TILES,
    TOO_SMALL,
    UNIT,
    USE_COUNT,
    USE_FIRST,
    USE_LAST,
    USE_PART,
    USE_START,
    USES,
    WAITER,
    WANTED,
    WAY_AVOIDED,
    WAY_BITS,
    WAY_CARRIER,
    WAY_COUNT,
    WAY_START,
    WEIGHT,
    WEIGHT_PLACE,
    WRITE_FINAL,
    WRITE_START,
    WRITES,
    Column,
)


@njit(cache=True)
def _length(net: Column, at: Column, piece: int, way: int) -> int:
    """Cycles of a piece on a way."""
    bits = net[at[SIZE] + piece] * at[UNIT]
    rate = net[at[WAY_BITS] + way]
    return max(1, (bits + rate - 1) // rate)


@njit(cache=True)
def _best_way(
    net: Column, st: Column, at: Column, piece: int, source: int, target: int, time: int
) -> tuple[int, int, int]:
    """The way on which a piece is there first, and when it would go and come; none: -1."""
    pair = source * at[PLACES] + target
    first = net[at[WAY_START] + pair]
    stop = first + net[at[WAY_COUNT] + pair]
    best, begin, finish, avoided = -1, 0, NEVER, 2
    for way in range(first, stop):
        shunned = net[at[WAY_AVOIDED] + way] if at[POLICY] & AVOID else 0
        if shunned > avoided:
            continue
        length = _length(net, at, piece, way)
        start = find_gap(st, at, net[at[WAY_CARRIER] + way], time, length)
        if shunned < avoided or start + length < finish:
            best, begin, finish, avoided = way, start, start + length, shunned
    return best, begin, finish


@njit(cache=True)
def _next_use(net: Column, st: Column, at: Column, piece: int, core: int) -> int:
    """The rank of the next tile of a core that reads a piece."""
    soonest = NEVER
    for use in range(net[at[USE_START] + piece], net[at[USE_START] + piece + 1]):
        part = net[at[USE_PART] + use]
        following = st[at[FOLLOWING] + part]
        if st[at[CORE_OF] + part] == core and net[at[USE_LAST] + use] >= following:
            tile = max(net[at[USE_FIRST] + use], following)
            soonest = min(soonest, net[at[RANK] + tile])
    return soonest


@njit(cache=True)
def _evict(net: Column, st: Column, at: Column, place: int, tile: int) -> bool:
    """Let the piece go that is needed last: drop it where another memory has it, else write it
    out. Pieces of the tile in work stay; so does what has no way to the outside."""
    places, core = at[PLACES], net[at[PLACE_CORE] + place]
    way_out = net[at[WAY_COUNT] + place * places] > 0
    victim, worst, kept = -1, -1, False
    for entry in range(st[at[HELD_COUNT] + place]):
        piece = st[at[HELD] + place * at[PIECES] + entry]
        copy = piece * places + place
        if st[at[PINNED] + copy] == tile:
            continue
        elsewhere = False
        for other in range(places):
            if other != place and st[at[ARRIVE] + piece * places + other] >= 0:
                elsewhere = True
        if not elsewhere and not way_out:
            continue
        rank = NEVER
        if st[at[USES] + copy] > 0:
            rank = _next_use(net, st, at, piece, core)
        if rank > worst:
            victim, worst, kept = piece, rank, elsewhere
    if victim < 0:
        return False
    copy = victim * places + place
    if not kept:
        way, begin, finish = _best_way(net, st, at, victim, place, 0, st[at[ARRIVE] + copy])
        carrier = net[at[WAY_CARRIER] + way]
        book_gap(st, at, carrier, begin, finish - begin)
        note_need(st, at, st[at[BRING] + copy])
        note_target(st, at, 0)
        task = note_task(st, at, COPY, at[CORES] + carrier, victim, begin, finish, way)
        note_arrival(st, at, victim, 0, finish, task)
        note_use(st, at, copy, finish, task)
        st[at[SPILLS]] += 1
    if st[at[USES] + copy] > 0:
        st[at[WANTED] + victim] += 1
    drop_copy(net, st, at, victim, place)
    return True


@njit(cache=True)
def _space(net: Column, st: Column, at: Column, place: int, size: int, tile: int) -> int:
    """From when on a memory has room for so many bytes, others let go where it must be; -1:
    never."""
    if place == 0:
        return 0
    while st[at[FREE] + place] < size:
        if not _evict(net, st, at, place, tile):
            st[at[FAULT]] = TOO_SMALL
            st[at[FAULT_TILE]] = tile
            st[at[FAULT_PLACE]] = place
            return -1
    return free_from(st, at, place, size)


@njit(cache=True)
def _move(
    net: Column,
    st: Column,
    at: Column,
    piece: int,
    source: int,
    target: int,
    tile: int,
    spread: bool,
) -> bool:
    """Copy a piece from one memory to another on the way on which it is there first; over a bus
    also to all others that need it and have room."""
    size, places = net[at[SIZE] + piece], at[PLACES]
    ready = _space(net, st, at, target, size, tile)
    if ready < 0:
        return False
    ready = max(ready, st[at[ARRIVE] + piece * places + source])
    way, begin, finish = _best_way(net, st, at, piece, source, target, ready)
    carrier = net[at[WAY_CARRIER] + way]
    book_gap(st, at, carrier, begin, finish - begin)
    task = st[at[TASKS]]
    note_need(st, at, st[at[BRING] + piece * places + source])
    if target != 0:
        note_need(st, at, take_bytes(st, at, target, size, begin))
    note_target(st, at, target)
    if spread and net[at[BUS] + carrier]:
        for other in range(1, places):
            copy = piece * places + other
            same = net[at[BUS_WAY] + way * places + other]
            if other in (target, source) or same < 0:
                continue
            if st[at[USES] + copy] <= 0 or st[at[ARRIVE] + copy] >= 0:
                continue
            if _length(net, at, piece, same) > finish - begin or st[at[FREE] + other] < size:
                continue
            if free_from(st, at, other, size) > begin:
                continue
            note_need(st, at, take_bytes(st, at, other, size, begin))
            note_target(st, at, other)
            note_arrival(st, at, piece, other, finish, task)
    note_task(st, at, COPY, at[CORES] + carrier, piece, begin, finish, way)
    note_arrival(st, at, piece, target, finish, task)
    note_use(st, at, piece * places + source, finish, task)
    return True


@njit(cache=True)
def _fetch(net: Column, st: Column, at: Column, piece: int, place: int, tile: int) -> bool:
    """Bring a piece to a memory from where it gets there first; over others where there is no
    way from any that has it."""
    places = at[PLACES]
    source, soonest, hops = -1, NEVER, NEVER
    for other in range(places):
        there = st[at[ARRIVE] + piece * places + other]
        if other == place or there < 0:
            continue
        way, _, finish = _best_way(net, st, at, piece, other, place, there)
        if way >= 0 and finish < soonest:
            source, soonest = other, finish
    if source >= 0:
        st[at[PINNED] + piece * places + source] = tile
        return _move(net, st, at, piece, source, place, tile, True)
    for other in range(places):
        if st[at[ARRIVE] + piece * places + other] < 0:
            continue
        steps, step = 0, other
        while step != place and step >= 0:
            step = net[at[NEXT_HOP] + step * places + place]
            steps += 1
        if step == place and steps < hops:
            source, hops = other, steps
    if source < 0:
        st[at[FAULT]] = TOO_SMALL
        st[at[FAULT_TILE]] = tile
        st[at[FAULT_PLACE]] = place
        return False
    here = source
    while here != place:
        step = net[at[NEXT_HOP] + here * places + place]
        st[at[PINNED] + piece * places + here] = tile
        if st[at[ARRIVE] + piece * places + step] < 0 and not _move(
            net, st, at, piece, here, step, tile, False
        ):
            return False
        if here != source:
            release_copy(net, st, at, piece, here)
        here = step
    return True


@njit(cache=True)
def _place_of(net: Column, at: Column, piece: int, core: int) -> int:
    """The memory of a core that a piece is read from."""
    if net[at[WEIGHT] + piece]:
        return net[at[WEIGHT_PLACE] + core]
    return net[at[INPUT_PLACE] + core]


@njit(cache=True)
def _estimate(net: Column, st: Column, at: Column, tile: int, core: int) -> int:
    """When the inputs of a tile can be on its core, carriers being free."""
    ready, places = 0, at[PLACES]
    for entry in range(net[at[READ_START] + tile], net[at[READ_START] + tile + 1]):
        piece = net[at[READS] + entry]
        place = _place_of(net, at, piece, core)
        there = st[at[ARRIVE] + piece * places + place]
        if there < 0:
            there = NEVER
            for other in range(places):
                time = st[at[ARRIVE] + piece * places + other]
                if time >= 0:
                    pair = other * places + place
                    if net[at[WAY_COUNT] + pair] > 0:
                        time += _length(net, at, piece, net[at[WAY_START] + pair])
                    there = min(there, time)
        ready = max(ready, there)
    return ready


@njit(cache=True)
def _inputs(net: Column, st: Column, at: Column, tile: int, core: int) -> bool:
    """Fetch all that a tile reads; False where it does not fit."""
    first, stop = net[at[READ_START] + tile], net[at[READ_START] + tile + 1]
    places = at[PLACES]
    missing = 0
    for entry in range(first, stop):
        piece = net[at[READS] + entry]
        copy = piece * places + _place_of(net, at, piece, core)
        st[at[PINNED] + copy] = tile
        missing += st[at[ARRIVE] + copy] < 0
    if missing == 0:
        return True
    for entry in range(first, stop):
        piece = net[at[READS] + entry]
        place = _place_of(net, at, piece, core)
        if st[at[ARRIVE] + piece * places + place] < 0:
            if not _fetch(net, st, at, piece, place, tile):
                return False
            if st[at[WANTED] + piece] == 0 or st[at[ARRIVE] + piece * places] > 0:
                for other in range(1, places):
                    release_copy(net, st, at, piece, other)
    return True


@njit(cache=True)
def _compute(net: Column, st: Column, at: Column, tile: int, core: int) -> bool:
    """Run a tile whose inputs are there (or fetch what was let go meanwhile)."""
    if not _inputs(net, st, at, tile, core):
        return False
    out, places = net[at[OUTPUT_PLACE] + core], at[PLACES]
    start = st[at[CORE_FREE] + core]
    for entry in range(net[at[WRITE_START] + tile], net[at[WRITE_START] + tile + 1]):
        piece = net[at[WRITES] + entry]
        room = _space(net, st, at, out, net[at[SIZE] + piece], tile)
        if room < 0:
            return False
        start = max(start, room)
        copy = piece * places + out
        st[at[PINNED] + copy] = tile
        st[at[BRING] + copy] = take_bytes(st, at, out, net[at[SIZE] + piece], room)
    for entry in range(net[at[READ_START] + tile], net[at[READ_START] + tile + 1]):
        piece = net[at[READS] + entry]
        copy = piece * places + _place_of(net, at, piece, core)
        start = max(start, st[at[ARRIVE] + copy])
        note_need(st, at, st[at[BRING] + copy])
    for entry in range(net[at[WRITE_START] + tile], net[at[WRITE_START] + tile + 1]):
        note_need(st, at, st[at[BRING] + net[at[WRITES] + entry] * places + out])
    end = start + net[at[CYCLES] + net[at[TILE_SHAPE] + tile] * at[CORES] + core]
    task = note_task(st, at, COMPUTE, core, tile, start, end, -1)
    st[at[CORE_FREE] + core] = end
    for entry in range(net[at[READ_START] + tile], net[at[READ_START] + tile + 1]):
        piece = net[at[READS] + entry]
        place = _place_of(net, at, piece, core)
        copy = piece * places + place
        st[at[USES] + copy] -= 1
        note_use(st, at, copy, end, task)
        if st[at[USES] + copy] == 0:
            release_copy(net, st, at, piece, place)
    for entry in range(net[at[WRITE_START] + tile], net[at[WRITE_START] + tile + 1]):
        piece = net[at[WRITES] + entry]
        note_arrival(st, at, piece, out, end, task)
        if net[at[FINAL] + piece] and at[WRITE_FINAL]:
            if net[at[WAY_COUNT] + out * places] > 0:
                if not _move(net, st, at, piece, out, 0, tile, False):
                    return False
            elif not _fetch(net, st, at, piece, 0, tile):
                return False
        release_copy(net, st, at, piece, out)
    return True


@njit(cache=True)
def _wake(net: Column, st: Column, at: Column, part: int, active: int) -> int:
    """See whether the next tile of a part can go on: then it is active; else it waits for the
    first tile that is not done. How many are active."""
    tile = st[at[FOLLOWING] + part]
    for entry in range(net[at[READ_START] + tile], net[at[READ_START] + tile + 1]):
        maker = net[at[MAKER] + net[at[READS] + entry]]
        if maker >= 0 and not st[at[DONE] + maker]:
            st[at[NEXT_WAITER] + part] = st[at[WAITER] + maker]
            st[at[WAITER] + maker] = part
            return active
    st[at[READY] + part] = _estimate(net, st, at, tile, st[at[CORE_OF] + part])
    st[at[ACTIVE] + active] = part
    return active + 1


@njit(cache=True)
def run(net: Column, st: Column, at: Column) -> None:
    """Time one allocation; `st` is fresh, with the core of each part, and holds the record
    afterwards."""
    parts, places = at[PARTS], at[PLACES]
    for part in range(parts):
        st[at[FOLLOWING] + part] = net[at[PART_FIRST] + part]
    for piece in range(at[PIECES]):
        if net[at[MAKER] + piece] < 0:
            st[at[ARRIVE] + piece * places] = 0
        for use in range(net[at[USE_START] + piece], net[at[USE_START] + piece + 1]):
            core = st[at[CORE_OF] + net[at[USE_PART] + use]]
            copy = piece * places + _place_of(net, at, piece, core)
            if st[at[USES] + copy] == 0:
                st[at[WANTED] + piece] += 1
            st[at[USES] + copy] += net[at[USE_COUNT] + use]
    active = 0
    for part in range(parts):
        active = _wake(net, st, at, part, active)
    left = at[TILES]
    while left > 0:
        slot, chosen, soonest, layer = -1, -1, NEVER, -1
        for entry in range(active):
            part = st[at[ACTIVE] + entry]
            time = max(st[at[READY] + part], st[at[CORE_FREE] + st[at[CORE_OF] + part]])
            depth = net[at[PART_LAYER] + part]
            better = depth > layer or (depth == layer and part < chosen)
            if time < soonest or (time == soonest and better):
                slot, chosen, soonest, layer = entry, part, time, depth
        core, tile = st[at[CORE_OF] + chosen], st[at[FOLLOWING] + chosen]
        if not st[at[FETCHED] + chosen]:
            if not _inputs(net, st, at, tile, core):
                return
            st[at[FETCHED] + chosen] = 1
            st[at[READY] + chosen] = _estimate(net, st, at, tile, core)
            if max(st[at[READY] + chosen], st[at[CORE_FREE] + core]) > soonest:
                continue  # it takes longer than thought: others may come first
        if not _compute(net, st, at, tile, core) or st[at[FAULT]] != 0:
            return
        st[at[DONE] + tile] = 1
        st[at[FOLLOWING] + chosen] += 1
        st[at[FETCHED] + chosen] = 0
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
