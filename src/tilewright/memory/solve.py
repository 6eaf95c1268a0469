"""The way in: greedy first, exact search where greedy misses, and a reason where nothing fits."""

import numpy as np

from tilewright.memory.exact import decide, minimise
from tilewright.memory.greedy import greedy
from tilewright.memory.problem import Allocation, Misfit, MisfitReason, Problem
from tilewright.memory.rectangles import (
    IntArray,
    Rectangles,
    components,
    live_bytes,
    needed_bytes,
    rectangles_of,
)

MOST_NODES = 300_000
"""The default node limit of small problems."""

MOST_WORK = 1_000_000_000
"""The default node limit times the lifetimes of all buffers in slots, at most: about 20 s."""


def lower_bound(problem: Problem) -> int:
    """Bytes that no allocation can undercut: the most live at once, with alignment."""
    if not problem.buffers:
        return 0
    return int(needed_bytes(rectangles_of(problem)).max())


def default_node_limit(rectangles: Rectangles, most_work: int = MOST_WORK) -> int:
    """Fewer nodes for larger problems, whose nodes take longer; none if one dive is too much."""
    work = int((rectangles.last - rectangles.first).sum())
    limit = min(MOST_NODES, most_work // work)
    return limit if limit >= 2 * rectangles.count else 0


def _solve(
    part: Rectangles,
    offsets: IntArray,
    aim: int,
    capacity: int | None,
    node_limit: int,
    minimise_peak: bool,
) -> tuple[IntArray, bool, int]:
    """Offsets for one group, whether none have a lower peak, and the nodes it took: greedy ones,
    then exact for the capacity, then exact for the aim."""
    peak = _peak(part, offsets)
    nodes = 0
    if capacity is not None and peak > capacity:
        found = decide(part, capacity, node_limit)
        nodes += found.nodes
        if found.offsets is None:
            return offsets, found.exhausted, nodes
        offsets = found.offsets
        peak = _peak(part, offsets)
    if peak <= aim or not minimise_peak:
        return offsets, False, nodes
    minimum = minimise(part, peak, aim, node_limit - nodes)
    if minimum.offsets is not None:
        offsets = minimum.offsets
    exhausted = minimum.exhausted and _peak(part, offsets) > aim
    return offsets, exhausted, nodes + minimum.nodes


def _peak(rectangles: Rectangles, offsets: IntArray) -> int:
    return int((offsets + rectangles.size).max())


def allocate(
    problem: Problem,
    *,
    target: int | None = None,
    node_limit: int | None = None,
    most_work: int = MOST_WORK,
    minimise_peak: bool = True,
) -> Allocation | Misfit:
    """Offsets for all buffers within the capacity, or the window that does not fit and why.

    Looks for a peak of at most `target` bytes: by default the lower bound, so the lowest peak
    that the nodes allow. With the capacity as target it stops at the first allocation that fits.
    `node_limit` bounds the exact search of each group of buffers that share time; without it,
    the limit follows from the group's size and `most_work`. Without `minimise_peak` there is an
    exact search only for what greedy cannot fit into the capacity at all.
    """
    if not problem.buffers:
        return Allocation(offsets=(), peak=0, lower_bound=0, optimal=True, nodes=0)
    rectangles = rectangles_of(problem)
    bound = int(needed_bytes(rectangles).max())
    capacity = problem.capacity
    if capacity is not None and bound > capacity:
        usage = needed_bytes(rectangles_of(problem, every_change=True))
        return _misfit(problem, usage, capacity, proven=True, nodes=0)
    aim = bound if target is None else max(bound, target)
    if capacity is not None:
        aim = min(aim, capacity)
    offsets = greedy(rectangles, aim)
    ends = offsets + rectangles.size
    optimal, nodes = False, 0
    for group in components(rectangles):
        top = int(ends[group].max())
        if top <= aim or (not minimise_peak and (capacity is None or top <= capacity)):
            continue
        part = rectangles.subset(group)
        limit = default_node_limit(part, most_work) if node_limit is None else node_limit
        # Greedy knows the best for all groups together: alone, one of several may do better.
        first = offsets[group] if part.count == rectangles.count else greedy(part, aim)
        solved, exhausted, used = _solve(part, first, aim, capacity, limit, minimise_peak)
        nodes += used
        offsets[group] = solved
        peak = _peak(part, solved)
        if capacity is not None and peak > capacity:
            usage = _tops(rectangles_of(problem, every_change=True), offsets, group)
            return _misfit(problem, usage, capacity, exhausted, nodes)
        if peak > aim:
            # Later groups need not stay below a peak that is reached anyway.
            aim, optimal = peak, exhausted
    peak = _peak(rectangles, offsets)
    return Allocation(tuple(offsets.tolist()), peak, bound, optimal or peak == bound, nodes)


def _tops(rectangles: Rectangles, offsets: IntArray, group: IntArray) -> IntArray:
    """Per slot, the highest byte that buffers of the group use."""
    tops = np.zeros(rectangles.slots, dtype=np.int64)
    for buffer in group:
        window = slice(rectangles.first[buffer], rectangles.last[buffer])
        tops[window] = np.maximum(tops[window], offsets[buffer] + rectangles.size[buffer])
    return tops


def _misfit(problem: Problem, usage: IntArray, capacity: int, proven: bool, nodes: int) -> Misfit:
    """Describe the time around the highest usage in which usage exceeds the capacity.

    `usage` is in bytes per slot, where every start and stop of a buffer begins a slot.
    """
    rectangles = rectangles_of(problem, every_change=True)
    worst = int(usage.argmax())
    begin, end = worst, worst + 1
    while begin > 0 and usage[begin - 1] > capacity:
        begin -= 1
    while usage[end] > capacity:
        end += 1
    live = (rectangles.first <= worst) & (worst < rectangles.last)
    lacking = int(needed_bytes(rectangles)[worst]) > capacity
    return Misfit(
        start=int(rectangles.times[begin]),
        stop=int(rectangles.times[end]),
        capacity=capacity,
        live_bytes=int(live_bytes(rectangles, rectangles.size)[begin:end].max()),
        short_by=int(usage[worst]) - capacity,
        reason=MisfitReason.CAPACITY if lacking else MisfitReason.FRAGMENTATION,
        buffers=tuple(np.flatnonzero(live).tolist()),
        proven=proven,
        nodes=nodes,
    )
