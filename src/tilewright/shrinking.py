"""A model in less memory: chosen, written, verified in onnxruntime, measured; and how it is run."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from tilewright.errors import (
    BudgetError,
    ModelError,
    ShapeError,
    TilewrightError,
    VerificationError,
)
from tilewright.execute.arrays import read_npz, write_npz
from tilewright.execute.compare import Difference, compare
from tilewright.execute.runtime import run
from tilewright.files import check_arrays_file, check_writable, load_inputs, path_of, save_arrays
from tilewright.frontend.save import save_onnx
from tilewright.frontend.weights import seeded_inputs
from tilewright.graph.graph import Array, Graph
from tilewright.model import Model
from tilewright.shrink.choose import silent
from tilewright.shrink.measure import Measured, Verdict, run_in_child
from tilewright.shrink.measure import measure as measure_models
from tilewright.shrink.shrink import Shrunk, rewritten, shrink_graph
from tilewright.tables import Cell, Shown, Table
from tilewright.tiling.grid import letters_of
from tilewright.tiling.group import GroupTiles
from tilewright.units import format_bytes, format_time, number_of, parse_bytes
from tilewright.version import __version__

MEASURED_ROUNDS = 3  # so often a model that was measured above its budget is cut for less
TIGHTER = 0.97  # of what the measurement asks for
WITHIN = 0.2  # of the measured peak; a prediction that is farther off is said to be


@dataclass(frozen=True, slots=True, repr=False)
class ShrinkResult(Shown):
    """A model that fits the budget, verified; measured figures where they were asked for."""

    shrunk: Shrunk
    difference: Difference
    measured: Measured | None
    weights_seeded: bool
    budget: int | float | None = None  # bytes, a share, or as little as possible

    @property
    def verdict(self) -> Verdict | None:
        """What the measurement says about the budget, where there are both."""
        if self.measured is None or self.budget is None:
            return None
        return self.measured.verdict(self.budget)

    @property
    def over_budget(self) -> float | None:
        """How many times the budget was measured, where that is more than a measurement can be
        wrong by."""
        if self.verdict != "missed" or self.measured is None or self.budget is None:
            return None
        return self.measured.peak_bytes / max(1.0, self.measured.limit(self.budget))

    @property
    def missed(self) -> str | None:
        """That the measured peak is above the budget, with both figures, where it is."""
        if self.over_budget is None or self.measured is None or self.budget is None:
            return None
        return (
            f"the budget of {format_bytes(round(self.measured.limit(self.budget)))} is missed: "
            f"the measured peak of {format_bytes(self.measured.peak_bytes)} is "
            f"{self.over_budget:.2f} times as much, and no tighter cut that was tried measured less"
        )

    @property
    def original_peak_bytes(self) -> int:
        return self.shrunk.original.peak

    @property
    def predicted_peak_bytes(self) -> int:
        return self.shrunk.predicted.peak

    def save(self, path: str | Path) -> Path:
        check_writable(target := path_of(path))
        save_onnx(self.shrunk.graph, target, _metadata(self.shrunk, self.weights_seeded))
        return target

    def headline(self) -> list[str]:
        """What a person wants to know, most important first."""
        shrunk, measured = self.shrunk, self.measured
        share = shrunk.predicted.peak / max(1, shrunk.original.peak)
        lines = [
            f"peak memory (predicted): {format_bytes(shrunk.original.peak)} -> "
            f"{format_bytes(shrunk.predicted.peak)} ({share:.0%}); "
            f"{shrunk.recompute_ratio:.1%} recomputed; "
            f"weights take another {format_bytes(shrunk.graph.weight_bytes)}"
        ]
        if measured is not None:
            lines += [self._told(measured), *self._judged(measured)]
        lines.append(
            "same results: largest difference "
            f"{self.difference.max_rel_error:.1e} of the largest output"
        )
        return lines

    def _told(self, measured: Measured) -> str:
        share = measured.peak_bytes / max(1, measured.original_peak_bytes)
        runs, ends = len(measured.peaks), ""
        if runs > 1:
            ends = f"; {measured.share[0]:.0%} to {measured.share[1]:.0%} in {runs} runs"
        return (
            f"peak memory (measured):  {format_bytes(measured.original_peak_bytes)} -> "
            f"{format_bytes(measured.peak_bytes)} ({share:.0%}{ends}); "
            f"CPU time x{measured.cpu_ratio:.2f}"
        )

    def _judged(self, measured: Measured) -> Iterator[str]:
        pairs = (
            ("before", self.shrunk.original.peak, measured.original_peak_bytes),
            ("after", self.shrunk.predicted.peak, measured.peak_bytes),
        )
        off = [
            f"{abs(predicted / found - 1):.0%} too {'low' if predicted < found else 'high'} {when}"
            for when, predicted, found in pairs
            if abs(predicted - found) > max(measured.resolution, WITHIN * found)
        ]
        if off:
            yield f"the prediction does not hold for this model: it is {' and '.join(off)}"
        steps = f"such figures are right to {format_bytes(measured.resolution)} here"
        if self.budget is None:
            if measured.original_peak_bytes - measured.peak_bytes < measured.resolution:
                yield f"whether it needs less than before cannot be told by measuring: {steps}"
            return
        budget = f"the budget of {format_bytes(round(measured.limit(self.budget)))}"
        if self.verdict == "met":
            yield f"{budget} is met"
        elif self.missed is not None:
            yield self.missed
        else:
            low, high = map(format_bytes, measured.range)
            yield (
                f"whether {budget} is met cannot be told: runs took {low} to {high}, and {steps}"
            )

    def as_table(self) -> Table:
        """One row per group that was cut."""
        rows: list[tuple[Cell, ...]] = []
        for number, group in enumerate(self.shrunk.groups):
            names = " ".join(tiled.node.name for tiled in group.ops)
            cut = " ".join(f"{axis}={parts}" for axis, parts in named_cut(group).items())
            tiles = len(list(group.indices))
            rows.append((number, names, cut, tiles, group.recompute_ratio))
        columns = ("group", "nodes", "cut", "tiles", "recomputed")
        return Table("groups that were cut", columns, tuple(rows))


def named_cut(group: GroupTiles) -> dict[str, int]:
    """Into how many parts each axis of a group's result is cut, by the axis' letter or number."""
    rank = len(group.graph.types[next(iter(group.outputs))].shape)
    letters = letters_of(rank, group.signal)
    pairs = zip(group.splits, group.counts, strict=True)
    return {letters.get(split.axis, str(split.axis)): count for split, count in pairs}


def parse_budget(text: str) -> int | float | None:
    """`64MB` as bytes, `60%` as a share of what the model needs today, `smallest` as None."""
    stripped = text.strip()
    if stripped.lower() == "smallest":
        return None
    if not stripped.endswith("%"):
        _refuse_fraction(stripped)
        try:
            budget = parse_bytes(stripped)
        except OverflowError:
            raise TilewrightError(f"'{text}' is no memory budget: it is too large") from None
        if budget <= 0:
            raise TilewrightError(f"'{text}' is no memory budget: it has to be more than nothing")
        return budget
    try:
        share = float(stripped[:-1]) / 100
    except ValueError:
        share = 0.0
    if not 0.0 < share < inf:
        raise TilewrightError(f"'{text}' is no memory budget: write 64MB, 60% or smallest")
    return share


def _refuse_fraction(text: str) -> None:
    """A fraction without a unit may be meant as a share, or as so many megabytes."""
    try:
        number = float(text)
    except ValueError:
        return
    if number.is_integer() or not 0.0 < number < inf:
        return
    share = f"{100 * number:g}% for a share of today's" if number < 1 else f"{text}MB for megabytes"
    raise TilewrightError(
        f"'{text}' is no memory budget: it is no whole number of bytes; write {share}"
    )


def read_budget(given: str | int | float) -> int | float | None:
    """A budget as a program gave it: a text, whole bytes, or a share."""
    if isinstance(given, str):
        return parse_budget(given)
    expected = 'write 64_000_000 (bytes), 0.6 (a share of today\'s), "64MB", "60%" or "smallest"'
    budget = number_of(given)
    if budget is None or budget <= 0 or (isinstance(budget, float) and budget > 1.0):
        raise TilewrightError(f"{given!r} is no memory budget: {expected}")
    return budget


def shrink_model(
    model: Model,
    budget: int | float | None,
    output: Path | None = None,
    *,
    measure: bool = False,
    seed: int = 0,
    runs: int = 5,
    progress: Callable[[str], None] = silent,
) -> ShrinkResult:
    """Write an ordinary ONNX model that needs less memory and gives the same numbers.

    Nothing is written to `output` unless the new model was verified against the original in
    onnxruntime on seeded inputs. Where it was measured and misses the budget, it is cut again for
    less, as far as that goes.
    """
    check_writable(output)
    result = _shrunk(model, budget, measure, seed, runs, progress)
    goal: int | float | None = budget
    for _ in range(MEASURED_ROUNDS):
        over = result.over_budget
        if over is None or goal is None:
            break
        goal = type(goal)(goal / over * TIGHTER)
        progress(f"measured {over - 1:.0%} above the budget: cutting for less")
        try:
            again = _shrunk(model, goal, measure, seed, runs, progress)
        except BudgetError:  # the least there is may still measure less
            goal = None
            again = _shrunk(model, goal, measure, seed, runs, progress)
        again = replace(again, budget=budget)
        if (again.over_budget or 0.0) < over:
            result = again
    if output is not None:
        result.save(output)
    return result


def _shrunk(
    model: Model,
    budget: int | float | None,
    measure: bool,
    seed: int,
    runs: int,
    progress: Callable[[str], None],
) -> ShrinkResult:
    """The model cut for a budget, verified, and measured if asked for."""
    shrunk = shrink_graph(model.graph, budget, progress)
    progress("filling in weights")
    numbered = model.with_numbers(seed)
    tiled = replace(
        shrunk, graph=shrunk.graph if numbered is model.graph else rewritten(shrunk, numbered)
    )
    feeds = seeded_inputs(model.graph, seed)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        small, inputs = Path(folder) / "small.onnx", Path(folder) / "inputs.npz"
        save_onnx(tiled.graph, small, _metadata(shrunk, numbered is not model.graph))
        original = _original(model, numbered, Path(folder))
        write_npz(feeds, inputs)
        progress("verifying against the original in onnxruntime")
        difference = _verify(original, small, feeds)
        measured = None
        if measure:
            progress("measuring memory and CPU time")
            measured = measure_models(original, small, inputs, runs)
    return ShrinkResult(tiled, difference, measured, numbered is not model.graph, budget)


def _original(model: Model, numbered: Graph, folder: Path) -> Path:
    """The model as it was given, as a file; or as it was built here."""
    if isinstance(model.original, Path):
        return model.original
    path = folder / "original.onnx"
    if isinstance(model.original, bytes):
        path.write_bytes(model.original)
    else:
        save_onnx(numbered, path)
    return path


def _verify(original: Path, small: Path, feeds: Mapping[str, Array]) -> Difference:
    """Compare both models in onnxruntime. Its optimiser treats tiles and whole operators
    differently, and a saturated output can magnify that; what decides then is the comparison of
    both as they are written."""
    try:
        return compare(run(original, feeds), run(small, feeds))
    except VerificationError:
        return compare(run(original, feeds, optimise=False), run(small, feeds, optimise=False))


def _metadata(shrunk: Shrunk, seeded_weights: bool) -> dict[str, str]:
    facts = {
        "tilewright.version": __version__,
        "tilewright.predicted_peak_bytes": str(shrunk.predicted.peak),
        "tilewright.groups": str(len(shrunk.groups)),
    }
    if seeded_weights:
        facts["tilewright.weights"] = "seeded random numbers: the model's own were not there"
    return facts


@dataclass(frozen=True, slots=True, repr=False)
class RunResult(Shown):
    """What a run gave and took; the peak is None where the system does not report it."""

    outputs: Mapping[str, Array]
    peak_bytes: int | None
    cpu_seconds: float

    def headline(self) -> list[str]:
        """Peak memory and CPU time."""
        peak = "unknown" if self.peak_bytes is None else format_bytes(self.peak_bytes)
        return [f"peak memory of the run {peak}, CPU time {format_time(self.cpu_seconds)}"]

    def as_table(self) -> Table:
        """One row per output: its type, its shape, the range of its numbers."""
        rows: list[tuple[Cell, ...]] = []
        for name, array in self.outputs.items():
            shape = "x".join(map(str, array.shape))
            ends: tuple[float | None, ...] = (None, None)
            if array.dtype.kind in "biuf" and array.size:
                ends = float(array.min()), float(array.max())
            rows.append((name, str(array.dtype), shape, *ends))
        return Table("outputs", ("output", "dtype", "shape", "least", "largest"), tuple(rows))


def run_model(
    model: Model,
    inputs: Path | Mapping[str, Array] | None = None,
    output: Path | None = None,
    *,
    seed: int = 0,
    threads: int = 1,
) -> RunResult:
    """Run an ONNX file in onnxruntime with the settings tiled models need."""
    check_arrays_file(output)
    label = f"'{model.path or model.name}'"
    if model.path is None and model.data is None:
        raise ModelError(f"{label} is no file: shrink it first, then run the file")
    if model.reshaped:
        raise ShapeError(f"shapes (--shape) cannot change the dimensions that {label} fixes")
    if model.original is None:
        missing = ", ".join(name for name in model.missing_files if name) or "cleared weights"
        raise ModelError(f"{label} cannot run: its weights are not there ({missing})")
    graph = model.graph
    feeds = seeded_inputs(graph, seed) if inputs is None else load_inputs(inputs, graph)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        given, results = Path(folder) / "inputs.npz", Path(folder) / "outputs.npz"
        write_npz(feeds, given)
        done = run_in_child(_original(model, graph, Path(folder)), given, results, threads)
        outputs = read_npz(results)
    if output is not None:
        save_arrays(outputs, output)
    return RunResult(outputs, done.peak, done.seconds)
