"""Assess: everything that can be said about a nest without running it.

Parts of a nest that depend on few of its choices are worked out once and kept, so that a search can
look at many nests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from math import isfinite
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from tilewright.kernel.ledger import (
    NestLedger,
    input_buffers,
    psum_banks,
    result_buffers,
    weight_buffers,
)
from tilewright.kernel.nest import Nest
from tilewright.kernel.problem import KernelError, KernelProblem
from tilewright.kernel.rules import Violation, broken_hardware, broken_structure
from tilewright.kernel.space import TileSpace
from tilewright.kernel.target import CoreTarget
from tilewright.kernel.transfers import (
    OperandTransfers,
    bias_transfers,
    input_transfers,
    result_transfers,
    weight_transfers,
)
from tilewright.kernel.work import (
    TENSOR,
    Instructions,
    copy_work,
    finishing_steps,
    finishing_work,
    product_work,
    step_seconds,
    weight_work,
)

ENGINE_ORDER = (TENSOR, "vector", "scalar", "gpsimd", "dma")
SHORT_RUN = 512  # bytes: below, a queue spends more time on packets than on bytes
_TILES = ("tile_in", "tile_out", "tile_rows", "tile_cols", "block_rows")
_Result = TypeVar("_Result")
_Part = Callable[[TileSpace, Nest, CoreTarget], _Result]


@lru_cache(maxsize=64)
def _values(chosen: tuple[str, ...]) -> Callable[[Nest], Any]:
    """What a nest has chosen in some fields."""
    return attrgetter(*chosen)


class Lint(NamedTuple):
    """A remark that is no error: what is slow, and what helps."""

    operand: str
    text: str


@dataclass(frozen=True)
class Assessment:
    """A nest, costed. Times are seconds; `low` is the time if a compiler removes every load that
    SBUF could have kept, `high` the nest as it is written."""

    problem: KernelProblem
    nest: Nest
    target: CoreTarget
    violations: tuple[Violation, ...]
    ledger: NestLedger
    transfers: tuple[OperandTransfers, ...]
    work: tuple[Instructions, ...]
    engines: tuple[tuple[str, float], ...]
    seconds: float
    low: float
    high: float
    lints: tuple[Lint, ...]

    @property
    def legal(self) -> bool:
        """Whether no rule is broken."""
        return not self.violations

    @property
    def ranked(self) -> tuple[tuple[str, float], ...]:
        """Engines, the busiest first."""
        return tuple(sorted(self.engines, key=lambda item: -item[1]))

    @property
    def binding(self) -> str:
        """The engine that takes longest."""
        return self.ranked[0][0]

    @property
    def dma_count(self) -> int:
        """All DMAs."""
        return sum(transfers.count for transfers in self.transfers)

    @property
    def dma_bytes(self) -> int:
        """All bytes that DMAs move."""
        return sum(transfers.bytes for transfers in self.transfers)

    @property
    def steps(self) -> int:
        """DMAs and instructions: what walking through the loops takes."""
        return self.dma_count + sum(work.count for work in self.work)

    @property
    def floor(self) -> float:
        """What the tensor engine needs for the multiply-accumulates in the operands' type."""
        return self.target.floor_seconds(self.problem.macs, self.nest.compute)

    def count(self, what: str) -> int:
        """How many instructions of a kind there are."""
        return sum(work.count for work in self.work if work.what == what)


