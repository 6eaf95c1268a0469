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
from tilewright.graph.rules import need, optional, require
from tilewright.graph.types import QUANTISED

BOUNDS = ("Relu", "Clip")
# Operators that give on elements as they are: on integers they are the same, where the scale and
# zero point of input and result are.
CARRIERS = frozenset(
    (
        "Reshape Flatten Squeeze Unsqueeze Transpose Slice Gather Identity DepthToSpace "
        "SpaceToDepth Expand Tile MaxPool Resize Concat"
    ).split()
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
            made = optional(self._folded)(node) if self.matcher.sound[index] else None
            self.nodes += [node] if made is None else made
        if len(self.nodes) == len(self.graph.nodes):
            return self.graph
        read = set(self.graph.outputs) | {name for node in self.nodes for name in node.reads}
        self.nodes = [n for n in self.nodes if n.kind != "DequantizeLinear" or n.outputs[0] in read]
        return self.finish()

    def _folded(self, node: Node) -> list[Node]:
        rule = need(_RULES.get(node.kind))
        require(not node.domain and not any(node.outputs[1:]))
        target = self._target(node.outputs[0])
        made = self._bounds(rule(self, node, target), target)
        self.gone.update(target.nodes)
        return made

    # What stands before and behind an operator.

    def source(self, value: str) -> _Source:
        """The integers that a value stands for, if it is dequantised."""
        node = self.matcher.node(need(self.matcher.maker(value, "DequantizeLinear")))
        step = self._step(node)
        kind = self.graph.types[node.inputs[0]]
        require(not node.attributes.get("block_size", 0))
        scale = self.graph.constants[node.inputs[1]].type
        along = node.int_of("axis", 1) % max(1, len(kind.shape))
        return _Source(node.inputs[0], step, None if scale.size == 1 else along)

    def single(self, value: str) -> _Source:
        """The same where one scale serves all of a quantised tensor."""
        found = self.source(value)
        require(found.axis is None and found.step.dtype in QUANTISED)
        return found

    def _step(self, node: Node) -> QuantStep:
        """Scale and zero point of a (de)quantisation, where they are constant and known."""
        name, zero = (*node.inputs, "")[1:3]
        scale = need(self.graph.constants.get(name))
        require(scale.data is not None and scale.type.dtype == "float32")
        if zero:
            return QuantStep(name, zero, need(self.graph.constants.get(zero)).type.dtype)
        integers = node.outputs[0] if node.kind == "QuantizeLinear" else node.inputs[0]
        kind = need(self.graph.types.get(integers))
        return QuantStep(name, self.zero(node.name, kind.dtype), kind.dtype)

    def zero(self, label: str, dtype: str) -> str:
        """A zero point of zero."""
        return self.numbers(f"{label}/zero", np.zeros((), np.dtype(dtype)))

    def numbers(self, label: str, array: Array) -> str:
        """A new constant that holds an array."""
        return self.constant(label, constant_of(array))

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

    def _target(self, value: str) -> _Target:
        """The quantisation that alone reads a value, bounds between them included."""
        bounds = self.matcher.reader(value, *BOUNDS)
        last = value if bounds is None else self.matcher.result(bounds)
        index = need(self.matcher.reader(last, "QuantizeLinear"))
        require(bounds is None or self.matcher.node(bounds).inputs[0] == value)
        node = self.matcher.node(index)
        step = self._step(node)
        require(step.dtype in QUANTISED and self.number(step.scale).size == 1)
        nodes = (index,) if bounds is None else (bounds, index)
        return _Target(nodes, node.outputs[0], step, bounds)

    def _bounds(self, node: Node, target: _Target) -> list[Node]:
        """The operator, and bounds on its integers where there were bounds that they can pass."""
        if target.bounds is None:
            return [replace(node, outputs=(target.value,))]
        limits = self._limits(self.matcher.node(target.bounds))
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

    def _limits(self, node: Node) -> list[float]:
        if node.kind == "Relu":
            return [0.0, np.inf]
        edges = zip((*node.inputs[1:], "", "")[:2], (-np.inf, np.inf), strict=True)
        return [need(self.matcher.number(name)) if name else most for name, most in edges]

    # Parameters as integer operators want them.

    def plain_zero(self, node: str, step: QuantStep) -> str:
        """A zero point; one for all where all of them are zero."""
        zeros = self.number(step.zero)
        return step.zero if zeros.size == 1 or zeros.any() else self.zero(node, step.dtype)

    def bias(self, node: Node, scales: Array, channels: int) -> tuple[str, ...]:
        """The bias of a node in steps of the sums, a constant per channel; nothing without one."""
        value = (*node.inputs, "")[2]
        if not value:
            return ()
        kind, found = need(self.graph.types.get(value)), optional(self.source)(value)
        require(kind.size == channels)
        label = f"{node.name}/bias"
        if found is not None and found.value in self.graph.constants:
            known = self.graph.constants[found.value]
            data = need(known.data)
            step = self.number(found.step.scale).reshape(-1).astype(np.float64)
            exact = known.type.dtype == "int32" and not self.number(found.step.zero).any()
            if exact and np.allclose(step, scales, rtol=1e-5, atol=0.0):
                flat = known.type.shape == (channels,)
                return (found.value if flat else self.numbers(label, data.reshape(-1)),)
            zero = self.number(found.step.zero).reshape(-1).astype(np.float64)
            real = (data.reshape(-1).astype(np.float64) - zero) * step
        else:
            constant = need(self.graph.constants.get(value))
            real = need(constant.data).reshape(-1).astype(np.float64)
        steps = np.rint(real / scales)
        require(not np.abs(steps).max(initial=0.0) > np.iinfo(np.int32).max)
        return (self.numbers(label, steps.astype(np.int32)),)


Rule = Callable[[_Fold, Node, _Target], Node]


def _flat(source: _Source) -> tuple[str, str, str]:
    return source.value, source.step.scale, source.step.zero


def _weighted(fold: _Fold, node: Node, axis: int) -> tuple[list[str], Array, int]:
    """Data and weights with scales and zero points, the steps of their sums, the channels."""
    data, weight = fold.single(node.inputs[0]), fold.source(node.inputs[1])
    shape = fold.graph.types[weight.value].shape
    require(weight.step.dtype in QUANTISED and weight.axis in (None, axis % len(shape)))
    scales = fold.number(weight.step.scale).reshape(-1).astype(np.float64)
    scales = scales * float(fold.number(data.step.scale).reshape(-1)[0])
    zero = fold.plain_zero(node.name, weight.step)
    return [*_flat(data), weight.value, weight.step.scale, zero], scales, shape[axis]


def _conv(fold: _Fold, node: Node, target: _Target) -> Node:
    inputs, scales, channels = _weighted(fold, node, 0)
    bias = fold.bias(node, scales, channels)
    result = target.step.scale, target.step.zero
    return replace(node, kind="QLinearConv", inputs=(*inputs, *result, *bias))


def _matmul(fold: _Fold, node: Node, target: _Target) -> Node:
    inputs, _, _ = _weighted(fold, node, -1)
    require(len(fold.graph.types[node.inputs[1]].shape) > 1)
    inputs += [target.step.scale, target.step.zero]
    return replace(node, kind="QLinearMatMul", inputs=tuple(inputs))


def _gemm(fold: _Fold, node: Node, target: _Target) -> Node:
    inputs, scales, channels = _weighted(fold, node, 0 if node.int_of("transB", 0) else 1)
    require({node.float_of("alpha", 1.0), node.float_of("beta", 1.0)} == {1.0})
    bias = fold.bias(node, scales, channels) or ("",)
    inputs += [*bias, target.step.scale, target.step.zero]
    attributes = {k: v for k, v in node.attributes.items() if k in ("transA", "transB")}
    return replace(node, kind="QGemm", inputs=tuple(inputs), attributes=attributes, domain=RUNTIME)


def _pointwise(fold: _Fold, node: Node, target: _Target) -> Node:
    """Operators of one or two inputs, each with its scale and zero point."""
    inputs = [part for name in node.inputs if name for part in _flat(fold.single(name))]
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


def _carried(fold: _Fold, node: Node, target: _Target) -> Node:
    """Operators that only move elements, on the integers; a concat may change their steps."""
    joins = node.kind == "Concat"
    sources = [fold.single(name) for name in (node.inputs if joins else node.inputs[:1])]
    require(node.kind != "Resize" or node.str_of("mode", "nearest") == "nearest")
    if all(fold.same(source.step, target.step) for source in sources):
        rest = () if joins else node.inputs[1:]
        return replace(node, inputs=(*(source.value for source in sources), *rest))
    require(joins)
    flat = [name for source in sources for name in _flat(source)]
    inputs = (target.step.scale, target.step.zero, *flat)
    return replace(node, kind=PREFIX + "Concat", inputs=inputs, domain=RUNTIME)


_RULES: Mapping[str, Rule] = {
    "Conv": _conv,
    "MatMul": _matmul,
    "Gemm": _gemm,
    **dict.fromkeys((*UNARY, *BINARY, *PLANNED_UNARY), _pointwise),
    **dict.fromkeys(CARRIERS, _carried),
}
