"""What is scheduled: tasks with dependencies, the engines that run them, the bandwidth they share.

Tasks are numbered 0..n-1 in program order and every dependency points backwards in it, so a
problem can never deadlock. Times are whole cycles, sizes whole bytes, rates exact rationals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Quantities = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

EXACT_SHARES = 16
"""Up to so many transfers at once divide a pool without rounding; beyond, shares round down."""

_LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class Engine:
    """Something that runs tasks: an array, a vector unit, a DMA port, a link.

    In order, tasks start in program order (with several servers they may overlap). Out of order,
    the ready task of smallest priority value starts first, then the first in program order. `rate`
    is the most bytes per cycle one server moves; `pool` the bandwidth it shares with others.
    """

    in_order: bool = True
    servers: int = 1
    rate: Fraction | None = None
    pool: int | None = None

    @property
    def serial(self) -> bool:
        """Whether each of its tasks ends before the next one of the program starts."""
        return self.in_order and self.servers == 1


@dataclass(frozen=True, slots=True)
class ResourceTable:
    """Resources as arrays, for the compiled loop; -1 means no pool.

    A pool counts in units, so small that ports and shares are whole units per cycle.
    """

    in_order: Flags
    servers: Quantities
    pool: Quantities
    units_per_byte: Quantities
    units_per_cycle: Quantities
    pool_units_per_cycle: Quantities


@dataclass(frozen=True)
class Resources:
    """The engines, and the pools of bandwidth (bytes per cycle) that some of them share.

    The active transfers of a pool share it max-min fairly: equal shares, no port above its rate,
    what one cannot use going to the others.
    """

    engines: tuple[Engine, ...]
    pools: tuple[Fraction, ...] = ()

    def __post_init__(self) -> None:
        for index, engine in enumerate(self.engines):
            if engine.servers < 1:
                raise ValueError(f"engine {index} has no server")
            if engine.rate is not None and engine.rate <= 0:
                raise ValueError(f"engine {index} has rate {engine.rate}")
            if engine.pool is not None and not 0 <= engine.pool < len(self.pools):
                raise ValueError(f"engine {index} names pool {engine.pool}, which does not exist")
        if any(rate <= 0 for rate in self.pools):
            raise ValueError("a pool has no bandwidth")
        if any(self.grain(pool) >= 2**40 for pool in range(len(self.pools))):
            raise ValueError("rates of a pool have no small common denominator; round them first")

    def sharers(self, pool: int) -> tuple[Engine, ...]:
        """The engines that share this pool."""
        return tuple(engine for engine in self.engines if engine.pool == pool)

    def grain(self, pool: int) -> int:
        """Units per byte of a pool: every port rate, and every equal share of up to EXACT_SHARES
        transfers, is a whole number of units per cycle."""
        sharers = self.sharers(pool)
        slots = min(EXACT_SHARES, sum(engine.servers for engine in sharers))
        rates = [engine.rate for engine in sharers if engine.rate is not None]
        common = lcm(*(rate.denominator for rate in (self.pools[pool], *rates)))
        return common * lcm(*range(1, slots + 1))

    @cached_property
    def table(self) -> ResourceTable:
        """The same facts as arrays."""
        grains = [self.grain(pool) for pool in range(len(self.pools))]
        units = [_units(engine, self.pools, grains) for engine in self.engines]
        whole = [int(rate * grain) for rate, grain in zip(self.pools, grains, strict=True)]
        pools = [-1 if engine.pool is None else engine.pool for engine in self.engines]
        return ResourceTable(
            in_order=np.array([engine.in_order for engine in self.engines], dtype=np.bool_),
            servers=np.array([engine.servers for engine in self.engines], dtype=np.int64),
            pool=np.array(pools, dtype=np.int64),
            units_per_byte=np.array([per_byte for per_byte, _ in units], dtype=np.int64),
            units_per_cycle=np.array([per_cycle for _, per_cycle in units], dtype=np.int64),
            pool_units_per_cycle=np.array(whole, dtype=np.int64),
        )


def _units(engine: Engine, pools: tuple[Fraction, ...], grains: list[int]) -> tuple[int, int]:
    """Units per byte, and the most units per cycle, of one server of an engine."""
    if engine.pool is not None:
        rate = min(pools[engine.pool], engine.rate or pools[engine.pool])
        return grains[engine.pool], int(rate * grains[engine.pool])
    rate = engine.rate or Fraction(1)
    return rate.denominator, rate.numerator


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Tasks in program order, one row each.

    `duration` is the time of a task that moves nothing, and the latency of one that moves
    `transfer` bytes: during it the engine is held but no bandwidth is used. Task t depends on
    `needs[need_start[t]:need_start[t + 1]]`, all before it in program order.
    """

    resources: Resources
    engine: Ids
    duration: Quantities
    transfer: Quantities
    priority: Quantities
    need_start: Quantities
    needs: Ids

    def __post_init__(self) -> None:
        count = self.engine.size
        for name in ("duration", "transfer", "priority"):
            if getattr(self, name).size != count:
                raise ValueError(f"{name} does not have one entry for each of {count} tasks")
        if self.need_start.size != count + 1 or np.any(np.diff(self.need_start) < 0):
            raise ValueError("need_start does not delimit one list for each task")
        if self.need_start[0] != 0 or self.need_start[-1] != self.needs.size:
            raise ValueError("need_start does not cover needs")
        if np.any(self.needs < 0) or np.any(self.needs >= self.edge_targets()):
            raise ValueError("a task depends on one that is not before it in program order")
        engines = len(self.resources.engines)
        if np.any(self.engine < 0) or np.any(self.engine >= engines):
            raise ValueError("a task names an engine that does not exist")
        if np.any(self.duration < 0) or np.any(self.transfer < 0):
            raise ValueError("a task has a negative duration or transfer")
        self._check_transfers()

    def _check_transfers(self) -> None:
        """Transfers need a rate, and their units and times must fit in 64 bits."""
        moving = np.flatnonzero(self.transfer)
        if moving.size:
            movers: list[int] = np.unique(self.engine[moving]).tolist()
            for index in movers:
                engine = self.resources.engines[index]
                if engine.rate is None and engine.pool is None:
                    raise ValueError(f"engine {index} moves bytes and has no rate")
        table = self.resources.table
        bytes_moved = self.transfer.astype(np.float64)
        units = bytes_moved * table.units_per_byte[self.engine]
        servers = float(table.servers.sum()) + 1.0
        longest = units / table.units_per_cycle[self.engine] * servers
        if float(units.max(initial=0.0)) >= _LIMIT:
            raise ValueError("a transfer is too large to be counted in 64 bits")
        if float(self.duration.sum(dtype=np.float64) + longest.sum()) >= _LIMIT:
            raise ValueError("the tasks take more cycles than 64 bits can count")

    @classmethod
    def of(
        cls,
        resources: Resources,
        engine: Sequence[int],
        duration: Sequence[int],
        needs: Sequence[Sequence[int]],
        *,
        transfer: Sequence[int] | None = None,
        priority: Sequence[int] | None = None,
    ) -> "Problem":
        """A problem from plain lists; `needs[t]` are the tasks that t waits for."""
        zeros = [0] * len(engine)
        lengths = [0, *(len(row) for row in needs)]
        return cls(
            resources=resources,
            engine=np.array(engine, dtype=np.int32),
            duration=np.array(duration, dtype=np.int64),
            transfer=np.array(zeros if transfer is None else transfer, dtype=np.int64),
            priority=np.array(zeros if priority is None else priority, dtype=np.int64),
            need_start=np.cumsum(np.array(lengths, dtype=np.int64)),
            needs=np.array([need for row in needs for need in row], dtype=np.int32),
        )

    @property
    def count(self) -> int:
        """How many tasks there are."""
        return self.engine.size

    def edge_targets(self) -> Ids:
        """For every entry of `needs`, the task that waits for it."""
        tasks = np.arange(self.engine.size, dtype=np.int32)
        return np.repeat(tasks, np.diff(self.need_start))

    def needs_of(self, task: int) -> list[int]:
        """The tasks that one waits for."""
        return self.needs[self.need_start[task] : self.need_start[task + 1]].tolist()

    def with_edges(self, first: Ids, second: Ids) -> "Problem":
        """The same tasks, with second[i] waiting for first[i] too."""
        before = np.concatenate((self.needs, first.astype(np.int32)))
        after = np.concatenate((self.edge_targets(), second.astype(np.int32)))
        edges = np.unique(after.astype(np.int64) * max(1, self.count) + before)
        lengths = np.bincount(edges // max(1, self.count), minlength=self.count)
        return Problem(
            resources=self.resources,
            engine=self.engine,
            duration=self.duration,
            transfer=self.transfer,
            priority=self.priority,
            need_start=np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))),
            needs=(edges % max(1, self.count)).astype(np.int32),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """When each task starts and ends, in cycles: it runs during [start, end)."""

    start: Quantities
    end: Quantities

    @property
    def makespan(self) -> int:
        """When the last task ends."""
        return int(self.end.max(initial=0))
