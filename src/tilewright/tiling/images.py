"""A batch image by image: the operators that treat images apart are repeated, one copy for each.

A value carries images where, along one axis, equal parts of it belong to them: the first axis of a
batch, rows of a matrix that a reshape made of it. An operator can be repeated where the part of its
result that belongs to an image needs that image's part of what it reads, and no other. Copies share
their weights; inputs are sliced and results joined, which is no work where they lie in the main
memory.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.errors import TilingError
from tilewright.geometry.access import Access, Reach, Window
from tilewright.geometry.box import Box
from tilewright.geometry.interval import Interval
from tilewright.graph.edit import Range, Writer, part_of
from tilewright.graph.graph import Graph, Node, constant_of
from tilewright.graph.ops import SPECS
from tilewright.graph.ops.spec import Step, StepInput, Tile
from tilewright.graph.ops.views import same_view
from tilewright.graph.rules import NoMatch, need, optional, require
from tilewright.graph.types import TensorType
from tilewright.tiling.group import TiledOp, reaches_of, typed_node

Reaches = tuple[tuple[Reach, ...] | None, ...]
Axes = Mapping[str, int]
"""Values that carry images -> the axis along which they do."""


@dataclass(frozen=True)
class Images:
    """A network whose nodes are repeated for every image. `single` is one image's part as a network
    of its own, under the names of the batch's; `copies` says what its nodes and values are called
    in `graph`, image by image. `batched` are the nodes that were to stay as they are."""

    graph: Graph
    single: Graph
    copies: tuple[Mapping[str, str], ...]
    batched: tuple[str, ...] = ()


def image_counts(graph: Graph) -> tuple[int, ...]:
    """How many images the inputs of a network may hold, the largest number first."""
    types = (graph.types.get(name) for name in graph.inputs)
    found = {kind.shape[0] for kind in types if kind is not None and kind.shape}
    return tuple(sorted((extent for extent in found if extent > 1), reverse=True))


def repeatable(graph: Graph, images: int) -> tuple[int, ...]:
    """The nodes that can be repeated for so many images."""
    return tuple(_carrying(graph, images, frozenset())[1])


def by_image(graph: Graph, images: int, batched: Collection[str] = ()) -> Images:
    """The network with all nodes repeated that can be, but for those that are to stay `batched` and
    what needs their results."""
    for name in batched:
        if name not in graph.index:
            raise TilingError(f"there is no node '{name}' to stay batched")
    axes, members = _carrying(graph, images, frozenset(batched))
    if not members:
        raise TilingError(f"no operator can be repeated for {images} images")
    return replace(_Repeater(graph, images, axes, members).result(), batched=tuple(batched))


def _carrying(
    graph: Graph, images: int, batched: frozenset[str]
) -> tuple[dict[str, int], dict[int, TiledOp]]:
    """The values that carry images, and the nodes that make some of them image by image: as many
    as there are, whichever of the inputs hold images."""
    counts = [count for count in image_counts(graph) if count % images == 0]
    found = [_carried(graph, images, count, batched) for count in counts]
    return max(found, key=lambda pair: len(pair[1])) if found else ({}, {})


def _carried(
    graph: Graph, images: int, count: int, batched: frozenset[str]
) -> tuple[dict[str, int], dict[int, TiledOp]]:
    """The same where inputs hold `count` images each."""
    axes: dict[str, int] = {}
    for name in graph.inputs:
        kind = graph.types.get(name)
        if kind is not None and kind.shape and kind.shape[0] == count:
            axes[name] = 0
    members: dict[int, TiledOp] = {}
    mixed: set[str] = set()  # values of several images at once
    for index, node in enumerate(graph.nodes):
        if not any(name in axes or name in mixed for name in node.reads):
            continue
        apart = node.name not in batched and not any(name in mixed for name in node.reads)
        found = _repeated(graph, node, images, axes) if apart else None
        if found is None:
            mixed.update(node.writes)
        else:
            members[index] = found[0]
            axes.update(found[1])
    return axes, members


@optional
def _repeated(graph: Graph, node: Node, images: int, axes: Axes) -> tuple[TiledOp, dict[str, int]]:
    """A node that can be repeated, with the axes along which its results carry images."""
    try:
        tiled = typed_node(graph, node)
    except TilingError:
        raise NoMatch from None
    found: dict[str, int] = {}
    for name, access in zip(tiled.node.outputs, tiled.access, strict=True):
        if not name:
            continue
        driving = {
            rules[axes[value]].axis
            for value, rules in zip(tiled.node.inputs, access.inputs, strict=True)
            if rules is not None and value in axes
        }
        require(len(driving) == 1)
        axis = need(driving.pop())
        require(_apart(tiled, access, axis, images, axes))
        found[name] = axis
    return tiled, found


def _apart(tiled: TiledOp, access: Access, axis: int, images: int, axes: Axes) -> bool:
    """Whether every image's part of a result needs its part of each input that carries images, and
    all or (of a constant) some part of the others."""
    if access.shape[axis] % images or access.shape[axis] // images % access.grain[axis]:
        return False
    for number in range(images):
        out = _part(access.shape[axis], images, number)
        if access.grow(axis, out) != out:
            return False
        for value, operand, rules in zip(
            tiled.node.inputs, tiled.op.inputs, access.inputs, strict=True
        ):
            if operand is None or rules is None or operand.constant:
                continue
            shape, own = operand.type.shape, axes.get(value)
            for place, (rule, extent) in enumerate(zip(rules, shape, strict=True)):
                if place != own and rule.axis != axis:
                    continue
                part = _part(extent, images, number) if place == own else Interval(0, extent)
                if (extent % images and place == own) or rule.reach(out) != Reach(part):
                    return False
    return True


def _part(extent: int, images: int, number: int) -> Interval:
    size = extent // images
    return Interval(number * size, (number + 1) * size)


class _Repeater:
    """Writes the copies of nodes, and one of them as a network of its own."""

    def __init__(
        self, graph: Graph, images: int, axes: Axes, members: Mapping[int, TiledOp]
    ) -> None:
        self.graph, self.images, self.axes, self.members = graph, images, axes, members
        self.mark = _mark({*graph.types, *graph.index}, images)
        read = {name for tiled in members.values() for name in tiled.node.reads}
        self.parted = [name for name in graph.inputs if name in axes and name in read]
        self.others = [index for index in range(len(graph.nodes)) if index not in members]
        outside = {name for index in self.others for name in graph.nodes[index].reads}
        outside |= set(graph.outputs)
        made = [name for index in members for name in graph.nodes[index].writes]
        self.joined = [name for name in made if name in outside]
        # What members read that is none of theirs: computed before them, the same for all images.
        self.given = [
            name
            for name in (*graph.inputs, *(n for i in self.others for n in graph.nodes[i].writes))
            if name in read and name not in self.parted
        ]

    def result(self) -> Images:
        """All copies, between slices and joins."""
        graph, writer = self.graph, Writer(self.graph)
        single = self._single()
        later = graph.reachable(self.members, forward=True)
        writer.nodes += [graph.nodes[index] for index in self.others if index not in later]
        copies: list[_Copy] = []
        for number in range(self.images):
            copy = _Copy(self, writer, number, f"{self.mark}{number}")
            for name in self.parted:
                copy.values[name] = label = f"{name}{copy.mark}"
                part, axis = self.box(name, number)[self.axes[name]], self.axes[name]
                writer.sliced(name, {axis: (part.start, part.stop, 1)}, label, label)
            for tiled in self.members.values():
                copy.write(tiled)
            copies.append(copy)
        for name in self.joined:
            parts = [copy.values[name] for copy in copies]
            writer.joined(parts, self.axes[name], name, f"{name}{self.mark}all")
        writer.nodes += [graph.nodes[index] for index in self.others if index in later]
        names = tuple(_matched(single, copy, self.parted) for copy in copies)
        return Images(writer.finish(), single.writer.finish(), names)

    def _single(self) -> "_Copy":
        """One image's part, to be a network of its own."""
        types = {**self.graph.types, **{name: self.type(name) for name in self.parted}}
        inputs = (*self.parted, *self.given)
        base = replace(self.graph, types=types, inputs=inputs, outputs=tuple(self.joined))
        copy = _Copy(self, Writer(base), 0, "")
        copy.values |= {name: name for name in self.parted}
        for tiled in self.members.values():
            copy.write(tiled)
        return copy

    def type(self, name: str) -> TensorType:
        """The type of one image's part of a value."""
        return self.graph.types[name].with_shape(self.box(name, 0).shape)

    def box(self, name: str, number: int) -> Box:
        """One image's part of a value."""
        shape = self.graph.types[name].shape
        axis, whole = self.axes.get(name), Box.whole(shape).intervals
        if axis is None:
            return Box(whole)
        part = _part(shape[axis], self.images, number)
        return Box((*whole[:axis], part, *whole[axis + 1 :]))


