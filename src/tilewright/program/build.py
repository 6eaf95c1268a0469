"""A group's plainest program: tiles follow each other in grid order, each loads all it reads,
computes, and hands on what the outside needs. The passes make it good."""

from collections.abc import Sequence
from functools import partial

from tilewright.geometry.box import Ints
from tilewright.program.alike import Likeness, Pattern
from tilewright.program.columns import COMPUTE
from tilewright.program.cut import Index
from tilewright.program.cut_tables import CutTables
from tilewright.program.held import Held
from tilewright.program.regions import Region
from tilewright.program.rows import GroupRows, Outside, Row, RowStep, Surroundings, Title
from tilewright.program.tile_rows import TileBuilder
from tilewright.program.tile_tables import (
    box_spot,
    whole_spot,
)

FEW = 2  # tiles on a core: of so few, hardly any are alike


class RowBuilder:
    """Builds the rows of a group in its surroundings, tile after tile; what each tile holds is
    remembered for those that follow."""

    def __init__(self, tables: CutTables, around: Surroundings) -> None:
        self.tables, self.around, self.transfers = tables, around, tables.transfers
        self.cut, self.names, self.ops = tables.cut, tables.names, tables.ops
        self.values, self.packs, self.cached = tables.values, tables.packs, tables.cached
        self.context = tables.transfers.context
        self.made = GroupRows()
        self.held: dict[tuple[Index, int], dict[int, Held]] = {}
        self.slots: dict[int, int] = {}
        self.joints: dict[tuple[int, int], int] = {}
        self.mains: dict[int, Held] = {}
        self.regions, self.places = (
            {
                (value, core): self._region(value, core, region)
                for value, regions in some.items()
                for core, region in regions.items()
            }
            for some in (around.regions, around.places)
        )

    def build(self, steps: Sequence[RowStep]) -> GroupRows:
        """All tiles in turn, and what these steps make of them. Of tiles that are alike one is
        built, and repeated for the others."""
        likeness, made = self._likeness(), self.made
        if likeness is None:
            for turn, (index, core) in enumerate(self.cut.turns):
                TileBuilder(self, made, turn, index, core).build()
            self._run(steps, made)
            return made
        patterns: dict[Index, Pattern] = {}
        for turn, (index, core) in enumerate(self.cut.turns):
            key = (core, *likeness.key(index))
            pattern = patterns.get(key)
            if pattern is None:
                tile = GroupRows()
                TileBuilder(self, tile, turn, index, core).build()
                pattern = Pattern(tile, likeness, index, partial(self._lies, index, core))
                patterns[key] = pattern
                self._run(steps, tile)
            pattern.repeat(made, turn, index)
        return made

    def _run(self, steps: Sequence[RowStep], made: GroupRows) -> None:
        for step in steps:
            step.run(self.context, self.cut.tiles.ops, made)

    def _likeness(self) -> Likeness | None:
        """Which tiles are alike, where there are enough of them to ask."""
        if len(self.cut.turns) <= FEW * len(self.cut.cores):
            return None
        found = self.tables.likeness
        if found is None or not self.around.regions:
            return found
        written = {k: some.written for k, some in self.values.items() if some.written is not None}
        return found.beside(written, self.around.regions)

    def _lies(self, index: Index, core: int, row: Row, number: int, slot: int) -> tuple[int, Ints]:
        """Of an access to a buffer that others use too: the value, and its strides there."""
        op = self.ops[row.ops[0]]
        if row.title is Title.LOAD_PACK:
            packed = self.tables.pack(op, self.packs[row.value], core)
            return row.value, packed.weights.storage.strides
        value = row.value
        if row.kind == COMPUTE:
            work = self.tables.work(op, index, core)[0]
            operands = [op.inputs[k] for k in work.operands]
            value = [*operands, *(op.outputs[k] for k in work.results)][number]
        main = self.mains.get(value)
        if main is not None and main.slot == slot:
            return value, main.storage.strides
        places = (self.regions.items(), self.places.items())
        return value, next(
            held.storage.strides
            for some in places
            for (kept, _), held in some
            if kept == value and held.slot == slot
        )

    def slot(self, value: int) -> int:
        """The slot of a value between groups."""
        known = self.slots.get(value)
        if known is None:
            known = self.slots[value] = self._outside(Outside(value, -1))
        return known

    def _outside(self, buffer: Outside) -> int:
        """The slot of another buffer that others use too."""
        self.made.outside.append(buffer)
        return -len(self.made.outside)

    def _region(self, value: int, core: int, region: Region) -> Held:
        """A core's region of a resident value."""
        name, spot = self.names[value], box_spot(region.box.intervals)
        if region.frame is None:
            size, storage = self.transfers.local(name, spot.shape, core)
            stays = region.read is not None
            slot = self._outside(Outside(value, core, storage.memory, size, stays))
            return Held(slot, 0, spot, storage)
        place = (self.around.joined[value], core)
        size, strides = self.context.local(name, region.frame.shape)
        storage = self.transfers.seen(name, strides, self.context.memory_of(core, name))
        slot = self.joints.get(place)
        if slot is None:
            slot = self._outside(Outside(value, core, storage.memory, size))
            self.joints[place] = slot
        return Held(slot, region.offset(strides), spot, storage)

    def main(self, value: int) -> Held:
        """A value as it lies between groups."""
        known = self.mains.get(value)
        if known is None:
            layout, memory = self.around.main[value]
            spot = whole_spot(self.context.tables.layouts[layout].shape)
            storage = self.transfers.between(self.names[value], layout, memory)
            known = self.mains[value] = Held(self.slot(value), 0, spot, storage)
        return known

    def before(self, index: Index, core: int, value: int) -> tuple[int, Held] | None:
        """What an earlier tile holds of a value, and where: the one that computes it for all, or
        the one before along the cached dimension."""
        once = self.values[value].once
        if not once and self.cached is None:
            return None
        earlier = tuple([0 if dim in once else i for dim, i in enumerate(index)])
        if earlier == index and self.cached is not None:
            earlier = tuple([i - (dim == self.cached) for dim, i in enumerate(index)])
        for home in (core, *self.cut.cores) if earlier != index else ():
            found = self.held.get((earlier, home), {}).get(value)
            if found is not None:
                return home, found
        return None
