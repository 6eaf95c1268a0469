"""Buffers and problems refuse what cannot be meant; the lower bound and failures are exact."""

import pytest

from tilewright.memory import (
    Allocation,
    Buffer,
    Misfit,
    MisfitReason,
    Problem,
    allocate,
    lower_bound,
)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stop": 3}, "lifetime"),
        ({"size": 0}, "size"),
        ({"alignment": 0}, "alignment"),
        ({"alignment": 4, "offset": 6}, "pinned at 6"),
        ({"offset": -1}, "pinned at -1"),
    ],
)
def test_a_buffer_that_cannot_be_meant_is_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Buffer(**({"name": "x", "start": 3, "stop": 5, "size": 8} | fields))  # type: ignore[arg-type]


def test_a_negative_capacity_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity"):
        Problem((), -1)


def test_lower_bound_is_the_most_bytes_live_at_once() -> None:
    buffers = (Buffer("a", 0, 2, 10), Buffer("b", 1, 3, 20), Buffer("c", 2, 4, 15))
    assert lower_bound(Problem(buffers)) == 35
    assert lower_bound(Problem(())) == 0


def test_lower_bound_knows_alignment_and_pins() -> None:
    aligned = (Buffer("a", 0, 1, 10, 64), Buffer("b", 0, 1, 20, 64))
    assert lower_bound(Problem(aligned)) == 74  # 64 for the lower, and the smaller on top
    pinned = (Buffer("a", 0, 1, 10, offset=100), Buffer("b", 5, 6, 20))
    assert lower_bound(Problem(pinned)) == 110


def test_too_many_bytes_at_once_is_a_lack_of_capacity() -> None:
    buffers = (Buffer("a", 0, 4, 60), Buffer("b", 2, 6, 50), Buffer("c", 4, 8, 10))
    result = allocate(Problem(buffers, 100))
    assert result == Misfit(
        start=2,
        stop=4,
        capacity=100,
        live_bytes=110,
        short_by=10,
        reason=MisfitReason.CAPACITY,
        buffers=(0, 1),
        proven=True,
        nodes=0,
    )
    assert "110 B live at once in 100 B, short by 10 B for capacity" in str(result)


def test_enough_bytes_in_pieces_is_fragmentation() -> None:
    # Two pins leave 30 + 30 bytes free, and 40 are needed.
    buffers = (
        Buffer("low", 0, 9, 10, offset=30),
        Buffer("high", 0, 9, 10, offset=70),
        Buffer("wide", 3, 5, 40),
    )
    result = allocate(Problem(buffers, 80))
    assert isinstance(result, Misfit)
    assert result.reason is MisfitReason.FRAGMENTATION
    assert result.proven
    assert (result.start, result.stop) == (3, 5)
    assert (result.live_bytes, result.short_by) == (60, 40)
    assert result.buffers == (0, 1, 2)


def test_capacity_as_target_stops_at_the_first_fit() -> None:
    buffers = tuple(Buffer(str(index), index, index + 3, 10 + index) for index in range(9))
    lax = allocate(Problem(buffers, 10_000), target=10_000)
    assert isinstance(lax, Allocation)
    assert lax.nodes == 0


def test_nothing_to_place() -> None:
    assert allocate(Problem((), 0)) == Allocation((), 0, 0, True, 0)
