"""Numbers for weights that have none, and inputs to run a network on.

Weights are scaled so that activations keep their size from the first layer to the last: a wrong
tile then shows in the outputs, and nothing is lost in noise. Every tensor's numbers depend on the
seed, its name and its part in the network, never on the order of anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod, sqrt

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.weights.activations import (
    CARRIERS,
    FACTORS,
    NORMS,
    PICKERS,
    Activations,
    mean_square,
    random,
    terms,
)
from tilewright.frontend.weights.uses import branches, index_limits
from tilewright.graph.graph import Array, Constant, Graph, Node
from tilewright.graph.ops.spec import op_of
from tilewright.graph.types import BITS, TensorType

BIAS = 0.05  # deviation of a bias, where activations have 1
BRANCH = 0.1  # what a residual branch adds, where the stream it is added to has 1
STEPS = 32  # quantisation steps to one deviation
EVEN_TAPS = 1024  # filters of fewer taps are made equally strong: chance would not

# Where quantised operators take scales and zero points: of data, weights, result.
SCALES: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("QLinearConv", "QLinearMatMul"), (1, 4, 6)),
    "QuantizeLinear": (1,),
}
ZERO_POINTS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("QLinearConv", "QLinearMatMul"), (2, 5, 7)),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), (2,)),
    **dict.fromkeys(("ConvInteger", "MatMulInteger"), (2, 3)),
}


def seeded(graph: Graph, seed: int = 0) -> Graph:
    """The graph with numbers for every weight that has none; those it has are kept."""
    if not graph.weightless:
        return graph
    seeder = _Seeder(graph, seed)
    for node in graph.nodes:
        seeder.visit(node)
    seeder.complete()
    return replace(graph, constants=seeder.values.constants)


def seeded_inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Numbers to run the network on: normal floats, ids that are legal, masks of ones and zeros."""
    return {name: _input(graph, name, random(seed, f"input/{name}")) for name in graph.inputs}


@dataclass(frozen=True, slots=True)
class Law:
    """How the numbers of a weight are spread: normal, or even within mean +- spread."""

    mean: float
    spread: float
    even: bool = False

    def times(self, factor: float) -> "Law":
        """The law of the numbers times a factor."""
        return Law(self.mean * factor, self.spread * factor, self.even)


SCALE = Law(1.0, 0.2, even=True)
FIXED: Mapping[tuple[str, int], Law] = {
    ("PRelu", 1): Law(0.25, 0.1, even=True),
    ("Pow", 0): SCALE,
    ("Pow", 1): Law(2.0, 0.0),
    ("Clip", 1): Law(0.0, 0.0),
    ("Clip", 2): Law(6.0, 0.0),
    ("Pad", 2): Law(0.0, 0.0),
}


