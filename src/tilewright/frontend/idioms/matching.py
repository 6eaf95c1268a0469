"""What idiom rules are written in: questions about a graph, and whether a region is closed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.polynomial.polynomial import polyadd, polymul, polypow, polysub

from tilewright.graph.graph import Graph, Node
from tilewright.graph.rules import optional, require
from tilewright.graph.types import FLOATS

Parameter = int | float | str
Polynomial = tuple[float, ...]  # coefficients of x^0, x^1, ...

# How far a constant may be from the number it stands for: exporters round 1/sqrt(2) to its type.
TOLERANCE = {"float16": 2e-3, "bfloat16": 1e-2}
USUAL_TOLERANCE = 2e-5
LARGEST_DEGREE = 3


@dataclass(frozen=True, slots=True)
class Idiom:
    """Several nodes that together are one well-known operation.

    `nodes` are names in execution order; nothing outside reads what they make, except `outputs`.
    `inputs` come in the operation's own order, an absent one is the empty string:
    group_norm and layer_norm (x, scale, bias); rms_norm (x, scale); attention (queries
    [..., rows, depth], keys [..., depth, columns], values, then masks as they are read); all
    others (x,).
    """

    kind: str
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: Mapping[str, Parameter]


class Matcher:
    """A graph as rules see it: who makes a value, who alone reads it, what number it is."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        captured = {name for node in graph.nodes for name in node.captures}
        self.exposed = captured | set(graph.outputs)
        # With the types of all it reads known, a standard node is as its definition says.
        self.sound = tuple(
            not node.domain and all(name in graph.types for name in node.reads)
            for node in graph.nodes
        )

    def maker(self, value: str, *kinds: str) -> int | None:
        """Index of the node that makes the value, if it is of one of the kinds."""
        index = self.graph.producer.get(value)
        return index if index is not None and self.is_kind(index, *kinds) else None

    def reader(self, value: str, *kinds: str) -> int | None:
        """Index of the one node that reads the value, if it is of one of the kinds."""
        readers = self.graph.consumers.get(value, ())
        if len(readers) != 1 or value in self.exposed:
            return None
        return readers[0] if self.is_kind(readers[0], *kinds) else None

    def is_kind(self, index: int, *kinds: str) -> bool:
        """Whether the node is a standard one of one of the kinds."""
        return self.sound[index] and self.graph.nodes[index].kind in kinds

    def node(self, index: int) -> Node:
        return self.graph.nodes[index]

    def result(self, index: int) -> str:
        """The first result of a node."""
        return self.graph.nodes[index].outputs[0]

    def other(self, index: int, value: str) -> str | None:
        """The other operand of a node that takes two, None if both are the value."""
        inputs = self.graph.nodes[index].inputs
        if len(inputs) != 2 or value not in inputs:
            return None
        return next((name for name in inputs if name != value), None)

    def shape(self, value: str) -> tuple[int, ...] | None:
        kind = self.graph.types.get(value)
        return None if kind is None else kind.shape

    def number(self, value: str) -> float | None:
        """The number that a constant of one element holds."""
        constant = self.graph.constants.get(value)
        return None if constant is None else constant.number

    def tolerance(self, value: str) -> float:
        """How exact the constants around the value are."""
        kind = self.graph.types.get(value)
        return TOLERANCE.get(kind.dtype, USUAL_TOLERANCE) if kind else USUAL_TOLERANCE

    def near(self, value: str, wanted: float) -> bool:
        """Whether the value is a constant that stands for the wanted number."""
        found = self.number(value)
        return found is not None and close(found, wanted, self.tolerance(value))

    def source(self, value: str, nodes: set[int]) -> str:
        """The value before casts between floats; the casts join the nodes."""
        while (index := self.maker(value, "Cast")) is not None:
            before = self.node(index).inputs[0]
            kinds = (self.graph.types.get(before), self.graph.types.get(value))
            if any(kind is None or kind.dtype not in FLOATS for kind in kinds):
                break
            nodes.add(index)
            value = before
        return value

    def square(self, value: str, nodes: set[int]) -> str | None:
        """The value whose square this is."""
        index = self.maker(value, "Pow", "Mul")
        if index is None:
            return None
        base, other = self.node(index).inputs
        if not (self.near(other, 2.0) if self.is_kind(index, "Pow") else base == other):
            return None
        nodes.add(index)
        return base

    def polynomial(self, value: str, x: str, nodes: set[int], depth: int = 8) -> Polynomial | None:
        """The value as a polynomial of x, None if it is not one; its nodes join the nodes."""
        if value == x:
            return (0.0, 1.0)
        number = self.number(value)
        if number is not None:
            return (number,)
        index = self.maker(value, "Add", "Sub", "Mul", "Div", "Pow", "Neg") if depth else None
        if index is None:
            return None
        node = self.node(index)
        terms = [self.polynomial(name, x, nodes, depth - 1) for name in node.inputs]
        left, right = terms[0], terms[-1]
        if left is None or right is None:
            return None
        found = _combined(node.kind, left, right)
        if found is not None:
            nodes.add(index)
        return found

    def idiom(
        self,
        kind: str,
        nodes: Collection[int],
        inputs: tuple[str, ...],
        output: str,
        parameters: Mapping[str, Parameter],
    ) -> Idiom:
        """The idiom, unless something outside reads an inner value."""
        inner = {name for index in nodes for name in self.node(index).writes} - {output}
        readers = {reader for name in inner for reader in self.graph.consumers.get(name, ())}
        require(not inner & self.exposed and readers <= set(nodes))
        names = tuple(self.node(index).name for index in sorted(nodes))
        return Idiom(kind, names, inputs, (output,), parameters)


def close(found: float, wanted: float, tolerance: float) -> bool:
    """Whether a constant stands for the wanted number."""
    return abs(found - wanted) <= tolerance * max(abs(wanted), 1e-3)


def same_polynomial(found: Polynomial, wanted: Polynomial, tolerance: float) -> bool:
    """Whether two polynomials agree in every coefficient."""
    pairs = zip_longest(found, wanted, fillvalue=0.0)
    return all(close(a, b, tolerance) for a, b in pairs)


@optional
def _combined(kind: str, left: Polynomial, right: Polynomial) -> Polynomial:
    """One arithmetic node on polynomials."""
    number = right[0] if len(right) == 1 else 0.0
    match kind:
        case "Neg":
            made = polymul(left, (-1.0,))
        case "Add":
            made = polyadd(left, right)
        case "Sub":
            made = polysub(left, right)
        case "Mul":
            made = polymul(left, right)
        case "Div":
            require(number != 0.0)
            made = np.asarray(left) / number
        case _:
            require(number in (1.0, 2.0, 3.0))
            made = polypow(left, int(number))
    require(len(made) <= LARGEST_DEGREE + 1)
    return tuple(map(float, made))
