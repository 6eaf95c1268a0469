"""Real figures of a model in onnxruntime: peak memory and CPU time, in processes of their own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Any

from tilewright.errors import ModelError, TilewrightError

CHILD = "tilewright.execute.measure_child"
# The system counts a process's pages in batches: so far one and the same run may seem to differ.
RESOLUTION = 128 * 1024
ROUGH = 64 * RESOLUTION  # peaks below are measured several times
SAMPLES = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """Peak bytes of each model above the level before the run, and CPU seconds of each."""

    peak_bytes: int
    original_peak_bytes: int
    cpu_seconds: float
    original_cpu_seconds: float

    @property
    def cpu_ratio(self) -> float:
        """CPU time of the tiled model over the original's."""
        return self.cpu_seconds / max(1e-9, self.original_cpu_seconds)


@dataclass(frozen=True, slots=True)
class ChildRun:
    """A run in a process of its own: bytes above its level before (None where the system does not
    report them), CPU seconds."""

    peak: int | None
    seconds: float


def run_in_child(
    model: Path, inputs: Path, outputs: Path | None = None, threads: int = 1
) -> ChildRun:
    """Run a model on inputs in a fresh process, arena off: what `run` and `--measure` both do."""
    request: dict[str, Any] = {
        "job": "run",
        "models": [str(model)],
        "inputs": str(inputs),
        "outputs": None if outputs is None else str(outputs),
        "threads": threads,
    }
    done = _child(request)
    return ChildRun(done["peak"], float(done["seconds"]))


def measure_peak(model: Path, inputs: Path) -> int:
    """The process's high-water mark above its level before the run; the middle of several
    processes where a peak is small."""
    peaks: list[int] = []
    while not peaks or (peaks[0] < ROUGH and len(peaks) < SAMPLES):
        peak = run_in_child(model, inputs).peak
        if peak is None:
            raise TilewrightError("this system does not report a process's peak memory")
        peaks.append(peak)
    return median_low(peaks)


def measure_cpu(models: list[Path], inputs: Path, runs: int) -> list[float]:
    """CPU seconds of one run of each model, arena on, one thread, runs interleaved."""
    request = {
        "job": "cpu",
        "models": [str(m) for m in models],
        "inputs": str(inputs),
        "runs": runs,
    }
    return [float(seconds) for seconds in _child(request)["seconds"]]


def measure(original: Path, small: Path, inputs: Path, runs: int = 5) -> Measured:
    """Both models, side by side."""
    original_peak, peak = measure_peak(original, inputs), measure_peak(small, inputs)
    original_cpu, cpu = measure_cpu([original, small], inputs, runs)
    return Measured(peak, original_peak, cpu, original_cpu)


def _child(request: dict[str, Any]) -> dict[str, Any]:
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
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
