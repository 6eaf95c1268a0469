"""How a piece gets to a memory: ways and their gaps, room that is made, buses that bring it to
several at once; compiled. See `state.py` for the columns."""

from tilewright.compiled import njit
from tilewright.manycore import state as s
from tilewright.manycore.ledger import (
    book_gap,
    drop_copy,
    find_gap,
    free_from,
    note_need,
    note_target,
    note_task,
    note_use,
    release_copy,
    take_bytes,
)
from tilewright.manycore.state import Column


@njit(cache=True)
def length(net: Column, at: Column, piece: int, way: int) -> int:
    """Cycles of a piece on a way."""
    return net[at[s.LENGTHS] + net[at[s.WAY_LENGTHS] + way] + piece]


@njit(cache=True)
def _best_way(
    net: Column, st: Column, at: Column, piece: int, source: int, target: int, time: int
) -> tuple[int, int]:
    """The way on which a piece is there first, and when it would go; none: -1."""
    pair = source * at[s.PLACES] + target
    first = net[at[s.WAY_START] + pair]
    stop = first + net[at[s.WAY_COUNT] + pair]
    best, begin, finish, avoided = -1, 0, s.NEVER, 2
    for way in range(first, stop):
        shunned = net[at[s.WAY_AVOIDED] + way] * at[s.AVOID]
        if shunned > avoided:
            continue
        cycles = length(net, at, piece, way)
        start = find_gap(st, at, net[at[s.WAY_CARRIER] + way], time, cycles)
        if shunned < avoided or start + cycles < finish:
            best, begin, finish, avoided = way, start, start + cycles, shunned
    return best, begin


@njit(cache=True)
def _next_use(net: Column, st: Column, at: Column, piece: int, core: int) -> int:
    """The rank of the next tile of a core that reads a piece."""
    soonest = s.NEVER
    for use in range(net[at[s.USE_START] + piece], net[at[s.USE_START] + piece + 1]):
        part = net[at[s.USE_PART] + use]
        following = st[at[s.FOLLOWING] + part]
        if st[at[s.CORE_OF] + part] == core and net[at[s.USE_LAST] + use] >= following:
            tile = max(net[at[s.USE_FIRST] + use], following)
            soonest = min(soonest, net[at[s.RANK] + tile])
    return soonest


@njit(cache=True)
def _victim(net: Column, st: Column, at: Column, place: int, tile: int) -> tuple[int, bool]:
    """The piece in a memory that is needed last, and whether another memory has it too. Pieces of
    the tile in work stay (-1: there are only such); so does what has no way to the outside."""
    places, core = at[s.PLACES], net[at[s.PLACE_CORE] + place]
    way_out = net[at[s.WAY_COUNT] + place * places] > 0
    victim, worst, kept = -1, -1, False
    for entry in range(st[at[s.HELD_COUNT] + place]):
        piece = st[at[s.HELD] + place * at[s.PIECES] + entry]
        first = at[s.COPIES] + piece * places * s.RECORD
        copy = first + place * s.RECORD
        if st[copy + s.PINNED] == tile:
            continue
        rank = s.NEVER
        if st[copy + s.USES] > 0:
            rank = _next_use(net, st, at, piece, core)
        if rank <= worst:
            continue
        elsewhere = False
        for other in range(places):
            if other != place and st[first + other * s.RECORD + s.ARRIVE] >= 0:
                elsewhere = True
        if elsewhere or way_out:
            victim, worst, kept = piece, rank, elsewhere
    return victim, kept


@njit(cache=True)
def space(net: Column, st: Column, at: Column, place: int, size: int, tile: int) -> int:
    """From when on a memory has room for so many bytes; -1: never. Where it is full, pieces are
    let go: dropped where another memory has them, else written out."""
    if place == 0:
        return 0
    while st[at[s.FREE] + place] < size:
        victim, kept = _victim(net, st, at, place, tile)
        if victim < 0:
            st[at[s.FAULT]] = s.TOO_SMALL
            st[at[s.FAULT_TILE]] = tile
            st[at[s.FAULT_PLACE]] = place
            return -1
        copy = at[s.COPIES] + (victim * at[s.PLACES] + place) * s.RECORD
        if not kept:
            _book(net, st, at, victim, place, 0, st[copy + s.ARRIVE], False)
            st[at[s.SPILLS]] += 1
        if st[copy + s.USES] > 0:
            st[at[s.WANTED] + victim] += 1
            st[at[s.DROPS]] += 1
        drop_copy(net, st, at, victim, place)
    return free_from(st, at, place, size)


