"""What a nest moves between the main memory and SBUF: counts, runs and bytes, from the loops.

A run is a stretch of bytes that is contiguous on both sides; a DMA is one transfer of a tile, with
as many runs as its partitions (and rows, where they are not contiguous) need.
"""

from collections import Counter
from dataclasses import dataclass

from tilewright.kernel.nest import Nest
from tilewright.kernel.problem import element_size
from tilewright.kernel.space import TileSpace
from tilewright.kernel.target import CoreTarget

Kinds = tuple[tuple[int, int, int], ...]  # DMAs, runs of each, bytes of a run


@dataclass(frozen=True, slots=True)
class OperandTransfers:
    """All DMAs of one operand. Each tile is moved `repeats` times; `kept_bytes` per partition would
    hold all of them at once."""

    operand: str
    kinds: Kinds
    repeats: int = 1
    kept_bytes: int = 0

    @property
    def count(self) -> int:
        """DMAs."""
        return sum(count for count, _, _ in self.kinds)

    @property
    def bytes(self) -> int:
        """Bytes moved."""
        return sum(count * runs * size for count, runs, size in self.kinds)

    @property
    def run_bytes(self) -> int:
        """Bytes of the usual run: that of most bytes."""
        usual = max(self.kinds, key=lambda kind: (kind[0] * kind[1] * kind[2], kind[2]))
        return usual[2]


def input_transfers(space: TileSpace, nest: Nest, target: CoreTarget) -> OperandTransfers:
    """Loads of the input: one DMA for an image and a tile of channels."""
    problem = space.problem
    around, size = nest.around(nest.x_at), element_size(problem.dtype)
    repeats = space.trips(["out"]) if "out" in around else 1
    kinds: Counter[tuple[int, int]] = Counter()
    kept = 0
    for row, many in space.input_rows(around).items():
        for col, times in space.input_cols(around).items():
            kept += many * times * row.needed * col.needed * size
            if not row.loaded or not col.loaded:
                continue  # nothing but padding
            whole = col.loaded == col.needed == problem.width
            for channels, tiles in space.in_sizes.items():
                runs, run = (1, row.loaded) if whole else (row.loaded, 1)
                kind = (channels * runs, run * col.loaded * size)
                kinds[kind] += many * times * tiles * problem.batch * repeats
    kept *= space.in_sizes.total() * problem.batch
    return OperandTransfers("x", _sorted(kinds), repeats, kept)


def weight_transfers(space: TileSpace, nest: Nest, target: CoreTarget) -> OperandTransfers:
    """Loads of weights: one DMA for a tile of output and of input channels."""
    problem = space.problem
    around, size = nest.around(nest.w_at), element_size(problem.dtype)
    repeats = space.trips([loop for loop in around if loop in ("image", "block", "row")])
    high, wide = problem.kernel
    tap_rows = 1 if "fh" in around else high
    tap_cols = 1 if "fw" in around else wide
    events = (high // tap_rows) * (wide // tap_cols)
    kinds: Counter[tuple[int, int]] = Counter()
    for outs, out_tiles in space.out_sizes.items():
        for ins, in_tiles in space.in_sizes.items():
            runs, run = weight_runs(ins, (tap_rows, tap_cols), problem.kernel)
            kinds[outs * runs, run * size] += events * out_tiles * in_tiles * repeats
    kept = space.out_sizes.total() * problem.in_channels * problem.taps * size
    return OperandTransfers("w", _sorted(kinds), repeats, kept)


def weight_runs(channels: int, taps: tuple[int, int], kernel: tuple[int, int]) -> tuple[int, int]:
    """Runs, and elements of each, of some filter positions of one output channel's filter."""
    if taps == kernel:
        return 1, channels * taps[0] * taps[1]
    if taps[1] == kernel[1]:
        return channels, taps[0] * taps[1]
    return channels * taps[0], taps[1]


def bias_transfers(space: TileSpace, nest: Nest, target: CoreTarget) -> OperandTransfers:
    """The bias: once, a DMA for a tile of output channels."""
    size = element_size(space.problem.dtype)
    kinds = Counter({(outs, size): tiles for outs, tiles in space.out_sizes.items()})
    return OperandTransfers("bias", _sorted(kinds))


def result_transfers(space: TileSpace, nest: Nest, target: CoreTarget) -> OperandTransfers:
    """Stores of the result: a DMA for a tile, or for a block."""
    problem = space.problem
    size, pool = element_size(problem.dtype), problem.pool
    shapes = space.block_shapes if nest.store == "block" else space.tile_shapes
    kinds: Counter[tuple[int, int]] = Counter()
    for (rows, cols), many in shapes.items():
        high, wide = rows // pool, cols // pool
        runs, run = (1, high * wide) if cols == problem.cols else (high, wide)
        for outs, tiles in space.out_sizes.items():
            kinds[outs * runs, run * size] += many * tiles * problem.batch
    return OperandTransfers("out", _sorted(kinds))


def _sorted(kinds: Counter[tuple[int, int]]) -> Kinds:
    return tuple((count, runs, size) for (runs, size), count in sorted(kinds.items()))
