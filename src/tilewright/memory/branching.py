"""Where the search asks next, and in which order it tries the answers."""

import numpy as np

from tilewright.compiled import njit
from tilewright.memory.propagate import FloatArray, Packing, State
from tilewright.memory.rectangles import IntArray


@njit(inner=True)
def list_answers(
    packing: Packing,
    state: State,
    low: int,
    high: int,
    slot: int,
    priority: FloatArray,
    flush_bonus: float,
    answers: IntArray,
    begin: int,
) -> int:
    """Append the buffers that can lie on the slot's floor, the most promising first.

    A buffer that ends flush with the floor beside it gains `flush_bonus`. Returns the new end.
    """
    end = begin
    floor = state.floor[slot]
    scores = np.empty(packing.member_begin[slot + 1] - packing.member_begin[slot])
    for index in range(packing.member_begin[slot], packing.member_begin[slot + 1]):
        item = packing.members[index]
        if not state.unplaced[item] or state.bound[item] != floor:
            continue
        if packing.twin[item] != item and state.unplaced[packing.twin[item]]:
            continue
        score = priority[item]
        top = floor + packing.height[item]
        first, last = packing.first[item], packing.last[item]
        if (state.floor[first - 1] if first > low else packing.ceiling) == top:
            score *= flush_bonus
        if (state.floor[last] if last < high else packing.ceiling) == top:
            score *= flush_bonus
        place = end
        while place > begin and scores[place - 1 - begin] < score:
            answers[place, 0] = answers[place - 1, 0]
            scores[place - begin] = scores[place - 1 - begin]
            place -= 1
        answers[place, 0] = item
        scores[place - begin] = score
        end += 1
    return end


@njit(inner=True)
def choose_slot(packing: Packing, state: State, low: int, high: int, weigh_failures: bool) -> int:
    """The valley slot with the fewest answers; failures make a slot count as having fewer."""
    chosen = low
    least = np.inf
    least_floor = packing.ceiling
    for slot in range(low, high):
        if state.remaining[slot] == 0:
            continue
        floor = state.floor[slot]
        answers = 0
        valley = True
        for index in range(packing.member_begin[slot], packing.member_begin[slot + 1]):
            item = packing.members[index]
            if not state.unplaced[item] or state.bound[item] != floor:
                continue
            valley = state.supported[item]
            for other in range(packing.first[item], packing.last[item]):
                valley = valley and state.floor[other] == floor
            if not valley:
                break
            answers += 1
        if not valley:
            continue
        if floor + state.remaining[slot] < packing.ceiling:
            answers += 1
        score = float(answers)
        if weigh_failures and answers > 1:
            score /= state.failures[slot]
        if score < least or (score == least and floor < least_floor):
            chosen, least, least_floor = slot, score, floor
    return chosen
