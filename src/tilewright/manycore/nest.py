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
# port, for reads to below, writes from above, writes from below and reads to above.
SIZE, TO_LOW, FROM_HIGH, FROM_LOW, TO_HIGH = 0, 1, 4, 7, 10
FIELDS = 13
MOST_DUTIES = 32


@njit(cache=True)
def _elements(operand: int, q: Ints, window: Ints, pointwise: bool) -> int:
    """Elements of an operand that loops of these extents touch."""
    if operand == OUTPUT:
        return q[B] * q[K] * q[G] * q[OX] * q[OY]
    if operand == WEIGHT:
        if pointwise:
            return q[B] * q[K] * q[G] * q[OX] * q[OY]
        return q[K] * q[G] * q[C] * q[FX] * q[FY]
    if pointwise:
        return q[B] * q[K] * q[G] * q[OX] * q[OY]
    columns = (q[OX] - 1) * window[0] + (q[FX] - 1) * window[2] + 1
    rows = (q[OY] - 1) * window[1] + (q[FY] - 1) * window[3] + 1
    columns = min(columns, q[OX] * q[FX])
    rows = min(rows, q[OY] * q[FY])
    return q[B] * q[G] * q[C] * columns * rows


@njit(cache=True)
def _moves(operand: int, loop: int, pointwise: bool) -> bool:
    """Whether a loop changes what it touches of an operand."""
    if operand == OUTPUT or pointwise:
        return loop not in (C, FX, FY)
    if operand == WEIGHT:
        return loop in (K, G, C, FX, FY)
    return loop != K