class NestModel:
    """Assesses nests of one problem on one target."""

    def __init__(self, problem: KernelProblem, target: CoreTarget) -> None:
        self.problem = problem
        self.target = target
        self._known: dict[tuple[Any, ...], Any] = {}

    def violations(self, nest: Nest) -> tuple[Violation, ...]:
        """The rules that a nest breaks."""
        key = ("structure", _values(_STRUCTURE)(nest))
        structure = self._kept(key, lambda: broken_structure(nest))
        if structure:
            return tuple(structure)
        space = self._space(nest)
        ledger = self._ledger(nest, space)
        return tuple(broken_hardware(space, nest, self.target, ledger))

    def literal_seconds(self, nest: Nest) -> float:
        """The time of a legal nest as it is written: what a search compares."""
        space = self._space(nest)
        return self._times(nest, space)[3]

    def sizes(self, nest: Nest) -> tuple[int, int, int, int]:
        """Bytes moved, products, DMAs, and bytes of a partition that a nest holds."""
        space = self._space(nest)
        transfers = self._transfers(nest, space)
        products = sum(work.count for work in self._work(nest, space)[0])
        moved, count = sum(part.bytes for part in transfers), sum(part.count for part in transfers)
        return moved, products, count, self._ledger(nest, space).sbuf_bytes

    def assess(self, nest: Nest) -> Assessment:
        """All there is to say. A nest whose loops are no loops cannot be assessed."""
        structure = broken_structure(nest)
        if structure:
            first = structure[0]
            raise KernelError(f"nest '{nest.name}' breaks the rule {first.rule}: {first.text}")
        space = self._space(nest)
        ledger = self._ledger(nest, space)
        violations = broken_hardware(space, nest, self.target, ledger)
        if nest.compute not in self.target.passes:
            raise KernelError(violations[0].text)
        transfers = self._transfers(nest, space)
        engines, low, seconds, high = self._times(nest, space)
        return Assessment(
            self.problem,
            nest,
            self.target,
            tuple(violations),
            ledger,
            transfers,
            tuple(work for part in self._work(nest, space) for work in part),
            engines,
            seconds,
            low,
            high,
            tuple(_lints(self.target, transfers, engines)),
        )

    def _space(self, nest: Nest) -> TileSpace:
        key = ("space", _values(_TILES)(nest))
        return self._kept(key, lambda: TileSpace.of(self.problem, nest))

    def _kept(self, key: tuple[Any, ...], make: Callable[[], _Result]) -> _Result:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = make()
        return found

    def _part(self, make: _Part[_Result], nest: Nest, space: TileSpace) -> _Result:
        """A part of the assessment: the same for nests that agree in what it depends on."""
        key = (make, _values(_CHOSEN[make])(nest))
        return self._kept(key, lambda: make(space, nest, self.target))

    def _ledger(self, nest: Nest, space: TileSpace) -> NestLedger:
        makers = (input_buffers, weight_buffers, result_buffers)
        held = (self._part(make, nest, space) for make in makers)
        banks = self._part(psum_banks, nest, space)
        return NestLedger(tuple(buffer for part in held for buffer in part), tuple(banks))

    def _transfers(self, nest: Nest, space: TileSpace) -> tuple[OperandTransfers, ...]:
        makers = [input_transfers, weight_transfers, result_transfers]
        makers += [bias_transfers] if self.problem.bias else []
        return tuple(self._part(make, nest, space) for make in makers)

    def _work(self, nest: Nest, space: TileSpace) -> tuple[list[Instructions], ...]:
        makers = (product_work, copy_work, weight_work, finishing_work)
        return tuple(self._part(make, nest, space) for make in makers)

    def _dma(self, nest: Nest, space: TileSpace) -> tuple[float, float, dict[str, float]]:
        """The queues' time: at least (removable loads removed), as written, and by operand."""
        low = high = 0.0
        each: dict[str, float] = {}
        free = self.target.sbuf_bytes
        for transfers in self._transfers(nest, space):
            seconds = self._kept(("seconds", transfers), partial(self._seconds, transfers))
            each[transfers.operand] = seconds
            high += seconds
            kept = transfers.repeats > 1 and transfers.kept_bytes <= free
            low += seconds / transfers.repeats if kept else seconds
        return low, high, each

    def _seconds(self, transfers: OperandTransfers) -> float:
        return sum(self.target.dma_seconds(*kind) for kind in transfers.kinds)

    def _times(
        self, nest: Nest, space: TileSpace
    ) -> tuple[tuple[tuple[str, float], ...], float, float, float]:
        """Busy times of the engines, and the kernel's time: with all removable loads removed, with
        the share left that compilers leave, and as written."""
        busy: dict[str, float] = dict.fromkeys(ENGINE_ORDER, 0.0)
        finishing = 0.0
        parts = self._work(nest, space)
        for part in parts:
            for work in part:
                busy[work.engine] += work.seconds
        if nest.psum_buffers < 2:
            finishing = sum(work.seconds for work in parts[3])
        low, high, each = self._dma(nest, space)
        waits = finishing
        waits += each["x"] if nest.x_buffers < 2 and nest.around(nest.x_at) else 0.0
        waits += each["w"] if nest.w_buffers < 2 and nest.around(nest.w_at) else 0.0
        waits += each["out"] if nest.out_buffers < 2 else 0.0
        busy[TENSOR] += waits
        key = ("ends", _values(_ENDS)(nest))
        around, beside = self._kept(key, lambda: self._ends(nest, space))
        rest = around + max(busy.values())
        busy["dma"] = high
        likely = low + self.target.fitted["kept_share"] * (high - low)
        low, likely, high = (max(rest, beside + dma) for dma in (low, likely, high))
        return tuple(busy.items()), low, likely, high

    def _ends(self, nest: Nest, space: TileSpace) -> tuple[float, float]:
        """What is not overlapped: beside the work of the engines, and beside that of the queues.
        Engines wait for the first loads, and the kernel for the last store; queues wait for the
        last tile to be computed. Launch and tail come on top of both."""
        target, fitted = self.target, self.target.fitted
        always = fitted["launch"] + fitted["tail"] + 2 * target.dma_latency
        moved = 0.0
        for transfers in self._transfers(nest, space):
            _, runs, size = max(transfers.kinds, key=lambda kind: kind[1] * kind[2])
            moved += runs * target.run_seconds(size) / target.queues
        tile = max(rows * cols for rows, cols in space.tile_shapes)
        finishing = sum(
            step_seconds(step, target.vectors[step.engine])
            for step in finishing_steps(self.problem, nest, tile)
        )
        products = space.in_sizes.total() * self.problem.taps
        last = products * target.matmul_seconds(tile, nest.compute)
        return always + moved + finishing, always + last + finishing


