"""Fold a scale into the weights of the product that makes its operand.

Attention scales its queries, which are a projection of tokens seen as heads: reshaped, transposed,
perhaps a part of a joint projection. Data movement leaves numbers as they are, so the filters that
lead to the scaled value, and their biases, take the number once and for all.
"""

from dataclasses import dataclass, replace
from math import isfinite, prod

import numpy as np
import numpy.typing as npt

from tilewright.frontend.idioms.matching import Matcher
from tilewright.graph.edit import Writer, rebuilt, scaled
from tilewright.graph.graph import Constant, Graph, Node
from tilewright.graph.kernels import run_step
from tilewright.graph.ops.layout import RESHAPES
from tilewright.graph.types import FLOATS

Flags = npt.NDArray[np.bool_]

# Factors that leave operands within their type; those of half precision may not grow.
GENTLE = {"float16": (2.0**-10, 1.0)}
USUALLY_GENTLE = (2.0**-20, 2.0**20)

_MOVES = (*RESHAPES, "Transpose", "Split")
_PRODUCTS = ("MatMul", "Gemm", "Conv")


@dataclass(frozen=True, slots=True)
class Weighed:
    """A value that filters of a product make: the product and the sums with biases behind it, by
    index, and whether each filter makes it; a filter makes all of the value or nothing of it."""

    nodes: tuple[int, ...]
    filters: Flags


def fold_scales(graph: Graph) -> Graph:
    """Scale weights instead of what is made with them."""
    while (folded := _folded_once(graph)) is not graph:
        graph = folded  # another scale may have stood in between
    return graph


def _folded_once(graph: Graph) -> Graph:
    matcher = Matcher(graph)
    for index, node in enumerate(graph.nodes):
        if not matcher.is_kind(index, "Mul", "Div") or len(node.inputs) != 2:
            continue
        first = node.kind == "Div" or node.inputs[1] in graph.constants
        given, number = node.inputs if first else node.inputs[::-1]
        result = node.outputs[0]
        if result in matcher.exposed or graph.types.get(result) != graph.types.get(given):
            continue
        found = weighed(matcher, given) if is_gentle(graph, node, number) else None
        if found is None or matcher.reader(given, node.kind) != index:
            continue
        writer = Writer(graph)
        factor = factor_of(graph, node, number)
        changed = {n: _scaled_node(writer, graph.nodes[n], found, factor) for n in found.nodes}
        kept = (
            changed.get(n, _reading(other, result, given))
            for n, other in enumerate(graph.nodes)
            if n != index
        )
        return rebuilt(graph, kept, writer.constants)
    return graph


def weighed(matcher: Matcher, value: str) -> Weighed | None:
    """How a value is made, if it is by a product with constants, biases and data movement that
    nothing else reads."""
    graph, moves, nodes = matcher.graph, list[tuple[int, int]](), list[int]()
    while True:
        index = matcher.maker(value, "Add", *_MOVES, *_PRODUCTS)
        kind = graph.types.get(value)
        if index is None or kind is None or kind.dtype not in FLOATS:
            return None
        node = graph.nodes[index]
        if node.kind in _PRODUCTS:
            nodes.append(index)
            break
        if node.kind == "Add":
            nodes.append(index)
            data = [name for name in node.inputs if name not in graph.constants]
            if len(data) != 1 or graph.types.get(data[0]) != kind:
                return None
            (value,) = data
        elif nodes:
            return None  # a bias of something else than the product's filters
        else:
            moves.append((index, node.outputs.index(value)))
            value = node.inputs[0]
        if matcher.reader(value, node.kind) != index:
            return None
    axis = _channel_axis(graph, node)
    if not all(_own(matcher, index, axis) for index in nodes):
        return None
    filters = _filters(graph, graph.types[node.outputs[0]].shape, axis, moves)
    return None if filters is None else Weighed(tuple(nodes), filters)


def _channel_axis(graph: Graph, product: Node) -> int:
    """The axis of a product's result along which its filters lie."""
    return 1 if product.kind == "Conv" else len(graph.types[product.outputs[0]].shape) - 1


