"""The measured process: runs one request from standard input, prints one line of JSON."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.execute.runtime import run_measured, session


def _peak(model: Path, inputs: dict[str, Any]) -> dict[str, int]:
    peak = run_measured(model, inputs, warm=True).peak_bytes
    if peak is None:
        raise SystemExit("this system does not report a process's peak memory")
    return {"peak": peak}


def _cpu(models: list[Path], inputs: dict[str, Any], runs: int) -> dict[str, list[float]]:
    """Runs take turns, so that a slow phase of the machine hits all models; the best counts."""
    sessions = [session(model, arena=True) for model in models]
    for active in sessions:
        active.run(None, inputs)
    best = [float("inf")] * len(sessions)
    for _ in range(runs):
        for position, active in enumerate(sessions):
            start = time.process_time()
            active.run(None, inputs)
            best[position] = min(best[position], time.process_time() - start)
    return {"seconds": best}


def main() -> None:
    """Serve the request."""
    request = json.loads(sys.stdin.read())
    with np.load(request["inputs"]) as stored:
        inputs = {name: stored[name] for name in stored.files}
    models = [Path(model) for model in request["models"]]
    if request["job"] == "peak":
        print(json.dumps(_peak(models[0], inputs)))
    else:
        print(json.dumps(_cpu(models, inputs, int(request["runs"]))))


if __name__ == "__main__":
    main()
