"""From a plan to a placed program: build, passes, addresses, schedule."""

from dataclasses import dataclass

from tilewright.graph.graph import Graph
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan
from tilewright.program.build import Builder
from tilewright.program.pipeline import run_passes
from tilewright.program.place import DoesNotFitError, Placed, place

# Passes that hold more in the scratchpad at once, dropped one after the other where it is short.
GREEDY = ("pipelining", "prefetch", "multicast", "duplicate-copies")


@dataclass(frozen=True, slots=True)
class Lowered:
    """A placed program, and the passes that had to be left out to make it fit."""

    placed: Placed
    left_out: tuple[str, ...]


def lower(
    graph: Graph, machine: Machine, plan: Plan, without: frozenset[str] = frozenset()
) -> Lowered:
    """Lower a plan; where the scratchpad is too small for overlap, do without overlap."""
    built = Builder(graph, machine, plan).program()
    for count in range(len(GREEDY) + 1):
        dropped = GREEDY[:count]
        try:
            program = run_passes(built, machine, without | frozenset(dropped))
            return Lowered(place(program, machine), dropped)
        except DoesNotFitError:
            if count == len(GREEDY):
                raise
    raise AssertionError("the loop returns or raises")
