"""What plans points: given jobs one by one, gives outcomes as they come."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tilewright.sweep.point import Point
from tilewright.sweep.store import Status, StoredPoint

RETRIES = 2  # after the first attempt, where a worker dies


class PointJob(NamedTuple):
    """A point to plan, and the key of its row."""

    key: str
    point: Point


@dataclass(frozen=True, slots=True)
class Conditions:
    """How points are planned: where files are, seconds for one point, further attempts for a point
    whose worker dies."""

    folder: Path
    timeout: float | None = None
    retries: int = RETRIES


class PlanningEngine(Protocol):
    """Takes the next job when it has room for one; every job ends as one row, in any order."""

    def run(self, jobs: Iterator[PointJob]) -> Iterator[StoredPoint]:
        """Plan all jobs. Closing the iterator ends the work at once."""
        ...

    def close(self) -> None:
        """End all workers."""
        ...


def finished(job: PointJob, outcome: dict[str, Any]) -> StoredPoint:
    """The row of a point whose worker answered."""
    status = Status(outcome["status"])
    return StoredPoint(
        job.key,
        status,
        outcome["reason"],
        job.point.row(),
        outcome.get("summary"),
        outcome.get("plan"),
        float(outcome["seconds"]),
    )


def lost(job: PointJob, reason: str) -> StoredPoint:
    """The row of a point that no worker answered."""
    return StoredPoint(job.key, Status.LOST, reason, job.point.row(), None, None, 0.0)
