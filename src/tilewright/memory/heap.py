"""A binary heap in two arrays, for compiled code: small, and quick to compile."""

from tilewright.compiled import njit
from tilewright.memory.rectangles import IntArray


@njit(inner=True)
def push(keys: IntArray, buffers: IntArray, count: int, key: int, buffer: int) -> int:
    """Add to a binary heap of `count` entries, least key first; returns the new count."""
    place = count
    while place > 0:
        above = (place - 1) // 2
        if keys[above] <= key:
            break
        keys[place] = keys[above]
        buffers[place] = buffers[above]
        place = above
    keys[place] = key
    buffers[place] = buffer
    return count + 1


@njit(inner=True)
def drop_least(keys: IntArray, buffers: IntArray, count: int) -> int:
    """Remove the first entry of a binary heap of `count` entries; returns the new count."""
    count -= 1
    key = keys[count]
    buffer = buffers[count]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        if below + 1 < count and keys[below + 1] < keys[below]:
            below += 1
        if keys[below] >= key:
            break
        keys[place] = keys[below]
        buffers[place] = buffers[below]
        place = below
    keys[place] = key
    buffers[place] = buffer
    return count
