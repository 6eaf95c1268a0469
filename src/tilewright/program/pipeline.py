"""The compiler's table of contents: every step from a plan to a program with addresses and times,
in order. A step is a frozen value whose fields are its options."""

from dataclasses import dataclass

from tilewright.program.passes.duplicates import DuplicateCopies
from tilewright.program.passes.fold import FoldActivations
from tilewright.program.passes.multicast import Multicast
from tilewright.program.passes.reshape import ImplicitReshape


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A step over a whole block or plan, which compiled code takes; `rounds` at the most."""

    name: str
    does: str
    requires: str
    ensures: str
    rounds: int = 1


PIPELINING = PlanStep(
    "pipelining",
    "Order the operators of a group as a wavefront over its tiles, where engines alternate.",
    requires="the tasks of each group, tile after tile",
    ensures="matrix and vector engines work on neighbouring tiles",
)
PREFETCH = PlanStep(
    "prefetch",
    "Issue loads in front of the operators that run while they arrive, as far as there is room.",
    requires="the dependencies of all tasks",
    ensures="an order of all tasks, and addresses in every scratchpad",
)
QUEUES = PlanStep(
    "copy-queues",
    "Start copies in the order of their urgency, each on a link that is free.",
    requires="an order of all tasks, and addresses",
    ensures="every copy is on one link, in the order that tasks start",
)
IN_PLACE = PlanStep(
    "in-place",
    "Where room is short, write results of element-wise work, softmax and norms over an operand of "
    "their tile that nothing else reads, if that is faster.",
    requires="which results may lie over an operand",
    ensures="the faster of programs with and without",
)
SPILLING = PlanStep(
    "spilling",
    "Where addresses are not found, buffers leave a scratchpad between two uses.",
    requires="an order of all tasks that does not fit",
    ensures="one that does, or the reason why not",
    rounds=40,
)
IN_TILES = (FoldActivations(), ImplicitReshape())
"""Within a tile, or several that share buffers: alike tiles share what these make of them."""

ACROSS_TILES = (DuplicateCopies(), Multicast())
"""Over all tiles of a group: alike groups share what these make of them."""

PASSES = (*IN_TILES, *ACROSS_TILES, PIPELINING, PREFETCH, QUEUES, IN_PLACE)
"""All passes that can be left out, in order."""

STEPS = (*PASSES, SPILLING)

LESS_AT_ONCE = ("pipelining", "prefetch", "multicast", "duplicate-copies")
"""The retry policy: passes that hold more at once, left out one after the other where a scratchpad
is short; the faster of that and spilling is taken."""


def description(step: object) -> str:
    """What a step does, in a line."""
    return step.does if isinstance(step, PlanStep) else " ".join((step.__doc__ or "").split())
