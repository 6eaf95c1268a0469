"""One tile of a group on one core: loads what it reads, computes, hands on what the outside needs.
Data movement is no work where its result is a view of what is held, or where what it begins with is
written to where its result will be."""

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from tilewright.geometry.box import Ints
from tilewright.graph.ops.spec import Strides
from tilewright.program.columns import COMPUTE, COPY
from tilewright.program.cut import Index
from tilewright.program.cut_tables import GroupOperator
from tilewright.program.faults import LoweringError
from tilewright.program.held import Held, Leg
from tilewright.program.rows import Access, GroupRows, Row, Title
from tilewright.program.tile_tables import TileSpot, spot_of
from tilewright.program.tile_work import TileWork
from tilewright.program.views import behind, found_by_rows, serves

if TYPE_CHECKING:
    from tilewright.program.build import RowBuilder

_NOWHERE = -(1 << 40)  # the slot of what is not there yet


class TileBuilder:
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
        self, parent: "RowBuilder", made: GroupRows, turn: int, index: Index, core: int
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
        if op.moves and op.outputs[0] in self.held:
            return  # what it makes was written there
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
            held = seen[value] = self._viewed(value, spot, view, source.slot, storage.memory)
            if not self._there(op, value, held, view):
                return False
        self.held.update(seen)
        return True

    def _viewed(self, value: int, spot: TileSpot, view: Strides, slot: int, memory: int) -> Held:
        """A region of a value where a view of some buffer has it."""
        seen = self.transfers.seen(self.parent.names[value], view.strides, memory)
        return Held(slot, view.at(spot.starts), spot, seen)

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
        home = self._home(value, spot) or self._ahead(value, spot)
        if home is not None:
            self.held[value] = home
            return home.part(spot)
        return self._keep(op, value, self.values[value].have(self.index), spot).part(spot)

    def _home(self, value: int, spot: TileSpot) -> Held | None:
        """The part of its region that a result is, if nothing else needs more of it; or of its
        place, if it has one."""
        spots, region = self.values[value], self.parent.regions.get((value, self.core))
        have = spots.have(self.index)
        whole = region is not None and spot == have == spots.given(self.index)
        if region is None and spot == have:
            region, whole = self.parent.places.get((value, self.core)), True
        if region is None or not whole or not region.spot.covers(spot):
            return None
        slot, offset, _ = region.part(spot)
        return Held(slot, offset, spot, region.storage)

    def _ahead(self, value: int, spot: TileSpot) -> Held | None:
        """A result that only data movement reads, as a view of what that makes of it: where that
        will be found, and is no view of the result. None where there is no such view."""
        parent, index = self.parent, self.index
        chain = parent.tables.ahead.get(value)
        if chain is None:
            return None
        values = [value, *(op.outputs[0] for op in chain)]
        spots = [self.values[each].have(index) for each in values]
        apart = any(self.values[each].once for each in values) or any(
            (each, self.core) in some
            for some in (parent.regions, parent.places)
            for each in values[:-1]
        )
        if apart or spot != spots[0] or any(prod(s.shape) != prod(spot.shape) for s in spots):
            return None
        for op, taken, made in zip(chain, spots, spots[1:], strict=False):
            if not op.tiles.computes(index) or op.tiles.inputs[0](index) != taken:
                return None
            if op.tiles.outputs[0](index) != made:
                return None
        if self._follows(chain, value, spots):
            return None
        last, result, there = chain[-1], values[-1], spots[-1]
        home = self._home(result, there)
        size, storage = parent.tables.local(result, there.shape, self.core)
        held = home or Held(_NOWHERE, 0, there, storage)
        item = parent.context.item(parent.names[value])
        lying = Strides(held.begin, last.tiled.op.result(0).shape, held.storage.strides, item)
        view = behind([op.tiled for op in chain], lying)
        memory = parent.context.memory_of(self.core, parent.names[value])
        if view is None or held.storage.memory != memory or not self._rows(value, spot, view):
            return None
        if home is None:
            held = held._replace(slot=self._buffer(result, size, storage.memory))
        self.held[result] = held
        return self._viewed(value, spot, view, held.slot, memory)

    def _rows(self, value: int, spot: TileSpot, view: Strides) -> bool:
        """Whether engines find rows of a result where a view has them."""
        context, name = self.parent.context, self.parent.names[value]
        usual, offset = context.local(name, spot.shape)[1], view.at(spot.starts)
        return found_by_rows(spot.shape, view.strides, offset, usual, context.layouts.grain(name))

    def _follows(
        self, chain: Sequence[GroupOperator], value: int, spots: Sequence[TileSpot]
    ) -> bool:
        """Whether data movement is a view of a result that lies by itself."""
        names = self.parent.names
        _, storage = self.parent.tables.local(value, spots[0].shape, self.core)
        held = Held(_NOWHERE, 0, spots[0], storage)
        for op, spot in zip(chain, spots[1:], strict=True):
            item = self.parent.context.item(names[op.inputs[0]])
            lying = Strides(held.begin, op.tiled.op.shape(0), held.storage.strides, item)
            rule, result = op.tiled.spec.view, op.outputs[0]
            view = None if rule is None else rule(op.tiled.op, lying, 0)
            if view is None:
                return False
            held = self._viewed(result, spot, view, _NOWHERE, storage.memory)
            if not self._there(op, result, held, view):
                return False
        return True

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
