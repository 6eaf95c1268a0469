# pyright: basic, reportArgumentType=false, reportReturnType=false
# Numba checks the types of compiled functions; what it infers of arrays, pyright cannot.
"""Dependencies: who wrote what a task reads, and who used what it overwrites.

Which views of a buffer touch the same bytes: the strides in use, where each divides the next, are
the places of a number system. An offset is a row of digits and a view a box of digits; boxes that
meet in every digit share bytes. A view that is no box in these digits (another stride, rows that do
not begin at the start of one) gets the box around it: then a dependency may be false, never
missing.
"""

import numpy as np

from tilewright.compiled import njit
from tilewright.program.columns import Columns, Needs, Views
from tilewright.schedule.problem import Flags, Ids, Quantities


@njit()
def link(columns: Columns, views: Views) -> Needs:
    """For every task, the earlier ones it has to wait for."""
    buffers, accesses = columns.memory.size, columns.buffer.size
    task_of = np.empty(accesses, np.int32)
    writers = np.zeros(buffers, np.int32)
    for task in range(columns.kind.size):
        for access in range(columns.access_start[task], columns.access_start[task + 1]):
            task_of[access] = task
            if columns.write[access]:
                writers[columns.buffer[access]] += 1
    first = np.empty(2 * accesses + 16, np.int32)
    second = np.empty(2 * accesses + 16, np.int32)
    count = _single_writers(columns.buffer, columns.write, task_of, writers, first, second)
    uses = np.zeros(buffers + 1, np.int64)
    for access in range(accesses):
        if writers[columns.buffer[access]] > 1:
            uses[columns.buffer[access] + 1] += 1
    for buffer in range(buffers):
        uses[buffer + 1] += uses[buffer]
    rows = np.empty(uses[buffers], np.int64)
    fill = uses[:buffers].copy()
    for access in range(accesses):
        buffer = columns.buffer[access]
        if writers[buffer] > 1:
            rows[fill[buffer]] = access
            fill[buffer] += 1
    for buffer in range(buffers):
        if uses[buffer + 1] == uses[buffer]:
            continue
        mine = rows[uses[buffer] : uses[buffer + 1]]
        low, high, exact = _boxes(columns.layout, columns.offset, views, mine)
        task = np.empty(mine.size, np.int32)
        write = np.empty(mine.size, np.bool_)
        for row in range(mine.size):
            task[row] = task_of[mine[row]]
            write[row] = columns.write[mine[row]] != 0
        pairs, found = hazards(task, write, low, high, exact)
        if count + found > first.size:
            first = longer(first, 2 * (count + found))
            second = longer(second, 2 * (count + found))
        for pair in range(found):
            first[count] = pairs[pair, 0]
            second[count] = pairs[pair, 1]
            count += 1
    return rows_of(columns.kind.size, first, second, count)


@njit(inner=True)
def _single_writers(
    buffers: Quantities, write: Quantities, task_of: Ids, writers: Ids, first: Ids, second: Ids
) -> int:
    """Buffers that one task writes: readers wait for it, and it for those that read before."""
    count = 0
    writer = np.empty(writers.size, np.int32)
    early = np.empty(writers.size, np.int64)
    for buffer in range(writers.size):
        writer[buffer] = early[buffer] = -1
    behind = np.empty(buffers.size, np.int64)
    for access in range(buffers.size):
        buffer = buffers[access]
        task = task_of[access]
        if writers[buffer] != 1:
            continue
        if write[access]:
            writer[buffer] = task
            reader = early[buffer]
            while reader >= 0:
                if task_of[reader] != task:
                    first[count] = task_of[reader]
                    second[count] = task
                    count += 1
                reader = behind[reader]
        elif writer[buffer] >= 0:
            if writer[buffer] != task:
                first[count] = writer[buffer]
                second[count] = task
                count += 1
        else:
            behind[access] = early[buffer]
            early[buffer] = access
    return count


@njit(inner=True)
def put_sorted(rows: Ids, begin: int, end: int, number: int) -> None:
    """Put a number among those of rows[begin:end], which are in order."""
    while end > begin and rows[end - 1] > number:
        rows[end] = rows[end - 1]
        end -= 1
    rows[end] = number


