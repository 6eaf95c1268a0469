"""The shortest path between two memories: Dijkstra over what each hop costs."""

from collections.abc import Mapping, Set
from heapq import heappop, heappush
from typing import TypeVar

_H = TypeVar("_H")


def shortest_path(
    hops: Mapping[str, Mapping[str, tuple[float, _H]]],
    source: str,
    target: str,
    through: Set[str] | None,
) -> tuple[_H, ...] | None:
    """The hops of the least cost from source to target, or None. `hops` has the cost and the hop
    by where they start and end; `through` are the places a path may pass, None for all. Of paths
    of equal cost the one of fewer hops is taken, then the one whose hops are listed first."""
    number = 0  # of a path: those found earlier win ties, and hops are never compared
    waiting: list[tuple[float, int, int, str, tuple[_H, ...]]] = [(0.0, 0, number, source, ())]
    done: set[str] = set()
    while waiting:
        cost, length, _, place, path = heappop(waiting)
        if place == target:
            return path
        if place in done or (through is not None and place not in through):
            continue
        done.add(place)
        for after, (more, hop) in hops.get(place, {}).items():
            if after not in done:
                number += 1
                heappush(waiting, (cost + more, length + 1, number, after, (*path, hop)))
    return None
