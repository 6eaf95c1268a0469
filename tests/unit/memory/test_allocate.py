"""Greedy and exact allocation on instances that are easy, hard, large, or other people's."""

import csv
import random
from pathlib import Path

import numpy as np
import pytest

from tilewright.memory import Allocation, Buffer, Misfit, Problem, allocate, check, lower_bound
from tilewright.memory.exact import decide
from tilewright.memory.greedy import greedy
from tilewright.memory.rectangles import components, rectangles_of

PEER_INSTANCES = Path(__file__).resolve().parents[4] / "shared" / "data" / "minimalloc"


def cut_instance(count: int, steps: int, height: int, seed: int) -> Problem:
    """A full rectangle cut into buffers at random: it fits with no byte to spare."""
    chance = random.Random(seed)
    pieces = [(0, steps, 0, height)]
    while len(pieces) < count:
        index = max(
            range(len(pieces)),
            key=lambda i: (pieces[i][1] - pieces[i][0]) * (pieces[i][3] - pieces[i][2]),
        )
        a, b, c, d = pieces[index]
        if b - a > 1 and chance.random() < 0.5:
            middle = chance.randint(a + 1, b - 1)
            pieces[index : index + 1] = [(a, middle, c, d), (middle, b, c, d)]
        else:
            middle = chance.randint(c + 1, d - 1)
            pieces[index : index + 1] = [(a, b, c, middle), (a, b, middle, d)]
    chance.shuffle(pieces)
    buffers = [Buffer(str(i), a, b, d - c) for i, (a, b, c, d) in enumerate(pieces)]
    return Problem(tuple(buffers), height)


def solved(problem: Problem, **limits: int) -> Allocation:
    result = allocate(problem, **limits)
    assert isinstance(result, Allocation), result
    check(problem, result.offsets, result.peak)
    return result


@pytest.mark.parametrize("seed", range(4))
def test_a_cut_rectangle_is_put_together_again(seed: int) -> None:
    problem = cut_instance(40, 30, 4096, seed)
    assert solved(problem).peak == 4096


def test_the_same_question_has_the_same_answer() -> None:
    problem = cut_instance(60, 30, 4096, 7)
    assert allocate(problem) == allocate(problem)


def test_the_node_limit_is_kept() -> None:
    result = allocate(cut_instance(150, 40, 1 << 20, 3), node_limit=50)
    assert isinstance(result, Misfit)
    assert not result.proven
    assert result.nodes <= 50


def test_without_nodes_greedy_answers_alone() -> None:
    problem = Problem(cut_instance(40, 30, 4096, 1).buffers)
    result = solved(problem, node_limit=0)
    assert result.nodes == 0
    assert result.peak >= 4096


def test_pinned_buffers_stay_and_others_go_around_them() -> None:
    buffers = (
        Buffer("weights", 0, 100, 256, 64, offset=128),
        Buffer("a", 0, 10, 100, 64),
        Buffer("b", 5, 20, 64, 64),
        Buffer("c", 12, 30, 128, 64),
    )
    result = solved(Problem(buffers, 512))
    assert result.offsets[0] == 128
    assert result.peak == 448


def test_a_large_program_needs_no_search() -> None:
    chance = random.Random(1)
    buffers = tuple(
        Buffer(str(index), index, index + chance.randint(1, 20), 64 * chance.randint(1, 40), 64)
        for index in range(5_000)
    )
    problem = Problem(buffers)
    rectangles = rectangles_of(problem)
    offsets = greedy(rectangles, lower_bound(problem))
    peak = int(np.max(offsets + rectangles.size))
    check(problem, tuple(offsets.tolist()), peak)
    assert peak <= 1.05 * lower_bound(problem)


def test_groups_that_share_no_time_are_told_apart() -> None:
    buffers = (Buffer("a", 5, 9, 1), Buffer("b", 0, 3, 1), Buffer("c", 2, 5, 1))
    groups = components(rectangles_of(Problem(buffers)))
    assert [group.tolist() for group in groups] == [[1, 2], [0]]


def test_deciding_both_ways() -> None:
    # The two long buffers cannot touch: a wall of 3 between them reaches over either's end.
    buffers = (
        Buffer("a", 0, 4, 2),
        Buffer("b", 3, 8, 2),
        Buffer("c", 0, 3, 2),
        Buffer("d", 4, 8, 2),
        Buffer("e", 2, 5, 1),
    )
    rectangles = rectangles_of(Problem(buffers))
    assert decide(rectangles, 5, 1000).offsets is not None
    impossible, undecided = decide(rectangles, 4, 1000), decide(rectangles, 5, 0)
    assert (impossible.offsets, impossible.exhausted) == (None, True)
    assert (undecided.offsets, undecided.exhausted) == (None, False)


@pytest.mark.peer
@pytest.mark.parametrize("name", ["A", "C", "D", "F", "I", "K"])
def test_published_instances_fit(name: str) -> None:
    path = PEER_INSTANCES / f"{name}.1048576.csv"
    if not path.exists():
        pytest.skip(f"{path} is not beside this checkout")
    with path.open(newline="") as lines:
        buffers = tuple(
            Buffer(row["id"], int(row["lower"]), int(row["upper"]), int(row["size"]))
            for row in csv.DictReader(lines)
        )
    solved(Problem(buffers, 1_048_576), target=1_048_576)
