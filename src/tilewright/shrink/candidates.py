"""One run of nodes, cut in one way: the memory it would need and the work it would add."""

from collections.abc import Mapping
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import NamedTuple

from tilewright.errors import TilingError
from tilewright.geometry.box import Box
from tilewright.graph.graph import Graph
from tilewright.graph.ops.spec import Engine
from tilewright.peak.buffers import SLOT, buffer_bytes
from tilewright.peak.dequantised import best_order
from tilewright.peak.predict import predict_peak
from tilewright.peak.quantised import held_bytes
from tilewright.tiling.cutting import cut_ops
from tilewright.tiling.grid import Cut, Split
from tilewright.tiling.group import GroupTiles, TiledOp, exports, typed_node
from tilewright.tiling.rewrite import tile_body

# Work in units of one multiply-accumulate of onnxruntime's convolutions: an element that is only
# read and written, and the launch of one more node.
ELEMENT_WORK = 10
NODE_WORK = 200_000
NEARLY = 16  # positions of a tile: one more or less is little
HOPELESS = 3.0  # recomputing more than this share is never worth looking at

LINE_PARTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128)
GRID_PARTS = (
    *((2, 2), (3, 2), (3, 3), (4, 3), (4, 4), (6, 4), (6, 6), (8, 6), (8, 8)),
    *((12, 8), (12, 12), (16, 16)),
)


class Choice(NamedTuple):
    """A run of nodes [start, stop) in execution order, cut: its peak, and the work it adds."""

    start: int
    stop: int
    splits: tuple[Split, ...]
    peak: int
    extra_work: float


class LiveTimeline:
    """The network in execution order: what is live across each point between two nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.last_use = {name: max(users) for name, users in graph.consumers.items()}
        self.last_use.update(dict.fromkeys(graph.outputs, len(graph.nodes)))
        self.free_values = set(graph.inputs) | set(graph.constants)
        self._typed: dict[int, TiledOp | None] = {}

    def bytes_of(self, name: str) -> int:
        """Bytes of a value; those of the caller and of the weights do not count."""
        kind = self.graph.types.get(name)
        return 0 if kind is None or name in self.free_values else kind.bytes

    @cached_property
    def crossing(self) -> tuple[int, ...]:
        """Bytes live between node i-1 and node i."""
        size = len(self.graph.nodes)
        change = [0] * (size + 2)
        for index, node in enumerate(self.graph.nodes):
            for name in node.writes:
                change[index + 1] += self.bytes_of(name)
                change[max(index, self.last_use.get(name, index)) + 1] -= self.bytes_of(name)
        return tuple(accumulate(change[: size + 1]))

    def typed(self, index: int) -> TiledOp | None:
        """A node with its access relations, or None where it has to run whole."""
        if index not in self._typed:
            try:
                self._typed[index] = typed_node(self.graph, self.graph.nodes[index])
            except TilingError:
                self._typed[index] = None
        return self._typed[index]


class Meter:
    """Counts the operators that were cut on trial, so that a search ends: by work, not by time."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def spend(self, amount: int) -> bool:
        """Whether there is still enough; takes it if so."""
        if self.left < amount:
            return False
        self.left -= amount
        return True


