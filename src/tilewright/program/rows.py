"""The tasks of one group as rows: every tile's copies in, its operators, what it hands on.

The plainest program: tiles of a group follow each other in grid order, each loads all it reads,
computes, and stores what the outside needs. The passes make it good.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from tilewright.geometry.box import (
    Ints,
    Span,
    span_common,
    span_covers,
    span_empty,
    span_shape,
)
from tilewright.program.columns import COMPUTE, COPY
from tilewright.program.constants import channels_of
from tilewright.program.cut import GroupCut, Index
from tilewright.program.faults import LoweringError
from tilewright.program.regions import Regions
from tilewright.program.tile_tables import OpTiles, ValueSpans
from tilewright.tiling.grid import Halo

if TYPE_CHECKING:
    from tilewright.program.context import Context, Work

Access = tuple[int, int, int]
"""Slot (a buffer of the group, or ~k for the k-th outside one), byte offset, look."""


class Title(IntEnum):
    """What a task is for: the first word of its name."""

    OPERATOR = 0
    LOAD = 1
    LOAD_PACK = 2
    KEEP = 3
    PASS = 4
    STORE = 5
    WHOLE = 6
    MOVE = 7


@dataclass(slots=True)
class Row:
    """A task. `ops` are the operators it runs, by their number in the group; `value` is what a copy
    carries; `turn` counts tiles in the order they run."""

    kind: int
    engine: int
    ops: Ints
    turn: int
    reads: list[Access]
    writes: list[Access]
    work: int = -1
    cycles: int = 0
    moved: int = 0
    energy: float = 0.0
    copy: int = -1
    choice: int = -1
    source: int = -1
    target: int = -1
    title: Title = Title.OPERATOR
    value: int = -1


@dataclass(slots=True)
class Local:
    """A buffer of the group: of which memory, for which value, made at which turn."""

    memory: int
    size: int
    value: int
    turn: int


@dataclass(frozen=True, slots=True)
class Outside:
    """A buffer that other groups use too: a value in the main memory (core -1), or a core's region
    of a resident one."""

    value: int
    core: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is around a group: how values lie between groups (their look and the memory; none: not
    there), the regions of resident ones, and which operators load a resident value again."""

    main: Mapping[int, tuple[int, int]]
    regions: Mapping[int, Regions]
    reloads: frozenset[tuple[int, int]] = frozenset()


@dataclass(slots=True)
class GroupRows:
    """The rows of a group, the buffers it has for itself, and those it shares with others."""

    rows: list[Row] = field(default_factory=list[Row])
    buffers: list[Local] = field(default_factory=list[Local])
    outside: list[Outside] = field(default_factory=list[Outside])


class Held:
    """Where a part of a value is: bytes from `base` of a slot on, for positions from `span` on."""

    __slots__ = ("base", "memory", "slot", "span", "strides")

    def __init__(self, slot: int, base: int, span: Span, strides: Ints, memory: int) -> None:
        self.slot, self.base, self.span = slot, base, span
        self.strides, self.memory = strides, memory


def group_rows(context: "Context", cut: GroupCut, around: Surroundings) -> GroupRows:
    """The rows of a group in its surroundings."""
    return _Builder(context, cut, around).build()


class _Builder:
    """Builds the tiles of one group, and remembers what each holds for those that follow."""

    def __init__(self, context: "Context", cut: GroupCut, around: Surroundings) -> None:
        self.context, self.cut, self.around = context, cut, around
        self.names = cut.signature.names
        self.number = {name: k for k, name in enumerate(self.names)}
        self.made = GroupRows()
        self.rows = self.made.rows
        tiles = cut.tiles
        self.ops = [OpTiles(tiles, tiled) for tiled in tiles.ops]
        self.spans = {
            self.number[name]: ValueSpans(value, len(tiles.counts))
            for name, value in tiles.values.items()
        }
        self.cached = next((d for d, s in enumerate(tiles.splits) if s.halo is Halo.CACHE), None)
        self.held: dict[tuple[Index, int], dict[int, Held]] = {}
        self.slots: dict[Outside, int] = {}
        self.regions: dict[tuple[int, int], Held] = {}
        self.works: dict[tuple[int, int, object], Work] = {}
        for value, regions in around.regions.items():
            for core, region in regions.items():
                shape = region.box.shape
                _, strides = context.local(self.names[value], shape)
                slot = self.slot(Outside(value, core))
                span = (tuple(i.start for i in region.box), tuple(i.stop for i in region.box))
                memory = context.memory_of(core, self.names[value])
                self.regions[value, core] = Held(slot, 0, span, strides, memory)

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

    def before(self, index: Index, core: int, value: int) -> tuple[int, Held] | None:
        """What an earlier tile holds of a value, and where: the one that computes it for all, or
        the one before along the cached dimension."""
        once = self.cut.tiles.values[self.names[value]].once
        earlier = tuple([0 if dim in once else i for dim, i in enumerate(index)])
        if earlier == index and self.cached is not None:
            earlier = tuple([i - (dim == self.cached) for dim, i in enumerate(index)])
        for home in (core, *self.cut.cores) if earlier != index else ():
            found = self.held.get((earlier, home), {}).get(value)
            if found is not None:
                return home, found
        return None

    def work(self, op: int, tiles: OpTiles, index: Index, core: int) -> "Work":
        """The work of a tile on a core, found out once for all tiles that look the same."""
        key = (op, core, tiles.look(index))
        known = self.works.get(key)
        if known is None:
            known = self.context.work(tiles.tiled, tiles.tile(index), core)
            self.works[key] = known
        return known


