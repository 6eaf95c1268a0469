"""Critical paths and idle reasons small enough to work out by hand."""

from fractions import Fraction
from typing import NamedTuple

from tilewright.schedule.problem import Engine, Problem, Resources
from tilewright.schedule.simulate import simulate
from tilewright.schedule.timeline import (
    Cause,
    CriticalStep,
    EngineUse,
    Idle,
    IdleReason,
    critical_path,
    engine_uses,
)


class Report(NamedTuple):
    """What the simulated schedule means."""

    makespan: int
    critical_path: tuple[CriticalStep, ...]
    engines: tuple[EngineUse, ...]


def report(problem: Problem) -> Report:
    """The report of the simulated schedule."""
    schedule = simulate(problem)
    path = critical_path(problem, schedule)
    return Report(schedule.makespan, path, engine_uses(problem, schedule))


def test_path_goes_through_dependencies_and_busy_engines() -> None:
    problem = Problem.of(
        Resources((Engine(), Engine())), [0, 1, 1, 0], [10, 4, 6, 1], [[], [0], [], [2]]
    )
    path = report(problem).critical_path
    assert [(step.task, step.cause) for step in path] == [
        (0, Cause.ORIGIN),
        (1, Cause.DEPENDENCY),
        (2, Cause.ENGINE),
        (3, Cause.DEPENDENCY),
    ]


def test_path_goes_through_the_head_of_a_queue() -> None:
    resources = Resources((Engine(), Engine(servers=2)))
    problem = Problem.of(resources, [0, 1, 1], [7, 1, 9], [[], [0], []])
    path = report(problem).critical_path
    assert [(step.task, step.cause) for step in path] == [
        (0, Cause.ORIGIN),
        (1, Cause.DEPENDENCY),
        (2, Cause.QUEUE),
    ]


def test_path_says_what_shared_bandwidth_cost() -> None:
    port = Engine(pool=0)
    problem = Problem.of(
        Resources((port, port), (Fraction(4),)), [0, 1], [0, 0], [[], []], transfer=[40, 20]
    )
    assert report(problem).critical_path == (CriticalStep(0, Cause.ORIGIN, pool=0),)


def test_idle_time_is_put_down_to_engine_bandwidth_or_nothing() -> None:
    port = Engine(pool=0)
    resources = Resources((port, port, Engine()), (Fraction(4),))
    # Both ports share 4 bytes per cycle until cycle 10; alone, the first would end at cycle 5.
    problem = Problem.of(
        resources, [0, 1, 2, 0], [0, 0, 3, 0], [[], [], [0], [2]], transfer=[20, 20, 0, 8]
    )
    found = report(problem)
    assert found.makespan == 15
    assert [use.busy for use in found.engines] == [12, 10, 3]
    assert found.engines[0].idle == (Idle(IdleReason.ENGINE, 2, 3),)
    assert found.engines[1].idle == (Idle(IdleReason.NOTHING, None, 5),)
    assert found.engines[2].idle == (
        Idle(IdleReason.ENGINE, 0, 5),
        Idle(IdleReason.BANDWIDTH, 0, 5),
        Idle(IdleReason.NOTHING, None, 2),
    )
    assert found.engines[0].utilisation == 12 / 15


def test_a_wait_for_a_transfer_is_followed_back_to_whoever_was_late() -> None:
    """A link is to blame only while it copies, other data before it too; for the time before that,
    what it waits for is."""
    maker, link, reader = Engine(), Engine(), Engine()
    problem = Problem.of(
        Resources((maker, link, reader)),
        [0, 1, 1, 2],
        [10, 3, 4, 5],
        [[], [0], [0], [2]],  # the reader needs the second of two copies
    )
    found = report(problem)
    assert found.makespan == 22
    assert found.engines[2].idle == (
        Idle(IdleReason.ENGINE, 0, 10),
        Idle(IdleReason.ENGINE, 1, 7),
    )
    assert found.engines[1].idle == (
        Idle(IdleReason.ENGINE, 0, 10),
        Idle(IdleReason.NOTHING, None, 5),
    )


def test_an_unused_engine_has_nothing_to_do() -> None:
    problem = Problem.of(Resources((Engine(), Engine(servers=2))), [0], [6], [[]])
    assert report(problem).engines[1].idle == (Idle(IdleReason.NOTHING, None, 12),)


def test_nothing_has_no_path() -> None:
    found = report(Problem.of(Resources((Engine(),)), [], [], []))
    assert found.makespan == 0
    assert found.critical_path == ()
    assert found.engines[0].utilisation == 0.0
