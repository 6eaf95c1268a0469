"""What a placed program costs, and what a search wants least of: the same figures for both."""

from dataclasses import dataclass, field
from enum import StrEnum
from math import fsum

import numpy as np

from tilewright.program.account import traffic
from tilewright.program.place import Placed
from tilewright.program.timed import Timed


class Objective(StrEnum):
    """What a plan should have least of."""

    LATENCY = "latency"
    ENERGY = "energy"
    TRAFFIC = "traffic"
    MEMORY = "memory"
    EDP = "edp"

    @property
    def counts_energy(self) -> bool:
        """Whether it means something only where a machine has figures for energy."""
        return self in (Objective.ENERGY, Objective.EDP)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Time, bytes from and to the main memory, energy, and the most that is live at once in the
    fullest scratchpad; how many tasks were run in how many ways to know it."""

    cycles: int
    read_bytes: int
    write_bytes: int
    energy_pj: float
    peak_bytes: int
    tasks: int
    ways: int = field(default=1, compare=False)

    @property
    def run_tasks(self) -> int:
        """Tasks of all ways in which it was run."""
        return self.tasks * self.ways

    @property
    def dram_bytes(self) -> int:
        """Bytes from and to the main memory."""
        return self.read_bytes + self.write_bytes


def score(metrics: Metrics, objective: Objective) -> float:
    """What a search compares."""
    match objective:  # asked several times of every plan: only the one figure is worked out
        case Objective.LATENCY:
            return float(metrics.cycles)
        case Objective.ENERGY:
            return metrics.energy_pj
        case Objective.TRAFFIC:
            return float(metrics.dram_bytes)
        case Objective.MEMORY:
            return float(metrics.peak_bytes)
        case Objective.EDP:
            return metrics.energy_pj * metrics.cycles


@dataclass(frozen=True, slots=True)
class Prices:
    """What an objective pays for one more cycle, byte of traffic and picojoule: `score` where
    figures are added up, group by group. A little of the others decides between equals."""

    cycle: float = 0.0
    byte: float = 0.0
    picojoule: float = 0.0

    def of(self, cycles: float, traffic: float, energy: float) -> float:
        """What these figures cost."""
        return self.cycle * cycles + self.byte * traffic + self.picojoule * energy


def prices_of(objective: Objective, cycles: float, energy: float) -> Prices:
    """The prices of an objective near a plan that takes so many cycles and picojoules: of a product
    of both, each is worth what the other is. For little memory the fastest plan within a limit is
    looked for."""
    if objective is Objective.ENERGY:
        return Prices(cycle=1e-3, picojoule=1.0)
    if objective is Objective.TRAFFIC:
        return Prices(cycle=1e-3, byte=1.0)
    if objective is Objective.EDP and energy:
        return Prices(cycle=energy, picojoule=cycles)
    return Prices(cycle=1.0, byte=1e-4)


def metrics_of(timed: Timed) -> Metrics:
    """The figures of a program as columns."""
    columns, tables = timed.columns, timed.tables
    main = tables.hardware.main
    there = columns.memory[columns.buffer] == main
    moved = tables.views.bytes[columns.layout[there]]
    written = columns.write[there] != 0
    others = np.arange(timed.most_live.size) != main
    return Metrics(
        timed.makespan,
        int(moved[~written].sum()),
        int(moved[written].sum()),
        float(columns.energy.sum()),
        int(timed.most_live[others].max(initial=0)),
        columns.tasks,
        timed.ways,
    )


def metrics_of_placed(placed: Placed, main: str) -> Metrics:
    """The same of a placed program."""
    program = placed.program
    return Metrics(
        placed.schedule.makespan,
        *traffic(program, main),
        fsum(task.energy_pj for task in program.tasks),
        max((live for memory, live in placed.most_live if memory != main), default=0),
        len(program.tasks),
    )
