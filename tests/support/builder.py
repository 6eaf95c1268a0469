"""Small graphs built by hand: every node typed by the real inference, weights seeded."""

import numpy as np

from tilewright.frontend.builder import TypedNodes
from tilewright.graph.graph import Array, Attribute, Graph, Node, constant_of
from tilewright.graph.types import TensorType


class GraphBuilder(TypedNodes):
    """Adds one node after the other; `graph` ends it."""

    def __init__(self, opset: int = 18, seed: int = 0) -> None:
        super().__init__(opset)
        self.random = np.random.default_rng(seed)
        self.count = 0

    def input(self, *shape: int, dtype: str = "float32", name: str | None = None) -> str:
        """A new input of the network."""
        return self.declare(name or f"x{len(self.inputs)}", TensorType(dtype, shape))

    def constant(self, values: object, dtype: str | None = None) -> str:
        """A constant with these numbers."""
        self.count += 1
        name = f"c{self.count}"
        self.inference.constant(name, constant_of(np.asarray(values, dtype=dtype)))
        return name

    def weight(self, *shape: int, dtype: str = "float32") -> str:
        """A constant of small whole numbers: float sums of them do not depend on their order."""
        low = 0 if dtype == "uint8" else -2
        return self.constant(self.random.integers(low, 3, shape), dtype)

    def add(
        self,
        kind: str,
        *inputs: str,
        outputs: int = 1,
        name: str | None = None,
        domain: str = "",
        **attributes: object,
    ) -> str:
        """A node; gives the name of its first result (the others are `NAME.1`, ...)."""
        self.count += 1
        first = name or f"v{self.count}"
        results = (first, *(f"{first}.{k}" for k in range(1, outputs)))
        given: dict[str, Attribute] = {
            key: tuple(value) if isinstance(value, list) else value  # type: ignore[misc]
            for key, value in attributes.items()
            if value is not None
        }
        self.append(Node(f"{kind}_{first}", kind, inputs, results, given, domain))
        return first

    def unread(self) -> list[str]:
        """Results that no node reads."""
        read = {name for node in self.nodes for name in node.reads}
        return [name for node in self.nodes for name in node.writes if name not in read]

    def graph(self, *outputs: str) -> Graph:
        """The network with these outputs; by default, all results that no node reads."""
        return self.built("test", outputs or tuple(self.unread()))

    def feeds(self, graph: Graph) -> dict[str, Array]:
        """Numbers for the inputs."""
        return feeds_of(graph)


def feeds_of(graph: Graph, seed: int = 1) -> dict[str, Array]:
    """Small whole numbers for every input of the network."""
    random = np.random.default_rng(seed)
    result: dict[str, Array] = {}
    for name in graph.inputs:
        kind = graph.types[name]
        low = 0 if kind.dtype.startswith("u") or kind.dtype == "bool" else -4
        high = 2 if kind.dtype == "bool" else 6
        result[name] = np.asarray(random.integers(low, high, kind.shape)).astype(kind.dtype)
    return result
