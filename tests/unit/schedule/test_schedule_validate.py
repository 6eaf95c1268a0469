"""Seeded faults: the validator accepts a good schedule and says what is wrong with bad ones."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tilewright.schedule.problem import Engine, Problem, Resources, Schedule
from tilewright.schedule.simulate import simulate
from tilewright.schedule.validate import FaultKind, validate_schedule

PORT = Engine(rate=Fraction(8), pool=0)
RESOURCES = Resources(
    (PORT, PORT, Engine(), Engine(in_order=False, servers=2), Engine(rate=Fraction(3, 2))),
    (Fraction(8),),
)
# Two loads at once, compute on both results, two vector tasks side by side, a store on a link.
PROBLEM = Problem.of(
    RESOURCES,
    [0, 1, 2, 2, 3, 3, 3, 4, 4],
    [10, 10, 20, 30, 15, 15, 5, 4, 0],
    [[], [], [0], [1, 2], [2], [2], [2], [4], [3]],
    transfer=[80, 160, 0, 0, 0, 0, 0, 30, 15],
)
Seed = Callable[[list[int], list[int]], None]


def swap_order(start: list[int], end: list[int]) -> None:
    start[7], start[8] = start[8], start[8] + 10
    end[7], end[8] = start[7] + 24, start[8] + 10
    start[8], end[8] = start[7] - 12, start[7] - 2


def start_earlier(start: list[int], end: list[int]) -> None:
    start[2] -= 1
    end[2] -= 1


def start_before_time(start: list[int], end: list[int]) -> None:
    start[0] -= 1
    end[0] -= 1


def overlap_on_an_engine(start: list[int], end: list[int]) -> None:
    start[6] -= 1
    end[6] -= 1


def shorten_a_task(start: list[int], end: list[int]) -> None:
    end[3] -= 1


def lengthen_a_task(start: list[int], end: list[int]) -> None:
    end[8] += 1


def shorten_a_link(start: list[int], end: list[int]) -> None:
    end[7] -= 1


def transfer_faster_than_its_port(start: list[int], end: list[int]) -> None:
    end[1] = start[1] + 10 + 19


def ignore_sharing(start: list[int], end: list[int]) -> None:
    end[1] -= 5


def drag_a_transfer(start: list[int], end: list[int]) -> None:
    end[1] += 1


def forget_a_task(start: list[int], end: list[int]) -> None:
    del start[8], end[8]


SEEDS: list[tuple[Seed, FaultKind]] = [
    (swap_order, FaultKind.ORDER),
    (start_earlier, FaultKind.DEPENDENCY),
    (start_before_time, FaultKind.NEGATIVE),
    (overlap_on_an_engine, FaultKind.OVERLAP),
    (shorten_a_task, FaultKind.DURATION),
    (lengthen_a_task, FaultKind.DURATION),
    (shorten_a_link, FaultKind.DURATION),
    (transfer_faster_than_its_port, FaultKind.DURATION),
    (ignore_sharing, FaultKind.BANDWIDTH),
    (drag_a_transfer, FaultKind.LATE),
    (forget_a_task, FaultKind.SHAPE),
]


def test_the_good_schedule_is_accepted() -> None:
    schedule = simulate(PROBLEM)
    assert schedule.end.tolist()[:2] == [30, 40]
    assert validate_schedule(PROBLEM, schedule) == ()


@pytest.mark.parametrize(("seed", "kind"), SEEDS, ids=[seed.__name__ for seed, _ in SEEDS])
def test_a_seeded_fault_is_named(seed: Seed, kind: FaultKind) -> None:
    good = simulate(PROBLEM)
    start, end = good.start.tolist(), good.end.tolist()
    seed(start, end)
    bad = Schedule(np.array(start, dtype=np.int64), np.array(end, dtype=np.int64))
    faults = validate_schedule(PROBLEM, bad)
    assert kind in {fault.kind for fault in faults}, [str(fault) for fault in faults]


def test_a_delayed_task_is_allowed() -> None:
    good = simulate(PROBLEM)
    start, end = good.start.copy(), good.end.copy()
    start[8] += 7
    end[8] += 7
    assert validate_schedule(PROBLEM, Schedule(start, end)) == ()


def test_faults_read_as_sentences() -> None:
    good = simulate(PROBLEM)
    end = good.end.copy()
    end[3] -= 1
    (fault,) = validate_schedule(PROBLEM, Schedule(good.start, end))
    assert str(fault) == "task 3 takes another time than its own"
