"""What a schedule means: its critical path, how busy each engine is, and why it is idle.

Made for schedules of the simulator, where a task starts as soon as it may; in others, the part of a
wait that nothing explains is reported as nothing to do.
"""

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from tilewright.schedule.problem import Problem, Quantities, Schedule
from tilewright.schedule.waits import Cause, Waits


@dataclass(frozen=True, slots=True)
class CriticalStep:
    """One task of the critical path and what bound its start to the step before; `pool` is the
    bandwidth that it lost cycles by sharing."""

    task: int
    cause: Cause
    pool: int | None


class IdleReason(Enum):
    """Why an engine stands still."""

    ENGINE = "waiting for an engine"
    BANDWIDTH = "waiting for shared bandwidth"
    NOTHING = "nothing to do"


class Idle(NamedTuple):
    """Server cycles that an engine lost for one reason, and the engine or pool it waited for."""

    reason: IdleReason
    waited_for: int | None
    cycles: int


@dataclass(frozen=True, slots=True)
class EngineUse:
    """How one engine spent the makespan: busy + idle = servers x makespan."""

    busy: int
    utilisation: float
    idle: tuple[Idle, ...]


def engine_uses(problem: Problem, schedule: Schedule) -> tuple[EngineUse, ...]:
    """Where the time of every engine went."""
    slowed: list[int] = slowed_cycles(problem, schedule).tolist()
    waits, engines = Waits(problem, schedule), range(len(problem.resources.engines))
    return tuple(_engine_use(problem, schedule, engine, slowed, waits) for engine in engines)


def slowed_cycles(problem: Problem, schedule: Schedule) -> Quantities:
    """For every task, how much longer it took than it would have with its pool to itself."""
    table = problem.resources.table
    units = problem.transfer * table.units_per_byte[problem.engine]
    moving = -(-units // table.units_per_cycle[problem.engine])
    return schedule.end - schedule.start - problem.duration - moving


def critical_path(problem: Problem, schedule: Schedule) -> tuple[CriticalStep, ...]:
    """Tasks in order of time, from one that nothing held back to the last to end; each starts when
    the one before ends (or, by Cause.QUEUE, starts)."""
    if not problem.count:
        return ()
    slowed: list[int] = slowed_cycles(problem, schedule).tolist()
    waits = Waits(problem, schedule)
    steps: list[CriticalStep] = []
    task = int(schedule.end.argmax())
    while True:
        earlier, cause = waits.earlier(task)
        pool = problem.resources.engines[waits.engine[task]].pool if slowed[task] > 0 else None
        steps.append(CriticalStep(task, cause, pool))
        if cause is Cause.ORIGIN:
            return tuple(reversed(steps))
        task = earlier


def _engine_use(
    problem: Problem, schedule: Schedule, engine: int, slowed: list[int], waits: Waits
) -> EngineUse:
    """Busy cycles, and every idle stretch put down to whoever its next task was waiting for."""
    tasks = np.flatnonzero(problem.engine == engine)
    tasks = tasks[np.lexsort((tasks, schedule.start[tasks]))]
    starts = schedule.start[tasks]
    ends = np.sort(schedule.end[tasks])
    servers = problem.resources.engines[engine].servers
    makespan = schedule.makespan
    busy = int((schedule.end[tasks] - schedule.start[tasks]).sum())

    times = np.unique(np.concatenate((starts, ends, np.array([0, makespan], dtype=np.int64))))
    begin, finish = times[:-1], times[1:]
    running = np.searchsorted(starts, begin, "right") - np.searchsorted(ends, begin, "right")
    free = servers - running
    following = np.searchsorted(starts, finish, "left")
    waiting = (free > 0) & (following < tasks.size)
    columns = (begin, finish, free)
    stretches = zip(*(column[waiting].tolist() for column in columns), strict=True)
    by_engine: Counter[int] = Counter()
    by_pool: Counter[int] = Counter()
    following_tasks: list[int] = tasks[following[waiting]].tolist()
    for (low, high, weight), task in zip(stretches, following_tasks, strict=True):
        for late, since, until in waits.before(task, low):
            stop = min(until, high)
            # The last `slowed` cycles of a run are its pool's doing, those before its engine's.
            slow_from = min(max(waits.end[late] - slowed[late], since), max(since, stop))
            by_engine[waits.engine[late]] += max(0, slow_from - since) * weight
            pool = problem.resources.engines[waits.engine[late]].pool
            if pool is not None:
                by_pool[pool] += max(0, stop - slow_from) * weight
    idle = [
        Idle(reason, which, cycles)
        for reason, totals in ((IdleReason.ENGINE, by_engine), (IdleReason.BANDWIDTH, by_pool))
        for which, cycles in sorted(totals.items())
        if cycles
    ]
    rest = servers * makespan - busy - sum(reason.cycles for reason in idle)
    if rest:
        idle.append(Idle(IdleReason.NOTHING, None, rest))
    use = busy / (servers * makespan) if makespan else 0.0
    return EngineUse(busy, use, tuple(idle))
