"""Depth-first search for a packing under a ceiling, as compiled code with an explicit stack.

A slot of time asks: which buffer lies directly on your floor, or does none? The slot asked is one
whose floor is a valley, so that every buffer that could be the answer can be placed at once; among
those, one with few answers. The answers exclude each other, so no packing is tried twice. When
the unplaced buffers fall apart into groups that share no time, the groups are solved one by one,
and the failure of one undoes whatever the others had settled. States proven hopeless are
remembered by a hash of 64 bits and not entered again.
"""

import numpy as np
from numpy.typing import NDArray

from tilewright.compiled import njit
from tilewright.memory.branching import choose_slot, list_answers
from tilewright.memory.propagate import FloatArray, Packing, State, lift, note, propagate
from tilewright.memory.rectangles import IntArray

HashArray = NDArray[np.uint64]

INFEASIBLE, FEASIBLE, STOPPED = range(3)
"""How a search ends: nothing fits, a packing is found, or the node limit is reached."""

# Columns of the stack of decisions. Row 0 is the bottom of the stack and no decision.
LOW, HIGH, SLOT, NEXT, END, MAY_STAY_EMPTY, TRAIL, PLACED, TASK, TASKS, PARENT, KEY = range(12)
FRAME_COLUMNS = 12

# Columns of the list of groups still to solve, shared with LOW and HIGH. Row 0 ends the list.
DECISION, REST = 2, 3
TASK_COLUMNS = 4


@njit(inner=True)
def grown(array: IntArray, rows: int) -> IntArray:
    """The table itself if it has `rows` rows, or a copy at least twice as long."""
    if rows <= array.shape[0]:
        return array
    longer = np.zeros((2 * rows, array.shape[1]), dtype=np.int64)
    # Plain loops: numba takes seconds to compile an assignment between slices.
    for row in range(array.shape[0]):
        for column in range(array.shape[1]):
            longer[row, column] = array[row, column]
    return longer


@njit(inner=True)
def scramble(value: np.uint64) -> np.uint64:
    """A well mixed hash of a 64-bit integer."""
    mixed = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@njit(inner=True)
def fingerprint(state: State, items: IntArray, low: int, high: int) -> np.uint64:
    """A hash of all that decides whether the items can be completed."""
    total = np.uint64(0)
    for item in items:
        total += scramble(np.uint64(item) * np.uint64(2) + np.uint64(1))
    for slot in range(low, high):
        if state.remaining[slot] == 0:
            continue
        part = scramble(np.uint64(slot) * np.uint64(2) + np.uint64(2))
        part = scramble(part + np.uint64(state.floor[slot]))
        total += scramble(part + np.uint64(state.support[slot]))
    return total


@njit(inner=True)
def gather(packing: Packing, state: State, low: int, high: int, items: IntArray) -> int:
    """Fill `items` with the unplaced buffers of slots [low, high), by first slot; their number."""
    count = 0
    for slot in range(low, high):
        if state.remaining[slot] == 0:
            continue
        for index in range(packing.member_begin[slot], packing.member_begin[slot + 1]):
            item = packing.members[index]
            if state.unplaced[item] and packing.first[item] == slot:
                items[count] = item
                count += 1
    return count


@njit(inner=True)
def split(
    packing: Packing, items: IntArray, tasks: IntArray, task_end: int, decision: int, rest: int
) -> tuple[int, int]:
    """List the groups of items that share no time, the narrowest first in line.

    Returns the head of the list and the new end of `tasks`.
    """
    begin = task_end
    tasks[task_end, LOW] = packing.first[items[0]]
    tasks[task_end, HIGH] = packing.last[items[0]]
    task_end += 1
    for item in items[1:]:
        if packing.first[item] >= tasks[task_end - 1, HIGH]:
            tasks[task_end, LOW] = packing.first[item]
            tasks[task_end, HIGH] = packing.last[item]
            task_end += 1
        else:
            tasks[task_end - 1, HIGH] = max(tasks[task_end - 1, HIGH], packing.last[item])
    for one in range(begin, task_end):
        for other in range(one + 1, task_end):
            width = tasks[one, HIGH] - tasks[one, LOW]
            if tasks[other, HIGH] - tasks[other, LOW] > width:
                for column in (LOW, HIGH):
                    swapped = tasks[one, column]
                    tasks[one, column] = tasks[other, column]
                    tasks[other, column] = swapped
    head = rest
    for index in range(begin, task_end):
        tasks[index, DECISION] = decision
        tasks[index, REST] = head
        head = index
    return head, task_end


@njit(inner=True)
def undo_floors(state: State, trail: IntArray, trail_end: int, trail_begin: int) -> None:
    """Restore floors and supports noted in the trail, the latest first."""
    for index in range(trail_end - 1, trail_begin - 1, -1):
        state.floor[trail[index, 0]] = trail[index, 1]
        state.support[trail[index, 0]] = trail[index, 2]


@njit(inner=True)
def place(
    packing: Packing, state: State, item: int, offset: int, trail: IntArray, trail_end: int
) -> int:
    """Put a buffer at an offset, on top of all in its slots; returns the new end of the trail."""
    state.offset[item] = offset
    state.unplaced[item] = False
    for slot in range(packing.first[item], packing.last[item]):
        trail_end = note(state, slot, trail, trail_end)
        state.floor[slot] = offset + packing.height[item]
        state.support[slot] = offset + packing.height[item]
        state.remaining[slot] -= packing.height[item]
    return trail_end


