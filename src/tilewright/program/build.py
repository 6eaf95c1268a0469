"""A group's plainest program: tiles follow each other in grid order, each loads all it reads,
computes, and hands on what the outside needs. The passes make it good."""

from typing import TYPE_CHECKING, NamedTuple

from tilewright.program.columns import COMPUTE, COPY
from tilewright.program.constants import Pack, channels_of
from tilewright.program.cut import GroupCut, Index
from tilewright.program.faults import LoweringError
from tilewright.program.held import Held, Layout, Ways
from tilewright.program.regions import Region
from tilewright.program.rows import Access, GroupRows, Outside, Row, Surroundings, Title
from tilewright.program.tile_tables import OpTiles, Spot, ValueSpots, box_spot, spot_of
from tilewright.tiling.grid import Halo
from tilewright.tiling.group import GroupTiles, TiledOp

if TYPE_CHECKING:
    from tilewright.program.context import Context, Work


def group_rows(context: "Context", cut: GroupCut, around: Surroundings) -> GroupRows:
    """The rows of a group in its surroundings."""
    return _Builder(context, cut, around).build()


class _Operator:
    """An operator of the group: its tiles, and its operands and results by number."""

    def __init__(
        self, number: int, tiles: GroupTiles, tiled: TiledOp, values: dict[str, int]
    ) -> None:
        self.number, self.ops, self.tiled = number, (number,), tiled
        self.tiles = OpTiles(tiles, tiled)
        self.inputs = [values.get(name, -1) for name in tiled.node.inputs]
        self.shapes = [() if o is None else o.type.shape for o in tiled.op.inputs]
        self.outputs = [values.get(name, -1) for name in tiled.node.outputs]
        self.works: dict[tuple[object, int], Work] = {}


class _Builder:
    """Builds the tiles of one group, and remembers what each holds for those that follow."""

    def __init__(self, context: "Context", cut: GroupCut, around: Surroundings) -> None:
        self.context, self.cut, self.around = context, cut, around
        self.names = cut.signature.names
        number = {name: k for k, name in enumerate(self.names)}
        self.made = GroupRows()
        tiles = cut.tiles
        self.ways = Ways(context, self.names)
        self.ops = [_Operator(k, tiles, tiled, number) for k, tiled in enumerate(tiles.ops)]
        self.values = {
            number[name]: ValueSpots(value, len(tiles.counts))
            for name, value in tiles.values.items()
        }
        self.packs = {
            value: pack for name, value in number.items() if (pack := context.packs.get(name))
        }
        self.cached = next((d for d, s in enumerate(tiles.splits) if s.halo is Halo.CACHE), None)
        self.held: dict[tuple[Index, int], dict[int, Held]] = {}
        self.slots: dict[Outside, int] = {}
        self.mains: dict[int, Held] = {}
        self.packed: dict[tuple[int, int], _Packed] = {}
        self.regions = {
            (value, core): self._region(value, core, region)
            for value, regions in around.regions.items()
            for core, region in regions.items()
        }

    def build(self) -> GroupRows:
        """All tiles in turn."""
        for turn, (index, core) in enumerate(self.cut.turns):
            _Tile(self, turn, index, core).build()
        return self.made

    def slot(self, outside: Outside) -> int:
        """The slot of a buffer that others use too."""
        known = self.slots.get(outside)
        if known is None:
            known = self.slots[outside] = ~len(self.made.outside)
            self.made.outside.append(outside)
        return known

    def _region(self, value: int, core: int, region: Region) -> Held:
        """A core's region of a resident value."""
        name, spot = self.names[value], box_spot(region.box)
        _, strides = self.context.local(name, spot.shape)
        layout = Layout(self.context, name, strides, self.context.memory_of(core, name))
        return Held(self.slot(Outside(value, core)), 0, spot, layout)

    def main(self, value: int) -> Held:
        """A value as it lies between groups."""
        known = self.mains.get(value)
        if known is None:
            number, memory = self.around.main[value]
            look = self.context.tables.looks[number]
            spot = Spot((0,) * len(look.shape), look.shape, look.shape)
            layout = Layout(self.context, self.names[value], look.strides, memory)
            known = Held(self.slot(Outside(value, -1)), 0, spot, layout)
            self.mains[value] = known
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

    def work(self, op: _Operator, index: Index, core: int) -> "Work":
        """The work of a tile on a core, found out once for all tiles that look the same."""
        key = (op.tiles.kind(index), core)
        known = op.works.get(key)
        if known is None:
            known = op.works[key] = self.context.work(op.tiled, op.tiles.tile(index), core)
        return known

    def pack(self, op: _Operator, pack: Pack, core: int) -> "_Packed":
        """How weights and bias of an operator lie together, in the main memory and on a core."""
        known = self.packed.get((op.number, core))
        if known is None:
            inputs, context = op.tiled.node.inputs, self.context
            memory = context.memory_of(core, pack.weights)
            step = (pack.row * pack.item, pack.item)
            parts: list[tuple[int, int, Layout]] = []
            for name, (offset, strides) in pack.places.items():
                layout = Layout(context, name, strides, memory)
                parts.append((inputs.index(name), offset, layout))
            known = self.packed[op.number, core] = _Packed(
                op.inputs[parts[0][0]],
                Layout(context, pack.weights, step, context.main),
                Layout(context, pack.weights, step, memory),
                tuple(parts),
            )
        return known


