"""Graph: a network as frozen data, in execution order."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tilewright.graph.types import TensorType

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Opaque:
    """An attribute that only its file format understands (a subgraph, a sparse tensor)."""

    data: bytes


Attribute = (
    int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Array | Opaque
)


class Attributes:
    """What has an operator's attributes: read as what they should be, or the default."""

    __slots__ = ()
    attributes: Mapping[str, Attribute]

    def int_of(self, name: str, default: int) -> int:
        value = self.attributes.get(name, default)
        return int(value) if isinstance(value, int | float) else default

    def float_of(self, name: str, default: float) -> float:
        value = self.attributes.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def str_of(self, name: str, default: str) -> str:
        value = self.attributes.get(name, default)
        return value if isinstance(value, str) else default

    def ints_of(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, or None where the attribute is absent."""
        value = self.attributes.get(name)
        return tuple(int(cast(int, v)) for v in value) if isinstance(value, tuple) else None


@dataclass(frozen=True, slots=True)
class Node(Attributes):
    """One operator: its kind, attributes, and the names of what it reads and writes.

    An absent optional input or output is the empty string. `captures` are values that a subgraph
    in the attributes reads from outside.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    domain: str = ""
    captures: tuple[str, ...] = ()

    @property
    def reads(self) -> Iterator[str]:
        """Names of the values it needs, captured ones included."""
        yield from (name for name in self.inputs if name)
        yield from self.captures

    @property
    def writes(self) -> Iterator[str]:
        """Names of the values it makes."""
        return (name for name in self.outputs if name)

    def renamed(self, reads: Mapping[str, str], writes: Mapping[str, str]) -> "Node":
        """The node with other names for some of what it reads and makes."""
        inputs = tuple(reads.get(name, name) for name in self.inputs)
        return replace(
            self, inputs=inputs, outputs=tuple(writes.get(name, name) for name in self.outputs)
        )


@dataclass(frozen=True, slots=True)
class Constant:
    """A weight. `data` is None where the file left the numbers out."""

    type: TensorType
    data: Array | None

    @property
    def number(self) -> float | None:
        """The one number that it holds, where that is known."""
        if self.data is None or self.data.size != 1 or self.data.dtype.kind in "OSUc":
            return None
        return float(self.data.reshape(-1)[0])


@dataclass(frozen=True)
class Graph:
    """A network: nodes in an order in which they can run, and the types of their values.

    `types` has every value whose element type and shape are known; constants are values too.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, Constant]
    opsets: Mapping[str, int]

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {len(self.nodes)} nodes)"

    @property
    def opset(self) -> int:
        """Version of the standard operator set."""
        return self.opsets.get("", 13)

    @cached_property
    def producer(self) -> Mapping[str, int]:
        """Value -> index of the node that makes it."""
        return {name: i for i, node in enumerate(self.nodes) for name in node.writes}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[int, ...]]:
        """Value -> indices of the nodes that read it, each once."""
        readers: dict[str, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for name in dict.fromkeys(node.reads):
                readers.setdefault(name, []).append(i)
        return {name: tuple(indices) for name, indices in readers.items()}

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Node name -> its index."""
        return {node.name: i for i, node in enumerate(self.nodes)}

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Values that do not depend on the input: weights, and what is made of weights."""
        found = set(self.constants)
        for node in self.nodes:
            reads = tuple(node.reads)
            if reads and all(name in found for name in reads):
                found.update(node.writes)
        return frozenset(found)

    @cached_property
    def known(self) -> dict[tuple[str, Hashable], Any]:
        """Room for facts about it that others work out once. One about a node has its identity in
        the key, and keeps the node with it."""
        return {}

    @property
    def weightless(self) -> bool:
        """Whether any weight's numbers are missing."""
        return any(constant.data is None for constant in self.constants.values())

    @property
    def weight_bytes(self) -> int:
        return sum(constant.type.bytes for constant in self.constants.values())

    @cached_property
    def _makers(self) -> tuple[frozenset[int], ...]:
        producer = self.producer
        return tuple(
            frozenset(producer[name] for name in node.reads if name in producer)
            for node in self.nodes
        )

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Indices of nodes, and of those that read their results."""
        return tuple((maker, i) for i, makers in enumerate(self._makers) for maker in makers)

    def predecessors(self, index: int) -> frozenset[int]:
        """Indices of the nodes whose results the node reads."""
        return self._makers[index]

    def successors(self, index: int) -> set[int]:
        """Indices of the nodes that read the node's results."""
        return {i for name in self.nodes[index].writes for i in self.consumers.get(name, ())}

    def reachable(self, start: Iterable[int], *, forward: bool) -> set[int]:
        """Nodes that can be reached from start (itself included) along or against the edges."""
        step: Callable[[int], Set[int]] = self.successors if forward else self.predecessors
        found, todo = set(start), list(start)
        while todo:
            for other in step(todo.pop()) - found:
                found.add(other)
                todo.append(other)
        return found


def constant_of(array: Array) -> Constant:
    return Constant(TensorType(str(array.dtype), array.shape), np.asarray(array))
