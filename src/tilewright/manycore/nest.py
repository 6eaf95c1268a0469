"""The loop nest of one tile on one core, costed for every order of its loops; compiled.

Every memory of an operand holds as many of the innermost loops as fit. What it holds is exchanged
with the memory above once per turn of those loops: within the whole turn where there is room for
two (double buffering), else only while its outermost loops do not change it. Transfers that share a
port add up; where they need more cycles than they may take, the array waits. Before the first and
after the last turn there is a time of loading and of unloading.
"""

from typing import Any

import numpy as np

from tilewright.compiled import njit

Reals = Any  # arrays as compiled code sees them: their elements are plain numbers
Ints = Any

B, K, G, OX, OY, C, FX, FY = range(8)
INPUT, WEIGHT, OUTPUT = range(3)
# Columns of a memory: size; then bits per cycle, bits of the smallest access and number of the
# port, for reads to below, writes from above, writes from below and reads to above. All quantities
# are reals that are whole: a processor divides them several times faster than integers.
SIZE, TO_LOW, FROM_HIGH, FROM_LOW, TO_HIGH = 0, 1, 4, 7, 10
FIELDS = 13
# Columns of a duty: port, cycles it takes, cycles it may take, turns.
PORT, TAKES, MAY, TURNS = range(4)
MOST_DUTIES = 32
# Columns of widths: bits of inputs, weights, results and partial results.
RESULT, PARTIAL = 2, 3


@njit(cache=True)
def _elements(operand: int, q: Reals, window: Reals, pointwise: bool) -> float:
    """Elements of an operand that loops of these extents touch."""
    if operand == OUTPUT or pointwise:
        return q[B] * q[K] * q[G] * q[OX] * q[OY]
    if operand == WEIGHT:
        return q[K] * q[G] * q[C] * q[FX] * q[FY]
    columns = (q[OX] - 1) * window[0] + (q[FX] - 1) * window[2] + 1
    rows = (q[OY] - 1) * window[1] + (q[FY] - 1) * window[3] + 1
    return q[B] * q[G] * q[C] * min(columns, q[OX] * q[FX]) * min(rows, q[OY] * q[FY])


@njit(cache=True)
def _add(duties: Reals, port: float, takes: float, may: float, turns: float) -> None:
    """One more duty; the first row's port counts them."""
    number = int(duties[0, PORT]) + 1
    duties[0, PORT] = number
    duties[number, PORT] = port
    duties[number, TAKES] = takes
    duties[number, MAY] = may
    duties[number, TURNS] = turns


@njit(cache=True)
def _waits(duties: Reals, total: float) -> float:
    """Cycles that the array waits for its slowest port."""
    worst = 0.0
    count = int(duties[0, PORT]) + 1
    for first in range(1, count):
        port = duties[first, PORT]
        seen = False
        for earlier in range(1, first):
            seen = seen or duties[earlier, PORT] == port
        if seen:
            continue
        late, early, windows, union, many = 0.0, 0.0, 0.0, 0.0, 0
        for k in range(first, count):
            if duties[k, PORT] != port:
                continue
            turns = duties[k, TURNS]
            over = (duties[k, TAKES] - duties[k, MAY]) * (turns - 1)
            late += max(0.0, over)
            early += min(0.0, over)
            windows += duties[k, MAY] * (turns - 1)
            union = max(union, duties[k, MAY] * turns)
            many += 1
        if many > 1:
            # Windows of other duties may lie beside the longest: at most all of the time.
            free, rest = 1.0 - union / total, 0.0
            for k in range(first, count):
                own = duties[k, MAY] * duties[k, TURNS]
                if duties[k, PORT] == port and own < union:
                    rest += float(int(own * free))
            late += max(0.0, early + windows - min(total, union + rest))
        worst = max(worst, late)
    return worst


@njit(cache=True)
def _cycles(unit: float, lower: float, every: float, upper: float) -> float:
    """Cycles of a transfer at the ports of both its ends."""
    return max(np.ceil(unit / lower), np.ceil(every / upper))


