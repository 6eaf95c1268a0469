"""From a plan to a placed program: build, passes, addresses, times."""

from collections.abc import Callable

from tilewright.errors import VerificationError
from tilewright.graph.graph import Graph
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan
from tilewright.program.build import Builder
from tilewright.program.pipeline import run_passes
from tilewright.program.place import DoesNotFitError, Placed, place
from tilewright.program.program import Program
from tilewright.program.verify import verify_program

# Passes that hold more at once, left out one after the other where the scratchpad is short.
HUNGRY = ("pipelining", "prefetch", "multicast", "duplicate-copies")
BUILD = "build"  # the name of the step before the first pass

Watch = Callable[[str, Program], None]


def lowered(
    graph: Graph,
    machine: Machine,
    plan: Plan,
    without: frozenset[str] = frozenset(),
    watch: Watch | None = None,
) -> Placed:
    """The plan's tasks after all passes except those switched off, placed and scheduled; where
    the scratchpad is too small for overlap, without overlap. Every pass is verified."""
    built = Builder(graph, machine, plan).program()
    if watch is not None:
        watch(BUILD, built)

    def after(step: str, program: Program) -> None:
        try:
            verify_program(program, machine)
        except VerificationError as error:  # blamed on the pass that made it
            raise VerificationError(f"after pass '{step}': {error}") from None
        if watch is not None:
            watch(step, program)

    for count in range(len(HUNGRY)):
        left_out = {*without, *HUNGRY[:count]}
        try:
            return place(run_passes(built, machine, left_out, after), machine)
        except DoesNotFitError:
            continue
    return place(run_passes(built, machine, {*without, *HUNGRY}, after), machine)
