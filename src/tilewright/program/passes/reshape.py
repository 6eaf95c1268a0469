"""Implicit reshape: a matrix product's rows are seen as the height and width an array likes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tilewright.program.columns import COMPUTE
from tilewright.program.rows import GroupRows
from tilewright.tiling.group import TiledOp

if TYPE_CHECKING:
    from tilewright.program.context import Context


@dataclass(frozen=True, slots=True)
class ImplicitReshape:
    """See the positions of pointwise work as the one or two rectangles that cost least."""

    name: ClassVar[str] = "implicit-reshape"
    requires: ClassVar[str] = "work on engines"
    ensures: ClassVar[str] = "pointwise work in the shape that costs least"

    def run(self, context: "Context", ops: tuple[TiledOp, ...], made: GroupRows) -> None:
        """Change the rows of a group."""
        for row in made.rows:
            if row.kind == COMPUTE and row.work >= 0:
                row.work, row.price = context.tables.works.reshaped(row.work)
