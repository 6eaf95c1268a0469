"""Which results of a group may lie over an operand that dies."""

from collections.abc import Sequence

from tilewright.program.columns import COMPUTE
from tilewright.program.rows import GroupRows
from tilewright.tiling.group import TiledOp


def find_in_place(ops: Sequence[TiledOp], made: GroupRows) -> None:
    """Find the results that may have the bytes of an operand: element-wise work, softmax and norms
    of a tile whose operand nothing else reads. Behind all that changes the rows of a group."""
    able = [bool(tiled.spec.in_place(tiled.op, tiled.access[0])) for tiled in ops]
    if not any(able):
        return
    readers: dict[int, int] = {}  # how many
    writers: dict[int, int] = {}
    for row in made.rows:
        for slot, _, _ in row.reads:
            readers[slot] = readers.get(slot, 0) + 1
        for slot, _, _ in row.writes:
            writers[slot] = writers.get(slot, 0) + 1
    for row in made.rows:
        if row.kind != COMPUTE or not able[row.ops[0]] or len(row.writes) != 1:
            continue
        slot, *written = row.writes[0]
        if slot < 0 or writers[slot] > 1:
            continue
        for taken, *read in row.reads:  # one of the same look is read element by element too
            if taken < 0 or readers[taken] > 1 or writers[taken] > 1 or read != written:
                continue
            if made.buffers[taken][:2] == made.buffers[slot][:2]:
                made.over[slot] = made.over.get(taken, taken)
                break
