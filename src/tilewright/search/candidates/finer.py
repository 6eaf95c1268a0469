"""Cuts along one axis more: where all that fit along fewer are slower than some that are too large.
Then numbers of parts near the best."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from tilewright.search.candidates.estimates import Estimate
from tilewright.tiling.grid import Split, core_grid

Cut = tuple[tuple[Split, ...], int | None]
Estimated = Callable[[tuple[Split, ...], int | None, float], Estimate | None]
"""What a cut takes; None where there is no such cut, or where its copies alone take longer than so
many cycles."""


class Finer:
    """Further cuts of one group along some axes, by their extents, for so many bytes of each of
    some cores."""

    def __init__(
        self, estimated: Estimated, axes: Mapping[int, int], cores: int, limit: float
    ) -> None:
        self.estimated, self.axes, self.cores, self.limit = estimated, axes, cores, limit
        self.seen: dict[Cut, Estimate | None] = {}

    def cuts(self, known: Sequence[Estimate]) -> list[Estimate]:
        """Cuts that are faster than all known ones that fit; where none does, along as many axes as
        it takes, or the smallest there are."""
        known = [e for e in known if not e.replicated]
        fitting = [e for e in known if e.bytes <= self.limit]
        large = [e for e in known if e.bytes > self.limit]
        found, smaller = self._along_one_more(large, fitting)
        while smaller and not fitting and not found:
            large = smaller
            found, smaller = self._along_one_more(large, fitting)
        best = min([*fitting, *found], key=lambda e: e.order, default=None)
        return large if best is None else [*found, *self._nearby(best)]

    def _along_one_more(
        self, known: Sequence[Estimate], fitting: Sequence[Estimate]
    ) -> tuple[list[Estimate], list[Estimate]]:
        """Ever faster cuts along one axis more than those that are too large, and the finest of
        those that still are, one for each way to go through the axes."""
        most = min((e.cycles for e in fitting), default=inf)
        found: list[Estimate] = []
        finest: dict[Hashable, Estimate] = {}
        for large in sorted(known, key=lambda e: e.order):
            if large.cycles >= most:
                break
            for estimate in self._further(large):
                if estimate.bytes > self.limit:
                    way = tuple(split.axis for split in estimate.splits), estimate.core_split
                    finest[way] = min(finest.get(way, estimate), estimate, key=_bytes)
                elif estimate.cycles < most:
                    most = estimate.cycles
                    found.append(estimate)
        return found, list(finest.values())

    def _further(self, large: Estimate) -> Iterator[Estimate]:
        """A cut that is too large, cut along one more axis as each of the loops."""
        core_split = large.core_split
        for axis in self.axes:
            if any(split.axis == axis for split in large.splits):
                continue
            for place in range(len(large.splits) + 1):
                core = 0 if core_split is None else core_split + (place <= core_split)
                outer, inner = large.splits[:place], large.splits[place:]
                estimate = self._coarsest(outer, axis, inner, core)
                if estimate is not None:
                    yield estimate

    def _coarsest(
        self, outer: tuple[Split, ...], axis: int, inner: tuple[Split, ...], core_split: int
    ) -> Estimate | None:
        """An axis cut between others in as few parts as fit, or else in as many as there are."""
        rows, best = parts_of(self.axes[axis], 1), None
        low, high = 0, len(rows) - 1
        middle = high
        while low <= high:
            cut = (*outer, Split(axis, rows[middle]), *inner)
            estimate = self._estimate(cut, core_split, inf)
            if best is None and (estimate is None or estimate.bytes > self.limit):
                return estimate  # not even the finest fits
            if estimate is None or estimate.bytes > self.limit:
                low = middle + 1
            else:
                high, best = middle - 1, estimate
            middle = (low + high) // 2
        return best

    def _estimate(
        self, splits: tuple[Split, ...], core_split: int | None, most: float
    ) -> Estimate | None:
        key = splits, core_split
        if key not in self.seen:
            self.seen[key] = self.estimated(splits, core_split, most)
        return self.seen[key]

    def _nearby(self, best: Estimate) -> Iterator[Estimate]:
        """Ever better cuts with other numbers of parts, one axis or two at a time."""
        while True:
            better = best
            for splits in self._neighbours(best):
                estimate = self._estimate(splits, best.core_split, best.cycles)
                if estimate is not None and estimate.bytes <= self.limit:
                    better = min(better, estimate, key=lambda e: e.order)
            if better is best:
                return
            yield (best := better)

    def _neighbours(self, cut: Estimate) -> Iterator[tuple[Split, ...]]:
        grid = core_grid(cut.splits, cut.core_split, self.cores)
        steps: list[tuple[int | None, int | None]] = []
        for dim, split in enumerate(cut.splits):
            rows = parts_of(self.axes.get(split.axis, 1), grid.get(dim, 1))
            coarser = max((n for n in rows if n < split.parts), default=None)
            finer = min((n for n in rows if n > split.parts), default=None)
            steps.append((coarser, finer))
        for dim, (coarser, finer) in enumerate(steps):
            for parts in (coarser, finer):
                if parts is None:
                    continue
                moved = _with(cut.splits, dim, parts)
                if core_grid(moved, cut.core_split, self.cores) == grid:
                    yield moved
            if coarser is None:
                continue
            for other, (_, more) in enumerate(steps):
                if other != dim and more is not None:
                    moved = _with(_with(cut.splits, dim, coarser), other, more)
                    if core_grid(moved, cut.core_split, self.cores) == grid:
                        yield moved


def parts_of(extent: int, step: int) -> list[int]:
    """Multiples of a step that an axis can be cut in, each with smaller tiles than the one before;
    more than one part."""
    found: list[int] = []
    parts = step
    while parts <= extent:
        found.append(parts)
        size = -(-extent // parts)
        if size == 1:
            break
        fewest = -(-extent // (size - 1))  # that make tiles smaller than these
        parts = -(-fewest // step) * step
    return [parts for parts in found if parts > 1]


def _bytes(estimate: Estimate) -> int:
    return estimate.bytes


def _with(splits: tuple[Split, ...], dim: int, parts: int) -> tuple[Split, ...]:
    return (*splits[:dim], replace(splits[dim], parts=parts), *splits[dim + 1 :])
