"""Edges that keep a buffer's bytes from being overwritten before its last user is done.

Buffers share addresses when one is dead before the other is born, in program order. Engines do not
run in program order, so every user of the old buffer has to be ordered before every user of the new
one: by what is there already, or else by an edge from the old one's last users.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.compiled import njit
from tilewright.schedule.order import Chains, chains_of
from tilewright.schedule.problem import Flags, Ids, Problem, Quantities

Bits = npt.NDArray[np.uint64]

_BLOCKS = 16
"""Where not all chains are followed, the last 64 x so many tasks are, one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacedBuffers:
    """Where each buffer lies, the bytes [start, stop) of a memory, and which tasks use it.

    The users of buffer b are `users[user_start[b]:user_start[b + 1]]`, in program order. Data that
    is used in place belongs to one buffer.
    """

    memory: Ids
    start: Quantities
    stop: Quantities
    user_start: Quantities
    users: Ids

    @classmethod
    def of(
        cls, places: Sequence[tuple[int, int, int]], users: Sequence[Sequence[int]]
    ) -> "PlacedBuffers":
        """From rows of memory, start, stop, and for each the tasks that use it."""
        columns = list(zip(*places, strict=True)) if places else [()] * 3
        lengths = [0, *(len(set(row)) for row in users)]
        return cls(
            memory=np.array(columns[0], dtype=np.int32),
            start=np.array(columns[1], dtype=np.int64),
            stop=np.array(columns[2], dtype=np.int64),
            user_start=np.cumsum(np.array(lengths, dtype=np.int64)),
            users=np.array([task for row in users for task in sorted(set(row))], dtype=np.int32),
        )

    @property
    def count(self) -> int:
        """How many buffers there are."""
        return self.memory.size


def reuse_edges(problem: Problem, buffers: PlacedBuffers, *, followed: int = 64) -> tuple[Ids, Ids]:
    """The edges (first, second) to add so that reused bytes are never touched out of order.

    None of them follows from the others and what the program has already; except that with more
    chains (see `order.py`) than are followed, tasks of the others that are more than about a
    thousand tasks apart may get an edge that is implied.
    """
    old, new = succeeding_buffers(buffers)
    chains = chains_of(problem)
    first, second = _waits(problem, buffers, old, new, chains)
    tracked, counts = np.unique(chains.chain, return_counts=True)
    if tracked.size > followed:
        tracked = tracked[np.argsort(-counts, kind="stable")[:followed]]
    column_of = np.full(chains.total, -1, dtype=np.int32)
    column_of[tracked] = np.arange(tracked.size, dtype=np.int32)
    begin = np.searchsorted(second, np.arange(problem.count + 1))
    chosen = np.zeros(first.size, dtype=np.bool_)
    known = np.full((problem.count, tracked.size), -1, dtype=np.int32)
    blocks = _BLOCKS if chains.total > followed else 0
    recent = np.zeros((problem.count, blocks), dtype=np.uint64)
    _choose(chains, column_of, begin.astype(np.int64), first, known, recent, chosen)
    return first[chosen], second[chosen]


def succeeding_buffers(buffers: PlacedBuffers) -> tuple[Ids, Ids]:
    """Pairs (old, new): some bytes go from the one straight to the other in program order."""
    used = np.flatnonzero(np.diff(buffers.user_start) > 0)
    used = used[buffers.start[used] < buffers.stop[used]]
    born = buffers.users[buffers.user_start[used]]
    old: list[int] = []
    new: list[int] = []
    occupants: dict[int, list[tuple[int, int, int]]] = {}
    for buffer in used[np.argsort(born, kind="stable")].tolist():
        pieces = occupants.setdefault(int(buffers.memory[buffer]), [])
        start, stop = int(buffers.start[buffer]), int(buffers.stop[buffer])
        earlier = _replace(pieces, start, stop, buffer)
        first_use = int(buffers.users[buffers.user_start[buffer]])
        for other in earlier:
            if int(buffers.users[buffers.user_start[other + 1] - 1]) >= first_use:
                raise ValueError(f"buffers {other} and {buffer} overlap and are live together")
            old.append(other)
            new.append(buffer)
    return np.array(old, dtype=np.int32), np.array(new, dtype=np.int32)


