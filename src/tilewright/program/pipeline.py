"""The compiler's table of contents: every step from a plan to a program with addresses and times,
in order. A step is a frozen value whose fields are its options."""

from dataclasses import dataclass
from typing import ClassVar

from tilewright.program.passes.duplicates import DuplicateCopies
from tilewright.program.passes.fold import FoldActivations
from tilewright.program.passes.multicast import Multicast
from tilewright.program.passes.reshape import ImplicitReshape


@dataclass(frozen=True, slots=True)
class Pipelining:
    """Order the operators of a group as a wavefront over its tiles, where engines alternate."""

    name: ClassVar[str] = "pipelining"
    requires: ClassVar[str] = "the tasks of each group, tile after tile"
    ensures: ClassVar[str] = "matrix and vector engines work on neighbouring tiles"


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Issue loads in front of the operators that run while they arrive, as far as there is room."""

    name: ClassVar[str] = "prefetch"
    requires: ClassVar[str] = "the dependencies of all tasks"
    ensures: ClassVar[str] = "an order of all tasks, and addresses in every scratchpad"


@dataclass(frozen=True, slots=True)
class CopyQueues:
    """Start copies in the order of their urgency, each on a link that is free."""

    name: ClassVar[str] = "copy-queues"
    requires: ClassVar[str] = "an order of all tasks, and addresses"
    ensures: ClassVar[str] = "every copy is on one link, in the order that tasks start"


@dataclass(frozen=True, slots=True)
class Spilling:
    """Where addresses are not found, buffers leave a scratchpad between two uses."""

    rounds: int = 40
    name: ClassVar[str] = "spilling"
    requires: ClassVar[str] = "an order of all tasks that does not fit"
    ensures: ClassVar[str] = "one that does, or the reason why not"


LOCAL = (FoldActivations(), DuplicateCopies(), Multicast(), ImplicitReshape())
"""Within a group: alike groups share what these make of them."""

PIPELINING, PREFETCH, QUEUES, SPILLING = Pipelining(), Prefetch(), CopyQueues(), Spilling()
PASSES = (*LOCAL, PIPELINING, PREFETCH, QUEUES)
"""All passes that can be left out, in order."""

STEPS = (*PASSES, SPILLING)

LESS_AT_ONCE = ("pipelining", "prefetch", "multicast", "duplicate-copies")
"""The retry policy: passes that hold more at once, left out one after the other where a scratchpad
is short; the faster of that and spilling is taken."""


def description(step: object) -> str:
    """What a step does, in a line."""
    return " ".join((step.__doc__ or "").split())