@njit(inner=True)
def beyond(numbers: Quantities, count: int, x: int) -> int:
    """How many of the first `count` numbers, which grow, are not above x."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] <= x:
            low = middle + 1
        else:
            high = middle
    return low


@njit(inner=True)
def longer(array: Ids, size: int) -> Ids:
    """The same numbers in a larger array."""
    larger = np.empty(size, np.int32)
    for entry in range(array.size):
        larger[entry] = array[entry]
    return larger


@njit(inner=True)
def rows_of(tasks: int, first: Ids, second: Ids, count: int) -> Needs:
    """Pairs (earlier, later) as one sorted row without repeats for each later task."""
    start = np.zeros(tasks + 1, np.int64)
    for pair in range(count):
        start[second[pair] + 1] += 1
    for task in range(tasks):
        start[task + 1] += start[task]
    fill = start[:tasks].copy()
    rows = np.empty(count, np.int32)
    for pair in range(count):
        later = second[pair]
        hole = fill[later]
        while hole > start[later] and rows[hole - 1] > first[pair]:
            rows[hole] = rows[hole - 1]
            hole -= 1
        rows[hole] = first[pair]
        fill[later] += 1
    kept_start = np.zeros(tasks + 1, np.int64)
    kept = 0
    for task in range(tasks):
        last = -1
        for entry in range(start[task], start[task + 1]):
            if rows[entry] != last:
                last = rows[entry]
                rows[kept] = last
                kept += 1
        kept_start[task + 1] = kept
    return Needs(kept_start, rows[:kept].copy())


@njit(inner=True)
def _boxes(
    layout: Quantities, offset: Quantities, views: Views, rows: Quantities
) -> tuple[Quantities, Quantities, Flags]:
    """First and last digits of the views of one buffer, and whether the box is all the view's."""
    chain = _chain(layout, views, rows)
    extent = np.zeros((rows.size, chain.size), np.int64)
    start = np.empty(rows.size, np.int64)
    whole = np.ones(rows.size, np.bool_)
    for row in range(rows.size):
        view = layout[rows[row]]
        start[row] = offset[rows[row]] + views.low[view]
        for level in range(views.level_start[view], views.level_start[view + 1]):
            place = _first_place(chain, chain.size, views.stride[level])
            if place < chain.size and chain[place] == views.stride[level]:
                extent[row, place] += views.repeat[level] - 1
            else:
                whole[row] = False
        if not whole[row]:
            for place in range(chain.size):
                extent[row, place] = 0
            extent[row, 0] = views.reach[view] - 1
    return digits(start, extent, whole, chain)


@njit(inner=True)
def _first_place(ranked: Quantities, count: int, number: int) -> int:
    """How many of the first `count` numbers, in order, are below another one."""
    place = 0
    while place < count and ranked[place] < number:
        place += 1
    return place


@njit(inner=True)
def _chain(layout: Quantities, views: Views, rows: Quantities) -> Quantities:
    """The strides in use that divide each other, smallest first."""
    seen = np.empty(64, np.int64)
    found = 0
    last = -1
    for row in rows:
        view = layout[row]
        if view == last:
            continue
        last = view
        for level in range(views.level_start[view], views.level_start[view + 1]):
            stride = views.stride[level]
            place = _first_place(seen, found, stride)
            if place < found and seen[place] == stride:
                continue
            if found == seen.size:
                larger = np.empty(2 * found, np.int64)
                for entry in range(found):
                    larger[entry] = seen[entry]
                seen = larger
            for entry in range(found, place, -1):
                seen[entry] = seen[entry - 1]
            seen[place] = stride
            found += 1
    chain = np.ones(found + 1, np.int64)
    kept = 1
    for stride in seen[:found]:
        if stride > chain[kept - 1] and stride % chain[kept - 1] == 0:
            chain[kept] = stride
            kept += 1
    return chain[:kept].copy()


@njit()
def digits(
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


@njit(inner=True)
def _meet(low: Quantities, high: Quantities, one: int, other: int) -> bool:
    for place in range(low.shape[1] - 1, -1, -1):
        if low[one, place] > high[other, place] or low[other, place] > high[one, place]:
            return False
    return True


@njit(inner=True)
def _within(low: Quantities, high: Quantities, inner: int, outer: int) -> bool:
    for place in range(low.shape[1]):
        if low[inner, place] < low[outer, place] or high[inner, place] > high[outer, place]:
            return False
    return True


@njit(inner=True)
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
            for pair in range(pairs):
                larger[pair, 0] = found[pair, 0]
                larger[pair, 1] = found[pair, 1]
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
