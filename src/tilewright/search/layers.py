"""Layer by layer: each operator alone, every activation through the main memory, the best tile
and spread over the cores for each."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tilewright.cost.base import Copy
from tilewright.cost.dma import moved_bytes, start_cycles
from tilewright.cost.from_graph import workload_of
from tilewright.cost.models import CostModels
from tilewright.errors import TilewrightError, TilingError
from tilewright.geometry.box import Box
from tilewright.graph.graph import Graph, Node
from tilewright.graph.ops import spec_of
from tilewright.graph.ops.spec import Engine
from tilewright.machine.machine import Machine
from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.program.layout import Layouts, part
from tilewright.program.program import View
from tilewright.program.views import view_of
from tilewright.tiling.grid import Split
from tilewright.tiling.group import GroupTiles, TiledOp, cut_ops, exports, typed_group, whole_tile
from tilewright.units import format_bytes

PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)


class NoTileFitsError(TilewrightError):
    """The scratchpad is too small for a single tile of an operator."""


@dataclass(frozen=True, slots=True)
class _Estimate:
    cycles: float
    bytes: int
    plan: GroupPlan


class LayerPlanner:
    """Chooses tiles for one operator at a time."""

    def __init__(self, graph: Graph, machine: Machine, dtype: str) -> None:
        self.graph, self.machine, self.dtype = graph, machine, dtype
        self.layouts = Layouts.of(graph, machine, dtype)
        self.models = CostModels(machine)
        self.views: dict[str, View] = {}
        self.parts: set[str] = set()
        self.usable = min(core.memory.usable for core in machine.cores)
        memory = machine.main_memory.name
        self.link, self.route = next(machine.routes(memory, machine.cores[0].memory.name))

    def plan(self, model: str) -> Plan:
        """A group for every operator."""
        groups: list[GroupPlan] = []
        known: dict[tuple[object, ...], GroupPlan] = {}
        folded: set[int] = set()
        for index in range(len(self.graph.nodes)):
            if index in folded:
                continue
            members = [index, *self._activations(index)]
            folded.update(members)
            place = self._movement(index)
            if place is not Place.CORES:
                groups.append(GroupPlan((self.graph.nodes[index].name,), (), None, place))
                continue
            look = self._look(index)
            if look not in known:
                known[look] = self._best(index)
            chosen = known[look]
            names = tuple(self.graph.nodes[i].name for i in members)
            groups.append(GroupPlan(names, chosen.splits, chosen.spread))
        return Plan(model, self.machine.name, self.dtype, tuple(groups))

    def _movement(self, index: int) -> Place:
        """Data movement is a view where it can be, else copies within the main memory."""
        node = self.graph.nodes[index]
        known = spec_of(self.graph, node)
        if known is None or known[0].engine is not Engine.MOVE:
            return Place.CORES
        op = known[1]
        if op.kind == "Concat":
            return Place.VIEW if self._takes_parts(node) else Place.MAIN
        source = self._main_view(node.inputs[0])
        views = [view_of(op, source, k) for k, kind in enumerate(op.outputs) if kind is not None]
        outside = any(name in self.graph.outputs for name in node.writes)
        if outside or any(view is None for view in views):
            return Place.MAIN
        for name, view in zip(node.writes, views, strict=True):
            if view is not None:
                self.views[name] = view
        return Place.VIEW

    def _main_view(self, name: str) -> View:
        """How a value lies in the main memory, as the builder will lay it out."""
        return self.views.get(name) or self.layouts.main_view(0, name)

    def _takes_parts(self, node: Node) -> bool:
        """Whether all inputs of a concat can be written straight into its result."""
        sources = [self.graph.producer.get(name) for name in node.inputs]
        fixed = {*self.graph.inputs, *self.graph.outputs, *self.graph.constants}
        if None in sources or len(set(node.inputs)) < len(node.inputs):
            return False
        for name, source in zip(node.inputs, sources, strict=True):
            known = spec_of(self.graph, self.graph.nodes[source or 0])
            taken = name in fixed or name in self.views or name in self.parts
            if known is None or known[0].engine is Engine.MOVE or taken:
                return False
        self.parts.update(node.inputs)
        return True

    def _activations(self, index: int) -> Iterator[int]:
        """Activations that run inside a matrix operator: each the only reader of the one before."""
        try:
            (tiled,) = typed_group(self.graph, [index])
        except TilingError:
            return
        work = workload_of(tiled.spec, tiled.op, whole_tile(tiled), self.dtype)
        if self.models.best(self.machine.cores[0], work)[0].kind != "matrix":
            return
        while True:
            (name, *_) = self.graph.nodes[index].outputs
            readers = self.graph.consumers.get(name, ())
            if len(readers) != 1 or name in self.graph.outputs:
                return
            index = readers[0]
            known = spec_of(self.graph, self.graph.nodes[index])
            if known is None or not known[0].folds or self.graph.nodes[index].inputs[0] != name:
                return
            yield index

    def _look(self, index: int) -> tuple[object, ...]:
        node = self.graph.nodes[index]
        names = (*node.inputs, *node.outputs)
        types = tuple((self.graph.types.get(n), n in self.graph.constants) for n in names)
        attributes = tuple(sorted((k, str(v)) for k, v in node.attributes.items()))
        images = tuple(name in self.layouts.images for name in names)
        return node.kind, attributes, types, images

    def _best(self, index: int) -> GroupPlan:
        (tiled,) = typed_group(self.graph, [index])
        exported = exports(self.graph, [index])
        best: _Estimate | None = None
        smallest = None
        for splits, spread in self._choices(tiled):
            try:
                group = cut_ops(self.graph, (tiled,), exported, splits, probe=True)
            except TilingError:
                continue
            estimate = self._estimate(tiled, group, splits, spread)
            smallest = min(smallest or estimate.bytes, estimate.bytes)
            if estimate.bytes <= self.usable and (best is None or estimate.cycles < best.cycles):
                best = estimate
        if best is None:
            raise NoTileFitsError(
                f"no tile of '{tiled.node.name}' ({tiled.node.kind}) fits {self.machine.name}: "
                f"{format_bytes(smallest or 0)} needed, {format_bytes(self.usable)} there"
            )
        return best.plan

    def _choices(self, tiled: TiledOp) -> Iterator[tuple[tuple[Split, ...], int | None]]:
        """Ways to cut: none, one axis, or output channels and one other; spread over the cores."""
        access = tiled.access[0]
        cores = len(self.machine.cores)
        yield (), None
        axes = access.tileable()
        channel = 1 if len(access.shape) == 4 else len(access.shape) - 1
        for axis in axes:
            for parts in self._parts(access.shape[axis], cores):
                yield (Split(axis, parts),), 0
        if channel in axes:
            for parts in self._parts(access.shape[channel], cores):
                for axis in axes:
                    if axis == channel or axis == 0:
                        continue
                    for other in self._parts(access.shape[axis], 1):
                        if other > 1 and parts > 1:
                            yield (Split(channel, parts), Split(axis, other)), 0
                            yield (Split(axis, other), Split(channel, parts)), 0

    @staticmethod
    def _parts(extent: int, cores: int) -> list[int]:
        return [n * cores for n in PARTS if 1 < n * cores <= extent]

    def _estimate(
        self, tiled: TiledOp, group: GroupTiles, splits: tuple[Split, ...], spread: int | None
    ) -> _Estimate:
        tile = group.tile(tiled, (0,) * len(splits))
        assert tile is not None
        tiles = prod(split.parts for split in splits)
        cores = len(self.machine.cores) if spread is not None else 1
        work = workload_of(tiled.spec, tiled.op, tile, self.dtype)
        _, cost = self.models.best(self.machine.cores[0], work)
        rate = self.machine.alone_bytes_per_cycle(self.route)
        room = 0
        dma = 0.0
        boxes = [(name, tile.input_box(k)) for k, name in enumerate(tiled.node.inputs)]
        written = list(zip(tiled.node.outputs, tile.outputs, strict=True))
        for number, (name, box) in enumerate((*boxes, *written)):
            if not name or box is None or box.empty:
                continue
            room += self.layouts.bytes(name, box.shape, aligned=True)
            view = self._main_view(name)
            copy = Copy(*part(view, Box.whole(view.shape), box).runs())
            cycles = start_cycles(copy, self.link, self.route)
            cycles += moved_bytes(copy, self.route) / rate
            times = self._loads(tiled, number, splits) if number < len(boxes) else tiles
            dma += cycles * times / tiles
        turns = -(-tiles // cores)
        cycles = max(tiles * dma, turns * cost.cycles) + dma + cost.cycles
        copies = 2 if turns > 1 else 1
        return _Estimate(cycles, copies * room, GroupPlan((), splits, spread))

    def _loads(self, tiled: TiledOp, number: int, splits: tuple[Split, ...]) -> int:
        """How often an operand is loaded: again only when a dimension that drives it moves on."""
        rules = tiled.access[0].inputs[number]
        axes = {rule.axis for rule in rules or ()}
        driving = [dim for dim, split in enumerate(splits) if split.axis in axes]
        if not driving:
            return len(self.machine.cores) if splits else 1
        return prod(split.parts for split in splits[: driving[-1] + 1])
