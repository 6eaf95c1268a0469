"""The tiled network: groups are replaced by their tiles, written with ordinary operators.

The result is a Graph like any other (Slice, the operator with its tile's pads, Concat), so it can
be printed, saved as ONNX, costed or run by anything that takes a Graph.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.errors import TilingError
from tilewright.geometry.box import Box
from tilewright.geometry.interval import Interval
from tilewright.graph.edit import Writer, part_of
from tilewright.graph.graph import Array, Attribute, Graph, Node, constant_of
from tilewright.graph.ops.spec import StepInput, Tile, ints
from tilewright.graph.types import TensorType
from tilewright.tiling.group import GroupTiles, TiledOp, ValueTiles

Index = tuple[int, ...]


def tile_graph(graph: Graph, groups: Sequence[GroupTiles]) -> Graph:
    """The network with these groups cut into tiles; every other node stays as it is."""
    writer = _Writer(graph)
    for item in _order(graph, groups):
        if isinstance(item, Node):
            writer.nodes.append(item)
        else:
            _GroupWriter(writer, item).write()
    return writer.finish()


def tile_body(group: GroupTiles) -> Graph:
    """The first tile of a group as a network of its own: what it reads comes in, its pieces go
    out."""
    writer = _Writer(group.graph)
    outputs = _GroupWriter(writer, group).write_first()
    inputs = tuple(name for name in group.inputs if name not in group.graph.constants)
    writer.graph = replace(group.graph, inputs=inputs, outputs=outputs)
    return writer.finish()


def _order(graph: Graph, groups: Sequence[GroupTiles]) -> list[Node | GroupTiles]:
    """Nodes and groups in an order in which they can run."""
    owner: dict[int, int] = {}
    for number, group in enumerate(groups):
        for tiled in group.ops:
            index = graph.index[tiled.node.name]
            if index in owner:
                raise TilingError(f"node '{tiled.node.name}' is in two groups")
            owner[index] = number
    # A unit is a group (negative number) or a single node (its index).
    unit = {i: -1 - owner[i] if i in owner else i for i in range(len(graph.nodes))}
    first: dict[int, int] = {}
    waits: dict[int, set[int]] = {}
    for i in range(len(graph.nodes)):
        first.setdefault(unit[i], i)
        waits.setdefault(unit[i], set()).update(unit[p] for p in graph.predecessors(i))
    done: set[int] = set()
    ordered: list[Node | GroupTiles] = []
    left = sorted(first, key=lambda u: first[u])
    while left:
        later: list[int] = []
        for u in left:
            if waits[u] - {u} <= done:
                done.add(u)
                ordered.append(groups[-1 - u] if u < 0 else graph.nodes[u])
            else:
                later.append(u)
        if len(later) == len(left):
            raise TilingError("groups depend on each other in a circle")
        left = later
    return ordered


class _Writer(Writer):
    """Collects the nodes, types and constants of the new graph."""

    def add(
        self,
        kind: str,
        attributes: Mapping[str, Attribute],
        inputs: Iterable[str],
        outputs: Mapping[str, TensorType | None],
        domain: str = "",
    ) -> None:
        """A new node, called after its first result."""
        label = next(name for name in outputs if name)
        self.node(self.names.take(f"{label}:{kind}"), kind, inputs, outputs, attributes, domain)

    def integers(self, label: str, values: Iterable[int]) -> str:
        """A list of integers; equal ones share a constant."""
        return self.array(ints(tuple(values)))

    def array(self, array: Array) -> str:
        """A constant with these numbers; equal lists of integers share one."""
        if array.dtype == np.int64 and array.size <= 16:
            name = f"tw:{'x'.join(map(str, array.shape))}:{','.join(map(str, array.reshape(-1)))}"
            self.constants[name] = constant_of(array)
            self.types[name] = self.constants[name].type
            return name
        return self.constant("tw:constant", constant_of(array))

    def slice(self, source: str, outer: Box, inner: Box, label: str) -> str:
        """The part `inner` of a value that holds `outer` (both in whole-tensor coordinates)."""
        if inner == outer:
            return source
        local = inner.within(outer)
        axes = [a for a, (i, o) in enumerate(zip(inner, outer, strict=True)) if i != o]
        if len(axes) == 1 and len(inner) > 1:
            # onnxruntime joins slices that cover one axis into a Split, which makes all tiles at
            # once; a second axis, taken whole, keeps them apart at no cost.
            axes = sorted((*axes, (axes[0] + 1) % len(inner)))
        name = self.names.take(label)
        ranges = {a: (local[a].start, local[a].stop, 1) for a in axes}
        return self.sliced(source, ranges, name, self.names.take(f"{name}:Slice"))

    def concat(self, parts: Sequence[str], axis: int, name: str) -> str:
        """Parts joined along an axis."""
        return self.joined(parts, axis, name, self.names.take(f"{name}:Concat"))


@dataclass(slots=True)
class _Held:
    """A tensor and the region of the whole value it holds."""

    name: str
    box: Box


class _GroupWriter:
    """Writes one group, tile after tile."""

    def __init__(self, writer: _Writer, group: GroupTiles) -> None:
        self.writer = writer
        self.group = group
        self.held: dict[tuple[str, Index], _Held] = {}  # what each tile can read of each value
        self.lines: dict[tuple[str, int, Index], _Held] = {}  # kept rows per value, axis, tile
        self.pieces: dict[str, dict[Index, str]] = {name: {} for name in group.outputs}
        self.weights: dict[tuple[str, Box], str] = {}
        self.slices: dict[tuple[str, Box], str] = {}  # of values outside, for the current tile

    def write(self) -> None:
        """All tiles, then the outputs put together."""
        for index in self.group.indices:
            self.slices.clear()
            for tiled in self.group.ops:
                self._run(tiled, index)
        for name in self.pieces:
            self._join(name)

    def write_first(self) -> tuple[str, ...]:
        """The first tile alone; the names of its pieces of the outputs."""
        for tiled in self.group.ops:
            self._run(tiled, (0,) * len(self.group.counts))
        return tuple(piece for parts in self.pieces.values() for piece in parts.values())

    def _run(self, tiled: TiledOp, index: Index) -> None:
        label = ".".join(map(str, index))
        tile = self.group.tile(tiled, index)
        if tile is not None:
            self._tile(tiled, tile, index, label)
        for name in tiled.node.writes:
            if name in self.group.values:
                self._after(name, index, label)

    def _tile(self, tiled: TiledOp, tile: Tile, index: Index, label: str) -> None:
        """One operator of one tile, as the steps its spec says."""
        writer, node, steps = self.writer, tiled.node, tiled.spec.tile(tiled.op, tile)
        used = sorted({i for step in steps for i in step.inputs if isinstance(i, int)})
        # The names of operands, by number, and of what steps make for others, by theirs.
        names: dict[int | str, str] = {i: self._operand(tiled, tile, i, index, label) for i in used}

        def read(value: StepInput) -> str:
            if isinstance(value, int | str):
                return names[value]
            return "" if value is None else writer.array(value)

        for step in steps:
            inputs = [read(value) for value in step.inputs]
            outputs: dict[str, TensorType | None] = {}
            for output in step.outputs:
                box = tile.outputs[output] if isinstance(output, int) else None
                if isinstance(output, int) and box is not None:
                    name = writer.names.take(f"{node.outputs[output]}@{label}")
                    self.held[node.outputs[output], index] = _Held(name, box)
                    outputs[name] = tiled.op.result(output).with_shape(box.shape)
                elif isinstance(output, str) and output:
                    name = writer.names.take(f"{node.outputs[0]}/{output}@{label}")
                    names[output] = name
                    outputs[name] = tiled.op.result().with_shape(step.local_shape)
                else:
                    outputs[""] = None
            domain = node.domain if step.kind == node.kind else ""
            writer.add(step.kind, step.attributes, inputs, outputs, domain)

    def _operand(self, tiled: TiledOp, tile: Tile, number: int, index: Index, label: str) -> str:
        """The region of an input that the tile reads."""
        name = tiled.node.inputs[number]
        operand, box = tiled.op.inputs[number], tile.input_box(number)
        if box is None or operand is None:
            return name
        whole = Box.whole(operand.type.shape)
        if box == whole and name not in self.group.values:
            return name
        if operand.constant:
            return self._weight(name, box)
        if name in self.group.values:
            once = self.group.values[name].once
            held = self.held[name, tuple(0 if d in once else i for d, i in enumerate(index))]
            return self.writer.slice(held.name, held.box, box, f"{name}@{label}/part")
        if (name, box) not in self.slices:
            self.slices[name, box] = self.writer.slice(name, whole, box, f"{name}@{label}/in")
        return self.slices[name, box]

    def _weight(self, name: str, box: Box) -> str:
        """A part of a constant, cut now."""
        if (name, box) not in self.weights:
            ranges = {axis: (i.start, i.stop) for axis, i in enumerate(box)}
            part = part_of(self.group.graph.constants[name], ranges)
            self.weights[name, box] = self.writer.constant(f"{name}{box}", part)
        return self.weights[name, box]

    def _after(self, name: str, index: Index, label: str) -> None:
        """Put kept rows before the new ones, keep those the next tile needs, write out."""
        tiles = self.group.values[name]
        if any(index[d] for d in tiles.once):
            return
        pairs = enumerate(zip(tiles.have, tiles.compute, strict=True))
        kept = [axis for axis, (have, compute) in pairs if have != compute]
        for axis in sorted(kept, key=lambda a: tiles.have[a].dim or 0):  # outer dimensions first
            self._extend(name, tiles, axis, index, label)
        box = tiles.write_box(index)
        undriven = set(range(len(index))) - {c.dim for c in tiles.have}
        if box is None or box.empty or any(index[d] for d in undriven):
            return
        held = self.held[name, index]
        piece = self.writer.slice(held.name, held.box, box, f"{name}@{label}/out")
        self.pieces[name][index] = piece

    def _extend(self, name: str, tiles: ValueTiles, axis: int, index: Index, label: str) -> None:
        """One axis: rows kept from the tile before, then the new ones."""
        have, dim = tiles.have[axis].at(index), tiles.have[axis].dim
        assert dim is not None
        held = self.held.get((name, index))
        before = tuple(i - 1 if d == dim else i for d, i in enumerate(index))
        line = self.lines.pop((name, axis, before), None) if index[dim] else None
        if have.empty:  # a later tile may still need the kept rows
            if line is not None:
                self.lines[name, axis, index] = line
            return
        if line is not None:
            line = self._part(line, axis, Interval(have.start, line.box[axis].stop))
        if held is not None and line is not None and not line.box[axis].empty:
            joined = self.writer.names.take(f"{name}@{label}/with_kept{axis}")
            self.writer.concat((line.name, held.name), axis, joined)
            held = _Held(joined, _with_axis(held.box, axis, have))
        elif held is None:
            held = line
        if held is None:
            return
        self.held[name, index] = held
        later = (i for i in tiles.have[axis].intervals[index[dim] + 1 :] if not i.empty)
        following = next(later, None)
        if following is not None and following.start < have.stop:
            keep = Interval(max(following.start, have.start), have.stop)
            self.lines[name, axis, index] = self._part(held, axis, keep)

    def _part(self, held: _Held, axis: int, interval: Interval) -> _Held:
        box = _with_axis(held.box, axis, interval)
        name = self.writer.slice(held.name, held.box, box, f"{held.name}/keep{axis}")
        return _Held(name, box)

    def _join(self, name: str) -> None:
        """Put the pieces of an output together, the last grid dimension first."""
        tiles = self.group.values[name]
        assert tiles.write is not None
        parts = dict(self.pieces[name])
        axes = {cut.dim: axis for axis, cut in enumerate(tiles.write) if cut.dim is not None}
        for dim in sorted(axes, reverse=True):
            rows: dict[Index, list[str]] = {}
            for index in sorted(parts):
                key = tuple(0 if d == dim else i for d, i in enumerate(index))
                rows.setdefault(key, []).append(parts[index])
            final = len(rows) == 1 and dim == min(axes)
            parts = {key: row[0] for key, row in rows.items()}
            for key, row in rows.items():
                if len(row) > 1:
                    target = name if final else self.writer.names.take(f"{name}@band")
                    parts[key] = self.writer.concat(row, axes[dim], target)
        ((_, result),) = parts.items()
        if result != name:
            self.writer.add("Identity", {}, (result,), {name: self.writer.type(result)})


def _with_axis(box: Box, axis: int, interval: Interval) -> Box:
    return Box((*box.intervals[:axis], interval, *box.intervals[axis + 1 :]))
