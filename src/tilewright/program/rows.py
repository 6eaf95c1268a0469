"""The tasks of one group as rows, while they are made: what the passes within groups change."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tilewright.geometry.box import Ints
from tilewright.program.regions import Regions
from tilewright.tiling.group import TiledOp

if TYPE_CHECKING:
    from tilewright.program.context import Context

Access = tuple[int, int, int]
"""Slot (a buffer of the group, or ~k for the k-th outside one), byte offset, layout."""


class Title(IntEnum):
    """What a task is for: the first word of its name."""

    OPERATOR = 0
    LOAD = 1
    LOAD_PACK = 2
    KEEP = 3
    PASS = 4
    STORE = 5
    WHOLE = 6
    MOVE = 7


class Price(NamedTuple):
    """What tasks that are alike cost: on an engine, or on one of the links that can carry a copy
    (`copy` is its number, `choice` the link; -1 for work)."""

    engine: int
    cycles: int
    energy: float
    moved: int = 0
    copy: int = -1
    choice: int = -1


@dataclass(slots=True)
class Row:
    """A task. `ops` are the operators it runs, by their number in the group; `value` is what a copy
    carries; `turn` counts tiles in the order they run."""

    kind: int
    price: Price
    ops: Ints
    turn: int
    reads: list[Access]
    writes: list[Access]
    title: Title
    work: int = -1
    source: int = -1
    target: int = -1
    value: int = -1


Told = tuple[Ints, int, int, int]
"""What the columns of a task do not say: its operators, title, work and value. No more than plain
tuples of numbers are kept, which the garbage collector need not look at."""

Local = tuple[int, int, int, int]
"""A buffer of the group: of which memory, how many bytes, for which value, made at which turn."""


class Outside(NamedTuple):
    """A buffer that other groups use too: a value in the main memory (core -1), or a core's region
    of a resident one, with the bytes that it takes of a memory there. `stays`: who has it written
    there reads it later."""

    value: int
    core: int
    memory: int = 0
    size: int = 0
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is around a group: how values lie between groups (their layout and the memory; none: not
    there), the regions of resident ones, and which operators load a resident value again. Values
    that lie together have the same number in `joined`; `places` are parts of their buffers for
    values that only tiles hold."""

    main: Mapping[int, tuple[int, int]]
    regions: Mapping[int, Regions]
    reloads: frozenset[tuple[int, int]] = frozenset()
    joined: Mapping[int, int] = field(default_factory=dict[int, int])
    places: Mapping[int, Regions] = field(default_factory=dict[int, Regions])


@dataclass(slots=True)
class GroupRows:
    """The rows of a group, the buffers it has for itself, and those it shares with others. `over`:
    buffers whose bytes may be those of another, which nobody uses any more."""

    rows: list[Row] = field(default_factory=list[Row])
    buffers: list[Local] = field(default_factory=list[Local])
    outside: list[Outside] = field(default_factory=list[Outside])
    over: dict[int, int] = field(default_factory=dict[int, int])


class RowStep(Protocol):
    """A pass within groups."""

    def run(self, context: "Context", ops: tuple[TiledOp, ...], made: GroupRows) -> None:
        """Change the rows of some tiles, or of a group."""
        ...