# The choices that each part of an assessment depends on.
_LOOPS = (*_TILES, "order")
_CHOSEN: Mapping[Callable[..., Any], tuple[str, ...]] = {
    input_buffers: (*_LOOPS, "x_at", "x_copy_at", "compute", "x_buffers"),
    weight_buffers: (*_LOOPS, "w_at", "w_cast_at", "w_transpose_at", "compute", "w_buffers"),
    result_buffers: (*_LOOPS, "store", "bias", "pool_first", "flush_at", "out_buffers", "psum"),
    psum_banks: (*_LOOPS, "psum", "psum_buffers", "flush_at", "w_transpose_at"),
    input_transfers: (*_LOOPS, "x_at"),
    weight_transfers: (*_LOOPS, "w_at"),
    result_transfers: (*_TILES, "store"),
    bias_transfers: _TILES,
    product_work: (*_TILES, "compute"),
    copy_work: (*_LOOPS, "x_at", "x_copy_at", "compute", "x_copy_engine"),
    weight_work: (*_LOOPS, "w_cast_at", "w_transpose_at", "compute", "w_engine"),
    finishing_work: (*_LOOPS, "flush_at", "flush_engine", "bias", "pool_first", "psum"),
}
_STRUCTURE = (
    *("order", "tile_in", "tile_out", "tile_rows", "tile_cols", "block_rows", "x_at", "x_copy_at"),
    *("w_at", "w_cast_at", "w_transpose_at", "flush_at", "bias", "store", "compute", "psum"),
    *("x_buffers", "w_buffers", "out_buffers", "psum_buffers"),
    *("x_copy_engine", "w_engine", "flush_engine"),
)
_ENDS = (
    *_LOOPS,
    *("x_at", "w_at", "store", "compute", "bias", "pool_first", "psum", "flush_at"),
)


def _lints(
    target: CoreTarget,
    transfers: tuple[OperandTransfers, ...],
    engines: tuple[tuple[str, float], ...],
) -> list[Lint]:
    found: list[Lint] = []
    total = dict(engines)["dma"]
    for each in transfers:
        if each.operand == "bias" or each.run_bytes >= SHORT_RUN:
            continue
        seconds = sum(target.dma_seconds(*kind) for kind in each.kinds)
        share = seconds / total if total else 0.0
        rate = each.run_bytes / target.run_seconds(each.run_bytes) * target.queues
        found.append(
            Lint(
                each.operand,
                f"runs of {each.run_bytes} B move at {rate / 1e9:.0f} GB/s of "
                f"{target.queue_rate * target.queues / 1e9:.0f}; they are {share:.0%} of the "
                "queues' time. Load whole rows or whole filters: runs of 2 KiB and more "
                f"({_step(target)})",
            )
        )
    return found


def _step(target: CoreTarget) -> str:
    """Where the time of a run jumps, and by how much."""
    beat = int(target.fitted["beat_bytes"])
    short, longer = (target.run_seconds(size) * 1e9 for size in (beat, beat + 1))
    return (
        f"a queue takes {short:.0f} ns for a run of up to {beat} B, an element of a gather, and "
        f"{longer:.0f} ns for a longer one, a packet; that the step is there is an estimate"
    )


def floor_check(problem: KernelProblem, target: CoreTarget, compute: str, seconds: float) -> None:
    """Raise where a claimed time is below what the tensor engine needs for such operands."""
    if not isfinite(seconds):
        raise KernelError(f"a claimed time of {seconds} is none")
    floor = target.floor_seconds(problem.macs, compute)
    if seconds < floor:
        raise KernelError(
            f"{seconds * 1e6:.4g} us cannot be: {compute} operands need at least "
            f"{floor * 1e6:.4g} us on the tensor engine of {target.name}"
        )
