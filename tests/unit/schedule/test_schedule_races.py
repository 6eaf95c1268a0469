"""Races are judged by bytes and order, never by timing; reuse edges order shared bytes."""

import numpy as np
import pytest

from support.races_twin import accesses_of
from tilewright.schedule.problem import Engine, Problem, Resources
from tilewright.schedule.races import Conflict, Race, find_races, strided_intervals
from tilewright.schedule.reuse import PlacedBuffers, reuse_edges
from tilewright.schedule.simulate import simulate

LOAD, COMPUTE, STORE = 0, 1, 2
SERIAL = Resources((Engine(), Engine(), Engine()))


def tiles(count: int, slots: int, *, drop: tuple[int, int] | None = None) -> Problem:
    """Load, compute, store of so many tiles, with the edges that `slots` slots of memory need; one
    may be dropped."""
    needs: list[list[int]] = []
    for tile in range(count):
        task = 3 * tile
        reused = [task - 3 * slots + 1] if tile >= slots else []
        stored = [task - 3 * slots + 2] if tile >= slots else []
        needs += [reused, [task, *stored], [task + 1]]
    if drop is not None:
        needs[drop[1]].remove(drop[0])
    return Problem.of(SERIAL, [LOAD, COMPUTE, STORE] * count, [5, 9, 4] * count, needs)


def touched(count: int, slots: int) -> list[tuple[int, int, int, int, bool]]:
    """Tile t loads to slot t % slots, computes to an output slot beside, and stores it."""
    rows: list[tuple[int, int, int, int, bool]] = []
    for tile in range(count):
        task, at = 3 * tile, 200 * (tile % slots)
        rows += [
            (task, 0, at, at + 100, True),
            (task + 1, 0, at, at + 100, False),
            (task + 1, 0, at + 100, at + 200, True),
            (task + 2, 0, at + 100, at + 200, False),
            (task + 2, 1, 100 * tile, 100 * tile + 100, True),
        ]
    return rows


def test_double_buffered_tiles_have_no_race() -> None:
    assert find_races(tiles(6, 2), accesses_of(touched(6, 2))) == ()


EDGES = [(need, task) for task in range(18) for need in tiles(6, 2).needs_of(task)]


@pytest.mark.parametrize("edge", EDGES, ids=str)
def test_any_dropped_edge_is_a_race(edge: tuple[int, int]) -> None:
    races = find_races(tiles(6, 2, drop=edge), accesses_of(touched(6, 2)))
    assert edge in {(race.first, race.second) for race in races}


def test_a_shifted_address_is_a_race() -> None:
    rows = touched(6, 2)
    task, memory, start, stop, write = rows[5 * 3]
    rows[5 * 3] = (task, memory, start + 64, stop + 64, write)
    assert find_races(tiles(6, 2), accesses_of(rows))


def test_timing_does_not_hide_a_race() -> None:
    problem = Problem.of(SERIAL, [0, 1, 1], [1, 100, 1], [[], [], []])
    schedule = simulate(problem)
    assert schedule.end[0] < schedule.start[2]
    races = find_races(problem, accesses_of([(0, 0, 0, 8, True), (2, 0, 4, 12, False)]))
    assert races == (Race(2, 0, 0, 4, 8, Conflict.READ_AFTER_WRITE),)
    assert str(races[0]) == "tasks 0 and 2 race on bytes 4-8 of memory 0 (read after write)"


@pytest.mark.parametrize(
    ("engine", "races"),
    [(Engine(), 0), (Engine(in_order=False), 1), (Engine(servers=2), 1)],
    ids=["serial", "out of order", "two servers"],
)
def test_only_a_serial_engine_orders_its_tasks(engine: Engine, races: int) -> None:
    problem = Problem.of(Resources((engine,)), [0, 0], [1, 1], [[], []])
    accesses = accesses_of([(0, 0, 0, 8, True), (1, 0, 0, 8, True)])
    assert len(find_races(problem, accesses)) == races


def test_reads_and_other_memories_do_not_conflict() -> None:
    problem = Problem.of(SERIAL, [0, 1, 2], [1] * 3, [[], [], []])
    rows = [(0, 0, 0, 8, False), (1, 0, 0, 8, False), (2, 1, 0, 8, True), (2, 0, 8, 9, True)]
    assert find_races(problem, accesses_of(rows)) == ()
    assert find_races(problem, accesses_of([])) == ()


def test_interleaved_strides_do_not_conflict() -> None:
    problem = Problem.of(SERIAL, [0, 1], [1, 1], [[], []])
    rows: list[tuple[int, int, int, int, bool]] = []
    for task in range(2):
        bounds = zip(*strided_intervals(16 * task, 16, [(10, 32)]), strict=True)
        rows += [(task, 0, int(start), int(stop), True) for start, stop in bounds]
    assert find_races(problem, accesses_of(rows)) == ()


def test_strides_that_touch_become_one_interval() -> None:
    starts, stops = strided_intervals(5, 10, [(3, 100), (4, 10)])
    assert starts.tolist() == [5, 105, 205]
    assert stops.tolist() == [45, 145, 245]


def test_reuse_edges_are_those_a_person_would_draw() -> None:
    plain = Problem.of(
        SERIAL,
        [LOAD, COMPUTE, STORE] * 4,
        [5, 9, 4] * 4,
        [[t - 1] if t % 3 else [] for t in range(12)],
    )
    buffers = [
        (0, 200 * (tile % 2) + at, 200 * (tile % 2) + at + 100)
        for tile in range(4)
        for at in (0, 100)
    ]
    users = [[3 * tile + at, 3 * tile + at + 1] for tile in range(4) for at in (0, 1)]
    first, second = reuse_edges(plain, PlacedBuffers.of(buffers, users))
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == [
        (1, 6),
        (2, 7),
        (4, 9),
        (5, 10),
    ]
    ordered = plain.with_edges(first, second)
    assert find_races(ordered, accesses_of(touched(4, 2))) == ()
    again, _ = reuse_edges(ordered, PlacedBuffers.of(buffers, users))
    assert again.size == 0


def test_buffers_alive_together_may_not_overlap() -> None:
    problem = Problem.of(SERIAL, [0, 1, 2], [1] * 3, [[], [0], [1]])
    buffers = PlacedBuffers.of([(0, 0, 10), (0, 5, 15)], [[0, 2], [1]])
    with pytest.raises(ValueError, match="buffers 0 and 1 overlap"):
        reuse_edges(problem, buffers)


def test_many_loose_chains_get_correct_edges() -> None:
    """More independent out-of-order tasks than are tracked exactly."""
    count = 150
    loose = Resources((Engine(in_order=False),))
    problem = Problem.of(loose, [0] * (2 * count), [1] * (2 * count), [[]] * (2 * count))
    places = [(0, 10 * (b % count), 10 * (b % count) + 10) for b in range(2 * count)]
    buffers = PlacedBuffers.of(places, [[b] for b in range(2 * count)])
    first, second = reuse_edges(problem, buffers)
    assert np.array_equal(second - first, np.full(count, count))
    rows = [(b, memory, start, stop, True) for b, (memory, start, stop) in enumerate(places)]
    assert len(find_races(problem, accesses_of(rows))) == count
    assert find_races(problem.with_edges(first, second), accesses_of(rows)) == ()
