"""The engine of one computer: worker processes, replaced when they die or take too long."""

import os
import selectors
from collections import deque
from collections.abc import Iterator

from tilewright.sweep.child import START, Child
from tilewright.sweep.engine import Conditions, PointJob, finished, lost
from tilewright.sweep.errors import EngineError
from tilewright.sweep.store import StoredPoint

AHEAD = 2  # jobs a worker holds, so that it does not wait while its answer is stored
_TICK = 0.25  # seconds between looks at the time-outs
_MOST_STARTS = 5  # in a row that come to nothing


class LocalEngine:
    """As many worker processes as there are cores, or `workers`."""

    def __init__(self, conditions: Conditions, workers: int | None = None) -> None:
        self._conditions = conditions
        self._count = workers or len(os.sched_getaffinity(0))
        self._children: list[Child] = []
        self._selector = selectors.DefaultSelector()
        self._again: deque[PointJob] = deque()
        self._attempts: dict[str, int] = {}
        self._failed_starts = 0
        self._warm = False  # whether a worker was ready before

    @property
    def workers(self) -> list[int]:
        """Process ids of the workers."""
        return [child.pid for child in self._children]

    def run(self, jobs: Iterator[PointJob]) -> Iterator[StoredPoint]:
        """Plan all jobs."""
        source: Iterator[PointJob] | None = jobs
        while True:
            source = self._feed(source)
            waiting = [child for child in self._children if child.waiting]
            if source is None and not self._again and not waiting:
                return
            for key, _ in self._selector.select(_TICK):
                child: Child = key.data
                answers, ended = child.receive()
                if answers or child.ready:
                    self._failed_starts = 0
                for job, outcome in answers:
                    self._attempts.pop(job.key, None)
                    yield finished(job, outcome)
                if ended:
                    yield from self._ended(child)
            for child in list(self._children):
                if child.overdue(self._conditions.timeout):
                    yield from self._late(child)

    def close(self) -> None:
        """End all workers."""
        for child in list(self._children):
            self._remove(child)
        self._selector.close()

    def _feed(self, source: Iterator[PointJob] | None) -> Iterator[PointJob] | None:
        """Give every worker something to do; the source, or None once it is empty. The first starts
        alone: what it compiles, the others find."""
        self._warm = self._warm or any(child.ready for child in self._children)
        for depth in range(AHEAD):
            for index in range(self._count if self._warm else 1):
                if index < len(self._children) and len(self._children[index].waiting) > depth:
                    continue
                job = self._again.popleft() if self._again else None
                if job is None and source is not None:
                    job = next(source, None)
                    source = source if job is not None else None
                if job is None:
                    return source
                if index >= len(self._children):
                    index = self._start()
                self._children[index].send(job, job.point.row())
        return source

    def _start(self) -> int:
        child = Child(self._conditions.folder)
        self._children.append(child)
        self._selector.register(child, selectors.EVENT_READ, child)
        return len(self._children) - 1

    def _remove(self, child: Child, ended: bool = False) -> str:
        self._selector.unregister(child)
        self._children.remove(child)
        return child.stop(ended)

    def _ended(self, child: Child) -> Iterator[StoredPoint]:
        """A worker died: the point it was at gets another attempt, the others are merely handed
        on."""
        how = self._remove(child, ended=True)
        if not child.ready:
            self._failed_starts += 1
            self._again.extendleft(reversed(child.waiting))
            if self._failed_starts >= _MOST_STARTS:
                raise EngineError(f"workers end before they are ready ({how})")
            return
        if not child.waiting:
            return
        first, *others = child.waiting
        self._again.extendleft(reversed(others))
        attempts = self._attempts[first.key] = self._attempts.get(first.key, 0) + 1
        if attempts <= self._conditions.retries:
            self._again.appendleft(first)
            return
        yield lost(first, f"its worker ended with {how}, {attempts} times")

    def _late(self, child: Child) -> Iterator[StoredPoint]:
        """A worker takes too long: it is ended, and its point is given up."""
        self._remove(child)
        if not child.ready:
            raise EngineError(f"a worker was not ready after {START:g} s")
        first, *others = child.waiting
        self._again.extendleft(reversed(others))
        yield lost(first, f"took longer than {self._conditions.timeout:g} s")
