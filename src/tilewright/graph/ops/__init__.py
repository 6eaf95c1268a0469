"""All operators Tilewright knows, by name; an unknown one runs whole."""

from collections.abc import Mapping

from tilewright.geometry.box import Box
from tilewright.graph.graph import Graph, Node
from tilewright.graph.ops import (
    elementwise,
    layout,
    matmul,
    quantised,
    reduction,
    resample,
    windows,
)
from tilewright.graph.ops.spec import Op, OpSpec, op_of

SPECS: Mapping[str, OpSpec] = {
    spec.kind: spec
    for family in (windows, elementwise, matmul, reduction, layout, resample, quantised)
    for spec in family.SPECS
}


def spec_of(graph: Graph, node: Node) -> tuple[OpSpec, Op] | None:
    """The node's spec and its typed form, or None for an operator that has to run whole."""
    spec = SPECS.get(node.kind)
    if spec is None or node.domain not in spec.domains:
        return None
    op = op_of(graph, node)
    return None if op is None else (spec, op)


def runs_whole(graph: Graph, node: Node) -> bool:
    """Whether an operator is unknown, or cannot be cut as it is: it stands alone, in one piece."""
    known = spec_of(graph, node)
    if known is None:
        return True
    spec, op = known
    there = [k for k, kind in enumerate(op.outputs) if kind is not None]
    return any(spec.access(op, k) is None for k in there)


def macs_of(graph: Graph, node: Node) -> int:
    """Multiply-accumulates of a whole node; 0 where it has none or they are not known."""
    known = spec_of(graph, node)
    if known is None:
        return 0
    spec, op = known
    return spec.macs(op, Box.whole(op.result().shape))
