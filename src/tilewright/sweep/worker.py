"""A process that plans points: JSON lines in, JSON lines out, until its input ends.

`python -m tilewright.sweep.worker FOLDER`. Everything else that is printed goes to standard error.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.sweep.point import Planner, Point, warm_up
from tilewright.version import __version__


def outcome_of(planner: Planner, row: dict[str, Any]) -> dict[str, Any]:
    """A point's result or the reason why there is none; never an exception of the point."""
    start = time.perf_counter()
    try:
        result = planner.plan(Point.of_row(row))
    except TilewrightError as error:
        outcome: dict[str, Any] = {"status": "failed", "reason": " ".join(str(error).split())}
    except Exception as error:  # a fault of the planner must not end the sweep
        text = " ".join(f"{type(error).__name__}: {error}".split())
        outcome = {"status": "failed", "reason": text}
    else:
        outcome = {
            "status": "ok",
            "reason": "",
            "summary": result.summary,
            "plan": result.plan,
        }
    return {**outcome, "seconds": time.perf_counter() - start}


def main() -> None:
    """Warm up, say so, then plan what is asked for."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is no answer
    planner = Planner(Path(sys.argv[1]))
    warm_up()
    try:
        _say(answers, {"ready": __version__})
        for line in sys.stdin:
            _say(answers, outcome_of(planner, json.loads(line)))
    except BrokenPipeError:
        os._exit(0)  # nobody waits for the answer any more


def _say(answers: Any, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
