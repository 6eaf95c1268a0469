"""Runs a nest in numpy, loop for loop, counting every transfer and instruction as it happens.

Numbers are held in float32 and rounded to their element type wherever they are written. Tiles are
full of NaN until something is put into them. Runs are counted from the strides of what is copied,
not from the loops: the ledger has to agree.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np

from tilewright.graph.graph import Array
from tilewright.graph.kernels import run_step
from tilewright.kernel.assess import Assessment
from tilewright.kernel.nest import Nest
from tilewright.kernel.problem import KernelError, KernelProblem, element_size
from tilewright.kernel.walk import Key, Span, Walk


@dataclass
class Counts:
    """What happened: DMAs by (operand, runs, bytes of a run), instructions by name, and the most
    accumulators that were live in PSUM."""

    dmas: Counter[tuple[str, int, int]] = field(default_factory=Counter[tuple[str, int, int]])
    instructions: Counter[str] = field(default_factory=Counter[str])
    psum_tiles: int = 0

    @property
    def dma_count(self) -> int:
        """All DMAs."""
        return self.dmas.total()

    @property
    def dma_bytes(self) -> int:
        """All bytes that were moved."""
        return sum(n * runs * size for (_, runs, size), n in self.dmas.items())


@dataclass(frozen=True, slots=True)
class Tensors:
    """The arrays of a problem, in float32."""

    x: Array
    weights: Array
    bias: Array | None


class ExecutedNest(NamedTuple):
    """A run: its result, what was counted, and the largest difference from the reference, as a
    share of the largest number."""

    result: Array
    counts: Counts
    difference: float
    tolerance: float


def rounded(array: Array, dtype: str) -> Array:
    """Numbers as an element type holds them, in float32."""
    if dtype == "fp16":
        return array.astype(np.float16).astype(np.float32)
    if dtype == "bf16":
        bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
        nearest = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(
            0xFFFF0000
        )
        return nearest.view(np.float32)
    return array.astype(np.float32)


def seeded_tensors(problem: KernelProblem, seed: int = 0) -> Tensors:
    """Numbers for a problem: the same for a seed."""
    generator = np.random.default_rng(seed)

    def numbers(*shape: int, scale: float = 1.0) -> Array:
        drawn = generator.standard_normal(shape, dtype=np.float32) * np.float32(scale)
        return rounded(drawn, problem.dtype)

    depth = problem.in_channels * problem.taps
    return Tensors(
        numbers(problem.batch, problem.in_channels, problem.height, problem.width),
        numbers(problem.out_channels, problem.in_channels, *problem.kernel, scale=depth**-0.5),
        numbers(problem.out_channels) if problem.bias else None,
    )


def reference(problem: KernelProblem, tensors: Tensors) -> Array:
    """The result by whole operators."""
    pads = tuple(problem.pads)
    given = (tensors.x, tensors.weights, tensors.bias)
    (result,) = run_step("Conv", {"pads": pads, "strides": problem.strides}, given, 13)
    if problem.relu:
        result = np.maximum(result, 0)
    if problem.pool > 1:
        window = (problem.pool, problem.pool)
        (result,) = run_step("MaxPool", {"kernel_shape": window, "strides": window}, (result,), 13)
    return result


def execute(assessment: Assessment, tensors: Tensors | None = None, seed: int = 0) -> ExecutedNest:
    """Run a nest and compare with the reference; raise where results or counts differ."""
    problem, nest = assessment.problem, assessment.nest
    if not assessment.legal:
        first = assessment.violations[0]
        raise KernelError(f"nest '{nest.name}' breaks the rule {first.rule}: {first.text}")
    tensors = tensors or seeded_tensors(problem, seed)
    machine = _Run(problem, nest, tensors)
    machine.run()
    difference_in_counts = count_difference(assessment, machine.counts)
    if difference_in_counts:
        raise KernelError(
            f"nest '{nest.name}': executed and counted differ: {difference_in_counts}"
        )
    expected = reference(problem, tensors)
    scale = float(np.abs(expected).max(initial=0.0)) or 1.0
    difference = float(np.abs(machine.result - expected).max(initial=0.0)) / scale
    limit = tolerance(problem, nest)
    if not difference <= limit:
        raise KernelError(
            f"nest '{nest.name}' computes other numbers: they differ by {difference:.2e} of the "
            f"largest, {limit:.0e} is allowed"
        )
    return ExecutedNest(machine.result, machine.counts, difference, limit)


def count(problem: KernelProblem, nest: Nest) -> Counts:
    """Walk through the loops without numbers."""
    empty = Tensors(
        np.empty((problem.batch, problem.in_channels, problem.height, problem.width), np.float32),
        np.empty((problem.out_channels, problem.in_channels, *problem.kernel), np.float32),
        np.empty(problem.out_channels, np.float32) if problem.bias else None,
    )
    machine = _Run(problem, nest, empty, numbers=False)
    machine.run()
    return machine.counts


def tolerance(problem: KernelProblem, nest: Nest) -> float:
    """The difference that rounding may make: of the written type, and of accumulators that are
    rounded after every product."""
    unit = {"fp32": 2e-6, "fp16": 1e-3, "bf16": 8e-3}
    sums = 1 + problem.taps * -(-problem.in_channels // nest.tile_in)
    return max(unit[problem.dtype] * 2, unit[nest.psum] * sums, 1e-5)


def count_difference(assessment: Assessment, counts: Counts) -> str:
    """What was counted otherwise than the ledger says; empty where all agrees."""
    for transfers in assessment.transfers:
        said = Counter({(runs, size): n for n, runs, size in transfers.kinds})
        seen = Counter(
            {(r, s): n for (name, r, s), n in counts.dmas.items() if name == transfers.operand}
        )
        if said != seen:
            return f"DMAs of {transfers.operand}: {dict(seen)} instead of {dict(said)}"
    said_work: Counter[str] = Counter()
    for work in assessment.work:
        said_work[work.what] += work.count
    for what in sorted({*said_work, *counts.instructions}):
        if said_work[what] != counts.instructions[what]:
            return f"{what}: {counts.instructions[what]} instead of {said_work[what]}"
    banks = next(held for held in assessment.ledger.banks if held.name == "accumulators")
    if counts.psum_tiles > banks.bytes:
        return f"{counts.psum_tiles} accumulators live in PSUM instead of {banks.bytes}"
    return ""


def contiguous_run(source: Array, target: Array) -> int:
    """Elements that lie one after the other in both arrays, within one partition (axis 0)."""
    run = 1
    for axis in range(source.ndim - 1, 0, -1):
        if source.shape[axis] == 1:
            continue
        step = run * source.itemsize
        if source.strides[axis] != step or target.strides[axis] != run * target.itemsize:
            return run
        run *= source.shape[axis]
    return run


class _Held(NamedTuple):
    """A tile of the input, or of weights: its numbers, and the row and column of the input, or of
    the filter, of the first of them."""

    data: Array
    row: int
    col: int


class _Run(Walk):
    """The state of a run: what is in SBUF and PSUM."""

    def __init__(
        self, problem: KernelProblem, nest: Nest, tensors: Tensors, *, numbers: bool = True
    ) -> None:
        super().__init__(problem, nest)
        self.tensors, self.numbers = tensors, numbers
        self.counts = Counts()
        self.result = np.full(problem.result_shape, np.nan, dtype=np.float32)
        self.windows: dict[tuple[int, int], _Held] = {}
        self.copies: dict[tuple[int, int], _Held] = {}
        self.raw: dict[tuple[int, int], _Held] = {}
        self.cast: dict[tuple[int, int], _Held] = {}
        self.stationary: dict[tuple[int, int, int, int], Array] = {}
        self.bias: dict[int, Array] = {}
        self.psum: dict[Key, Array] = {}
        self.sums: dict[Key, Array] = {}
        self.finished: dict[tuple[int, int, int], dict[int, Array]] = {}

    # ---- transfers

    def _dma(self, operand: str, source: Array, target: Array) -> None:
        if source.size == 0:
            return
        run = contiguous_run(source, target)
        size = element_size(self.problem.dtype)
        self.counts.dmas[operand, source.size // run, run * size] += 1
        if self.numbers:
            target[...] = source

    def load_bias(self) -> None:
        assert self.tensors.bias is not None
        for number, (a, b) in enumerate(self.outs):
            tile = np.full((b - a, 1), np.nan, dtype=np.float32)
            self._dma("bias", self.tensors.bias[a:b, None], tile)
            self.bias[number] = tile

    def load_input(self) -> None:
        (top, bottom), (left, right) = self.extent(0), self.extent(1)
        rows, cols = slice(*self.inside(0)), slice(*self.inside(1))
        full = (bottom - top, right - left)
        self.windows.clear()
        for image, number in self.chosen_inputs():
            a, b = self.ins[number]
            data = np.full((b - a, *full), np.nan, dtype=np.float32)
            source = self.tensors.x[image, a:b, rows, cols]
            if source.shape[1:] != full:
                data[...] = 0
                self.counts.instructions["zero borders"] += 1
            high, wide = source.shape[1:]
            below, right_of = rows.start - top, cols.start - left
            self._dma("x", source, data[:, below : below + high, right_of : right_of + wide])
            self.windows[image, number] = _Held(data, top, left)

    def load_weights(self) -> None:
        high, wide = self.taps()
        self.raw.clear()
        for out, number in self.chosen_weights():
            (a, b), (c, d) = self.outs[out], self.ins[number]
            source = self.tensors.weights[a:b, c:d, high.start : high.stop, wide.start : wide.stop]
            tile = np.full(source.shape, np.nan, dtype=np.float32)
            self._dma("w", source, tile)
            self.raw[out, number] = _Held(tile, high.start, wide.start)

    # ---- instructions

    def copy_input(self) -> None:
        kind = "input slices" if self.problem.dtype == self.nest.compute else "input casts"
        rows, cols = self.extent(0), self.extent(1)
        self.copies.clear()
        for place in self.chosen_inputs():
            self.counts.instructions[kind] += 1
            part = _cut(self.windows[place], rows, cols)
            if self.numbers:
                part = rounded(part, self.nest.compute)
            self.copies[place] = _Held(part, rows[0], cols[0])

    def cast_weights(self) -> None:
        high, wide = self.taps()
        self.cast.clear()
        for place in self.chosen_weights():
            self.counts.instructions["weight casts"] += 1
            raw = self.raw[place]
            rows = slice(high.start - raw.row, high.stop - raw.row)
            part = raw.data[:, :, rows, wide.start - raw.col : wide.stop - raw.col]
            if self.numbers:
                part = rounded(part, self.nest.compute)
            self.cast[place] = _Held(part, high.start, wide.start)

    def transpose_weights(self) -> None:
        high, wide = self.taps()
        given = self.raw if self.nest.w_cast_at is None else self.cast
        self.stationary.clear()
        for out, number in self.chosen_weights():
            filters = given[out, number]
            for fh, fw in product(high, wide):
                self.counts.instructions["weight transposes"] += 1
                self.counts.instructions["transposed weights to SBUF"] += 1
                if self.numbers:
                    piece = filters.data[:, :, fh - filters.row, fw - filters.col]
                    turned = np.ascontiguousarray(piece.T)
                    self.stationary[out, number, fh, fw] = rounded(turned, self.nest.compute)

    def multiply(self) -> None:
        self.counts.instructions["products"] += 1
        key = self.key()
        fresh = key not in self.psum
        if fresh:
            self.psum[key] = np.empty(0, dtype=np.float32)
            self.counts.psum_tiles = max(self.counts.psum_tiles, len(self.psum))
        if not self.numbers:
            return
        image, out, _, _ = key
        source = self.windows if self.nest.x_copy_at is None else self.copies
        moving = _cut(source[image, self.at["in"]], self.extent(0), self.extent(1))
        moving = moving[:, :: self.problem.strides[0], :: self.problem.strides[1]]
        weights = self.stationary[out, self.at["in"], self.at["fh"], self.at["fw"]]
        made = weights.T @ moving.reshape(moving.shape[0], -1)
        total = made if fresh else self.psum[key] + made
        self.psum[key] = total if self.nest.psum == "fp32" else rounded(total, self.nest.psum)

    def flush(self) -> None:
        for key, tile in self.psum.items():
            self.counts.instructions["PSUM added up in SBUF"] += 1
            known = self.sums.get(key)
            self.sums[key] = tile if known is None else known + tile
        self.psum.clear()

    def finish(self) -> None:
        """Bias, ReLU and pool of all complete tiles, and the stores of what is complete."""
        source = self.psum if self.nest.flush_at is None else self.sums
        for key in sorted(source):
            image, out, block, row = key
            tile = self._finished_tile(key, source[key])
            if self.nest.store == "tile":
                self._store((image, out, block), {row: tile})
                continue
            done = self.finished.setdefault((image, out, block), {})
            done[row] = tile
            if len(done) == len(self.tiles(block)):
                self._store((image, out, block), self.finished.pop((image, out, block)))
        source.clear()

    def _finished_tile(self, key: Key, tile: Array) -> Array:
        problem, nest = self.problem, self.nest
        (high, wide), pool = self.tile_shape(key), problem.pool
        outs = self.outs[key[1]][1] - self.outs[key[1]][0]
        seen = self.counts.instructions
        if problem.bias:
            seen["bias"] += 1
        if problem.relu and (not problem.bias or nest.bias == "tensor_tensor"):
            seen["relu"] += 1
        if pool > 1:
            seen["max-pool"] += 1
        if not problem.bias and not problem.relu and pool == 1:
            seen["copy"] += 1
        if not self.numbers:
            return np.empty((outs, high // pool, wide // pool), dtype=np.float32)
        image = tile.reshape(outs, high, wide)
        if nest.pool_first:
            image = _pooled(image, pool)
        if problem.bias:
            image = image + self.bias[key[1]][:, :, None]
        if problem.relu:
            image = np.maximum(image, 0)
        if not nest.pool_first:
            image = _pooled(image, pool)
        return rounded(image, problem.dtype)

    def _store(self, place: tuple[int, int, int], tiles: dict[int, Array]) -> None:
        image, out, block = place
        spans, pool = self.tiles(block), self.problem.pool
        first, last = spans[min(tiles)][0] // pool, spans[max(tiles)][1] // pool
        left, right = (col // pool for col in self.blocks[block][1])
        whole = np.concatenate([tiles[row] for row in sorted(tiles)], axis=1)
        a, b = self.outs[out]
        self._dma("out", whole, self.result[image, a:b, first:last, left:right])


def _cut(window: _Held, rows: Span, cols: Span) -> Array:
    return window.data[
        :, rows[0] - window.row : rows[1] - window.row, cols[0] - window.col : cols[1] - window.col
    ]


def _pooled(image: Array, pool: int) -> Array:
    outs, high, wide = image.shape
    return image.reshape(outs, high // pool, pool, wide // pool, pool).max(axis=(2, 4))