def _replace(pieces: list[tuple[int, int, int]], start: int, stop: int, buffer: int) -> list[int]:
    """Give [start, stop) to a buffer in a sorted list of (start, stop, buffer); who had it."""
    begin = bisect_right(pieces, start, key=lambda piece: piece[1])
    end = begin
    kept: list[tuple[int, int, int]] = []
    earlier: list[int] = []
    while end < len(pieces) and pieces[end][0] < stop:
        piece_start, piece_stop, other = pieces[end]
        if piece_start < start:
            kept.append((piece_start, start, other))
        if stop < piece_stop:
            kept.append((stop, piece_stop, other))
        if other not in earlier:
            earlier.append(other)
        end += 1
    pieces[begin:end] = sorted([*kept, (start, stop, buffer)])
    return earlier


def _waits(
    problem: Problem, buffers: PlacedBuffers, old: Ids, new: Ids, chains: Chains
) -> tuple[Ids, Ids]:
    """Pairs of tasks to order: the last user on every chain of each old buffer, and the first of
    the new one. Sorted by the second task, then latest first task first."""
    owner = np.repeat(np.arange(buffers.count), np.diff(buffers.user_start))
    key = owner * chains.total + chains.chain[buffers.users]
    first_key, first_index = np.unique(key, return_index=True)
    last_key, last_index = np.unique(key[::-1], return_index=True)
    firsts = buffers.users[first_index]
    lasts = buffers.users[::-1][last_index]
    limits = np.arange(buffers.count + 1) * max(1, chains.total)
    first_start = np.searchsorted(first_key, limits)
    last_start = np.searchsorted(last_key, limits)
    wide = np.diff(first_start)[new]
    size = np.diff(last_start)[old] * wide
    pair = np.repeat(np.arange(old.size), size)
    offset = np.arange(pair.size) - np.repeat(np.cumsum(size) - size, size)
    first = lasts[last_start[old[pair]] + offset // wide[pair]]
    second = firsts[first_start[new[pair]] + offset % wide[pair]]
    loose = chains.chain[first] != chains.chain[second]
    total = max(1, problem.count)
    keys = np.unique(second[loose].astype(np.int64) * total + (total - 1 - first[loose]))
    return (total - 1 - keys % total).astype(np.int32), (keys // total).astype(np.int32)


@njit(inner=True)
def _learn(known: Ids, recent: Bits, task: int, earlier: int) -> None:
    """The task comes after an earlier one and all that this one comes after.

    known[task, column] is as in `order.py`; bit b of recent[task, block] says that the task comes
    after task 64 * (task // 64 - block) + b.
    """
    for column in range(known.shape[1]):
        known[task, column] = max(known[task, column], known[earlier, column])
    behind = task // 64 - earlier // 64
    for block in range(behind, recent.shape[1]):
        recent[task, block] |= recent[earlier, block - behind]
    if behind < recent.shape[1]:
        recent[task, behind] |= np.uint64(1) << np.uint64(earlier % 64)


@njit()
def _choose(
    chains: Chains,
    column_of: Ids,
    begin: Quantities,
    first: Ids,
    known: Ids,
    recent: Bits,
    chosen: Flags,
) -> None:
    """Mark the waits that neither the program nor those marked before imply."""
    chain, before, position = chains.chain, chains.before, chains.position
    for task in range(chain.size):
        if before[task] >= 0:
            _learn(known, recent, task, before[task])
        for entry in range(chains.need_start[task], chains.need_start[task + 1]):
            _learn(known, recent, task, chains.needs[entry])
        for wait in range(begin[task], begin[task + 1]):
            earlier: int = first[wait]
            other: int = chain[earlier]
            column: int = column_of[other]
            behind = task // 64 - earlier // 64
            if column >= 0:
                implied = known[task, column] >= position[earlier]
            elif behind < recent.shape[1]:
                bit = recent[task, behind] >> np.uint64(earlier % 64)
                implied = bit & np.uint64(1) != 0
            else:
                implied = False
            if not implied:
                chosen[wait] = True
                _learn(known, recent, task, earlier)
        if column_of[chain[task]] >= 0:
            known[task, column_of[chain[task]]] = position[task]