class CutPattern:
    """What a run of nodes looks like, wherever in the network it stands. Networks repeat
    themselves: what is learnt about one block serves all its copies."""

    def __init__(
        self,
        timeline: LiveTimeline,
        ops: tuple[TiledOp, ...],
        exported: Mapping[str, bool],
        meter: Meter,
    ) -> None:
        self.timeline, self.graph = timeline, timeline.graph
        self.ops, self.exported, self.meter = ops, exported, meter
        self.matrix_ops = tuple(op for op in ops if op.spec.engine is Engine.MATRIX)
        self.work = sum(map(_work, ops))
        self._probes: dict[tuple[Split, ...], TileProbe | None] = {}

    @cached_property
    def families(self) -> tuple[tuple[tuple[Split, ...], ...], ...]:
        """Ways to cut it, each a row from few tiles to many."""
        final = [name for name, inside in self.exported.items() if not inside]
        shapes = [self.graph.types[name].shape for name in final]
        if not shapes or len({len(shape) for shape in shapes}) > 1:
            return ()
        rank = len(shapes[0])
        extents = [min(shape[axis] for shape in shapes) for axis in range(rank)]
        rows: list[tuple[tuple[Split, ...], ...]] = [
            tuple((Split(axis, n),) for n in LINE_PARTS if _even_enough(extents[axis], n))
            for axis in (range(rank) if rank < 4 else (*range(2, rank), 0, 1))
        ]
        if rank == 4:
            fitting = [(h, w) for h, w in GRID_PARTS if h <= extents[2] and w <= extents[3]]
            rows.append(tuple((Split(2, h), Split(3, w)) for h, w in fitting))
        if rank > 1 and extents[0] > 1:  # item by item, each cut further
            items = Split(0, extents[0])
            inner = [row for row in rows if row and row[0][0].axis > min(1, rank - 2)]
            rows += [((items,), *((items, *splits) for splits in row)) for row in inner]
        return tuple(row for row in rows if row)

    def probe(self, splits: tuple[Split, ...]) -> "TileProbe | None":
        """What one tile of this cut looks like, or None where it cannot be cut so."""
        if splits not in self._probes:
            if not self.meter.spend(len(self.ops)):
                return None
            try:
                group = cut_ops(self.graph, self.ops, self.exported, splits, probe=True)
                self._probes[splits] = TileProbe(self, splits, group)
            except TilingError:
                self._probes[splits] = None
        return self._probes[splits]


class TileProbe:
    """One inner tile of a run of nodes; all figures are of the run alone."""

    def __init__(self, pattern: CutPattern, splits: tuple[Split, ...], group: GroupTiles) -> None:
        self.pattern, self.splits, self.group = pattern, splits, group
        self.tiles = prod(split.parts for split in splits)

    @property
    def hopeless(self) -> bool:
        """Whether so much is computed again that more tiles cannot be worth it."""
        return self._recomputed > HOPELESS * self.pattern.work

    @cached_property
    def _recomputed(self) -> float:
        extra = 0.0
        for tiled in self.pattern.ops:
            for name in tiled.node.writes:
                if name not in self.group.values:
                    continue
                size = self.pattern.graph.types[name].size
                times = 1 if len(self.group.values[name].once) == len(self.splits) else self.tiles
                extra += _work(tiled) * (times * self.group.computed(name) / max(1, size) - 1)
        return max(0.0, extra)

    @cached_property
    def extra_work(self) -> float:
        """Recomputed work, copies in and out, and launches."""
        copied = sum(self.pattern.graph.types[name].size for name in self.pattern.exported)
        for cuts in self.group.inputs.values():
            if any(cut.dim is not None for cut in cuts):
                copied += self.tiles * prod(cut.intervals[0].length for cut in cuts)
        nodes = len(self.pattern.ops) + len(self.group.inputs)
        return self._recomputed + ELEMENT_WORK * copied + NODE_WORK * nodes * self.tiles

    @cached_property
    def inner_floor(self) -> int:
        """Bytes the inside needs at least, cheaply: a matrix operator's tile of input and output
        stand side by side."""
        largest = 0.0
        for tiled in self.pattern.matrix_ops:
            name = tiled.node.outputs[0]
            if name not in self.group.values:
                continue
            total = self._bytes(name, self.group.values[name].compute)
            for source in tiled.node.inputs:
                if source in self.group.values:
                    total += self._bytes(source, self.group.values[source].have)
            largest = max(largest, total)
        return round(largest - sum(self._pieces))

    @cached_property
    def rounding(self) -> int:
        """Bytes that the pieces of the outputs take beyond their numbers, all tiles together."""
        nodes, sizes = SLOT * len(self.pattern.ops), map(round, self._pieces)
        return self.tiles * (nodes + sum(buffer_bytes(size) - size for size in sizes))

    @cached_property
    def _pieces(self) -> list[float]:
        """Bytes of the tile's pieces of the outputs."""
        written = ((name, self.group.values[name].write) for name in self.pattern.exported)
        return [self._bytes(name, cuts) for name, cuts in written if cuts is not None]

    def _bytes(self, name: str, cuts: tuple[Cut, ...]) -> float:
        each = held_bytes(self.pattern.timeline.graph, name)
        return prod(cut.intervals[0].length for cut in cuts) * each

    @cached_property
    def inner(self) -> int:
        """Bytes the inside needs while one tile runs, beside the pieces of the outputs."""
        body = best_order(tile_body(self.group))
        peak = predict_peak(body, tile_of=self.pattern.graph).peak
        return peak - sum(body.types[name].bytes for name in body.outputs)


