"""The loop nest of one tile on one core, costed for every order of its loops; compiled.

Every memory of an operand holds as many of the innermost loops as fit. What it holds is exchanged
with the memory above once per turn of those loops: within the whole turn where there is room for
two (double buffering), else only while its outermost loops do not change it. Transfers that share a
port add up; where they need more cycles than they may take, the array waits. Before the first and
after the last turn there is a time of loading and of unloading.

Orders are looked at loop by loop, innermost first. What a memory holds is known when the first loop
does not fit, and with it its transfers. An order that is begun is left as soon as what is known of
it is no better than the best, or the same was looked at in another order; it is complete as soon
as the order of the rest is all the same.
"""

from typing import Any

import numpy as np

from tilewright.compiled import njit

Reals = Any  # arrays as compiled code sees them: their elements are plain numbers
Ints = Any

# All quantities are reals that are whole: a processor divides them several times faster than
# integers. There are few arrays, as compiled functions copy what describes each to whom they call.

B, K, G, OX, OY, C, FX, FY = range(8)
INPUT, WEIGHT, OUTPUT = range(3)
# Columns of a memory, by operand and level: size; bits per cycle, bits of the smallest access and
# number of the port, for reads to below, writes from above, writes from below and reads to above;
# pJ of a read and of a write; how many such memories work; spatial extents of the eight loops below
# one of them.
SIZE, TO_LOW, FROM_HIGH, FROM_LOW, TO_HIGH, READ, WRITE, MANY, INSIDE = (
    0,
    1,
    4,
    7,
    10,
    13,
    14,
    15,
    16,
)
FIELDS = INSIDE + 8
# Columns of a tile: strides and dilations; bits of inputs, weights, results and partial results;
# steps of all its loops that are not unrolled; whether it is pointwise; by operand how many levels
# there are (none: it has no such operand), and for each loop whether it changes what is touched.
WINDOW, WIDTH, RESULT, PARTIAL, TOTAL, POINTWISE, LEVELS, MOVES = 0, 4, 6, 7, 8, 9, 10, 13
FACTS = MOVES + 3 * 8
# Columns of an operand within an order that is begun, behind the extents of the eight loops that
# its memory holds: the elements they touch, the steps of a turn, those at its end and those at the
# very start in which nothing of it changes (below zero once something has), the number of the
# memory, and cycles of loading.
ONE, TURN, STILL, STEADY, LEVEL, LOADED = range(8, 14)
# A further row is of all operands together: energy, cycles of unloading, duties, loops to come that
# sum up, memories that are full; then by port the cycles that duties make the array wait alone.
ALL = 3
ENERGY, UNLOADED, DUTIES, SUMS, CLOSED, LATE = range(6)
# Columns of a duty: port, cycles it takes, cycles it may take, turns.
PORT, TAKES, MAY, TURNS = range(4)
MOST_DUTIES = 32


@njit(cache=True)
def _elements(tile: Reals, op: int, now: Reals, d: int) -> float:
    """Elements of an operand that the loops its memory holds touch."""
    if op == OUTPUT or tile[POINTWISE]:
        return now[d, op, B] * now[d, op, K] * now[d, op, G] * now[d, op, OX] * now[d, op, OY]
    if op == WEIGHT:
        return now[d, op, K] * now[d, op, G] * now[d, op, C] * now[d, op, FX] * now[d, op, FY]
    ox, oy, fx, fy = now[d, op, OX], now[d, op, OY], now[d, op, FX], now[d, op, FY]
    columns = (ox - 1) * tile[WINDOW] + (fx - 1) * tile[WINDOW + 2] + 1
    rows = (oy - 1) * tile[WINDOW + 1] + (fy - 1) * tile[WINDOW + 3] + 1
    all_channels = now[d, op, B] * now[d, op, G] * now[d, op, C]
    return all_channels * min(columns, ox * fx) * min(rows, oy * fy)


@njit(cache=True)
def _cycles(unit: float, lower: float, every: float, upper: float) -> float:
    """Cycles of a transfer at the ports of both its ends."""
    return max(np.ceil(unit / lower), np.ceil(every / upper))


@njit(cache=True)
def _accesses(bits: float, wide: float, least: float) -> float:
    """Accesses of so many bits, in whole smallest ones: a narrow one is its share of a wide one."""
    return np.ceil(bits / least) * least / wide


