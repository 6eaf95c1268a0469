"""Half-open intervals, boxes, even splits, and the access rules on single numbers."""

import pytest

from tilewright.geometry.access import (
    Access,
    Mirrored,
    Reach,
    Resampled,
    Same,
    Scaled,
    Shifted,
    Strided,
    TransposedWindow,
    Whole,
    Window,
)
from tilewright.geometry.box import Box
from tilewright.geometry.interval import Interval, even_split, grained_split

pytestmark = pytest.mark.quick


def spans(*pairs: tuple[int, int]) -> tuple[Interval, ...]:
    return tuple(Interval(a, b) for a, b in pairs)


def test_interval_is_half_open() -> None:
    rows = Interval(2, 5)
    assert (rows.length, rows.empty, str(rows)) == (3, False, "2-5")
    assert Interval(4, 4).empty and Interval(4, 4).length == 0
    assert Interval(5, 4).empty and Interval(5, 4).length == 0


def test_interval_hull_ignores_the_empty() -> None:
    assert Interval(2, 5).hull(Interval(8, 9)) == Interval(2, 9)
    assert Interval(2, 5).hull(Interval(0, 0)) == Interval(2, 5)
    assert Interval(7, 7).hull(Interval(2, 5)) == Interval(2, 5)


def test_interval_clip_shift_and_covers() -> None:
    assert Interval(-2, 3).clip(10) == Interval(0, 3)
    assert Interval(8, 13).clip(10) == Interval(8, 10)
    assert Interval(12, 13).clip(10) == Interval(10, 10)
    assert Interval(-5, -2).clip(10) == Interval(0, 0)
    assert Interval(2, 5).shift(-2) == Interval(0, 3)
    assert Interval(0, 5).covers(Interval(2, 5)) and not Interval(0, 4).covers(Interval(2, 5))
    assert Interval(0, 1).covers(Interval(9, 9))


@pytest.mark.parametrize(
    "extent, parts, expected",
    [
        (112, 4, spans((0, 28), (28, 56), (56, 84), (84, 112))),
        (10, 4, spans((0, 3), (3, 6), (6, 8), (8, 10))),
        (5, 5, spans((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))),
        (7, 1, spans((0, 7))),
    ],
)
def test_even_split_gives_the_remainder_to_the_first(
    extent: int, parts: int, expected: tuple[Interval, ...]
) -> None:
    assert even_split(extent, parts) == expected


@pytest.mark.parametrize(
    "extent, parts, grain, expected",
    [
        (100, 3, 16, spans((0, 48), (48, 96), (96, 100))),
        (64, 4, 16, spans((0, 16), (16, 32), (32, 48), (48, 64))),
        (64, 3, 16, spans((0, 32), (32, 64))),
        (40, 4, 16, spans((0, 16), (16, 32), (32, 40))),
        (8, 2, 8, spans((0, 8))),
    ],
)
def test_aligned_split_rounds_up_and_leaves_the_remainder_last(
    extent: int, parts: int, grain: int, expected: tuple[Interval, ...]
) -> None:
    assert even_split(extent, parts, grain) == expected


@pytest.mark.parametrize(
    "extent, parts, grain, expected",
    [
        (197, 4, 16, spans((0, 48), (48, 96), (96, 144), (144, 197))),
        (28, 2, 4, spans((0, 12), (12, 28))),
        (20, 3, 4, spans((0, 4), (4, 12), (12, 20))),
        (10, 2, 8, spans((0, 8), (8, 10))),
    ],
)
def test_grained_split_begins_parts_at_multiples_and_deals_them_evenly(
    extent: int, parts: int, grain: int, expected: tuple[Interval, ...]
) -> None:
    assert grained_split(extent, parts, grain) == expected


def test_box_basics() -> None:
    box = Box(spans((0, 1), (2, 5), (1, 3)))
    assert (box.shape, box.size, len(box), box.empty) == ((1, 3, 2), 6, 3, False)
    assert str(box) == "[0-1, 2-5, 1-3]"
    assert box[1] == Interval(2, 5) and list(box)[2] == Interval(1, 3)
    assert box.slices() == (slice(0, 1), slice(2, 5), slice(1, 3))
    assert Box.whole((2, 3)) == Box(spans((0, 2), (0, 3)))
    assert Box.whole(()).size == 1


