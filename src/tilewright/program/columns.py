"""Programs as columns of integers: what linking, ordering, placing and simulating work on.

A task is a row, and so is an access (a task reads or writes a view of a buffer). Views and copies
that look the same are interned once: the rows hold their numbers. Compiled kernels take these
tuples of arrays whole.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.schedule.problem import Flags, Ids, Quantities

Floats = npt.NDArray[np.float64]

COMPUTE, COPY, WHOLE = 0, 1, 2
"""Kinds of tasks: on an engine of a core; on a link; an operator that passes the main memory."""


class Hardware(NamedTuple):
    """A machine by numbers. Engines come first, then links; `core_of` is -1 for links, `home` is
    -1 for memories that belong to no core. `main` is the number of the main memory, `filling` how
    many links it takes to load from it as fast as it can give."""

    core_of: Ids
    home: Ids
    usable: Quantities
    main: int
    cores: int
    filling: int


class Views(NamedTuple):
    """Interned views: the first byte before the offset, the bytes from there to the end, the
    bytes that move, and levels of (stride, repeat), bytes first; levels of view v are
    `[level_start[v]:level_start[v + 1]]`."""

    low: Quantities
    reach: Quantities
    bytes: Quantities
    level_start: Quantities
    stride: Quantities
    repeat: Quantities


class Copies(NamedTuple):
    """Interned copies, one column for each link that can carry them (-1: no more). `cycles` and
    `moved` are latency and bytes there, `alone` the time when nothing else moves, `unshared` the
    cycles of the bytes where the route shares no bandwidth, else -1. `small`: hardly more than its
    latency."""

    link: Ids
    cycles: Quantities
    moved: Quantities
    alone: Floats
    unshared: Quantities
    small: Flags


class Columns(NamedTuple):
    """A program. Accesses of task t are `[access_start[t]:access_start[t + 1]]`, reads first.
    `source` and `target` are the memories of a copy (-1 otherwise), `copy` its interned number,
    `choice` the link it is on until copies are dealt out. Buffers may lie `over` another of their
    group (-1: none), whose last user then writes them. `fixed` buffers are the host's."""

    kind: Quantities
    engine: Quantities
    source: Quantities
    target: Quantities
    cycles: Quantities
    moved: Quantities
    copy: Quantities
    choice: Quantities
    tile: Quantities
    group: Quantities
    energy: Floats
    access_start: Quantities
    buffer: Quantities
    offset: Quantities
    layout: Quantities
    write: Quantities
    memory: Quantities
    size: Quantities
    alignment: Quantities
    over: Quantities
    fixed: Flags

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return self.kind.size


def gathered(
    tasks: Quantities,
    energy: Floats,
    access_start: Quantities,
    accesses: Quantities,
    buffers: Quantities,
    fixed: Flags,
) -> Columns:
    """Columns from tables with a row for each: of tasks (kind to group), accesses (buffer, offset,
    layout, write) and buffers (memory, size, alignment, over)."""
    return Columns._make((*tasks, energy, access_start, *accesses, *buffers, fixed))


class Needs(NamedTuple):
    """What each task waits for: task t for `needs[start[t]:start[t + 1]]`, in order."""

    start: Quantities
    needs: Ids
