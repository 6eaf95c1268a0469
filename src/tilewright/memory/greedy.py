"""Fast allocation: place buffers one after the other, in the best of several orders.

A placed buffer never moves. Each new buffer looks only at placed buffers it shares time with,
found in a tree over lifetimes, so that long programs of short lifetimes cost about n log n. Where
most share time with most, looking through all of them in order of their offsets is faster.
"""

import numpy as np

from tilewright.compiled import njit
from tilewright.memory.heap import drop_least, push
from tilewright.memory.rectangles import IntArray, Rectangles

REPAIR_ROUNDS = 40
"""How often the best order is retried with its overshooting buffers moved to the front."""

ORDERS = 5
"""Orders that are tried beside that of the program."""

_ENDLESS = 2**62

REPAIR_WORK = 100_000
"""Repair rounds are cut so that about this many buffers are placed in all of them."""

CROWDED = 12
"""Where a buffer shares time with more than one in so many, all are looked through."""


@njit(inner=True)
def _place(
    order: IntArray,
    first: IntArray,
    last: IntArray,
    size: IntArray,
    alignment: IntArray,
    fixed: IntArray,
    fixed_count: int,
    by_start: IntArray,
    started: IntArray,
    crowded: bool,
    best_fit: bool,
    limit: int,
) -> tuple[IntArray, int]:
    """Offsets from placing buffers in the given order, and the highest byte; the first
    `fixed_count` of it are pinned. An order that reaches `limit` is not placed to its end.

    `started[slot]` is the number of buffers that start before the slot, `by_start` all in order;
    `crowded` says how to find those that share time.
    Each buffer takes the lowest gap that holds it or, with `best_fit`, the tightest.
    """
    count = order.size
    ranked = np.empty(count, dtype=np.int64)  # where crowded: all placed ones by offset
    leaves = 1
    while leaves < count and not crowded:
        leaves *= 2
    tree = np.zeros(2 * leaves, dtype=np.int64)
    position = np.empty(count, dtype=np.int64)
    for index in range(count):
        position[by_start[index]] = index
    stack = np.empty(128, dtype=np.int64)
    found = np.empty(count, dtype=np.int64)
    keys = np.empty(count, dtype=np.int64)
    near = np.empty(count, dtype=np.int64)
    offset = fixed.copy()
    peak = np.int64(0)
    for rank in range(count):
        buffer = int(order[rank])
        if rank >= fixed_count:
            queued = int(np.int64(0))  # no literal: one signature of what it is passed to
            hits = 0
            if not crowded:
                end = int(started[last[buffer]])
                hits = _overlapping(tree, int(first[buffer]), end, stack, found)
            for index in range(hits):
                other = int(by_start[found[index]])
                queued = push(keys, near, queued, int(offset[other]), other)
            unit = alignment[buffer]
            here = np.int64(0)
            chosen = np.int64(0)
            tightest = np.int64(0)
            placed = False
            taken = 0
            while queued > 0 or (crowded and taken < rank):
                if crowded:
                    other = ranked[taken]
                    taken += 1
                    if first[other] >= last[buffer] or last[other] <= first[buffer]:
                        continue
                else:
                    other = near[0]
                    queued = drop_least(keys, near, queued)
                gap = offset[other] - here
                if gap >= size[buffer] and (not placed or gap < tightest):
                    chosen = here
                    tightest = gap
                    placed = True
                    if not best_fit:
                        break
                top = offset[other] + size[other]
                if top > here:
                    here = (top + unit - 1) // unit * unit
            offset[buffer] = chosen if placed else here
        peak = max(peak, offset[buffer] + size[buffer])
        if peak >= limit:
            break
        if crowded:
            place = rank
            while place > 0 and offset[ranked[place - 1]] > offset[buffer]:
                ranked[place] = ranked[place - 1]
                place -= 1
            ranked[place] = buffer
            continue
        node = position[buffer] + leaves
        while node >= 1 and tree[node] < last[buffer]:
            tree[node] = last[buffer]
            node //= 2
    return offset, int(peak)


@njit(inner=True)
def _overlapping(tree: IntArray, first: int, end: int, stack: IntArray, found: IntArray) -> int:
    """Collect the placed buffers among the first `end` by start that live beyond slot `first`.

    Buffers are known by their position in order of start, which is their leaf in the tree; a node
    of the tree holds the latest end of the placed buffers below it.
    """
    leaves = tree.size // 2
    count = 0
    stack[0] = 1
    depth = 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if tree[node] <= first:
            continue
        if node >= leaves:
            found[count] = node - leaves
            count += 1
            continue
        # The right child only matters if its leftmost leaf starts before `last`.
        leftmost = 2 * node + 1
        while leftmost < leaves:
            leftmost *= 2
        if leftmost - leaves < end:
            stack[depth] = 2 * node + 1
            depth += 1
        stack[depth] = 2 * node
        depth += 1
    return count