def test_box_hull_covers_and_within() -> None:
    first, second = Box(spans((0, 2), (0, 2))), Box(spans((1, 4), (1, 2)))
    assert first.hull(second) == Box(spans((0, 4), (0, 2)))
    nothing = Box(spans((0, 2), (5, 5)))
    assert first.hull(nothing) == first and nothing.hull(first) == first
    assert Box.whole((4, 4)).covers(second) and not first.covers(second)
    assert first.covers(nothing)
    assert second.within(Box(spans((1, 4), (0, 4)))) == Box(spans((0, 3), (1, 2)))


@pytest.mark.parametrize(
    "rule, out, expected",
    [
        (Whole(9), (3, 4), Reach(Interval(0, 9))),
        (Same(2), (3, 4), Reach(Interval(3, 4))),
        (Scaled(1, 2, 3), (3, 6), Reach(Interval(2, 4))),
        (Scaled(1, 1, 2), (3, 5), Reach(Interval(1, 3))),
        (Shifted(1, -4, 6), (2, 7), Reach(Interval(0, 3), 2, 0)),
        (Shifted(1, -4, 6), (0, 3), Reach(Interval(0, 0))),
        (Strided(1, 1, 3), (2, 4), Reach(Interval(7, 11))),
        (Strided(1, 9, -2), (1, 4), Reach(Interval(3, 8))),
        (Window(2, 3, 1, 1, 1, 8), (0, 4), Reach(Interval(0, 5), 1, 0)),
        (Window(2, 3, 2, 2, 1, 8), (2, 4), Reach(Interval(3, 8), 0, 2)),
        (TransposedWindow(2, 2, 2, 1, 0, 8), (4, 8), Reach(Interval(2, 4), 0, 0)),
        (TransposedWindow(2, 3, 2, 1, 1, 8), (0, 4), Reach(Interval(0, 3), 1, 2)),
        (TransposedWindow(2, 1, 3, 1, 0, 8), (4, 6), Reach(Interval(1, 2), 1, -2)),
        (Mirrored(2, 2, 6), (0, 5), Reach(Interval(0, 3), 2, 0)),
        (Resampled(2, 2, 1, 1, 1, 6), (4, 8), Reach(Interval(1, 5), 1, 1)),
        (Resampled(2, 2, 1, 1, 1, 6), (0, 4), Reach(Interval(0, 3), 0, 1)),
        (Resampled(2, 2, 1, 0, 1, 6), (4, 8), Reach(Interval(2, 5), 0, 1)),
        (Resampled(2, 1, 2, 2, 2, 12), (2, 4), Reach(Interval(2, 10), 2, 2)),
    ],
    ids=lambda value: str(value)[:40],
)
def test_rules_reach(rule: Window, out: tuple[int, int], expected: Reach) -> None:
    assert rule.reach(Interval(*out)) == expected


def test_window_in_padding_grows_to_a_real_row() -> None:
    """Pads of 5 before a kernel of 2: the first output rows see nothing of the input."""
    rule = Window(2, 2, 1, 1, 5, 4)
    assert rule.grow(Interval(0, 2), 13) == Interval(0, 5)
    assert rule.grow(Interval(10, 13), 13) == Interval(8, 13)
    assert rule.grow(Interval(5, 6), 13) == Interval(5, 6)
    far = Window(2, 3, 2, 1, 10**15, 8)  # found without a walk through the padding
    assert far.grow(Interval(0, 1), 10**15) == Interval(0, 5 * 10**14)
    assert far.grow(Interval(10**15 - 1, 10**15), 10**15) == Interval(5 * 10**14 + 3, 10**15)


def test_mirrored_padding_grows_to_its_source_rows() -> None:
    rule = Mirrored(2, 3, 6)
    assert rule.grow(Interval(0, 1), 11) == Interval(0, 7)
    assert rule.grow(Interval(10, 11), 11) == Interval(6, 11)
    assert rule.grow(Interval(4, 6), 11) == Interval(4, 6)


def test_access_grain() -> None:
    access = Access((1, 8, 6, 5), (1, 4, 2, 5), ((Same(0), Same(1), Same(2), Same(3)),))
    assert access.tileable() == (1, 2)
    assert access.grow(1, Interval(3, 5)) == Interval(0, 8)
    assert access.grow(2, Interval(3, 5)) == Interval(2, 6)
    assert access.grow(3, Interval(2, 3)) == Interval(0, 5)
    assert access.grow(2, Interval(3, 3)) == Interval(3, 3)
    assert not access.empty and Access((0, 2), (1, 1), ()).empty
