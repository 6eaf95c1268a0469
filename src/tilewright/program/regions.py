"""Tensors that stay in the scratchpads between groups: which core holds which region of them.

A core's region of such a tensor is the hull of what its tiles write and what its tiles read. Who
writes a part keeps it, and copies to other cores what they read of it: halo rows where both sides
are split over the height, everything where channels meet (the halo exchange and the broadcast of
cluster strategies). Tensors that lie together (`joints.py`) have parts of one buffer.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.geometry.box import Box, Ints


@dataclass(frozen=True, slots=True)
class Region:
    """A core's part of a resident tensor: what it has bytes for, and what its tiles read. Where it
    lies together with others, `frame` is the box of all of them in its own positions."""

    box: Box
    read: Box | None
    frame: Box | None = None

    @property
    def room(self) -> Box:
        """What the core's buffer has bytes for."""
        return self.frame or self.box

    def offset(self, strides: Ints) -> int:
        """The first byte of the part in the buffer, which has these strides."""
        ends = zip(self.box.intervals, self.room.intervals, strides, strict=True)
        return sum([(here[0] - there[0]) * stride for here, there, stride in ends])


Regions = dict[int, Region]
"""Core -> its region of one tensor."""


def regions_of(writes: Iterable[dict[int, Box]], reads: Iterable[dict[int, Box]]) -> Regions:
    """The regions of one tensor, from what the cores' tiles write and read in every group."""
    written = _hulls(writes)
    read = _hulls(reads)
    found: Regions = {core: Region(box, read.get(core)) for core, box in written.items()}
    for core, box in read.items():
        made = written.get(core)
        found[core] = Region(box if made is None else box.hull(made), box)
    return found


def _hulls(rows: Iterable[dict[int, Box]]) -> dict[int, Box]:
    found: dict[int, Box] = {}
    for row in rows:
        for core, box in row.items():
            known = found.get(core)
            found[core] = box if known is None else known.hull(box)
    return found
