"""A group's rows as columns, relative to the group: what alike groups of all plans share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.program.columns import COMPUTE, Columns, gathered
from tilewright.program.kernels.gather import HEAD, OF_ACCESS, OF_BUFFER, OF_TASK
from tilewright.program.kernels.link import link
from tilewright.program.kernels.live import live_in_block
from tilewright.program.kernels.wavefront import wavefront
from tilewright.program.rows import Access, GroupRows, Local, Outside, Row, Told
from tilewright.program.tables import Tables
from tilewright.schedule.problem import Ids

Table = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """`packed` has all tables in a row (`kernels/gather.py`): of tasks, their energies and numbers
    of accesses, of accesses and of buffers. `told`, `locals` and `outside` say what these stand
    for. `live` are the bytes of every memory but the main one that are live at once, whenever loads
    are issued."""

    packed: Table
    told: tuple[Told, ...]
    locals: tuple[Local, ...]
    outside: tuple[Outside, ...]
    live: tuple[int, ...]


def block_of(made: GroupRows, tables: Tables, *, pipelined: bool) -> Block:
    """The block of a group; where `pipelined`, its engines work on neighbouring tiles."""
    accesses = [access for row in made.rows for some in (row.reads, row.writes) for access in some]
    seen = {slot for slot, _, _ in accesses}
    used = {slot: number for number, slot in enumerate(sorted([s for s in seen if s >= 0]))}
    packed = _packed(made, accesses, used, tables)
    told: list[Told] = [(row.ops, int(row.title), row.work, row.value) for row in made.rows]
    if pipelined and _alternates(made.rows):
        columns = _alone(_Tables.of(packed))
        order = wavefront(columns, link(columns, tables.views), tables.hardware)
        told = [told[number] for number in order.tolist()]
        packed = _Tables.of(packed).ordered(order)
    beside = np.array([outside[2:] for outside in made.outside], np.int64).reshape(-1, 3)
    live = live_in_block(packed, beside, tables.hardware.main, tables.hardware.home.size)
    return Block(
        packed,
        tuple(told),
        tuple([made.buffers[slot] for slot in used]),
        tuple(made.outside),
        tuple(live.tolist()),
    )


def _alternates(rows: list[Row]) -> bool:
    """Whether several tiles use more than one engine each."""
    engines: dict[int, int] = {}
    several = False
    for row in rows:
        if row.kind == COMPUTE:
            engine = row.price.engine
            several |= engines.setdefault(row.turn, engine) != engine
    return several and len(engines) > 1


def _packed(
    made: GroupRows, accesses: Sequence[Access], used: dict[int, int], tables: Tables
) -> Table:
    """All tables of a group in a row; `used` are the buffers that its accesses still use, with the
    numbers they get."""
    rows = made.rows
    own = [made.buffers[slot] for slot in used]
    numbers: list[int] = [len(rows), len(accesses), len(own), len(made.outside)]
    if rows:
        engine, cycles, energy, moved, copy, choice = zip(*[row.price for row in rows], strict=True)
        slots, offsets, layouts = zip(*accesses, strict=True)
        numbers += [row.kind for row in rows]
        numbers += engine
        numbers += [row.source for row in rows]
        numbers += [row.target for row in rows]
        numbers += (*cycles, *moved, *copy, *choice)
        numbers += [row.turn for row in rows]
        numbers += np.array(energy, np.float64).view(np.int64).tolist()
        numbers += [len(row.reads) + len(row.writes) for row in rows]
        numbers += [slot if slot < 0 else used[slot] for slot in slots]
        numbers += offsets
        numbers += layouts
        for row in rows:
            numbers += [0] * len(row.reads) + [1] * len(row.writes)
    numbers += [memory for memory, _, _, _ in own]
    numbers += [size for _, size, _, _ in own]
    numbers += [tables.alignment[memory] for memory, _, _, _ in own]
    numbers += [used.get(made.over.get(slot, -1), -1) for slot in used]
    return np.fromiter(numbers, np.int64, len(numbers))


class _Tables(NamedTuple):
    """`tasks` has a row for each column of a task (`Columns`, kind to tile), `accesses` for slot,
    offset, layout and write, `buffers` for memory, size, alignment and which they may lie over;
    `lengths` are accesses per task. `counts` has how many there are of each, and of outside
    buffers."""

    counts: Table
    tasks: Table
    energy: Table
    lengths: Table
    accesses: Table
    buffers: Table

    @staticmethod
    def of(packed: Table) -> "_Tables":
        """Those of a block."""
        tasks, accesses, _, _ = packed[:HEAD].tolist()
        energy = HEAD + OF_TASK * tasks
        lengths, begin = energy + tasks, energy + 2 * tasks
        end = begin + OF_ACCESS * accesses
        return _Tables(
            packed[:HEAD],
            packed[HEAD:energy].reshape(OF_TASK, -1),
            packed[energy:lengths],
            packed[lengths:begin],
            packed[begin:end].reshape(OF_ACCESS, -1),
            packed[end:].reshape(OF_BUFFER, -1),
        )

    def ordered(self, order: Ids) -> Table:
        """The same with its tasks in another order, in a row."""
        lengths = self.lengths[order]
        first = np.repeat((np.cumsum(self.lengths) - self.lengths)[order], lengths)
        within = np.arange(first.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows: Table = first + within
        tables = (self.counts, self.tasks.take(order, axis=1), self.energy[order], lengths)
        others = (self.accesses.take(rows, axis=1), self.buffers)
        return np.concatenate([table.ravel() for table in (*tables, *others)])


def _alone(rows: _Tables) -> Columns:
    """The block as a program of its own: outside buffers come behind its own."""
    own, outside = rows.buffers.shape[1], int(rows.counts[3])
    slots = rows.accesses[0]
    buffers = np.concatenate((rows.buffers, np.zeros((OF_BUFFER, outside), np.int64)), axis=1)
    groups = np.zeros((1, rows.tasks.shape[1]), np.int64)
    bound = slots.copy()
    bound[slots < 0] = own + ~slots[slots < 0]
    return gathered(
        np.concatenate((rows.tasks, groups)),
        rows.energy.view(np.float64),
        np.concatenate((np.zeros(1, np.int64), np.cumsum(rows.lengths))),
        np.concatenate((bound[None], rows.accesses[1:])),
        buffers,
        np.zeros(len(buffers[0]), np.bool_),
    )