@njit(cache=True)
def _portions(bits: int, least: int, most: int) -> float:
    """Accesses of a memory, in whole ones: a narrow access costs its share of a wide one."""
    return float((bits + least - 1) // least) * least / most


@njit(cache=True)
def _waits(duties: Ints, count: int, total: int) -> int:
    """Cycles that the array waits for its slowest port. A duty: port, cycles it takes, cycles it
    may take, cycles of a turn, turns."""
    worst = 0
    for first in range(count):
        port = duties[first, 0]
        seen = False
        for earlier in range(first):
            seen = seen or duties[earlier, 0] == port
        if seen:
            continue
        positive, negative, windows, union, many = 0, 0, 0, 0, 0
        for k in range(first, count):
            if duties[k, 0] != port:
                continue
            turns = duties[k, 4]
            late = (duties[k, 1] - duties[k, 2]) * (turns - 1)
            positive += max(0, late)
            negative += min(0, late)
            windows += duties[k, 2] * (turns - 1)
            union = max(union, duties[k, 2] * turns)
            many += 1
        if many > 1:
            # Windows of other duties may lie beside the longest: at most all of the time.
            rest = 0
            for k in range(first, count):
                if duties[k, 0] == port:
                    free = 1.0 - union / total
                    if duties[k, 2] * duties[k, 4] < union:
                        rest += int(duties[k, 2] * duties[k, 4] * free)
            union = min(total, union + rest)
            positive += max(0, negative + windows - union)
        worst = max(worst, positive)
    return worst


@njit(cache=True)
def cost_of_order(
    loops: Ints,
    factors: Ints,
    spatial: Ints,
    inside: Ints,
    instances: Ints,
    levels: Ints,
    prices: Reals,
    depth: Ints,
    window: Ints,
    bits: Ints,
    pointwise: bool,
    weighted: bool,
    result: Reals,
) -> None:
    """Cycles and memory energy of one order of the temporal loops, innermost first.

    `inside[operand, level]` are the spatial extents below one memory of the level, `instances` how
    many of these memories work, `depth` how many levels an operand has; `bits` the widths of
    inputs, weights, results and partial results.
    """
    count = loops.size
    total = 1
    for k in range(count):
        total *= factors[k]
    duties = np.empty((MOST_DUTIES, 5), np.int64)
    number = 0
    energy = 0.0
    loading, unloading = 0, 0
    q = np.empty(8, np.int64)
    for operand in range(3):
        if operand == WEIGHT and not weighted:
            continue
        # The array itself: one access of the innermost memory in each cycle.
        width = bits[3] if operand == OUTPUT else bits[operand]
        base = levels[operand, 0]
        below = _elements(operand, inside[operand, 0], window, pointwise) * width
        reading = operand != OUTPUT
        field = TO_LOW if reading else FROM_LOW
        rate, least, port = base[field], base[field + 1], base[field + 2]
        steady = 1  # what does not change from one cycle to the next is not read again
        for k in range(count):
            if _moves(operand, loops[k], pointwise):
                break
            steady *= factors[k]
        accesses = total / (steady if reading else 1)
        portions = _portions(below, least, rate) * accesses * instances[operand, 0]
        energy += portions * prices[operand, 0, 0 if reading else 1]
        duties[number] = (port, (below + rate - 1) // rate, 1, 1, total)
        number += 1
        reduces = False
        for k in range(count):
            reduces = reduces or not _moves(OUTPUT, loops[k], pointwise)
        if operand == OUTPUT and reduces:
            rate, least, port = base[TO_LOW], base[TO_LOW + 1], base[TO_LOW + 2]
            portions = _portions(below, least, rate) * total * instances[operand, 0]
            energy += portions * prices[operand, 0, 0]
            if depth[operand] == 1:
                duties[number] = (port, (below + rate - 1) // rate, 1, 1, total)
                number += 1
        held = 0
        loaded = 0
        for level in range(depth[operand] - 1):
            low, high = levels[operand, level], levels[operand, level + 1]
            # As many loops as fit, the memory's units below included.
            for dim in range(8):
                q[dim] = inside[operand, level, dim]
            for k in range(held):
                q[loops[k]] *= factors[k]
            while held < count:
                q[loops[held]] *= factors[held]
                if _elements(operand, q, window, pointwise) * width > low[SIZE]:
                    q[loops[held]] //= factors[held]
                    break
                held += 1
            turn, still = 1, 1
            for k in range(held):
                turn *= factors[k]
            for k in range(held - 1, -1, -1):
                if _moves(operand, loops[k], pointwise):
                    break
                still *= factors[k]
            partial = False
            if operand == OUTPUT:
                for k in range(held, count):
                    partial = partial or not _moves(OUTPUT, loops[k], pointwise)
            turns = total // turn
            one = _elements(operand, q, window, pointwise) * width
            allowed = turn if 2 * one <= low[SIZE] else turn // still
            for dim in range(8):
                q[dim] = inside[operand, level + 1, dim]
            for k in range(held):
                q[loops[k]] *= factors[k]
            moved = width
            if operand == OUTPUT and not partial:
                moved = bits[2]
            unit = one // width * moved
            every = _elements(operand, q, window, pointwise) * moved
            down = operand != OUTPUT
            if down or partial:
                lower, upper = low[FROM_HIGH], high[TO_LOW]
                real = max((unit + lower - 1) // lower, (every + upper - 1) // upper)
                duties[number] = (low[FROM_HIGH + 2], real, allowed, turn, turns)
                duties[number + 1] = (high[TO_LOW + 2], real, allowed, turn, turns)
                number += 2
                portions = _portions(unit, low[FROM_HIGH + 1], lower) * turns
                energy += portions * instances[operand, level] * prices[operand, level, 1]
                portions = _portions(every, high[TO_LOW + 1], upper) * turns
                energy += portions * instances[operand, level + 1] * prices[operand, level + 1, 0]
                if down:
                    # What is loaded once comes while others compute, but for a memory's own part.
                    first = max((unit + lower - 1) // lower, (unit + upper - 1) // upper)
                    loaded += max(first, real - total) if turns == 1 else real
            if not down:
                lower, upper = low[TO_HIGH], high[FROM_LOW]
                real = max((unit + lower - 1) // lower, (every + upper - 1) // upper)
                duties[number] = (low[TO_HIGH + 2], real, allowed, turn, turns)
                duties[number + 1] = (high[FROM_LOW + 2], real, allowed, turn, turns)
                number += 2
                portions = _portions(unit, low[TO_HIGH + 1], lower) * turns
                energy += portions * instances[operand, level] * prices[operand, level, 0]
                portions = _portions(every, high[FROM_LOW + 1], upper) * turns
                energy += portions * instances[operand, level + 1] * prices[operand, level + 1, 1]
                final = _elements(operand, q, window, pointwise) * bits[2]
                unit = one // width * bits[2]
                real = max((unit + lower - 1) // lower, (final + upper - 1) // upper)
                last = max((unit + lower - 1) // lower, (unit + upper - 1) // upper)
                unloading += max(last, real - total) if turns == 1 else real
        loading = max(loading, loaded)
    result[0] = total + _waits(duties, number, total) + loading + unloading
    result[1] = energy


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
    spatial: Ints,
    inside: Ints,
    instances: Ints,
    levels: Ints,
    prices: Reals,
    depth: Ints,
    window: Ints,
    bits: Ints,
    pointwise: bool,
    weighted: bool,
    best: Reals,
    order: Ints,
) -> None:
    """The order of the loops with the fewest cycles, then the least energy. A code is a factor
    times 8 plus its loop; `code` is sorted at the start."""
    loops = np.empty(code.size, np.int64)
    factors = np.empty(code.size, np.int64)
    result = np.empty(2, np.float64)
    while True:
        for k in range(code.size):
            loops[k] = code[k] % 8
            factors[k] = code[k] // 8
        cost_of_order(
            loops,
            factors,
            spatial,
            inside,
            instances,
            levels,
            prices,
            depth,
            window,
            bits,
            pointwise,
            weighted,
            result,
        )
        if result[0] < best[0] or (result[0] == best[0] and result[1] < best[1]):
            best[0], best[1] = result[0], result[1]
            order[: code.size] = code
        if not _following(code):
            return
