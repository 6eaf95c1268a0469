"""The blocks of a plan, one behind the other, their slots bound to the plan's buffers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tilewright.plan.plan import Plan
from tilewright.program.block import Block
from tilewright.program.columns import Columns, gathered
from tilewright.program.main_memory import Main
from tilewright.program.regions import Regions
from tilewright.program.shared import Owner, Shared
from tilewright.schedule.problem import Quantities


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """How plans keep a resident tensor: its regions and their number, whether it is stored too, and
    the nodes that load it again. There is one for each way: whoever is the same is equal."""

    number: int
    stored: bool
    again: frozenset[str]
    regions: Regions


class Site(NamedTuple):
    """A group where a plan puts it: its block, the names of its values, and the shared buffers
    (and bytes in them) that its outside ones are."""

    block: Block
    names: tuple[str, ...]
    buffers: Quantities
    offsets: Quantities


class Linked(NamedTuple):
    """A plan's columns and what they stand for: the block and the values of every group that has
    tasks, by its number in the plan; buffers that groups share come first, then those of blocks."""

    plan: Plan
    columns: Columns
    groups: tuple[tuple[int, Block, tuple[str, ...]], ...]
    owners: tuple[Owner, ...]
    main: Main


def joined(shared: Shared, plan: Plan, main: Main, sites: Sequence[tuple[int, Site]]) -> Linked:
    """All blocks of a plan, by the numbers of their groups."""
    given = np.array(main.given, np.int64)
    bound = np.concatenate([given, *[site.buffers for _, site in sites]])
    used: list[int] = list(dict.fromkeys(bound.tolist()))  # in the order in which they are met
    table = shared.table
    number = np.empty(len(table), np.int64)
    number[used] = np.arange(len(used))
    offsets = np.concatenate([np.zeros(0, np.int64), *[site.offsets for _, site in sites]])
    alignments = np.array([m.alignment for m in shared.context.machine.memories], np.int64)
    memory, size = table[used].T
    columns = _columns(
        [(number, site.block) for number, site in sites],
        np.stack((memory, size, alignments[memory])),
        given.size,
        number[bound[given.size :]],
        offsets,
    )
    groups = tuple([(number, site.block, site.names) for number, site in sites])
    owners = tuple([shared.owners[number] for number in used])
    return Linked(plan, columns, groups, owners, main)


def _columns(
    blocks: list[tuple[int, Block]],
    shared: Quantities,
    given: int,
    bound: Quantities,
    offsets: Quantities,
) -> Columns:
    """Gather the columns of all blocks; `bound` and `offsets` are for their outside buffers, one
    block after the other."""
    tasks = _side_by_side([block.tasks for _, block in blocks], 9)
    slot, offset, layout, write = _side_by_side([block.accesses for _, block in blocks], 4)
    buffers = _side_by_side([block.buffers for _, block in blocks], 3)
    lengths = np.concatenate([np.zeros(1, np.int64), *(b.lengths for _, b in blocks)])
    energy = np.concatenate([np.zeros(0), *(block.energy for _, block in blocks)])
    counts = np.array([block.tasks.shape[1] for _, block in blocks], np.int64)
    touched = np.array([block.accesses.shape[1] for _, block in blocks], np.int64)
    own = _begins([block.buffers.shape[1] for _, block in blocks], shared.shape[1])
    outside = _begins([len(block.outside) for _, block in blocks], 0)
    numbers = np.array([number for number, _ in blocks], np.int64)
    outer = slot < 0  # of another group too: bound to a buffer of the plan
    which = np.repeat(outside, touched)[outer] + ~slot[outer]
    buffer = slot + np.repeat(own, touched)
    buffer[outer] = bound[which]
    moved = offset.copy()
    moved[outer] += offsets[which]
    fixed = np.zeros(shared.shape[1] + buffers.shape[1], np.bool_)
    fixed[:given] = True
    return gathered(
        np.concatenate((tasks, np.repeat(numbers, counts)[None])),
        energy,
        np.cumsum(lengths),
        np.stack((buffer, moved, layout, write)),
        np.concatenate((shared, buffers), axis=1),
        fixed,
    )


def _side_by_side(tables: list[Quantities], rows: int) -> Quantities:
    return np.concatenate([np.zeros((rows, 0), np.int64), *tables], axis=1)


def _begins(counts: list[int], first: int) -> Quantities:
    """Where each of several runs of numbers begins."""
    return np.cumsum(np.array([first, *counts], np.int64))[:-1]
