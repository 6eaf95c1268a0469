"""The validator names every kind of fault seeded into a valid allocation."""

import pytest

from tilewright.memory import (
    Allocation,
    Buffer,
    InvalidAllocationError,
    Problem,
    allocate,
    check,
    violations,
)

PROBLEM = Problem(
    (
        Buffer("a", 0, 4, 64, 32),
        Buffer("b", 2, 6, 96, 32),
        Buffer("c", 4, 8, 32, 32),
        Buffer("d", 0, 8, 10, offset=160),
    ),
    170,
)
VALID = (0, 64, 0, 160)


def test_a_valid_allocation_has_no_violations() -> None:
    assert violations(PROBLEM, VALID) == []
    check(PROBLEM, VALID, 170)


def test_touching_in_time_or_address_is_no_overlap() -> None:
    buffers = (Buffer("a", 0, 2, 8), Buffer("b", 2, 4, 8), Buffer("c", 0, 4, 8))
    assert violations(Problem(buffers, 16), (0, 0, 8)) == []


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ((0, 32, 0, 160), r"a at \[0, 64\) overlaps b at \[32, 128\) in time \[2, 4\)"),
        ((0, 64, 64, 160), r"b at .* overlaps c at .* in time \[4, 6\)"),
        ((0, 96, 0, 160), "b: ends at 192, beyond capacity 170"),
        ((0, 65, 0, 160), "b: offset 65 is no multiple of 32"),
        ((-32, 64, 0, 160), "a: offset -32 is negative"),
        ((0, 64, 0, 159), "d: pinned at 160 but placed at 159"),
        ((0, 64, 0), "3 offsets for 4 buffers"),
    ],
)
def test_seeded_faults_are_named(offsets: tuple[int, ...], message: str) -> None:
    with pytest.raises(InvalidAllocationError, match=message):
        check(PROBLEM, offsets, 170)


def test_a_wrong_peak_is_caught() -> None:
    with pytest.raises(InvalidAllocationError, match="highest byte used is 170, not"):
        check(PROBLEM, VALID, 168)


def test_swapped_offsets_of_a_solution_are_caught() -> None:
    result = allocate(PROBLEM)
    assert isinstance(result, Allocation)
    first, second, *rest = result.offsets
    assert violations(PROBLEM, (second, first, *rest))
