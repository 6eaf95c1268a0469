"""How constants lie in the main memory: as their operators load them.

Row by row, matrices column by column, so that a part of the output channels is contiguous. A bias
lies between the weights, behind those of its channel: one copy then brings both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tilewright.geometry.box import Box
from tilewright.graph.graph import Array, Graph, Node
from tilewright.graph.ops import spec_of
from tilewright.graph.ops.spec import Engine
from tilewright.program.layout import Layouts, dense_strides
from tilewright.program.program import View


@dataclass(frozen=True, slots=True)
class Pack:
    """Weights and a bias, one row for each output channel: its weights, then its bias."""

    weights: str
    bias: str
    axis: int  # of the weights: the output channels
    shape: tuple[int, ...]  # of the weights
    item: int

    @property
    def row(self) -> int:
        """Elements of a row."""
        return prod(self.shape) // self.shape[self.axis] + 1

    def views(self, buffer: int, channels: int, dtypes: tuple[str, str]) -> dict[str, View]:
        """Both constants of so many channels, at the start of a buffer."""
        others = tuple(extent for axis, extent in enumerate(self.shape) if axis != self.axis)
        inner = list(dense_strides(others, self.item))
        inner.insert(self.axis, self.row * self.item)
        shape = tuple(channels if a == self.axis else e for a, e in enumerate(self.shape))
        step = (self.row * self.item,)
        behind = (self.row - 1) * self.item
        return {
            self.weights: View(buffer, 0, shape, tuple(inner), dtypes[0], self.item),
            self.bias: View(buffer, behind, (channels,), step, dtypes[1], self.item),
        }

    def rows(self, buffer: int, first: int, channels: int, dtype: str) -> View:
        """The rows of some channels as one piece."""
        step = self.row * self.item
        shape, strides = (channels, self.row), (step, self.item)
        return View(buffer, first * step, shape, strides, dtype, self.item)

    def bytes(self, channels: int) -> int:
        """Bytes of the rows of some channels."""
        return channels * self.row * self.item


def immediate(graph: Graph, name: str) -> Array | None:
    """The number of a constant that is a single known one: it is part of the instruction."""
    constant = graph.constants.get(name)
    if constant is None or constant.data is None or constant.type.size != 1:
        return None
    return constant.data


def packs_of(graph: Graph, layouts: Layouts) -> Mapping[str, Pack]:
    """The constants that are packed: of matrix operators, weights with the bias that belongs to
    the same channels, where nobody else uses either."""
    found: dict[str, Pack] = {}
    for node in graph.nodes:
        pack = _pack(graph, layouts, node)
        if pack is not None:
            found[pack.weights] = found[pack.bias] = pack
    return found


def _pack(graph: Graph, layouts: Layouts, node: Node) -> Pack | None:
    known = spec_of(graph, node)
    if known is None or known[0].engine is not Engine.MATRIX or len(set(node.inputs)) != 3:
        return None
    weights, bias = node.inputs[1:3]
    both = (weights, bias)
    if any(n not in graph.constants or len(graph.consumers[n]) != 1 for n in both):
        return None
    access = known[0].access(known[1], 0)
    if access is None or len(access.inputs) != 3:
        return None
    rules, row = access.inputs[1:3]
    if rules is None or row is None or len(row) != 1 or row[0].axis is None:
        return None
    axes = [axis for axis, rule in enumerate(rules) if rule.axis is not None]
    shape, length = graph.types[weights].shape, graph.types[bias].shape
    if len(axes) != 1 or rules[axes[0]].axis != row[0].axis or shape[axes[0]] != length[0]:
        return None
    item = layouts.item(weights)
    if item != layouts.item(bias) or graph.types[weights].dtype != graph.types[bias].dtype:
        return None
    return Pack(weights, bias, axes[0], shape, item)


def channels_of(pack: Pack, boxes: Mapping[str, Box]) -> tuple[int, int] | None:
    """First channel and count that a tile needs of a packed pair, if it needs whole rows."""
    box, row = boxes[pack.weights], boxes[pack.bias]
    whole = all(
        (i.start, i.stop) == (0, extent)
        for axis, (i, extent) in enumerate(zip(box, pack.shape, strict=True))
        if axis != pack.axis
    )
    if not whole or box[pack.axis] != row[0]:
        return None
    return row[0].start, row[0].length


def constant_view(graph: Graph, layouts: Layouts, name: str) -> View:
    """A constant that lies by itself: row by row, right operands of products column by column, so
    that a part of the output channels is contiguous."""
    shape, item = graph.types[name].shape, layouts.item(name)
    users = [graph.nodes[i] for i in graph.consumers.get(name, ())]
    right = all(n.inputs[1:2] == (name,) and not n.attributes.get("transB") for n in users)
    strides = dense_strides(shape, item)
    if len(shape) == 2 and users and right:
        strides = (item, shape[0] * item)
    return View(0, 0, shape, strides, graph.types[name].dtype, item)
