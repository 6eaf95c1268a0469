"""Activations and biases run inside the operator that makes their input, on its way out of the
array."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tilewright.program.columns import COMPUTE
from tilewright.program.rows import GroupRows, Row
from tilewright.tiling.group import TiledOp

if TYPE_CHECKING:
    from tilewright.program.context import Context


@dataclass(frozen=True, slots=True)
class FoldActivations:
    """Join an activation, or a bias that is added, with the matrix operator before it, if nothing
    else reads in between."""

    name: ClassVar[str] = "fold-activations"
    requires: ClassVar[str] = "rows of a group, one operator each"
    ensures: ClassVar[str] = "activations and biases are part of the product before them"

    def run(self, context: "Context", ops: tuple[TiledOp, ...], made: GroupRows) -> None:
        """Change the rows of a group."""
        folds = [tiled.spec.folded(tiled.op) for tiled in ops]
        if not any(folds):
            return
        engines, works = context.machine.engines, context.tables.works.numbered
        reader: dict[int, int] = {}  # the only one of a buffer; -1 where there are several
        writer: dict[int, int] = {}
        for number, row in enumerate(made.rows):
            for slot, _, _ in row.reads:
                reader[slot] = -1 if slot in reader else number
            for slot, _, _ in row.writes:
                writer[slot] = -1 if slot in writer else number
        rows: list[Row | None] = list(made.rows)
        for number, row in enumerate(made.rows):
            if row.kind != COMPUTE or not folds[row.ops[0]] or len(row.writes) != 1:
                continue
            source = row.reads[0]
            if source[0] < 0 or reader[source[0]] != number or writer[source[0]] < 0:
                continue
            before = rows[writer[source[0]]]
            if before is None or before.kind != COMPUTE or before.writes != [source]:
                continue
            dense = works[before.work][1].dense
            tiled = ops[row.ops[0]]
            if engines[before.price.engine].kind != "matrix" or not (dense or tiled.spec.folds):
                continue
            rows[writer[source[0]]] = None
            before.ops = (*before.ops, *row.ops)
            before.reads = [*before.reads, *row.reads[1:]]
            before.writes, before.turn = row.writes, row.turn
            rows[number] = before
            writer[row.writes[0][0]] = number
        made.rows[:] = [row for row in rows if row is not None]
