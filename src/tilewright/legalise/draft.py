"""Draft: the nodes that take the place of one, typed as they are added."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tilewright.graph.graph import Array, Attribute, Constant, Graph, Node, constant_of
from tilewright.graph.ops.spec import Op, ints
from tilewright.graph.types import TensorType
from tilewright.machine.machine import Machine


class Names:
    """Names of values and nodes that the graph does not have yet."""

    def __init__(self, graph: Graph) -> None:
        made = {name for node in graph.nodes for name in (node.name, *node.writes)}
        self.used = made | set(graph.inputs) | set(graph.constants)

    def take(self, wanted: str) -> str:
        """The wanted name, or the first numbered one that is free."""
        name, number = wanted, 1
        while name in self.used:
            number += 1
            name = f"{wanted}_{number}"
        self.used.add(name)
        return name


class Draft:
    """Collects new nodes, values and constants in place of one node.

    The last node keeps the old one's name and result. `indices` are constants that are no data,
    `views` nodes that move nothing: neither costs bytes. `machine` and `dtype` are what the network
    is made ready for.
    """

    def __init__(
        self, graph: Graph, node: Node, op: Op, names: Names, machine: Machine, dtype: str
    ) -> None:
        self.graph, self.node, self.op, self.names = graph, node, op, names
        self.machine, self.dtype = machine, dtype
        self.nodes: list[Node] = []
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Constant] = {}
        self.indices: set[str] = set()
        self.views: set[str] = set()

    def type(self, value: str) -> TensorType:
        """Type of an old or new value."""
        return self.types.get(value) or self.graph.types[value]

    def shape(self, value: str) -> tuple[int, ...]:
        """Shape of an old or new value."""
        return self.type(value).shape

    def weight(self, label: str, constant: Constant) -> str:
        """A new constant that holds data."""
        name = self.names.take(f"{self.node.name}/{label}")
        self.constants[name] = constant
        self.types[name] = constant.type
        return name

    def index(self, label: str, values: Iterable[int]) -> str:
        """A new constant list of integers: a shape, starts, pads."""
        name = self.weight(label, constant_of(ints(tuple(values))))
        self.indices.add(name)
        return name

    def add(
        self,
        kind: str,
        inputs: Sequence[str],
        shape: tuple[int, ...],
        label: str,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> str:
        """A new node; its result has the elements of its first input."""
        name = self.names.take(f"{self.node.name}/{label}")
        self.nodes.append(Node(name, kind, tuple(inputs), (name,), attributes or {}))
        self.types[name] = self.type(inputs[0]).with_shape(shape)
        return name

    def last(
        self,
        kind: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        """The node that makes the old one's result."""
        node = replace(self.node, kind=kind, inputs=tuple(inputs), attributes=attributes or {})
        self.nodes.append(node)

    def finish(self) -> None:
        """The node added last makes the old one's result."""
        node = self.nodes.pop()
        del self.types[node.outputs[0]]
        name = self.node.name
        if node.name in self.views:
            self.views.add(name)
        self.nodes.append(replace(node, name=name, outputs=self.node.outputs))

    def reshape(self, value: str, shape: tuple[int, ...], label: str) -> str:
        """The same elements in another shape."""
        name = self.add("Reshape", [value, self.index(f"{label}.shape", shape)], shape, label)
        self.views.add(name)
        return name

    def slice(
        self, value: str, ranges: Mapping[int, tuple[int, int, int]], label: str = "slice"
    ) -> str:
        """Part of a value: axis -> start, stop, step. The value itself where that is all of it."""
        shape = list(self.shape(value))
        cut = {axis: r for axis, r in sorted(ranges.items()) if r != (0, shape[axis], 1)}
        if not cut:
            return value
        for axis, (start, stop, step) in cut.items():
            shape[axis] = len(range(start, stop, step))
        inputs = [
            value,
            self.index(f"{label}.starts", (start for start, _, _ in cut.values())),
            self.index(f"{label}.ends", (stop for _, stop, _ in cut.values())),
            self.index(f"{label}.axes", cut),
            self.index(f"{label}.steps", (step for _, _, step in cut.values())),
        ]
        return self.add("Slice", inputs, tuple(shape), label)

    def pad(self, value: str, pads: Mapping[int, tuple[int, int]], fill: str = "") -> str:
        """A value with a border (zeros unless `fill` names a scalar): axis -> before, after."""
        shape = list(self.shape(value))
        if not any(sum(pair) for pair in pads.values()):
            return value
        sides = [pads.get(axis, (0, 0)) for axis in range(len(shape))]
        widths = [before for before, _ in sides] + [after for _, after in sides]
        shape = [extent + sum(pair) for extent, pair in zip(shape, sides, strict=True)]
        inputs = [value, self.index("pad.pads", widths), *([fill] if fill else [])]
        return self.add("Pad", inputs, tuple(shape), "pad")

    def sum(self, values: Sequence[str]) -> None:
        """The last node adds what is not added yet."""
        total = values[0]
        for value in values[1:-1]:
            total = self.add("Add", [total, value], self.shape(total), "add")
        self.last("Add", [total, values[-1]])


def reshaped(constant: Constant, shape: tuple[int, ...]) -> Constant:
    """A constant in another shape."""
    data = None if constant.data is None else constant.data.reshape(shape)
    return Constant(constant.type.with_shape(shape), data)


def part_of(constant: Constant, ranges: Mapping[int, tuple[int, int]]) -> Constant:
    """A region of a constant: axis -> start, stop."""
    box = tuple(
        slice(*ranges.get(axis, (0, extent))) for axis, extent in enumerate(constant.type.shape)
    )
    shape = tuple(part.stop - part.start for part in box)
    data: Array | None = None if constant.data is None else np.ascontiguousarray(constant.data[box])
    return Constant(constant.type.with_shape(shape), data)
