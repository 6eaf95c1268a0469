"""One run of nodes, cut in one way: the memory it would need and the work it would add."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tilewright.errors import TilingError
from tilewright.geometry.box import Box
from tilewright.graph.graph import Graph
from tilewright.graph.ops.spec import Engine
from tilewright.peak.predict import predict_peak
from tilewright.tiling.grid import Cut, Split
from tilewright.tiling.group import GroupTiles, TiledOp, cut_ops, exports, typed_group
from tilewright.tiling.rewrite import tile_body

# Work in units of one multiply-accumulate of onnxruntime's convolutions: an element that is only
# read and written, and the launch of one more node.
ELEMENT_WORK = 10
NODE_WORK = 200_000
HOPELESS = 3.0  # recomputing more than this share is never worth looking at

LINE_PARTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128)
GRID_PARTS = (
    *((2, 2), (3, 2), (3, 3), (4, 3), (4, 4), (6, 4), (6, 6), (8, 6), (8, 8)),
    *((12, 8), (12, 12), (16, 16)),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """A run of nodes [start, stop) in execution order, cut: its peak, and the work it adds."""

    start: int
    stop: int
    splits: tuple[Split, ...]
    peak: int
    extra_work: float


class Timeline:
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
        live = 0
        result: list[int] = []
        for position in range(size + 1):
            live += change[position]
            result.append(live)
        return tuple(result)

    def typed(self, index: int) -> TiledOp | None:
        """A node with its access relations, or None where it has to run whole."""
        if index not in self._typed:
            try:
                (self._typed[index],) = typed_group(self.graph, [index])
            except TilingError:
                self._typed[index] = None
        return self._typed[index]


class Segment:
    """A run of nodes in execution order that may be cut."""

    def __init__(self, timeline: Timeline, start: int, stop: int) -> None:
        self.timeline, self.start, self.stop = timeline, start, stop
        typed = [timeline.typed(index) for index in range(start, stop)]
        self.ops = tuple(op for op in typed if op is not None)
        self.cuttable = len(self.ops) == len(typed)
        self.exported: Mapping[str, bool] = {}
        if self.cuttable:
            self.exported = exports(timeline.graph, range(start, stop))
        self.matrix_ops = tuple(op for op in self.ops if op.spec.engine is Engine.MATRIX)
        self._probes: dict[tuple[Split, ...], _Probe | None] = {}

    @cached_property
    def outputs(self) -> int:
        """Bytes of what the run gives to the outside."""
        return sum(self.timeline.bytes_of(name) for name in self.exported)

    @cached_property
    def base(self) -> int:
        """Bytes the run cannot get rid of: what lives through it, its inputs, its outputs."""
        return self.timeline.crossing[self.start] + self.outputs

    @cached_property
    def floor(self) -> int:
        """No way of cutting it needs less: at its end the outputs stand beside their pieces."""
        return max(self.base, self.timeline.crossing[self.stop] + self.outputs)

    def families(self) -> Iterator[list[tuple[Split, ...]]]:
        """Ways to cut it, each a list from few tiles to many."""
        final = [name for name, inside in self.exported.items() if not inside]
        shapes = [self.timeline.graph.types[name].shape for name in final]
        if not shapes or len({len(shape) for shape in shapes}) > 1:
            return
        rank = len(shapes[0])
        extents = [min(shape[axis] for shape in shapes) for axis in range(rank)]
        for axis in range(rank) if rank < 4 else (*range(2, rank), 0, 1):
            line = [(Split(axis, n),) for n in LINE_PARTS if n <= extents[axis]]
            if line:
                yield line
        if rank == 4:
            grid = [
                (Split(2, h), Split(3, w))
                for h, w in GRID_PARTS
                if h <= extents[2] and w <= extents[3]
            ]
            if grid:
                yield grid

    def probe(self, splits: tuple[Split, ...]) -> "_Probe | None":
        """What one tile of this cut looks like, or None where it cannot be cut so."""
        if splits not in self._probes:
            try:
                graph = self.timeline.graph
                group = cut_ops(graph, self.ops, self.exported, splits, probe=True)
                self._probes[splits] = _Probe(self, splits, group)
            except TilingError:
                self._probes[splits] = None
        return self._probes[splits]


class _Probe:
    """One inner tile of a run of nodes."""

    def __init__(self, segment: Segment, splits: tuple[Split, ...], group: GroupTiles) -> None:
        self.segment, self.splits, self.group = segment, splits, group
        self.tiles = prod(split.parts for split in splits)

    @cached_property
    def recompute_ratio(self) -> float:
        """Extra work over the whole, leaving copies aside."""
        whole = sum(_work(tiled) for tiled in self.segment.ops)
        return self._recomputed / whole

    @cached_property
    def _recomputed(self) -> float:
        extra = 0.0
        for tiled in self.segment.ops:
            for name in tiled.node.writes:
                if name not in self.group.values:
                    continue
                kind = self.segment.timeline.graph.types[name]
                times = 1 if len(self.group.values[name].once) == len(self.splits) else self.tiles
                extra += _work(tiled) * (times * self.group.computed(name) / max(1, kind.size) - 1)
        return max(0.0, extra)

    @cached_property
    def extra_work(self) -> float:
        """Recomputed work, copies in and out, and launches."""
        graph = self.segment.timeline.graph
        copied = sum(graph.types[name].size for name in self.segment.exported)
        for cuts in self.group.inputs.values():
            if any(cut.dim is not None for cut in cuts):
                copied += self.tiles * prod(cut.intervals[0].length for cut in cuts)
        nodes = len(self.segment.ops) + len(self.group.inputs)
        return self._recomputed + ELEMENT_WORK * copied + NODE_WORK * nodes * self.tiles

    @cached_property
    def floor(self) -> int:
        """Bytes below which the run's peak cannot be: a matrix operator's tile of input and
        output stand side by side."""
        largest = 0.0
        for tiled in self.segment.matrix_ops:
            name = tiled.node.outputs[0]
            if name not in self.group.values:
                continue
            total = self._bytes(name, self.group.values[name].compute)
            for source in tiled.node.inputs:
                if source in self.group.values:
                    total += self._bytes(source, self.group.values[source].have)
            largest = max(largest, total)
        return max(self.segment.floor, self.segment.base + round(largest) - self._pieces)

    def _bytes(self, name: str, cuts: tuple[Cut, ...]) -> float:
        kind = self.segment.timeline.graph.types[name]
        return prod(cut.intervals[0].length for cut in cuts) * kind.bytes / max(1, kind.size)

    @cached_property
    def _pieces(self) -> int:
        written = ((name, self.group.values[name].write) for name in self.segment.exported)
        return round(sum(self._bytes(name, cuts) for name, cuts in written if cuts is not None))

    @cached_property
    def peak(self) -> int:
        """Bytes while the run executes tile by tile."""
        body = tile_body(self.group, (0,) * len(self.splits))
        inner = predict_peak(body).peak - sum(body.types[name].bytes for name in body.outputs)
        return max(self.segment.base + inner, self.segment.floor)

    def choice(self) -> Choice:
        """The cut with its figures."""
        segment = self.segment
        return Choice(segment.start, segment.stop, self.splits, self.peak, self.extra_work)


def _work(tiled: TiledOp) -> float:
    """Work of a node as a whole."""
    total = 0.0
    for kind in tiled.op.outputs:
        if kind is not None:
            total += tiled.spec.macs(tiled.op, Box.whole(kind.shape)) + ELEMENT_WORK * kind.size
    return total
