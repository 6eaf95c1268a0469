"""What follows from a partial packing: how low each unplaced buffer can still go.

The packing grows upwards. In every slot of time, placed buffers lie below the slot's floor and
unplaced buffers will lie at or above it. Only canonical packings are sought, in which no buffer
could slide down: each lies on the bottom or on top of another. So a buffer whose supports have
all been passed by must rest on a buffer still to come, hence no lower than the lowest top of one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.compiled import njit
from tilewright.memory.heap import drop_least, push
from tilewright.memory.rectangles import BoolArray, IntArray

FloatArray = NDArray[np.float64]
Slots = tuple[int, int]


class Packing(NamedTuple):
    """A fixed instance of the packing problem, in units of the common divisor of its sizes.

    Buffer `b` is live in slots `first[b] <= slot < last[b]`, takes `height[b]` and must lie
    between `earliest[b]` and `latest[b]` at a multiple of `alignment[b]`; nothing reaches above
    `ceiling`. `members[member_begin[s] : member_begin[s + 1]]` are the buffers live in slot `s`.
    `twin[b]` is the buffer before `b` that is exactly like it, or `b` itself.
    """

    first: IntArray
    last: IntArray
    height: IntArray
    alignment: IntArray
    earliest: IntArray
    latest: IntArray
    pinned: BoolArray
    twin: IntArray
    member_begin: IntArray
    members: IntArray
    ceiling: int
    coarsest: int
    """The largest alignment."""


class State(NamedTuple):
    """A partial packing, changed in place, and what propagation found out about it."""

    floor: IntArray
    support: IntArray
    """Per slot, the top of the placed buffers, or 0 once nothing can rest on it any more."""
    remaining: IntArray
    """Per slot, the sum of heights of unplaced buffers."""
    unplaced: BoolArray
    offset: IntArray
    bound: IntArray
    """Per unplaced buffer, the lowest offset it can still have."""
    supported: BoolArray
    """Per unplaced buffer, whether it can be placed at its bound right away."""
    settled: BoolArray
    covered: BoolArray
    level: IntArray
    heap_key: IntArray
    heap_buffer: IntArray
    failures: FloatArray
    """Per slot, one more than how often it proved too full: where the problem is hard."""


@njit(inner=True)
def bound_supported(packing: Packing, state: State, items: IntArray) -> tuple[bool, int]:
    """Bound every item by the floors under it; queue those that can be placed there.

    Returns whether every item still has a place, and the number queued.
    """
    queued = 0
    for item in items:
        floor = np.int64(0)
        support = np.int64(0)
        for slot in range(packing.first[item], packing.last[item]):
            floor = max(floor, state.floor[slot])
            support = max(support, state.support[slot])
        unit = packing.alignment[item]
        bound = max((floor + unit - 1) // unit * unit, packing.earliest[item])
        if bound > packing.latest[item]:
            return False, queued
        rests = packing.pinned[item] or (support + unit - 1) // unit * unit == bound
        state.bound[item] = bound
        state.supported[item] = rests
        state.settled[item] = rests
        if rests:
            top = bound + packing.height[item]
            queued = push(state.heap_key, state.heap_buffer, queued, int(top), item)
    return True, queued


@njit(inner=True)
def bound_unsupported(packing: Packing, state: State, items: IntArray, queued: int) -> bool:
    """Raise items without support to the lowest top of an unplaced buffer they share time with.

    Tops are visited from the lowest up, as in a shortest-path search. Returns whether every item
    still has a place.
    """
    settled = queued
    while queued > 0 and settled < items.size:
        top = state.heap_key[0]
        lowest = state.heap_buffer[0]
        queued = drop_least(state.heap_key, state.heap_buffer, queued)
        for slot in range(packing.first[lowest], packing.last[lowest]):
            if state.covered[slot]:
                continue
            state.covered[slot] = True
            for index in range(packing.member_begin[slot], packing.member_begin[slot + 1]):
                item = packing.members[index]
                if state.settled[item] or not state.unplaced[item]:
                    continue
                unit = packing.alignment[item]
                bound = max(state.bound[item], (top + unit - 1) // unit * unit)
                if bound > packing.latest[item]:
                    return False
                state.bound[item] = bound
                state.settled[item] = True
                settled += 1
                own_top = bound + packing.height[item]
                queued = push(state.heap_key, state.heap_buffer, queued, int(own_top), item)
    return settled == items.size


@njit(inner=True)
def note(state: State, slot: int, trail: IntArray, trail_end: int) -> int:
    """Write a slot's floor and support to the trail; returns the new end of the trail."""
    trail[trail_end, 0] = slot
    trail[trail_end, 1] = state.floor[slot]
    trail[trail_end, 2] = state.support[slot]
    return trail_end + 1


@njit(inner=True)
def lift(
    packing: Packing, state: State, slot: int, floor: int, trail: IntArray, trail_end: int
) -> int:
    """Leave a slot empty below `floor`; returns the new end of the trail."""
    trail_end = note(state, slot, trail, trail_end)
    state.floor[slot] = floor
    if state.support[slot] + packing.coarsest <= floor:
        state.support[slot] = 0
    return trail_end


@njit(inner=True)
def raise_floors(
    packing: Packing, state: State, low: int, high: int, trail: IntArray, trail_end: int
) -> int:
    """Lift each floor to the lowest bound above it, noting old values in the trail.

    Returns the new end of the trail. Equal futures get equal floors, so that they are recognised.
    """
    for slot in range(low, high):
        if state.remaining[slot] == 0:
            continue
        lowest = packing.ceiling
        for index in range(packing.member_begin[slot], packing.member_begin[slot + 1]):
            item = packing.members[index]
            if state.unplaced[item] and state.bound[item] < lowest:
                lowest = state.bound[item]
        if lowest > state.floor[slot]:
            trail_end = lift(packing, state, slot, int(lowest), trail, trail_end)
    return trail_end


@njit(inner=True)
def stacks_fit(packing: Packing, state: State, items: IntArray, low: int, high: int) -> bool:
    """Whether, slot by slot, the items could be stacked under the ceiling from their bounds up."""
    for slot in range(low, high):
        state.level[slot] = state.floor[slot]
    queued = 0
    for item in items:
        queued = push(state.heap_key, state.heap_buffer, queued, int(state.bound[item]), item)
    while queued > 0:
        item = state.heap_buffer[0]
        queued = drop_least(state.heap_key, state.heap_buffer, queued)
        for slot in range(packing.first[item], packing.last[item]):
            level = max(state.level[slot], state.bound[item]) + packing.height[item]
            state.level[slot] = level
            if level > packing.ceiling:
                state.failures[slot] += 1.0
                return False
    return True


@njit(inner=True)
def propagate(
    packing: Packing, state: State, items: IntArray, slots: Slots, trail: IntArray, trail_end: int
) -> tuple[bool, int]:
    """Update bounds and floors for the unplaced `items`, all within the slots from
    the first to before the second.

    Returns whether a packing may still exist, and the new end of the trail.
    """
    low, high = slots
    all_placeable, queued = bound_supported(packing, state, items)
    if not all_placeable:
        return False, trail_end
    for slot in range(low, high):
        state.covered[slot] = False
    if not bound_unsupported(packing, state, items, queued):
        return False, trail_end
    trail_end = raise_floors(packing, state, low, high, trail, trail_end)
    return stacks_fit(packing, state, items, low, high), trail_end
