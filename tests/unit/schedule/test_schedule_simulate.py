"""Schedules small enough to work out by hand; both simulators have to give them."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from support.simulator_twin import simulate_plainly
from tilewright.schedule.problem import Engine, Problem, Resources, Schedule
from tilewright.schedule.simulate import simulate

pytestmark = pytest.mark.parametrize("simulator", [simulate, simulate_plainly])
Simulator = Callable[[Problem], Schedule]


def times(simulator: Simulator, problem: Problem) -> list[tuple[int, int]]:
    """(start, end) of each task."""
    schedule = simulator(problem)
    return list(zip(schedule.start.tolist(), schedule.end.tolist(), strict=True))


def test_nothing_takes_no_time(simulator: Simulator) -> None:
    problem = Problem.of(Resources((Engine(),)), [], [], [])
    assert simulator(problem).makespan == 0


def test_an_in_order_engine_waits_for_the_head_of_its_queue(simulator: Simulator) -> None:
    problem = Problem.of(
        Resources((Engine(), Engine())), [0, 1, 1, 0], [10, 5, 3, 4], [[], [0], [], [2]]
    )
    assert times(simulator, problem) == [(0, 10), (10, 15), (15, 18), (18, 22)]


def test_an_out_of_order_engine_takes_what_is_ready(simulator: Simulator) -> None:
    resources = Resources((Engine(), Engine(in_order=False)))
    problem = Problem.of(resources, [0, 1, 1, 0], [10, 5, 3, 4], [[], [0], [], [2]])
    assert times(simulator, problem) == [(0, 10), (10, 15), (0, 3), (10, 14)]


def test_ready_tasks_go_by_priority_then_program_order(simulator: Simulator) -> None:
    problem = Problem.of(
        Resources((Engine(in_order=False),)), [0] * 4, [1] * 4, [[]] * 4, priority=[2, 1, 1, 0]
    )
    assert [start for start, _ in times(simulator, problem)] == [3, 1, 2, 0]


def test_servers_run_side_by_side(simulator: Simulator) -> None:
    problem = Problem.of(Resources((Engine(servers=2),)), [0] * 4, [5, 2, 2, 1], [[]] * 4)
    assert times(simulator, problem) == [(0, 5), (0, 2), (2, 4), (4, 5)]


def test_tasks_without_duration_pass_through_a_moment(simulator: Simulator) -> None:
    resources = Resources((Engine(), Engine(in_order=False)))
    problem = Problem.of(resources, [0, 1, 0, 1], [4, 0, 0, 2], [[], [0], [1], [2]])
    assert times(simulator, problem) == [(0, 4), (4, 4), (4, 4), (4, 6)]


def test_a_port_alone_takes_latency_and_bytes_over_rate(simulator: Simulator) -> None:
    resources = Resources((Engine(rate=Fraction(104, 5)),))
    problem = Problem.of(resources, [0], [1243], [[]], transfer=[100_000])
    assert times(simulator, problem) == [(0, 1243 + 4808)]


def test_two_transfers_halve_a_pool_and_the_rest_goes_at_full_rate(simulator: Simulator) -> None:
    port = Engine(rate=Fraction(8), pool=0)
    problem = Problem.of(
        Resources((port, port), (Fraction(8),)), [0, 1], [0, 0], [[], []], transfer=[40, 80]
    )
    assert times(simulator, problem) == [(0, 10), (0, 15)]


def test_what_a_slow_port_cannot_use_goes_to_the_others(simulator: Simulator) -> None:
    engines = (Engine(rate=Fraction(2), pool=0), Engine(pool=0), Engine(pool=0))
    problem = Problem.of(
        Resources(engines, (Fraction(10),)), [0, 1, 2], [0] * 3, [[]] * 3, transfer=[20, 40, 80]
    )
    # 2 + 4 + 4 until cycle 10, then the third has all 10 for its last 40 bytes.
    assert times(simulator, problem) == [(0, 10), (0, 10), (0, 14)]


def test_latency_holds_the_port_but_no_bandwidth(simulator: Simulator) -> None:
    port = Engine(pool=0)
    problem = Problem.of(
        Resources((port, port), (Fraction(4),)), [0, 1], [0, 5], [[], []], transfer=[20, 20]
    )
    assert times(simulator, problem) == [(0, 5), (0, 10)]


def test_thirds_of_a_cycle_are_not_lost(simulator: Simulator) -> None:
    port = Engine(pool=0)
    problem = Problem.of(
        Resources((port,) * 3, (Fraction(1),)), [0, 1, 2], [0] * 3, [[]] * 3, transfer=[7] * 3
    )
    assert times(simulator, problem) == [(0, 21)] * 3


def test_pools_do_not_disturb_each_other(simulator: Simulator) -> None:
    engines = (Engine(pool=0), Engine(pool=1))
    problem = Problem.of(
        Resources(engines, (Fraction(2), Fraction(3))), [0, 1], [0, 0], [[], []], transfer=[10, 10]
    )
    assert times(simulator, problem) == [(0, 5), (0, 4)]


def test_same_problem_same_schedule(simulator: Simulator) -> None:
    random = np.random.default_rng(3)
    port = Engine(in_order=False, rate=Fraction(5, 3), pool=0)
    rows = [[task - 1 - task % 3] if task > 3 else [] for task in range(80)]
    problem = Problem.of(
        Resources((port, port, port), (Fraction(2),)),
        random.integers(0, 3, 80).tolist(),
        random.integers(0, 9, 80).tolist(),
        rows,
        transfer=random.integers(0, 50, 80).tolist(),
    )
    assert times(simulator, problem) == times(simulator, problem)
