"""How tensors lie in memory: images channels-last with aligned channels, the rest row by row."""

from dataclasses import dataclass
from math import prod

from tilewright.geometry.box import Box
from tilewright.graph.graph import Graph
from tilewright.graph.ops import spec_of
from tilewright.graph.ops.spec import IMAGE_RANKS, Engine, Op, OpSpec, is_given
from tilewright.graph.ops.views import dense_strides
from tilewright.graph.types import BITS, FLOATS
from tilewright.machine.dtypes import element_bits
from tilewright.machine.machine import Machine
from tilewright.program.program import View

_FAMILIES = frozenset({"window"})
_FOLLOWING = frozenset({"element-wise", "normalisation"})


def image_values(graph: Graph) -> frozenset[str]:
    """Tensors that are images: what windows read and write, and what is element by element with
    them. Others of the same rank (heads of attention) are matrices. Worked out once."""
    key = ("images", None)
    if key not in graph.known:
        graph.known[key] = _image_values(graph)
    return graph.known[key]


def _image_values(graph: Graph) -> frozenset[str]:
    specs = [spec_of(graph, node) for node in graph.nodes]
    families = [spec[0].family if spec else "" for spec in specs]
    following = [spec is not None and _keeps_axes(*spec) for spec in specs]
    rank = {name for name, kind in graph.types.items() if len(kind.shape) in IMAGE_RANKS}
    images: set[str] = set()

    def touched(index: int) -> set[str]:
        node = graph.nodes[index]
        return {n for n in (*node.inputs, *node.outputs) if n in rank and n not in graph.constants}

    todo = [i for i, family in enumerate(families) if family in _FAMILIES]
    seen = set(todo)
    while todo:
        for name in touched(todo.pop()):
            if name in images:
                continue
            images.add(name)
            users = [*graph.consumers.get(name, ())]
            if name in graph.producer:
                users.append(graph.producer[name])
            fresh = [i for i in users if following[i] and i not in seen]
            seen.update(fresh)
            todo += fresh
    return frozenset(images)


def _keeps_axes(spec: OpSpec, op: Op) -> bool:
    """Whether the result of an operator is an image where its input is one: element by element, or
    data movement that leaves every axis where it is."""
    if spec.family in _FOLLOWING:
        return True
    access = spec.access(op, 0) if spec.engine is Engine.MOVE else None
    rules = access.inputs[0] if access is not None and access.inputs else None
    return rules is not None and all(rule.axis == axis for axis, rule in enumerate(rules))


@dataclass(frozen=True, slots=True)
class Layouts:
    """Element sizes and layouts of a network's tensors under one machine and element type: floats
    have `float_bits`, `outer` are values of the caller."""

    graph: Graph
    machine: Machine
    dtype: str
    images: frozenset[str]
    outer: frozenset[str]
    float_bits: int

    @staticmethod
    def of(graph: Graph, machine: Machine, dtype: str) -> "Layouts":
        """Layouts of a network."""
        outer = frozenset((*graph.inputs, *graph.outputs, *graph.constants))
        return Layouts(graph, machine, dtype, image_values(graph), outer, element_bits(dtype))

    def item(self, name: str) -> int:
        """Bytes of one element where it lies: floats in the planned type, everything else as it is,
        each in whole bytes."""
        dtype = self.graph.types[name].dtype
        return max(1, (self.float_bits if dtype in FLOATS else BITS[dtype]) // 8)

    def moved(self, name: str, elements: int) -> int:
        """Bytes that move with so many elements: those of less than a byte share bytes."""
        return min(
            elements * self.item(name), -(-elements * BITS[self.graph.types[name].dtype] // 8)
        )

    def strides(self, name: str, shape: tuple[int, ...], *, aligned: bool) -> tuple[int, ...]:
        """Byte strides of a tensor, or of a part of it that lies by itself."""
        item = self.item(name)
        if name not in self.images:
            return dense_strides(shape, item)
        _, channels, *space = shape
        if aligned and not self.packed(name):
            grain = self.machine.limits.channel_alignment
            channels = -(-channels // grain) * grain
        image, *pixels = dense_strides((1, *space), channels * item)
        return (image, item, *pixels)

    def grain(self, name: str) -> int:
        """Bytes that rows of a value begin at multiples of, where engines read them."""
        item = self.item(name)
        aligned = name in self.images and not self.packed(name)
        return item * self.machine.limits.channel_alignment if aligned else item

    def packed(self, name: str) -> bool:
        """Whether an image stays packed in scratchpads too: an input of the network with so few
        channels that arrays read it so. All others have their channels expanded on the way in."""
        shape = self.graph.types[name].shape
        return is_given(self.graph, name) and shape[1] <= self.machine.packed_channels

    def bytes(self, name: str, shape: tuple[int, ...], *, aligned: bool) -> int:
        """Bytes such a tensor takes, alignment of channels included."""
        if name in self.images:
            return max(1, shape[0] * self.strides(name, shape, aligned=aligned)[0])
        return max(1, prod(shape) * self.item(name))

    def view(self, buffer: int, name: str, shape: tuple[int, ...], *, aligned: bool) -> View:
        """A tensor, or a part that lies by itself, at the start of its buffer."""
        strides = self.strides(name, shape, aligned=aligned)
        return View(buffer, 0, shape, strides, self.graph.types[name].dtype, self.item(name))

    def main_view(self, buffer: int, name: str) -> View:
        """A value as it lies in the main memory."""
        kind = self.graph.types[name]
        strides = self.main_strides(name)
        return View(buffer, 0, kind.shape, strides, kind.dtype, self.item(name))

    def main_strides(self, name: str) -> tuple[int, ...]:
        """How a value lies in the main memory: inner ones have their channels aligned, those of
        the caller have not."""
        return self.strides(name, self.graph.types[name].shape, aligned=name not in self.outer)


def part(view: View, outer: Box, inner: Box) -> View:
    """The region `inner` of a view that holds `outer`."""
    offset = view.offset
    for wanted, there, stride in zip(inner.intervals, outer.intervals, view.strides, strict=True):
        offset += (wanted.start - there.start) * stride
    return View(view.buffer, offset, inner.shape, view.strides, view.dtype, view.item)
