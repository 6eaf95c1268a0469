"""The time that is left of a sweep, said from how long its points take."""

import pytest

from tilewright.sweep.engine import PointJob
from tilewright.sweep.pace import Pace, every_kind_first
from tilewright.sweep.point import Point


def jobs(model: str, count: int) -> list[PointJob]:
    fields = ("memories.ddr.bandwidth",)
    return [
        PointJob(
            f"{model}{i}", Point(model, "npu-2.7", tuple((f, f"{i + 1} GB/s") for f in fields))
        )
        for i in range(count)
    ]


def finished(pace: Pace, clock: float, some: list[PointJob], seconds: float, workers: int) -> float:
    """Plan jobs one after the other on so many workers; the clock afterwards."""
    for job in some:
        clock += seconds / workers
        pace.finish(job.key, seconds, clock)
    return clock


def test_nothing_is_said_before_a_point_is_done() -> None:
    pace = Pace()
    pace.expect(jobs("small", 3))
    assert pace.rate(100.0) is None and pace.left(100.0) is None


def test_the_time_in_which_workers_start_counts_for_nothing() -> None:
    pace = Pace()
    some = jobs("small", 10)
    pace.expect(some)
    clock = finished(pace, 1e6, some[:4], 2.0, 1)
    assert pace.rate(clock) == pytest.approx(0.5)
    assert pace.left(clock) == pytest.approx(6 * 2.0)


def test_a_large_network_that_comes_last_is_foreseen() -> None:
    """One point of each kind is planned first: from then on the time left is right."""
    pace = Pace()
    small, large = jobs("small", 100), jobs("large", 100)
    order = every_kind_first([*small, *large])
    assert sorted(job.key for job in order) == sorted(job.key for job in (*small, *large))
    assert {job.point.model for job in order[:2]} == {"small", "large"}
    assert [job.key for job in order[2:]] == [job.key for job in (*small[1:], *large[1:])]
    pace.expect([*small, *large])
    clock = finished(pace, 0.0, small[:1], 1.0, 1)
    clock = finished(pace, clock, large[:1], 30.0, 1)
    clock = finished(pace, clock, small[1:50], 1.0, 1)
    assert pace.left(clock) == pytest.approx(50 * 1.0 + 99 * 30.0)


def test_busy_workers_shorten_what_is_left() -> None:
    pace = Pace()
    some = jobs("small", 1000)
    pace.expect(some)
    clock = finished(pace, 0.0, some[:500], 2.0, 4)
    assert pace.left(clock) == pytest.approx(500 * 2.0 / 4, rel=0.01)


def test_points_that_others_planned_and_points_to_come() -> None:
    pace = Pace()
    some = jobs("small", 10)
    pace.expect(some)
    clock = finished(pace, 0.0, some[:4], 1.0, 1)
    for job in some[4:7]:
        pace.skip(job.key)
    assert pace.left(clock) == pytest.approx(3.0)
    pace.unlisted = 20  # of a guided search
    assert pace.left(clock) == pytest.approx(23.0)
    clock = finished(pace, clock, some[7:], 1.0, 1)
    pace.unlisted = 0
    assert pace.left(clock) == 0.0
