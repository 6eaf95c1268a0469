"""Products of a kernel as matrix shapes: what arrays and thread blocks are filled with."""

from collections.abc import Iterable
from math import prod

from tilewright.geometry.box import Box
from tilewright.graph.graph import Graph
from tilewright.graph.ops import products_of, spec_of
from tilewright.graph.ops.roles import is_convolution
from tilewright.graph.ops.spec import Engine
from tilewright.graph.ops.whole import Product


def gemms(graph: Graph, nodes: Iterable[int]) -> list[Product]:
    """The products among nodes; a convolution is one for each of its groups."""
    found: list[Product] = []
    for index in nodes:
        node = graph.nodes[index]
        known = spec_of(graph, node)
        if known is None:
            found += products_of(graph, node)
            continue
        if known[0].engine is not Engine.MATRIX:
            continue
        spec, op = known
        shape = list(op.result().shape)
        if not shape or not prod(shape):
            continue
        if is_convolution(node):
            groups = op.int_of("group", 1)
            rows, columns = shape[0] * prod(shape[2:]), shape[1] // groups
        else:
            groups = prod(shape[:-2])
            rows, columns = (shape[-2] if len(shape) > 1 else 1), shape[-1]
            weights = op.inputs[1] if len(op.inputs) > 1 else None
            if weights is not None and len(weights.type.shape) == 2:
                groups, rows = 1, rows * groups  # one matrix for the whole batch
        macs = spec.macs(op, Box.whole(tuple(shape)))
        inner = -(-macs // max(1, groups * rows * columns))
        found.append(Product(groups, rows, max(1, inner), columns))
    return found
