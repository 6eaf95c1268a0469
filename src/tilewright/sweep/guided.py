"""Guided search: generations of machines, bred from those on the front so far.

An elitist evolutionary method with non-dominated sorting and crowding, on the positions of axes.
What it asks for depends on the space, the seed and the results alone, never on which result came
first: a search that was killed goes on where it was.
"""

from collections.abc import Mapping, Sequence
from math import inf
from random import Random

Position = tuple[int, ...]
Scores = tuple[float, ...]


class Breeder:
    """Proposes positions within `sizes`, and learns what they scored (less is better; None: they
    are of no use)."""

    def __init__(self, sizes: Sequence[int], seed: int) -> None:
        self._sizes = tuple(sizes)
        self._random = Random(seed)
        self._asked: dict[Position, None] = {}
        self._scores: dict[Position, Scores] = {}

    def ask(self, count: int) -> list[Position]:
        """So many positions that were not asked for yet; fewer once they run out."""
        total = 1
        for size in self._sizes:
            total *= size
        found: list[Position] = []
        parents = self._ranked()[: 2 * max(4, count)]
        self._scores = {position: self._scores[position] for position in parents}  # the fittest
        misses = 0
        while len(found) < count and len(self._asked) < total:
            position = self._child(parents) if parents and misses < 50 else self._anywhere()
            if position in self._asked:
                misses += 1
                if misses > 200:  # hardly any are left: take them in order
                    position = self._first_left()
                else:
                    continue
            misses = 0
            self._asked[position] = None
            found.append(position)
        return found

    def tell(self, position: Position, scores: Scores | None) -> None:
        """What a position came to."""
        if scores is not None:
            self._scores[position] = scores

    def _anywhere(self) -> Position:
        return tuple(self._random.randrange(size) for size in self._sizes)

    def _first_left(self) -> Position:
        position = [0] * len(self._sizes)
        while tuple(position) in self._asked:
            for axis in reversed(range(len(position))):
                position[axis] += 1
                if position[axis] < self._sizes[axis]:
                    break
                position[axis] = 0
        return tuple(position)

    def _child(self, parents: Sequence[Position]) -> Position:
        """Each axis from one of two good parents, then a step or a jump along some."""
        pick = self._random
        first, second = (min(pick.sample(range(len(parents)), min(2, len(parents)))) for _ in "ab")
        genes = [pick.choice(pair) for pair in zip(parents[first], parents[second], strict=True)]
        for axis, size in enumerate(self._sizes):
            chance = pick.random()
            if chance < 1 / (2 * len(genes)):
                genes[axis] = pick.randrange(size)
            elif chance < 2 / len(genes):
                genes[axis] = min(size - 1, max(0, genes[axis] + pick.choice((-1, 1))))
        return tuple(genes)

    def _ranked(self) -> list[Position]:
        """Positions by front, then by how lonely they are on it."""
        left = dict(self._scores)
        ranked: list[Position] = []
        while left:
            front = non_dominated(left)
            lonely = _crowding({position: left[position] for position in front})
            ranked += sorted(front, key=lambda position: (-lonely[position], position))
            for position in front:
                del left[position]
        return ranked


def non_dominated(scores: Mapping[Position, Scores]) -> list[Position]:
    """Those that no other beats in one score without losing in another."""
    order = sorted(scores, key=lambda position: (scores[position], position))
    kept: list[Position] = []
    for position in order:  # whoever dominates it comes before it
        if not any(_dominates(scores[other], scores[position]) for other in kept):
            kept.append(position)
    return kept


def _dominates(one: Scores, other: Scores) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def _crowding(scores: Mapping[Position, Scores]) -> dict[Position, float]:
    """How far a position's neighbours on the front are apart; infinite at the ends."""
    lonely = dict.fromkeys(scores, 0.0)
    for axis in range(len(next(iter(scores.values()), ()))):
        order = sorted(scores, key=lambda position: (scores[position][axis], position))
        span = scores[order[-1]][axis] - scores[order[0]][axis]
        lonely[order[0]] = lonely[order[-1]] = inf
        if span > 0:
            for before, own, after in zip(order, order[1:], order[2:], strict=False):
                lonely[own] += (scores[after][axis] - scores[before][axis]) / span
    return lonely
