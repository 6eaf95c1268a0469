"""A group's rows as columns, relative to the group: what alike groups of all plans share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.program.columns import COMPUTE, Columns, Hardware, gathered
from tilewright.program.kernels.link import link
from tilewright.program.kernels.live import live_in_block
from tilewright.program.kernels.wavefront import wavefront
from tilewright.program.rows import GroupRows, Local, Outside, Row, Told
from tilewright.program.tables import Tables

Table = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """`tasks` has a row for each column of a task (`Columns`, kind to tile), `accesses` for slot,
    offset, layout and write, `buffers` for memory, size and alignment; `lengths` are accesses per
    task. `told`, `locals` and `outside` say what these stand for. `live` are the bytes of every
    memory but the main one that are live at once, whenever loads are issued."""

    tasks: Table
    energy: Numbers
    lengths: Table
    accesses: Table
    buffers: Table
    told: tuple[Told, ...]
    locals: tuple[Local, ...]
    outside: tuple[Outside, ...]
    live: tuple[int, ...]


class Standing(NamedTuple):
    """A buffer that others use too, in a core's memory (0 bytes: not there); `stays`: who has it
    written there reads it later."""

    memory: int = 0
    size: int = 0
    stays: bool = False


def block_of(
    made: GroupRows, tables: Tables, standing: Sequence[Standing], *, pipelined: bool
) -> Block:
    """The block of a group; where `pipelined`, its engines work on neighbouring tiles. `standing`
    are its outside buffers."""
    block = _block(made, tables)
    if pipelined and _alternates(made.rows):
        columns = _alone(block)
        order = wavefront(columns, link(columns, tables.views), tables.hardware)
        made.rows[:] = [made.rows[number] for number in order.tolist()]
        block = _block(made, tables)
    return replace(block, live=_live(block, tables.hardware, standing))


def _live(block: Block, hardware: Hardware, standing: Sequence[Standing]) -> tuple[int, ...]:
    memory, size, stays = np.array(standing, np.int64).reshape(-1, 3).T
    live = live_in_block(
        block.tasks,
        block.lengths,
        block.accesses,
        np.concatenate((block.buffers[0], memory)),
        np.concatenate((block.buffers[1], size)),
        stays != 0,
        block.buffers.shape[1],
        hardware.main,
        hardware.home.size,
    )
    return tuple(live.tolist())


def _alternates(rows: list[Row]) -> bool:
    """Whether several tiles use more than one engine each."""
    engines: dict[int, int] = {}
    several = False
    for row in rows:
        if row.kind == COMPUTE:
            engine = row.price.engine
            several |= engines.setdefault(row.turn, engine) != engine
    return several and len(engines) > 1


def _block(made: GroupRows, tables: Tables) -> Block:
    used = _drop_unused(made)
    rows = [
        (row.kind, engine, row.source, row.target, cycles, moved, copy, choice, row.turn)
        for row in made.rows
        for engine, cycles, _, moved, copy, choice in (row.price,)
    ]
    accesses = [
        (slot if slot < 0 else used[slot], offset, layout, write)
        for row in made.rows
        for write, views in ((0, row.reads), (1, row.writes))
        for slot, offset, layout in views
    ]
    alignments = [memory.alignment for memory in tables.machine.memories]
    kept = [made.buffers[slot] for slot in used]
    buffers = [(memory, size, alignments[memory]) for memory, size, _, _ in kept]
    return Block(
        np.array(rows, np.int64).reshape(-1, 9).T.copy(),
        np.array([row.price.energy for row in made.rows], np.float64),
        np.array([len(row.reads) + len(row.writes) for row in made.rows], np.int64),
        np.array(accesses, np.int64).reshape(-1, 4).T.copy(),
        np.array(buffers, np.int64).reshape(-1, 3).T.copy(),
        tuple([(row.ops, int(row.title), row.work, row.value) for row in made.rows]),
        tuple(kept),
        tuple(made.outside),
        (),
    )


def _drop_unused(made: GroupRows) -> dict[int, int]:
    """Buffers that rows still use, with the numbers they get."""
    seen = {slot for row in made.rows for views in (row.reads, row.writes) for slot, _, _ in views}
    return {slot: number for number, slot in enumerate(sorted(s for s in seen if s >= 0))}


def _alone(block: Block) -> Columns:
    """The block as a program of its own: outside buffers come behind its own."""
    own = block.buffers.shape[1]
    slots = block.accesses[0]
    others = np.zeros((3, len(block.outside)), np.int64)
    buffers = np.concatenate((block.buffers, others), axis=1)
    groups = np.zeros((1, block.tasks.shape[1]), np.int64)
    bound = slots.copy()
    bound[slots < 0] = own + ~slots[slots < 0]
    return gathered(
        np.concatenate((block.tasks, groups)),
        block.energy,
        np.concatenate((np.zeros(1, np.int64), np.cumsum(block.lengths))),
        np.concatenate((bound[None], block.accesses[1:])),
        buffers,
        np.zeros(len(buffers[0]), np.bool_),
    )
