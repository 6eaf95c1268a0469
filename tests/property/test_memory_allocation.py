"""Allocations are always valid, and on small problems as low as trying everything finds."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.memory import (
    Allocation,
    Buffer,
    Misfit,
    Problem,
    allocate,
    check,
    lower_bound,
    violations,
)


@st.composite
def buffers_of_one_memory(
    draw: st.DrawFn, most: int, alignments: tuple[int, ...] = (1, 2, 3, 4)
) -> tuple[Buffer, ...]:
    """Up to `most` buffers, of which the first may be pinned."""
    count = draw(st.integers(1, most))
    found: list[Buffer] = []
    for index in range(count):
        start = draw(st.integers(0, 7))
        stop = start + draw(st.integers(1, 5))
        size = draw(st.integers(1, 12))
        alignment = draw(st.sampled_from(alignments))
        pin = draw(st.none() | st.integers(0, 4)) if index == 0 else None
        offset = None if pin is None else pin * alignment
        found.append(Buffer(str(index), start, stop, size, alignment, offset))
    return tuple(found)


def lowest_peak(buffers: tuple[Buffer, ...]) -> int:
    """The least peak over all orders of placing buffers one by one as low as they go.

    The order of the offsets of an optimal allocation is one of them.
    """
    pinned = [(buffer, buffer.offset) for buffer in buffers if buffer.offset is not None]
    movable = [buffer for buffer in buffers if buffer.offset is None]
    best = sum(buffer.size + buffer.alignment + (buffer.offset or 0) for buffer in buffers)

    def place(placed: list[tuple[Buffer, int]], left: list[Buffer]) -> None:
        nonlocal best
        peak = max((offset + buffer.size for buffer, offset in placed), default=0)
        if peak >= best:
            return
        if not left:
            best = peak
            return
        for buffer in left:
            near = [
                (offset, offset + other.size)
                for other, offset in placed
                if other.start < buffer.stop and buffer.start < other.stop
            ]
            offset = 0
            while any(low < offset + buffer.size and offset < high for low, high in near):
                offset += buffer.alignment
            place([*placed, (buffer, offset)], [other for other in left if other is not buffer])

    place(pinned, movable)
    return best


@settings(max_examples=150, deadline=None)
@given(buffers_of_one_memory(7))
def test_small_problems_are_solved_to_the_optimum(buffers: tuple[Buffer, ...]) -> None:
    optimum = lowest_peak(buffers)
    result = allocate(Problem(buffers), node_limit=1_000_000)
    assert isinstance(result, Allocation)
    check(Problem(buffers), result.offsets, result.peak)
    assert result.peak == optimum
    assert result.optimal
    assert result.lower_bound <= optimum


@settings(max_examples=100, deadline=None)
@given(buffers_of_one_memory(7))
def test_one_byte_less_than_the_optimum_is_proven_not_to_fit(buffers: tuple[Buffer, ...]) -> None:
    optimum = lowest_peak(buffers)
    result = allocate(Problem(buffers, optimum - 1), node_limit=1_000_000)
    assert isinstance(result, Misfit)
    assert result.proven
    assert result.short_by > 0
    assert result.start < result.stop
    live = [buffers[index] for index in result.buffers]
    assert all(b.start < result.stop and result.start < b.stop for b in live)


@settings(max_examples=60, deadline=None)
@given(buffers_of_one_memory(60, (1, 16)), st.integers(0, 400))
def test_allocations_are_valid_within_any_capacity(
    buffers: tuple[Buffer, ...], capacity: int
) -> None:
    problem = Problem(buffers, capacity)
    result = allocate(problem, node_limit=300)
    if isinstance(result, Allocation):
        check(problem, result.offsets, result.peak)
        assert lower_bound(problem) <= result.peak
    else:
        assert result.capacity == capacity
        assert result.short_by > 0


@settings(max_examples=200, deadline=None)
@given(buffers_of_one_memory(6), st.data())
def test_the_validator_agrees_with_painting_bytes(
    buffers: tuple[Buffer, ...], data: st.DataObject
) -> None:
    offsets = tuple(data.draw(st.integers(-1, 30)) for _ in buffers)
    capacity = data.draw(st.integers(0, 40))
    cells = [
        (time, byte)
        for buffer, offset in zip(buffers, offsets, strict=True)
        for time, byte in itertools.product(
            range(buffer.start, buffer.stop), range(offset, offset + buffer.size)
        )
    ]
    valid = (
        len(cells) == len(set(cells))
        and all(0 <= byte < capacity for _, byte in cells)
        and all(o % b.alignment == 0 for b, o in zip(buffers, offsets, strict=True))
        and all(b.offset in (None, o) for b, o in zip(buffers, offsets, strict=True))
    )
    assert (violations(Problem(buffers, capacity), offsets) == []) == valid
