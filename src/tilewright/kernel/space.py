"""Space: the iterations of a nest on a problem, counted and not walked through."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from tilewright.kernel.nest import Nest
from tilewright.kernel.problem import KernelProblem, parts

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows or columns of the input that a span of the result needs: with padding, and those that
    exist, which are loaded."""

    needed: int
    loaded: int


@dataclass(frozen=True)
class TileSpace:
    """The tiles of a problem. Equal for nests that differ in loops and places only."""

    problem: KernelProblem
    tile_in: int
    tile_out: int
    tile_rows: int
    tile_cols: int
    block_rows: int

    @classmethod
    def of(cls, problem: KernelProblem, nest: Nest) -> "TileSpace":
        """The tiles of a nest."""
        return cls(
            problem,
            nest.tile_in,
            nest.tile_out,
            nest.tile_rows,
            nest.tile_cols,
            nest.block_rows,
        )

    @cached_property
    def in_sizes(self) -> Counter[int]:
        """How many tiles of input channels there are of each size."""
        return Counter(b - a for a, b in parts(self.problem.in_channels, self.tile_in))

    @cached_property
    def out_sizes(self) -> Counter[int]:
        """How many tiles of output channels there are of each size."""
        return Counter(b - a for a, b in parts(self.problem.out_channels, self.tile_out))

    @cached_property
    def row_blocks(self) -> tuple[Span, ...]:
        """Rows of the blocks."""
        return parts(self.problem.rows, self.block_rows)

    @cached_property
    def row_tiles(self) -> tuple[Span, ...]:
        """Rows of all tiles, block after block."""
        return tuple(
            (start + a, start + b)
            for start, stop in self.row_blocks
            for a, b in parts(stop - start, self.tile_rows)
        )

    @cached_property
    def col_parts(self) -> tuple[Span, ...]:
        """Columns of blocks and tiles."""
        return parts(self.problem.cols, self.tile_cols)

    @cached_property
    def tiles_in_block(self) -> int:
        """Tiles of the largest block."""
        block = min(self.block_rows, self.problem.rows)
        return -(-block // self.tile_rows)

    @cached_property
    def tile_shapes(self) -> Counter[tuple[int, int]]:
        """How many tiles of one image and output tile have each number of rows and columns."""
        return _crossed(self.row_tiles, self.col_parts)

    @cached_property
    def block_shapes(self) -> Counter[tuple[int, int]]:
        """The same for blocks."""
        return _crossed(self.row_blocks, self.col_parts)

    def trips(self, loops: Collection[str]) -> int:
        """Iterations of loops over results, all together: rows run within blocks."""
        total = 1
        if "image" in loops:
            total *= self.problem.batch
        if "out" in loops:
            total *= self.out_sizes.total()
        if "row" in loops and "block" in loops:
            total *= len(self.row_tiles) * len(self.col_parts)
        elif "row" in loops:
            total *= self.tiles_in_block
        elif "block" in loops:
            total *= len(self.row_blocks) * len(self.col_parts)
        return total

    def input_rows(self, around: Collection[str]) -> Counter[Stretch]:
        """Rows of the input that what stands inside these loops needs."""
        spans = ((0, self.problem.rows),)
        if "block" in around:
            spans = self.row_tiles if "row" in around else self.row_blocks
        return self._kept(0, spans, "fh" in around)

    def input_cols(self, around: Collection[str]) -> Counter[Stretch]:
        """The same for columns."""
        spans = self.col_parts if "block" in around else ((0, self.problem.cols),)
        return self._kept(1, spans, "fw" in around)

    def _kept(self, axis: int, spans: tuple[Span, ...], single_tap: bool) -> Counter[Stretch]:
        key = (axis, len(spans), single_tap)  # of one axis, so many spans are always the same
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._stretches(axis, spans, single_tap)
        return found

    @cached_property
    def _known(self) -> dict[tuple[int, int, bool], Counter[Stretch]]:
        return {}

    def _stretches(self, axis: int, spans: tuple[Span, ...], single_tap: bool) -> Counter[Stretch]:
        taps = range(self.problem.kernel[axis]) if single_tap else (None,)
        extent = (self.problem.height, self.problem.width)[axis]
        found: Counter[Stretch] = Counter()
        for tap in taps:
            for span in spans:
                first, last = self.problem.reach(axis, span, tap)
                found[Stretch(last - first, max(0, min(last, extent) - max(first, 0)))] += 1
        return found


def _crossed(rows: tuple[Span, ...], cols: tuple[Span, ...]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    heights, widths = Counter(b - a for a, b in rows), Counter(b - a for a, b in cols)
    for height, many in heights.items():
        for width, times in widths.items():
            found[height, width] += many * times
    return found