@njit(inner=True)
def take_back(packing: Packing, state: State, item: int) -> None:
    """Make a placed buffer unplaced again; its floors are restored from the trail."""
    state.unplaced[item] = True
    for slot in range(packing.first[item], packing.last[item]):
        state.remaining[slot] += packing.height[item]


@njit()
def search(
    packing: Packing,
    state: State,
    priority: FloatArray,
    flush_bonus: float,
    weigh_failures: bool,
    hopeless: HashArray,
    node_limit: int,
) -> tuple[int, int]:
    """Look for a packing; returns how the search ended and how many nodes it took.

    `state` must be fresh; offsets of a packing found are in `state.offset`. `hopeless` holds
    fingerprints of states without a packing and may be kept from search to search of the same
    `packing`; its size is a power of two.
    """
    slots = state.floor.size
    count = packing.first.size
    items = np.empty(count, dtype=np.int64)
    placed = np.empty(count, dtype=np.int64)
    placed_end = 0
    frames = np.zeros((64, FRAME_COLUMNS), dtype=np.int64)
    tasks = np.zeros((64, TASK_COLUMNS), dtype=np.int64)
    answers = np.zeros((64, 1), dtype=np.int64)
    trail = np.zeros((64, 3), dtype=np.int64)
    trail_end = 0
    mask = np.uint64(hopeless.size - 1)
    tasks[1, HIGH] = slots
    task, task_end = 1, 2
    depth = 0
    nodes = 0
    while task != 0:
        low, high = tasks[task, LOW], tasks[task, HIGH]
        decision, rest = tasks[task, DECISION], tasks[task, REST]
        found = gather(packing, state, low, high, items)
        if found == 0:
            task = rest
            continue
        if nodes == node_limit:
            return STOPPED, nodes
        live = items[:found]
        trail = grown(trail, trail_end + 2 * slots)
        possible, trail_end = propagate(packing, state, live, (low, high), trail, trail_end)
        key = np.uint64(0)
        if possible:
            tasks = grown(tasks, task_end + found + 1)
            head, tasks_grown = split(packing, live, tasks, task_end, decision, rest)
            if tasks_grown > task_end + 1:
                task, task_end = head, tasks_grown
                continue
            low, high = tasks[head, LOW], tasks[head, HIGH]
            key = fingerprint(state, live, low, high)
            possible = hopeless[key & mask] != key
        nodes += 1
        if possible:
            slot = choose_slot(packing, state, low, high, weigh_failures)
            answer_begin = frames[depth, END]
            answers = grown(answers, answer_begin + found)
            answer_end = list_answers(
                packing, state, low, high, slot, priority, flush_bonus, answers, answer_begin
            )
            depth += 1
            frames = grown(frames, depth + 1)
            room = packing.ceiling - state.floor[slot] - state.remaining[slot]
            frames[depth, LOW] = low
            frames[depth, HIGH] = high
            frames[depth, SLOT] = slot
            frames[depth, NEXT] = answer_begin
            frames[depth, END] = answer_end
            frames[depth, MAY_STAY_EMPTY] = room > 0
            frames[depth, TRAIL] = trail_end
            frames[depth, PLACED] = placed_end
            frames[depth, TASK] = rest
            frames[depth, TASKS] = task_end
            frames[depth, PARENT] = decision
            frames[depth, KEY] = np.int64(key)
            decision = depth
        # Go back to the latest decision concerned that has an answer left, and take it.
        while decision != 0:
            undo_floors(state, trail, trail_end, frames[decision, TRAIL])
            trail_end = frames[decision, TRAIL]
            while placed_end > frames[decision, PLACED]:
                placed_end -= 1
                take_back(packing, state, placed[placed_end])
            depth, task_end = decision, frames[decision, TASKS]
            if frames[decision, NEXT] < frames[decision, END] or frames[decision, MAY_STAY_EMPTY]:
                break
            key = np.uint64(frames[decision, KEY])
            hopeless[key & mask] = key
            decision = frames[decision, PARENT]
        if decision == 0:
            return INFEASIBLE, nodes
        trail = grown(trail, trail_end + 2 * slots)
        slot = frames[decision, SLOT]
        floor = int(state.floor[slot])
        if frames[decision, NEXT] < frames[decision, END]:
            item = answers[frames[decision, NEXT], 0]
            frames[decision, NEXT] += 1
            trail_end = place(packing, state, item, floor, trail, trail_end)
            placed[placed_end] = item
            placed_end += 1
        else:
            frames[decision, MAY_STAY_EMPTY] = 0
            trail_end = lift(packing, state, slot, floor + 1, trail, trail_end)
        tasks = grown(tasks, task_end + 1)
        tasks[task_end, LOW] = frames[decision, LOW]
        tasks[task_end, HIGH] = frames[decision, HIGH]
        tasks[task_end, DECISION] = decision
        tasks[task_end, REST] = frames[decision, TASK]
        task = task_end
        task_end += 1
    return FEASIBLE, nodes