@njit(inner=True)
def ranked(major: IntArray, minor: IntArray) -> IntArray:
    """Numbers in ascending order of `major`, then of `minor`, then their own: merged runs, since
    numpy's sorts take seconds to compile."""
    count = major.size
    order = np.empty(count, dtype=np.int64)
    merged = np.empty(count, dtype=np.int64)
    for index in range(count):
        order[index] = index
    width = 1
    while width < count:
        for begin in range(0, count, 2 * width):
            middle = min(begin + width, count)
            stop = min(begin + 2 * width, count)
            left = begin
            right = middle
            for place in range(begin, stop):
                take_left = right >= stop
                if left < middle and right < stop:
                    one, other = order[left], order[right]
                    same = major[one] == major[other]
                    take_left = major[one] < major[other] or (same and minor[one] <= minor[other])
                if take_left:
                    merged[place] = order[left]
                    left += 1
                else:
                    merged[place] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order


@njit(inner=True)
def _order(kind: int, first: IntArray, last: IntArray, size: IntArray, live: IntArray) -> IntArray:
    """An order worth trying: big, long or contended buffers first, or as the program runs."""
    major = np.empty(size.size, dtype=np.int64)
    minor = np.empty(size.size, dtype=np.int64)
    for buffer in range(size.size):
        minor[buffer] = -size[buffer]
        if kind == 0:
            major[buffer] = -size[buffer]
            minor[buffer] = first[buffer] - last[buffer]
        elif kind == 1:
            major[buffer] = -(size[buffer] * (last[buffer] - first[buffer]))
        elif kind == 2:
            major[buffer] = first[buffer] - last[buffer]
        elif kind == 3:
            major[buffer] = -live[first[buffer]]
        else:
            major[buffer] = first[buffer]
    return ranked(major, minor)


@njit(inner=True)
def _repaired(order: IntArray, offsets: IntArray, size: IntArray, target: int) -> IntArray:
    """The order with what ends above the target first."""
    repaired = np.empty(order.size, dtype=np.int64)
    count = 0
    for turn in range(2):
        for buffer in order:
            if (offsets[buffer] + size[buffer] > target) == (turn == 0):
                repaired[count] = buffer
                count += 1
    return repaired


@njit(inner=True)
def _meetings(first: IntArray, last: IntArray, started: IntArray) -> int:
    """How many pairs of buffers share time, each counted twice and with itself."""
    ended = np.zeros(started.size, dtype=np.int64)
    for buffer in range(last.size):
        ended[last[buffer]] += 1
    for slot in range(1, ended.size):
        ended[slot] += ended[slot - 1]
    meeting = 0
    for buffer in range(first.size):
        meeting += started[last[buffer]] - ended[first[buffer]]
    return int(meeting)


@njit()
def lowest_offsets(
    first: IntArray,
    last: IntArray,
    size: IntArray,
    alignment: IntArray,
    pinned: IntArray,
    offset: IntArray,
    slots: int,
    target: int,
    orders: int,
    repairs: int,
) -> IntArray:
    """Offsets for buffers that live in slots [first, last), at the lowest peak found in so many
    `orders` and after so many `repairs`; stops early at or below `target`. `pinned` are the numbers
    of buffers that keep their `offset`."""
    count = first.size
    by_start = ranked(first, np.zeros(count, dtype=np.int64))
    started = np.zeros(slots + 1, dtype=np.int64)
    live = np.zeros(slots + 1, dtype=np.int64)
    for buffer in range(count):
        if first[buffer] < slots:
            started[first[buffer] + 1] += 1
        live[first[buffer]] += size[buffer]
        live[last[buffer]] -= size[buffer]
    for slot in range(slots):
        started[slot + 1] += started[slot]
        live[slot + 1] += live[slot]
    crowded = _meetings(first, last, started) * CROWDED > count**2
    free = np.ones(count, dtype=np.bool_)
    for buffer in pinned:
        free[buffer] = False
    turns = np.empty(count, dtype=np.int64)
    best_order, order = by_start, by_start
    best, offsets = offset, offset
    best_peak = np.int64(_ENDLESS)
    for attempt in range(orders + 2 + repairs):
        tight = attempt == orders + 1
        if attempt == 0:
            order = by_start
        elif attempt <= orders:
            order = _order(attempt - 1, first, last, size, live)
        elif tight:
            order = best_order
        else:  # repair: what overshoots goes first
            if attempt == orders + 2:
                order, offsets = best_order, best
            order = _repaired(order, offsets, size, target)
        turn = 0
        for buffer in pinned:
            turns[turn] = buffer
            turn += 1
        for buffer in order:
            if free[buffer]:
                turns[turn] = buffer
                turn += 1
        rough = attempt <= orders + 1  # a repair begins with what the one before it has placed
        offsets, peak = _place(
            turns,
            first,
            last,
            size,
            alignment,
            offset,
            pinned.size,
            by_start,
            started,
            crowded,
            tight,
            int(best_peak) if rough else _ENDLESS,
        )
        if peak < best_peak:
            best_peak, best = peak, offsets
            if not tight:
                best_order = order
        if best_peak <= target:
            break
    return best


def greedy(rectangles: Rectangles, target: int) -> IntArray:
    """Offsets for all buffers, at the lowest peak found; stops early at or below `target`.

    Pinned buffers keep their offsets; all alignments hold; there is no capacity.
    """
    return lowest_offsets(
        rectangles.first,
        rectangles.last,
        rectangles.size,
        rectangles.alignment,
        np.flatnonzero(rectangles.pinned),
        rectangles.offset,
        rectangles.slots,
        target,
        ORDERS,
        min(REPAIR_ROUNDS, REPAIR_WORK // rectangles.count),
    )
