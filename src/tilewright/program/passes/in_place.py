"""Results take the bytes of an operand that dies."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tilewright.program.columns import COMPUTE
from tilewright.program.rows import GroupRows
from tilewright.tiling.group import TiledOp

if TYPE_CHECKING:
    from tilewright.program.context import Context


@dataclass(frozen=True, slots=True)
class InPlace:
    """Write the result of element-wise work, of a softmax or a norm over the operand that its tile
    made, if nothing else reads that."""

    name: ClassVar[str] = "in-place"
    requires: ClassVar[str] = "rows of a group, each result in a buffer of its own"
    ensures: ClassVar[str] = "such results lie where their operand lay"

    def run(self, context: "Context", ops: tuple[TiledOp, ...], made: GroupRows) -> None:
        """Change the rows of a group."""
        places = [tiled.spec.in_place(tiled.op, tiled.access[0]) for tiled in ops]
        if not any(places):
            return
        readers: dict[int, int] = {}  # how many
        writers: dict[int, int] = {}
        loaded: set[int] = set()
        for row in made.rows:
            for slot, _, _ in row.reads:
                readers[slot] = readers.get(slot, 0) + 1
            for slot, _, _ in row.writes:
                writers[slot] = writers.get(slot, 0) + 1
                if row.kind != COMPUTE:
                    loaded.add(slot)
        renamed: dict[int, int] = {}
        for row in made.rows:
            if renamed:
                row.reads = [
                    (renamed.get(slot, slot), at, layout) for slot, at, layout in row.reads
                ]
            if row.kind != COMPUTE or not places[row.ops[0]] or len(row.writes) != 1:
                continue
            slot, at, layout = row.writes[0]
            for place in places[row.ops[0]] if slot >= 0 and writers[slot] == 1 else ():
                source = row.reads[place] if place < len(row.reads) else row.reads[0]
                taken = source[0]
                if taken < 0 or taken in loaded or readers[taken] > 1 or source[1:] != (at, layout):
                    continue
                if made.buffers[taken][:2] != made.buffers[slot][:2]:
                    continue
                renamed[slot] = taken
                row.writes = [source]
                readers[taken] = readers.get(slot, 0)
                break
