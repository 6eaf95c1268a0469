"""The compiler's table of contents: the passes, in order."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tilewright.machine.machine import Machine
from tilewright.program.passes.duplicates import remove_duplicate_copies
from tilewright.program.passes.fold import fold_activations
from tilewright.program.passes.multicast import multicast
from tilewright.program.passes.pipeline_engines import pipeline_engines
from tilewright.program.passes.prefetch import prefetch
from tilewright.program.passes.queues import spread_copies
from tilewright.program.passes.reshape import implicit_reshape
from tilewright.program.program import Program


@dataclass(frozen=True, slots=True)
class Pass:
    """A step from program to program."""

    name: str
    run: Callable[[Program, Machine], Program]

    @property
    def description(self) -> str:
        """The first line of its documentation."""
        return (self.run.__doc__ or "").splitlines()[0]


PASSES = (
    Pass("fold-activations", fold_activations),
    Pass("duplicate-copies", remove_duplicate_copies),
    Pass("multicast", multicast),
    Pass("implicit-reshape", implicit_reshape),
    Pass("pipelining", pipeline_engines),
    Pass("prefetch", prefetch),
    Pass("copy-queues", spread_copies),
)


def run_passes(
    program: Program,
    machine: Machine,
    without: Collection[str] = (),
    after: Callable[[str, Program], None] | None = None,
    passes: Sequence[Pass] = PASSES,
) -> Program:
    """The program after all passes, except those switched off; `after` sees it behind each."""
    for step in passes:
        if step.name in without:
            continue
        program = step.run(program, machine)
        if after is not None:
            after(step.name, program)
    return program
