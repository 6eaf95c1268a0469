"""The simulator once more, in plain Python with exact fractions: slow, obvious, the same times."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

import numpy as np

from tilewright.schedule.problem import Problem, Resources, Schedule


@dataclass
class _Transfer:
    """A transfer past its latency: the bytes still to move, and how fast they move now."""

    task: int
    engine: int
    left: Fraction
    rate: Fraction = Fraction(0)


def simulate_plainly(problem: Problem) -> Schedule:
    """The schedule that `simulate` must give, to the cycle."""
    return _Twin(problem).run()


class _Twin:
    """The state of the machine at one moment."""

    def __init__(self, problem: Problem) -> None:
        self.resources: Resources = problem.resources
        self.engine: list[int] = problem.engine.tolist()
        self.duration: list[int] = problem.duration.tolist()
        self.bytes: list[int] = problem.transfer.tolist()
        self.priority: list[int] = problem.priority.tolist()
        self.needs = [problem.needs_of(task) for task in range(problem.count)]
        self.now = 0
        self.start: dict[int, int] = {}
        self.end: dict[int, int] = {}
        self.timed: dict[int, int] = {}  # task -> when its fixed time, or its latency, is over
        self.moving: list[_Transfer] = []
        self.running = [0] * len(self.resources.engines)
        self.queues: list[list[int]] = [[] for _ in self.resources.engines]
        for task, engine in enumerate(self.engine):
            self.queues[engine].append(task)

    def run(self) -> Schedule:
        """From cycle 0 until every task has ended."""
        self.settle()
        while len(self.end) < len(self.engine):
            later = min(self.coming_times())
            for transfer in self.moving:
                transfer.left -= transfer.rate * (later - self.now)
            self.now = later
            self.settle()
        tasks = range(len(self.engine))
        return Schedule(
            np.array([self.start[task] for task in tasks], dtype=np.int64),
            np.array([self.end[task] for task in tasks], dtype=np.int64),
        )

    def coming_times(self) -> list[int]:
        """When each thing that is going on comes to its end if nothing else changes."""
        ends = [self.now + ceil(transfer.left / transfer.rate) for transfer in self.moving]
        return ends + list(self.timed.values())

    def settle(self) -> None:
        """Rounds of ending and starting until this moment is over, then new shares."""
        while self.end_what_is_due() | self.start_what_may():
            pass
        for pool in range(len(self.resources.pools)):
            self.share(pool)

    def end_what_is_due(self) -> bool:
        """End tasks, or begin to move bytes, where the time has come; whether any did."""
        finished = [transfer for transfer in self.moving if transfer.left <= 0]
        for transfer in finished:
            self.moving.remove(transfer)
            self.finish(transfer.task)
        due = [task for task, time in self.timed.items() if time == self.now]
        for task in due:
            del self.timed[task]
            engine = self.engine[task]
            if self.bytes[task] > 0 and self.resources.engines[engine].pool is not None:
                self.moving.append(_Transfer(task, engine, Fraction(self.bytes[task])))
            else:
                self.finish(task)
        return bool(finished or due)

    def finish(self, task: int) -> None:
        """One task ends now and frees its server."""
        self.end[task] = self.now
        self.running[self.engine[task]] -= 1

    def start_what_may(self) -> bool:
        """Start tasks on every engine that has a free server; whether any did."""
        started = False
        for index, queue in enumerate(self.queues):
            task = self.choose(index, queue)
            while task is not None:
                queue.remove(task)
                self.start[task] = self.now
                self.running[index] += 1
                self.timed[task] = self.now + self.fixed_time(task)
                started = True
                task = self.choose(index, queue)
        return started

    def choose(self, index: int, queue: list[int]) -> int | None:
        """The task that an engine starts now, if there is one."""
        engine = self.resources.engines[index]
        if self.running[index] >= engine.servers:
            return None
        candidates = queue[:1] if engine.in_order else queue
        ready = [t for t in candidates if all(need in self.end for need in self.needs[t])]
        return min(ready, key=lambda task: (self.priority[task], task), default=None)

    def fixed_time(self, task: int) -> int:
        """Cycles that do not depend on what others do."""
        engine = self.resources.engines[self.engine[task]]
        if self.bytes[task] == 0 or engine.pool is not None or engine.rate is None:
            return self.duration[task]
        return self.duration[task] + ceil(self.bytes[task] / engine.rate)

    def share(self, pool: int) -> None:
        """Divide a pool: the slowest ports first, each at most an equal part of what is left."""
        grain = self.resources.grain(pool)
        bandwidth = self.resources.pools[pool]

        def port(transfer: _Transfer) -> Fraction:
            rate = self.resources.engines[transfer.engine].rate
            return bandwidth if rate is None else min(rate, bandwidth)

        sharers = [t for t in self.moving if self.resources.engines[t.engine].pool == pool]
        sharers.sort(key=lambda transfer: (port(transfer), transfer.task))
        left = bandwidth
        for index, transfer in enumerate(sharers):
            equal = Fraction(floor(left / (len(sharers) - index) * grain), grain)
            transfer.rate = min(equal, port(transfer))
            left -= transfer.rate
