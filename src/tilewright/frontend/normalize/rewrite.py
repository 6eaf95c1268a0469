"""What rewriting passes share: a new graph from new nodes, names that are free, scaled weights."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from tilewright.graph.graph import Array, Constant, Graph, Node


def rebuilt(
    graph: Graph, nodes: Iterable[Node], constants: Mapping[str, Constant] | None = None
) -> Graph:
    """The graph with other nodes and more constants; constants that nothing reads are dropped."""
    nodes = tuple(nodes)
    read = {name for node in nodes for name in node.reads} | set(graph.outputs)
    everything = {**graph.constants, **(constants or {})}
    kept = {name: constant for name, constant in everything.items() if name in read}
    made = {name for node in nodes for name in node.writes} | set(graph.inputs)
    types = {name: kind for name, kind in graph.types.items() if name in made}
    types |= {name: constant.type for name, constant in kept.items()}
    return replace(graph, nodes=nodes, types=types, constants=kept)


def hidden_values(graph: Graph) -> frozenset[str]:
    """Values whose names a subgraph knows: they cannot be renamed."""
    return frozenset(name for node in graph.nodes for name in node.captures)


class FreeNames:
    """Names that no value of the graph has yet."""

    def __init__(self, graph: Graph) -> None:
        made = {name for node in graph.nodes for name in node.writes}
        self.used = made | set(graph.inputs) | set(graph.constants)

    def take(self, wanted: str) -> str:
        """The wanted name, or the first numbered one that is free."""
        name, number = wanted, 1
        while name in self.used:
            number += 1
            name = f"{wanted}_{number}"
        self.used.add(name)
        return name


def scaled(weight: Array, factor: Array) -> Array:
    """The product in the weight's own type; a view of one number stays one, and takes no memory."""
    if weight.size and not any(weight.strides) and bool((factor == factor.flat[0]).all()):
        one = (weight.flat[0] * factor.flat[0]).astype(weight.dtype)
        return np.broadcast_to(one, weight.shape)
    precise = np.float64 if weight.dtype == np.float64 else np.float32
    return (weight * factor.astype(precise)).astype(weight.dtype)
