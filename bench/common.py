"""What several benches do."""

import json
import time
from collections.abc import Callable
from pathlib import Path


def write_json(path: Path | None, facts: object) -> None:
    """Write figures where a file is asked for."""
    if path is not None:
        path.write_text(json.dumps(facts, indent=2) + "\n")


def best_seconds(job: Callable[[], object], repeats: int) -> float:
    """CPU seconds of the quickest of several runs."""
    seconds: list[float] = []
    for _ in range(repeats):
        begin = time.process_time()
        job()
        seconds.append(time.process_time() - begin)
    return min(seconds)
