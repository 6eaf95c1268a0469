"""What groups of operators look like, whatever they are called: alike groups share one block.

The values of a group are numbered in the order in which its nodes name them. Two groups of equal
signature have, number by number, nodes and values that are cut, laid out and computed alike.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from tilewright.graph.graph import Array, Graph, Node
from tilewright.graph.ops.spec import is_given
from tilewright.program.constants import immediate, pairs_of
from tilewright.program.layout import image_values
from tilewright.tiling.group import exports

_READ_NUMBERS = 64  # elements; a constant up to so large may say how its operator is cut


@dataclass(frozen=True, slots=True)
class Signature:
    """A group's `names` are its values by number; groups with equal `key` look the same."""

    key: Hashable
    names: tuple[str, ...]
    exported: tuple[tuple[int, bool], ...]


class Signatures:
    """Signatures of a network's groups, worked out once."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.pairs, self.images = graph, pairs_of(graph), image_values(graph)
        self.outputs = frozenset(graph.outputs)
        self._numbers: dict[Hashable, int] = {}
        self._values: dict[str, int] = {}
        self._nodes: dict[int, int] = {}
        self._groups: dict[tuple[int, ...], Signature] = {}

    def group(self, members: Sequence[int]) -> Signature:
        """The signature of nodes, in their order."""
        found = tuple(members)
        known = self._groups.get(found)
        if known is None:
            known = self._groups[found] = self._new(found)
        return known

    def _new(self, members: tuple[int, ...]) -> Signature:
        number: dict[str, int] = {}
        rows: list[tuple[int, ...]] = []
        for index in members:
            node = self.graph.nodes[index]
            wiring = (
                number.setdefault(name, len(number)) if name else -1
                for name in (*node.inputs, *node.captures, *node.outputs)
            )
            rows.append((self.node(index), *wiring))
        given = exports(self.graph, members)
        exported = tuple((number[name], inside) for name, inside in given.items())
        return Signature((tuple(rows), exported), tuple(number), exported)

    def node(self, index: int) -> int:
        """The number of nodes that compute alike on values that look alike."""
        known = self._nodes.get(index)
        if known is None:
            node = self.graph.nodes[index]
            key = (
                node.kind,
                node.domain,
                tuple(sorted((name, _frozen(value)) for name, value in node.attributes.items())),
                tuple(self.value(name) if name else -1 for name in node.inputs),
                tuple(self.value(name) if name else -1 for name in node.outputs),
                self._packed(node),
            )
            known = self._nodes[index] = self._numbers.setdefault(key, len(self._numbers))
        return known

    def value(self, name: str) -> int:
        """The number of values that lie alike and can be read alike."""
        known = self._values.get(name)
        if known is None:
            constant = self.graph.constants.get(name)
            numbers: Hashable = None
            if constant is not None and constant.data is not None:
                data = constant.data
                if data.size <= _READ_NUMBERS and data.dtype.kind in "iub":
                    numbers = data.tobytes()
            key = (
                self.graph.types[name],
                constant is not None,
                numbers,
                immediate(self.graph, name) is None,
                is_given(self.graph, name),
                name in self.outputs,
                name in self.images,
            )
            known = self._values[name] = self._numbers.setdefault(key, len(self._numbers))
        return known

    def _packed(self, node: Node) -> tuple[tuple[int, int], ...]:
        """Which inputs lie together with another, and with which."""
        inputs = list(node.inputs)
        return tuple(
            (position, inputs.index(pair.bias if name == pair.weights else pair.weights))
            for position, name in enumerate(inputs)
            if (pair := self.pairs.get(name)) is not None
        )


def signatures_of(graph: Graph) -> Signatures:
    """Those of a network, which are kept with it: they are the same on every machine."""
    key = ("signatures", None)
    if key not in graph.known:
        graph.known[key] = Signatures(graph)
    return graph.known[key]


def _frozen(value: object) -> Hashable:
    if isinstance(value, np.ndarray):
        array = cast(Array, value)
        return (array.dtype.str, array.shape, array.tobytes())
    return str(value)
