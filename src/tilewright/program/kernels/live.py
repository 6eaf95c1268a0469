# pyright: basic, reportArgumentType=false, reportReturnType=false
# Numba checks the types of compiled functions; what it infers of arrays, pyright cannot.
"""Bytes that are live at once whenever loads are issued: what no order of them can undercut."""

import numpy as np

from tilewright.compiled import njit
from tilewright.program.columns import COPY, Columns, Hardware
from tilewright.program.kernels.gather import HEAD, OF_ACCESS, PER_TASK
from tilewright.program.kernels.prefetch import Loads
from tilewright.schedule.problem import Flags, Ids, Quantities


@njit()
def least_live(
    columns: Columns, hardware: Hardware, loads: Loads, held: Ids
) -> tuple[Quantities, Flags]:
    """For each memory the most bytes that are live at once if every load comes when it is used and
    what a position uses last is `held` up to another; and the positions at which those are more
    than a memory other than the main one has."""
    positions, memories = loads.rest.size + 1, hardware.home.size
    begin = loads.first.copy()
    for index in range(loads.loads.size):  # all that a load brings is there when some of it is used
        task = loads.loads[index]
        for access in range(columns.access_start[task], columns.access_start[task + 1]):
            buffer = columns.buffer[access]
            if columns.write[access] and begin[buffer] > loads.use[index]:
                begin[buffer] = loads.use[index]
    change = np.zeros((memories, positions), np.int64)
    for buffer in range(columns.memory.size):
        if loads.first[buffer] >= 0:
            change[columns.memory[buffer], begin[buffer]] += columns.size[buffer]
            change[columns.memory[buffer], held[loads.last[buffer]] + 1] -= columns.size[buffer]
    most = np.zeros(memories, np.int64)
    over = np.zeros((memories, positions), np.bool_)
    for memory in range(memories):
        live = np.int64(0)
        for place in range(positions - 1):
            live += change[memory, place]
            most[memory] = max(most[memory], live)
            over[memory, place] = live > hardware.usable[memory] and memory != hardware.main
    return most, over


@njit()
def live_in_block(packed: Quantities, standing: Quantities, main: int, memories: int) -> Quantities:
    """For each memory the most bytes that are live at once while a block runs: of its own buffers
    and of those that others use too (`standing`: memory, bytes, whether it stays), which come
    behind them. What it does not write is there from the start; what it writes, and what stays, to
    the end. Nothing is counted in the main memory."""
    count, touched, own = packed[0], packed[1], packed[2]
    buffers = own + len(standing)
    lengths = packed[HEAD + (PER_TASK - 1) * count :]
    slots = packed[HEAD + PER_TASK * count :]
    sizes = packed[HEAD + PER_TASK * count + OF_ACCESS * touched :]
    memory = np.empty(buffers, np.int64)
    size = np.empty(buffers, np.int64)
    for buffer in range(buffers):
        other = buffer - own
        memory[buffer] = sizes[buffer] if other < 0 else standing[other, 0]
        size[buffer] = sizes[own + buffer] if other < 0 else standing[other, 1]
    first = np.full(buffers, -1, np.int64)
    last = np.full(buffers, -1, np.int64)
    written = np.zeros(buffers, np.bool_)
    access = 0
    for task in range(count):
        load = packed[HEAD + task] == COPY and packed[HEAD + 2 * count + task] == main
        for _ in range(lengths[task]):
            buffer = slots[access]
            if buffer < 0:
                buffer = own + ~buffer
            written[buffer] = written[buffer] or slots[3 * touched + access] != 0
            access += 1
            if load:
                continue
            if first[buffer] < 0:
                first[buffer] = task
            last[buffer] = task
    change = np.zeros((memories, count + 1), np.int64)
    for buffer in range(buffers):
        if first[buffer] < 0 or memory[buffer] == main:
            continue
        begin, end = first[buffer], last[buffer]
        if buffer >= own and not written[buffer]:
            begin = np.int64(0)
        elif buffer >= own and standing[buffer - own, 2] != 0:
            end = np.int64(count - 1)
        change[memory[buffer], begin] += size[buffer]
        change[memory[buffer], end + 1] -= size[buffer]
    most = np.zeros(memories, np.int64)
    for number in range(memories):
        live = np.int64(0)
        for task in range(count):
            live += change[number, task]
            most[number] = max(most[number], live)
    return most
