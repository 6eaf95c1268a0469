"""What a problem of the simulator accepts."""

from fractions import Fraction

import numpy as np
import pytest

from tilewright.schedule.problem import Engine, Problem, Resources

ONE = Resources((Engine(),))


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("not before it in program order", ([0, 0], [1, 1], [[1], []])),
        ("not before it in program order", ([0], [1], [[0]])),
        ("engine that does not exist", ([1], [1], [[]])),
        ("negative", ([0], [-1], [[]])),
        ("one entry for each", ([0], [1, 2], [[]])),
        ("one list for each", ([0, 0], [1, 2], [[]])),
    ],
)
def test_malformed_problems_are_refused(
    message: str, arguments: tuple[list[int], list[int], list[list[int]]]
) -> None:
    with pytest.raises(ValueError, match=message):
        Problem.of(ONE, *arguments)


def test_moving_bytes_needs_a_rate() -> None:
    with pytest.raises(ValueError, match="no rate"):
        Problem.of(ONE, [0], [1], [[]], transfer=[5])


def test_transfers_beyond_64_bits_are_refused() -> None:
    port = Resources((Engine(rate=Fraction(1, 1000)),))
    with pytest.raises(ValueError, match="too large"):
        Problem.of(port, [0], [0], [[]], transfer=[2**60])
    with pytest.raises(ValueError, match="more cycles"):
        Problem.of(ONE, [0, 0], [2**61, 2**61], [[], []])


@pytest.mark.parametrize(
    ("message", "engines", "pools"),
    [
        ("no server", (Engine(servers=0),), ()),
        ("has rate 0", (Engine(rate=Fraction(0)),), ()),
        ("does not exist", (Engine(pool=0),), ()),
        ("no bandwidth", (Engine(),), (Fraction(0),)),
        ("round them", (Engine(pool=0),), (Fraction(1, 2**41),)),
    ],
)
def test_malformed_resources_are_refused(
    message: str, engines: tuple[Engine, ...], pools: tuple[Fraction, ...]
) -> None:
    with pytest.raises(ValueError, match=message):
        Resources(engines, pools)


def test_grain_makes_ports_and_shares_whole() -> None:
    resources = Resources(
        (Engine(servers=3, rate=Fraction(1, 5), pool=0), Engine(pool=0)), (Fraction(3, 7),)
    )
    grain = resources.grain(0)
    shares = [Fraction(3, 7) / transfers for transfers in range(1, 5)]
    assert all((rate * grain).denominator == 1 for rate in (Fraction(1, 5), *shares))


def test_added_edges_join_the_others_once() -> None:
    problem = Problem.of(ONE, [0, 0, 0], [1, 1, 1], [[], [0], []])
    more = problem.with_edges(np.array([0, 1], np.int32), np.array([1, 2], np.int32))
    assert [more.needs_of(task) for task in range(3)] == [[], [0], [1]]
    assert [problem.needs_of(task) for task in range(3)] == [[], [0], []]
