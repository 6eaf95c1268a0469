"""Which views of a buffer touch the same bytes.

The strides in use, where each divides the next, are the places of a number system: an offset is a
row of digits and a view a box of digits. Boxes that meet in every digit share bytes. A view that is
no box in these digits (another stride, rows that do not begin at the start of one) gets the box
around it: then a dependency may be false, never missing.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tilewright.compiled import njit
from tilewright.program.program import View
from tilewright.schedule.problem import Flags, Ids, Quantities

Levels = tuple[tuple[int, int], ...]


def overlaps(one: View, other: View) -> bool:
    """Whether two views of a buffer share bytes; True as well where that is hard to tell."""
    if one.buffer != other.buffer:
        return False
    low, high, _ = boxes((one, other))
    return bool(np.all((low[0] <= high[1]) & (low[1] <= high[0])))


def boxes(views: Sequence[View]) -> tuple[Quantities, Quantities, Flags]:
    """First and last digits of every view of one buffer, and whether the box is all the view's."""
    patterns = [pattern(view.shape, view.strides, view.item) for view in views]
    distinct = {known: index for index, known in enumerate(dict.fromkeys(patterns))}
    chain = _chain({stride for _, _, levels in distinct for stride, _ in levels})
    extents = np.zeros((len(distinct), len(chain)), dtype=np.int64)
    whole = np.ones(len(distinct), dtype=np.bool_)
    for (_, reach, levels), index in distinct.items():
        whole[index] = all(stride in chain for stride, _ in levels)
        for stride, count in levels if whole[index] else ((1, reach),):
            extents[index, chain[stride]] += count - 1
    starts = [view.offset + low for view, (low, _, _) in zip(views, patterns, strict=True)]
    which = np.array([distinct[known] for known in patterns], dtype=np.int64)
    return _digits(
        np.array(starts, dtype=np.int64), extents[which], whole[which], np.array([*chain])
    )


@lru_cache(maxsize=4096)
def pattern(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> tuple[int, int, Levels]:
    """The first byte before the offset, the bytes from there to the end, and the levels of
    (stride, count) in between, bytes first."""
    low = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True) if stride < 0)
    axes = sorted((abs(s), n) for n, s in zip(shape, strides, strict=True) if n > 1 and s)
    levels = [(1, item)]
    for stride, count in axes:
        inner, repeats = levels[-1]
        if stride == inner * repeats:
            levels[-1] = (inner, repeats * count)
        else:
            levels.append((stride, count))
    reach = 1 + sum(stride * (count - 1) for stride, count in levels)
    return low, reach, tuple(levels)


def _chain(strides: set[int]) -> dict[int, int]:
    """Strides that divide each other, smallest first, with their position."""
    chain = {1: 0}
    last = 1
    for stride in sorted(strides):
        if stride > last and stride % last == 0:
            chain[stride] = len(chain)
            last = stride
    return chain


@njit()
def _digits(
    start: Quantities, extent: Quantities, whole: Flags, chain: Quantities
) -> tuple[Quantities, Quantities, Flags]:
    """The boxes of runs that begin at `start` and go on by `extent` steps of every stride."""
    count, places = extent.shape
    low = np.empty((count, places), dtype=np.int64)
    high = np.empty((count, places), dtype=np.int64)
    exact = whole.copy()
    for view in range(count):
        first_carry = np.int64(0)
        last_carry = np.int64(0)
        for place in range(places):
            digit = start[view] // chain[place]
            radix = np.int64(0)
            if place + 1 < places:
                radix = chain[place + 1] // chain[place]
                digit %= radix
            first = digit + first_carry
            last = digit + extent[view, place] + last_carry
            if radix > 0:
                first_carry = first // radix
                last_carry = last // radix
                if first_carry == last_carry:
                    first -= first_carry * radix
                    last -= first_carry * radix
                else:
                    if first % radix != 0 or (last + 1) % radix != 0:
                        exact[view] = False
                    first = np.int64(0)
                    last = radix - 1
            low[view, place] = first
            high[view, place] = last
    return low, high, exact


@njit()
def _meet(low: Quantities, high: Quantities, one: int, other: int) -> bool:
    for place in range(low.shape[1] - 1, -1, -1):
        if low[one, place] > high[other, place] or low[other, place] > high[one, place]:
            return False
    return True


@njit()
def _within(low: Quantities, high: Quantities, inner: int, outer: int) -> bool:
    for place in range(low.shape[1]):
        if low[inner, place] < low[outer, place] or high[inner, place] > high[outer, place]:
            return False
    return True


@njit()
def hazards(
    task: Ids, write: Flags, low: Quantities, high: Quantities, exact: Flags
) -> tuple[Ids, int]:
    """Pairs (earlier, later) of tasks that touch the same bytes of a buffer, one of them writing.

    Accesses come in program order. What is overwritten as a whole needs to be compared with
    nothing that follows: it comes before the task that overwrote it.
    """
    count = task.size
    found = np.empty((max(16, 2 * count), 2), dtype=np.int32)
    pairs = 0
    writes = np.empty(count, dtype=np.int32)
    reads = np.empty(count, dtype=np.int32)
    write_count = 0
    read_count = 0
    for access in range(count):
        if pairs + write_count + read_count > found.shape[0]:
            larger = np.empty((2 * (pairs + write_count + read_count), 2), dtype=np.int32)
            larger[:pairs] = found[:pairs]
            found = larger
        for side in range(2 if write[access] else 1):
            live = writes if side == 0 else reads
            kept = 0
            for index in range(write_count if side == 0 else read_count):
                other: int = live[index]
                covered = False
                if _meet(low, high, access, other):
                    if task[other] != task[access]:
                        found[pairs, 0] = task[other]
                        found[pairs, 1] = task[access]
                        pairs += 1
                    covered = write[access] and exact[access] and _within(low, high, other, access)
                    if task[other] == task[access]:
                        covered = False
                if not covered:
                    live[kept] = other
                    kept += 1
            if side == 0:
                write_count = kept
            else:
                read_count = kept
        if write[access]:
            writes[write_count] = access
            write_count += 1
        else:
            reads[read_count] = access
            read_count += 1
    return found, pairs
