"""Which bytes a view touches: for the checks, which share nothing with what they check."""

from dataclasses import dataclass
from math import gcd

import numpy as np

from tilewright.program.program import View
from tilewright.schedule.problem import Quantities
from tilewright.schedule.races import strided_intervals


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes of a view, counted from its offset: runs repeated over levels of (count, stride),
    all within [low, high) and multiples of `grain`. `distinct`: no byte is two elements."""

    low: int
    high: int
    run: int
    levels: tuple[tuple[int, int], ...]
    grain: int
    distinct: bool


class Footprints:
    """Footprints of views; tiles of one shape share theirs."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...], int], Footprint] = {}
        self._runs: dict[Footprint, tuple[Quantities, Quantities]] = {}

    def of(self, view: View) -> Footprint:
        """The bytes of a view of at least one element."""
        key = (view.shape, view.strides, view.item)
        if key not in self._known:
            self._known[key] = _footprint(*key)
        return self._known[key]

    def span(self, view: View) -> tuple[int, int]:
        """First byte, and the byte after the last, in its buffer."""
        footprint = self.of(view)
        return view.offset + footprint.low, view.offset + footprint.high

    def meet(self, one: View, other: View) -> bool:
        """Whether two views of a buffer have bytes in common."""
        touched = np.zeros((2, max(self.span(one)[1], self.span(other)[1])), np.bool_)
        for row, view in zip(touched, (one, other), strict=True):
            for start, stop in zip(*self.intervals(view), strict=True):
                row[view.offset + start : view.offset + stop] = True
        return bool(touched.all(axis=0).any())

    def intervals(self, view: View) -> tuple[Quantities, Quantities]:
        """Starts and stops of its runs, counted from its offset."""
        footprint = self.of(view)
        if footprint not in self._runs:
            self._runs[footprint] = strided_intervals(
                footprint.low, footprint.run, footprint.levels
            )
        return self._runs[footprint]


def _footprint(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> Footprint:
    moves = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    low, high = sum(min(0, move) for move in moves), sum(max(0, move) for move in moves) + item
    axes = sorted((abs(s), n) for n, s in zip(shape, strides, strict=True) if n > 1)
    run, reach, distinct = item, item, True
    levels: list[tuple[int, int]] = []
    for stride, count in axes:
        distinct = distinct and stride >= reach
        reach += (count - 1) * stride
        if not levels and stride <= run:
            run += (count - 1) * stride
        elif levels and levels[-1][0] * levels[-1][1] == stride:
            levels[-1] = (levels[-1][0] * count, levels[-1][1])
        else:
            levels.append((count, stride))
    grain = gcd(run, *(stride for _, stride in levels))
    return Footprint(low, high, run, tuple(levels), grain, distinct)
