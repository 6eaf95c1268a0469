"""The kernel model against the published ladder, its fit, and the CPU time of the kernel search.

python bench/kernel.py [--json PATH] [--write]

`--write` puts the fitted values into calibration.yaml and the table into docs/ladder.md.
"""

import argparse
import re
import time
from pathlib import Path
from typing import Any

from common import write_json

from tilewright.kernel.calibrate import FITTED, fit, fit_error
from tilewright.kernel.ladder import ladder
from tilewright.kernel.problem import KernelProblem
from tilewright.kernel.search import search
from tilewright.kernel.target import calibration, target_of
from tilewright.kernel.timeline import simulated
from tilewright.machine.load import load_machine
from tilewright.report.kernel_facts import rung_json
from tilewright.report.kernel_text import ladder_markdown

ROOT = Path(__file__).resolve().parents[1]
LARGE = KernelProblem(256, 224, 224, 256)
SEARCHED = (
    LARGE,
    KernelProblem(256, 224, 224, 256, pool=2),
    KernelProblem(256, 224, 224, 256, dtype="fp32"),
    KernelProblem(256, 32, 16, 256, pool=2),
)


def main() -> None:
    """Fit, compare, search."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--write", action="store_true", help="update calibration and docs")
    arguments = parser.parse_args()
    machine = load_machine("trn2")
    found = fit(machine)
    for name in FITTED:
        print(f"{name}: fitted {found.values[name]:g}, shipped {calibration().values[name]:g}")
    target = target_of(machine, found if arguments.write else calibration())
    rows = ladder(LARGE, target)
    print(f"squared error of the fitted rows {fit_error(target):.2e}")
    print(ladder_markdown(rows))
    if arguments.write:
        _write(found.values, ladder_markdown(rows))
    figures: dict[str, Any] = {"rungs": [rung_json(row) for row in rows], "searches": []}
    for problem in SEARCHED:
        start = time.process_time()
        result = search(problem, target)
        seconds = time.process_time() - start
        figures["searches"].append(
            {
                "problem": problem.text(),
                "cpu_s": round(seconds, 2),
                "looked_at": result.looked_at,
                "legal": result.legal,
                "last_rung_us": result.start.high * 1e6,
                "found_us": result.best.high * 1e6,
                "simulated_us": simulated(result.best).seconds * 1e6,
                "above_floor": result.above_floor,
            }
        )
        print(figures["searches"][-1])
    write_json(arguments.json, figures)


def _write(values: Any, table: str) -> None:
    path = ROOT / "src" / "tilewright" / "kernel" / "calibration.yaml"
    text = path.read_text()
    for name in FITTED:
        text = re.sub(rf"(  {name}:\n    value: )\S+", rf"\g<1>{values[name]:g}", text)
    path.write_text(text)
    page = ROOT / "docs" / "ladder.md"
    old = page.read_text()
    page.write_text(re.sub(r"\| rung \|.*?\n(?!\|)", lambda _: table + "\n", old, flags=re.S))


if __name__ == "__main__":
    main()
