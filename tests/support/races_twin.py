"""Races found by comparing every access with every other: slow, obvious, for tests."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from tilewright.schedule.problem import Problem
from tilewright.schedule.races import Accesses

Conflicting = tuple[int, int, int, int, int]
"""First task, second task, memory, and the bytes [start, stop) they both touch."""


def accesses_of(rows: Sequence[tuple[int, int, int, int, bool]]) -> Accesses:
    """Accesses from rows of task, memory, start, stop, write."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    return Accesses(
        task=np.array(columns[0], dtype=np.int32),
        memory=np.array(columns[1], dtype=np.int32),
        start=np.array(columns[2], dtype=np.int64),
        stop=np.array(columns[3], dtype=np.int64),
        write=np.array(columns[4], dtype=np.bool_),
    )


def order_plainly(problem: Problem) -> list[set[int]]:
    """For every task, all tasks that must have ended before it starts."""
    before: list[set[int]] = []
    last_of: dict[int, int] = {}
    engines: list[int] = problem.engine.tolist()
    for task, engine in enumerate(engines):
        direct = set(problem.needs_of(task))
        if problem.resources.engines[engine].serial and engine in last_of:
            direct.add(last_of[engine])
        last_of[engine] = task
        before.append(direct.union(*(before[need] for need in direct)))
    return before


def find_races_plainly(problem: Problem, accesses: Accesses) -> set[Conflicting]:
    """Every pair of unordered conflicting accesses."""
    before = order_plainly(problem)
    rows = zip(
        accesses.task.tolist(),
        accesses.memory.tolist(),
        accesses.start.tolist(),
        accesses.stop.tolist(),
        accesses.write.tolist(),
        strict=True,
    )
    races: set[Conflicting] = set()
    for one, other in combinations(sorted(rows), 2):
        first, memory, start, stop, first_writes = one
        second, second_memory, second_start, second_stop, second_writes = other
        start, stop = max(start, second_start), min(stop, second_stop)
        if memory != second_memory or start >= stop or not (first_writes or second_writes):
            continue
        if first != second and first not in before[second]:
            races.add((first, second, memory, start, stop))
    return races
