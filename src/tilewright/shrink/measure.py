"""Real figures of a model in onnxruntime: peak memory and CPU time, in processes of their own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Any, Literal

from tilewright.errors import ModelError, TilewrightError

CHILD = "tilewright.execute.measure_child"
# The system counts a process's pages in batches: so far one and the same run may seem to differ.
RESOLUTION = 128 * 1024
ROUGH = 64 * RESOLUTION  # peaks below are measured several times, unless they were counted
SAMPLES = 3
FEW_PAGES = 32 * 1024  # so far runs differ whose blocks are counted one by one
# While a process that counts is loading, it takes all from the heap: as `keep_on_heap` says.
ALL_ON_HEAP = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20)}

Verdict = Literal["met", "missed", "too close to tell"]
"""What a measurement says about a budget."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Peak bytes of each model above the level before the run, and CPU seconds of each. Small peaks
    are the middle of several `peaks`, unless they were counted block by block (`exact`)."""

    peak_bytes: int
    original_peak_bytes: int
    cpu_seconds: float
    original_cpu_seconds: float
    peaks: tuple[int, ...] = ()
    original_peaks: tuple[int, ...] = ()
    exact: bool = False

    @property
    def resolution(self) -> int:
        """By how much a peak may be wrong."""
        return FEW_PAGES if self.exact else RESOLUTION

    @property
    def range(self) -> tuple[int, int]:
        """The least and the largest peak."""
        return _ends(self.peaks or (self.peak_bytes,))

    @property
    def share(self) -> tuple[float, float]:
        """The least and the largest share of the original's peak that the peaks may be."""
        low, high = _ends(self.original_peaks or (self.original_peak_bytes,))
        return self.range[0] / max(1, high), self.range[1] / max(1, low)

    def limit(self, budget: int | float) -> float:
        """A budget in bytes; a share is one of the original's measured peak."""
        return budget * self.original_peak_bytes if isinstance(budget, float) else budget

    def verdict(self, budget: int | float) -> Verdict:
        """Whether all peaks are within the budget, or none is by more than a measurement can be
        wrong by."""
        low, high = self.range
        least = most = float(budget)
        if isinstance(budget, float):
            ends = _ends(self.original_peaks or (self.original_peak_bytes,))
            least, most = (budget * end for end in ends)
        if low > most + self.resolution:
            return "missed"
        return "met" if high <= least else "too close to tell"

    @property
    def cpu_ratio(self) -> float:
        """CPU time of the tiled model over the original's."""
        return self.cpu_seconds / max(1e-9, self.original_cpu_seconds)


@dataclass(frozen=True, slots=True)
class ChildRun:
    """A run in a process of its own: bytes above its level before (None where the system does not
    report them), CPU seconds; whether the bytes were counted block by block."""

    peak: int | None
    seconds: float
    exact: bool = False


def run_in_child(
    model: Path, inputs: Path, outputs: Path | None = None, threads: int = 1
) -> ChildRun:
    """Run a model on inputs in a fresh process, arena off: what `run` and `--measure` both do.
    Where its peak is small, another process counts it block by block; where the system sees more
    than it may be wrong by, not all blocks were found, and its figure holds."""
    request: dict[str, Any] = {
        "job": "run",
        "models": [str(model)],
        "inputs": str(inputs),
        "outputs": None if outputs is None else str(outputs),
        "threads": threads,
    }
    done = _child(request)
    peak: int | None = done["peak"]
    counted = None
    if peak is not None and peak < ROUGH:
        counted = _child({**request, "job": "count"})["peak"]
    exact = counted is not None and counted + RESOLUTION >= (peak or 0)
    return ChildRun(counted if exact else peak, float(done["seconds"]), exact)


def measure_peak(model: Path, inputs: Path) -> int:
    """The most bytes of a process above its level before the run."""
    return median_low(measure_peaks(model, inputs)[0])


def measure_peaks(model: Path, inputs: Path) -> tuple[list[int], bool]:
    """That of several processes where a peak is small and could not be counted; and whether it
    was."""
    peaks: list[int] = []
    exact = False
    while not peaks or (peaks[0] < ROUGH and len(peaks) < SAMPLES and not exact):
        done = run_in_child(model, inputs)
        if done.peak is None:
            raise TilewrightError("this system does not report a process's peak memory")
        peaks.append(done.peak)
        exact = done.exact
    return peaks, exact


def measure(original: Path, small: Path, inputs: Path, runs: int = 5) -> Measured:
    """Both models, side by side: peaks; CPU seconds of a run of each, arena on, one thread, runs
    interleaved."""
    models = (original, small)
    (before, first), (after, second) = (measure_peaks(each, inputs) for each in models)
    job = {"job": "cpu", "models": [*map(str, models)], "inputs": str(inputs), "runs": runs}
    original_cpu, cpu = map(float, _child(job)["seconds"])
    peaks = median_low(after), median_low(before)
    return Measured(*peaks, cpu, original_cpu, tuple(after), tuple(before), first and second)


def _ends(peaks: tuple[int, ...]) -> tuple[int, int]:
    return min(peaks), max(peaks)


def _child(request: dict[str, Any]) -> dict[str, Any]:
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    if request["job"] == "count":
        environment |= ALL_ON_HEAP
    done = subprocess.run(
        [sys.executable, "-m", CHILD],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise TilewrightError(f"running the model failed: {lines[-1] if lines else 'no message'}")
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    if "error" in answer:
        raise ModelError(answer["error"])
    return answer
