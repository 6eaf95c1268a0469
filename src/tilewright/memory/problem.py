"""What an allocation is asked and answered: buffers with lifetimes in, byte offsets out.

A buffer is a rectangle in time x address. One `Problem` is one memory: a program with several
scratchpads states several problems.
"""

from dataclasses import dataclass
from enum import StrEnum

from tilewright.units import format_bytes


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes that must stay in one place while they are live.

    The lifetime is half-open, `start <= time < stop`, in indices of the execution order. A pinned
    buffer has a fixed `offset`; any other buffer is placed at a multiple of its `alignment`.
    """

    name: str
    start: int
    stop: int
    size: int
    alignment: int = 1
    offset: int | None = None

    def __post_init__(self) -> None:
        if self.start >= self.stop:
            raise ValueError(f"buffer {self.name}: lifetime [{self.start}, {self.stop}) is empty")
        if self.size <= 0:
            raise ValueError(f"buffer {self.name}: size {self.size} is not positive")
        if self.alignment <= 0:
            raise ValueError(f"buffer {self.name}: alignment {self.alignment} is not positive")
        if self.offset is None:
            return
        if self.offset < 0 or self.offset % self.alignment != 0:
            raise ValueError(
                f"buffer {self.name}: pinned at {self.offset}, "
                f"not a multiple of its alignment {self.alignment}"
            )


@dataclass(frozen=True, slots=True)
class Problem:
    """The buffers of one memory and the bytes they must fit in; no capacity means no limit."""

    buffers: tuple[Buffer, ...]
    capacity: int | None = None

    def __post_init__(self) -> None:
        if self.capacity is not None and self.capacity < 0:
            raise ValueError(f"capacity {self.capacity} is negative")


@dataclass(frozen=True, slots=True)
class Allocation:
    """An offset for every buffer, in the order of the problem's buffers.

    `peak` is the highest byte used, `lower_bound` what no allocation can undercut. `optimal` says
    that no lower peak exists, because it meets the bound or the search was exhausted.
    """

    offsets: tuple[int, ...]
    peak: int
    lower_bound: int
    optimal: bool
    nodes: int


class MisfitReason(StrEnum):
    """Why buffers do not fit: too many bytes at once, or enough bytes but in pieces."""

    CAPACITY = "capacity"
    FRAGMENTATION = "fragmentation"


@dataclass(frozen=True, slots=True)
class Misfit:
    """The window of time in which the buffers do not fit, and why.

    `live_bytes` is the most live at once in the window and `short_by` how many more bytes of
    memory it would take: exactly for reason capacity, in the best allocation found for reason
    fragmentation. `buffers` are indices of those live at the worst moment, for whoever spills.
    `proven` says that no allocation exists, not merely that none was found within the node limit.
    """

    start: int
    stop: int
    capacity: int
    live_bytes: int
    short_by: int
    reason: MisfitReason
    buffers: tuple[int, ...]
    proven: bool
    nodes: int

    def __str__(self) -> str:
        certainty = "" if self.proven else " (in the best allocation found)"
        return (
            f"does not fit in [{self.start}, {self.stop}): {format_bytes(self.live_bytes)} live at "
            f"once in {format_bytes(self.capacity)}, short by {format_bytes(self.short_by)} for "
            f"{self.reason.value}{certainty}"
        )
