"""Box: one interval per axis."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from tilewright.geometry.interval import Interval

Ints = tuple[int, ...]
Span = tuple[Ints, Ints]
"""First positions of a region, and those behind its last ones, axis by axis."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangular region of a tensor, one half-open interval per axis."""

    intervals: tuple[Interval, ...]

    @staticmethod
    def whole(shape: Iterable[int]) -> "Box":
        return Box(tuple(Interval(0, extent) for extent in shape))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple([i.stop - i.start if i.stop > i.start else 0 for i in self.intervals])

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def empty(self) -> bool:
        return min([stop - start for start, stop in self.intervals], default=1) <= 0

    def hull(self, other: "Box") -> "Box":
        if self.intervals == other.intervals:
            return self
        if self.empty:
            return other
        if other.empty:
            return self
        pairs = zip(self.intervals, other.intervals, strict=True)
        return Box(tuple([Interval(min(a[0], b[0]), max(a[1], b[1])) for a, b in pairs]))

    def intersect(self, other: "Box") -> "Box":
        """What is in both; empty where they do not meet."""
        pairs = zip(self.intervals, other.intervals, strict=True)
        return Box(tuple(a.intersect(b) for a, b in pairs))

    def covers(self, other: "Box") -> bool:
        pairs = zip(self.intervals, other.intervals, strict=True)
        return other.empty or all(a.covers(b) for a, b in pairs)

    def within(self, outer: "Box") -> "Box":
        """The same region in coordinates that count from outer's corner."""
        pairs = zip(self.intervals, outer.intervals, strict=True)
        return Box(tuple(a.shift(-b.start) for a, b in pairs))

    def slices(self) -> tuple[slice, ...]:
        return tuple(slice(i.start, i.stop) for i in self.intervals)

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.intervals)

    def __len__(self) -> int:
        return len(self.intervals)

    def __getitem__(self, axis: int) -> Interval:
        return self.intervals[axis]

    def __str__(self) -> str:
        return "[" + ", ".join(map(str, self.intervals)) + "]"


def span_of(box: Box) -> Span:
    """A box as first positions and those behind the last ones."""
    return tuple([i.start for i in box]), tuple([max(i.start, i.stop) for i in box])
