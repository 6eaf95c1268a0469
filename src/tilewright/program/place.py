"""Addresses and times: lifetimes in program order, offsets, reuse edges, then a schedule."""

from dataclasses import dataclass
from fractions import Fraction

from tilewright.errors import TilewrightError
from tilewright.machine.machine import Machine
from tilewright.memory import Buffer as Rectangle
from tilewright.memory import Misfit, Problem, allocate
from tilewright.program.program import Program
from tilewright.schedule.problem import Engine, Resources, Schedule
from tilewright.schedule.problem import Problem as TaskProblem
from tilewright.schedule.reuse import PlacedBuffers, reuse_edges
from tilewright.schedule.simulate import simulate


class DoesNotFitError(TilewrightError):
    """The buffers of a memory do not fit."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A program with an address for every buffer and a time for every task."""

    program: Program
    address: tuple[int, ...]
    peaks: tuple[tuple[str, int], ...]
    most_live: tuple[tuple[str, int], ...]
    problem: TaskProblem
    schedule: Schedule


def users_of(program: Program) -> list[list[int]]:
    """Tasks that touch each buffer, in program order."""
    users: list[list[int]] = [[] for _ in program.buffers]
    for number, task in enumerate(program.tasks):
        for view in (*task.reads, *task.writes):
            if not users[view.buffer] or users[view.buffer][-1] != number:
                users[view.buffer].append(number)
    return users


def place(program: Program, machine: Machine) -> Placed:
    """Allocate every memory, order reuse, simulate."""
    users = users_of(program)
    ends = len(program.tasks) + 1
    fixed = {view.buffer for _, view in (*program.inputs, *program.constants, *program.outputs)}
    address = [0] * len(program.buffers)
    peaks: list[tuple[str, int]] = []
    live: list[tuple[str, int]] = []
    for memory in machine.memories:
        inside = [i for i, buffer in enumerate(program.buffers) if buffer.memory == memory.name]
        rectangles: list[Rectangle] = []
        for i in inside:
            buffer = program.buffers[i]
            start, stop = (0, ends) if i in fixed else (users[i][0], users[i][-1] + 1)
            rectangles.append(Rectangle(buffer.name, start, stop, buffer.size, buffer.alignment))
        found = allocate(Problem(tuple(rectangles), memory.usable))
        if isinstance(found, Misfit):
            raise DoesNotFitError(f"memory {memory.name}: {found}")
        for i, offset in zip(inside, found.offsets, strict=True):
            address[i] = offset
        peaks.append((memory.name, found.peak))
        live.append((memory.name, found.lower_bound))
    problem = _problem(program, machine, tuple(address), users)
    return Placed(program, tuple(address), tuple(peaks), tuple(live), problem, simulate(problem))


def _problem(
    program: Program, machine: Machine, address: tuple[int, ...], users: list[list[int]]
) -> TaskProblem:
    names = [engine.name for engine in machine.engines] + [link.name for link in machine.links]
    number = {name: i for i, name in enumerate(names)}
    pools = {name: i for i, (name, _) in enumerate(machine.groups)}
    engines = [Engine() for _ in machine.engines]
    for link in machine.links:
        route = link.routes[0]
        pool = pools[route.groups[0]] if route.groups else None
        engines.append(Engine(rate=_rational(route.bytes_per_cycle), pool=pool))
    resources = Resources(tuple(engines), tuple(_rational(rate) for _, rate in machine.groups))
    problem = TaskProblem.of(
        resources,
        [number[task.engine] for task in program.tasks],
        [task.cycles for task in program.tasks],
        [task.after for task in program.tasks],
        transfer=[task.moved for task in program.tasks],
    )
    memories = {memory.name: i for i, memory in enumerate(machine.memories)}
    places = [
        (memories[buffer.memory], start, start + buffer.size)
        for buffer, start in zip(program.buffers, address, strict=True)
    ]
    used = [i for i, row in enumerate(users) if row]
    placed = PlacedBuffers.of([places[i] for i in used], [users[i] for i in used])
    return problem.with_edges(*reuse_edges(problem, placed))


def _rational(rate: float) -> Fraction:
    return Fraction(rate).limit_denominator(64)
