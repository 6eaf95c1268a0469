"""The ladder: the published rungs as nests, for any problem, and what was measured of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from tilewright.kernel.assess import Assessment, Model
from tilewright.kernel.nest import KERNEL, LOOPS, Nest
from tilewright.kernel.problem import KernelError, Problem
from tilewright.kernel.target import Target

MEASURED_ON = "trn2"  # the machine of ladder.yaml


def fitting_tile(problem: Problem, target: Target) -> tuple[int, int]:
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


def is_small(problem: Problem, target: Target) -> bool:
    """Whether a whole image is one tile."""
    return fitting_tile(problem, target) == (problem.rows, problem.cols)


def _start(problem: Problem, target: Target, name: str) -> Nest:
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


def baseline(problem: Problem, target: Target) -> Nest:
    """Input and weights loaded anew for every filter position; PSUM in the input's type."""
    start = _start(problem, target, "baseline")
    return replace(start, x_at="fw", w_at="fw", w_transpose_at="fw", bias="tensor_scalar")


def input_hoisted(problem: Problem, target: Target) -> Nest:
    """One block of the input with its halo for all filter positions, sliced by copies."""
    start = baseline(problem, target)
    return replace(start, name="input hoisted", x_at="in", x_copy_at="fw")


def weights_hoisted(problem: Problem, target: Target) -> Nest:
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


def weights_flattened(problem: Problem, target: Target) -> Nest:
    """Weights of an output tile transposed once; the input cast once for a block."""
    start = replace(weights_hoisted(problem, target), name="weights flattened", x_copy_at="in")
    return replace(start, w_at="out", w_cast_at=None, w_transpose_at="out")


def final(problem: Problem, target: Target) -> Nest:
    """All weights transposed once and kept; operands in their own type; no copies of the input."""
    start = replace(weights_hoisted(problem, target), name="final", x_copy_at=None)
    start = replace(start, w_at=KERNEL, w_cast_at=None, w_transpose_at=KERNEL)
    return replace(start, compute=problem.dtype)


def small_images(problem: Problem, target: Target) -> Nest:
    """A block is the whole image: one load of it (for a tile of channels), one accumulation."""
    return replace(final(problem, target), name="small images", x_at="image")


Rung = Callable[[Problem, Target], Nest]
RUNGS: dict[str, Rung] = {
    "baseline": baseline,
    "input hoisted": input_hoisted,
    "weights hoisted": weights_hoisted,
    "weights flattened": weights_flattened,
    "final": final,
    "small images": small_images,
}


def rung_names(problem: Problem, target: Target) -> tuple[str, ...]:
    """The rungs that make sense for a problem, slowest first."""
    if is_small(problem, target):
        return "baseline", "input hoisted", "small images"
    names = ("baseline", "input hoisted", "weights hoisted")
    return (*names, *(("weights flattened",) if problem.dtype != "fp32" else ()), "final")


def last_rung(problem: Problem, target: Target) -> Nest:
    """The best nest that the ladder has for a problem."""
    return RUNGS[rung_names(problem, target)[-1]](problem, target)


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured kernel: microseconds from `low` to `high` (equal where one figure was given)."""

    rung: str
    problem: Problem
    low: float
    high: float
    about: bool
    fit: bool

    @property
    def us(self) -> float | list[float]:
        """One figure, or the range."""
        return self.low if self.low == self.high else [self.low, self.high]


@dataclass(frozen=True, slots=True)
class Row:
    """A rung, assessed, beside what was measured."""

    rung: str
    assessment: Assessment
    measured: Measured | None

    @property
    def error(self) -> float | None:
        """Modelled over measured, less one; nought inside a measured range."""
        if self.measured is None:
            return None
        us = self.assessment.seconds * 1e6
        return us / min(max(us, self.measured.low), self.measured.high) - 1


@lru_cache(maxsize=1)
def measured_kernels() -> tuple[Measured, ...]:
    """What was published."""
    text = (files("tilewright.kernel") / "ladder.yaml").read_text(encoding="utf-8")
    tree: dict[str, Any] = yaml.safe_load(text)
    same = tree["problem"]
    found: list[Measured] = []
    for row in tree["rows"]:
        height, width = map(int, row["image"].split("x"))
        problem = Problem(
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
        measured = Measured(
            row["rung"], problem, low, high, row.get("about", False), row.get("fit", False)
        )
        found.append(measured)
    return tuple(found)


def ladder(problem: Problem, target: Target) -> tuple[Row, ...]:
    """All rungs of a problem. Those of a problem of the published ladder, on its machine, are the
    whole of it: both types, with and without pool, large and small images."""
    published = measured_kernels()
    measured_here = target.name == MEASURED_ON
    if measured_here and any(_alike(problem, row.problem) for row in published):
        return tuple(_row(row.rung, row.problem, target, row) for row in published)
    return tuple(_row(name, problem, target, None) for name in rung_names(problem, target))


def _alike(problem: Problem, other: Problem) -> bool:
    return replace(problem, pool=1, dtype="") == replace(other, pool=1, dtype="")


def _row(name: str, problem: Problem, target: Target, measured: Measured | None) -> Row:
    return Row(name, Model(problem, target).assess(RUNGS[name](problem, target)), measured)
