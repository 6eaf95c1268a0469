"""How many parts each of several unlike cores gets, so that the last is done as soon as can be."""

from collections.abc import Sequence
from math import gcd

from tilewright.tiling.grid import Shares


def soonest(parts: int, times: Sequence[float]) -> list[int]:
    """Parts by core, given what a part takes on each: no other way to deal them ends sooner. What
    all of them could do in the same time is whole parts for each; the others go one by one to
    where they are done first."""
    common = parts / sum([1 / time for time in times])
    counts = [int(common / time) for time in times]
    for _ in range(parts - sum(counts)):
        first = min(range(len(times)), key=lambda core: (counts[core] + 1) * times[core])
        counts[first] += 1
    return counts


def shares_of(counts: Shares) -> Shares:
    """Counts in the smallest numbers of their proportion; none where all are equal."""
    common = gcd(*counts)
    found = tuple([count // common for count in counts])
    return found if len(set(found)) > 1 else ()
