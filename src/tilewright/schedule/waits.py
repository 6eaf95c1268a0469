"""Why tasks did not start earlier, followed back to whoever was late."""

from collections.abc import Iterator
from enum import Enum

import numpy as np

from tilewright.schedule.problem import Ids, Problem, Quantities, Schedule


class Cause(Enum):
    """Why a task did not start earlier."""

    ORIGIN = "it starts first"
    DEPENDENCY = "it needs the task before"
    ENGINE = "its engine was busy with the task before"
    QUEUE = "its engine starts in order, and the task before started only then"


class Waits:
    """What held the tasks of a schedule back. Made for those of the simulator, where a task starts
    as soon as it may."""

    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self.engine: list[int] = problem.engine.tolist()
        self.start: list[int] = schedule.start.tolist()
        self.end: list[int] = schedule.end.tolist()
        needs: list[int] = problem.needs.tolist()
        entries: list[int] = binding_dependencies(problem, schedule).tolist()
        self._need = [needs[entry] if entry >= 0 else -1 for entry in entries]
        self._ended = {
            (self.engine[t], self.end[t]): t
            for t in reversed(range(problem.count))
            if self.end[t] > self.start[t]
        }
        self._queue: list[int] = _queue_predecessors(problem).tolist()

    def earlier(self, task: int) -> tuple[int, Cause]:
        """The task that another had to wait for, and why; itself where nothing held it back."""
        start, need = self.start[task], self._need[task]
        if start > 0:
            if need >= 0 and self.end[need] == start:
                return need, Cause.DEPENDENCY
            busy = self._ended.get((self.engine[task], start))
            if busy is not None:
                return busy, Cause.ENGINE
            before = self._queue[task]
            if before >= 0 and self.start[before] == start:
                return before, Cause.QUEUE
        return task, Cause.ORIGIN

    def before(self, task: int, begin: int) -> Iterator[tuple[int, int, int]]:
        """Whose run a task waits for from `begin` to its start: tasks with the cycles from and to
        which they are to blame, the last first. One that waits for a transfer waits for it only
        while that moves; what the transfer itself waits for is to blame for the time before."""
        stop = self.start[task]
        while stop > begin:
            earlier, cause = self.earlier(task)
            if cause is Cause.ORIGIN:
                return
            if cause is not Cause.QUEUE:
                since = max(begin, self.start[earlier])
                if since < stop:
                    yield earlier, since, stop
                stop = since
            task = earlier


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


def _queue_predecessors(problem: Problem) -> Ids:
    """For every task of an in-order engine, the one before it in its queue; else -1."""
    before = np.full(problem.count, -1, dtype=np.int32)
    by_engine = np.argsort(problem.engine, kind="stable").astype(np.int32)
    same = problem.engine[by_engine[1:]] == problem.engine[by_engine[:-1]]
    same &= problem.resources.table.in_order[problem.engine[by_engine[1:]]]
    before[by_engine[1:][same]] = by_engine[:-1][same]
    return before
