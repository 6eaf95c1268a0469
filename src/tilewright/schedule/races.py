"""Races: two accesses to the same bytes, one of them a write, that nothing puts in order.

Order comes from dependencies and serial engines only, never from the times of a schedule. A sweep
over the program keeps, for every range of bytes, its last write and the reads since; each access is
compared with those alone, because older ones come before them if they are in order themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tilewright.compiled import njit
from tilewright.schedule.order import Chains, chains_of, ordered
from tilewright.schedule.problem import Flags, Ids, Problem, Quantities


@dataclass(frozen=True, slots=True, eq=False)
class Accesses:
    """Which task reads or writes the bytes [start, stop) of which memory; one row per interval."""

    task: Ids
    memory: Ids
    start: Quantities
    stop: Quantities
    write: Flags


class Conflict(Enum):
    """What the two accesses of a race do, in program order."""

    READ_AFTER_WRITE = "read after write"
    WRITE_AFTER_READ = "write after read"
    WRITE_AFTER_WRITE = "write after write"


@dataclass(frozen=True, slots=True, order=True)
class Race:
    """Two tasks in program order that may touch the bytes [start, stop) in either order."""

    second: int
    first: int
    memory: int
    start: int
    stop: int
    conflict: Conflict

    def __str__(self) -> str:
        where = f"bytes {self.start}-{self.stop} of memory {self.memory}"
        return f"tasks {self.first} and {self.second} race on {where} ({self.conflict.value})"


def strided_intervals(
    offset: int, run: int, levels: Sequence[tuple[int, int]] = ()
) -> tuple[Quantities, Quantities]:
    """Starts and stops of `run` bytes repeated over levels of (count, stride); runs that touch
    or overlap become one."""
    starts = np.array([offset], dtype=np.int64)
    for count, stride in levels:
        steps = np.arange(count, dtype=np.int64) * stride
        starts = (starts[:, None] + steps[None, :]).ravel()
    starts.sort()
    opens = np.concatenate((np.ones(1, np.bool_), starts[1:] > starts[:-1] + run))
    closes = np.concatenate((opens[1:], np.ones(1, np.bool_)))
    return starts[opens], starts[closes] + run


def find_races(problem: Problem, accesses: Accesses) -> tuple[Race, ...]:
    """The races of a program; none means that every order its engines may take gives one result.

    Every byte that has a race is named in at least one; further races on it may be left out.
    """
    chains, conflicts = chains_of(problem), tuple(Conflict)
    races: list[Race] = []
    for memory in np.unique(accesses.memory).tolist():
        pairs, ranges = _compared(accesses, memory, chains)
        loose = np.flatnonzero(~ordered(problem, pairs[:, 0], pairs[:, 1]))
        for index in loose.tolist():
            first, second, conflict = map(int, pairs[index])
            start, stop = map(int, ranges[index])
            races.append(Race(second, first, memory, start, stop, conflicts[conflict]))
    return tuple(sorted(races, key=lambda race: (race.second, race.first, race.memory, race.start)))


def _compared(accesses: Accesses, memory: int, chains: Chains) -> tuple[Ids, Quantities]:
    """The pairs of tasks to compare in one memory, with their conflict, and the bytes of each."""
    rows = np.flatnonzero((accesses.memory == memory) & (accesses.start < accesses.stop))
    rows = rows[np.lexsort((accesses.write[rows], accesses.task[rows]))]
    bounds = np.concatenate((accesses.start[rows], accesses.stop[rows]))
    places, index = np.unique(bounds, return_inverse=True)
    start = index[: rows.size].astype(np.int64)
    stop = index[rows.size :].astype(np.int64)
    pairs, ranges = _sweep(
        accesses.task[rows], start, stop, accesses.write[rows], chains.chain, places.size
    )
    return pairs, places[ranges]


@njit(inner=True)
def _grown(table: Ids) -> Ids:
    """The same rows with room for twice as many."""
    larger = np.empty((2 * table.shape[0], table.shape[1]), dtype=np.int32)
    for row in range(table.shape[0]):
        for column in range(table.shape[1]):
            larger[row, column] = table[row, column]
    return larger


@njit(inner=True)
def _node_before(is_node: Flags, nodes_in: Quantities, block: int, place: int) -> int:
    """The last node that starts at or before a place; the first place always starts one."""
    while place % block != 0 and not is_node[place]:
        place -= 1
    if is_node[place]:
        return place
    group = place // block - 1
    while nodes_in[group] == 0:
        group -= 1
    place = (group + 1) * block - 1
    while not is_node[place]:
        place -= 1
    return place


@njit()
def _sweep(
    task: Ids, start: Quantities, stop: Quantities, write: Flags, chain: Ids, places: int
) -> tuple[Ids, Quantities]:
    """Walk the accesses in program order; return the pairs to compare and their places.

    Bytes are cut at `places`; a node is a run of places with one history. Readers of a node are a
    linked list that nodes share; a later reader of the same chain stands for an earlier one.
    """
    block = max(8, int(np.sqrt(places)))
    is_node = np.zeros(places + 1, dtype=np.bool_)
    nodes_in = np.zeros(places // block + 1, dtype=np.int64)
    following = np.full(places + 1, places, dtype=np.int64)
    writer = np.full(places + 1, -1, dtype=np.int32)
    readers = np.full(places + 1, -1, dtype=np.int32)
    is_node[0] = True
    nodes_in[0] = 1
    lists = np.empty((1024, 2), dtype=np.int32)  # task, next
    list_count = 0
    found = np.empty((1024, 5), dtype=np.int32)  # first, second, conflict, start, stop
    found_count = 0

    for access in range(task.size):
        this = task[access]
        found_before = found_count
        for side in range(2):
            place = start[access] if side == 0 else stop[access]
            if not is_node[place]:
                node = _node_before(is_node, nodes_in, block, place)
                is_node[place] = True
                nodes_in[place // block] += 1
                following[place] = following[node]
                following[node] = place
                writer[place] = writer[node]
                readers[place] = readers[node]

        old_list = np.int32(-2)
        new_list = np.int32(-2)
        node = start[access]
        while node < stop[access]:
            after = following[node]
            reader = readers[node] if write[access] else np.int32(-1)
            other = writer[node]
            conflict = 2 if write[access] else 0
            while True:
                if other >= 0 and other != this and chain[other] != chain[this]:
                    row = found_count - 1
                    oldest = max(found_before, row - 8)
                    while row >= oldest and (
                        found[row, 0] != other or found[row, 2] != conflict or found[row, 4] != node
                    ):
                        row -= 1
                    if row >= oldest:
                        found[row, 4] = after
                    else:
                        if found_count == found.shape[0]:
                            found = _grown(found)
                        found[found_count, 0] = other
                        found[found_count, 1] = this
                        found[found_count, 2] = conflict
                        found[found_count, 3] = node
                        found[found_count, 4] = after
                        found_count += 1
                if reader < 0:
                    break
                other = lists[reader, 0]
                reader = lists[reader, 1]
                conflict = 1

            if write[access]:
                if node != start[access]:
                    is_node[node] = False
                    nodes_in[node // block] -= 1
            elif readers[node] == old_list:
                readers[node] = new_list
            else:
                old_list = readers[node]
                rest = old_list
                if rest >= 0 and chain[lists[rest, 0]] == chain[this]:
                    rest = lists[rest, 1]
                if list_count == lists.shape[0]:
                    lists = _grown(lists)
                lists[list_count, 0] = this
                lists[list_count, 1] = rest
                new_list = np.int32(list_count)
                list_count += 1
                readers[node] = new_list
            node = after
        if write[access]:
            following[start[access]] = stop[access]
            writer[start[access]] = this
            readers[start[access]] = -1

    return found[:found_count, :3].copy(), found[:found_count, 3:].astype(np.int64)
