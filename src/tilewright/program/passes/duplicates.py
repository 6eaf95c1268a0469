"""A region that is in a core's memory already is not loaded again, nor twice for two cores."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tilewright.program.columns import COPY
from tilewright.program.rows import Access, GroupRows, Row
from tilewright.tiling.group import TiledOp

if TYPE_CHECKING:
    from tilewright.program.context import Context


@dataclass(frozen=True, slots=True)
class DuplicateCopies:
    """Within a group, a tile uses what the tile before it on the same core has loaded."""

    name: ClassVar[str] = "duplicate-copies"
    requires: ClassVar[str] = "rows of a group, each tile loading all it reads"
    ensures: ClassVar[str] = "no tile loads what the one before it has"

    def run(self, context: "Context", ops: tuple[TiledOp, ...], made: GroupRows) -> None:
        """Change the rows of a group."""
        renamed: dict[int, int] = {}
        held: dict[tuple[int, Access], tuple[int, int]] = {}
        turns: dict[int, list[int]] = {}  # by memory: the turns that loaded something into it
        kept: list[Row] = []
        for row in made.rows:
            if renamed:
                row.reads = [
                    (renamed.get(slot, slot), at, layout) for slot, at, layout in row.reads
                ]
            if row.kind == COPY and context.home[row.source] < 0:
                mine = turns.setdefault(row.target, [])
                if not mine or mine[-1] != row.turn:
                    mine.append(row.turn)
                key = (row.target, row.reads[0])
                known = held.get(key)
                target = row.writes[0][0]
                if known is not None and known[1] in mine[-2:]:
                    renamed[target] = known[0]
                    held[key] = (known[0], row.turn)
                    continue
                held[key] = (target, row.turn)
            kept.append(row)
        made.rows[:] = kept
