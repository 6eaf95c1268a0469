"""A group's plainest program: tiles follow each other in grid order, each loads all it reads,
computes, and hands on what the outside needs. The passes make it good."""

from collections.abc import Sequence
from functools import partial
from operator import mul

from tilewright.geometry.box import Ints
from tilewright.graph.ops.spec import Strides
from tilewright.program.alike import Likeness, Pattern
from tilewright.program.columns import COMPUTE, COPY
from tilewright.program.cut import Index
from tilewright.program.cut_tables import CutTables, GroupOperator
from tilewright.program.faults import LoweringError
from tilewright.program.held import Held, Leg
from tilewright.program.regions import Region
from tilewright.program.rows import Access, GroupRows, Outside, Row, RowStep, Surroundings, Title
from tilewright.program.tile_tables import (
    TileSpot,
    box_spot,
    spot_of,
    whole_spot,
)
from tilewright.program.tile_work import TileWork
from tilewright.program.views import serves

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
                _Tile(self, made, turn, index, core).build()
            self._run(steps, made)
            return made
        patterns: dict[Index, Pattern] = {}
        for turn, (index, core) in enumerate(self.cut.turns):
            key = (core, *likeness.key(index))
            pattern = patterns.get(key)
            if pattern is None:
                tile = GroupRows()
                _Tile(self, tile, turn, index, core).build()
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