@njit(cache=True)
def _accesses(bits: float, wide: float, least: float) -> float:
    """Accesses of so many bits, in whole smallest ones: a narrow one is its share of a wide one."""
    return np.ceil(bits / least) * least / wide


@njit(cache=True)
def _operand(
    op: int,
    loops: Ints,
    factors: Reals,
    moves: Ints,
    total: float,
    inside: Reals,
    instances: Reals,
    levels: Reals,
    prices: Reals,
    depth: int,
    window: Reals,
    widths: Reals,
    pointwise: bool,
    duties: Reals,
    q: Reals,
    result: Reals,
) -> None:
    """Duties of one operand's ports; its energy, loading and unloading are added to `result`.

    `inside[op, level]` are the spatial extents below one memory of the level, `instances` how many
    of these memories work, `depth` how many levels there are."""
    count, reading = loops.size, op != OUTPUT
    # The array itself: one access of the innermost memory in each cycle.
    width = widths[op] if reading else widths[PARTIAL]
    for dim in range(8):
        q[dim] = inside[op, 0, dim]
    below = _elements(op, q, window, pointwise) * width
    steady, reduces = 1.0, False  # what does not change from one cycle to the next is not read
    for k in range(count):
        if moves[op, loops[k]]:
            break
        steady *= factors[k]
    way = TO_LOW if reading else FROM_LOW
    rate = levels[op, 0, way]
    accesses = _accesses(below, rate, levels[op, 0, way + 1]) * instances[op, 0] * total
    if reading:
        result[1] += accesses / steady * prices[op, 0, 0]
    else:
        result[1] += accesses * prices[op, 0, 1]
    _add(duties, levels[op, 0, way + 2], np.ceil(below / rate), 1.0, total)
    if not reading:
        for k in range(count):
            reduces = reduces or not moves[OUTPUT, loops[k]]
    if reduces:
        rate = levels[op, 0, TO_LOW]
        accesses = _accesses(below, rate, levels[op, 0, TO_LOW + 1]) * instances[op, 0] * total
        result[1] += accesses * prices[op, 0, 0]
        if depth == 1:
            _add(duties, levels[op, 0, TO_LOW + 2], np.ceil(below / rate), 1.0, total)
    held, loaded, turn = 0, 0.0, 1.0
    for level in range(depth - 1):
        size = levels[op, level, SIZE]
        # As many loops as fit, the memory's units below included.
        one = _elements(op, q, window, pointwise)
        while held < count:
            q[loops[held]] *= factors[held]
            more = _elements(op, q, window, pointwise)
            if more * width > size:
                q[loops[held]] /= factors[held]
                break
            one = more
            turn *= factors[held]
            held += 1
        still, partial = 1.0, False
        for k in range(held - 1, -1, -1):
            if moves[op, loops[k]]:
                break
            still *= factors[k]
        if not reading:
            for k in range(held, count):
                partial = partial or not moves[OUTPUT, loops[k]]
        turns = total / turn
        allowed = turn if 2 * one * width <= size else turn / still
        for dim in range(8):
            q[dim] *= inside[op, level + 1, dim] / inside[op, level, dim]
        unit = one * (width if reading or partial else widths[RESULT])
        every = _elements(op, q, window, pointwise) * unit / one
        if reading or partial:
            lower, upper = levels[op, level, FROM_HIGH], levels[op, level + 1, TO_LOW]
            real = _cycles(unit, lower, every, upper)
            _add(duties, levels[op, level, FROM_HIGH + 2], real, allowed, turns)
            _add(duties, levels[op, level + 1, TO_LOW + 2], real, allowed, turns)
            accesses = _accesses(unit, lower, levels[op, level, FROM_HIGH + 1])
            result[1] += accesses * turns * instances[op, level] * prices[op, level, 1]
            accesses = _accesses(every, upper, levels[op, level + 1, TO_LOW + 1])
            result[1] += accesses * turns * instances[op, level + 1] * prices[op, level + 1, 0]
            if reading:
                # What is loaded once comes while others compute, but for a memory's own part.
                first = _cycles(unit, lower, unit, upper)
                loaded += max(first, real - total) if turns == 1 else real
        if not reading:
            lower, upper = levels[op, level, TO_HIGH], levels[op, level + 1, FROM_LOW]
            real = _cycles(unit, lower, every, upper)
            _add(duties, levels[op, level, TO_HIGH + 2], real, allowed, turns)
            _add(duties, levels[op, level + 1, FROM_LOW + 2], real, allowed, turns)
            accesses = _accesses(unit, lower, levels[op, level, TO_HIGH + 1])
            result[1] += accesses * turns * instances[op, level] * prices[op, level, 0]
            accesses = _accesses(every, upper, levels[op, level + 1, FROM_LOW + 1])
            result[1] += accesses * turns * instances[op, level + 1] * prices[op, level + 1, 1]
            final = one * widths[RESULT]
            real = _cycles(final, lower, every / unit * final, upper)
            last = _cycles(final, lower, final, upper)
            result[3] += max(last, real - total) if turns == 1 else real
    result[2] = max(result[2], loaded)


