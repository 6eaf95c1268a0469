"""A program with an address for every buffer and a time for every task."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.machine.machine import Machine
from tilewright.memory import Misfit, MisfitReason
from tilewright.program.from_program import columns_of
from tilewright.program.program import Program, Task
from tilewright.program.tables import Tables, tables_of
from tilewright.program.timed import Short, Timed, timed_in_order
from tilewright.schedule.problem import Problem as TaskProblem
from tilewright.schedule.problem import Quantities, Schedule
from tilewright.units import format_bytes

LARGEST = 3  # tensors that are named where there is not enough room


class DoesNotFitError(TilewrightError):
    """The buffers of a memory do not fit: which memory, when and why, and during which groups."""

    def __init__(self, text: str, memory: str, misfit: Misfit, groups: frozenset[int]) -> None:
        super().__init__(text)
        self.memory, self.misfit, self.groups = memory, misfit, groups


@dataclass(frozen=True, slots=True)
class Spill:
    """A buffer that left its memory between two uses to make room. `stored` is False where its
    bytes were in the main memory already; `moved` are the bytes stored and loaded again, `window`
    the tasks around the time in which there was not enough room."""

    buffer: str
    memory: str
    bytes: int
    moved: int
    stored: bool
    reason: str
    window: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Placed:
    """A program with an address for every buffer and a time for every task, and what had to be
    spilled for it. For each memory: the `highest` address that is used, and its peak, the bytes
    that are `most_live` at once."""

    program: Program
    address: tuple[int, ...]
    highest: tuple[tuple[str, int], ...]
    most_live: tuple[tuple[str, int], ...]
    problem: TaskProblem
    schedule: Schedule
    spills: tuple[Spill, ...] = ()


def users_of(program: Program) -> list[list[int]]:
    """Tasks that touch each buffer, in program order."""
    users: list[list[int]] = [[] for _ in program.buffers]
    for number, task in enumerate(program.tasks):
        for view in (*task.reads, *task.writes):
            if not users[view.buffer] or users[view.buffer][-1] != number:
                users[view.buffer].append(number)
    return users


def fixed_buffers(program: Program) -> set[int]:
    """Buffers that the host fills or reads: they live from start to end."""
    outside = (*program.inputs, *program.constants, *program.outputs)
    return {view.buffer for _, view in outside}


def most_live(program: Program, memories: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """For each memory the most bytes that are live at once, in the order of the tasks."""
    fixed, users = fixed_buffers(program), users_of(program)
    held = dict.fromkeys(memories, 0)
    for number in fixed:
        held[program.buffers[number].memory] += program.buffers[number].size
    return tuple(
        (memory, always + int(_live(program, users, memory).max()))
        for memory, always in held.items()
    )


def _live(program: Program, users: list[list[int]], memory: str) -> Quantities:
    """The bytes of a memory that are live at each task, without those that the host fills or reads,
    and behind the last."""
    steps, fixed = np.zeros(len(program.tasks) + 1, dtype=np.int64), fixed_buffers(program)
    for number, buffer in enumerate(program.buffers):
        if buffer.memory == memory and users[number] and number not in fixed:
            steps[users[number][0]] += buffer.size
            steps[users[number][-1] + 1] -= buffer.size
    return np.cumsum(steps)


def place(program: Program, machine: Machine, *, deal: bool = False) -> Placed:
    """Link a program in its order, allocate every memory, order reuse, simulate; where `deal`,
    copies are dealt out over the links anew, and tasks are in the order they start then."""
    tables = tables_of(machine)
    found = timed_in_order(columns_of(program, tables), tables, deal=deal)
    starts, needs = found.needs.start.tolist(), found.needs.needs.tolist()
    tasks: list[Task] = []
    order: list[int] = found.order.tolist()
    for new, number in enumerate(order):
        task = program.tasks[number]
        task = task.linked(task.reads, task.writes, tuple(needs[starts[new] : starts[new + 1]]))
        if isinstance(found, Timed):
            name = tables.engines[int(found.issued.engine[new])]
            if task.engine != name:
                copy, choice = int(found.columns.copy[number]), int(found.issued.choice[new])
                way = tables.costs[copy].ways[choice]
                task = replace(task, engine=name, cycles=way.cycles, moved=way.moved)
        tasks.append(task)
    program = replace(program, tasks=tuple(tasks))
    if isinstance(found, Short):
        raise does_not_fit(program, machine, found)
    return placed_of(program, found, tables)


def placed_of(program: Program, timed: Timed, tables: Tables) -> Placed:
    """A program, its tasks in the order they are issued, with the addresses and times found."""
    names = [memory.name for memory in tables.machine.memories]
    zeros = np.zeros(len(program.tasks), np.int64)
    problem = TaskProblem(
        tables.resources,
        timed.issued.engine,
        timed.issued.duration,
        timed.issued.transfer,
        zeros,
        timed.waits.start,
        timed.waits.needs,
    )
    return Placed(
        program,
        tuple(timed.address.tolist()),
        tuple(zip(names, timed.highest.tolist(), strict=True)),
        tuple(zip(names, timed.most_live.tolist(), strict=True)),
        problem,
        Schedule(timed.start, timed.end),
    )


def does_not_fit(program: Program, machine: Machine, short: Short) -> DoesNotFitError:
    """Bytes needed and there, and the tasks around the time in question."""
    misfit, memory = short.misfit, machine.memories[short.memory].name
    last = len(program.tasks) - 1
    ends = [program.tasks[min(t, last)] for t in (misfit.start, misfit.stop - 1)]
    first, stop = (f"'{task.node}' (tile {task.tile})" for task in ends)
    needed, there = misfit.capacity + misfit.short_by, format_bytes(misfit.capacity)
    why = misfit.reason.value + ("" if misfit.proven else ", in the best addresses found")
    live = f" for {format_bytes(misfit.live_bytes)} live"
    pieces = live if misfit.reason is MisfitReason.FRAGMENTATION else ""
    return DoesNotFitError(
        f"memory {memory}: {format_bytes(needed)} are needed{pieces} ({why}), {there} are there, "
        f"between {first} and {stop}; most of it {_largest(program, memory, misfit)}",
        memory,
        misfit,
        short.groups,
    )


def _largest(program: Program, memory: str, misfit: Misfit) -> str:
    """The tensors that take most bytes of a memory where they do not fit."""
    users, fixed = users_of(program), fixed_buffers(program)
    moment = worst_moment(program, users, memory, misfit)
    held: dict[str, int] = {}
    for number, buffer in enumerate(program.buffers):
        row = users[number]
        live = number in fixed or (row and row[0] <= moment <= row[-1])
        if buffer.memory == memory and live:
            held[buffer.value] = held.get(buffer.value, 0) + buffer.size
    most = sorted(held.items(), key=lambda row: -row[1])[:LARGEST]
    return ", ".join(f"'{name}' {format_bytes(size)}" for name, size in most)


def worst_moment(program: Program, users: list[list[int]], memory: str, misfit: Misfit) -> int:
    """The task of the window at which most bytes are live."""
    first = min(misfit.start, len(program.tasks) - 1)
    live = _live(program, users, memory)[first : max(first + 1, misfit.stop)]
    return first + int(live.argmax())
