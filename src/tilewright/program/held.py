"""Where regions of values are, and what copies between such places are like. Both follow from
extents and layouts, which the tiles of a group have in common; only offsets are a tile's own."""

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from tilewright.geometry.box import Ints
from tilewright.program.faults import LoweringError
from tilewright.program.rows import Access, Price
from tilewright.program.tile_tables import Spot

if TYPE_CHECKING:
    from tilewright.program.context import Context


class Layout:
    """How a value lies in a memory; `looks` are the numbers of regions of it, by their extents."""

    __slots__ = ("context", "looks", "memory", "name", "strides")

    def __init__(self, context: "Context", name: str, strides: Ints, memory: int) -> None:
        self.context, self.name, self.strides, self.memory = context, name, strides, memory
        self.looks: dict[Ints, int] = {}

    def look(self, shape: Ints) -> int:
        """The look of a region with these extents."""
        known = self.looks.get(shape)
        if known is None:
            known = self.looks[shape] = self.context.look(self.name, shape, self.strides)
        return known


class Held(NamedTuple):
    """A region of a value where it is: in a buffer, from a byte on."""

    slot: int
    base: int
    spot: Spot
    layout: Layout

    def part(self, spot: Spot) -> Access:
        """A region of it."""
        offset = self.base
        if spot is not self.spot:
            ends = zip(spot.starts, self.spot.starts, self.layout.strides, strict=True)
            for start, origin, stride in ends:
                offset += (start - origin) * stride
        return self.slot, offset, self.layout.look(spot.shape)


class Leg(NamedTuple):
    """A copy on one link: between which memories, and what it costs. `size` and `look` are those of
    the stop that it leads to: in a memory that no core has, without gaps (none: the end)."""

    source: int
    target: int
    price: Price
    size: int = 0
    look: int = -1


class Ways:
    """Room in cores' memories, and copies between memories, for the tiles of one group."""

    def __init__(self, context: "Context", names: tuple[str, ...]) -> None:
        self.context, self.names = context, names
        self._rooms: dict[tuple[int, Ints, int], tuple[int, Layout]] = {}
        self._legs: dict[tuple[int, int, int, int], tuple[Leg, ...]] = {}

    def room(self, value: int, shape: Ints, core: int) -> tuple[int, Layout]:
        """Bytes for a region of a value in the memory of a core, and how it lies there."""
        known = self._rooms.get((value, shape, core))
        if known is None:
            name = self.names[value]
            size, strides = self.context.local(name, shape)
            memory = self.context.memory_of(core, name)
            self.check(name, size, memory)
            known = (size, Layout(self.context, name, strides, memory))
            self._rooms[value, shape, core] = known
        return known

    def check(self, name: str, size: int, memory: int) -> None:
        """Raise where a buffer is larger than its memory."""
        usable = self.context.usable[memory]
        if size > usable:
            where = self.context.machine.memories[memory].name
            raise LoweringError(
                f"'{name}' takes {size} bytes of {where}, {usable} are there: "
                "cut its group into more tiles"
            )

    def legs(
        self, value: int, source: int, target: int, read: int, written: int
    ) -> tuple[Leg, ...]:
        """A copy between memories, of views that lie so: on the links that lead there."""
        key = (source, target, read, written)
        known = self._legs.get(key)
        if known is None:
            hops = self.context.hops(source, target)
            known = self._legs[key] = self._over(self.names[value], source, hops, read, written)
        return known

    def _over(self, name: str, memory: int, hops: Ints, look: int, written: int) -> tuple[Leg, ...]:
        """A copy over every stop between, where several links lead there."""
        tables = self.context.tables
        legs: list[Leg] = []
        for stop in hops[:-1]:
            there = tables.looks[written]
            size, dense = max(1, prod(there.shape) * there.item), self.context.dense(there)
            self.check(name, size, stop)
            legs.append(Leg(memory, stop, tables.copy(memory, stop, look, dense), size, dense))
            memory, look = stop, dense
        legs.append(Leg(memory, hops[-1], tables.copy(memory, hops[-1], look, written)))
        return tuple(legs)
