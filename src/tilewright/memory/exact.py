"""Exact allocation: search at a given ceiling, and lower the ceiling as far as nodes allow.

One search follows one order of preference and may lose itself in a bad early choice. So searches
are short, start over with another order, and lengthen slowly; what one proved hopeless stays
known to the next. All randomness is seeded and limits count nodes: results are reproducible.
"""

from dataclasses import dataclass

import numpy as np

from tilewright.memory.propagate import FloatArray, Packing, State
from tilewright.memory.rectangles import IntArray, Rectangles, live_bytes, round_up
from tilewright.memory.search import FEASIBLE, INFEASIBLE, search

FIRST_RESTART = 1_000
RESTART_GROWTH = 1.3
"""Least nodes of the first searches, and how much longer each later round of orders searches."""

FLUSH_BONUS = 8.0
SPREAD = 0.3
"""Standard deviation of the seeded noise on the logarithm of preferences in later rounds."""

HOPELESS_BITS = 20
"""The memory of hopeless states holds two to this power."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search for offsets found within its nodes: offsets, or None; `exhausted` if there are
    no others that are as low as was asked."""

    offsets: IntArray | None
    exhausted: bool
    nodes: int


def _scale(rectangles: Rectangles, heights: IntArray) -> tuple[int, IntArray]:
    """A unit that divides all offsets of canonical packings, and the alignments in that unit."""
    unit = int(np.gcd.reduce(np.concatenate((heights, rectangles.offset[rectangles.pinned]))))
    if np.all(unit % rectangles.alignment == 0):
        return unit, np.ones_like(rectangles.alignment)
    unit = int(np.gcd.reduce(rectangles.alignment, initial=unit))
    return unit, rectangles.alignment // unit


def _twins(rectangles: Rectangles, alignment: IntArray) -> IntArray:
    """For each buffer the previous one exactly like it, or itself."""
    twin = np.arange(rectangles.count, dtype=np.int64)
    seen: dict[tuple[int, ...], int] = {}
    columns = (rectangles.first, rectangles.last, rectangles.size, alignment)
    for index, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        if rectangles.pinned[index]:
            continue
        twin[index] = seen.get(row, index)
        seen[row] = index
    return twin


def _packing(rectangles: Rectangles, ceiling: int) -> tuple[Packing, int]:
    """The search's view of the buffers under a ceiling in bytes, and the bytes of its unit."""
    common = int(np.gcd.reduce(rectangles.alignment))
    heights = round_up(rectangles.size, common)
    unit, alignment = _scale(rectangles, heights)
    heights = heights // unit
    fixed = rectangles.offset // unit
    highest = (ceiling - rectangles.size) // unit
    latest = np.where(rectangles.pinned, np.minimum(fixed, highest), highest)
    lengths = rectangles.last - rectangles.first
    member = np.repeat(np.arange(rectangles.count, dtype=np.int64), lengths)
    begin_of_run = np.repeat(np.cumsum(lengths) - lengths, lengths)
    slot = rectangles.first[member] + np.arange(len(member)) - begin_of_run
    counts = live_bytes(rectangles, np.ones_like(lengths))
    packing = Packing(
        first=rectangles.first,
        last=rectangles.last,
        height=heights,
        alignment=alignment,
        earliest=np.where(rectangles.pinned, fixed, 0),
        latest=latest,
        pinned=rectangles.pinned,
        twin=_twins(rectangles, alignment),
        member_begin=np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts))),
        members=member[np.argsort(slot, kind="stable")],
        ceiling=int((latest + heights).max()),
        coarsest=int(alignment.max()),
    )
    return packing, unit


def _fresh_state(packing: Packing, slots: int, failures: FloatArray) -> State:
    count = len(packing.first)
    change = np.zeros(slots + 1, dtype=np.int64)
    np.add.at(change, packing.first, packing.height)
    np.subtract.at(change, packing.last, packing.height)
    return State(
        floor=np.zeros(slots, dtype=np.int64),
        support=np.zeros(slots, dtype=np.int64),
        remaining=np.cumsum(change[:-1]),
        unplaced=np.ones(count, dtype=np.bool_),
        offset=np.zeros(count, dtype=np.int64),
        bound=np.zeros(count, dtype=np.int64),
        supported=np.zeros(count, dtype=np.bool_),
        settled=np.zeros(count, dtype=np.bool_),
        covered=np.zeros(slots, dtype=np.bool_),
        level=np.zeros(slots, dtype=np.int64),
        heap_key=np.zeros(count + 1, dtype=np.int64),
        heap_buffer=np.zeros(count + 1, dtype=np.int64),
        failures=failures,
    )


def decide(rectangles: Rectangles, ceiling: int, node_limit: int) -> Outcome:
    """Offsets below `ceiling` bytes, within a number of search nodes."""
    if node_limit < rectangles.count:  # a search needs a node for every buffer at least
        return Outcome(None, False, 0)
    packing, unit = _packing(rectangles, ceiling)
    size = packing.height.astype(np.float64)
    duration = (packing.last - packing.first).astype(np.float64)
    preferences = (size, duration + size / (2 * size.max()), size * duration)
    strategies = [
        (preference, flush_bonus, weigh_failures)
        for weigh_failures in (False, True)
        for flush_bonus in (FLUSH_BONUS, 1.0)
        for preference in preferences
    ]
    hopeless = np.zeros(1 << HOPELESS_BITS, dtype=np.uint64)
    failures = np.ones(rectangles.slots)
    random = np.random.default_rng(0)
    length = float(max(FIRST_RESTART, 2 * rectangles.count))
    nodes, rounds = 0, 0
    while nodes < node_limit:
        for preference, flush_bonus, weigh_failures in strategies:
            noise = random.normal(0.0, SPREAD, rectangles.count)
            priority = preference * np.exp(noise) if rounds > 0 else preference
            state = _fresh_state(packing, rectangles.slots, failures)
            limit = min(int(length), node_limit - nodes)
            ending, used = search(
                packing, state, priority, flush_bonus, weigh_failures, hopeless, limit
            )
            nodes += used
            if ending == FEASIBLE:
                return Outcome(state.offset * unit, False, nodes)
            if ending == INFEASIBLE:
                return Outcome(None, True, nodes)
            if nodes >= node_limit:
                break
        length *= RESTART_GROWTH
        rounds += 1
    return Outcome(None, False, nodes)


def minimise(rectangles: Rectangles, known_peak: int, target: int, node_limit: int) -> Outcome:
    """Offsets with a peak below `known_peak`, as near `target` as the nodes allow.

    Tries the target with half of the nodes, then halves the interval between what is known to
    be possible and what was tried in vain.
    """
    best: IntArray | None = None
    best_peak, tried, exhausted = known_peak, target - 1, True
    ceiling, nodes = target, 0
    while best_peak > tried + 1 and nodes < node_limit:
        found = decide(rectangles, ceiling, (node_limit - nodes + 1) // 2)
        nodes += found.nodes
        if found.offsets is not None:
            best = found.offsets
            best_peak = int((best + rectangles.size).max())
        else:
            tried = ceiling
            exhausted = exhausted and found.exhausted
        ceiling = (tried + best_peak) // 2
    return Outcome(best, exhausted and best_peak <= tried + 1, nodes)
