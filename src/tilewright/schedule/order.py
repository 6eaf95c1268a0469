"""What must happen before what: by dependencies and by engines that run one task after the other.

Never by timing. Tasks are laid on chains, each totally ordered: every serial engine is a chain, and
the tasks of other engines are put on paths of dependencies. Then one number per task and chain, the
last position of that chain known to be over, answers every question.
"""

from typing import NamedTuple

import numpy as np

from tilewright.compiled import njit
from tilewright.schedule.problem import Flags, Ids, Problem, Quantities

_BLOCK = 64


class Chains(NamedTuple):
    """Who a task waits for (`needs[need_start[task]:need_start[task + 1]]`), its chain, its
    position on it, and the task just before it there (or -1)."""

    need_start: Quantities
    needs: Ids
    chain: Ids
    position: Ids
    before: Ids
    total: int


def chains_of(problem: Problem) -> Chains:
    """Lay the tasks on chains."""
    serial = np.array([engine.serial for engine in problem.resources.engines], dtype=np.bool_)
    chain = np.empty(problem.count, dtype=np.int32)
    position = np.empty(problem.count, dtype=np.int32)
    before = np.empty(problem.count, dtype=np.int32)
    count = _lay_chains(
        problem.engine, problem.need_start, problem.needs, serial, chain, position, before
    )
    return Chains(problem.need_start, problem.needs, chain, position, before, count)


def ordered(problem: Problem, first: Ids, second: Ids) -> Flags:
    """For each pair of tasks, whether the first must have ended before the second starts."""
    chains = chains_of(problem)
    answer = (chains.chain[first] == chains.chain[second]) & (first < second)
    open_pairs = np.flatnonzero(~answer & (first < second))
    if not open_pairs.size:
        return answer
    asked, column = np.unique(chains.chain[first[open_pairs]], return_inverse=True)
    for begin in range(0, asked.size, _BLOCK):
        block = asked[begin : begin + _BLOCK]
        column_of = np.full(chains.total, -1, dtype=np.int32)
        column_of[block] = np.arange(block.size, dtype=np.int32)
        known = np.full((problem.count, block.size), -1, dtype=np.int32)
        _know(chains, column_of, known)
        inside = (column >= begin) & (column < begin + block.size)
        pairs = open_pairs[inside]
        over = known[second[pairs], column[inside] - begin]
        answer[pairs] = over >= chains.position[first[pairs]]
    return answer


@njit()
def _lay_chains(
    engine: Ids,
    need_start: Quantities,
    needs: Ids,
    serial: Flags,
    chain: Ids,
    position: Ids,
    before: Ids,
) -> int:
    """Serial engines first; other tasks go behind a dependency that ends a path, or open one."""
    tasks = engine.size
    of_engine = np.full(serial.size, -1, dtype=np.int32)
    last = np.full(tasks, -1, dtype=np.int32)  # the last task of each chain
    count = 0
    for task in range(tasks):
        where = engine[task]
        found = -1
        if serial[where]:
            found = of_engine[where]
        else:
            for entry in range(need_start[task], need_start[task + 1]):
                need = needs[entry]
                if not serial[engine[need]] and last[chain[need]] == need:
                    found = chain[need]
                    break
        if found < 0:
            found = count
            count += 1
            if serial[where]:
                of_engine[where] = found
        before[task] = last[found]
        position[task] = 0 if before[task] < 0 else position[before[task]] + 1
        chain[task] = found
        last[found] = task
    return count


@njit()
def _know(chains: Chains, column_of: Ids, known: Ids) -> None:
    """Fill known[task, column], the last position of that chain over when the task is: a task knows
    what its dependencies and the task before it on its chain know, and itself."""
    chain, before = chains.chain, chains.before
    columns = known.shape[1]
    for task in range(chain.size):
        if before[task] >= 0:
            for column in range(columns):
                known[task, column] = known[before[task], column]
        for entry in range(chains.need_start[task], chains.need_start[task + 1]):
            need = chains.needs[entry]
            for column in range(columns):
                known[task, column] = max(known[task, column], known[need, column])
        if column_of[chain[task]] >= 0:
            known[task, column_of[chain[task]]] = chains.position[task]
