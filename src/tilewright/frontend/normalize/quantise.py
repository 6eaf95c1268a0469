"""Fold quantisation into operators: what dequantises its inputs, computes and quantises its result
becomes one operator on integers.

The numbers are those of the float operators, up to the rounding of a result that lies between two
steps. A Relu or Clip before the quantisation becomes bounds of the integers, exactly.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tilewright.frontend.idioms.matching import Matcher
from tilewright.graph.edit import Writer
from tilewright.graph.graph import Array, Attribute, Graph, Node, constant_of
from tilewright.graph.ops.quantised import BINARY, PLANNED, PLANNED_UNARY, PREFIX, RUNTIME, UNARY
from tilewright.graph.types import QUANTISED

BOUNDS = ("Relu", "Clip")
# Operators that give on elements as they are: on integers they are the same, where the scale and
# zero point of input and result are.
CARRIERS = frozenset(
    {
        *("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Gather", "Identity"),
        *("DepthToSpace", "SpaceToDepth", "Expand", "Tile", "MaxPool", "Resize", "Concat"),
    }
)


class QuantStep(NamedTuple):
    """How integers stand for numbers: constants with the scale and the zero point."""

    scale: str
    zero: str
    dtype: str


@dataclass(frozen=True, slots=True)
class _Source:
    """An operand behind its dequantisation: the integers, and along which axis they have steps of
    their own (None: one for all)."""

    value: str
    step: QuantStep
    axis: int | None


@dataclass(frozen=True, slots=True)
class _Target:
    """The quantisation of a result: what it makes, and the bounds before it, if any."""

    nodes: tuple[int, ...]
    value: str
    step: QuantStep
    bounds: int | None


def fold_quantisation(graph: Graph) -> Graph:
    """Operators between dequantised inputs and a quantised result become operators on integers."""
    if not any(node.kind == "DequantizeLinear" for node in graph.nodes):
        return graph
    return _Fold(graph).run()


class _Fold(Writer):
    """One walk over a graph."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.matcher = Matcher(graph)
        self.gone: set[int] = set()

    def run(self) -> Graph:
        """The graph with what could be folded, without dequantisations that nothing reads then."""
        for index, node in enumerate(self.graph.nodes):
            if index in self.gone:
                continue
            made = self._folded(index, node) if self.matcher.sound[index] else None
            self.nodes += [node] if made is None else made
        if len(self.nodes) == len(self.graph.nodes):
            return self.graph
        read = set(self.graph.outputs) | {name for node in self.nodes for name in node.reads}
        self.nodes = [n for n in self.nodes if n.kind != "DequantizeLinear" or n.outputs[0] in read]
        return self.finish()

    def _folded(self, index: int, node: Node) -> list[Node] | None:
        rule = _RULES.get(node.kind)
        if rule is None or node.domain or any(node.outputs[1:]):
            return None
        target = self._target(node.outputs[0])
        if target is None:
            return None
        made = rule(self, node, target)
        if made is None:
            return None
        bounds = self._bounds(made, target)
        if bounds is None:
            return None
        self.gone.update(target.nodes)
        return bounds

    # What stands before and behind an operator.

    def source(self, value: str) -> _Source | None:
        """The integers that a value stands for, None if it is not dequantised."""
        index = self.matcher.maker(value, "DequantizeLinear")
        if index is None:
            return None
        node = self.matcher.node(index)
        step = self._step(node)
        kind = self.graph.types[node.inputs[0]]
        if step is None or node.attributes.get("block_size", 0):
            return None
        scale = self.graph.constants[node.inputs[1]].type
        along = node.int_of("axis", 1) % max(1, len(kind.shape))
        return _Source(node.inputs[0], step, None if scale.size == 1 else along)

    def single(self, value: str) -> _Source | None:
        """The same where one scale serves all of a quantised tensor."""
        found = self.source(value)
        return found if found and found.axis is None and found.step.dtype in QUANTISED else None

    def _step(self, node: Node) -> QuantStep | None:
        """Scale and zero point of a (de)quantisation, where they are constant and known."""
        name, zero = (*node.inputs, "")[1:3]
        scale = self.graph.constants.get(name)
        if scale is None or scale.data is None or scale.type.dtype != "float32":
            return None
        if zero:
            known = self.graph.constants.get(zero)
            return None if known is None else QuantStep(name, zero, known.type.dtype)
        integers = node.outputs[0] if node.kind == "QuantizeLinear" else node.inputs[0]
        kind = self.graph.types.get(integers)
        if kind is None:
            return None
        return QuantStep(name, self.zero(node.name, kind.dtype), kind.dtype)

    def zero(self, label: str, dtype: str) -> str:
        """A zero point of zero."""
        return self.numbers(f"{label}/zero", np.zeros((), np.dtype(dtype)))

    def numbers(self, label: str, array: Array) -> str:
        """A new constant that holds an array."""
        return self.constant(self.names.take(label), constant_of(array))

    def number(self, name: str) -> Array:
        """The numbers of an old or new constant."""
        data = (self.constants.get(name) or self.graph.constants[name]).data
        assert data is not None
        return data

    def same(self, one: QuantStep, other: QuantStep) -> bool:
        """Whether integers of both stand for the same numbers."""
        return one.dtype == other.dtype and all(
            np.array_equal(self.number(a).reshape(-1), self.number(b).reshape(-1))
            for a, b in ((one.scale, other.scale), (one.zero, other.zero))
        )

    def _target(self, value: str) -> _Target | None:
        """The quantisation that alone reads a value, bounds between them included."""
        bounds = self.matcher.reader(value, *BOUNDS)
        last = value if bounds is None else self.matcher.result(bounds)
        index = self.matcher.reader(last, "QuantizeLinear")
        if index is None or (bounds is not None and self.matcher.node(bounds).inputs[0] != value):
            return None
        node = self.matcher.node(index)
        step = self._step(node)
        if step is None or step.dtype not in QUANTISED or self.number(step.scale).size != 1:
            return None
        nodes = (index,) if bounds is None else (bounds, index)
        return _Target(nodes, node.outputs[0], step, bounds)

    def _bounds(self, node: Node, target: _Target) -> list[Node] | None:
        """The operator, and bounds on its integers where there were bounds that they can pass."""
        if target.bounds is None:
            return [replace(node, outputs=(target.value,))]
        limits = self._limits(self.matcher.node(target.bounds))
        if limits is None:
            return None
        kind = np.dtype(target.step.dtype)
        scale = float(self.number(target.step.scale).reshape(-1)[0])
        zero = int(self.number(target.step.zero).reshape(-1)[0])
        range_of = (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
        low, high = (
            int(np.clip(np.rint(np.float32(limit) / np.float32(scale)) + zero, *range_of))
            for limit in limits
        )
        if (low, high) == range_of:
            return [replace(node, outputs=(target.value,))]
        inner = self.names.take(f"{node.name}/unbounded")
        self.types[inner] = self.graph.types[target.value]
        name = self.matcher.node(target.bounds).name
        edges = [
            self.numbers(f"{name}/{label}", np.asarray(edge, kind))
            for label, edge in (("low", low), ("high", high))
        ]
        clip = Node(name, "Clip", (inner, *edges), (target.value,))
        return [replace(node, outputs=(inner,)), clip]

    def _limits(self, node: Node) -> tuple[float, float] | None:
        if node.kind == "Relu":
            return 0.0, np.inf
        found: list[float] = []
        for name, default in zip((*node.inputs[1:], "", "")[:2], (-np.inf, np.inf), strict=True):
            number = self.matcher.number(name) if name else default
            if number is None:
                return None
            found.append(number)
        return found[0], found[1]

    # Parameters as integer operators want them.

    def plain_zero(self, node: str, step: QuantStep) -> str:
        """A zero point; one for all where all of them are zero."""
        zeros = self.number(step.zero)
        return step.zero if zeros.size == 1 or zeros.any() else self.zero(node, step.dtype)

    def bias(self, node: str, value: str, scales: Array, channels: int) -> str | None:
        """A bias in steps of the sums, None where it is not a constant per channel."""
        found = self.source(value)
        kind = self.graph.types.get(value)
        if kind is None or kind.size != channels:
            return None
        if found is not None and found.value in self.graph.constants:
            known = self.graph.constants[found.value]
            step = self.number(found.step.scale).reshape(-1).astype(np.float64)
            exact = known.type.dtype == "int32" and not self.number(found.step.zero).any()
            if known.data is None:
                return None
            if exact and np.allclose(step, scales, rtol=1e-5, atol=0.0):
                flat = known.type.shape == (channels,)
                return found.value if flat else self.numbers(f"{node}/bias", known.data.reshape(-1))
            zero = self.number(found.step.zero).reshape(-1).astype(np.float64)
            real = (known.data.reshape(-1).astype(np.float64) - zero) * step
        else:
            constant = self.graph.constants.get(value)
            if constant is None or constant.data is None:
                return None
            real = constant.data.reshape(-1).astype(np.float64)
        steps = np.rint(real / scales)
        if np.abs(steps).max(initial=0.0) > np.iinfo(np.int32).max:
            return None
        return self.numbers(f"{node}/bias", steps.astype(np.int32))


Rule = Callable[[_Fold, Node, _Target], Node | None]


def _flat(source: _Source) -> tuple[str, str, str]:
    return source.value, source.step.scale, source.step.zero


def _weighted(fold: _Fold, node: Node, axis: int) -> tuple[list[str], Array, int] | None:
    """Data and weights with scales and zero points, the steps of their sums, the channels."""
    data, weight = fold.single(node.inputs[0]), fold.source(node.inputs[1])
    if data is None or weight is None or weight.step.dtype not in QUANTISED:
        return None
    shape = fold.graph.types[weight.value].shape
    if weight.axis is not None and weight.axis != axis % len(shape):
        return None
    scales = fold.number(weight.step.scale).reshape(-1).astype(np.float64)
    scales = scales * float(fold.number(data.step.scale).reshape(-1)[0])
    zero = fold.plain_zero(node.name, weight.step)
    return [*_flat(data), weight.value, weight.step.scale, zero], scales, shape[axis]


def _conv(fold: _Fold, node: Node, target: _Target) -> Node | None:
    found = _weighted(fold, node, 0)
    if found is None:
        return None
    inputs, scales, channels = found
    inputs += [target.step.scale, target.step.zero]
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = fold.bias(node.name, node.inputs[2], scales, channels)
        if bias is None:
            return None
        inputs.append(bias)
    return replace(node, kind="QLinearConv", inputs=tuple(inputs))


def _matmul(fold: _Fold, node: Node, target: _Target) -> Node | None:
    found = _weighted(fold, node, -1)
    if found is None or len(fold.graph.types[node.inputs[1]].shape) < 2:
        return None
    inputs = (*found[0], target.step.scale, target.step.zero)
    return replace(node, kind="QLinearMatMul", inputs=inputs)


def _gemm(fold: _Fold, node: Node, target: _Target) -> Node | None:
    found = _weighted(fold, node, 0 if node.int_of("transB", 0) else 1)
    if found is None or {node.float_of("alpha", 1.0), node.float_of("beta", 1.0)} != {1.0}:
        return None
    inputs, scales, channels = found
    bias = ""
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = fold.bias(node.name, node.inputs[2], scales, channels) or ""
        if not bias:
            return None
    inputs += [bias, target.step.scale, target.step.zero]
    attributes = {k: v for k, v in node.attributes.items() if k in ("transA", "transB")}
    return replace(node, kind="QGemm", inputs=tuple(inputs), attributes=attributes, domain=RUNTIME)


def _pointwise(fold: _Fold, node: Node, target: _Target) -> Node | None:
    """Operators of one or two inputs, each with its scale and zero point."""
    sources = [fold.single(name) for name in node.inputs if name]
    inputs: list[str] = []
    for source in sources:
        if source is None:
            return None
        inputs += _flat(source)
    attributes: Mapping[str, Attribute] = node.attributes
    if node.kind == "Softmax":
        attributes = {**attributes, "opset": 13}
    return replace(
        node,
        kind=PREFIX + node.kind,
        inputs=(*inputs, target.step.scale, target.step.zero),
        attributes=attributes,
        domain=PLANNED if node.kind in PLANNED_UNARY else RUNTIME,
    )


def _carried(fold: _Fold, node: Node, target: _Target) -> Node | None:
    """Operators that only move elements, on the integers; a concat may change their steps."""
    joins = node.kind == "Concat"
    values = node.inputs if joins else node.inputs[:1]
    sources = [fold.single(name) for name in values]
    known = [source for source in sources if source is not None]
    if len(known) < len(sources):
        return None
    if node.kind == "Resize" and node.str_of("mode", "nearest") != "nearest":
        return None
    if all(fold.same(source.step, target.step) for source in known):
        rest = () if joins else node.inputs[1:]
        return replace(node, inputs=(*(source.value for source in known), *rest))
    if not joins:
        return None
    flat = [name for source in known for name in _flat(source)]
    inputs = (target.step.scale, target.step.zero, *flat)
    return replace(node, kind=PREFIX + "Concat", inputs=inputs, domain=RUNTIME)


_RULES: Mapping[str, Rule] = {
    "Conv": _conv,
    "MatMul": _matmul,
    "Gemm": _gemm,
    **dict.fromkeys((*UNARY, *BINARY, *PLANNED_UNARY), _pointwise),
    **dict.fromkeys(CARRIERS, _carried),
}
