"""A naive check of a schedule, written apart from what makes it."""

from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from tilewright.schedule.problem import Problem, Resources, Schedule


class FaultKind(Enum):
    """What can be wrong with a schedule."""

    SHAPE = "not one start and end for each task"
    NEGATIVE = "starts before cycle 0"
    DEPENDENCY = "starts before a task it needs has ended"
    ORDER = "starts before an earlier task of its in-order engine"
    OVERLAP = "starts while every server of its engine is busy"
    DURATION = "takes another time than its own"
    BANDWIDTH = "moves more bytes than its share of the bandwidth allows"
    LATE = "ends later than its share of the bandwidth allows"


class ScheduleFault(NamedTuple):
    """One thing that is wrong, and the tasks it is about."""

    kind: FaultKind
    tasks: tuple[int, ...]

    def __str__(self) -> str:
        others = f" (tasks {', '.join(map(str, self.tasks[1:]))})" if self.tasks[1:] else ""
        return f"task {self.tasks[0]} {self.kind.value}{others}" if self.tasks else self.kind.value


def validate_schedule(problem: Problem, schedule: Schedule) -> tuple[ScheduleFault, ...]:
    """All that is wrong with a schedule; nothing when engines could really run it so."""
    if not schedule.start.size == schedule.end.size == problem.count:
        return (ScheduleFault(FaultKind.SHAPE, ()),)
    check = _Check(problem, schedule)
    return (*check.dependencies(), *check.engines(), *check.durations(), *check.bandwidth())


class _Check:
    """The schedule as plain lists."""

    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self.resources: Resources = problem.resources
        self.start: list[int] = schedule.start.tolist()
        self.end: list[int] = schedule.end.tolist()
        self.engine: list[int] = problem.engine.tolist()
        self.latency: list[int] = problem.duration.tolist()
        self.bytes: list[int] = problem.transfer.tolist()
        needs: list[int] = problem.needs.tolist()
        bounds: list[int] = problem.need_start.tolist()
        self.needs = [needs[first:stop] for first, stop in pairwise(bounds)]

    def dependencies(self) -> Iterator[ScheduleFault]:
        """Nothing starts before cycle 0 or before what it needs."""
        for task, needs in enumerate(self.needs):
            if self.start[task] < 0:
                yield ScheduleFault(FaultKind.NEGATIVE, (task,))
            for need in needs:
                if self.start[task] < self.end[need]:
                    yield ScheduleFault(FaultKind.DEPENDENCY, (task, need))

    def engines(self) -> Iterator[ScheduleFault]:
        """In-order engines keep their order; no engine runs more tasks than it has servers."""
        for index, engine in enumerate(self.resources.engines):
            tasks = [task for task, where in enumerate(self.engine) if where == index]
            if engine.in_order:
                for earlier, later in pairwise(tasks):
                    if self.start[later] < self.start[earlier]:
                        yield ScheduleFault(FaultKind.ORDER, (later, earlier))
            running: list[int] = []
            # At one moment tasks end before others start, and those that take no time go first.
            for task in sorted(tasks, key=lambda t: (self.start[t], self.end[t], t)):
                running = [other for other in running if self.end[other] > self.start[task]]
                if len(running) >= engine.servers:
                    yield ScheduleFault(FaultKind.OVERLAP, (task, *running))
                running.append(task)

    def durations(self) -> Iterator[ScheduleFault]:
        """Every task takes its time; one that shares bandwidth at least its time alone."""
        for task, where in enumerate(self.engine):
            taken = self.end[task] - self.start[task]
            engine = self.resources.engines[where]
            alone = self.latency[task]
            if self.bytes[task]:
                rates = [] if engine.rate is None else [engine.rate]
                if engine.pool is not None:
                    rates.append(self.resources.pools[engine.pool])
                alone += ceil(self.bytes[task] / min(rates))
            shares = engine.pool is not None and self.bytes[task] > 0
            if taken < alone or (taken > alone and not shares):
                yield ScheduleFault(FaultKind.DURATION, (task,))

    def bandwidth(self) -> Iterator[ScheduleFault]:
        """With fair shares of its pool, every transfer has moved its bytes in its last cycle."""
        for pool in range(len(self.resources.pools)):
            grain = self.resources.grain(pool)
            begin: dict[int, int] = {}
            for task, where in enumerate(self.engine):
                if self.resources.engines[where].pool == pool and self.bytes[task]:
                    begin[task] = self.start[task] + self.latency[task]
            last_rate: dict[int, int] = {}
            moved = dict.fromkeys(begin, 0)
            changes = sorted({*begin.values(), *(self.end[task] for task in begin)})
            arriving = sorted(begin, key=lambda task: (begin[task], task), reverse=True)
            ports = self.ports(pool, grain)
            active: list[int] = []
            for now, later in pairwise(changes):
                active = [task for task in active if self.end[task] > now]
                while arriving and begin[arriving[-1]] <= now:
                    active.append(arriving.pop())
                for task, rate in self.fair_shares(pool, grain, ports, active).items():
                    moved[task] += rate * (later - now)
                    last_rate[task] = rate
            for task, amount in moved.items():
                if amount < self.bytes[task] * grain:
                    yield ScheduleFault(FaultKind.BANDWIDTH, (task,))
                elif amount - last_rate[task] >= self.bytes[task] * grain:
                    yield ScheduleFault(FaultKind.LATE, (task,))

    def ports(self, pool: int, grain: int) -> list[int]:
        """The most that each engine moves in a cycle, in parts of a byte: `grain` make one."""
        whole = self.resources.pools[pool]
        rates = (engine.rate for engine in self.resources.engines)
        return [int((whole if rate is None else min(whole, rate)) * grain) for rate in rates]

    def fair_shares(
        self, pool: int, grain: int, ports: list[int], active: list[int]
    ) -> dict[int, int]:
        """What each transfer moves in a cycle: raise all alike until the port or the pool is
        full."""
        left = int(self.resources.pools[pool] * grain)
        shares: dict[int, int] = {}
        for port, task in sorted((ports[self.engine[task]], task) for task in active):
            shares[task] = min(port, left // (len(active) - len(shares)))
            left -= shares[task]
        return shares