class _Tile:
    """Builds one tile of one group on one core."""

    def __init__(self, parent: _Builder, turn: int, index: Index, core: int) -> None:
        self.parent, self.context = parent, parent.context
        self.turn, self.index, self.core = turn, index, core
        self.held = parent.held.setdefault((index, core), {})

    def build(self) -> None:
        """All operators of the tile."""
        number, spans = self.parent.number, self.parent.spans
        for op, tiles in enumerate(self.parent.ops):
            if tiles.computes(self.index):
                self._operator(op, tiles)
            for name in tiles.tiled.node.writes:
                value = number[name]
                if value in spans and spans[value].gives(self.index):
                    self._give(op, value)

    def _operator(self, op: int, tiles: OpTiles) -> None:
        work = self.parent.work(op, tiles, self.index, self.core)
        outputs = tiles.tiled.node.outputs
        reads = [self._operand(op, tiles, operand) for operand in work.operands]
        writes = [
            self._result(op, self.parent.number[outputs[k]], tiles.output(self.index, k))
            for k in work.results
        ]
        self.parent.rows.append(
            Row(
                COMPUTE,
                work.engine,
                (op,),
                self.turn,
                reads,
                writes,
                work.number,
                work.cycles,
                energy=work.energy,
            )
        )

    def _part(self, held: Held, value: int, span: Span) -> Access:
        """A region of what is held of a value."""
        starts, stops = span
        offset = held.base
        for start, origin, stride in zip(starts, held.span[0], held.strides, strict=True):
            offset += (start - origin) * stride
        shape = tuple([b - a for a, b in zip(starts, stops, strict=True)])
        return held.slot, offset, self.context.look(self.parent.names[value], shape, held.strides)

    def _operand(self, op: int, tiles: OpTiles, operand: int) -> Access:
        name = tiles.tiled.node.inputs[operand]
        value = self.parent.number[name]
        span = tiles.input(self.index, operand) or self.context.whole(name)
        if value in self.parent.spans and value not in self.held:
            self._keep(op, value, self.parent.spans[value].have(self.index), None)
        held = self.held.get(value)
        if held is not None:
            return self._part(held, value, span)
        region = self.parent.regions.get((value, self.core))
        if region is not None and (value, op) not in self.parent.around.reloads:
            return self._part(region, value, span)
        if name in self.context.packs and self._packed(op, tiles, name):
            held = self.held[value]
            return held.slot, held.base, self.context.look(name, span_shape(span), held.strides)
        held = self._local(value, span)
        self._copy(Title.LOAD, op, value, self._main(value), held, span)
        return self._part(held, value, span)

    def _main(self, value: int) -> Held:
        """A value as it lies between groups."""
        number, memory = self.parent.around.main[value]
        look = self.context.tables.looks[number]
        slot = self.parent.slot(Outside(value, -1))
        zeros = (0,) * len(look.shape)
        return Held(slot, 0, (zeros, look.shape), look.strides, memory)

    def _packed(self, op: int, tiles: OpTiles, name: str) -> bool:
        """Load weights and bias of the tile's channels by one copy, where they lie together."""
        context, pack, number = self.context, self.context.packs[name], self.parent.number
        inputs = tiles.tiled.node.inputs
        there: dict[str, Span] = {}
        for part in (pack.weights, pack.bias):
            span = tiles.input(self.index, inputs.index(part))
            if span is None:
                return False
            there[part] = span
        channels = channels_of(pack, *there.values())
        if channels is None:
            return False
        first, count = channels
        weights = number[pack.weights]
        step = pack.row * pack.item
        slot = self._buffer(weights, pack.bytes(count), pack.weights)
        memory = self.parent.made.buffers[slot].memory
        for part, (offset, strides) in pack.places.items():
            self.held[number[part]] = Held(slot, offset, there[part], strides, memory)
        look = context.look(pack.weights, (count, pack.row), (step, pack.item))
        source = (self.parent.slot(Outside(weights, -1)), first * step, look)
        target = (slot, 0, look)
        self._transfer(Title.LOAD_PACK, op, weights, source, context.main, target, memory)
        return True

    def _buffer(self, value: int, size: int, name: str, memory: int | None = None) -> int:
        """A buffer of this tile."""
        home = self.context.memory_of(self.core, name) if memory is None else memory
        usable = self.context.usable[home]
        if size > usable:
            where = self.context.machine.memories[home].name
            raise LoweringError(
                f"'{name}' takes {size} bytes of {where}, {usable} are there: "
                "cut its group into more tiles"
            )
        self.parent.made.buffers.append(Local(home, size, value, self.turn))
        return len(self.parent.made.buffers) - 1

    def _local(self, value: int, span: Span) -> Held:
        """Bytes for a region of a value."""
        name = self.parent.names[value]
        size, strides = self.context.local(name, span_shape(span))
        slot = self._buffer(value, size, name)
        return Held(slot, 0, span, strides, self.parent.made.buffers[slot].memory)

    def _copy(
        self, title: Title, op: int, value: int, source: Held, target: Held, span: Span
    ) -> None:
        """Copy a region from one place to another."""
        self._transfer(
            title,
            op,
            value,
            self._part(source, value, span),
            source.memory,
            self._part(target, value, span),
            target.memory,
        )

    def _transfer(
        self,
        title: Title,
        op: int,
        value: int,
        source: Access,
        source_memory: int,
        target: Access,
        target_memory: int,
    ) -> None:
        """A copy on the links that lead there; over every stop between, where several do."""
        hops = self.context.hops(source_memory, target_memory)
        for number, memory in enumerate(hops):
            last = number == len(hops) - 1
            there = target
            if not last:
                name = self.parent.names[value]
                look = self.context.tables.looks[target[2]]
                size = max(1, self.context.tables.bytes_of(target[2]))
                slot = self._buffer(value, size, name, memory)
                there = (slot, 0, self.context.dense(look))
            copy = self.context.tables.copy(source_memory, memory, source[2], there[2])
            cost = self.context.tables.costs[copy]
            way = cost.ways[cost.first]
            self.parent.rows.append(
                Row(
                    COPY,
                    self.context.tables.engine_number[way.link.name],
                    (op,),
                    self.turn,
                    [source],
                    [there],
                    -1,
                    way.cycles,
                    way.moved,
                    cost.energy_pj,
                    copy,
                    cost.first,
                    source_memory,
                    memory,
                    title,
                    value,
                )
            )
            source, source_memory = there, memory

    def _result(self, op: int, value: int, span: Span) -> Access:
        """Where a result goes: into its region if nothing else needs more of it, else by itself."""
        spans = self.parent.spans[value]
        have = spans.have(self.index)
        region = self.parent.regions.get((value, self.core))
        if region is not None and span == have and span_covers(region.span, span):
            given = spans.write(self.index) if spans.gives(self.index) else None
            if given == span:
                access = self._part(region, value, span)
                strides = region.strides
                self.held[value] = Held(access[0], access[1], span, strides, region.memory)
                return access
        self._keep(op, value, have, span)
        return self._part(self.held[value], value, span)

    def _keep(self, op: int, value: int, have: Span, computed: Span | None) -> None:
        """Room for all the tile reads of a value, with what the tile before has of it."""
        before = self.parent.before(self.index, self.core, value)
        here = computed is None and before is not None and before[0] == self.core
        if here and before is not None and span_covers(before[1].span, have):
            self.held[value] = before[1]
            return
        self.held[value] = self._local(value, have)
        kept = have if computed is None else _kept(have, computed)
        if kept is None:
            return
        if before is None or not span_covers(before[1].span, kept):
            name = self.parent.names[value]
            raise LoweringError(f"'{name}' at tile {self.index} is not held by the tile before")
        self._copy(Title.KEEP, op, value, before[1], self.held[value], kept)

    def _give(self, op: int, value: int) -> None:
        """Hand a result to who needs it outside the tile: other groups' regions, the main
        memory."""
        span = self.parent.spans[value].write(self.index)
        if span is None or span_empty(span):
            return
        if value not in self.held:  # all of it computed by earlier tiles, this part not given yet
            self._keep(op, value, self.parent.spans[value].have(self.index), None)
        held = self.held[value]
        own = self.parent.regions.get((value, self.core))
        if own is not None and self._part(own, value, span) != self._part(held, value, span):
            self._copy(Title.KEEP, op, value, held, own, span)
        regions = self.parent.around.regions.get(value, {})
        cut = self.parent.cut
        first = self.core == cut.cores[0]
        for core, region in regions.items():
            computed = cut.replicated and (not first or core in cut.cores)  # its own
            if computed or core == self.core or region.read is None:
                continue
            shared = span_common(span, region.read)
            if shared is not None:
                there = self.parent.regions[value, core]
                self._copy(Title.PASS, op, value, held, there, shared)
        if value in self.parent.around.main and (first or not cut.replicated):
            self._copy(Title.STORE, op, value, held, self._main(value), span)


def _kept(have: Span, computed: Span) -> Span | None:
    """The part of a region that is not computed: a slab at its start along one axis."""
    if have == computed:
        return None
    ends = zip(*have, *computed, strict=True)
    (axis,) = [k for k, (a, b, c, d) in enumerate(ends) if (a, b) != (c, d)]
    stops = tuple([computed[0][k] if k == axis else stop for k, stop in enumerate(have[1])])
    return have[0], stops
