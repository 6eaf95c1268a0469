# pyright: basic, reportArgumentType=false, reportReturnType=false
# Numba checks the types of compiled functions; what it infers of arrays, pyright cannot.
"""Matrix and vector engines on neighbouring tiles of a group at the same time."""

import numpy as np

from tilewright.compiled import njit
from tilewright.memory.greedy import ranked
from tilewright.program.columns import COMPUTE, Columns, Hardware, Needs
from tilewright.schedule.problem import Ids


@njit()
def wavefront(columns: Columns, needs: Needs, hardware: Hardware) -> Ids:
    """The tasks of one group by turn of their core plus the number of engine changes before them in
    their tile; what a task waits for in an earlier tile (a kept halo, a value made once for all)
    stays before it. Of one level, later tiles come first: they do not take the bytes of what the
    other engine still reads. The order as it is where engines do not alternate."""
    tasks = columns.kind.size
    tiles = np.int64(0)
    for tile in columns.tile:
        tiles = max(tiles, tile + 1)
    home = np.full(tiles, -1, np.int64)
    present = np.zeros(tiles, np.bool_)
    for task in range(tasks):
        present[columns.tile[task]] = True
        if columns.kind[task] == COMPUTE:
            home[columns.tile[task]] = hardware.core_of[columns.engine[task]]
    taken = np.zeros(hardware.cores + 1, np.int64)
    turn = np.zeros(tiles, np.int64)
    for tile in range(tiles):
        if present[tile]:
            turn[tile] = taken[home[tile]]
            taken[home[tile]] += 1
    level = np.zeros(tasks, np.int64)
    engine = np.full(tiles, -1, np.int64)
    stage = np.zeros(tiles, np.int64)
    first = np.zeros(tasks, np.bool_)  # copies that wait for nothing in the group
    deepest = 0
    for task in range(tasks):
        tile = columns.tile[task]
        compute = columns.kind[task] == COMPUTE
        here = stage[tile]
        if compute and engine[tile] >= 0 and engine[tile] != columns.engine[task]:
            here += 1
        for entry in range(needs.start[task], needs.start[task + 1]):
            earlier = needs.needs[entry]
            behind = not first[earlier] and columns.tile[earlier] != tile
            here = max(here, level[earlier] + behind - turn[tile])
        if compute:
            engine[tile], stage[tile] = columns.engine[task], here
        elif needs.start[task + 1] == needs.start[task]:
            first[task] = True
        level[task] = turn[tile] + here
        deepest = max(deepest, here)
    if deepest == 0:
        return np.arange(tasks).astype(np.int32)
    rank = np.empty(tasks, np.int64)
    turns = np.empty(tasks, np.int64)
    for task in range(tasks):
        rank[task] = level[task] * 2 + (not first[task])
        turns[task] = -columns.tile[task]
    return ranked(rank, turns).astype(np.int32)
