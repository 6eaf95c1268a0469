"""Interval: half-open ranges of one axis."""

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple


class Interval(NamedTuple):
    """Positions start, start+1, ..., stop-1 of one axis: half-open, everywhere in Tilewright."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        return max(0, self.stop - self.start)

    @property
    def empty(self) -> bool:
        return self.stop <= self.start

    def hull(self, other: "Interval") -> "Interval":
        """The smallest interval that holds both; an empty one adds nothing."""
        if self.empty:
            return other
        if other.empty:
            return self
        return Interval(min(self.start, other.start), max(self.stop, other.stop))

    def intersect(self, other: "Interval") -> "Interval":
        """What is in both; empty where they do not meet."""
        start = max(self.start, other.start)
        return Interval(start, max(start, min(self.stop, other.stop)))

    def clip(self, extent: int) -> "Interval":
        """What of it lies inside [0, extent)."""
        start = min(max(self.start, 0), extent)
        return Interval(start, max(start, min(self.stop, extent)))

    def shift(self, offset: int) -> "Interval":
        """The same length, moved by offset."""
        return Interval(self.start + offset, self.stop + offset)

    def covers(self, other: "Interval") -> bool:
        return other.empty or (self.start <= other.start and other.stop <= self.stop)

    def __str__(self) -> str:
        return f"{self.start}-{self.stop}"


@lru_cache(maxsize=4096)
def even_split(extent: int, parts: int, grain: int = 1) -> tuple[Interval, ...]:
    """Cut [0, extent) in parts: evenly, the remainder to the first ones. With a grain the size is
    rounded up to its multiple and the remainder goes last, so there may be fewer parts."""
    if grain > 1:
        size = -(-extent // (parts * grain)) * grain
        starts = range(0, extent, size)
        return tuple(Interval(start, min(start + size, extent)) for start in starts)
    size, rest = divmod(extent, parts)
    cuts = (part * size + min(part, rest) for part in range(parts + 1))
    return tuple(Interval(a, b) for a, b in pairwise(cuts))


@lru_cache(maxsize=4096)
def grained_split(extent: int, parts: int, grain: int) -> tuple[Interval, ...]:
    """Cut [0, extent) in parts that begin at multiples of a grain, as even as can be: smaller and
    larger ones by turns, so that neighbours together are even too. None is empty as long as there
    are as many grains."""
    grains = -(-extent // grain)
    starts = [grains * part // parts * grain for part in range(parts)]
    return tuple(Interval(a, b) for a, b in pairwise([*starts, extent]))