@njit(cache=True)
def _following(code: Ints) -> bool:
    """The next order of the codes, each distinct one once; False after the last."""
    k = code.size - 2
    while k >= 0 and code[k] >= code[k + 1]:
        k -= 1
    if k < 0:
        return False
    j = code.size - 1
    while code[j] <= code[k]:
        j -= 1
    code[k], code[j] = code[j], code[k]
    low, high = k + 1, code.size - 1
    while low < high:
        code[low], code[high] = code[high], code[low]
        low += 1
        high -= 1
    return True


@njit(cache=True)
def best_order(
    code: Ints,
    outer: Ints,
    moves: Ints,
    inside: Reals,
    instances: Reals,
    levels: Reals,
    prices: Reals,
    depth: Ints,
    window: Reals,
    widths: Reals,
    pointwise: bool,
    weighted: bool,
    best: Reals,
    order: Ints,
) -> None:
    """The order of the loops, innermost first, with the fewest cycles, then the least energy. A
    code is a factor times 8 plus its loop; `code` is sorted at the start, `outer` stays outside.
    `moves[operand, loop]` says whether a loop changes what it touches of an operand."""
    loops = np.empty(code.size + outer.size, np.int64)
    factors = np.empty(code.size + outer.size, np.float64)
    for k in range(outer.size):
        loops[code.size + k] = outer[k] & 7
        factors[code.size + k] = outer[k] >> 3
    duties = np.empty((MOST_DUTIES, 4), np.float64)
    q = np.empty(8, np.float64)
    result = np.empty(4, np.float64)  # cycles, energy, loading, unloading
    total = 1.0
    for k in range(code.size):
        total *= code[k] >> 3
    for k in range(outer.size):
        total *= outer[k] >> 3
    while True:
        for k in range(code.size):
            loops[k] = code[k] & 7
            factors[k] = code[k] >> 3
        for k in range(4):
            result[k] = 0.0
        duties[0, PORT] = 0.0
        for operand in range(3):
            if operand != WEIGHT or weighted:
                _operand(
                    operand,
                    loops,
                    factors,
                    moves,
                    total,
                    inside,
                    instances,
                    levels,
                    prices,
                    depth[operand],
                    window,
                    widths,
                    pointwise,
                    duties,
                    q,
                    result,
                )
        cycles = total + result[2] + result[3]
        if cycles <= best[0]:
            cycles += _waits(duties, total)
        if cycles < best[0] or (cycles == best[0] and result[1] < best[1]):
            best[0], best[1] = cycles, result[1]
            for k in range(code.size):
                order[k] = code[k]
        if not _following(code):
            return
