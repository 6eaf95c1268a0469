"""Real figures of a model in onnxruntime: peak memory and CPU time, in processes of their own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError

CHILD = "tilewright.execute.measure_child"


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


def measure_peak(model: Path, inputs: Path) -> int:
    """The process's high-water mark above its level before the run, arena off."""
    return int(_child({"job": "peak", "models": [str(model)], "inputs": str(inputs)})["peak"])


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
        raise TilewrightError(f"measuring failed: {lines[-1] if lines else 'no message'}")
    return json.loads(done.stdout.strip().splitlines()[-1])
