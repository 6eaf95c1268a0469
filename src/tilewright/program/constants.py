"""How constants lie in the main memory: as their operators load them.

Row by row, matrices column by column, so that a part of the output channels is contiguous. A bias
lies between the weights, behind those of its channel: one copy then brings both.
"""

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from tilewright.geometry.box import Span
from tilewright.graph.graph import Array, Graph, Node
from tilewright.graph.ops import accesses_of, spec_of
from tilewright.graph.ops.spec import Engine
from tilewright.program.layout import Layouts, dense_strides


class Pack(NamedTuple):
    """Weights and a bias, one row for each output channel: its weights, then its bias."""

    weights: str
    bias: str
    axis: int  # of the weights: the output channels
    shape: tuple[int, ...]  # of the weights
    row: int  # elements of a row
    strides: tuple[int, ...]  # of the weights, in elements
    item: int  # bytes of an element

    def place(self, name: str) -> tuple[int, tuple[int, ...]]:
        """The first byte and the strides of one of both constants, where rows begin at 0."""
        if name == self.weights:
            return 0, tuple([stride * self.item for stride in self.strides])
        step = self.row * self.item
        return step - self.item, (step,)

    def bytes(self, channels: int) -> int:
        """Bytes of the rows of some channels."""
        return channels * self.row * self.item


def immediate(graph: Graph, name: str) -> Array | None:
    """The number of a constant that is a single known one: it is part of the instruction."""
    constant = graph.constants.get(name)
    if constant is None or constant.data is None or constant.type.size != 1:
        return None
    return constant.data


def packs_of(graph: Graph, layouts: Layouts) -> dict[str, Pack]:
    """The constants that are packed, in the bytes that their elements have."""
    found: dict[str, Pack] = {}
    for pack in pairs_of(graph).values():
        if pack.weights not in found:
            sized = pack._replace(item=layouts.item(pack.weights))
            found[pack.weights] = found[pack.bias] = sized
    return found


def pairs_of(graph: Graph) -> Mapping[str, Pack]:
    """The constants that lie together: of matrix operators, weights with the bias that belongs to
    the same channels, where nobody else uses either. In elements, worked out once."""
    key = ("pairs", None)
    if key not in graph.known:
        pairs = [pair for node in graph.nodes if (pair := _pair(graph, node)) is not None]
        graph.known[key] = {name: pair for pair in pairs for name in (pair.weights, pair.bias)}
    return graph.known[key]


def _pair(graph: Graph, node: Node) -> Pack | None:
    known = spec_of(graph, node)
    if known is None or known[0].engine is not Engine.MATRIX or len(set(node.inputs)) != 3:
        return None
    weights, bias = node.inputs[1:3]
    both = (weights, bias)
    if any(n not in graph.constants or len(graph.consumers[n]) != 1 for n in both):
        return None
    access = accesses_of(graph, node)[0]
    if access is None or len(access.inputs) != 3:
        return None
    rules, row = access.inputs[1:3]
    if rules is None or row is None or len(row) != 1 or row[0].axis is None:
        return None
    axes = [axis for axis, rule in enumerate(rules) if rule.axis is not None]
    shape, length = graph.types[weights].shape, graph.types[bias].shape
    if len(axes) != 1 or rules[axes[0]].axis != row[0].axis or shape[axes[0]] != length[0]:
        return None
    if graph.types[weights].dtype != graph.types[bias].dtype:
        return None
    return pack_of(weights, bias, axes[0], shape)


def pack_of(weights: str, bias: str, axis: int, shape: tuple[int, ...], item: int = 1) -> Pack:
    """Weights of a shape with their bias, which has a number for each position along an axis."""
    others = tuple(extent for position, extent in enumerate(shape) if position != axis)
    inner, row = list(dense_strides(others, 1)), prod(others) + 1
    inner.insert(axis, row)
    return Pack(weights, bias, axis, shape, row, tuple(inner), item)


def channels_of(pack: Pack, weights: Span, bias: Span) -> tuple[int, int] | None:
    """First channel and count that a tile needs of a packed pair, if it needs whole rows."""
    first, stop = bias[0][0], bias[1][0]
    for axis, extent in enumerate(pack.shape):
        wanted = (first, stop) if axis == pack.axis else (0, extent)
        if (weights[0][axis], weights[1][axis]) != wanted:
            return None
    return first, stop - first


def constant_strides(graph: Graph, name: str, item: int) -> tuple[int, ...]:
    """Byte strides of a constant that lies by itself: row by row, right operands of products column
    by column, so that a part of the output channels is contiguous."""
    shape = graph.types[name].shape
    users = [graph.nodes[i] for i in graph.consumers.get(name, ())]
    right = all(n.inputs[1:2] == (name,) and not n.attributes.get("transB") for n in users)
    if len(shape) == 2 and users and right:
        return (item, shape[0] * item)
    return dense_strides(shape, item)
