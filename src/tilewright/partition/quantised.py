"""Quantised networks as operators on integers: pairs of QuantizeLinear and DequantizeLinear say in
which type an operator reads and writes, and are no operators beside it."""

from collections.abc import Iterable

import numpy as np

from tilewright.accounting import Operator
from tilewright.graph.graph import Graph, Node
from tilewright.graph.ops.roles import Role, role_of

QUANTISE, DEQUANTISE = "QuantizeLinear", "DequantizeLinear"
_CARRIED = frozenset({Role.VIEW, Role.TURN, Role.COPY})  # how weights lie, not what they are


def converts(node: Node) -> bool:
    """Whether a node only changes how numbers are written: as real ones, or as integers."""
    return node.kind in (QUANTISE, DEQUANTISE) and not node.domain


def operators_on_integers(graph: Graph) -> tuple[Operator, ...]:
    """Every node an operator, together with the dequantisation of its operands and the
    quantisation of its result; what only prepares parameters is none. Every dequantisation has to
    have one reader."""
    homes = _Homes(graph)
    found: dict[int, list[int]] = {}
    for index in range(len(graph.nodes)):
        found.setdefault(homes.of(index), []).append(index)
    return tuple(
        Operator(graph.nodes[home].name, tuple(nodes))
        for home, nodes in sorted(found.items())
        if any(name not in graph.parameters for name in graph.nodes[home].writes)
    )


class _Homes:
    """Which node each node is part of the operator of."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.known: dict[int, int] = {}

    def of(self, index: int) -> int:
        """The node that the operator is named after."""
        if index not in self.known:
            behind = self._behind(index)
            self.known[index] = index if behind is None else self.of(behind)
        return self.known[index]

    def _behind(self, index: int) -> int | None:
        """The node next to this one that it belongs to, None for one that stands for itself."""
        graph, node = self.graph, self.graph.nodes[index]
        if node.domain or not node.outputs:
            return None
        maker = self._maker(index)
        if node.kind == QUANTISE:
            real = maker is not None and not converts(graph.nodes[maker])
            return maker if real and node.inputs[0] not in graph.parameters else None
        reader = self._reader(node.outputs[0])
        if node.kind != DEQUANTISE:
            return reader if self._carries(index) else None
        if reader is not None:
            return reader
        return maker if maker is not None and graph.nodes[maker].kind == QUANTISE else None

    def _maker(self, index: int) -> int | None:
        """The node that makes what a node reads first, if it does so for this one alone."""
        value = self.graph.nodes[index].inputs[0] if self.graph.nodes[index].inputs else ""
        return self.graph.producer.get(value) if self._reader(value) == index else None

    def _reader(self, value: str) -> int | None:
        """The one node that reads a value, None where it is read otherwise too."""
        readers = set(self.graph.consumers.get(value, ()))
        return readers.pop() if len(readers) == 1 and value not in self.graph.outputs else None

    def _carries(self, index: int) -> bool:
        """Whether a node gives on dequantised parameters as they are."""
        graph, node = self.graph, self.graph.nodes[index]
        if node.outputs[0] not in graph.parameters:
            return False
        if role_of(graph, node, graph.parameters) not in _CARRIED:
            return False
        maker = graph.producer.get(node.inputs[0])
        if maker is None:
            return False
        return graph.nodes[maker].kind == DEQUANTISE or self._carries(maker)


def keeps_integers(graph: Graph, nodes: Iterable[int]) -> bool:
    """Whether the conversions among nodes cancel: integers come in and go out, of one type, scale
    and zero point."""
    kinds: set[str] = set()
    steps: list[tuple[Node, str]] = []
    for node in (graph.nodes[index] for index in nodes):
        if converts(node):
            kinds.add(node.kind)
            integers = node.outputs[0] if node.kind == QUANTISE else node.inputs[0]
            steps.append((node, graph.types[integers].dtype if integers in graph.types else ""))
    if not steps:
        return True
    first, dtype = steps[0]
    return len(kinds) == 2 and all(
        other == dtype and _same(graph, first, node) for node, other in steps[1:]
    )


def _same(graph: Graph, one: Node, other: Node) -> bool:
    for first, second in zip((*one.inputs, "")[1:3], (*other.inputs, "")[1:3], strict=True):
        numbers = [c.data for n in (first, second) if (c := graph.constants.get(n)) is not None]
        known = [array for array in numbers if array is not None]
        if first != second and not (len(known) == 2 and np.array_equal(known[0], known[1])):
            return False
    return True
