"""What a placed program costs: one place for every figure that is printed, saved or compared."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import fsum

from tilewright.machine.machine import Machine
from tilewright.program.place import Placed
from tilewright.program.program import Program
from tilewright.schedule.timeline import EngineUse, timeline


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
    uses = timeline(placed.problem, placed.schedule).engines
    names = engine_names(machine)
    reads, writes = traffic(program, main)
    return Account(
        latency_cycles=placed.schedule.makespan,
        energy_pj=counted(machine, fsum(task.energy_pj for task in program.tasks)),
        dram_read_bytes=reads,
        dram_write_bytes=writes,
        engines=tuple(zip(names, uses, strict=True)),
    )


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
