"""Prices of engines: what no engine undercuts for an operator, added up, bounds the time of all.

docs/bounds.md has the proof. Prices are of kinds of engines, of which all cost alike. Those within
a class are chosen once, for the network; the two classes share one in many ways.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from tilewright.search.bounds.floors import Takes

Floats = npt.NDArray[np.float64]

_MOST_PRICES = 129
_CLASSES = ("matrix", "vector")
_ROUNDS = 8  # in which every two kinds of a class find better prices


def class_times(
    floors: Sequence[Sequence[Takes]], classes: Sequence[str], counts: Sequence[int]
) -> tuple[Floats, Floats]:
    """What each operator takes of the time of all matrix engines, and of all vector engines, at
    prices of their kinds that add up to one; without end where a class cannot run it. `floors` are
    by operator, in one way to share it or several; `counts` are engines of each kind."""
    ways = max((len(rows) for rows in floors), default=1)
    padded = [[*rows, *(rows[0] for _ in range(ways - len(rows)))] for rows in floors]
    table = np.array(padded, np.float64).reshape(len(floors), ways, len(counts))
    table = table / np.array(counts, np.float64)
    parts = [table[:, :, [k for k, of in enumerate(classes) if of == kind]] for kind in _CLASSES]
    able = [np.isfinite(part).any(axis=(1, 2)) for part in parts]
    found: list[Floats] = []
    for part, other in zip(parts, reversed(able), strict=True):
        only = part[~other] if (~other).any() else part
        found.append(_least(part, _within(only)))
    picked = np.where(np.isfinite(found[0]), found[0], 0.0).argmax(axis=1)[:, None]
    matrix, vector = (np.take_along_axis(each, picked, axis=1)[:, 0] for each in found)
    return matrix, vector


def price_rows(matrix: Floats, vector: Floats) -> Floats:
    """What each node costs at prices of the two classes that add up to one, a row per price: first
    all for the matrix engines, then all for the vector engines. A node takes what is cheaper, so
    the sum of a row is a bound; the best row is one at which some node is indifferent."""
    both = np.isfinite(matrix) & np.isfinite(vector) & (matrix > 0) & (vector > 0)
    points = _some(np.unique(np.round(vector[both] / (matrix[both] + vector[both]), 12)))
    shares = np.array([1.0, 0.0, *points.tolist()])[:, None]
    rows = np.minimum(_scaled(shares, matrix), _scaled(1 - shares, vector))
    return np.where(np.isfinite(rows), rows, 0.0)


def _some(points: Floats) -> Floats:
    """Points, or as many of them as are tried, evenly chosen."""
    if len(points) <= _MOST_PRICES:
        return points
    return points[np.linspace(0, len(points) - 1, _MOST_PRICES).astype(int)]


def _scaled(shares: Floats, values: Floats) -> Floats:
    """Products in which what cannot run stays impossible even at price nothing."""
    finite = np.where(np.isfinite(values), values, 0.0)[None, :] * shares
    return np.where(np.isfinite(values)[None, :], finite, np.inf)


def _least(times: Floats, prices: Floats) -> Floats:
    """By operator and way, what the cheapest kind takes at its price."""
    finite = np.isfinite(times)
    priced = np.where(finite, np.where(finite, times, 0.0) * prices, np.inf)
    return priced.min(axis=2, initial=np.inf)


def _total(times: Floats, prices: Floats) -> float:
    """The bound of all operators, each shared in the way that proves most."""
    best = _least(times, prices).max(axis=1, initial=0.0)
    return float(best[np.isfinite(best)].sum())


def _within(times: Floats) -> Floats:
    """Prices of the kinds of a class, given what operators take in each way on each: as even as
    they are at first, then better for two of them as long as that proves more. The best are at
    points where some operator is indifferent."""
    kinds = times.shape[2]
    prices = np.full(kinds, 1.0 / max(1, kinds))
    best = _total(times, prices)
    for _ in range(_ROUNDS if kinds > 1 else 0):
        before = best
        for one, other in combinations(range(kinds), 2):
            for trial in _between(times, prices, one, other):
                total = _total(times, trial)
                if total > best:
                    prices, best = trial, total
        if best <= before:
            break
    return prices


def _between(times: Floats, prices: Floats, one: int, other: int) -> Iterator[Floats]:
    """The same prices with two of them shared otherwise, at which some operator is indifferent."""
    first, second = times[:, :, one].ravel(), times[:, :, other].ravel()
    both = np.isfinite(first) & np.isfinite(second) & (first > 0) & (second > 0)
    shares = _some(np.unique(np.round(second[both] / (first[both] + second[both]), 12)))
    for share in (0.0, *shares.tolist(), 1.0):
        trial, whole = prices.copy(), prices[one] + prices[other]
        trial[one], trial[other] = share * whole, (1 - share) * whole
        yield trial