@njit(cache=True)
def _add(
    duties: Reals, now: Reals, d: int, port: float, takes: float, may: float, turns: float
) -> None:
    """One more duty."""
    number = int(now[d, ALL, DUTIES])
    now[d, ALL, DUTIES] += 1
    duties[number, PORT] = port
    duties[number, TAKES] = takes
    duties[number, MAY] = may
    duties[number, TURNS] = turns
    now[d, ALL, LATE + int(port)] += max(0.0, (takes - may) * (turns - 1))


@njit(cache=True)
def _waits(duties: Reals, now: Reals, d: int, total: float) -> float:
    """Cycles that the array waits for its slowest port."""
    count, worst = int(now[d, ALL, DUTIES]), 0.0
    for first in range(count):
        port, many = duties[first, PORT], 0
        early, windows, union, rest = 0.0, 0.0, 0.0, 0.0
        for k in range(count):
            if duties[k, PORT] == port:
                if k < first:
                    break  # counted already
                may, turns = duties[k, MAY], duties[k, TURNS]
                early += min(0.0, (duties[k, TAKES] - may) * (turns - 1))
                windows += may * (turns - 1)
                union = max(union, may * turns)
                many += 1
        late = now[d, ALL, LATE + int(port)]
        if many > 1:
            # Windows of other duties may lie beside the longest: at most all of the time.
            for k in range(first, count):
                own = duties[k, MAY] * duties[k, TURNS]
                if duties[k, PORT] == port and own < union:
                    rest += float(int(own * (1.0 - union / total)))
            late += max(0.0, early + windows - min(total, union + rest))
        worst = max(worst, late)
    return worst


@njit(cache=True)
def _each_cycle(memories: Reals, tile: Reals, op: int, bits: float, way: int) -> float:
    """Accesses of the innermost memory over all cycles."""
    accesses = _accesses(bits, memories[op, 0, way], memories[op, 0, way + 1])
    return accesses * memories[op, 0, MANY] * tile[TOTAL]


@njit(cache=True)
def _begin(memories: Reals, tile: Reals, op: int, duties: Reals, now: Reals) -> None:
    """An operand before the first loop. The array itself: one access of the innermost memory in
    each cycle; partial results are read too where there is something to sum up."""
    for loop in range(8):
        now[0, op, loop] = memories[op, 0, INSIDE + loop]
    one = _elements(tile, op, now, 0)
    now[0, op, ONE] = one
    now[0, op, TURN] = now[0, op, STILL] = now[0, op, STEADY] = 1.0
    way = FROM_LOW if op == OUTPUT else TO_LOW
    bits = one * tile[PARTIAL if op == OUTPUT else WIDTH + op]
    takes = np.ceil(bits / memories[op, 0, way])
    _add(duties, now, 0, memories[op, 0, way + 2], takes, 1.0, tile[TOTAL])
    if op == OUTPUT:
        written = _each_cycle(memories, tile, op, bits, FROM_LOW)
        now[0, ALL, ENERGY] += written * memories[op, 0, WRITE]
        if now[0, ALL, SUMS] > 0:
            read = _each_cycle(memories, tile, op, bits, TO_LOW)
            now[0, ALL, ENERGY] += read * memories[op, 0, READ]
            if tile[LEVELS + op] == 1:
                takes = np.ceil(bits / memories[op, 0, TO_LOW])
                _add(duties, now, 0, memories[op, 0, TO_LOW + 2], takes, 1.0, tile[TOTAL])


@njit(cache=True)
def _settle(memories: Reals, tile: Reals, op: int, now: Reals, d: int) -> None:
    """The first loop that changes an input: until it turns, the array does not read again."""
    steady = now[d, op, STEADY]
    now[d, op, STEADY] = -1.0
    if op != OUTPUT:
        bits = now[0, op, ONE] * tile[WIDTH + op]
        read = _each_cycle(memories, tile, op, bits, TO_LOW) / steady
        now[d, ALL, ENERGY] += read * memories[op, 0, READ]


@njit(cache=True)
def _exchange(
    memories: Reals,
    tile: Reals,
    op: int,
    level: int,
    bits: float,
    above: float,
    way: int,
    may: float,
    turn: float,
    duties: Reals,
    now: Reals,
    d: int,
) -> float:
    """What a memory gets from the one above (`way` is FROM_HIGH) or gives to it, once a turn; one
    above serves so many of it. Duties of both ports, energy; its cycles."""
    back = TO_LOW if way == FROM_HIGH else FROM_LOW
    here, there = (WRITE, READ) if way == FROM_HIGH else (READ, WRITE)
    lower, upper = memories[op, level, way], memories[op, level + 1, back]
    turns, every = tile[TOTAL] / turn, above * bits
    takes = _cycles(bits, lower, every, upper)
    _add(duties, now, d, memories[op, level, way + 2], takes, may, turns)
    _add(duties, now, d, memories[op, level + 1, back + 2], takes, may, turns)
    accesses = _accesses(bits, lower, memories[op, level, way + 1]) * turns
    now[d, ALL, ENERGY] += accesses * memories[op, level, MANY] * memories[op, level, here]
    accesses = _accesses(every, upper, memories[op, level + 1, back + 1]) * turns
    now[d, ALL, ENERGY] += accesses * memories[op, level + 1, MANY] * memories[op, level + 1, there]
    return takes


