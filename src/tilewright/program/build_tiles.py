"""The tasks of one group: every tile's copies in, its operators, what it hands on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.cost.base import Cost
from tilewright.cost.from_graph import workload_of
from tilewright.errors import TilewrightError
from tilewright.geometry.box import Box
from tilewright.geometry.interval import Interval
from tilewright.graph.graph import Array
from tilewright.graph.ops.spec import Step, StepInput, Tile
from tilewright.machine.machine import Core
from tilewright.program.constants import channels_of, immediate
from tilewright.program.layout import part
from tilewright.program.program import Compute, Task, View
from tilewright.program.residents import CutGroup
from tilewright.tiling.grid import Halo
from tilewright.tiling.group import TiledOp

if TYPE_CHECKING:
    from tilewright.program.build import Builder

Index = tuple[int, ...]


class LoweringError(TilewrightError):
    """The plan cannot be lowered for this machine; `groups` of it are at fault, where known."""

    groups: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Held:
    view: View
    box: Box


@dataclass(frozen=True, slots=True)
class _Work:
    """What tiles of an operator that look alike have in common: the operands they read, and the
    outputs they write, by number; what runs where, and what it costs."""

    operands: tuple[int, ...]
    results: tuple[int, ...]
    compute: Compute
    engine: str
    cost: Cost


class GroupBuilder:
    """Builds the tiles of one group, and remembers what each holds for those that follow."""

    def __init__(self, builder: "Builder", group: CutGroup) -> None:
        self.builder, self.number, self.tiles = builder, group.number, group.tiles
        self.turns, self.everywhere = group.turns, group.everywhere
        self.cached = next(
            (d for d, s in enumerate(group.tiles.splits) if s.halo is Halo.CACHE), None
        )
        self.held: dict[tuple[Index, str], dict[str, _Held]] = {}
        self._known: dict[tuple[str, str, object], _Work] = {}

    def build(self) -> None:
        """All tiles in turn."""
        for tile, (index, core) in enumerate(self.turns):
            _TileBuilder(self, core, tile, index).build()

    def before(self, index: Index, core: Core, name: str) -> tuple[str, _Held] | None:
        """What an earlier tile holds of a value, and where: the one that computes it for all, or
        the one before along the cached dimension."""
        once = self.tiles.values[name].once
        earlier = tuple(0 if dim in once else i for dim, i in enumerate(index))
        if earlier == index and self.cached is not None:
            earlier = tuple(i - (dim == self.cached) for dim, i in enumerate(index))
        for home in (core, *self.builder.machine.cores) if earlier != index else ():
            found = self.held.get((earlier, home.name), {}).get(name)
            if found is not None:
                return home.name, found
        return None

    def work(self, tiled: TiledOp, tile: Tile, core: Core) -> _Work:
        """The work of a tile on a core, found out once for all tiles that look the same."""
        key = (tiled.node.name, core.name, _look(tiled, tile))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._new_work(tiled, tile, core)
        return known

    def _new_work(self, tiled: TiledOp, tile: Tile, core: Core) -> _Work:
        builder = self.builder
        steps = tiled.spec.tile(tiled.op, tile)
        operands: list[int] = []
        numbers: dict[int, int | Array] = {}
        for operand in sorted({i for step in steps for i in step.inputs if isinstance(i, int)}):
            known = immediate(builder.graph, tiled.node.inputs[operand])
            if known is not None:
                numbers[operand] = known
                continue
            numbers[operand] = len(operands)
            operands.append(operand)
        results = [k for k, box in enumerate(tile.outputs) if box is not None and not box.empty]
        places = {position: number for number, position in enumerate(results)}
        work = workload_of(tiled.spec, tiled.op, tile, builder.plan.dtype, tiled.access[0])
        engine, cost = builder.models.best(core, work)
        compute = Compute(tuple(renumbered(step, numbers, places) for step in steps), work)
        return _Work(tuple(operands), tuple(results), compute, engine.name, cost)


class _TileBuilder:
    """Builds one tile of one group on one core."""

    def __init__(self, parent: GroupBuilder, core: Core, tile: int, index: Index) -> None:
        self.parent, self.builder, self.group = parent, parent.builder, parent.tiles
        self.core, self.tile, self.index = core, tile, index
        self.label = ".".join(map(str, index)) or "0"
        if parent.everywhere:
            self.label += f"/{core.name}"
        self.held = parent.held.setdefault((index, core.name), {})

    def build(self) -> None:
        """All operators of the tile."""
        for tiled in self.group.ops:
            tile = self.group.tile(tiled, self.index)
            if tile is not None:
                self._operator(tiled, tile)
            for name in tiled.node.writes:
                self._give(tiled, name)

    def _copy(self, title: str, tiled: TiledOp, source: View, target: View) -> None:
        carried = self.builder.transfer(source, target)
        self.builder.tasks.append(
            Task(
                title,
                carried.engine,
                carried.work,
                (source,),
                (target,),
                carried.cycles,
                carried.moved,
                carried.energy_pj,
                node=tiled.node.name,
                group=self.parent.number,
                tile=self.tile,
            )
        )

    def _operator(self, tiled: TiledOp, tile: Tile) -> None:
        work = self.parent.work(tiled, tile, self.core)
        reads = tuple([self._operand(tiled, tile, operand) for operand in work.operands])
        writes: list[View] = []
        for position in work.results:
            box = tile.outputs[position]
            assert box is not None
            writes.append(self._result(tiled, tiled.node.outputs[position], box))
        node, cost = tiled.node.name, work.cost
        self.builder.tasks.append(
            Task(
                f"{node}@{self.label}",
                work.engine,
                work.compute,
                reads,
                tuple(writes),
                cost.cycles,
                energy_pj=cost.energy_pj,
                node=node,
                group=self.parent.number,
                tile=self.tile,
            )
        )

    def _operand(self, tiled: TiledOp, tile: Tile, number: int) -> View:
        name = tiled.node.inputs[number]
        kind = self.builder.graph.types[name]
        box = tile.input_box(number) or Box.whole(kind.shape)
        if name in self.group.values and name not in self.held:
            self._keep(tiled, name, self.group.values[name].box(self.index), None)
        if name in self.held:
            return part(self.held[name].view, self.held[name].box, box)
        room = self.builder.rooms.get(name, {}).get(self.core.name)
        if room is not None and tiled.node.name not in self.builder.reloaded.get(name, ()):
            return part(room.view, room.box, box)
        if name in self.builder.packs and self._packed(tiled, tile, name):
            return self.held[name].view
        view = self._local(name, box)
        source = part(self.builder.main[name], Box.whole(kind.shape), box)
        self._copy(f"load {name}@{self.label}", tiled, source, view)
        return view

    def _packed(self, tiled: TiledOp, tile: Tile, name: str) -> bool:
        """Load weights and bias of the tile's channels by one copy, where they lie together."""
        builder, pack = self.builder, self.builder.packs[name]
        boxes = {n: tile.input_box(tiled.node.inputs.index(n)) for n in (pack.weights, pack.bias)}
        there = {n: box for n, box in boxes.items() if box is not None}
        channels = channels_of(pack, there) if len(there) == len(boxes) else None
        if channels is None:
            return False
        first, count = channels
        types = builder.graph.types
        dtypes = (types[pack.weights].dtype, types[pack.bias].dtype)
        size = pack.bytes(count)
        buffer = builder.new_buffer(f"{pack.weights}@{self.label}", self.core, size, pack.weights)
        for part_name, view in pack.views(buffer, count, dtypes).items():
            self.held[part_name] = _Held(view, there[part_name])
        source = pack.rows(builder.main[pack.weights].buffer, first, count, dtypes[0])
        target = pack.rows(buffer, 0, count, dtypes[0])
        title = f"load {pack.weights}+{pack.bias}@{self.label}"
        self._copy(title, tiled, source, target)
        return True

    def _local(self, name: str, box: Box) -> View:
        return self.builder.local(name, self.core, box, self.label)

    def _result(self, tiled: TiledOp, name: str, box: Box) -> View:
        """Where a result goes: into its room if nothing else needs more of it, else by itself."""
        tiles = self.group.values[name]
        room = self.builder.rooms.get(name, {}).get(self.core.name)
        have = tiles.box(self.index)
        if room is not None and room.box.covers(box) and (box == have == self._written(name)):
            view = part(room.view, room.box, box)
            self.held[name] = _Held(view, box)
            return view
        self._keep(tiled, name, have, box)
        return part(self.held[name].view, have, box)

    def _keep(self, tiled: TiledOp, name: str, have: Box, computed: Box | None) -> None:
        """Room for all the tile reads of a value, with what the tile before has of it."""
        before = self.parent.before(self.index, self.core, name)
        here = computed is None and before is not None and before[0] == self.core.name
        if here and before is not None and before[1].box.covers(have):
            self.held[name] = before[1]
            return
        self.held[name] = _Held(self._local(name, have), have)
        kept = have if computed is None else _kept(have, computed)
        if kept is None:
            return
        if before is None or not before[1].box.covers(kept):
            raise LoweringError(f"'{name}' at tile {self.label} is not held by the tile before")
        source = part(before[1].view, before[1].box, kept)
        target = part(self.held[name].view, have, kept)
        self._copy(f"keep {name}@{self.label}", tiled, source, target)

    def _written(self, name: str) -> Box | None:
        """What this tile gives to the outside of a value."""
        tiles = self.group.values[name]
        return tiles.write_box(self.index) if tiles.gives_at(self.index) else None

    def _give(self, tiled: TiledOp, name: str) -> None:
        """Hand a result to who needs it outside the tile: other groups' rooms, the main memory."""
        box = self._written(name) if name in self.group.values else None
        if box is None or box.empty:
            return
        if name not in self.held:  # all of it computed by earlier tiles, this part not given yet
            self._keep(tiled, name, self.group.values[name].box(self.index), None)
        held = self.held[name]
        source = part(held.view, held.box, box)
        rooms = self.builder.rooms.get(name, {})
        own = rooms.get(self.core.name)
        if own is not None:
            home = part(own.view, own.box, box)
            if home != source:
                self._copy(f"keep {name}@{self.label}", tiled, source, home)
        for core, room in rooms.items() if not self.parent.everywhere else ():
            shared = room.read.intersect(box) if room.read is not None else None
            if core == self.core.name or shared is None or shared.empty:
                continue
            title = f"pass {name}@{self.label}>{core}"
            from_here = part(held.view, held.box, shared)
            there = part(room.view, room.box, shared)
            self._copy(title, tiled, from_here, there)
        first = self.core is self.builder.machine.cores[0]
        if name in self.builder.main and (first or not self.parent.everywhere):
            whole = Box.whole(self.builder.graph.types[name].shape)
            target = part(self.builder.main[name], whole, box)
            self._copy(f"store {name}@{self.label}", tiled, source, target)


