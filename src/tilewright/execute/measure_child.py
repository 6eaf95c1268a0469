"""The measured process: runs one request from standard input, prints one line of JSON."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.execute.arrays import read_npz, write_npz
from tilewright.execute.runtime import count_peak, run_measured, session


def _run(request: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """One run with its peak; its outputs go to a file, where one is named."""
    model, outputs = Path(request["models"][0]), request.get("outputs")
    done = run_measured(model, inputs, int(request.get("threads", 1)))
    if outputs is not None:
        write_npz(done.outputs, Path(outputs))
    return {"peak": done.peak_bytes, "seconds": done.cpu_seconds}


def _count(request: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """The peak of a run, counted block by block."""
    threads = int(request.get("threads", 1))
    return {"peak": count_peak(Path(request["models"][0]), inputs, threads)}


def _cpu(request: dict[str, Any], inputs: dict[str, Any]) -> dict[str, list[float]]:
    """Runs take turns, so that a slow phase of the machine hits all models; the best counts."""
    sessions = [session(Path(model), arena=True) for model in request["models"]]
    for active in sessions:
        active.run(None, inputs)
    best = [float("inf")] * len(sessions)
    for _ in range(int(request["runs"])):
        for position, active in enumerate(sessions):
            start = time.process_time()
            active.run(None, inputs)
            best[position] = min(best[position], time.process_time() - start)
    return {"seconds": best}


def main() -> None:
    """Serve the request."""
    request = json.loads(sys.stdin.read())
    inputs = read_npz(Path(request["inputs"]))
    job = {"run": _run, "count": _count, "cpu": _cpu}[request["job"]]
    try:
        print(json.dumps(job(request, inputs)))
    except TilewrightError as error:
        print(json.dumps({"error": str(error)}))


if __name__ == "__main__":
    main()