@njit(cache=True)
def _close(
    memories: Reals, tile: Reals, op: int, partial: bool, duties: Reals, now: Reals, d: int
) -> None:
    """An operand's memory holds all it can: its exchange with the one above. `partial`: results
    that are not complete come back."""
    level, one, turn = int(now[d, op, LEVEL]), now[d, op, ONE], now[d, op, TURN]
    total, width = tile[TOTAL], tile[PARTIAL if op == OUTPUT else WIDTH + op]
    may = turn if 2 * one * width <= memories[op, level, SIZE] else turn / now[d, op, STILL]
    for loop in range(8):
        below, beyond = memories[op, level, INSIDE + loop], memories[op, level + 1, INSIDE + loop]
        if below != beyond:
            now[d, op, loop] *= beyond / below
    now[d, op, LEVEL] += 1
    now[d, op, ONE] = _elements(tile, op, now, d)
    now[d, ALL, CLOSED] += 1
    above = now[d, op, ONE] / one
    if op != OUTPUT:
        bits, way, back = one * width, FROM_HIGH, TO_LOW
        takes = _exchange(memories, tile, op, level, bits, above, way, may, turn, duties, now, d)
    else:
        bits, way, back = one * (width if partial else tile[RESULT]), TO_HIGH, FROM_LOW
        if partial:
            _exchange(memories, tile, op, level, bits, above, FROM_HIGH, may, turn, duties, now, d)
        _exchange(memories, tile, op, level, bits, above, way, may, turn, duties, now, d)
        bits = one * tile[RESULT]
        takes = _cycles(bits, memories[op, level, way], above * bits, memories[op, level + 1, back])
    # The array does nothing in the first or last exchange. What passes only once does so while
    # others compute, but for a memory's own part.
    if turn == total:
        own = _cycles(bits, memories[op, level, way], bits, memories[op, level + 1, back])
        takes = max(own, takes - total)
    if op != OUTPUT:
        now[d, op, LOADED] += takes
    else:
        now[d, ALL, UNLOADED] += takes


@njit(cache=True)
def _take(memories: Reals, tile: Reals, code: int, duties: Reals, now: Reals, d: int) -> None:
    """The next loop: for every operand in the innermost memory that has room for it."""
    loop, factor = code & 7, float(code >> 3)
    for op in range(3):
        moves = tile[MOVES + 8 * op + loop] > 0
        if now[d, op, STEADY] > 0:
            if moves:
                _settle(memories, tile, op, now, d)
            else:
                now[d, op, STEADY] *= factor
        width = tile[PARTIAL if op == OUTPUT else WIDTH + op]
        while now[d, op, LEVEL] < tile[LEVELS + op] - 1:
            before, more = now[d, op, loop], now[d, op, ONE]
            now[d, op, loop] = before * factor
            if moves:
                more = _elements(tile, op, now, d)
            if more * width <= memories[op, int(now[d, op, LEVEL]), SIZE]:
                now[d, op, ONE] = more
                now[d, op, TURN] *= factor
                now[d, op, STILL] = 1.0 if moves else now[d, op, STILL] * factor
                break
            now[d, op, loop] = before
            _close(memories, tile, op, now[d, ALL, SUMS] > 0, duties, now, d)
    now[d, ALL, SUMS] -= 1.0 - tile[MOVES + 8 * OUTPUT + loop]


@njit(cache=True)
def _end(memories: Reals, tile: Reals, outer: Ints, duties: Reals, now: Reals, d: int) -> float:
    """The cycles of an order whose loops are all taken but for the outer ones."""
    for k in range(outer.size):
        _take(memories, tile, outer[k], duties, now, d)
    for op in range(3):
        if now[d, op, STEADY] > 0:
            _settle(memories, tile, op, now, d)
        while now[d, op, LEVEL] < tile[LEVELS + op] - 1:
            _close(memories, tile, op, False, duties, now, d)
    return _loading(now, d) + tile[TOTAL] + _waits(duties, now, d, tile[TOTAL])


