"""Where regions of values are, and what copies between such places are like. Both follow from
extents and layouts, which the tiles of a group have in common; only offsets are a tile's own."""

from math import prod
from operator import mul, sub
from typing import TYPE_CHECKING, NamedTuple

from tilewright.geometry.box import Ints
from tilewright.program.faults import LoweringError, TooLargeError
from tilewright.program.rows import Access, Price
from tilewright.program.tile_tables import TileSpot
from tilewright.units import format_bytes

if TYPE_CHECKING:
    from tilewright.program.context import Context


class Storage:
    """How values lie in a memory; `layouts` are the numbers of regions of them by extents, and
    `carried` copies of such regions to other storages."""

    __slots__ = ("carried", "context", "layouts", "memory", "name", "strides")

    def __init__(self, context: "Context", name: str, strides: Ints, memory: int) -> None:
        self.context, self.name, self.strides, self.memory = context, name, strides, memory
        self.layouts: dict[Ints, int] = {}
        self.carried: dict[tuple[Storage, Ints], Carried] = {}

    def layout(self, shape: Ints) -> int:
        """The layout of a region with these extents."""
        known = self.layouts.get(shape)
        if known is None:
            known = self.layouts[shape] = self.context.layout(self.name, shape, self.strides)
        return known


class Held(NamedTuple):
    """A region of a value where it is: in a buffer, from a byte on."""

    slot: int
    base: int
    spot: TileSpot
    storage: Storage

    def part(self, spot: TileSpot) -> Access:
        """A region of it."""
        layout = self.storage.layouts.get(spot.shape)
        if layout is None:
            layout = self.storage.layout(spot.shape)
        return self.slot, self.offset(spot), layout

    def offset(self, spot: TileSpot) -> int:
        """The first byte of a region of it."""
        _, offset, own, storage = self
        if spot is not own:
            offset += sum(map(mul, map(sub, spot.starts, own.starts), storage.strides))
        return offset

    @property
    def begin(self) -> int:
        """Where the first element of all of the value would be."""
        return self.base - sum(map(mul, self.spot.starts, self.storage.strides))


class Leg(NamedTuple):
    """A copy on one link: between which memories, and what it costs. `size` and `layout` are those
    of the stop that it leads to: in a memory that no core has, without gaps (none: the end)."""

    source: int
    target: int
    price: Price
    size: int = 0
    layout: int = -1


class Carried(NamedTuple):
    """Copies of regions with some extents from one storage to another: the layouts at both ends,
    and the links on the way."""

    read: int
    written: int
    legs: tuple[Leg, ...]


class HeldTransfers:
    """Bytes in cores' memories, and copies between memories, of all values that are alike."""

    def __init__(self, context: "Context") -> None:
        self.context = context
        self._local: dict[tuple[int, Ints, int], tuple[int, Storage]] = {}
        self._between: dict[tuple[int, int], Storage] = {}
        self._seen: dict[tuple[int, Ints, int], Storage] = {}
        self._legs: dict[tuple[int, int, int, int], tuple[Leg, ...]] = {}

    def local(self, name: str, shape: Ints, core: int) -> tuple[int, Storage]:
        """Bytes for a region of a value in the memory of a core, and how it lies there."""
        key = (self.context.signatures.value(name), shape, core)
        known = self._local.get(key)
        if known is None:
            size, strides = self.context.local(name, shape)
            memory = self.context.memory_of(core, name)
            known = self._local[key] = (size, Storage(self.context, name, strides, memory))
        return known

    def between(self, name: str, layout: int, memory: int) -> Storage:
        """How a value that looks so lies between groups."""
        known = self._between.get((layout, memory))
        if known is None:
            strides = self.context.tables.layouts[layout].strides
            known = self._between[layout, memory] = Storage(self.context, name, strides, memory)
        return known

    def seen(self, name: str, strides: Ints, memory: int) -> Storage:
        """How a value lies that is a view of another."""
        key = (self.context.signatures.value(name), strides, memory)
        known = self._seen.get(key)
        if known is None:
            known = self._seen[key] = Storage(self.context, name, strides, memory)
        return known

    def check(self, name: str, size: int, memory: int) -> None:
        """Raise where a buffer is larger than its memory."""
        usable = self.context.usable[memory]
        if size > usable:
            where = self.context.machine.memories[memory].name
            raise TooLargeError(
                f"'{name}' takes {format_bytes(size)} of {where}, {format_bytes(usable)} are "
                "there: cut its group into more tiles"
            )

    def carried(self, name: str, source: Storage, target: Storage, shape: Ints) -> Carried:
        """Copies of regions with these extents."""
        known = source.carried.get((target, shape))
        if known is None:
            read, written = source.layout(shape), target.layout(shape)
            legs = self.legs(name, source.memory, target.memory, read, written)
            known = source.carried[target, shape] = Carried(read, written, legs)
        return known

    def legs(self, name: str, source: int, target: int, read: int, written: int) -> tuple[Leg, ...]:
        """A copy between memories, of views that lie so: on the links that lead there."""
        key = (source, target, read, written)
        known = self._legs.get(key)
        if known is None:
            self._check_within(name, source, target)
            hops = self.context.hops(source, target)
            known = self._legs[key] = self._over(name, source, hops, read, written)
        return known

    def check_halo(self, name: str, source: int, target: int) -> None:
        """Raise where rows that a tile keeps for the next one cannot be copied to it."""
        where = self._stuck(source, target)
        if where:
            raise LoweringError(
                f"the halo of '{name}' cannot be kept (halo: cache): no link of "
                f"{self.context.machine.name} copies within {where}; give it a route from there to "
                "itself, or write halo: recompute"
            )

    def _check_within(self, name: str, source: int, target: int) -> None:
        """Raise where a tile would have to be copied within a memory that no link copies within."""
        where = self._stuck(source, target)
        if where:
            error = LoweringError(
                f"'{name}' cannot be resident: its own group reads more of a tile than it gives "
                f"on, and no link of {self.context.machine.name} copies within {where}"
            )
            error.resident = name
            raise error

    def _stuck(self, source: int, target: int) -> str:
        """The memory that a copy would stay in, where no link copies within it."""
        machine = self.context.machine
        where = machine.memories[source].name
        return "" if source != target or any(machine.routes(where, where)) else where

    def _over(
        self, name: str, memory: int, hops: Ints, layout: int, written: int
    ) -> tuple[Leg, ...]:
        """A copy over every stop between, where several links lead there."""
        tables = self.context.tables
        legs: list[Leg] = []
        for stop in hops[:-1]:
            there = tables.layouts[written]
            size, dense = max(1, prod(there.shape) * there.item), self.context.dense(there)
            self.check(name, size, stop)
            legs.append(Leg(memory, stop, tables.copy(memory, stop, layout, dense), size, dense))
            memory, layout = stop, dense
        legs.append(Leg(memory, hops[-1], tables.copy(memory, hops[-1], layout, written)))
        return tuple(legs)
