"""What a schedule means: its critical path, how busy each engine is, and why it is idle.

Made for schedules of the simulator, where a task starts as soon as it may; in others, the part of a
wait that nothing explains is reported as nothing to do.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from tilewright.schedule.problem import Ids, Problem, Quantities, Schedule


class Cause(Enum):
    """Why a task did not start earlier."""

    ORIGIN = "it starts first"
    DEPENDENCY = "it needs the task before"
    ENGINE = "its engine was busy with the task before"
    QUEUE = "its engine starts in order, and the task before started only then"


@dataclass(frozen=True, slots=True)
class CriticalStep:
    """One task of the critical path and what bound its start to the step before.

    `slowed` are cycles its transfer lost because others shared the bandwidth of `pool`.
    """

    task: int
    cause: Cause
    slowed: int
    pool: int | None


class IdleReason(Enum):
    """Why an engine stands still."""

    ENGINE = "waiting for an engine"
    BANDWIDTH = "waiting for shared bandwidth"
    NOTHING = "nothing to do"


@dataclass(frozen=True, slots=True)
class Idle:
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


@dataclass(frozen=True, slots=True)
class Timeline:
    """The report of one schedule."""

    makespan: int
    critical_path: tuple[CriticalStep, ...]
    engines: tuple[EngineUse, ...]


def timeline(problem: Problem, schedule: Schedule) -> Timeline:
    """Where the time of a schedule went."""
    slowed = slowed_cycles(problem, schedule)
    binding = binding_dependencies(problem, schedule)
    uses = [
        _engine_use(problem, schedule, engine, slowed, binding)
        for engine in range(len(problem.resources.engines))
    ]
    return Timeline(schedule.makespan, critical_path(problem, schedule), tuple(uses))


def slowed_cycles(problem: Problem, schedule: Schedule) -> Quantities:
    """For every task, how much longer it took than it would have with its pool to itself."""
    table = problem.resources.table
    units = problem.transfer * table.units_per_byte[problem.engine]
    moving = -(-units // table.units_per_cycle[problem.engine])
    return schedule.end - schedule.start - problem.duration - moving


def binding_dependencies(problem: Problem, schedule: Schedule) -> Quantities:
    """For every task, the entry of `needs` that ends last (the first such); -1 without any."""
    binding = np.full(problem.count, -1, dtype=np.int64)
    having = np.flatnonzero(np.diff(problem.need_start))
    if not having.size:
        return binding
    ends = schedule.end[problem.needs]
    latest = np.maximum.reduceat(ends, problem.need_start[having])
    lengths = np.diff(problem.need_start)[having]
    matches = np.flatnonzero(ends == np.repeat(latest, lengths))
    targets, index = np.unique(problem.edge_targets()[matches], return_index=True)
    binding[targets] = matches[index]
    return binding


def critical_path(problem: Problem, schedule: Schedule) -> tuple[CriticalStep, ...]:
    """Tasks in order of time, from one that nothing held back to the last to end; each starts when
    the one before ends (or, by Cause.QUEUE, starts)."""
    if not problem.count:
        return ()
    slowed = slowed_cycles(problem, schedule).tolist()
    binding = binding_dependencies(problem, schedule).tolist()
    start, end = schedule.start.tolist(), schedule.end.tolist()
    engine: list[int] = problem.engine.tolist()
    ended = {(engine[t], end[t]): t for t in reversed(range(problem.count)) if end[t] > start[t]}
    queue = _queue_predecessors(problem).tolist()
    steps: list[CriticalStep] = []
    task = int(schedule.end.argmax())
    while True:
        entry = binding[task]
        need = int(problem.needs[entry]) if entry >= 0 else task
        earlier = task
        cause = Cause.ORIGIN
        if start[task] > 0:
            if need != task and end[need] == start[task]:
                earlier, cause = need, Cause.DEPENDENCY
            elif (engine[task], start[task]) in ended:
                earlier, cause = ended[engine[task], start[task]], Cause.ENGINE
            elif queue[task] >= 0 and start[queue[task]] == start[task]:
                earlier, cause = queue[task], Cause.QUEUE
        pool = problem.resources.engines[engine[task]].pool if slowed[task] > 0 else None
        steps.append(CriticalStep(task, cause, slowed[task], pool))
        if cause is Cause.ORIGIN:
            return tuple(reversed(steps))
        task = earlier


def _queue_predecessors(problem: Problem) -> Ids:
    """For every task of an in-order engine, the one before it in its queue; else -1."""
    before = np.full(problem.count, -1, dtype=np.int32)
    by_engine = np.argsort(problem.engine, kind="stable").astype(np.int32)
    same = problem.engine[by_engine[1:]] == problem.engine[by_engine[:-1]]
    same &= problem.resources.table.in_order[problem.engine[by_engine[1:]]]
    before[by_engine[1:][same]] = by_engine[:-1][same]
    return before


def _engine_use(
    problem: Problem, schedule: Schedule, engine: int, slowed: Quantities, binding: Quantities
) -> EngineUse:
    """Busy cycles, and every idle stretch put down to what its next task was waiting for."""
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
    begin, finish, weight = begin[waiting], finish[waiting], free[waiting]
    entries = binding[tasks[following[waiting]]]
    begin, finish, weight = begin[entries >= 0], finish[entries >= 0], weight[entries >= 0]
    needs = problem.needs[entries[entries >= 0]]

    # The last `slowed` cycles of a need are the pool's doing, those before its engine's.
    until = np.minimum(finish, schedule.end[needs])
    slow_from = np.clip(schedule.end[needs] - slowed[needs], begin, np.maximum(begin, until))
    by_engine = (slow_from - begin) * weight
    by_pool = (np.maximum(begin, until) - slow_from) * weight
    waited = problem.engine[needs]
    pools = problem.resources.table.pool[waited]

    idle = _totals(IdleReason.ENGINE, waited, by_engine)
    idle += _totals(IdleReason.BANDWIDTH, pools, by_pool)
    rest = servers * makespan - busy - sum(reason.cycles for reason in idle)
    if rest:
        idle.append(Idle(IdleReason.NOTHING, None, rest))
    use = busy / (servers * makespan) if makespan else 0.0
    return EngineUse(busy, use, tuple(idle))


def _totals(reason: IdleReason, waited_for: Ids | Quantities, cycles: Quantities) -> list[Idle]:
    """One entry for each engine or pool waited for."""
    found: list[Idle] = []
    for which in np.unique(waited_for[cycles > 0]).tolist():
        found.append(Idle(reason, which, int(cycles[waited_for == which].sum())))
    return found