class _Copy:
    """One image's copy of the nodes; `values` says what it calls theirs, `made` what it wrote."""

    def __init__(self, repeater: _Repeater, writer: Writer, number: int, mark: str) -> None:
        self.repeater, self.writer, self.number, self.mark = repeater, writer, number, mark
        self.values: dict[str, str] = {}
        self.made: list[Node] = []
        self._parts: dict[tuple[str, Box], str] = {}

    def write(self, tiled: TiledOp) -> None:
        """The copy of a node."""
        node, before = tiled.node, len(self.writer.nodes)
        boxes: list[Box | None] = []
        for name in node.outputs:
            boxes.append(self.repeater.box(name, self.number) if name else None)
            self.values.update({name: f"{name}{self.mark}"} if name else {})
        tile = Tile(tuple(boxes), _with_unused(tiled, reaches_of(tiled, boxes)))
        steps = tiled.spec.tile(tiled.op, tile)
        if self._takes_part(tiled, tile, steps):
            self.made += self.writer.nodes[before:]
            return
        local: dict[str, str] = {}
        for place, step in enumerate(steps):
            label = f"{node.name}{self.mark}" + (f"/{place}" if place + 1 < len(steps) else "")
            inputs = [self._input(tiled, tile, value, local) for value in step.inputs]
            outputs: dict[str, TensorType | None] = {}
            for output in step.outputs:
                if isinstance(output, int):
                    made = node.outputs[output]
                    outputs[self.values[made]] = self.repeater.type(made)
                elif output:
                    local[output] = f"{node.name}{self.mark}/{output}"
                    outputs[local[output]] = tiled.op.result().with_shape(step.local_shape)
                else:
                    outputs[""] = None
            domain = node.domain if step.kind == node.kind else ""
            self.writer.node(label, step.kind, inputs, outputs, step.attributes, domain)
        self.made += self.writer.nodes[before:]

    def _takes_part(self, tiled: TiledOp, tile: Tile, steps: Sequence[Step]) -> bool:
        """Write a node that does nothing but take part of an operand, if it is one."""
        (first, *more) = steps
        source, spec = first.inputs[0], SPECS.get(first.kind)
        if more or not isinstance(source, int) or spec is None or spec.view is not same_view:
            return False
        name = tiled.node.inputs[source]
        box, whole = tile.input_box(source), self.repeater.box(name, self.number)
        if box is None or box == whole or name in self.repeater.graph.constants:
            return False
        made, label = tiled.node.outputs[0], f"{tiled.node.name}{self.mark}"
        ranges = _ranges(box, whole)
        self.writer.sliced(self.values.get(name, name), ranges, self.values[made], label)
        return True

    def _input(self, tiled: TiledOp, tile: Tile, value: StepInput, local: Mapping[str, str]) -> str:
        """What a step reads: an operand of the node, what a step before it made, or numbers."""
        if value is None:
            return ""
        if isinstance(value, str):
            return local[value]
        if not isinstance(value, int):
            label = f"{tiled.node.name}{self.mark}/numbers"
            return self.writer.constant(label, constant_of(value))
        name = tiled.node.inputs[value]
        box, whole = tile.input_box(value), self.repeater.box(name, self.number)
        label = self.values.get(name, name)
        if box is None or box == whole:
            return label
        if (name, box) not in self._parts:
            self._parts[name, box] = self._part(name, label, whole, box)
        return self._parts[name, box]

    def _part(self, name: str, label: str, whole: Box, box: Box) -> str:
        """Part of a value, or of a constant, which is cut now."""
        wanted = f"{name}{self.mark}/part"
        constant = self.repeater.graph.constants.get(name)
        if constant is not None:
            ranges = {axis: (i.start, i.stop) for axis, i in enumerate(box)}
            return self.writer.constant(wanted, part_of(constant, ranges))
        wanted = self.writer.names.take(wanted)
        return self.writer.sliced(label, _ranges(box, whole), wanted, wanted)


