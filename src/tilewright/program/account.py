"""What a placed program costs: one place for every figure that is printed, saved or compared."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import fsum
from typing import TypeVar

from tilewright.machine.machine import Machine
from tilewright.program.place import Placed
from tilewright.program.program import Compute, Program, Task, Transfer
from tilewright.schedule.timeline import EngineUse, engine_uses

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Account:
    """Time, traffic and energy of a placed program; no energy where the machine has no figures for
    it. `engines` are the machine's engines, then its links."""

    latency_cycles: int
    energy_pj: float | None
    dram_read_bytes: int
    dram_write_bytes: int
    engines: tuple[tuple[str, EngineUse], ...]


def account_of(placed: Placed, machine: Machine) -> Account:
    """Add up a program's tasks and its schedule."""
    program = placed.program
    main = machine.main_memory.name
    uses = engine_uses(placed.problem, placed.schedule)
    names = engine_names(machine)
    reads, writes = traffic(program, main)
    return Account(
        latency_cycles=placed.schedule.makespan,
        energy_pj=counted(machine, fsum(task.energy_pj for task in program.tasks)),
        dram_read_bytes=reads,
        dram_write_bytes=writes,
        engines=tuple(zip(names, uses, strict=True)),
    )


@dataclass(slots=True)
class TaskSums:
    """What the tasks of a group, or of a node, add up to."""

    tasks: int = 0
    tiles: set[int] = field(default_factory=set[int])
    start: int | None = None  # of its first task
    end: int = 0
    computed: set[int] = field(default_factory=set[int])  # tiles of tasks that compute
    active: int | None = None  # from the first of these; copies may run far ahead of it
    until: int = 0  # to the end of the last
    macs: int = 0
    energy_pj: float = 0.0
    read_weights: int = 0
    read_activations: int = 0
    written: int = 0
    engines: Counter[str] = field(default_factory=Counter[str])  # busy cycles of each
    computing: Counter[str] = field(default_factory=Counter[str])  # the same without copies

    @property
    def read(self) -> int:
        """Bytes read from the main memory."""
        return self.read_weights + self.read_activations


def task_sums(placed: Placed, machine: Machine, owner: Callable[[Task], K]) -> dict[K, TaskSums]:
    """The sums of tasks by what they belong to."""
    program = placed.program
    main = {i for i, b in enumerate(program.buffers) if b.memory == machine.main_memory.name}
    constant = {view.buffer for _, view in program.constants}
    sums: dict[K, TaskSums] = {}
    starts, ends = placed.schedule.start.tolist(), placed.schedule.end.tolist()
    for task, start, end in zip(program.tasks, starts, ends, strict=True):
        total = sums.setdefault(owner(task), TaskSums())
        total.tasks += 1
        total.tiles.add(task.tile)
        total.start = start if total.start is None else min(total.start, start)
        total.end = max(total.end, end)
        total.energy_pj += task.energy_pj
        for view in task.reads:
            if view.buffer in constant:
                total.read_weights += view.bytes if view.buffer in main else 0
            elif view.buffer in main:
                total.read_activations += view.bytes
        total.written += sum(view.bytes for view in task.writes if view.buffer in main)
        if not isinstance(task.work, Transfer):
            total.computed.add(task.tile)
            total.active = start if total.active is None else min(total.active, start)
            total.until = max(total.until, end)
            total.computing[task.engine] += end - start
        if isinstance(task.work, Compute) and task.work.workload.product:
            total.macs += task.work.workload.macs
        total.engines[task.engine] += end - start
    return sums


def counted(machine: Machine, energy_pj: float) -> float | None:
    """Energy as it is told; None where the machine has no figures for any."""
    return round(energy_pj, 3) if machine.counts_energy else None


def added_cycles(ends: Iterable[int]) -> list[int]:
    """By how much each group moves the end of the run, given their ends in the plan's order: these
    add up to the latency."""
    reached = [0, *accumulate(ends, max)]
    return [now - before for before, now in pairwise(reached)]


def engine_names(machine: Machine) -> tuple[str, ...]:
    """Names in the order in which schedules number them: engines, then links."""
    return (*(engine.name for engine in machine.engines), *(link.name for link in machine.links))


def traffic(program: Program, memory: str) -> tuple[int, int]:
    """Bytes that all tasks read from a memory, and write to it."""
    inside = [buffer.memory == memory for buffer in program.buffers]
    reads = sum(v.bytes for task in program.tasks for v in task.reads if inside[v.buffer])
    writes = sum(v.bytes for task in program.tasks for v in task.writes if inside[v.buffer])
    return reads, writes