@njit(cache=True)
def _book(
    net: Column,
    st: Column,
    at: Column,
    piece: int,
    source: int,
    target: int,
    ready: int,
    spread: bool,
) -> None:
    """Record the copy of a piece that can go from a time on, on the way on which it is there
    first; over a bus also to all others that need it and have room."""
    size, places, task = net[at[s.SIZE] + piece], at[s.PLACES], st[at[s.TASKS]]
    copies = at[s.COPIES] + piece * places * s.RECORD
    way, begin = _best_way(net, st, at, piece, source, target, ready)
    cycles, carrier = length(net, at, piece, way), net[at[s.WAY_CARRIER] + way]
    finish = begin + cycles
    book_gap(net, st, at, carrier, begin, cycles)
    note_need(st, at, st[copies + source * s.RECORD + s.BRING])
    note_use(st, copies + source * s.RECORD, finish, task)
    if target != 0:
        note_need(st, at, take_bytes(st, at, target, size, begin))
    note_target(st, at, piece, target, finish, task)
    if spread and net[at[s.BUS] + carrier]:
        for other in range(1, places):
            same = net[at[s.BUS_WAY] + way * places + other]
            copy = copies + other * s.RECORD
            if other == source or same < 0 or st[copy + s.USES] <= 0 or st[copy + s.ARRIVE] >= 0:
                continue
            if length(net, at, piece, same) > cycles or st[at[s.FREE] + other] < size:
                continue
            if free_from(st, at, other, size) <= begin:
                note_need(st, at, take_bytes(st, at, other, size, begin))
                note_target(st, at, piece, other, finish, task)
    note_task(st, at, s.COPY, at[s.CORES] + carrier, piece, begin, finish, way)


@njit(cache=True)
def fetch(net: Column, st: Column, at: Column, piece: int, place: int, tile: int) -> bool:
    """Bring a piece to a memory: from where it gets there first, or over others where there is no
    way from any that has it. False where there is no room."""
    places = at[s.PLACES]
    copies = at[s.COPIES] + piece * places * s.RECORD
    source, soonest, hops = -1, s.NEVER, s.NEVER
    for other in range(places):
        there = st[copies + other * s.RECORD + s.ARRIVE]
        if other == place or there < 0:
            continue
        way, begin = _best_way(net, st, at, piece, other, place, there)
        if way >= 0 and begin + length(net, at, piece, way) < soonest:
            source, soonest, hops = other, begin + length(net, at, piece, way), 1
    for other in range(places):
        if hops == 1 or st[copies + other * s.RECORD + s.ARRIVE] < 0:
            continue
        steps, step = 0, other
        while step != place and step >= 0:
            step = net[at[s.NEXT_HOP] + step * places + place]
            steps += 1
        if step == place and steps < hops:
            source, hops = other, steps
    if source < 0:
        st[at[s.FAULT]] = s.TOO_SMALL
        st[at[s.FAULT_TILE]] = tile
        st[at[s.FAULT_PLACE]] = place
        return False
    here = source
    while here != place:
        step = place if hops == 1 else net[at[s.NEXT_HOP] + here * places + place]
        st[copies + here * s.RECORD + s.PINNED] = tile
        if st[copies + step * s.RECORD + s.ARRIVE] < 0:
            ready = space(net, st, at, step, net[at[s.SIZE] + piece], tile)
            if ready < 0:
                return False
            ready = max(ready, st[copies + here * s.RECORD + s.ARRIVE])
            _book(net, st, at, piece, here, step, ready, hops == 1)
        if here != source:
            release_copy(net, st, at, piece, here)
        here = step
    return True
