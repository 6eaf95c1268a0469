"""Which views of a buffer touch the same bytes.

The strides in use, where each divides the next, are the places of a number system: an offset is a
row of digits and a view a box of digits. Boxes that meet in every digit share bytes. A view that is
no box in these digits (another stride, rows that do not begin at the start of one) gets the box
around it: then a dependency may be false, never missing.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tilewright.program.kernels.link import digits
from tilewright.program.program import View
from tilewright.schedule.problem import Flags, Quantities

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
    return digits(
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
