"""The network as a search sees it: units that always run together, and what passes between them.

A unit is an operator with the activations that fold into it, or a piece of data movement. Views of
a unit's result (reshape, transpose, slice) belong to it: they cost nothing and follow it. What is
no such view (a concat, a resize) moves in the main memory, or runs on the cores: inside the unit
whose result nobody else reads, else as one of its own. Then views of what nobody else reads are
inside the unit too, so that what they make can stay in the scratchpads.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property

from tilewright.cost.models import CostModels, finishes, models_of
from tilewright.errors import TilingError
from tilewright.graph.graph import Graph, Node
from tilewright.graph.ops import runs_whole, spec_of
from tilewright.graph.ops.spec import Engine, op_of
from tilewright.machine.machine import Machine
from tilewright.plan.plan import GroupPlan, Place
from tilewright.program.joints import Joining, joinings_of
from tilewright.program.layout import Layouts
from tilewright.program.program import View
from tilewright.program.tile_work import tile_works_of
from tilewright.program.views import concat_parts, view_of
from tilewright.tiling.group import TiledOp, typed_group


@dataclass(frozen=True, slots=True)
class Unit:
    """Nodes by number; `views` follow the others, at no cost."""

    number: int
    nodes: tuple[int, ...]
    place: Place
    views: tuple[int, ...] = ()


_Draft = tuple[list[int], Place, list[int]]
"""The nodes of a unit, where they run, and views that follow."""


@dataclass
class Network:
    """A graph on a machine in an element type, divided into units in an order that runs."""

    graph: Graph
    machine: Machine
    dtype: str
    on_chip: bool = False  # whether data movement runs on the cores
    layouts: Layouts = field(init=False)
    joinings: dict[str, Joining] = field(init=False)
    models: CostModels = field(init=False)

    def __post_init__(self) -> None:
        self.layouts = Layouts.of(self.graph, self.machine, self.dtype)
        self.joinings = {joining.node: joining for joining in joinings_of(self.layouts)}
        self.models = models_of(self.machine)
        self._views: dict[str, View] = {}
        self._parts: set[str] = set()
        self._ops: dict[int, tuple[TiledOp, ...]] = {}
        self._keepable: dict[str, bool] = {}

    def on(self, cores: Collection[str]) -> "Network":
        """The same with some cores only."""
        other = copy(self)
        other.machine = self.machine.part(cores)
        other.models = models_of(other.machine)
        return other

    def moving_on_cores(self) -> "Network":
        """The same with data movement on the cores, where they can do it."""
        return Network(self.graph, self.machine, self.dtype, on_chip=True)

    @cached_property
    def moved_bytes(self) -> int:
        """Bytes that data movement on the cores makes."""
        graph, types = self.graph, self.graph.types
        inside = (node for unit in self.units if unit.place is Place.CORES for node in unit.nodes)
        moving = (graph.nodes[node] for node in inside if self._moves(graph.nodes[node]))
        names = (name for node in moving for name in node.writes)
        return sum(self.layouts.bytes(name, types[name].shape, aligned=True) for name in names)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """All units; every node is in one of them."""
        drafts: list[_Draft] = []
        home: dict[int, int] = {}
        for index in range(len(self.graph.nodes)):
            if index in home:
                continue
            place = self._movement(index)
            makers = {home[p] for p in self.graph.predecessors(index)}
            maker = next((m for m in makers if self._alone_reads(index, drafts[m])), None)
            inside = place is Place.MAIN or (place is Place.VIEW and maker is not None)
            if self.on_chip and inside and self._movable(index):
                for name in self.graph.nodes[index].writes:
                    self._views.pop(name, None)
                home[index] = len(drafts) if maker is None else maker
                if maker is None:
                    drafts.append(([index], Place.CORES, []))
                else:
                    drafts[maker][0].append(index)
                continue
            if place is Place.VIEW and len(makers) == 1 and self._single(index):
                (maker,) = makers
                drafts[maker][2].append(index)
                home[index] = maker
                continue
            members = [index] if place is not Place.CORES else [index, *self._activations(index)]
            home.update(dict.fromkeys(members, len(drafts)))
            drafts.append((members, place, []))
        return tuple(
            Unit(number, tuple(nodes), place, tuple(views))
            for number, (nodes, place, views) in enumerate(drafts)
        )

    @cached_property
    def home(self) -> Mapping[int, int]:
        """Node -> its unit."""
        return {n: u.number for u in self.units for n in (*u.nodes, *u.views)}

    @cached_property
    def predecessors(self) -> tuple[int, ...]:
        """For each unit, those it needs, as a bitmask."""
        masks: list[int] = []
        for unit in self.units:
            needed = {
                self.home[p]
                for node in (*unit.nodes, *unit.views)
                for p in self.graph.predecessors(node)
            }
            masks.append(sum(1 << number for number in needed if number != unit.number))
        return tuple(masks)

    def members(self, mask: int) -> list[int]:
        """The units of a bitmask, in order."""
        return [number for number in range(mask.bit_length()) if mask >> number & 1]

    def ops(self, number: int) -> tuple[TiledOp, ...]:
        """The operators of a unit that runs on the cores."""
        if number not in self._ops:
            self._ops[number] = typed_group(self.graph, self.units[number].nodes)
        return self._ops[number]

    def joined_ops(self, members: Iterable[int]) -> tuple[TiledOp, ...]:
        """The operators of several units, in the order of the network."""
        found = (tiled for number in members for tiled in self.ops(number))
        return tuple(sorted(found, key=lambda tiled: self.graph.index[tiled.node.name]))

    def on_cores(self, number: int) -> bool:
        """Whether a unit can run on the cores, by itself or in a group."""
        return self._cores_run[number]

    @cached_property
    def _cores_run(self) -> tuple[bool, ...]:
        return tuple(
            unit.place is not Place.VIEW
            and not any(runs_whole(self.graph, self.graph.nodes[index]) for index in unit.nodes)
            for unit in self.units
        )

    def names(self, nodes: Iterable[int]) -> tuple[str, ...]:
        """Names of nodes."""
        return tuple(self.graph.nodes[index].name for index in nodes)

    def movements(self, number: int) -> Iterator[GroupPlan]:
        """The groups of a unit's data movement: the unit itself, or the views behind it."""
        unit = self.units[number]
        if unit.place is not Place.CORES:
            yield GroupPlan(self.names(unit.nodes), (), None, unit.place)
        for view in unit.views:
            yield GroupPlan(self.names([view]), (), None, Place.VIEW)

    def keepable(self, name: str) -> bool:
        """Whether a value can stay in the scratchpads: made and read by operators on cores."""
        known = self._keepable.get(name)
        if known is None:
            maker, readers = self.graph.producer.get(name), self.graph.consumers.get(name, ())
            known = maker is not None and self._on_cores(maker)
            known = known and any(self._on_cores(reader) for reader in readers)
            self._keepable[name] = known
        return known

    def _on_cores(self, node: int) -> bool:
        unit = self.units[self.home[node]]
        return unit.place is Place.CORES and node in unit.nodes

    def main_view(self, name: str) -> View:
        """How a value lies in the main memory, as the builder will lay it out."""
        return self._views.get(name) or self.layouts.main_view(0, name)

    def _movable(self, index: int) -> bool:
        """Whether a node is data movement that cores can do."""
        if not self._moves(self.graph.nodes[index]):
            return False
        try:
            typed_group(self.graph, [index])
        except TilingError:
            return False
        return True

    def _moves(self, node: Node) -> bool:
        """Whether a node moves data, any part of it at a time."""
        known = spec_of(self.graph, node)
        moves = known is not None and known[0].engine is Engine.MOVE
        return moves and not runs_whole(self.graph, node)

    def _alone_reads(self, index: int, draft: _Draft) -> bool:
        """Whether a node reads nothing but the result of a unit on cores, and nobody else does."""
        nodes, place, _ = draft
        made = list(self.graph.nodes[nodes[-1]].writes)
        read = [name for name in self.graph.nodes[index].reads if name in self.graph.producer]
        readers = [r for name in made for r in self.graph.consumers.get(name, ())]
        shown = any(name in self.graph.outputs for name in made)
        return place is Place.CORES and made == read and readers == [index] and not shown

    def _single(self, index: int) -> bool:
        """Whether a view has one maker before it, which it can follow at once."""
        spec = spec_of(self.graph, self.graph.nodes[index])
        return spec is not None and spec[0].parts is None

    def _movement(self, index: int) -> Place:
        """Data movement is a view where it can be, else copies within the main memory."""
        node = self.graph.nodes[index]
        known = spec_of(self.graph, node)
        if known is None or runs_whole(self.graph, node):
            return Place.MAIN
        if known[0].engine is not Engine.MOVE:
            return Place.CORES
        op = known[1]
        if known[0].parts is not None:
            parts = not self.on_chip and self._takes_parts(node)
            return Place.VIEW if parts else Place.MAIN
        source = self.main_view(node.inputs[0])
        views = [view_of(op, source, k) for k, kind in enumerate(op.outputs) if kind is not None]
        outside = any(name in self.graph.outputs for name in node.writes)
        if outside or any(view is None for view in views):
            return Place.MAIN
        for name, view in zip(node.writes, views, strict=True):
            if view is not None:
                self._views[name] = view
        return Place.VIEW

    def _takes_parts(self, node: Node) -> bool:
        """Whether all inputs of a concat can be written straight into its result."""
        sources = [self.graph.producer.get(name) for name in node.inputs]
        fixed = {*self.graph.inputs, *self.graph.outputs, *self.graph.constants}
        if None in sources or len(set(node.inputs)) < len(node.inputs):
            return False
        for name, source in zip(node.inputs, sources, strict=True):
            known = spec_of(self.graph, self.graph.nodes[source or 0])
            taken = name in fixed or name in self._views or name in self._parts
            readers = (self.graph.nodes[i] for i in self.graph.consumers.get(name, ()))
            viewed = any(written in self._views for r in readers for written in r.writes)
            if known is None or known[0].engine is Engine.MOVE or taken or viewed:
                return False
        op = op_of(self.graph, node)
        assert op is not None
        places = concat_parts(op, self.main_view(node.outputs[0]))
        self._views.update(zip(node.inputs, places, strict=True))
        self._parts.update(node.inputs)
        return True

    def _activations(self, index: int) -> Iterator[int]:
        """What the output stage of a matrix operator runs: each the only reader of the one before,
        with all else that it reads made before the operator."""
        try:
            (tiled,) = typed_group(self.graph, [index])
        except TilingError:
            return
        work = tile_works_of(self.graph, self.dtype).whole(tiled)
        cores = [alike[0] for alike in self.models.core_classes]
        engines = [self.models.engine(c, work, self.models.either(c, work)) for c in cores]
        arrays = [engine for engine in engines if engine.kind == "matrix"]
        first = index
        while arrays:
            (name, *_) = self.graph.nodes[index].outputs
            readers = self.graph.consumers.get(name, ())
            if len(readers) != 1 or name in self.graph.outputs:
                return
            index = readers[0]
            node = self.graph.nodes[index]
            known = spec_of(self.graph, node)
            finishing = known and known[0].finishing(known[1])
            if finishing is None or node.inputs.index(name) not in finishing.operands:
                return
            if not any(finishes(engine, finishing.finish, work) for engine in arrays):
                return
            others = (self.graph.producer.get(other, -1) for other in node.inputs if other != name)
            if max(others, default=-1) > first:
                return
            yield index
