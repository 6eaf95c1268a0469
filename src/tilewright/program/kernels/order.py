# pyright: basic, reportArgumentType=false, reportReturnType=false
# Numba checks the types of compiled functions; what it infers of arrays, pyright cannot.
"""The order tasks are issued in, and the links that copies take."""

from typing import NamedTuple

import numpy as np

from tilewright.compiled import njit
from tilewright.program.columns import COPY, Columns, Copies, Needs
from tilewright.program.kernels.link import put_sorted
from tilewright.program.kernels.prefetch import Loads
from tilewright.schedule.problem import Ids, Quantities


class Issued(NamedTuple):
    """Tasks on their engines, in the order they are issued: latency or time, and bytes moved over
    bandwidth that is shared; `choice` is the link among those that can carry a copy."""

    engine: Ids
    duration: Quantities
    transfer: Quantities
    choice: Ids


@njit()
def issued_order(tasks: int, loads: Loads, issue: Ids) -> Ids:
    """The numbers of the tasks in the order they are issued: loads before the task at whose
    position they are issued, idle ones at the end."""
    count = loads.rest.size
    start = np.zeros(count + 2, np.int64)
    for place in issue:
        start[place + 1] += 1
    for place in range(count + 1):
        start[place + 1] += start[place]
    rows = np.empty(issue.size, np.int32)
    fill = start.copy()
    for index in range(issue.size):
        rows[fill[issue[index]]] = loads.loads[index]
        fill[issue[index]] += 1
    order = np.empty(tasks, np.int32)
    filled = 0
    for place in range(count):
        for entry in range(start[place], start[place + 1]):
            order[filled] = rows[entry]
            filled += 1
        order[filled] = loads.rest[place]
        filled += 1
    for task in loads.idle:
        order[filled] = task
        filled += 1
    return order


@njit()
def own_places(tasks: int, loads: Loads) -> Ids:
    """The positions at which loads stand in the program: where nothing is issued ahead."""
    place = np.zeros(tasks, np.int32)
    rank = 0
    for task in range(tasks):
        place[task] = rank
        if rank < loads.rest.size and loads.rest[rank] == task:
            rank += 1
    return place[loads.loads]


def in_place(columns: Columns) -> Columns:
    """The same with results over operands, where they may lie so. Who writes the result is the last
    to read the operand, so nobody has to wait for anything more."""
    over = columns.over[columns.buffer]
    return columns._replace(buffer=np.where(over < 0, columns.buffer, over))


@njit()
def permuted(columns: Columns, order: Ids) -> Columns:
    """The same tasks in another order."""
    start = np.zeros(order.size + 1, np.int64)
    for new in range(order.size):
        start[new + 1] = (
            start[new] + columns.access_start[order[new] + 1] - columns.access_start[order[new]]
        )
    rows = np.empty(columns.buffer.size, np.int64)
    for new in range(order.size):
        for entry in range(start[new + 1] - start[new]):
            rows[start[new] + entry] = columns.access_start[order[new]] + entry
    return Columns(
        columns.kind[order],
        columns.engine[order],
        columns.source[order],
        columns.target[order],
        columns.cycles[order],
        columns.moved[order],
        columns.copy[order],
        columns.choice[order],
        columns.tile[order],
        columns.group[order],
        columns.energy[order],
        start,
        columns.buffer[rows],
        columns.offset[rows],
        columns.layout[rows],
        columns.write[rows],
        columns.memory,
        columns.size,
        columns.alignment,
        columns.over,
        columns.fixed,
    )


@njit()
def renumbered(order: Ids, needs: Needs) -> tuple[Needs, bool]:
    """What tasks wait for, in another order; False where one then comes before what it waits
    for."""
    tasks = order.size
    place = np.empty(tasks, np.int32)
    for new in range(tasks):
        place[order[new]] = new
    start = np.zeros(tasks + 1, np.int64)
    rows = np.empty(needs.needs.size, np.int32)
    filled = 0
    valid = True
    for new in range(tasks):
        begin = filled
        for entry in range(needs.start[order[new]], needs.start[order[new] + 1]):
            earlier = place[needs.needs[entry]]
            put_sorted(rows, begin, filled, earlier)
            filled += 1
        valid = valid and (filled == begin or rows[filled - 1] < new)
        start[new + 1] = filled
    return Needs(start, rows), valid


@njit()
def issued_on(columns: Columns, copies: Copies, order: Ids, choice: Ids) -> Issued:
    """Tasks in order, copies on the links chosen for them."""
    tasks = order.size
    engine = np.empty(tasks, np.int32)
    duration = np.empty(tasks, np.int64)
    transfer = np.empty(tasks, np.int64)
    for new in range(tasks):
        task = order[new]
        engine[new] = columns.engine[task]
        duration[new], transfer[new] = columns.cycles[task], columns.moved[task]
        if columns.kind[task] != COPY:
            continue
        copy, way = columns.copy[task], choice[new]
        engine[new] = copies.link[copy, way]
        duration[new], transfer[new] = copies.cycles[copy, way], copies.moved[copy, way]
        if copies.unshared[copy, way] >= 0:
            duration[new] += copies.unshared[copy, way]
            transfer[new] = 0
    return Issued(engine, duration, transfer, choice)
