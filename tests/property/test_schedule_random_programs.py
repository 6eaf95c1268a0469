"""The compiled simulator, its plain twin, the validator and the report agree on random programs."""

from fractions import Fraction
from itertools import pairwise
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.simulator_twin import simulate_plainly
from tilewright.schedule.problem import Engine, Problem, Resources, Schedule
from tilewright.schedule.simulate import simulate
from tilewright.schedule.timeline import Cause, critical_path, engine_uses, slowed_cycles
from tilewright.schedule.validate import validate_schedule


def rate(random: Random) -> Fraction:
    """Bytes per cycle, seldom whole."""
    return Fraction(random.randint(1, 40), random.randint(1, 7))


def machine(random: Random, most_servers: int) -> Resources:
    """A few engines of every kind, some of them sharing up to two pools."""
    pools = tuple(rate(random) for _ in range(random.randint(0, 2)))
    engines: list[Engine] = []
    for _ in range(random.randint(1, 5)):
        pool = random.choice([None, *range(len(pools)), *range(len(pools))])
        port = None if pool is not None and random.random() < 0.3 else rate(random)
        servers = random.choice([1, random.randint(1, most_servers)])
        engines.append(Engine(random.random() < 0.5, servers, port, pool))
    return Resources(tuple(engines), pools)


def program(seed: int, count: int, most_servers: int = 3) -> Problem:
    """Tasks with up to three dependencies each; many short times, so many ties."""
    random = Random(seed)
    resources = machine(random, most_servers)
    tasks = range(count)
    return Problem.of(
        resources,
        [random.randrange(len(resources.engines)) for _ in tasks],
        [random.randint(0, 6) for _ in tasks],
        [random.sample(range(task), random.randint(0, min(3, task))) for task in tasks],
        transfer=[random.choice([0, random.randint(1, 60)]) for _ in tasks],
        priority=[random.randint(-1, 1) for _ in tasks],
    )


SEEDS = st.integers(0, 2**32 - 1)
PROGRAMS = st.builds(program, SEEDS, st.integers(0, 40))
CROWDED = st.builds(program, SEEDS, st.integers(30, 60), st.just(40))


@given(PROGRAMS)
@settings(max_examples=300, deadline=None)
def test_compiled_simulator_is_its_plain_twin_and_valid(problem: Problem) -> None:
    compiled, plain = simulate(problem), simulate_plainly(problem)
    assert compiled.start.tolist() == plain.start.tolist()
    assert compiled.end.tolist() == plain.end.tolist()
    assert validate_schedule(problem, compiled) == ()


@given(CROWDED)
@settings(max_examples=60, deadline=None)
def test_twin_agrees_where_shares_have_to_be_rounded(problem: Problem) -> None:
    compiled, plain = simulate(problem), simulate_plainly(problem)
    assert compiled.end.tolist() == plain.end.tolist()
    assert validate_schedule(problem, compiled) == ()


@given(PROGRAMS, SEEDS)
@settings(max_examples=200, deadline=None)
def test_no_task_can_end_earlier_or_start_before_its_needs(problem: Problem, seed: int) -> None:
    schedule = simulate(problem)
    longer = np.flatnonzero(schedule.end > schedule.start).tolist()
    if not longer:
        return
    task = Random(seed).choice(longer)
    end = schedule.end.copy()
    end[task] -= 1
    assert validate_schedule(problem, Schedule(schedule.start, end))
    needs = [n for n in problem.needs_of(task) if schedule.end[n] == schedule.start[task]]
    if needs:
        start = schedule.start.copy()
        start[task] -= 1
        assert validate_schedule(problem, Schedule(start, schedule.end))


@given(PROGRAMS)
@settings(max_examples=200, deadline=None)
def test_report_accounts_for_every_cycle(problem: Problem) -> None:
    schedule = simulate(problem)
    uses = engine_uses(problem, schedule)
    for engine, use in zip(problem.resources.engines, uses, strict=True):
        idle = sum(reason.cycles for reason in use.idle)
        assert all(reason.cycles > 0 for reason in use.idle)
        assert use.busy + idle == engine.servers * schedule.makespan
    assert np.all(slowed_cycles(problem, schedule) >= 0)


@given(PROGRAMS)
@settings(max_examples=200, deadline=None)
def test_critical_path_has_no_gap_from_cycle_0_to_the_end(problem: Problem) -> None:
    schedule = simulate(problem)
    path = critical_path(problem, schedule)
    if not problem.count:
        assert path == ()
        return
    assert path[0].cause is Cause.ORIGIN
    assert schedule.start[path[0].task] == 0
    assert schedule.end[path[-1].task] == schedule.makespan
    for before, step in pairwise(path):
        if step.cause is Cause.QUEUE:
            assert schedule.start[before.task] == schedule.start[step.task]
        else:
            assert schedule.end[before.task] == schedule.start[step.task]
        if step.cause is Cause.DEPENDENCY:
            assert before.task in problem.needs_of(step.task)
        else:
            assert problem.engine[before.task] == problem.engine[step.task]


@given(PROGRAMS)
@settings(max_examples=100, deadline=None)
def test_pools_never_move_more_than_their_bandwidth(problem: Problem) -> None:
    """All that is moved inside any interval fits through the pool in it."""
    schedule = simulate(problem)
    for pool, bandwidth in enumerate(problem.resources.pools):
        windows: list[tuple[int, int, int]] = []
        for task in range(problem.count):
            if problem.resources.engines[problem.engine[task]].pool == pool:
                begin = int(schedule.start[task] + problem.duration[task])
                windows.append((begin, int(schedule.end[task]), int(problem.transfer[task])))
        for start in {begin for begin, _, _ in windows}:
            for stop in {end for _, end, _ in windows}:
                inside = sum(b for begin, end, b in windows if start <= begin and end <= stop)
                assert inside <= bandwidth * max(0, stop - start)
