"""Move a scale from behind a matrix product to the smaller of its operands.

s (q k) is (s q) k. Attention scales its scores; its queries are far fewer numbers, and scores that
nothing scales go straight from the product into the softmax.
"""

from dataclasses import replace
from math import isfinite

import numpy as np

from tilewright.frontend.idioms.matching import Matcher
from tilewright.graph.edit import Writer, reshaped, scaled
from tilewright.graph.graph import Constant, Graph, Node
from tilewright.graph.rules import need, optional, require
from tilewright.graph.types import FLOATS

# Factors that leave operands within their type; those of half precision may not grow.
GENTLE = {"float16": (2.0**-10, 1.0)}
USUALLY_GENTLE = (2.0**-20, 2.0**20)


def move_scales(graph: Graph) -> Graph:
    """Scale the smaller operand of a matrix product instead of the product."""
    while (moved := _moved_once(graph)) is not graph:
        graph = moved  # the operand may be a product itself
    return graph


def _moved_once(graph: Graph) -> Graph:
    matcher, writer = Matcher(graph), Writer(graph)
    gone: set[int] = set()
    for index, node in enumerate(graph.nodes):
        if index in gone:
            continue
        move = _move(matcher, index)
        if move is None:
            writer.nodes.append(node)
            continue
        scale_index, number, position = move
        gone.add(scale_index)
        scale, inputs = graph.nodes[scale_index], list(node.inputs)
        operand = inputs[position]
        kind = graph.types[operand]
        if operand in graph.constants:
            weight = _folded(graph, scale, operand, number)
            name = writer.constant(f"{node.name}/weight", weight)
        else:
            if len(graph.types[number].shape) > len(kind.shape):
                flat = reshaped(graph.constants[number], ())
                number = writer.constant(f"{scale.name}/scale", flat)
            name = writer.names.take(f"{scale.name}/scaled")
            writer.types[name] = kind
            writer.nodes.append(replace(scale, inputs=(operand, number), outputs=(name,)))
        inputs[position] = name
        writer.nodes.append(replace(node, inputs=tuple(inputs), outputs=scale.outputs))
    return writer.finish() if gone else graph


@optional
def _move(matcher: Matcher, index: int) -> tuple[int, str, int]:
    """The scale behind a matrix product that is better elsewhere, the constant that holds its
    number, and the operand it moves to, by position."""
    graph, node = matcher.graph, matcher.node(index)
    require(matcher.is_kind(index, "MatMul"))
    product = node.outputs[0]
    kind = need(graph.types.get(product))
    index = need(matcher.reader(product, "Mul", "Div"))
    number, scale = need(matcher.other(index, product)), matcher.node(index)
    require(kind.dtype in FLOATS and graph.types.get(scale.outputs[0]) == kind)
    require(scale.kind == "Mul" or scale.inputs[0] == product)
    require(is_gentle(graph, scale, number))
    # Constants first, they are scaled once and for all; then by size.
    sizes = [(name not in graph.constants, graph.types[name].size) for name in node.inputs]
    operand = sizes.index(min(sizes))
    name = node.inputs[operand]
    own = name in graph.constants and matcher.reader(name, "MatMul") is not None
    require((own and node.inputs.count(name) == 1) or graph.types[name].size < kind.size)
    return index, number, operand


def is_gentle(graph: Graph, scale: Node, number: str) -> bool:
    """Whether the value is one number, and, where that is known, one that operands can take."""
    constant = graph.constants.get(number)
    if constant is None or constant.type.size != 1:
        return False
    factor = factor_of(graph, scale, number)
    if factor is None:
        return constant.number is None
    least, most = GENTLE.get(constant.type.dtype, USUALLY_GENTLE)
    return least <= abs(factor) <= most


def factor_of(graph: Graph, scale: Node, number: str) -> float | None:
    """What a scale multiplies by, None if it is not known or no number to multiply by."""
    found = graph.constants[number].number
    if not found or not isfinite(found):
        return None
    return found if scale.kind == "Mul" else 1 / found


def _folded(graph: Graph, scale: Node, operand: str, number: str) -> Constant:
    """A weight with the scale in it; unknown numbers stay unknown."""
    weight, factor = graph.constants[operand], factor_of(graph, scale, number)
    if weight.data is None or factor is None:
        return Constant(weight.type, None)
    return Constant(weight.type, scaled(weight.data, np.full((1,) * weight.data.ndim, factor)))
