"""Room for what is loaded, between what is there."""

import random

from tilewright.program.program import Buffer
from tilewright.program.space import Space

USABLE = 64


def naive(
    taken: list[tuple[int, int, int, int]], size: int, unit: int, first: int, last: int
) -> int | None:
    """The highest multiple of the alignment at which nothing is in the way."""
    for place in range((USABLE - size) // unit * unit, -1, -unit):
        if not any(
            a <= last and b >= first and low < place + size and high > place
            for a, b, low, high in taken
        ):
            return place
    return None


def test_the_highest_free_place_is_found() -> None:
    draw = random.Random(7)
    for _ in range(200):
        space, taken = Space(USABLE, 12), list[tuple[int, int, int, int]]()
        for number in range(12):
            unit = draw.choice((1, 2, 8))
            buffer = Buffer("b", "m", draw.randint(1, 24), unit)
            first = draw.randint(0, 9)
            last = first + draw.randint(0, 5)
            expected = naive(taken, buffer.size, unit, first, last)
            assert space.gap(buffer, first, last) == expected
            if expected is not None:
                space.take(number, buffer, first, last, expected)
                taken.append((first, last, expected, expected + buffer.size))
        assert len(space.offsets) == len(taken)