class _Tile:
    """Builds one tile of one group on one core, into rows of its own or those of all tiles."""

    __slots__ = (
        "buffers",
        "core",
        "held",
        "index",
        "parent",
        "rows",
        "transfers",
        "turn",
        "values",
    )

    def __init__(
        self, parent: RowBuilder, made: GroupRows, turn: int, index: Index, core: int
    ) -> None:
        self.parent, self.transfers, self.values = parent, parent.transfers, parent.values
        self.turn, self.index, self.core = turn, index, core
        self.rows, self.buffers = made.rows, made.buffers
        self.held = parent.held[index, core] = {}

    def build(self) -> None:
        """All operators of the tile."""
        index = self.index
        for op in self.parent.ops:
            if op.tiles.computes(index):
                self._operator(op)
            for value in op.given:
                spot = self.values[value].given(index)
                if spot is not None and 0 not in spot.shape:
                    self._give(op, value, spot)

    def _operator(self, op: GroupOperator) -> None:
        index, tiles = self.index, op.tiles
        work, number, price = self.parent.tables.work(op, index, self.core)
        needed = [(op.inputs[k], tiles.inputs[k](index)) for k in work.operands]
        found = [self.held.get(value) or self._brought(op, value, spot) for value, spot in needed]
        if op.moves and found and self._seen(op, found, work):
            return
        reads = [held.part(spot) for held, (_, spot) in zip(found, needed, strict=True)]
        writes = [self._result(op, op.outputs[k], tiles.outputs[k](index)) for k in work.results]
        self.rows.append(
            Row(COMPUTE, price, op.ops, self.turn, reads, writes, Title.OPERATOR, number)
        )

    def _seen(self, op: GroupOperator, found: Sequence[Held], work: TileWork) -> bool:
        """Whether all results of data movement are other views of what is held: no work then. Who
        computes with them finds rows as ever, and copies to the outside find long ones."""
        parent, source = self.parent, found[0]
        storage, spec, typed = source.storage, op.tiled.spec, op.tiled.op
        item = parent.context.item(parent.names[op.inputs[work.operands[0]]])
        seen: dict[int, Held] = {}
        for result in work.results:
            view = None
            if spec.view is not None and work.operands == (0,):
                lying = Strides(source.begin, typed.shape(0), storage.strides, item)
                view = spec.view(typed, lying, result)
            elif spec.parts is not None:
                view = _joined(op, found, work.operands, item)
            value, spot = op.outputs[result], op.tiles.outputs[result](self.index)
            if view is None or spot != self.values[value].have(self.index):
                return False
            base = view.offset + sum(map(mul, spot.starts, view.strides))
            there = self.transfers.seen(parent.names[value], view.strides, storage.memory)
            held = seen[value] = Held(source.slot, base, spot, there)
            if not self._there(op, value, held, view):
                return False
        self.held.update(seen)
        return True

    def _there(self, op: GroupOperator, value: int, held: Held, view: Strides) -> bool:
        """Whether a result that is a view is where it has to be: in its region, if it has one; else
        where all that read it can take it from."""
        parent, spots = self.parent, self.values[value]
        if value in parent.around.regions:
            region = parent.regions.get((value, self.core))
            whole = held.spot == spots.given(self.index)
            return region is not None and whole and region.part(held.spot) == held.part(held.spot)
        place = parent.places.get((value, self.core))
        if place is not None:
            return place.part(held.spot) == held.part(held.spot)
        if spots.once:
            return False  # it lies by itself, for others
        if parent.context.memory_of(self.core, parent.names[value]) != held.storage.memory:
            return False
        return self._serves(op, value, held.spot, view)

    def _serves(self, op: GroupOperator, value: int, spot: TileSpot, view: Strides) -> bool:
        """Whether all that read a result can take it from a view."""
        parent, context = self.parent, self.parent.context
        name = parent.names[value]
        usual = context.local(name, spot.shape)[1], context.layouts.grain(name)
        computed = value in parent.tables.computing
        given = value in op.given and value in parent.around.main
        region = spot.starts, spot.shape
        return serves(view, region, usual, context.kind(name), computed=computed, given=given)

    def _brought(self, op: GroupOperator, value: int, spot: TileSpot) -> Held:
        """A value that the tile does not have yet: resident, or loaded."""
        parent, held = self.parent, None
        spots = self.values.get(value)
        if spots is not None:
            return self._keep(op, value, spots.have(self.index), None)
        if parent.regions and (value, op.number) not in parent.around.reloads:
            held = parent.regions.get((value, self.core))
        if held is None and value in parent.packs:
            held = self._packed(op, value)
        if held is None:
            held = self._local(value, spot)
            self._copy(Title.LOAD, op, value, parent.main(value), held, spot)
        return held

    def _packed(self, op: GroupOperator, value: int) -> Held | None:
        """Load weights and bias of the tile's channels by one copy, where they lie together; None
        where the tile needs anything but whole rows of them."""
        parent, pick = self.parent, op.tiles.inputs
        packed = parent.tables.pack(op, parent.packs[value], self.core)
        parts = [(part, pick[part.operand](self.index)) for part in (packed.weights, packed.bias)]
        load = packed.load(parts[0][1], parts[1][1])
        if load is None:
            return None
        size, start, layout, legs = load
        self.transfers.check(packed.pack.weights, size, packed.memory)
        first = op.inputs[packed.weights.operand]
        slot = self._buffer(first, size, packed.memory)
        for (operand, offset, storage), spot in parts:
            self.held[op.inputs[operand]] = Held(slot, offset, spot, storage)
        read = (parent.slot(first), start, layout)
        self._transfer(Title.LOAD_PACK, op, first, read, (slot, 0, layout), legs)
        return self.held[value]

    def _buffer(self, value: int, size: int, memory: int) -> int:
        """A buffer of this tile."""
        self.buffers.append((memory, size, value, self.turn))
        return len(self.buffers) - 1

    def _local(self, value: int, spot: TileSpot) -> Held:
        """Bytes for a region of a value."""
        size, storage = self.parent.tables.local(value, spot.shape, self.core)
        return Held(self._buffer(value, size, storage.memory), 0, spot, storage)

    def _copy(
        self,
        title: Title,
        op: GroupOperator,
        value: int,
        source: Held,
        target: Held,
        spot: TileSpot,
    ) -> None:
        """Copy a region from one place to another."""
        here, there, legs = self.transfers.carried(
            self.parent.names[value], source.storage, target.storage, spot.shape
        )
        read = (source.slot, source.offset(spot), here)
        written = (target.slot, target.offset(spot), there)
        self._transfer(title, op, value, read, written, legs)

    def _transfer(
        self,
        title: Title,
        op: GroupOperator,
        value: int,
        read: Access,
        written: Access,
        legs: tuple[Leg, ...],
    ) -> None:
        """A copy between two memories, over every stop between."""
        turn, ops = self.turn, op.ops
        for source, target, price, size, layout in legs:
            there = written if layout < 0 else (self._buffer(value, size, target), 0, layout)
            self.rows.append(
                Row(COPY, price, ops, turn, [read], [there], title, -1, source, target, value)
            )
            read = there

    def _result(self, op: GroupOperator, value: int, spot: TileSpot) -> Access:
        """Where a result goes: into its region if nothing else needs more of it, to its place if it
        has one, else by itself."""
        spots, region = self.values[value], self.parent.regions.get((value, self.core))
        have = spots.have(self.index)
        whole = region is not None and spot == have == spots.given(self.index)
        if region is None and spot == have:
            region, whole = self.parent.places.get((value, self.core)), True
        if region is not None and whole and region.spot.covers(spot):
            access = region.part(spot)
            self.held[value] = Held(access[0], access[1], spot, region.storage)
            return access
        return self._keep(op, value, have, spot).part(spot)

    def _keep(
        self, op: GroupOperator, value: int, have: TileSpot, computed: TileSpot | None
    ) -> Held:
        """Room for all the tile reads of a value, with what the tile before has of it."""
        before = self.parent.before(self.index, self.core, value)
        here = computed is None and before is not None and before[0] == self.core
        if here and before is not None and before[1].spot.covers(have):
            self.held[value] = before[1]
            return before[1]
        held = self.held[value] = self._local(value, have)
        kept = have if computed is None else _kept(have, computed)
        if kept is None:
            return held
        if before is None or not before[1].spot.covers(kept):
            name = self.parent.names[value]
            raise LoweringError(f"'{name}' at tile {self.index} is not held by the tile before")
        ends = (before[1].storage.memory, held.storage.memory)
        self.transfers.check_halo(self.parent.names[value], *ends)
        self._copy(Title.KEEP, op, value, before[1], held, kept)
        return held

    def _give(self, op: GroupOperator, value: int, spot: TileSpot) -> None:
        """Hand a result to who needs it outside the tile: other groups' regions, the main
        memory."""
        parent, cut = self.parent, self.parent.cut
        held = self.held.get(value)
        if held is None:  # all of it computed by earlier tiles, this part not given yet
            held = self._keep(op, value, self.values[value].have(self.index), None)
        first = self.core == cut.cores[0]
        own = parent.regions.get((value, self.core))
        if own is not None and own.part(spot) != held.part(spot):
            self._copy(Title.KEEP, op, value, held, own, spot)
        for core, region in parent.around.regions.get(value, {}).items():
            computed = cut.replicated and (not first or core in cut.cores)  # its own
            if computed or core == self.core or region.read is None:
                continue
            shared = spot.common(region.read)
            if shared is not None:
                there = parent.regions[value, core]
                self._copy(Title.PASS, op, value, held, there, shared)
        if value in parent.around.main and (first or not cut.replicated):
            self._copy(Title.STORE, op, value, held, parent.main(value), spot)


def _joined(op: GroupOperator, found: Sequence[Held], operands: Ints, item: int) -> Strides | None:
    """The result of a concat where its operands lie side by side in one buffer."""
    rule, typed, first = op.tiled.spec.parts, op.tiled.op, found[0]
    if rule is None:
        return None
    strides = first.storage.strides
    if any(held.slot != first.slot or held.storage.strides != strides for held in found):
        return None
    shape = typed.result(0).shape
    parts = rule(typed, Strides(0, shape, strides, item))
    begins = {held.begin - parts[k].offset for k, held in zip(operands, found, strict=True)}
    return Strides(begins.pop(), shape, strides, item) if len(begins) == 1 else None


def _kept(have: TileSpot, computed: TileSpot) -> TileSpot | None:
    """The part of a region that is not computed: a slab at its start along one axis."""
    if have == computed:
        return None
    ends = zip(have.starts, have.stops, computed.starts, computed.stops, strict=True)
    (axis,) = [k for k, (a, b, c, d) in enumerate(ends) if (a, b) != (c, d)]
    edge = computed.starts[axis]
    return spot_of(have.starts, (*have.stops[:axis], edge, *have.stops[axis + 1 :]))