class _Packed(NamedTuple):
    """Weights and bias, row by row: where they come from, where they go, and each of the two (its
    operand, first byte and layout)."""

    value: int
    source: Layout
    target: Layout
    parts: tuple[tuple[int, int, Layout], ...]


class _Tile:
    """Builds one tile of one group on one core."""

    def __init__(self, parent: _Builder, turn: int, index: Index, core: int) -> None:
        self.parent, self.ways = parent, parent.ways
        self.turn, self.index, self.core = turn, index, core
        self.rows, self.buffers = parent.made.rows, parent.made.buffers
        self.held = parent.held.setdefault((index, core), {})

    def build(self) -> None:
        """All operators of the tile."""
        values, index = self.parent.values, self.index
        for op in self.parent.ops:
            if op.tiles.computes(index):
                self._operator(op)
            for value in op.outputs:
                if value in values and values[value].gives(index):
                    self._give(op, value)

    def _operator(self, op: _Operator) -> None:
        index = self.index
        work = self.parent.work(op, index, self.core)
        reads = [self._operand(op, operand) for operand in work.operands]
        writes = [self._result(op, op.outputs[k], op.tiles.output(index, k)) for k in work.results]
        self.rows.append(
            Row(COMPUTE, work.price, op.ops, self.turn, reads, writes, Title.OPERATOR, work.number)
        )

    def _operand(self, op: _Operator, operand: int) -> Access:
        """An operand from where it is: held by the tile, resident, or loaded."""
        parent, value = self.parent, op.inputs[operand]
        spot = op.tiles.input(self.index, operand, op.shapes[operand])
        held = self.held.get(value)
        if held is None and value in parent.values:
            held = self._keep(op, value, parent.values[value].have(self.index), None)
        if held is None and (value, op.number) not in parent.around.reloads:
            held = parent.regions.get((value, self.core))
        if held is None and value in parent.packs:
            held = self._packed(op, value)
        if held is None:
            held = self._local(value, spot)
            self._copy(Title.LOAD, op, value, parent.main(value), held, spot)
        return held.part(spot)

    def _packed(self, op: _Operator, value: int) -> Held | None:
        """Load weights and bias of the tile's channels by one copy, where they lie together; None
        where the tile needs anything but whole rows of them."""
        parent, pack = self.parent, self.parent.packs[value]
        packed = parent.pack(op, pack, self.core)
        spots = [
            op.tiles.input(self.index, operand, op.shapes[operand])
            for operand, _, _ in packed.parts
        ]
        channels = channels_of(pack, *[(spot.starts, spot.stops) for spot in spots])
        if channels is None:
            return None
        first, count = channels
        size, memory = pack.bytes(count), packed.target.memory
        self.ways.check(pack.weights, size, memory)
        slot = self._buffer(packed.value, size, memory)
        for spot, (operand, offset, layout) in zip(spots, packed.parts, strict=True):
            self.held[op.inputs[operand]] = Held(slot, offset, spot, layout)
        look = packed.source.look((count, pack.row))
        source = (parent.slot(Outside(packed.value, -1)), first * packed.source.strides[0], look)
        ends = (packed.source.memory, memory)
        self._transfer(Title.LOAD_PACK, op, packed.value, source, (slot, 0, look), ends)
        return self.held[value]

    def _buffer(self, value: int, size: int, memory: int) -> int:
        """A buffer of this tile."""
        self.buffers.append((memory, size, value, self.turn))
        return len(self.buffers) - 1

    def _local(self, value: int, spot: Spot) -> Held:
        """Bytes for a region of a value."""
        size, layout = self.ways.room(value, spot.shape, self.core)
        return Held(self._buffer(value, size, layout.memory), 0, spot, layout)

    def _copy(
        self, title: Title, op: _Operator, value: int, source: Held, target: Held, spot: Spot
    ) -> None:
        """Copy a region from one place to another."""
        ends = (source.layout.memory, target.layout.memory)
        self._transfer(title, op, value, source.part(spot), target.part(spot), ends)

    def _transfer(
        self,
        title: Title,
        op: _Operator,
        value: int,
        read: Access,
        written: Access,
        ends: tuple[int, int],
    ) -> None:
        """A copy between two memories, over every stop between."""
        for leg in self.ways.legs(value, *ends, read[2], written[2]):
            there = written
            if leg.look >= 0:
                there = (self._buffer(value, leg.size, leg.target), 0, leg.look)
            self.rows.append(
                Row(
                    COPY,
                    leg.price,
                    op.ops,
                    self.turn,
                    [read],
                    [there],
                    title,
                    -1,
                    leg.source,
                    leg.target,
                    value,
                )
            )
            read = there

    def _result(self, op: _Operator, value: int, spot: Spot) -> Access:
        """Where a result goes: into its region if nothing else needs more of it, else by itself."""
        spots, region = self.parent.values[value], self.parent.regions.get((value, self.core))
        have = spots.have(self.index)
        if region is not None and spots.write is not None and spot == have:
            given = spots.gives(self.index) and spots.write(self.index) == spot
            if given and region.spot.covers(spot):
                access = region.part(spot)
                self.held[value] = Held(access[0], access[1], spot, region.layout)
                return access
        return self._keep(op, value, have, spot).part(spot)

    def _keep(self, op: _Operator, value: int, have: Spot, computed: Spot | None) -> Held:
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
        self._copy(Title.KEEP, op, value, before[1], held, kept)
        return held

    def _give(self, op: _Operator, value: int) -> None:
        """Hand a result to who needs it outside the tile: other groups' regions, the main
        memory."""
        parent, spots = self.parent, self.parent.values[value]
        spot = None if spots.write is None else spots.write(self.index)
        if spot is None or 0 in spot.shape:
            return
        held = self.held.get(value)
        if held is None:  # all of it computed by earlier tiles, this part not given yet
            held = self._keep(op, value, spots.have(self.index), None)
        own = parent.regions.get((value, self.core))
        if own is not None and own.part(spot) != held.part(spot):
            self._copy(Title.KEEP, op, value, held, own, spot)
        cut = parent.cut
        first = self.core == cut.cores[0]
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


def _kept(have: Spot, computed: Spot) -> Spot | None:
    """The part of a region that is not computed: a slab at its start along one axis."""
    if have == computed:
        return None
    ends = zip(have.starts, have.stops, computed.starts, computed.stops, strict=True)
    (axis,) = [k for k, (a, b, c, d) in enumerate(ends) if (a, b) != (c, d)]
    edge = computed.starts[axis]
    return spot_of(have.starts, (*have.stops[:axis], edge, *have.stops[axis + 1 :]))
