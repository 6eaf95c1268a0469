"""What all programs of a cut have in common, whatever is around it: the regions of its tiles, their
work, and the bytes of what they hold."""

from functools import cached_property, partial

from tilewright.geometry.box import Ints
from tilewright.graph.ops.spec import Engine
from tilewright.program.alike import Likeness, likeness_of
from tilewright.program.constants import Pack
from tilewright.program.cut import GroupCut, Index
from tilewright.program.held import HeldTransfers, Storage
from tilewright.program.packed import PackedLoads
from tilewright.program.rows import Price
from tilewright.program.tile_tables import OpTiles, ValueSpots
from tilewright.program.tile_work import TileWork
from tilewright.program.views import written_ahead
from tilewright.tiling.grid import Halo
from tilewright.tiling.group import GroupTiles, TiledOp


class GroupOperator:
    """An operator of the group: its tiles, and its operands and results by number; `given` are
    results that the outside reads, `moves` says that it does nothing but move data."""

    def __init__(
        self,
        number: int,
        tiles: GroupTiles,
        tiled: TiledOp,
        numbers: dict[str, int],
        spots: dict[str, ValueSpots],
    ) -> None:
        self.number, self.ops, self.tiled = number, (number,), tiled
        self.tiles = OpTiles(tiles, tiled, spots)
        self.inputs = [numbers.get(name, -1) for name in tiled.node.inputs]
        self.outputs = [numbers.get(name, -1) for name in tiled.node.outputs]
        written = (n for n in tiled.node.outputs if n in spots and spots[n].write is not None)
        self.given = [numbers[name] for name in written]
        self.moves = tiled.spec.engine is Engine.MOVE
        self.works: dict[Index, TileWork] = {}
        self.priced: dict[tuple[Index, int], tuple[TileWork, int, Price]] = {}


class CutTables:
    """Operators and values of a cut by number; `cached` is the dimension along which halos are
    kept, `computing` are values that are read by more than data movement, `ahead` results that only
    data movement reads, with these operators."""

    def __init__(self, transfers: HeldTransfers, cut: GroupCut) -> None:
        self.transfers, self.cut, self.names = transfers, cut, cut.signature.names
        self.context = transfers.context
        number = {name: k for k, name in enumerate(self.names)}
        tiles = cut.tiles
        dims = len(tiles.counts)
        spots = {name: ValueSpots(value, dims) for name, value in tiles.values.items()}
        self.values = {number[name]: value for name, value in spots.items()}
        self.ops = [GroupOperator(k, tiles, op, number, spots) for k, op in enumerate(tiles.ops)]
        self.cached = next((d for d, s in enumerate(tiles.splits) if s.halo is Halo.CACHE), None)
        self.computing = {value for op in self.ops if not op.moves for value in op.inputs}
        given = {name for name, value in tiles.values.items() if value.write is not None}
        ahead = written_ahead(tiles.ops, given) if self.cached is None else {}
        self.ahead = {number[n]: [self.ops[k] for k in chain] for n, chain in ahead.items()}
        packs = self.context.packs
        self.packs = {k: packs[name] for name, k in number.items() if name in packs}
        self._locals: dict[tuple[int, Ints, int], tuple[int, Storage]] = {}
        self._packed: dict[tuple[int, int], PackedLoads] = {}

    @cached_property
    def likeness(self) -> Likeness | None:
        """Which of its tiles are alike, whatever is around them."""
        return likeness_of(self)

    def local(self, value: int, shape: Ints, core: int) -> tuple[int, Storage]:
        """Bytes for a region of a value in the memory of a core, and how it lies there."""
        known = self._locals.get((value, shape, core))
        if known is None:
            name = self.names[value]
            size, storage = known = self.transfers.local(name, shape, core)
            self.transfers.check(name, size, storage.memory)
            self._locals[value, shape, core] = known
        return known

    def work(self, op: GroupOperator, index: Index, core: int) -> tuple[TileWork, int, Price]:
        """The work of a tile, its number on a core and what it costs there, found out once for all
        tiles that look the same."""
        kind = op.tiles.kind(index)
        known = op.priced.get((kind, core))
        if known is None:
            work = op.works.get(kind)
            if work is None:
                extents = op.tiles.extents(index)
                make = partial(op.tiles.tile, index)
                work = op.works[kind] = self.context.tile_works.tile(op.tiled, extents, make)
            whole = self.context.tile_works.whole(op.tiled)
            number, price = self.context.tables.works.best(core, work.load, whole)
            known = op.priced[kind, core] = (work, number, price)
        return known

    def pack(self, op: GroupOperator, pack: Pack, core: int) -> PackedLoads:
        """Loads of weights and bias of an operator to a core."""
        known = self._packed.get((op.number, core))
        if known is None:
            known = PackedLoads(self.transfers, op.tiled.node.inputs, pack, core)
            self._packed[op.number, core] = known
        return known
