"""A region that is in a core's memory, or in one on the way to it, already is not loaded again."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tilewright.program.columns import COPY
from tilewright.program.rows import Access, GroupRows, Row
from tilewright.tiling.group import TiledOp

if TYPE_CHECKING:
    from tilewright.program.context import Context


@dataclass(frozen=True, slots=True)
class DuplicateCopies:
    """Within a group, a tile uses what the tile before it on the same core has loaded, and what any
    tile has brought to a memory on the way (an L2) that has room for all of it."""

    name: ClassVar[str] = "duplicate-copies"
    requires: ClassVar[str] = "rows of a group, each tile loading all it reads"
    ensures: ClassVar[str] = "no tile loads what the one before it has, or what an L2 holds"

    def run(self, context: "Context", ops: tuple[TiledOp, ...], made: GroupRows) -> None:
        """Change the rows of a group."""
        renamed: dict[int, int] = {}
        held: dict[tuple[int, Access], tuple[int, int]] = {}
        turns: dict[int, list[int]] = {}  # by memory: the turns that loaded something into it
        roomy = _roomy(context, made)
        kept: list[Row] = []
        for row in made.rows:
            for place, (slot, at, layout) in enumerate(row.reads if renamed else ()):
                if slot in renamed:
                    row.reads[place] = (renamed[slot], at, layout)
            if row.kind == COPY and context.home[row.source] < 0:
                mine = turns.setdefault(row.target, [])
                if not mine or mine[-1] != row.turn:
                    mine.append(row.turn)
                key = (row.target, row.reads[0])
                known = held.get(key)
                target = row.writes[0][0]
                if known is not None and (row.target in roomy or known[1] in mine[-2:]):
                    renamed[target] = known[0]
                    held[key] = (known[0], row.turn)
                    continue
                held[key] = (target, row.turn)
            kept.append(row)
        made.rows[:] = kept


def _roomy(context: "Context", made: GroupRows) -> set[int]:
    """Memories between the main one and the cores that have room for every region that the group
    brings there, each once."""
    regions: dict[tuple[int, Access], int] = {}
    for row in made.rows if context.machine.on_chip else ():
        slot = row.writes[0][0] if row.kind == COPY else -1
        if slot >= 0 and context.home[row.source] < 0 and context.home[row.target] < 0:
            regions.setdefault((row.target, row.reads[0]), made.buffers[slot][1])
    needed: dict[int, int] = {}
    for (memory, _), size in regions.items():
        needed[memory] = needed.get(memory, 0) + size
    return {memory for memory, size in needed.items() if size <= context.usable[memory]}