def _own(matcher: Matcher, index: int, axis: int) -> bool:
    """Whether a node's weights and biases are constants that it alone reads, with a number for each
    filter."""
    graph, node = matcher.graph, matcher.node(index)
    shape = graph.types[node.outputs[0]].shape
    constants = [n for n in node.inputs if n in graph.constants]
    if any(matcher.reader(name, node.kind) != index for name in constants):
        return False
    if node.kind in _PRODUCTS:
        read = [name for name in node.inputs[1:] if name]
        plain = node.kind != "MatMul" or len(graph.types[node.inputs[1]].shape) == 2
        kinds = [graph.types[name] for name in read[1:]]
        biases = all(kind.size == kind.shape[-1] == shape[axis] for kind in kinds)
        return plain and biases and constants == read and len(shape) > 1
    kind = graph.types[constants[0]]
    along = len(kind.shape) + axis - len(shape)
    return along >= 0 and kind.size == kind.shape[along] == shape[axis]


def _filters(
    graph: Graph, shape: tuple[int, ...], axis: int, moves: list[tuple[int, int]]
) -> Flags | None:
    """For each filter, whether data movement makes a value of its results; None where it takes some
    of them."""
    line = tuple(extent if a == axis else 1 for a, extent in enumerate(shape))
    numbers = np.broadcast_to(np.arange(shape[axis]).reshape(line), shape)
    for index, output in reversed(moves):
        node = graph.nodes[index]
        others = [graph.constants.get(name) for name in node.inputs[1:]]
        if any(other is None or other.data is None for other in others):
            return None
        data = [other.data for other in others if other is not None]
        made = run_step(
            node.kind, node.attributes, (numbers, *data), graph.opset, len(node.outputs)
        )
        numbers = made[output]
    counts = np.bincount(numbers.reshape(-1), minlength=shape[axis])
    whole = counts == prod(shape) // shape[axis]
    return whole if bool((whole | (counts == 0)).all()) else None


def _scaled_node(writer: Writer, node: Node, made: Weighed, factor: float | None) -> Node:
    """A product or a sum with the scale in its constants."""
    graph, channels = writer.graph, np.where(made.filters, factor or 1.0, 1.0)
    inputs = list(node.inputs)
    for place, name in enumerate(inputs):
        constant = graph.constants.get(name)
        if constant is None:
            continue
        shape = constant.type.shape
        filters_first = node.kind == "Conv" or (node.kind == "Gemm" and node.int_of("transB", 0))
        along = 0 if filters_first and place == 1 else len(shape) - 1
        if node.kind == "Add":
            along = shape.index(len(channels))
        data = None
        if constant.data is not None and factor is not None:
            data = scaled(
                constant.data,
                channels.reshape([-1 if a == along else 1 for a in range(len(shape))]),
            )
        label = "weight" if place == 1 and node.kind != "Add" else "bias"
        taken = writer.names.take(f"{node.name}/{label}")
        inputs[place] = writer.constant(taken, Constant(constant.type, data))
    return replace(node, inputs=tuple(inputs))


def _reading(node: Node, old: str, new: str) -> Node:
    """A node that reads one value instead of another."""
    if old not in node.inputs:
        return node
    return replace(node, inputs=tuple(new if name == old else name for name in node.inputs))


def is_gentle(graph: Graph, scale: Node, number: str) -> bool:
    """Whether the value is one number, and, where that is known, one that operands can take."""
    constant = graph.constants.get(number)
    if constant is None or constant.type.size != 1:
        return False
    factor = factor_of(graph, scale, number)
    if factor is None:
        return constant.data is None
    least, most = GENTLE.get(constant.type.dtype, USUALLY_GENTLE)
    return least <= abs(factor) <= most


def factor_of(graph: Graph, scale: Node, number: str) -> float | None:
    """What a scale multiplies by, None if it is not known or no number to multiply by."""
    data = graph.constants[number].data
    found = 0.0 if data is None else float(data.reshape(-1)[0])
    if not found or not isfinite(found):
        return None
    return found if scale.kind == "Mul" else 1 / found
