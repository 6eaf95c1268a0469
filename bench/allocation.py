"""Scratchpad allocation: greedy and exact peaks against the lower bound, with nodes and CPU time.

Reads the instances beside the checkout if they are there, and cuts hard ones of its own: a full
rectangle cut at random into buffers leaves no byte to spare.

    python bench/allocation.py [--json PATH] [--seeds N]
"""

import argparse
import csv
import json
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tilewright.memory import Allocation, Buffer, Problem, allocate, check, lower_bound
from tilewright.memory.greedy import greedy
from tilewright.memory.rectangles import rectangles_of

INSTANCES = Path(__file__).resolve().parents[2] / "shared" / "data" / "minimalloc"
CAPACITY = 1_048_576


@dataclass(frozen=True, slots=True)
class Row:
    """One instance measured; a peak is None where nothing fitted within the node limit."""

    instance: str
    buffers: int
    lower_bound: int
    greedy_peak: int
    greedy_seconds: float
    fit_peak: int | None
    fit_nodes: int
    fit_seconds: float
    lowest_peak: int | None
    lowest_nodes: int
    lowest_seconds: float


def read_instance(path: Path) -> Problem:
    """A problem from a file of id, lower, upper, size; the capacity is part of the file's name."""
    with path.open(newline="") as lines:
        buffers = tuple(
            Buffer(row["id"], int(row["lower"]), int(row["upper"]), int(row["size"]))
            for row in csv.DictReader(lines)
        )
    return Problem(buffers, int(path.stem.rsplit(".", 1)[1]))


def cut_instance(count: int, steps: int, seed: int, dropped: float = 0.0) -> Problem:
    """A rectangle of all time and memory, cut at random into `count` buffers that fill it."""
    chance = random.Random(seed)
    unit = 1024
    pieces = [(0, steps, 0, CAPACITY // unit)]
    while len(pieces) < count:
        scores = [(b - a) * (d - c) * chance.random() ** 1.5 for a, b, c, d in pieces]
        index = max(range(len(pieces)), key=scores.__getitem__)
        a, b, c, d = pieces[index]
        if b - a > 1 and (chance.random() < 0.5 or d - c == 1):
            middle = chance.randint(a + 1, b - 1)
            pieces[index : index + 1] = [(a, middle, c, d), (middle, b, c, d)]
        elif d - c > 1:
            middle = chance.randint(c + 1, d - 1)
            pieces[index : index + 1] = [(a, b, c, middle), (a, b, middle, d)]
    chance.shuffle(pieces)
    kept = [piece for piece in pieces if chance.random() >= dropped]
    buffers = [Buffer(str(i), a, b, (d - c) * unit) for i, (a, b, c, d) in enumerate(kept)]
    return Problem(tuple(buffers), CAPACITY)


def instances(seeds: int) -> Iterator[tuple[str, Problem]]:
    """All instances, with their names."""
    for path in sorted(INSTANCES.glob("*.csv")):
        yield path.stem.split(".")[0], read_instance(path)
    for count in (100, 200, 300, 500):
        for steps in (60, 400):
            for seed in range(seeds):
                yield f"cut-{count}-{steps}-{seed}", cut_instance(count, steps, seed)
                yield f"gaps-{count}-{steps}-{seed}", cut_instance(count, steps, seed, 0.03)


def measure(name: str, problem: Problem) -> Row:
    """Greedy alone, the first allocation that fits the capacity, and the lowest peak."""
    bound = lower_bound(problem)
    rectangles = rectangles_of(problem)
    begin = time.process_time()
    offsets = greedy(rectangles, bound)
    greedy_seconds = time.process_time() - begin
    greedy_peak = int(np.max(offsets + rectangles.size))

    def run(target: int | None) -> tuple[int | None, int, float]:
        begin = time.process_time()
        result = allocate(problem, target=target)
        seconds = time.process_time() - begin
        if isinstance(result, Allocation):
            check(problem, result.offsets, result.peak)
            return result.peak, result.nodes, seconds
        return None, result.nodes, seconds

    fit = run(problem.capacity)
    # A bound equal to the capacity asks the same question again.
    lowest = fit if bound == problem.capacity else run(None)
    return Row(name, len(problem.buffers), bound, greedy_peak, greedy_seconds, *fit, *lowest)


def main() -> None:
    """Print the table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seeds", type=int, default=1, help="cut instances of each kind")
    arguments = parser.parse_args()
    measure("warm-up", cut_instance(60, 20, 1, 0.1))
    print(
        f"{'instance':<16}{'buffers':>8}{'bound':>10}{'greedy':>10}{'s':>7}"
        f"{'fit':>10}{'nodes':>8}{'s':>7}{'lowest':>10}{'nodes':>8}{'s':>7}"
    )
    rows: list[Row] = []
    for name, problem in instances(arguments.seeds):
        row = measure(name, problem)
        rows.append(row)
        print(
            f"{row.instance:<16}{row.buffers:>8}{row.lower_bound:>10}"
            f"{row.greedy_peak:>10}{row.greedy_seconds:>7.2f}"
            f"{row.fit_peak or 'no':>10}{row.fit_nodes:>8}{row.fit_seconds:>7.2f}"
            f"{row.lowest_peak or 'no':>10}{row.lowest_nodes:>8}{row.lowest_seconds:>7.2f}",
            flush=True,
        )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
