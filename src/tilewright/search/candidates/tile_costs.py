"""What tiles of nodes and parts of values cost, remembered by what these look like: repeated blocks
of a network are worked out once."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from tilewright.cost.base import Copy, Workload
from tilewright.cost.dma import moved_bytes, start_cycles
from tilewright.cost.from_graph import workload_of
from tilewright.geometry.access import Access, Reach
from tilewright.geometry.box import Box, span_of
from tilewright.geometry.interval import Interval
from tilewright.graph.ops.spec import Engine, Tile, is_given
from tilewright.machine.machine import Core, Hop
from tilewright.program.constants import channels_of, constant_strides, immediate, packs_of
from tilewright.program.layout import part
from tilewright.program.program import View
from tilewright.program.tile_work import tile_works_of
from tilewright.search.candidates.network import Network
from tilewright.tiling.group import TiledOp, reaches_of

Span = tuple[int, int]
Spans = tuple[Span, ...]
Dims = tuple[int | None, ...]
"""Per axis, the dimension of the grid that drives it."""


@dataclass(slots=True)
class PartCost:
    """A part of a value: cycles to copy it (latency shared by the links there are), bytes copied,
    bytes it takes in a scratchpad."""

    cycles: float
    bytes: int
    held: int


class Run(NamedTuple):
    """What the best engine of a core takes for a tile."""

    kind: str
    cycles: int
    energy: float


Constants = tuple[tuple[tuple[int, ...], PartCost], ...]
"""Copies of constants, with the output axes that drive them."""


@dataclass
class NodeTile:
    """A tile of a node. `reads` are regions by output, then by data input; `constants` are copies
    with the output axes that drive them; `sizes` are elements of each output: of all, of the
    tile's. None of `ran` where there is nothing to compute."""

    sizes: tuple[tuple[int, int], ...]
    reads: tuple[tuple[Spans, ...] | None, ...]
    constants: Constants
    ran: Callable[[], tuple[Run, ...]] | None

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """By kind of core; worked out when it is asked for: copies alone rule most tiles out."""
        return () if self.ran is None else self.ran()


class Value:
    """A value's looks, and what parts of it cost."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.known: dict[Spans, PartCost] = {}
        self.shapes: dict[tuple[int, ...], PartCost] = {}


class NodeLooks:
    """A node's looks, and its tiles."""

    def __init__(self, tiled: TiledOp, cores: Sequence[Core]) -> None:
        self.tiled = tiled
        self.known: dict[tuple[Spans | None, ...], NodeTile] = {}
        self.either: tuple[bool, ...] | None = None  # vector engines may run what arrays can
        op = tiled.op
        self.data = tuple(
            number
            for number, operand in enumerate(op.inputs)
            if operand is not None
            and not operand.constant
            and any(access.inputs[number] is not None for access in tiled.access)
        )
        self.grown = tuple(map(_growing_axes, tiled.access))
        self.axes = tuple(
            tuple(_axes(access, number) for number in self.data) for access in tiled.access
        )
        finishing = tiled.spec.finishing(tiled.op)
        self.folds = tuple(  # on which kinds of cores an output stage may run it
            finishing is not None and any(finishing.finish in e.output_stage for e in core.engines)
            for core in cores
        )
        # Output axes that decide which parts of its constants a tile reads, and what these cost.
        constant = {
            rule.axis
            for operand, rules in zip(op.inputs, tiled.access[0].inputs, strict=False)
            for rule in (rules or () if operand is not None and operand.constant else ())
            if rule.axis is not None
        }
        self.constant_axes = tuple(sorted(constant))
        self.constants: dict[Spans, Constants] = {}
        self.moves = tiled.spec.engine is Engine.MOVE
        self.dims: dict[tuple[int, Dims], tuple[Dims | None, ...]] = {}
        self.regions: dict[tuple[int, Spans], Spans] = {}

    def grow(self, output: int, spans: Spans) -> Spans:
        """The smallest region holding this one that the operator can compute on its own."""
        key = (output, spans)
        known = self.regions.get(key)
        if known is None:
            access, found = self.tiled.access[output], list(spans)
            for axis in self.grown[output]:
                grown = access.grow(axis, Interval(*spans[axis]))
                found[axis] = (grown.start, grown.stop)
            known = self.regions[key] = tuple(found)
        return known

    def driven(self, output: int, dims: Dims) -> tuple[Dims | None, ...]:
        """What drives the axes of each data input, given what drives the output's."""
        key = (output, dims)
        known = self.dims.get(key)
        if known is None:
            known = self.dims[key] = tuple(
                None
                if axes is None
                else tuple(None if axis is None else dims[axis] for axis in axes)
                for axes in self.axes[output]
            )
        return known


