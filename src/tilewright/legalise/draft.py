"""Draft: the nodes that take the place of one, typed as they are added."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tilewright.geometry.interval import Interval
from tilewright.graph.edit import Names, Range, Writer, part_of
from tilewright.graph.graph import Attribute, Constant, Graph, Node
from tilewright.graph.ops.spec import Op, OpSpec
from tilewright.graph.rules import require
from tilewright.machine.machine import Machine


class Draft(Writer):
    """What takes the place of one node, `old`, the operator `op`.

    The last node keeps the old one's name and result. `indices` are constants that are no data,
    `views` nodes that move nothing: neither costs bytes. `machine` and `dtype` are what the network
    is made ready for; `wish` is whether a rewrite that can be done without is asked for (None: as
    the costs say), `choice` what was decided, if anything had to be; `asked` is the form that it
    is to have, `form` the one that was taken, where there are several.
    """

    def __init__(
        self,
        graph: Graph,
        node: Node,
        known: tuple[OpSpec, Op],
        names: Names,
        machine: Machine,
        dtype: str,
        wish: tuple[bool | None, str] = (None, ""),
    ) -> None:
        super().__init__(graph, names)
        self.wish, self.asked = wish
        self.form = ""
        self.choice: bool | None = None
        self.old, (self.spec, self.op) = node, known
        self.machine, self.dtype = machine, dtype
        self.indices: set[str] = set()
        self.views: set[str] = set()

    def decide(self, cheaper: bool) -> bool:
        """Whether a rewrite is made that can be done without: as asked for, or if it is cheaper."""
        self.choice = cheaper if self.wish is None else self.wish
        return self.choice

    def weight(self, label: str, constant: Constant) -> str:
        """A new constant that holds data."""
        return self.constant(f"{self.old.name}/{label}", constant)

    def integers(self, label: str, values: Iterable[int]) -> str:
        """A new constant list of integers, which is no data."""
        name = super().integers(label, values)
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
        name = self.names.take(f"{self.old.name}/{label}")
        self.node(name, kind, inputs, {name: self.type(inputs[0]).with_shape(shape)}, attributes)
        return name

    def last(
        self, kind: str, inputs: Sequence[str], attributes: Mapping[str, Attribute] | None = None
    ) -> None:
        """The node that makes the old one's result."""
        node = replace(self.old, kind=kind, inputs=tuple(inputs), attributes=attributes or {})
        self.nodes.append(node)

    def end(self) -> None:
        """The node added last makes the old one's result."""
        node = self.nodes.pop()
        del self.types[node.outputs[0]]
        name = self.old.name
        if node.name in self.views:
            self.views.add(name)
        self.nodes.append(replace(node, name=name, outputs=self.old.outputs))

    def reshape(self, value: str, shape: tuple[int, ...], label: str) -> str:
        extents = self.integers(f"{self.old.name}/{label}.shape", shape)
        name = self.add("Reshape", [value, extents], shape, label)
        self.views.add(name)
        return name

    def transpose(self, value: str, order: Sequence[int], label: str) -> str:
        shape = tuple(self.shape(value)[axis] for axis in order)
        return self.add("Transpose", [value], shape, label, {"perm": tuple(order)})

    def slice(self, value: str, ranges: Mapping[int, Range], label: str = "slice") -> str:
        """Part of a value: axis -> start, stop, step. The value itself where that is all of it."""
        shape = self.shape(value)
        cut = {axis: r for axis, r in sorted(ranges.items()) if r != (0, shape[axis], 1)}
        if not cut:
            return value
        name = self.names.take(f"{self.old.name}/{label}")
        return self.sliced(value, cut, name, name)

    def pad(self, value: str, pads: Mapping[int, tuple[int, int]], fill: str = "") -> str:
        """A value with a border (zeros unless `fill` names a scalar): axis -> before, after."""
        shape = list(self.shape(value))
        if not any(sum(pair) for pair in pads.values()):
            return value
        sides = [pads.get(axis, (0, 0)) for axis in range(len(shape))]
        widths = [before for before, _ in sides] + [after for _, after in sides]
        shape = [extent + sum(pair) for extent, pair in zip(shape, sides, strict=True)]
        inputs = [value, self.integers(f"{self.old.name}/pad.pads", widths)]
        return self.add("Pad", inputs + [fill] * bool(fill), tuple(shape), "pad")

    def framed(self, value: str, frames: Mapping[int, tuple[int, int]], fill: str = "") -> str:
        """A value with a border, cropped at its end where it is too long: axis -> positions before
        it, and in all."""
        ranges: dict[int, Range] = {}
        pads: dict[int, tuple[int, int]] = {}
        for axis, (before, length) in frames.items():
            stop = min(self.shape(value)[axis], length - before)
            require(stop > 0)  # or there is nothing but border
            ranges[axis], pads[axis] = (0, stop, 1), (before, length - before - stop)
        return self.pad(self.slice(value, ranges, "crop"), pads, fill)

    def data_zero(self) -> str | None:
        """The value that a convolution means by zero in its data, "" for zero itself; None where it
        is not one for all of them."""
        where = self.spec.filter
        position = where.data_zero if where is not None else None
        if position is None or not self.op.has(position):
            return ""
        value = self.old.inputs[position]
        return value if self.shape(value) == () else None

    def part(self, value: str, axis: int, cut: Interval) -> str:
        """Part of a value, or of a constant, along an axis."""
        constant = self.graph.constants.get(value)
        if constant is not None:
            return self.weight("weight", part_of(constant, {axis: (cut.start, cut.stop)}))
        return self.slice(value, {axis: (cut.start, cut.stop, 1)})

    def sum_over(self, cuts: Sequence[Interval], left: int, right: int) -> None:
        """The operator on parts of its operands, along an axis of either, added up: the first part
        adds the bias."""
        results: list[str] = []
        for number, cut in enumerate(cuts):
            pair = (
                self.part(self.old.inputs[0], left, cut),
                self.part(self.old.inputs[1], right, cut),
            )
            inputs = [*pair, *(self.old.inputs[2:] if number == 0 else ())]
            shape, attributes = self.op.result().shape, self.op.attributes
            results.append(self.add(self.op.kind, inputs, shape, "part", attributes))
        self.sum(results)

    def sum(self, values: Sequence[str]) -> None:
        """The last node adds what is not added yet."""
        total = values[0]
        for value in values[1:-1]:
            total = self.add("Add", [total, value], self.shape(total), "add")
        self.last("Add", [total, values[-1]])
