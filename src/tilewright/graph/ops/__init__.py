"""All operators Tilewright knows, by name; an unknown one runs whole."""

from collections.abc import Mapping

from tilewright.geometry.access import Access
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
from tilewright.graph.ops.quantised import RUNTIME
from tilewright.graph.ops.spec import Engine, Op, OpSpec, op_of
from tilewright.graph.ops.whole import PRODUCTS, RUNTIME_PRODUCTS, Product

SPECS: Mapping[str, OpSpec] = {
    spec.kind: spec
    for family in (windows, elementwise, matmul, reduction, layout, resample, quantised)
    for spec in family.SPECS
}


def spec_of(graph: Graph, node: Node) -> tuple[OpSpec, Op] | None:
    """The node's spec and its typed form, or None for an operator that has to run whole. Worked out
    once for every node of a network."""
    key = ("spec", id(node))  # the entry keeps the node: its identity stays what it is
    known = graph.known.get(key)
    if known is None:
        spec = SPECS.get(node.kind)
        typed = None
        if spec is not None and node.domain in spec.domains and (op := op_of(graph, node)):
            typed = (spec, op)
        known = graph.known[key] = (node, typed)
    return known[1]


def accesses_of(graph: Graph, node: Node) -> tuple[Access | None, ...]:
    """The access relations of a node's outputs, None where it cannot be cut; nothing for one that
    has no spec, or no output. An absent output takes the place of the first that is there: nothing
    ever needs it."""
    key = ("access", id(node))
    known = graph.known.get(key)
    if known is None:
        typed = spec_of(graph, node)
        outputs = () if typed is None else typed[1].outputs
        present = next((k for k, kind in enumerate(outputs) if kind is not None), None)
        relations: tuple[Access | None, ...] = ()
        if typed is not None and present is not None:
            spec, op = typed
            numbers = [present if kind is None else k for k, kind in enumerate(outputs)]
            relations = tuple([spec.access(op, number) for number in numbers])
        known = graph.known[key] = (node, relations)
    return known[1]


def runs_whole(graph: Graph, node: Node) -> bool:
    """Whether an operator is unknown, or cannot be cut as it is: it stands alone, in one piece."""
    return spec_of(graph, node) is None or None in accesses_of(graph, node)


def products_of(graph: Graph, node: Node) -> tuple[Product, ...]:
    """The matrix products inside an operator that has no spec, as far as they are known."""
    known = {"": PRODUCTS, RUNTIME: RUNTIME_PRODUCTS}.get(node.domain, {})
    rule = known.get(node.kind)
    op = op_of(graph, node) if rule is not None else None
    return rule(op) if rule is not None and op is not None else ()


def macs_of(graph: Graph, node: Node) -> int:
    """Multiply-accumulates of a whole node; 0 where it has none or they are not known."""
    known = spec_of(graph, node)
    if known is None:
        return sum(product.macs for product in products_of(graph, node))
    spec, op = known
    there = next((kind for kind in op.outputs if kind is not None), None)
    return 0 if there is None else spec.macs(op, Box.whole(there.shape))


def costed_by_bytes(graph: Graph, node: Node) -> bool:
    """Whether all that is known of an operator's work is the bytes that it moves: it runs whole,
    is no data movement, and nothing is known of what it computes."""
    return planned_by_bytes(graph, node) and macs_of(graph, node) == 0


def planned_by_bytes(graph: Graph, node: Node) -> bool:
    """Whether a plan takes no account of an operator's work but of the bytes that it moves: it runs
    whole, and is no data movement."""
    if not runs_whole(graph, node):
        return False
    known = spec_of(graph, node)
    return known is None or known[0].engine is not Engine.MOVE
