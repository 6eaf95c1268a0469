"""How fast a sweep is, and how long it will take."""

from collections import Counter
from collections.abc import Hashable, Iterable

from tilewright.sweep.engine import PointJob


class Pace:
    """What is left of a sweep, from how long points of the same kind took. The clock starts with
    the first point, not with the workers: these may have to compile before. `unlisted` are points
    to come of which nothing is known yet."""

    def __init__(self) -> None:
        self.unlisted = 0
        self._kinds: dict[str, Hashable] = {}  # of jobs that are due
        self._due: Counter[Hashable] = Counter()
        self._took: dict[Hashable, tuple[int, float]] = {}  # points of a kind, seconds of all
        self._work = 0.0  # seconds expected for jobs that are due, of kinds that were met
        self._unmet = 0  # jobs that are due, of other kinds
        self._done, self._seconds = 0, 0.0
        self._began: float | None = None

    def expect(self, jobs: Iterable[PointJob]) -> None:
        """These are due."""
        for job in jobs:
            kind = self._kinds[job.key] = kind_of(job)
            self._count(kind, 1)

    def skip(self, key: str) -> None:
        """A job is not due any more."""
        self._count(self._kinds.pop(key), -1)

    def finish(self, key: str, seconds: float, now: float) -> None:
        """A job took so many seconds."""
        if self._began is None:
            self._began = now - seconds
        kind = self._kinds.pop(key)
        self._count(kind, -1)
        if kind not in self._took:
            self._unmet -= self._due[kind]
        count, total = self._took.get(kind, (0, 0.0))
        self._work -= self._due[kind] * self._each(kind)
        self._took[kind] = (count + 1, total + seconds)
        self._work += self._due[kind] * self._each(kind)
        self._done += 1
        self._seconds += seconds

    def rate(self, now: float) -> float | None:
        """Points per second."""
        elapsed = self._elapsed(now)
        return self._done / elapsed if elapsed else None

    def left(self, now: float) -> float | None:
        """Seconds until all are done, if as many workers stay busy as were so far."""
        elapsed = self._elapsed(now)
        if not elapsed or not self._seconds:
            return None
        others = (self._unmet + self.unlisted) * self._seconds / self._done
        return max(0.0, self._work + others) * elapsed / self._seconds

    def _elapsed(self, now: float) -> float:
        return 0.0 if self._began is None else now - self._began

    def _count(self, kind: Hashable, change: int) -> None:
        self._due[kind] += change
        if kind in self._took:
            self._work += change * self._each(kind)
        else:
            self._unmet += change

    def _each(self, kind: Hashable) -> float:
        count, total = self._took.get(kind, (1, 0.0))
        return total / count


def kind_of(job: PointJob) -> Hashable:
    """Points that differ in the machine alone take about as long as each other."""
    point = job.point
    return point.model, point.shape, point.batch, point.objective, point.effort, point.verify


def every_kind_first(jobs: Iterable[PointJob]) -> list[PointJob]:
    """Jobs with one of each kind at the beginning, so that it is soon known how long all take."""
    waiting = list(jobs)
    first = {kind_of(job): job for job in reversed(waiting)}
    early = {job.key for job in first.values()}
    return sorted(waiting, key=lambda job: job.key not in early)
