"""One memory over time: where something that is loaded finds room between what is there."""

import numpy as np

from tilewright.compiled import njit
from tilewright.program.program import Buffer
from tilewright.schedule.problem import Quantities


class Space:
    """Which bytes of a memory are taken from when to when, both included. `short`: when there was
    no room for something, from and to before."""

    def __init__(self, usable: int, count: int) -> None:
        self.usable = usable
        self.offsets: dict[int, int] = {}
        self.short: list[tuple[int, int]] = []
        self._first = np.zeros(count, np.int64)
        self._last = np.zeros(count, np.int64)
        self._low = np.zeros(count, np.int64)
        self._high = np.zeros(count, np.int64)
        self._count = 0

    def take(self, number: int, buffer: Buffer, first: int, last: int, offset: int) -> None:
        """Put a buffer there."""
        self._first[self._count], self._last[self._count] = first, last
        self._low[self._count], self._high[self._count] = offset, offset + buffer.size
        self._count += 1
        self.offsets[number] = offset

    def gap(self, buffer: Buffer, first: int, last: int) -> int | None:
        """The highest place for a buffer that is free all the time, if there is one."""
        place = _highest(
            self._first,
            self._last,
            self._low,
            self._high,
            self._count,
            first,
            last,
            buffer.size,
            buffer.alignment,
            self.usable,
        )
        return place if place >= 0 else None


@njit()
def _highest(
    first: Quantities,
    last: Quantities,
    low: Quantities,
    high: Quantities,
    count: int,
    begin: int,
    end: int,
    size: int,
    alignment: int,
    ceiling: int,
) -> int:
    """The highest free place below a ceiling from begin to end, or -1: at the ceiling, or else
    below all that is in the way there, and so on."""
    near = np.empty(count, dtype=np.int64)
    found = 0
    for index in range(count):
        if first[index] <= end and last[index] >= begin:
            near[found] = index
            found += 1
    while True:
        place = (ceiling - size) // alignment * alignment
        if place < 0:
            return -1
        lowest = ceiling
        for entry in range(found):
            other = near[entry]
            if low[other] < place + size and high[other] > place:
                lowest = min(lowest, int(low[other]))
        if lowest == ceiling:
            return place
        ceiling = lowest
