"""The ladder: the published rungs as nests, for any problem, and what was measured of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from tilewright.kernel.assess import Assessment, NestModel
from tilewright.kernel.nest import KERNEL, LOOPS, Nest
from tilewright.kernel.problem import KernelError, KernelProblem
from tilewright.kernel.target import CoreTarget

MEASURED_ON = "trn2"  # the machine of ladder.yaml


def fitting_tile(problem: KernelProblem, target: CoreTarget) -> tuple[int, int]:
    """Rows and columns of the largest tile of whole rows that one product moves, in multiples of
    the pool; part of a row where a row is too long."""
    most, pool = target.moving, problem.pool
    if problem.cols * pool <= most:
        rows = most // problem.cols // pool * pool
        return min(rows, problem.rows), problem.cols
    cols = most // pool // pool * pool
    if cols < 1:
        raise KernelError(f"a pool of {pool} is too large: no tile holds {pool}x{pool} positions")
    return pool, cols


def is_small(problem: KernelProblem, target: CoreTarget) -> bool:
    """Whether a whole image is one tile."""
    return fitting_tile(problem, target) == (problem.rows, problem.cols)


def _start(problem: KernelProblem, target: CoreTarget, name: str) -> Nest:
    """What all rungs share: the largest tile, and a block that is one tile."""
    rows, cols = fitting_tile(problem, target)
    return Nest(
        name,
        LOOPS,
        min(target.stationary[0], problem.in_channels),
        min(target.stationary[1], problem.out_channels),
        rows,
        cols,
        rows,
        compute=problem.dtype,
        psum=problem.dtype,
        pool_first=problem.pool > 1,
    )


def baseline(problem: KernelProblem, target: CoreTarget) -> Nest:
    """Input and weights loaded anew for every filter position; PSUM in the input's type."""
    start = _start(problem, target, "baseline")
    return replace(start, x_at="fw", w_at="fw", w_transpose_at="fw", bias="tensor_scalar")


def input_hoisted(problem: KernelProblem, target: CoreTarget) -> Nest:
    """One block of the input with its halo for all filter positions, sliced by copies."""
    start = baseline(problem, target)
    return replace(start, name="input hoisted", x_at="in", x_copy_at="fw")


def weights_hoisted(problem: KernelProblem, target: CoreTarget) -> Nest:
    """All filter positions of the weights in one block; PSUM and operands in fp32."""
    start = input_hoisted(problem, target)
    return replace(
        start,
        name="weights hoisted",
        w_at="in",
        w_cast_at=None if problem.dtype == "fp32" else "fw",
        compute="fp32",
        psum="fp32",
        bias="tensor_tensor",
    )


def weights_flattened(problem: KernelProblem, target: CoreTarget) -> Nest:
    """Weights of an output tile transposed once; the input cast once for a block."""
    start = replace(weights_hoisted(problem, target), name="weights flattened", x_copy_at="in")
    return replace(start, w_at="out", w_cast_at=None, w_transpose_at="out")


def final(problem: KernelProblem, target: CoreTarget) -> Nest:
    """All weights transposed once and kept; operands in their own type; no copies of the input."""
    start = replace(weights_hoisted(problem, target), name="final", x_copy_at=None)
    start = replace(start, w_at=KERNEL, w_cast_at=None, w_transpose_at=KERNEL)
    return replace(start, compute=problem.dtype)


def small_images(problem: KernelProblem, target: CoreTarget) -> Nest:
    """A block is the whole image: one load of it (for a tile of channels), one accumulation."""
    return replace(final(problem, target), name="small images", x_at="image")


Rung = Callable[[KernelProblem, CoreTarget], Nest]
RUNGS: dict[str, Rung] = {
    "baseline": baseline,
    "input hoisted": input_hoisted,
    "weights hoisted": weights_hoisted,
    "weights flattened": weights_flattened,
    "final": final,
    "small images": small_images,
}


def rung_names(problem: KernelProblem, target: CoreTarget) -> tuple[str, ...]:
    """The rungs that make sense for a problem, slowest first."""
    if is_small(problem, target):
        return "baseline", "input hoisted", "small images"
    names = ("baseline", "input hoisted", "weights hoisted")
    return (*names, *(("weights flattened",) if problem.dtype != "fp32" else ()), "final")


def last_rung(problem: KernelProblem, target: CoreTarget) -> Nest:
    """The best nest that the ladder has for a problem."""
    return RUNGS[rung_names(problem, target)[-1]](problem, target)


@dataclass(frozen=True, slots=True)
class MeasuredKernel:
    """A measured kernel: microseconds from `low` to `high` (equal where one figure was given)."""

    rung: str
    problem: KernelProblem
    low: float
    high: float
    about: bool
    fit: bool

    @property
    def us(self) -> float | list[float]:
        """One figure, or the range."""
        return self.low if self.low == self.high else [self.low, self.high]


@dataclass(frozen=True, slots=True)
class LadderRow:
    """A rung, assessed, beside what was measured."""

    rung: str
    assessment: Assessment
    measured: MeasuredKernel | None

    @property
    def error(self) -> float | None:
        """Modelled over measured, less one; nought inside a measured range."""
        if self.measured is None:
            return None
        us = self.assessment.seconds * 1e6
        return us / min(max(us, self.measured.low), self.measured.high) - 1


@lru_cache(maxsize=1)
def measured_kernels() -> tuple[MeasuredKernel, ...]:
    """What was published."""
    text = (files("tilewright.kernel") / "ladder.yaml").read_text(encoding="utf-8")
    tree: dict[str, Any] = yaml.safe_load(text)
    same = tree["problem"]
    found: list[MeasuredKernel] = []
    for row in tree["rows"]:
        height, width = map(int, row["image"].split("x"))
        problem = KernelProblem(
            same["in_channels"],
            height,
            width,
            same["out_channels"],
            (same["kernel"], same["kernel"]),
            same["batch"],
            row["pool"],
            row["dtype"],
        )
        low, high = row["us"] if isinstance(row["us"], list) else (row["us"], row["us"])
        measured = MeasuredKernel(
            row["rung"], problem, low, high, row.get("about", False), row.get("fit", False)
        )
        found.append(measured)
    return tuple(found)


def ladder(problem: KernelProblem, target: CoreTarget) -> tuple[LadderRow, ...]:
    """All rungs of a problem. Those of a problem of the published ladder, on its machine, are the
    whole of it: both types, with and without pool, large and small images."""
    published = measured_kernels()
    measured_here = target.name == MEASURED_ON
    if measured_here and any(_alike(problem, row.problem) for row in published):
        return tuple(_row(row.rung, row.problem, target, row) for row in published)
    return tuple(_row(name, problem, target, None) for name in rung_names(problem, target))


def _alike(problem: KernelProblem, other: KernelProblem) -> bool:
    return replace(problem, pool=1, dtype="") == replace(other, pool=1, dtype="")


def _row(
    name: str, problem: KernelProblem, target: CoreTarget, measured: MeasuredKernel | None
) -> LadderRow:
    return LadderRow(
        name, NestModel(problem, target).assess(RUNGS[name](problem, target)), measured
    )
