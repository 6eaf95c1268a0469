"""A region that several cores load at the same time, or that a core passes to several others, is
read once and written to all of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tilewright.program.columns import COPY
from tilewright.program.rows import Access, GroupRows, Row, Title
from tilewright.tiling.group import TiledOp

if TYPE_CHECKING:
    from tilewright.program.context import Context


@dataclass(frozen=True, slots=True)
class Multicast:
    """Join copies of the same region to different cores where the link can write to several."""

    name: ClassVar[str] = "multicast"
    requires: ClassVar[str] = "copies to single cores"
    ensures: ClassVar[str] = "one copy for all cores that need a region at once"

    def run(self, context: "Context", ops: tuple[TiledOp, ...], made: GroupRows) -> None:
        """Change the rows of a group."""
        cores = len(context.machine.cores)
        first: dict[Access, int] = {}
        rows: list[Row | None] = list(made.rows)
        targets: dict[int, set[int]] = {}  # of copies that others joined
        for number, row in enumerate(made.rows):
            if row.kind != COPY or (row.title is not Title.PASS and context.home[row.source] >= 0):
                continue
            if (row.price.engine, row.source) not in context.tables.multicast:
                continue
            known = first.setdefault(row.reads[0], number)
            earlier = rows[known]
            if known == number or earlier is None:
                continue
            # Joining with another turn would hold the region for too long.
            late = row.turn - earlier.turn >= cores
            unlike = row.writes[0][2] != earlier.writes[0][2]
            there = targets.get(known) or {earlier.target}
            if late or unlike or row.target in there:
                first[row.reads[0]] = number
                continue
            earlier.writes = [*earlier.writes, *row.writes]
            targets[known] = there | {row.target}
            rows[number] = None
        made.rows[:] = [row for row in rows if row is not None]
