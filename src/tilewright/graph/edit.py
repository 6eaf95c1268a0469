"""Editing graphs: free names, new nodes with their types, and the graph that holds them.

Graphs are frozen; whoever changes one collects nodes, values and constants and builds another. A
pass that only replaces nodes needs `Names` and `rebuilt`; one that writes many uses a `Writer`.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tilewright.graph.graph import Array, Attribute, Constant, Graph, Node, constant_of
from tilewright.graph.ops.spec import ints
from tilewright.graph.types import TensorType

Range = tuple[int, int, int]  # start, stop, step


class Names:
    """Names of values and nodes that a graph does not have yet."""

    def __init__(self, graph: Graph | None = None) -> None:
        self.used: set[str] = set()
        if graph is not None:
            made = (name for node in graph.nodes for name in (node.name, *node.writes))
            self.used.update(made, graph.inputs, graph.constants, graph.types)

    def take(self, wanted: str) -> str:
        """The wanted name, or the first numbered one that is free."""
        name = free_name(wanted, self.used)
        self.used.add(name)
        return name


def free_name(wanted: str, used: Container[str]) -> str:
    """The wanted name, or the first numbered one that is not used."""
    name, number = wanted, 1
    while name in used:
        number += 1
        name = f"{wanted}_{number}"
    return name


def rebuilt(
    graph: Graph,
    nodes: Iterable[Node],
    constants: Mapping[str, Constant] | None = None,
    types: Mapping[str, TensorType] | None = None,
) -> Graph:
    """The graph with other nodes, more constants and more types; constants that nothing reads, and
    types of what is not there any more, are dropped."""
    nodes = tuple(nodes)
    read = {name for node in nodes for name in node.reads} | set(graph.outputs)
    everything = {**graph.constants, **(constants or {})}
    kept = {name: constant for name, constant in everything.items() if name in read}
    made = {name for node in nodes for name in node.writes} | set(graph.inputs)
    known = {**graph.types, **(types or {})}
    all_types = {name: kind for name, kind in known.items() if name in made}
    all_types |= {name: constant.type for name, constant in kept.items()}
    return replace(graph, nodes=nodes, types=all_types, constants=kept)


def needed(nodes: Sequence[Node], outputs: Iterable[str]) -> list[Node]:
    """The nodes whose results lead to an output; nobody reads what the others make."""
    read, alive = set(outputs), list[Node]()
    for node in reversed(nodes):
        if any(name in read for name in node.writes):
            alive.append(node)
            read.update(node.reads)
    alive.reverse()
    return alive


def without_dead(graph: Graph) -> Graph:
    """The network without operators whose results nobody reads."""
    alive = needed(graph.nodes, graph.outputs)
    return graph if len(alive) == len(graph.nodes) else replace(graph, nodes=tuple(alive))


def hidden_values(graph: Graph) -> frozenset[str]:
    """Values whose names a subgraph knows: they cannot be renamed."""
    return frozenset(name for node in graph.nodes for name in node.captures)


class Writer:
    """Collects new nodes, values and constants of a graph."""

    def __init__(self, graph: Graph, names: Names | None = None) -> None:
        self.graph = graph
        self.names = names or Names(graph)
        self.nodes: list[Node] = []
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Constant] = {}

    def type(self, value: str) -> TensorType:
        return self.types.get(value) or self.graph.types[value]

    def shape(self, value: str) -> tuple[int, ...]:
        return self.type(value).shape

    def constant(self, label: str, constant: Constant) -> str:
        """A new constant, called so or like that."""
        name = self.names.take(label)
        self.constants[name] = constant
        self.types[name] = constant.type
        return name

    def integers(self, label: str, values: Iterable[int]) -> str:
        """A new constant list of integers: a shape, starts, pads."""
        return self.constant(label, constant_of(ints(tuple(values))))

    def node(
        self,
        name: str,
        kind: str,
        inputs: Iterable[str],
        outputs: Mapping[str, TensorType | None],
        attributes: Mapping[str, Attribute] | None = None,
        domain: str = "",
    ) -> None:
        """A new node; its results' types are made known."""
        node = Node(name, kind, tuple(inputs), tuple(outputs), attributes or {}, domain)
        self.nodes.append(node)
        for value, result in outputs.items():
            if value and result is not None:
                self.types[value] = result

    def sliced(self, value: str, ranges: Mapping[int, Range], name: str, node: str) -> str:
        """A value of this name that holds part of another: axis -> start, stop, step."""
        shape = list(self.shape(value))
        for axis, (start, stop, step) in ranges.items():
            shape[axis] = len(range(start, stop, step))
        starts, stops, steps = zip(*ranges.values(), strict=True)
        inputs = [
            value,
            self.integers(f"{name}.starts", starts),
            self.integers(f"{name}.ends", stops),
            self.integers(f"{name}.axes", ranges),
        ]
        if any(step != 1 for step in steps):
            inputs.append(self.integers(f"{name}.steps", steps))
        self.node(node, "Slice", inputs, {name: self.type(value).with_shape(tuple(shape))})
        return name

    def joined(self, parts: Sequence[str], axis: int, name: str, node: str) -> str:
        """A value of this name that holds others side by side."""
        first = self.type(parts[0])
        extent = sum(self.shape(part)[axis] for part in parts)
        shape = (*first.shape[:axis], extent, *first.shape[axis + 1 :])
        self.node(node, "Concat", parts, {name: first.with_shape(shape)}, {"axis": axis})
        return name

    def finish(self) -> Graph:
        """The graph of the new nodes, without what nothing reads any more."""
        return rebuilt(self.graph, self.nodes, self.constants, self.types)


def reshaped(constant: Constant, shape: tuple[int, ...]) -> Constant:
    data = None if constant.data is None else constant.data.reshape(shape)
    return Constant(constant.type.with_shape(shape), data)


def part_of(constant: Constant, ranges: Mapping[int, tuple[int, int]]) -> Constant:
    """A region of a constant: axis -> start, stop."""
    box = tuple(
        slice(*ranges.get(axis, (0, extent))) for axis, extent in enumerate(constant.type.shape)
    )
    shape = tuple(part.stop - part.start for part in box)
    data: Array | None = None if constant.data is None else constant.data[box]
    return Constant(constant.type.with_shape(shape), data)


def scaled(weight: Array, factor: Array) -> Array:
    """The product in the weight's own type; a view of one number stays one, and takes no memory."""
    if weight.size and not any(weight.strides) and bool((factor == factor.flat[0]).all()):
        one = (weight.flat[0] * factor.flat[0]).astype(weight.dtype)
        return np.broadcast_to(one, weight.shape)
    precise = np.float64 if weight.dtype == np.float64 else np.float32
    return (weight * factor.astype(precise)).astype(weight.dtype)
