"""The table of seeded faults, and what kinds of fault are made with.

A kind of fault turns a good placed program into bad ones, each with one thing wrong.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from support.programs import Lowered, with_task
from tilewright.graph.ops.spec import Step
from tilewright.program.place import Placed
from tilewright.program.program import Compute, Task, View

PROGRAM, PLACED, NUMBERS = "verify_program", "verify_placed", "virtual machine"

Change = Callable[[Lowered], Iterator[Placed]]
FAULTS: dict[str, tuple[str, Change, frozenset[str]]] = {}


def fault(caught_by: str, *needs: str) -> Callable[[Change], Change]:
    """Enter a kind of fault in the table. `needs`: only programs whose names contain all these."""

    def enter(change: Change) -> Change:
        FAULTS[change.__name__] = (caught_by, change, frozenset(needs))
        return change

    return enter


def tasks_of(case: Lowered, start: str) -> Iterator[tuple[int, Task]]:
    for number, task in enumerate(case.program.tasks):
        if task.name.startswith(start):
            yield number, task


def transfers(case: Lowered, *, loads: bool) -> Iterator[tuple[int, Task]]:
    yield from tasks_of(case, "load " if loads else "store ")


def computes(case: Lowered) -> Iterator[tuple[int, Task, Compute]]:
    for number, task in enumerate(case.program.tasks):
        if isinstance(task.work, Compute):
            yield number, task, task.work


def fewer_rows(view: View) -> View:
    return replace(view, shape=(*view.shape[:2], view.shape[2] - 1, view.shape[3]))


def with_buffer(case: Lowered, number: int, **changes: object) -> Placed:
    buffers = list(case.program.buffers)
    buffers[number] = replace(buffers[number], **changes)  # type: ignore[arg-type]
    return replace(case.placed, program=replace(case.program, buffers=tuple(buffers)))


def with_steps(case: Lowered, number: int, steps: tuple[Step, ...]) -> Placed:
    task = case.program.tasks[number]
    assert isinstance(task.work, Compute)
    return with_task(case.placed, number, replace(task, work=replace(task.work, steps=steps)))


def lifetimes(case: Lowered) -> dict[int, tuple[int, int]]:
    """First and last user of every buffer that is no network input, output or weight."""
    found: dict[int, tuple[int, int]] = {}
    for number, task in enumerate(case.program.tasks):
        for view in (*task.reads, *task.writes):
            found[view.buffer] = (found.get(view.buffer, (number, 0))[0], number)
    program = case.program
    for _, view in (*program.inputs, *program.constants, *program.outputs):
        found[view.buffer] = (-1, len(program.tasks))
    return found


def live_pairs(case: Lowered) -> Iterator[tuple[int, int]]:
    """Buffers of one memory that live together, the lower address first."""
    lives, buffers, address = lifetimes(case), case.program.buffers, case.placed.address
    for one, (born, dies) in lives.items():
        for other, (others_birth, others_death) in lives.items():
            same = buffers[one].memory == buffers[other].memory
            together = born <= others_death and others_birth <= dies
            if same and together and address[one] < address[other]:
                yield one, other
