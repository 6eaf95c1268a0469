"""Tasks per second of the simulator, over sizes and kinds of machine, and how it grows.

    python bench/simulator.py [--json FILE] [--sizes 5000,20000] [--repeats 7]

Every task has three dependencies among the sixty tasks before it; two clusters of a matrix and a
vector engine, four DMA ports. Times are CPU seconds, best of the repeats, with the compiled
code already loaded.
"""

import argparse
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
from common import best_seconds

from tilewright.schedule.problem import Engine, Problem, Resources
from tilewright.schedule.races import Accesses, find_races
from tilewright.schedule.simulate import simulate
from tilewright.schedule.timeline import engine_uses

PORT = Fraction(104, 5)
POOL = Fraction(270, 13)

MACHINES = {
    "in order": Resources((*[Engine()] * 4, *[Engine(rate=PORT)] * 4)),
    "in order, shared bandwidth": Resources(
        (*[Engine()] * 4, *[Engine(rate=PORT, pool=0)] * 4), (POOL,)
    ),
    "out of order, shared bandwidth": Resources(
        (*[Engine(in_order=False)] * 4, *[Engine(in_order=False, rate=PORT, pool=0)] * 4), (POOL,)
    ),
}


def program(resources: Resources, tasks: int, seed: int = 0) -> Problem:
    """A seeded program of so many tasks and three times as many dependencies."""
    random = np.random.default_rng(seed)
    engine = random.integers(0, len(resources.engines), tasks)
    moves = engine >= 4
    index = np.arange(tasks)
    reach = np.minimum(index, 60)
    rows: list[list[int]] = []
    for task in range(tasks):
        wanted = min(3, int(reach[task]))
        drawn = random.choice(int(reach[task]), wanted, replace=False) if wanted else []
        rows.append(sorted(task - 1 - int(back) for back in drawn))
    return Problem.of(
        resources,
        engine.tolist(),
        np.where(moves, 1243, random.integers(500, 20_000, tasks)).tolist(),
        rows,
        transfer=np.where(moves, random.integers(1, 200_000, tasks), 0).tolist(),
        priority=random.integers(0, 4, tasks).tolist(),
    )


def accesses(tasks: int, seed: int = 0) -> Accesses:
    """Three accesses a task in one memory of 2 MB."""
    random = np.random.default_rng(seed)
    count = 3 * tasks
    start = random.integers(0, 30_000, count) * 64
    return Accesses(
        task=np.repeat(np.arange(tasks, dtype=np.int32), 3),
        memory=np.zeros(count, dtype=np.int32),
        start=start,
        stop=start + random.integers(1, 400, count) * 64,
        write=np.arange(count) % 3 == 2,
    )


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of time over size on logarithmic axes: 1 is linear."""
    if len(sizes) < 2:
        return math.nan
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def main() -> None:
    """Measure, print a table, write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sizes", default="5000,20000,80000,320000")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    results: list[dict[str, object]] = []
    growth: dict[str, float] = {}
    for name, resources in MACHINES.items():
        problems = [program(resources, size) for size in sizes]
        simulate(problems[0])
        seconds = [best_seconds(lambda p=p: simulate(p), options.repeats) for p in problems]
        growth[name] = exponent(sizes, seconds)
        for problem, taken in zip(problems, seconds, strict=True):
            rate = problem.count / taken
            row = {"machine": name, "tasks": problem.count, "edges": int(problem.needs.size)}
            results.append({**row, "seconds": taken, "tasks_per_second": rate})
            print(f"{name:32} {problem.count:8} tasks {rate / 1e6:7.2f} M tasks/s")
        print(f"{name:32} time grows as tasks^{growth[name]:.3f}")
    others = other_times(options.repeats)
    for name, taken in others.items():
        print(f"{name:32} {taken * 1e3:10.1f} ms")
    if options.json is not None:
        document = {"simulate": results, "exponent": growth, "seconds": others}
        options.json.write_text(json.dumps(document, indent=2) + "\n")


def other_times(repeats: int) -> dict[str, float]:
    """What stands beside the simulator: the report, the race check."""
    larger = program(MACHINES["in order, shared bandwidth"], 50_000)
    touched = accesses(larger.count)
    schedule = simulate(larger)
    find_races(larger, touched)
    return {
        "timeline, 50000 tasks": best_seconds(lambda: engine_uses(larger, schedule), 3),
        "race check, 50000 tasks": best_seconds(lambda: find_races(larger, touched), 3),
    }


if __name__ == "__main__":
    main()
