"""Addresses and times: lifetimes in program order, offsets, reuse edges, then a schedule."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tilewright.cost.base import whole_cycles
from tilewright.errors import TilewrightError
from tilewright.machine.machine import Link, Machine
from tilewright.memory import Allocation, Misfit, Problem, Reason, allocate, lower_bound
from tilewright.memory import Buffer as Rectangle
from tilewright.program.lifetimes import Ahead
from tilewright.program.lifetimes import ends as ends_of
from tilewright.program.program import Program, Task, Transfer
from tilewright.schedule.problem import Engine, Resources, Schedule
from tilewright.schedule.problem import Problem as TaskProblem
from tilewright.schedule.reuse import PlacedBuffers, reuse_edges
from tilewright.schedule.simulate import simulate
from tilewright.units import format_bytes

NODES = 1000  # of the exact search, where greedy addresses do not fit
SPARE = 25  # greedy addresses are good enough when they take 1/25 more than the bytes live


class DoesNotFitError(TilewrightError):
    """The buffers of a memory do not fit: which memory, when and why, and during which groups."""

    def __init__(
        self, text: str, memory: str, misfit: Misfit, groups: frozenset[int] = frozenset()
    ) -> None:
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
    spilled for it."""

    program: Program
    address: tuple[int, ...]
    peaks: tuple[tuple[str, int], ...]
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


def place(
    program: Program,
    machine: Machine,
    known: Mapping[int, int] | None = None,
    *,
    tight: bool = False,
    ahead: Ahead | None = None,
    engines: bool = True,
) -> Placed:
    """Allocate every memory, order reuse, simulate. `known` are addresses that fit, for where none
    as low are found quickly; where `tight`, more is searched for a peak close to the bytes that
    are live at once. Groups hold what they use as long as `ahead` and `engines` say
    (`lifetimes.ends`)."""
    users = users_of(program)
    held = ends_of(program.tasks, machine, ahead or {}, engines=engines)
    ends = len(program.tasks) + 1
    fixed = fixed_buffers(program)
    address = [0] * len(program.buffers)
    peaks: list[tuple[str, int]] = []
    live: list[tuple[str, int]] = []
    inside: dict[str, list[int]] = {memory.name: [] for memory in machine.memories}
    for i, buffer in enumerate(program.buffers):
        inside[buffer.memory].append(i)
    for memory in machine.memories:
        rectangles: list[Rectangle] = []
        for i in inside[memory.name]:
            buffer = program.buffers[i]
            last = users[i][-1] if users[i] else 0
            start, stop = (0, ends) if i in fixed else (users[i][0], held.get(last, last) + 1)
            rectangles.append(Rectangle(buffer.name, start, stop, buffer.size, buffer.alignment))
        room = Problem(tuple(rectangles), memory.usable)
        least = lower_bound(room)
        enough = least * (SPARE + 1) // SPARE
        there = known is not None and all(i in known for i in inside[memory.name])
        limit = NODES if tight or not there else 0
        found = allocate(room, target=enough, node_limit=limit, minimise_peak=tight)
        if known is not None and there and (isinstance(found, Misfit) or found.peak > enough):
            offsets = [known[i] for i in inside[memory.name]]
            sizes = (program.buffers[i].size for i in inside[memory.name])
            peak = max((o + size for o, size in zip(offsets, sizes, strict=True)), default=0)
            if isinstance(found, Misfit) or peak < found.peak:
                found = Allocation(tuple(offsets), peak, least, optimal=False, nodes=0)
        if isinstance(found, Misfit):
            raise _does_not_fit(program, memory.name, found)
        for i, offset in zip(inside[memory.name], found.offsets, strict=True):
            address[i] = offset
        peaks.append((memory.name, found.peak))
        live.append((memory.name, found.lower_bound))
    problem = _problem(program, machine, tuple(address), users)
    return Placed(program, tuple(address), tuple(peaks), tuple(live), problem, simulate(problem))


def _does_not_fit(program: Program, memory: str, misfit: Misfit) -> DoesNotFitError:
    """Bytes needed and there, and the tasks around the time in question."""
    last = len(program.tasks) - 1
    first, stop = (program.tasks[min(t, last)].name for t in (misfit.start, misfit.stop - 1))
    needed, there = misfit.capacity + misfit.short_by, format_bytes(misfit.capacity)
    why = misfit.reason.value + ("" if misfit.proven else ", in the best addresses found")
    live = f" for {format_bytes(misfit.live_bytes)} live"
    pieces = live if misfit.reason is Reason.FRAGMENTATION else ""
    return DoesNotFitError(
        f"memory {memory}: {format_bytes(needed)} are needed{pieces} ({why}), {there} are there, "
        f"between '{first}' and '{stop}'",
        memory,
        misfit,
        frozenset(task.group for task in program.tasks[misfit.start : misfit.stop]),
    )


def _problem(
    program: Program, machine: Machine, address: tuple[int, ...], users: list[list[int]]
) -> TaskProblem:
    names = [engine.name for engine in machine.engines] + [link.name for link in machine.links]
    number = {name: i for i, name in enumerate(names)}
    engines = [Engine() for _ in machine.engines]
    engines += [_shared_engine(link, machine) for link in machine.links]
    resources = Resources(tuple(engines), tuple(schedule_rate(rate) for _, rate in machine.groups))
    times = [_time_and_bytes(task, machine) for task in program.tasks]
    problem = TaskProblem.of(
        resources,
        [number[task.engine] for task in program.tasks],
        [cycles for cycles, _ in times],
        [task.after for task in program.tasks],
        transfer=[moved for _, moved in times],
    )
    memories = {memory.name: i for i, memory in enumerate(machine.memories)}
    places = [
        (memories[buffer.memory], start, start + buffer.size)
        for buffer, start in zip(program.buffers, address, strict=True)
    ]
    used = [i for i, row in enumerate(users) if row]
    placed = PlacedBuffers.of([places[i] for i in used], [users[i] for i in used])
    return problem.with_edges(*reuse_edges(problem, placed))


def _shared_engine(link: Link, machine: Machine) -> Engine:
    """A link as those of its routes see it that share bandwidth: the slowest of them where they
    differ. Where none does, its slowest route."""
    shared = [route for route in link.routes if route.groups]
    if not shared:
        return Engine(rate=schedule_rate(min(route.bytes_per_cycle for route in link.routes)))
    names = [name for name, _ in machine.groups]
    groups = {group for route in shared for group in route.groups}
    pool = min(groups, key=lambda name: (machine.group_bytes_per_cycle(name), names.index(name)))
    rate = schedule_rate(min(route.bytes_per_cycle for route in shared))
    return Engine(rate=rate, pool=names.index(pool))


def _time_and_bytes(task: Task, machine: Machine) -> tuple[int, int]:
    """Cycles on its engine, and bytes over shared bandwidth after them. A copy on a route that
    shares none has its whole time to itself."""
    if not isinstance(task.work, Transfer):
        return task.cycles, task.moved
    route = machine.link(task.engine).route(*task.work.route)
    if route is None or route.groups:
        return task.cycles, task.moved
    return task.cycles + whole_cycles(task.moved / route.bytes_per_cycle), 0


def schedule_rate(rate: float) -> Fraction:
    """A rate as the small fraction that is simulated."""
    return Fraction(rate).limit_denominator(64)
