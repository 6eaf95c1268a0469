"""How little memory a network can be run in."""

from collections.abc import Callable

PRECISION = 1.02  # times the smallest limit that is known to be too small


def least_limit(fits: Callable[[int], bool], most: int) -> int:
    """The fewest bytes that something `fits` in, to within the precision, if `most` are enough:
    halved as long as they are, then what lies between."""
    while most > 1 and fits(most // 2):
        most //= 2
    least = most // 2
    while least > 0 and most > PRECISION * least and most - least > 1:
        middle = (least + most) // 2
        if fits(middle):
            most = middle
        else:
            least = middle
    return most
