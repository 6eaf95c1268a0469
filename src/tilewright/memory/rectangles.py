"""A problem as arrays, with time compressed to the few slots in which something changes.

Two lifetimes overlap only if they share the later of their two starts, so one slot per distinct
start is enough: slot `k` stands for all times from `times[k]` up to the next start.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.memory.problem import Problem

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rectangles:
    """The buffers of a problem: buffer `b` is live in slots `first[b] <= slot < last[b]`.

    `offset` is meaningful where `pinned` is true.
    """

    first: IntArray
    last: IntArray
    size: IntArray
    alignment: IntArray
    pinned: BoolArray
    offset: IntArray
    times: IntArray

    @property
    def count(self) -> int:
        return len(self.first)

    @property
    def slots(self) -> int:
        return len(self.times)

    def subset(self, buffers: IntArray) -> "Rectangles":
        """The given buffers alone, on a time axis of their own."""
        starts, stops = self.first[buffers], self.last[buffers]
        kept = np.unique(starts)
        return Rectangles(
            first=np.searchsorted(kept, starts).astype(np.int64),
            last=np.searchsorted(kept, stops).astype(np.int64),
            size=self.size[buffers],
            alignment=self.alignment[buffers],
            pinned=self.pinned[buffers],
            offset=self.offset[buffers],
            times=self.times[kept],
        )


def rectangles_of(problem: Problem, every_change: bool = False) -> Rectangles:
    """The problem's buffers as arrays; with `every_change`, ends of lifetimes begin slots too."""
    buffers = problem.buffers
    start = np.array([buffer.start for buffer in buffers], dtype=np.int64)
    stop = np.array([buffer.stop for buffer in buffers], dtype=np.int64)
    times = np.unique(np.concatenate((start, stop)) if every_change else start)
    return Rectangles(
        first=np.searchsorted(times, start).astype(np.int64),
        last=np.searchsorted(times, stop).astype(np.int64),
        size=np.array([buffer.size for buffer in buffers], dtype=np.int64),
        alignment=np.array([buffer.alignment for buffer in buffers], dtype=np.int64),
        pinned=np.array([buffer.offset is not None for buffer in buffers], dtype=np.bool_),
        offset=np.array([buffer.offset or 0 for buffer in buffers], dtype=np.int64),
        times=times,
    )


def round_up(value: IntArray, unit: int | IntArray) -> IntArray:
    """The least multiples of `unit` that are not below `value`."""
    return -(-value // unit) * unit


def live_bytes(rectangles: Rectangles, size: IntArray) -> IntArray:
    """Per slot, the sum of `size` over the buffers live in it."""
    change = np.zeros(rectangles.slots + 1, dtype=np.int64)
    np.add.at(change, rectangles.first, size)
    np.subtract.at(change, rectangles.last, size)
    return np.cumsum(change[:-1])


def needed_bytes(rectangles: Rectangles) -> IntArray:
    """Per slot, bytes that no allocation can undercut.

    All offsets are multiples of the alignments' common divisor, so every live buffer but the
    topmost takes its size rounded up to it. Pinned buffers need the bytes up to their end.
    """
    unit = int(np.gcd.reduce(rectangles.alignment))
    padded = round_up(rectangles.size, unit)
    padding = padded - rectangles.size
    needed = np.maximum(
        live_bytes(rectangles, rectangles.size), live_bytes(rectangles, padded) - int(padding.max())
    )
    for buffer in np.flatnonzero(rectangles.pinned):
        end = rectangles.offset[buffer] + rectangles.size[buffer]
        window = slice(rectangles.first[buffer], rectangles.last[buffer])
        needed[window] = np.maximum(needed[window], end)
    return needed


def components(rectangles: Rectangles) -> list[IntArray]:
    """Groups of buffers whose lifetimes never meet those of another group, in order of time."""
    order = np.argsort(rectangles.first, kind="stable")
    reach = np.maximum.accumulate(rectangles.last[order])
    begins = np.flatnonzero(rectangles.first[order][1:] >= reach[:-1]) + 1
    return [group.astype(np.int64) for group in np.split(order, begins)]