def _growing_axes(access: Access) -> tuple[int, ...]:
    return tuple(axis for axis in range(len(access.shape)) if access.grows(axis))


def _axes(access: Access, number: int) -> tuple[int | None, ...] | None:
    rules = access.inputs[number]
    return None if rules is None else tuple(rule.axis for rule in rules)


class TileCosts:
    """Nodes and values of one network by their looks, with what their tiles cost."""

    reshapes = True  # whether the pass implicit-reshape is going to run

    def __init__(self, network: Network) -> None:
        self.network, self.machine = network, network.machine
        main = self.machine.main_memory.name
        self.cores = [alike[0] for alike in network.models.core_classes]
        paths = [self.machine.path(main, core.memory.name) for core in self.cores]
        hops = min(paths, key=lambda hops: min(map(self._rate, hops)))  # of the slowest core
        rates = list(map(self._rate, hops))
        self.rate = min(rates)  # the slowest hop counts, and the latency of all others
        self.link, self.route = hops[rates.index(self.rate)]
        self.latency = sum(route.latency for _, route in hops) - self.route.latency
        ends = (self.route.source, self.route.destination)
        self.queues = max(1, sum(1 for _ in self.machine.routes(*ends)))
        self.facts: Hashable = (
            *(tuple(self.cores), self.rate, self.route, self.link.stride_levels),
            *(self.latency, self.queues),
        )  # beside the network, all that costs depend on
        self._values: dict[str, Value] = {}
        self._value_costs: dict[object, Value] = {}
        self._nodes: dict[str, NodeLooks] = {}
        self._node_costs: dict[object, NodeLooks] = {}
        self._costs: dict[tuple[Workload, tuple[bool, ...]], tuple[Run, ...]] = {}
        self._packs = packs_of(network.graph, network.layouts)
        self._lying: dict[str, View] = {}

    def value_key(self, name: str) -> tuple[object, ...]:
        """Equal keys: parts of the values take the same bytes and copies."""
        graph, layouts = self.network.graph, self.network.layouts
        return (
            graph.types[name],
            name in layouts.images,
            is_given(graph, name),
            self.view(name).strides,
            name in self._packs,
            immediate(graph, name) is None,
        )

    def view(self, name: str) -> View:
        """How a value lies in the main memory."""
        known = self._lying.get(name)
        if known is None:
            known = self.network.main_view(name)
            if name in self.network.graph.constants and name not in self._packs:
                # As the builder lays matrices out: a part of the output channels is contiguous.
                ordered = constant_strides(self.network.graph, name, known.item)
                known = replace(known, strides=ordered)
            self._lying[name] = known
        return known

    def value(self, name: str) -> Value:
        """A value's looks."""
        known = self._values.get(name)
        if known is None:
            key = self.value_key(name)
            known = self._values[name] = self._value_costs.setdefault(key, Value(name))
        return known

    def node(self, tiled: TiledOp) -> NodeLooks:
        """A node's looks."""
        known = self._nodes.get(tiled.node.name)
        if known is None:
            graph = self.network.graph
            key = (
                tiled.node.kind,
                tuple(sorted((k, str(v)) for k, v in tiled.node.attributes.items())),
                tiled.access,
                tuple(
                    (self.value_key(name), name in graph.constants) if name in graph.types else None
                    for name in (*tiled.node.inputs, *tiled.node.outputs)
                ),
            )
            known = self._node_costs.setdefault(key, NodeLooks(tiled, self.cores))
            self._nodes[tiled.node.name] = known
        return known

    def copy(self, value: Value, spans: Spans) -> PartCost:
        """Copying a part of a value, and holding it."""
        known = value.known.get(spans)
        if known is None:
            shape = tuple([max(0, stop - start) for start, stop in spans])
            known = value.shapes.get(shape)
            if known is None:
                view = self.view(value.name)
                copy = Copy(*part(view, Box.whole(view.shape), _box(spans)).runs())
                held = self.network.layouts.bytes(value.name, shape, aligned=True)
                known = value.shapes[shape] = PartCost(self.cycles(copy), copy.bytes, held)
            value.known[spans] = known
        return known

    def cycles(self, copy: Copy) -> float:
        """A copy from the main memory; the links there are share the latencies."""
        start = (start_cycles(copy, self.link, self.route) + self.latency) / self.queues
        return start + moved_bytes(copy, self.route) / self.rate

    def _rate(self, hop: Hop) -> float:
        return self.machine.joint_bytes_per_cycle(hop[1])

    def cost(self, work: Workload, either: tuple[bool, ...]) -> tuple[Run, ...]:
        """What work takes in the shape of its positions that suits the engine best, on each kind of
        core."""
        known = self._costs.get((work, either))
        if known is None:
            runs = (self._run(core, work, e) for core, e in zip(self.cores, either, strict=True))
            known = self._costs[work, either] = tuple(runs)
        return known

    def _run(self, core: Core, work: Workload, either: bool) -> Run:
        engine = self.network.models.engine(core, work, either)
        model = self.network.models.model(engine)
        cost = model.cost(model.seen(work) if self.reshapes else work)
        return Run(engine.kind, cost.cycles, cost.energy_pj)

    def _either(self, node: NodeLooks) -> tuple[bool, ...]:
        """Whether tiles of a node go to the cheaper kind of engine, by core."""
        if node.either is None:
            models = self.network.models
            whole = tile_works_of(self.network.graph, self.network.dtype).whole(node.tiled)
            node.either = tuple(models.either(core, whole) for core in self.cores)
        return node.either

    def tile(self, node: NodeLooks, outputs: tuple[Spans | None, ...]) -> NodeTile:
        """The tile of a node that computes these parts of its outputs."""
        known = node.known.get(outputs)
        if known is None:
            known = node.known[outputs] = self._tile(node, outputs)
        return known

    def _tile(self, node: NodeLooks, outputs: tuple[Spans | None, ...]) -> NodeTile:
        tiled = node.tiled
        boxes = [None if spans is None else _box(spans) for spans in outputs]
        boxes = [None if box is None or box.empty else box for box in boxes]
        reaches = reaches_of(tiled, boxes)
        if len(boxes) == 1 and boxes[0] is not None:
            reads: tuple[tuple[Spans, ...] | None, ...] = (
                tuple([_spans(reaches[number] or ()) for number in node.data]),
            )
        else:  # the reaches are those of all outputs together
            reads = tuple(
                None if spans is None else self._reads(node, access, spans)
                for access, spans in zip(tiled.access, outputs, strict=True)
            )
        if all(box is None for box in boxes):
            return NodeTile((), reads, (), None)
        tile = Tile(tuple(boxes), reaches)
        sizes = tuple(
            (tiled.op.result(k).size, box.size) for k, box in enumerate(boxes) if box is not None
        )

        def ran() -> tuple[Run, ...]:
            access, dtype = tiled.access[0], self.network.dtype
            return self.cost(
                workload_of(tiled.spec, tiled.op, tile, dtype, access), self._either(node)
            )

        spans = outputs[0]
        if len(outputs) > 1 or spans is None:
            return NodeTile(sizes, reads, self._constants(tiled, tile), ran)
        key = tuple([spans[axis] for axis in node.constant_axes])
        constants = node.constants.get(key)
        if constants is None:
            constants = node.constants[key] = self._constants(tiled, tile)
        return NodeTile(sizes, reads, constants, ran)

    @staticmethod
    def _reads(node: NodeLooks, access: Access, spans: Spans) -> tuple[Spans, ...]:
        found: list[Spans] = []
        for number in node.data:
            row: list[Span] = []
            for rule in access.inputs[number] or ():
                if rule.axis is None:
                    row.append((0, rule.extent))
                    continue
                start, stop = spans[rule.axis]
                out = Interval(start, stop)
                reach = rule.reach(out).interval if start < stop else Interval(0, 0)
                row.append((reach.start, reach.stop))
            found.append(tuple(row))
        return tuple(found)

    def _constants(self, tiled: TiledOp, tile: Tile) -> Constants:
        found: list[tuple[tuple[int, ...], PartCost]] = []
        inputs = tiled.access[0].inputs
        boxes = {
            name: box
            for number, name in enumerate(tiled.node.inputs)
            if (box := tile.input_box(number)) is not None
        }
        for number, operand in enumerate(tiled.op.inputs):
            if operand is None or not operand.constant:
                continue
            name = tiled.node.inputs[number]
            box, rules = boxes.get(name), inputs[number] if inputs else None
            if box is None or rules is None or box.empty:
                continue
            if immediate(self.network.graph, name) is not None:
                continue
            axes = tuple(rule.axis for rule in rules if rule.axis is not None)
            pack = self._packs.get(name)
            rows = None
            if pack is not None:
                rows = channels_of(pack, span_of(boxes[pack.weights]), span_of(boxes[pack.bias]))
            if pack is not None and rows is not None:
                size = pack.bytes(rows[1])
                if name == pack.weights:  # the bias comes with them
                    found.append((axes, PartCost(self.cycles(Copy(size)), size, size)))
                continue
            spans = tuple((i.start, i.stop) for i in box)
            found.append((axes, self.copy(self.value(name), spans)))
        return tuple(found)


def _spans(reaches: tuple[Reach, ...]) -> Spans:
    return tuple([(reach.interval.start, reach.interval.stop) for reach in reaches])


def _box(spans: Spans) -> Box:
    return Box(tuple(Interval(start, stop) for start, stop in spans))
