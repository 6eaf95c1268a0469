# pyright: basic, reportArgumentType=false, reportReturnType=false
# Numba checks the types of compiled functions; what it infers of arrays, pyright cannot.
"""The blocks of a plan, one behind the other, as the tables of one program."""

import numpy as np

from tilewright.compiled import njit
from tilewright.program.columns import Floats
from tilewright.schedule.problem import Quantities

HEAD = 4  # numbers before a block's tables: its tasks, accesses, buffers, and buffers of others too
OF_TASK, OF_ACCESS, OF_BUFFER = 9, 4, 4  # rows of these tables
OVER = 3  # of a buffer: which other it may lie over
PER_TASK = OF_TASK + 2  # with energies and numbers of accesses


@njit()
def gather(
    packed: Quantities,
    energies: Floats,
    groups: Quantities,
    bound: Quantities,
    given: int,
    table: Quantities,
    alignments: Quantities,
) -> tuple[Quantities, Floats, Quantities, Quantities, Quantities, Quantities]:
    """Tables of tasks, accesses and buffers; and the shared buffers in use, which come before those
    of blocks, in the order in which they are met.

    `packed` are the blocks of `groups`, `energies` the same bytes as floats. `bound` has a row for
    each `given` buffer of the host, then for each outside one of each block: its number in the
    `table` of shared buffers (memory, bytes), and the byte it begins at."""
    tasks, accesses, buffers = 0, 0, 0
    at = 0
    for _ in range(groups.size):
        count, touched, own = packed[at], packed[at + 1], packed[at + 2]
        tasks, accesses, buffers = tasks + count, accesses + touched, buffers + own
        at += HEAD + PER_TASK * count + OF_ACCESS * touched + OF_BUFFER * own
    number = np.full(len(table), -1, np.int64)
    used = np.empty(len(bound), np.int64)
    shared = 0
    for row in range(len(bound)):
        if number[bound[row, 0]] < 0:
            number[bound[row, 0]] = shared
            used[shared] = bound[row, 0]
            shared += 1
    of_task = np.empty((OF_TASK + 1, tasks), np.int64)
    energy = np.empty(tasks, np.float64)
    start = np.zeros(tasks + 1, np.int64)
    of_access = np.empty((OF_ACCESS, accesses), np.int64)
    of_buffer = np.empty((OF_BUFFER, shared + buffers), np.int64)
    for buffer in range(shared):
        memory = table[used[buffer], 0]
        of_buffer[0, buffer] = memory
        of_buffer[1, buffer] = table[used[buffer], 1]
        of_buffer[2, buffer] = alignments[memory]
        of_buffer[OVER, buffer] = -1
    task, access, buffer, outside = 0, 0, shared, given
    at = 0
    for place in range(groups.size):
        count, touched, own, others = packed[at], packed[at + 1], packed[at + 2], packed[at + 3]
        at += HEAD
        for row in range(OF_TASK):
            for k in range(count):
                of_task[row, task + k] = packed[at + k]
            at += count
        for k in range(count):
            of_task[OF_TASK, task + k] = groups[place]
            energy[task + k] = energies[at + k]
            start[task + k + 1] = start[task + k] + packed[at + count + k]
        at += 2 * count
        for k in range(touched):
            slot, offset = packed[at + k], packed[at + touched + k]
            if slot < 0:  # of another group too: bound to a buffer of the plan
                of_access[0, access + k] = number[bound[outside + ~slot, 0]]
                of_access[1, access + k] = offset + bound[outside + ~slot, 1]
            else:
                of_access[0, access + k] = buffer + slot
                of_access[1, access + k] = offset
            of_access[2, access + k] = packed[at + 2 * touched + k]
            of_access[3, access + k] = packed[at + 3 * touched + k]
        at += OF_ACCESS * touched
        for row in range(OF_BUFFER):
            for k in range(own):
                of_buffer[row, buffer + k] = packed[at + k]
            at += own
        for k in range(own):
            if of_buffer[OVER, buffer + k] >= 0:
                of_buffer[OVER, buffer + k] += buffer
        task, access, buffer, outside = (
            task + count,
            access + touched,
            buffer + own,
            outside + others,
        )
    return of_task, energy, start, of_access, of_buffer, used[:shared].copy()