class Segment:
    """A run of nodes [start, stop) in execution order: its pattern, and what surrounds it."""

    def __init__(self, timeline: LiveTimeline, start: int, stop: int, pattern: CutPattern) -> None:
        self.start, self.stop, self.pattern = start, stop, pattern
        outputs = sum(
            timeline.bytes_of(name) for name in exports(timeline.graph, range(start, stop))
        )
        # What lives through it, its inputs and its outputs; at its end the outputs stand beside
        # their pieces.
        self.base = timeline.crossing[start] + outputs
        self.floor = max(self.base, timeline.crossing[stop] + outputs)

    def raise_by(self, amount: int) -> None:
        """Correct the estimate: the run was seen to need more."""
        self.base += amount
        self.floor += amount

    def may_fit(self, probe: TileProbe, budget: int) -> bool:
        """Whether the cheap bound of a cut is under the budget."""
        return max(self.floor, self.base + probe.inner_floor) + probe.rounding <= budget

    def choice(self, probe: TileProbe) -> Choice:
        """A cut of this run with its figures."""
        peak = max(self.base + probe.inner, self.floor) + probe.rounding
        return Choice(self.start, self.stop, probe.splits, peak, probe.extra_work)


def _even_enough(extent: int, parts: int) -> bool:
    """Whether the tile that a probe looks at is about as large as the largest one: where the first
    one alone is longer, it must not be by much."""
    size, rest = divmod(extent, parts)
    return size >= NEARLY or (size > 0 and rest != 1)


def signature(timeline: LiveTimeline, start: int, stop: int) -> tuple[object, ...] | None:
    """Equal for runs of nodes that look the same; None where one of them has to run whole."""
    graph = timeline.graph
    number: dict[str, int] = {}
    parts: list[object] = []

    def value(name: str) -> object:
        known = name in number
        index = number.setdefault(name, len(number))
        if known or not name:
            return index
        constant = graph.constants.get(name)
        numbers: object = constant is not None
        if constant is not None and constant.data is not None and constant.type.dtype == "int64":
            numbers = constant.data.tobytes()  # shapes, axes, indices: they steer the tiles
        return index, graph.types.get(name), numbers

    for position in range(start, stop):
        if timeline.typed(position) is None:
            return None
        node = graph.nodes[position]
        attributes = tuple(sorted((k, str(v)) for k, v in node.attributes.items()))
        reads = tuple(value(name) for name in node.inputs)
        parts.append((node.kind, attributes, reads, tuple(value(name) for name in node.outputs)))
    outside = exports(graph, range(start, stop))
    parts.append(tuple((number[name], inside) for name, inside in outside.items()))
    return tuple(parts)


def _work(tiled: TiledOp) -> float:
    """Work of a node as a whole."""
    total = 0.0
    for kind in tiled.op.outputs:
        if kind is not None:
            total += tiled.spec.macs(tiled.op, Box.whole(kind.shape)) + ELEMENT_WORK * kind.size
    return total
