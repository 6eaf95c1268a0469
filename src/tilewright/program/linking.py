"""The blocks of a plan, one behind the other, their slots bound to the plan's buffers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tilewright.plan.plan import Plan
from tilewright.program.block import Block
from tilewright.program.columns import Columns, gathered
from tilewright.program.kernels.gather import gather
from tilewright.program.main_memory import Main
from tilewright.program.regions import Regions
from tilewright.program.shared import Owner, Shared
from tilewright.schedule.problem import Quantities


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """How plans keep a resident tensor: its regions and their number, whether it is stored too, and
    the nodes that load it again; where it lies together with others, `joint` is the name of their
    buffers. `placed`: it is not resident, but tiles hold it there. There is one for each way:
    whoever is the same is equal."""

    number: int
    stored: bool
    again: frozenset[str]
    regions: Regions
    joint: str = ""
    placed: bool = False


class Site(NamedTuple):
    """A group where a plan puts it: its block, the names of its values, and for each outside buffer
    of the block a row: the shared buffer it is, and the byte in that."""

    block: Block
    names: tuple[str, ...]
    bound: Quantities


class Linked(NamedTuple):
    """A plan's columns and what they stand for: the block and the values of every group that has
    tasks, by its number in the plan; buffers that groups share come first, then those of blocks."""

    plan: Plan
    columns: Columns
    groups: tuple[tuple[int, Block, tuple[str, ...]], ...]
    owners: tuple[Owner, ...]
    main: Main


def linked(shared: Shared, plan: Plan, main: Main, sites: Sequence[tuple[int, Site]]) -> Linked:
    """All blocks of a plan, by the numbers of their groups."""
    columns, used = joined(shared, main, sites)
    groups = tuple([(number, site.block, site.names) for number, site in sites])
    numbers: list[int] = used.tolist()
    owners = tuple([shared.owners[number] for number in numbers])
    return Linked(plan, columns, groups, owners, main)


def joined(
    shared: Shared, main: Main, sites: Sequence[tuple[int, Site]]
) -> tuple[Columns, Quantities]:
    """The columns of all blocks, and the shared buffers among them, which come first."""
    packed = np.concatenate([_NONE, *[site.block.packed for _, site in sites]])
    bound = np.concatenate([main.given, *[site.bound for _, site in sites]])
    tasks, energy, start, accesses, buffers, used = gather(
        packed,
        packed.view(np.float64),
        np.array([number for number, _ in sites], np.int64),
        bound,
        len(main.given),
        shared.table,
        shared.context.tables.alignments,
    )
    fixed = np.zeros(buffers.shape[1], np.bool_)
    fixed[: len(main.given)] = True
    return gathered(tasks, energy, start, accesses, buffers, fixed), used


_NONE = np.zeros(0, np.int64)