def _with_unused(tiled: TiledOp, reaches: Sequence[tuple[Reach, ...] | None]) -> Reaches:
    """What a node reads, with the rows behind the last window that a stride leaves out."""
    found: list[tuple[Reach, ...] | None] = []
    for row, rules, operand in zip(reaches, tiled.access[0].inputs, tiled.op.inputs, strict=True):
        if row is None or rules is None or operand is None:
            found.append(row)
            continue
        found.append(
            tuple(
                Reach(Interval(reach.interval.start, extent), reach.before, reach.after)
                if isinstance(rule, Window) and not reach.interval.start
                else reach
                for reach, rule, extent in zip(row, rules, operand.type.shape, strict=True)
            )
        )
    return tuple(found)


def _ranges(box: Box, whole: Box) -> dict[int, Range]:
    """Where a part lies along the axes that it does not have all of."""
    inner = box.within(whole)
    return {a: (i.start, i.stop, 1) for a, i in enumerate(inner) if box[a] != whole[a]}


def _matched(single: _Copy, copy: _Copy, parted: Sequence[str]) -> dict[str, str]:
    """What a copy calls the nodes and values of the network of one image."""
    names = {name: copy.values[name] for name in parted}
    for own, other in zip(single.made, copy.made, strict=True):
        names |= {own.name: other.name, **dict(zip(own.writes, other.writes, strict=True))}
    return names


def _mark(known: Collection[str], images: int) -> str:
    """What stands between a name and the number of its image."""
    mark = "@"
    while any(f"{name}{mark}{end}" in known for name in known for end in (*range(images), "all")):
        mark += "@"
    return mark
