"""Order, races and reuse edges against plain comparisons of everything with everything."""

from itertools import combinations
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.races_twin import accesses_of, find_races_plainly, order_plainly
from tilewright.schedule.order import ordered
from tilewright.schedule.problem import Engine, Problem, Resources
from tilewright.schedule.races import Accesses, find_races, strided_intervals
from tilewright.schedule.reuse import PlacedBuffers, reuse_edges

Row = tuple[int, int, int, int, bool]


def program(random: Random, count: int) -> Problem:
    """Tasks on serial, out-of-order and several-server engines."""
    kinds = [Engine(), Engine(), Engine(in_order=False), Engine(servers=2)]
    engines = tuple(random.choice(kinds) for _ in range(random.randint(1, 4)))
    rows: list[list[int]] = []
    for task in range(count):
        near = range(max(0, task - 6), task)
        rows.append(random.sample(near, random.randint(0, min(2, task))))
    where = [random.randrange(len(engines)) for _ in range(count)]
    return Problem.of(Resources(engines), where, [1] * count, rows)


def touching(seed: int, count: int, touches: int) -> tuple[Problem, Accesses]:
    """A program and what its tasks touch, in two small memories."""
    random = Random(seed)
    problem = program(random, count)
    rows: list[Row] = []
    for _ in range(touches):
        start = random.randint(0, 20)
        stop = start + random.randint(0, 9)
        memory, write = random.randint(0, 1), random.random() < 0.4
        rows.append((random.randrange(count), memory, start, stop, write))
    return problem, accesses_of(rows)


SEEDS = st.integers(0, 2**32 - 1)
PROGRAMS = st.builds(lambda seed, count: program(Random(seed), count), SEEDS, st.integers(1, 25))
TOUCHING = st.builds(touching, SEEDS, st.integers(1, 25), st.integers(0, 40))


@given(PROGRAMS)
@settings(max_examples=150, deadline=None)
def test_order_is_the_closure_of_edges_and_serial_engines(problem: Problem) -> None:
    before = order_plainly(problem)
    pairs = [(a, b) for a in range(problem.count) for b in range(problem.count)]
    first = np.array([a for a, _ in pairs], dtype=np.int32)
    second = np.array([b for _, b in pairs], dtype=np.int32)
    assert ordered(problem, first, second).tolist() == [a in before[b] for a, b in pairs]


@given(TOUCHING)
@settings(max_examples=300, deadline=None)
def test_races_name_exactly_the_bytes_that_race(case: tuple[Problem, Accesses]) -> None:
    problem, accesses = case
    plain = find_races_plainly(problem, accesses)
    found = find_races(problem, accesses)
    racing = {(memory, byte) for _, _, memory, start, stop in plain for byte in range(start, stop)}
    named = {(race.memory, byte) for race in found for byte in range(race.start, race.stop)}
    assert named == racing
    pairs = {(first, second, memory) for first, second, memory, _, _ in plain}
    assert {(race.first, race.second, race.memory) for race in found} <= pairs


@given(
    st.integers(0, 50),
    st.integers(1, 9),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 30)), max_size=3),
)
def test_strided_intervals_are_the_bytes_of_the_strides(
    offset: int, run: int, levels: list[tuple[int, int]]
) -> None:
    expected = {offset}
    for count, stride in levels:
        expected = {at + step * stride for at in expected for step in range(count)}
    expected = {at + byte for at in expected for byte in range(run)}
    starts, stops = (bounds.tolist() for bounds in strided_intervals(offset, run, levels))
    covered = [b for start, stop in zip(starts, stops, strict=True) for b in range(start, stop)]
    assert covered == sorted(expected)


Placed = tuple[Problem, list[tuple[int, int, int]], list[list[int]]]


def placed(seed: int, count: int, buffers: int) -> Placed:
    """A program and buffers that never overlap in both address and program order."""
    random = Random(seed)
    problem = program(random, count)
    places: list[tuple[int, int, int]] = []
    users: list[list[int]] = []
    for _ in range(buffers):
        memory, start = random.randint(0, 1), random.randint(0, 8)
        stop = start + random.randint(1, 6)
        born = random.randrange(count)
        last = min(count - 1, born + 5)
        used = sorted({born, *(random.randint(born, last) for _ in range(random.randint(0, 3)))})
        clash = any(
            place[0] == memory
            and place[1] < stop
            and start < place[2]
            and other[0] <= used[-1]
            and used[0] <= other[-1]
            for place, other in zip(places, users, strict=True)
        )
        if not clash:
            places.append((memory, start, stop))
            users.append(used)
    return problem, places, users


PLACED = st.builds(placed, SEEDS, st.integers(1, 30), st.integers(0, 16))


def conflicts_left(
    problem: Problem, places: list[tuple[int, int, int]], users: list[list[int]]
) -> bool:
    """Whether two buffers that share bytes have users that are not in order."""
    before = order_plainly(problem)
    for one, other in combinations(range(len(places)), 2):
        if places[one][0] != places[other][0]:
            continue
        if places[one][1] >= places[other][2] or places[other][1] >= places[one][2]:
            continue
        old, new = sorted((users[one], users[other]))
        if any(first not in before[second] for first in old for second in new):
            return True
    return False


@given(PLACED, st.sampled_from([1, 64]))
@settings(max_examples=250, deadline=None)
def test_reuse_edges_order_all_reuse_and_none_can_be_spared(case: Placed, followed: int) -> None:
    problem, places, users = case
    first, second = reuse_edges(problem, PlacedBuffers.of(places, users), followed=followed)
    assert not conflicts_left(problem.with_edges(first, second), places, users)
    for index in range(first.size):
        fewer = problem.with_edges(np.delete(first, index), np.delete(second, index))
        assert conflicts_left(fewer, places, users)
