"""Sorting and finding in compiled code: plain loops, which compile in a fraction of the time that
numpy's general functions take."""

import numpy as np

from tilewright.compiled import njit
from tilewright.memory.rectangles import IntArray


@njit(inner=True)
def ranked(keys: IntArray) -> IntArray:
    """The places of the keys, the least key first, equal ones as they come."""
    count = keys.size
    order = np.empty(count, np.int64)
    merged = np.empty(count, np.int64)
    for place in range(count):
        order[place] = place
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            left, right = low, min(low + width, count)
            middle, high = right, min(low + 2 * width, count)
            for place in range(low, high):
                if left < middle and (right == high or keys[order[left]] <= keys[order[right]]):
                    merged[place] = order[left]
                    left += 1
                else:
                    merged[place] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order
