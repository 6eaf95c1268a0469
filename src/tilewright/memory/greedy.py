"""Fast allocation: place buffers one after the other, in the best of several orders.

A placed buffer never moves. Each new buffer looks only at placed buffers it shares time with,
found in a tree over lifetimes, so that long programs of short lifetimes cost about n log n. Where
most share time with most, looking through all of them in order of their offsets is faster.
"""

from collections.abc import Iterator

import numpy as np

from tilewright.compiled import njit
from tilewright.memory.heap import drop_least, push
from tilewright.memory.rectangles import IntArray, Rectangles, live_bytes

REPAIR_ROUNDS = 40
"""How often the best order is retried with its overshooting buffers moved to the front."""

REPAIR_WORK = 100_000
"""Repair rounds are cut so that about this many buffers are placed in all of them."""

CROWDED = 12
"""Where a buffer shares time with more than one in so many, all are looked through."""


@njit()
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


@njit()
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
) -> IntArray:
    """Offsets from placing buffers in the given order; the first `fixed_count` of it are pinned.

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
    for rank in range(count):
        buffer = int(order[rank])
        if rank >= fixed_count:
            queued = 0
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
    return offset


def _orders(rectangles: Rectangles) -> Iterator[IntArray]:
    """Orders worth trying: big, long or contended buffers first, or as the program runs."""
    size = rectangles.size
    duration = rectangles.last - rectangles.first
    pressure = live_bytes(rectangles, size)[rectangles.first]
    keys = (
        (-size, -duration),
        (-(size * duration), -size),
        (-duration, -size),
        (-pressure, -size),
        (rectangles.first, -size),
    )
    for major, minor in keys:
        yield np.lexsort((minor, major))


def greedy(rectangles: Rectangles, target: int) -> IntArray:
    """Offsets for all buffers, at the lowest peak found; stops early at or below `target`.

    Pinned buffers keep their offsets; all alignments hold; there is no capacity.
    """
    pinned = np.flatnonzero(rectangles.pinned)
    by_start = np.argsort(rectangles.first, kind="stable")
    slots = np.arange(rectangles.slots + 1)
    started = np.searchsorted(rectangles.first[by_start], slots).astype(np.int64)
    over = np.searchsorted(np.sort(rectangles.last), rectangles.first, side="right")
    meeting = int((started[rectangles.last] - over).sum())
    crowded = meeting * CROWDED > rectangles.count**2

    def place(order: IntArray, best_fit: bool) -> tuple[int, IntArray]:
        movable = order[~rectangles.pinned[order]]
        offsets = _place(
            np.concatenate((pinned, movable)),
            rectangles.first,
            rectangles.last,
            rectangles.size,
            rectangles.alignment,
            rectangles.offset,
            len(pinned),
            by_start,
            started,
            crowded,
            best_fit,
        )
        return int((offsets + rectangles.size).max()), offsets

    best_order = by_start
    best_peak, best_offsets = place(best_order, False)
    for order in _orders(rectangles):
        if best_peak <= target:
            return best_offsets
        peak, offsets = place(order, False)
        if peak < best_peak:
            best_peak, best_offsets, best_order = peak, offsets, order
    peak, offsets = place(best_order, True)
    if peak < best_peak:
        best_peak, best_offsets = peak, offsets
    order, offsets = best_order, best_offsets
    for _ in range(min(REPAIR_ROUNDS, REPAIR_WORK // rectangles.count)):
        if best_peak <= target:
            break
        over = (offsets + rectangles.size > target)[order]
        order = np.concatenate((order[over], order[~over]))
        peak, offsets = place(order, False)
        if peak < best_peak:
            best_peak, best_offsets = peak, offsets
    return best_offsets