@njit(cache=True)
def _loading(now: Reals, d: int) -> float:
    return max(now[d, INPUT, LOADED], now[d, WEIGHT, LOADED]) + now[d, ALL, UNLOADED]


@njit(cache=True)
def _beaten(cycles: float, energy: float, best: Reals) -> bool:
    """Whether something is no better than the best."""
    return cycles > best[0] or (cycles == best[0] and energy >= best[1])


@njit(cache=True)
def _hopeless(tile: Reals, now: Reals, d: int, best: Reals) -> bool:
    """Whether the transfers that are known take too long."""
    late = 0.0
    for port in range(LATE, now.shape[2]):
        late = max(late, now[d, ALL, port])
    return _beaten(tile[TOTAL] + _loading(now, d) + late, now[d, ALL, ENERGY], best)


@njit(cache=True)
def _decided(tile: Reals, now: Reals, d: int) -> bool:
    """Whether the loops to come no longer matter."""
    for op in range(3):
        if now[d, op, STEADY] > 0 or now[d, op, LEVEL] < tile[LEVELS + op] - 1:
            return False
    return True


@njit(cache=True)
def _seen(tile: Reals, codes: Ints, path: Ints, now: Reals, d: int) -> bool:
    """Whether the last two loops give the same in their other order, which was looked at: both
    change the same operands, and neither found a memory full."""
    if d < 2 or path[d - 2] <= path[d - 1] or now[d, ALL, CLOSED] > now[d - 2, ALL, CLOSED]:
        return False
    first, second = codes[path[d - 2]] & 7, codes[path[d - 1]] & 7
    same = True
    for op in range(3):
        same = same and tile[MOVES + 8 * op + first] == tile[MOVES + 8 * op + second]
    return same


@njit(cache=True)
def best_order(
    memories: Reals,
    tile: Reals,
    ports: int,
    codes: Ints,
    left: Ints,
    outer: Ints,
    best: Reals,
    order: Ints,
) -> bool:
    """Whether an order of the loops, innermost first, has fewer cycles than `best`, or as many and
    less energy; the best such is left in `best` and `order`. A code is a factor times 8 plus its
    loop: `codes` are distinct and sorted, `left` says how many there are of each; `outer` stay
    outside."""
    count = order.size
    duties = np.empty((MOST_DUTIES, 4), np.float64)
    now = np.zeros((count + 1, 4, max(LOADED + 1, LATE + ports)), np.float64)  # by loops taken
    for k in range(codes.size):
        now[0, ALL, SUMS] += left[k] * (1.0 - tile[MOVES + 8 * OUTPUT + (codes[k] & 7)])
    for k in range(outer.size):
        now[0, ALL, SUMS] += 1.0 - tile[MOVES + 8 * OUTPUT + (outer[k] & 7)]
    for op in range(3):
        if tile[LEVELS + op] > 0:
            _begin(memories, tile, op, duties, now)
    path = np.empty(count + 1, np.int64)  # loops taken, by their place in `codes`
    path[0] = -1
    d, better = 0, False
    while d >= 0:
        ended = d == count or (d > 0 and path[d] < 0 and _decided(tile, now, d))
        if ended:
            cycles = _end(memories, tile, outer, duties, now, d)
            if not _beaten(cycles, now[d, ALL, ENERGY], best):
                best[0], best[1], better = cycles, now[d, ALL, ENERGY], True
                _write(codes, left, path, d, order)
        else:
            path[d] += 1
            while path[d] < codes.size and left[path[d]] == 0:
                path[d] += 1
        if ended or path[d] == codes.size:  # back to the loop before
            d -= 1
            if d >= 0:
                left[path[d]] += 1
            continue
        for row in range(4):
            for k in range(now.shape[2]):
                now[d + 1, row, k] = now[d, row, k]
        _take(memories, tile, codes[path[d]], duties, now, d + 1)
        if not _hopeless(tile, now, d + 1, best) and not _seen(tile, codes, path, now, d + 1):
            left[path[d]] -= 1
            d += 1
            path[d] = -1
    return better


@njit(cache=True)
def _write(codes: Ints, left: Ints, path: Ints, d: int, order: Ints) -> None:
    """The loops taken, then those that are left."""
    for k in range(d):
        order[k] = codes[path[k]]
    for k in range(codes.size):
        for _ in range(left[k]):
            order[d] = codes[k]
            d += 1
