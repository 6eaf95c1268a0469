"""Fold a scale into the weights of the product that makes its operand.

Attention scales its queries, which are a projection of tokens seen as heads: reshaped, transposed,
perhaps a part of a joint projection. Data movement leaves numbers as they are, so the filters that
lead to the scaled value, and their biases, take the number once and for all.
"""

from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from tilewright.frontend.idioms.matching import Matcher
from tilewright.frontend.normalize.scale import factor_of, is_gentle
from tilewright.graph.edit import Writer, scaled
from tilewright.graph.graph import Constant, Graph, Node
from tilewright.graph.kernels import run_step
from tilewright.graph.ops.layout import RESHAPES
from tilewright.graph.types import FLOATS

Flags = npt.NDArray[np.bool_]

_MOVES = (*RESHAPES, "Transpose", "Split")
_PRODUCTS = ("MatMul", "Gemm", "Conv")


@dataclass(frozen=True, slots=True)
class _Weighed:
    """A value that filters of a product make: the product and the sums with biases behind it, by
    index, and whether each filter makes it; a filter makes all of the value or nothing of it."""

    nodes: tuple[int, ...]
    filters: Flags


def fold_scales(graph: Graph) -> tuple[Graph, dict[str, str]]:
    """Scale weights instead of what is made with them; which scales went into which products. What
    they made keeps its name."""
    folded: dict[str, str] = {}
    while (found := _next(graph)) is not None:
        scale, into, made = found
        node, writer = graph.nodes[scale], Writer(graph)
        given, number = _operands(graph, node)
        folded[node.name] = graph.nodes[into.nodes[0]].name
        factor = factor_of(graph, node, number)
        for index, other in enumerate(graph.nodes):
            changed = _weighed(writer, other, into, factor) if index in into.nodes else other
            if index == made:
                outputs = (node.outputs[0] if n == given else n for n in other.outputs)
                changed = replace(changed, outputs=tuple(outputs))
            writer.nodes += [changed] * (index != scale)
        graph = writer.finish()  # another scale may have stood in between
    return graph, folded


def _next(graph: Graph) -> tuple[int, _Weighed, int] | None:
    """The first scale that can be folded, what it is folded into, and who makes what it scales."""
    matcher = Matcher(graph)
    for index, node in enumerate(graph.nodes):
        if not matcher.is_kind(index, "Mul", "Div") or len(node.inputs) != 2:
            continue
        given, number = _operands(graph, node)
        result = node.outputs[0]
        if result in matcher.exposed or graph.types.get(result) != graph.types.get(given):
            continue
        if matcher.reader(given, node.kind) != index or not is_gentle(graph, node, number):
            continue
        for value in (given, *_factors(matcher, given)):
            if (found := _made(matcher, value)) is not None:
                return index, found, graph.producer[given]
    return None


def _factors(matcher: Matcher, value: str) -> list[str]:
    """Operands of the product that a value is: s (q k) is (s q) k."""
    product = matcher.maker(value, "MatMul")
    operands = () if product is None else matcher.node(product).inputs
    alone = (name for name in operands if operands.count(name) == 1)
    return [name for name in alone if matcher.reader(name, "MatMul") == product]


def _operands(graph: Graph, scale: Node) -> tuple[str, str]:
    """What is scaled, and the number."""
    left, right = scale.inputs
    return (left, right) if scale.kind == "Div" or right in graph.constants else (right, left)


def _made(matcher: Matcher, value: str) -> _Weighed | None:
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
    if not all(_by_filter(graph, graph.nodes[index], axis) for index in nodes):
        return None
    filters = _filters(graph, graph.types[node.outputs[0]].shape, axis, moves)
    return None if filters is None else _Weighed(tuple(reversed(nodes)), filters)


def _channel_axis(graph: Graph, product: Node) -> int:
    """The axis of a product's result along which its filters lie."""
    return 1 if product.kind == "Conv" else len(graph.types[product.outputs[0]].shape) - 1


def _by_filter(graph: Graph, node: Node, axis: int) -> bool:
    """Whether a node's weights and biases are constants with a number for each filter."""
    shape = graph.types[node.outputs[0]].shape
    constants = [n for n in node.inputs if n in graph.constants]
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
        given, results = (numbers, *data), len(node.outputs)
        numbers = run_step(node.kind, node.attributes, given, graph.opset, results)[output]
    counts = np.bincount(numbers.reshape(-1), minlength=shape[axis])
    whole = counts == prod(shape) // shape[axis]
    return whole if bool((whole | (counts == 0)).all()) else None


def _weighed(writer: Writer, node: Node, made: _Weighed, factor: float | None) -> Node:
    """A product or a sum with the scale in constants of its own."""
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
            line = [-1 if axis == along else 1 for axis in range(len(shape))]
            data = scaled(constant.data, channels.reshape(line))
        label = "weight" if place == 1 and node.kind != "Add" else "bias"
        inputs[place] = writer.constant(f"{node.name}/{label}", Constant(constant.type, data))
    return replace(node, inputs=tuple(inputs))