def _look(tiled: TiledOp, tile: Tile) -> object:
    """What the work of a tile depends on: extents and padding, not where it lies. Data movement is
    the exception: its steps may say from where they take."""
    if tiled.spec.family == "layout":
        return tile
    outputs = tuple([None if box is None else box.shape for box in tile.outputs])
    inputs = [
        None
        if reaches is None
        else tuple([(r.interval.stop - r.interval.start, r.before, r.after) for r in reaches])
        for reaches in tile.inputs
    ]
    return outputs, tuple(inputs)


def _kept(have: Box, computed: Box) -> Box | None:
    """The part of a region that is not computed: a slab at its start along one axis."""
    if have == computed:
        return None
    differing = [axis for axis, (a, b) in enumerate(zip(have, computed, strict=True)) if a != b]
    (axis,) = differing
    slab = Interval(have[axis].start, computed[axis].start)
    return Box(tuple(slab if k == axis else i for k, i in enumerate(have)))


def renumbered(step: Step, reads: Mapping[int, int | Array], writes: dict[int, int]) -> Step:
    """The step with the operands of the task instead of those of the operator."""
    inputs: tuple[StepInput, ...] = tuple(
        reads[i] if isinstance(i, int) else i for i in step.inputs
    )
    outputs = tuple(writes[o] if isinstance(o, int) else o for o in step.outputs)
    return Step(step.kind, step.attributes, inputs, outputs, step.local_shape)
