"""What the output stage of an array does to results on their way out: activations, biases, scales
and residual sums run inside the operator that makes one of their operands."""

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar

from tilewright.cost.models import finishes
from tilewright.program.columns import COMPUTE
from tilewright.program.rows import GroupRows, Row
from tilewright.tiling.group import TiledOp

if TYPE_CHECKING:
    from tilewright.program.context import Context


@dataclass(frozen=True, slots=True)
class FoldActivations:
    """Join an activation, a bias, a scale or a residual sum with the matrix operator before it, if
    nothing else reads in between and the output stage can do it."""

    name: ClassVar[str] = "fold-activations"
    requires: ClassVar[str] = "rows of a group, one operator each"
    ensures: ClassVar[str] = "what output stages can do is part of the product before it"

    def run(self, context: "Context", ops: tuple[TiledOp, ...], made: GroupRows) -> None:
        """Change the rows of a group."""
        found = [tiled.spec.finishing(tiled.op) for tiled in ops]
        if not any(found):
            return
        engines, works = context.machine.engines, context.tables.works
        reader: dict[int, int] = {}  # the only one of a buffer; -1 where there are several
        writer: dict[int, int] = {}
        for number, row in enumerate(made.rows):
            for slot, _, _ in row.reads:
                reader[slot] = -1 if slot in reader else number
            for slot, _, _ in row.writes:
                writer[slot] = -1 if slot in writer else number
        rows: list[Row | None] = list(made.rows)
        for number, row in enumerate(made.rows):
            finishing = found[row.ops[0]] if row.kind == COMPUTE else None
            if finishing is None or len(row.writes) != 1:
                continue
            places = finishing.operands if len(row.reads) > 1 else (0,)
            for place in sorted(places, key=lambda k: -writer.get(row.reads[k][0], -1)):
                source = row.reads[place]
                if source[0] < 0 or reader[source[0]] != number or writer.get(source[0], -1) < 0:
                    continue
                before = rows[writer[source[0]]]
                if before is None or before.kind != COMPUTE or before.writes != [source]:
                    continue
                # Any other operand has to be the very result of the operator, not a view of it.
                made_by, reading = ops[before.ops[-1]].node, ops[row.ops[0]].node
                if place and reading.inputs[place] != made_by.outputs[0]:
                    continue
                work = works.numbered[before.work][1]
                if not finishes(engines[before.price.engine], finishing.finish, work):
                    continue
                others = [read for k, read in enumerate(row.reads) if k != place]
                if finishing.finish == "add":
                    added = sum(prod(context.tables.layouts[layout].shape) for *_, layout in others)
                    before.work, before.price = works.adding(before.work, added)
                rows[writer[source[0]]] = None
                before.ops = (*before.ops, *row.ops)
                before.reads = [*before.reads, *others]
                before.writes, before.turn = row.writes, row.turn
                rows[number] = before
                writer[row.writes[0][0]] = number
                break
        made.rows[:] = [row for row in rows if row is not None]
