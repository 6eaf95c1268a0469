"""Move a scale from behind a matrix product to the smaller of its operands.

s (q k) is (s q) k. Attention scales its scores; its queries are far fewer numbers, and scores that
nothing scales go straight from the product into the softmax.
"""

from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from tilewright.frontend.idioms.matching import Matcher
from tilewright.graph.edit import Writer, reshaped, scaled
from tilewright.graph.graph import Constant, Graph, Node
from tilewright.graph.types import FLOATS

# Factors that leave operands within their type; those of half precision may not grow.
GENTLE = {"float16": (2.0**-10, 1.0)}
USUALLY_GENTLE = (2.0**-20, 2.0**20)


@dataclass(frozen=True, slots=True)
class _Move:
    """A scale, by index, and the constant that holds its number; the operand it moves to."""

    scale: int
    number: str
    operand: int


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
        gone.add(move.scale)
        scale, inputs = graph.nodes[move.scale], list(node.inputs)
        operand = inputs[move.operand]
        kind = graph.types[operand]
        if operand in graph.constants:
            name = writer.names.take(f"{node.name}/weight")
            writer.constant(name, _folded(graph, scale, operand, move.number))
        else:
            number = move.number
            if len(graph.types[number].shape) > len(kind.shape):
                number = writer.names.take(f"{scale.name}/scale")
                writer.constant(number, reshaped(graph.constants[move.number], ()))
            name = writer.names.take(f"{scale.name}/scaled")
            writer.types[name] = kind
            writer.nodes.append(replace(scale, inputs=(operand, number), outputs=(name,)))
        inputs[move.operand] = name
        writer.nodes.append(replace(node, inputs=tuple(inputs), outputs=scale.outputs))
    return writer.finish() if gone else graph


def _move(matcher: Matcher, index: int) -> _Move | None:
    """The scale behind a matrix product, None if there is none or it is well where it is."""
    graph, node = matcher.graph, matcher.node(index)
    kind = graph.types.get(node.outputs[0]) if matcher.is_kind(index, "MatMul") else None
    if kind is None or kind.dtype not in FLOATS:
        return None
    product = node.outputs[0]
    scale = matcher.reader(product, "Mul", "Div")
    number = None if scale is None else matcher.other(scale, product)
    if scale is None or number is None or graph.types.get(matcher.result(scale)) != kind:
        return None
    if matcher.node(scale).kind == "Div" and matcher.node(scale).inputs[0] != product:
        return None
    if not is_gentle(graph, matcher.node(scale), number):
        return None
    # Constants first, they are scaled once and for all; then by size.
    sizes = [(name not in graph.constants, graph.types[name].size) for name in node.inputs]
    operand = sizes.index(min(sizes))
    name = node.inputs[operand]
    own = name in graph.constants and matcher.reader(name, "MatMul") == index
    own = own and node.inputs.count(name) == 1
    return _Move(scale, number, operand) if own or graph.types[name].size < kind.size else None


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


def _folded(graph: Graph, scale: Node, operand: str, number: str) -> Constant:
    """A weight with the scale in it; unknown numbers stay unknown."""
    weight, factor = graph.constants[operand], factor_of(graph, scale, number)
    if weight.data is None or factor is None:
        return Constant(weight.type, None)
    return Constant(weight.type, scaled(weight.data, np.full((1,) * weight.data.ndim, factor)))