class _Seeder:
    """Walks the network; a weight gets numbers when the operator that uses it is reached."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self.graph = graph
        self.seed = seed
        self.values = Activations(graph, seed)
        self.branches = branches(graph)
        # Value -> the nodes that carry a weight without numbers to it (a Transpose, a Cast).
        self.carried: dict[str, tuple[Node, ...]] = {}

    def visit(self, node: Node) -> None:
        """Fill the weights this node uses, then see how large its results are."""
        if node.kind in CARRIERS and self._carries(node):
            path = (*self.carried.get(node.inputs[0], ()), node)
            self.carried.update(dict.fromkeys(node.writes, path))
            return
        for index, name in enumerate(node.inputs):
            if name in self.carried:
                self._arrive(self.carried[name], node, index)
            elif self._missing(name):
                self._fill(name, node, index)
        self.values.step(node)

    def complete(self) -> None:
        """Fill what no operator uses: a weight that is only copied to an output."""
        for path in list(self.carried.values()):
            self._arrive(path, path[-1], 0)
        for name in self.graph.constants:
            if self._missing(name):
                self._fill(name, Node("", "", (name,), ()), 0)

    def _missing(self, name: str) -> bool:
        constant = self.values.constants.get(name)
        return constant is not None and constant.data is None

    def _carries(self, node: Node) -> bool:
        """Whether it only passes on a weight without numbers."""
        data = node.inputs[0]
        if node.kind == "DequantizeLinear" and data in self.values.constants:
            return any(map(self._missing, node.inputs))
        return data in self.carried or self._missing(data)

    def _arrive(self, path: tuple[Node, ...], node: Node, index: int) -> None:
        """The weight at the start of the path is used here: fill it, and follow it to here."""
        data = path[0].inputs[0]
        for step in path:
            if step.kind == "DequantizeLinear":
                law = self._law(node, index, self.graph.types.get(node.inputs[index]))
                self._fill_quantised(data, step, law)
        if self._missing(data):
            self._fill(data, node, index)
        for step in path:
            self.values.step(step)
        self.carried = {name: other for name, other in self.carried.items() if other is not path}

    def _fill(self, name: str, node: Node, index: int) -> None:
        kind = self.graph.constants[name].type
        if "float" in kind.dtype:
            law = self._law(node, index, kind)
            if law is None:
                raise ModelError(_cannot(name, kind, node))
            data = self._floats(name, law)
            if node.kind == "Conv" and prod(kind.shape[1:]) < EVEN_TAPS:
                data = _even_filters(data)
            self._store(name, data)
        elif index in ZERO_POINTS.get(node.kind, ()):
            self._store(name, np.full(kind.shape, _middle(kind.dtype), kind.dtype))
        elif kind.dtype == "bool":
            self._store(name, np.ones(kind.shape, np.bool_))
        elif BITS[kind.dtype] <= 8:
            spread = self._quantised_spread(node, index)
            self._store(name, self._integers(name, _middle(kind.dtype), spread))
        elif node.kind == "QLinearConv" and index == 8:
            unit = prod(float(np.mean(self.values.of(node.inputs[i]))) for i in (1, 4))
            self._store(name, self._integers(name, 0, BIAS / max(unit, 1e-9)))
        else:
            limits, others = index_limits(self.graph, name)
            if not limits or others:
                raise ModelError(_cannot(name, kind, node))
            row = np.arange(kind.shape[-1] if kind.shape else 1) % min(limits)
            self._store(name, _rows(row, kind))

    def _store(self, name: str, data: Array) -> None:
        self.values.constants[name] = Constant(self.graph.constants[name].type, data)

    def _floats(self, name: str, law: Law) -> Array:
        """Numbers of this law, made as float32: large weights take their own memory, no more."""
        kind, generator = self.graph.constants[name].type, random(self.seed, name)
        if not law.spread:
            return np.full(kind.shape, law.mean).astype(kind.dtype)
        if law.even:
            numbers = generator.random(kind.shape, np.float32) * np.float32(2) - np.float32(1)
        else:
            numbers = generator.standard_normal(kind.shape, np.float32)
        numbers *= np.float32(law.spread)
        numbers += np.float32(law.mean)
        return numbers.astype(kind.dtype, copy=False)

    def _integers(self, name: str, middle: int, spread: float) -> Array:
        kind = self.graph.constants[name].type
        low = _middle(kind.dtype) - 2 ** (BITS[kind.dtype] - 1)
        numbers = random(self.seed, name).standard_normal(kind.shape) * spread + middle
        return np.clip(np.rint(numbers), low, low + 2 ** BITS[kind.dtype] - 1).astype(kind.dtype)

    def _quantised_spread(self, node: Node, index: int) -> float:
        """Deviation of integer weights: what their scale asks for, else a quarter of the range."""
        kind = self.graph.constants[node.inputs[index]].type
        usual = 2.0 ** BITS[kind.dtype] / 8
        factors = FACTORS.get(node.kind)
        if factors is None or index != factors[1] or node.kind not in SCALES:
            return usual
        scale, law = node.inputs[SCALES[node.kind][1]], self._law(node, index, kind)
        if self._missing(scale) or law is None:
            return usual
        wanted = law.spread / max(float(np.mean(self.values.of(scale))), 1e-30)
        return float(np.clip(wanted, 1.0, usual))

    def _fill_quantised(self, data: str, node: Node, law: Law | None) -> None:
        """Integers, scale and zero point whose product has the spread that its user needs."""
        spread = law.spread if law is not None and law.spread else 1.0
        kind, scale = self.graph.types[data], node.inputs[1]
        zero = node.inputs[2] if len(node.inputs) > 2 else ""
        if self._missing(zero):
            self._fill(zero, node, 2)
        middle = float(np.mean(self.values.of(zero))) if zero else 0.0
        if self._missing(data):
            wanted = min(2.0 ** BITS[kind.dtype] / 8, 1000.0)
            if not self._missing(scale):
                wanted = max(spread / max(float(np.mean(self.values.of(scale))), 1e-30), 1.0)
            self._store(data, self._integers(data, round(middle), wanted))
        if self._missing(scale):
            numbers = self.values.of(data).astype(np.float64) - middle
            self._store(scale, self._floats(scale, Law(spread / sqrt(mean_square(numbers)), 0.0)))

    def _law(self, node: Node, index: int, kind: TensorType | None) -> Law | None:
        """What the operator needs of this input; None where it cannot be made up."""
        if node.kind in FACTORS:
            law, grows = self._factor_law(node, index), index in (FACTORS[node.kind][1], 2)
        elif node.kind in NORMS:
            law, grows = self._norm_law(node, index), index in (1, 2)
        else:
            return self._other_law(node, index, kind)
        stream = self.branches.get(node.name)
        if law is None or stream is None or not grows:
            return law
        return law.times(BRANCH * self._size(stream))

    def _size(self, name: str) -> float:
        return sqrt(mean_square(self.values.of(name)))

    def _factor_law(self, node: Node, index: int) -> Law | None:
        """Weights of sums of products: the result shall have deviation 1."""
        factors, scales = FACTORS[node.kind], SCALES.get(node.kind, ())
        op = op_of(self.graph, node)
        if index in scales:
            weights = self._factor_law(node, factors[1]) if index == scales[1] else None
            size = self._size(node.inputs[0]) if index == scales[0] else 1.0
            return Law((weights.spread if weights else size) / STEPS, 0.0)
        if op is None or index not in factors:
            return Law(0.0, BIAS)
        other = self._size(node.inputs[factors[0] if index == factors[1] else factors[1]])
        scale = abs(op.float_of("alpha", 1.0)) or 1.0
        return Law(0.0, 1 / (scale * sqrt(terms(op)) * other))

    def _norm_law(self, node: Node, index: int) -> Law | None:
        """Scale, bias, and the running mean and variance of a batch norm."""
        sample = self.values.of(node.inputs[0])
        variance = max(float(np.var(sample)), 1e-12)
        bias = Law(0.0, BIAS)
        running = (bias.times(self._size(node.inputs[0])), SCALE.times(variance))
        return (None, SCALE, bias, *running)[index]

    def _other_law(self, node: Node, index: int, kind: TensorType | None) -> Law | None:
        """A weight beside an activation: a bias, a scale, a table, a class token."""
        if kind is None or node.kind in ("Resize", "Range"):
            return None
        fixed = FIXED.get((node.kind, index))
        if fixed is not None:
            return fixed
        others = [name for i, name in enumerate(node.inputs) if i != index and name]
        size = min(self._size(others[0]), 100.0) if others else 1.0
        wide = sum(extent > 1 for extent in kind.shape) > 1
        match node.kind:
            case "QuantizeLinear":
                return Law(size / STEPS, 0.0)
            case "Add" | "Sub" if kind.size == 1:
                return Law(1e-3, 0.0)  # what keeps a root or a quotient away from zero
            case "Add" | "Sub":
                return Law(0.0, (0.5 if wide else BIAS) * size)
            case "Mul" | "Div" if kind.size == 1:
                return Law(1 / size if node.kind == "Mul" else size, 0.0)
            case "Mul" | "Div":
                return SCALE
            case "Concat":
                return Law(0.0, size)
            case "LSTM" | "GRU" | "RNN":
                return Law(0.0, kind.shape[-1] ** -0.5 if index < 3 else BIAS)
            case _ if node.kind in PICKERS or len(kind.shape) < 2:
                return Law(0.0, 1.0)
            case _:  # an operator that is not known: as if for a product
                return Law(0.0, max(1, prod(kind.shape[1 if len(kind.shape) > 2 else 0 :])) ** -0.5)


def _even_filters(data: Array) -> Array:
    """The same numbers, each filter scaled to the strength of all together."""
    squares: Array = np.square(data, dtype=np.float32)
    strengths: Array = np.mean(squares, axis=tuple(range(1, data.ndim)))
    factors = np.sqrt(np.mean(strengths) / np.maximum(strengths, 1e-30))
    return (data * factors.reshape(-1, *[1] * (data.ndim - 1))).astype(data.dtype)


def _middle(dtype: str) -> int:
    """The zero point of quantised integers."""
    return 2 ** (BITS[dtype] - 1) if dtype.startswith("uint") else 0


def _rows(row: Array, kind: TensorType) -> Array:
    """A tensor whose rows are all this one."""
    return np.broadcast_to(row, kind.shape or (1,)).reshape(kind.shape).astype(kind.dtype)


def _cannot(name: str, kind: TensorType, node: Node) -> str:
    return (
        f"the numbers of '{name}' ({kind}) are not in the file and cannot be made up: node "
        f"'{node.name}' ({node.kind}) needs the real ones; put the external data beside the file"
    )


def _input(graph: Graph, name: str, generator: np.random.Generator) -> Array:
    kind = graph.types[name]
    if "float" in kind.dtype:
        return generator.standard_normal(kind.shape, np.float32).astype(kind.dtype)
    if kind.dtype == "string":
        return np.full(kind.shape, "", dtype=object)
    limits, _ = index_limits(graph, name)
    if limits:
        return generator.integers(0, min(limits), kind.shape).astype(kind.dtype)
    if kind.dtype in ("int8", "uint8"):
        low = _middle(kind.dtype) - 128
        return generator.integers(low, low + 256, kind.shape).astype(kind.dtype)
    # A mask: ones, then zeros where a shorter text would end.
    length = kind.shape[-1] if kind.shape else 1
    return _rows(np.arange(length) < max(1, length - length // 4), kind)
