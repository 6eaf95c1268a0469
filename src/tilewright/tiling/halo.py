"""Frontiers: which rows of a value are new in each tile, and which are written out by which."""

from collections.abc import Collection
from itertools import accumulate, pairwise

from tilewright.geometry.interval import Interval


def fresh_part(
    have: tuple[Interval, ...], begins: Collection[int] = ()
) -> tuple[Interval, ...] | None:
    """Per tile, the rows no earlier tile computed; what is missing is kept from the tile before.
    Tiles in `begins` keep nothing: another core has the one before.

    None where the frontier would have to move backwards: rows are needed again that the tile
    before did not hold.
    """
    fresh: list[Interval] = []
    frontier = have[0].start
    held = have[0].start
    anew = False
    for position, need in enumerate(have):
        anew = anew or position in begins
        if need.empty:
            fresh.append(Interval(frontier, frontier))
            continue
        if anew:
            frontier, held, anew = need.start, need.start, False
        if need.start < held or need.stop < frontier:
            return None
        start = max(frontier, need.start)
        fresh.append(Interval(start, max(start, need.stop)))
        frontier, held = max(frontier, need.stop), need.start
    return tuple(fresh)


def written_part(need: tuple[Interval, ...], extent: int) -> tuple[Interval, ...]:
    """Per tile, the rows that no earlier tile wrote; the last tile completes the value."""
    stops = accumulate((interval.stop for interval in need[:-1]), max, initial=0)
    return tuple(Interval(*pair) for pair in pairwise((*stops, extent)))
