"""How large activations are, without running the network: a few thousand sample elements of each.

Element by element operators are applied to the samples as they are, so that x * sigmoid(x) or a
GELU in five nodes come out right; sums of many products become normal numbers of the right
variance. Seeded weights are scaled by what this says.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from math import prod, sqrt

import numpy as np

from tilewright.frontend import proto
from tilewright.graph.graph import Array, Constant, Graph, Node
from tilewright.graph.ops import SPECS
from tilewright.graph.ops.spec import Op, op_of
from tilewright.graph.ops.windows import window_parameters

COUNT = 4096
CORRELATION = 0.1  # of elements that one mean or one attention row adds up
DRAWS = 16  # elements that stand for a window or a reduced axis
LARGEST = 1e30

# Operators that multiply and add: which inputs are the two factors.
FACTORS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(
        "Conv ConvTranspose ConvInteger MatMul MatMulInteger Gemm Einsum".split(), (0, 1)
    ),
    **dict.fromkeys(("QLinearConv", "QLinearMatMul"), (0, 3)),
}
# Results are the first input's elements, each in its place.
CARRIERS = frozenset(
    (
        "Cast DequantizeLinear Dropout Expand Flatten Identity QuantizeLinear Reshape Resize "
        "Squeeze Tile Transpose Unsqueeze"
    ).split()
)
# Results are some of the first input's elements: no longer side by side with the others.
PICKERS = frozenset(
    "CumSum DepthToSpace Gather GatherElements GatherND Pad Slice SpaceToDepth Split TopK".split()
)
NORMS = frozenset(spec.kind for spec in SPECS.values() if spec.family == "normalisation")


def random(seed: int, name: str) -> np.random.Generator:
    """A stream of random numbers that depends on the seed and the name alone."""
    digest = sha256(f"{seed}/{name}".encode("utf-8", "surrogateescape")).digest()
    return np.random.Generator(np.random.SFC64(int.from_bytes(digest[:16], "little")))


def mean_square(sample: Array) -> float:
    """Mean of the squares, never zero."""
    return max(float(np.mean(np.square(sample, dtype=np.float64))), 1e-30)


def _clear_mean(sample: Array) -> float:
    """The mean, or zero where so few elements cannot tell."""
    mean, deviation = float(np.mean(sample)), float(np.std(sample))
    return mean if abs(mean) > 4 * deviation / sqrt(COUNT) else 0.0


def terms(op: Op) -> float:
    """How many products one output element adds up; those with padding do not count."""
    first, second = FACTORS[op.kind]
    left, right = op.shape(first), op.shape(second)
    if op.kind == "ConvTranspose":
        strides = op.ints_of("strides") or (1,)
        return max(1.0, left[1] / op.int_of("group", 1) * prod(right[2:]) / prod(strides))
    if op.kind == "Gemm":
        return left[0 if op.int_of("transA", 0) else 1]
    if op.kind == "Einsum":
        return _einsum_terms(op.str_of("equation", ""), (left, right))
    if "MatMul" in op.kind:
        return left[-1]
    window = window_parameters(op, second)
    count = float(right[1])
    for axis, kernel in enumerate(window.kernel):
        starts = np.arange(op.result().shape[axis + 2]) * window.strides[axis]
        taps = np.arange(kernel) * window.dilations[axis] - window.before[axis]
        rows = starts[:, None] + taps
        count *= kernel * float(np.mean((rows >= 0) & (rows < left[axis + 2])))
    return max(1.0, count)


def _einsum_terms(equation: str, shapes: tuple[tuple[int, ...], ...]) -> float:
    operands, _, result = equation.replace(" ", "").partition("->")
    extents: dict[str, int] = {}
    for labels, shape in zip(operands.split(","), shapes, strict=False):
        if "." not in labels:
            extents.update(zip(labels, shape, strict=False))
    return prod(extent for label, extent in extents.items() if label not in result)


class Activations:
    """Samples of the values of a network, found node by node with `step`."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self.graph = graph
        self.seed = seed
        self.constants: dict[str, Constant] = dict(graph.constants)
        self._samples: dict[str, Array] = {}

    def of(self, name: str) -> Array:
        """Sample elements of a value; what is not known looks like standard normal numbers."""
        if name not in self._samples:
            constant = self.constants.get(name)
            if constant is None or constant.data is None:
                return self._unknown(name)
            self._samples[name] = self._drawn(name, constant.data)
        return self._samples[name]

    def step(self, node: Node) -> None:
        """Find samples of what the node makes from those of what it reads."""
        try:
            with np.errstate(all="ignore"):
                made = self._results(node)
        except (ValueError, TypeError, LookupError, ArithmeticError, AssertionError):
            return  # an operator used in a way that samples cannot follow
        for index, name in enumerate(node.outputs):
            if made is None or not name:
                continue
            sample = made[index] if isinstance(made, list) else made
            if node.kind in PICKERS:
                sample = random(self.seed, f"{name}/pick").permutation(np.atleast_1d(sample))
            if sample.dtype.kind == "f":
                sample = np.clip(np.nan_to_num(sample), -LARGEST, LARGEST)
            self._samples[name] = sample

    def normal(self, name: str, mean: float = 0.0, std: float = 1.0) -> Array:
        """A normal sample with exactly this mean and deviation."""
        sample = random(self.seed, f"{name}/sample").standard_normal(COUNT)
        return (sample - sample.mean()) / sample.std() * std + mean

    def _unknown(self, name: str) -> Array:
        kind = self.graph.types.get(name)
        if kind is None or "float" in kind.dtype:
            return self.normal(name)
        if kind.dtype in ("int8", "uint8"):
            return self.normal(name, std=32.0)
        sample = random(self.seed, f"{name}/sample").integers(0, 2, COUNT)
        return sample.astype(bool) if kind.dtype == "bool" else sample

    def _drawn(self, name: str, data: Array) -> Array:
        if data.size <= 1:
            numbers = data.reshape(-1)[0] if data.size else np.float64(0)
        else:
            generator = random(self.seed, f"{name}/sample")
            numbers = data[tuple(generator.integers(0, extent, COUNT) for extent in data.shape)]
        kept = numbers.dtype.kind in "biu"
        return np.asarray(numbers if kept else np.asarray(numbers).astype(np.float64))

    def _results(self, node: Node) -> Array | list[Array] | None:
        kind = node.kind
        if kind in _RULES:
            return _RULES[kind](self, node)
        if kind == "DequantizeLinear" and node.inputs[0] in self.constants:
            return self._real(*node.inputs)
        if kind in CARRIERS or kind in PICKERS:
            return self.of(node.inputs[0])
        if kind in NORMS:
            return self._normed(node)
        if kind in FACTORS:
            return self._product(node)
        spec = SPECS.get(kind)
        if spec is None or node.domain not in spec.domains:
            return None
        if spec.family != "element-wise":
            return self._reduced(node) if node.inputs else None
        if kind in _CURVES:
            return _CURVES[kind](self.of(node.inputs[0]))
        inputs = [self.of(name) for name in node.inputs if name]
        made = proto.evaluate(node, inputs, self.graph.opsets)
        return made[0] if made else None

    def _real(self, data: str, scale: str, zero: str = "") -> Array:
        """What quantised weights stand for."""
        integers = self.of(data).astype(np.float64)
        return (integers - (self.of(zero) if zero else 0)) * self.of(scale)

    def _product(self, node: Node) -> Array | None:
        op = op_of(self.graph, node)
        if op is None:
            return None
        count = terms(op)
        names = [node.inputs[i] for i in FACTORS[node.kind]]
        left, right = (self.of(name) for name in names)
        if node.kind in ("QLinearConv", "QLinearMatMul"):
            right = self._real(*node.inputs[3:6])
        means = _clear_mean(left), _clear_mean(right)
        squares = mean_square(left), mean_square(right)
        # Weights differ at random; what they multiply has much in common from place to place.
        shared = [
            0.0 if name in self.constants else CORRELATION * (square - mean**2)
            for name, square, mean in zip(names, squares, means, strict=True)
        ]
        variance = count * (squares[0] * squares[1] - (means[0] * means[1]) ** 2)
        variance += count * (count - 1) * (means[0] ** 2 * shared[1] + means[1] ** 2 * shared[0])
        scale = op.float_of("alpha", 1.0)
        result = self.normal(
            node.outputs[0], scale * count * means[0] * means[1], scale * sqrt(max(variance, 0.0))
        )
        if node.kind in ("Conv", "ConvTranspose", "Gemm") and op.has(2):
            result = result + op.float_of("beta", 1.0) * self.of(node.inputs[2])
        return result

    def _normed(self, node: Node) -> Array:
        sample = self.of(node.inputs[0])
        result = (sample - np.mean(sample)) / max(float(np.std(sample)), 1e-15)
        for name, combine in zip(node.inputs[1:3], (np.multiply, np.add), strict=False):
            result = combine(result, self.of(name)) if name else result
        return result

    def _reduced(self, node: Node) -> Array | None:
        """Pools and reductions, over a few draws that resemble each other."""
        sample, name = np.atleast_1d(self.of(node.inputs[0])), node.outputs[0]
        kind, result = self.graph.types.get(node.inputs[0]), self.graph.types.get(name)
        reduce = _REDUCTIONS.get(node.kind)
        if kind is None or result is None or reduce is None:
            return None
        generator = random(self.seed, f"{name}/sample")
        window = node.ints_of("kernel_shape")
        count = kind.size // max(1, result.size) if window is None else prod(window)
        shape = (sample.size, max(1, min(count, DRAWS)))
        same = generator.random(shape) < sqrt(CORRELATION)
        others = sample[generator.integers(0, sample.size, shape)]
        return reduce(np.where(same, sample[:, None], others), count)


# Element by element operators that onnx's evaluator does not know.
_CURVES: Mapping[str, Callable[[Array], Array]] = {
    "Gelu": lambda x: x / 2 * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "Mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "Swish": lambda x: x / 2 * (1 + np.tanh(x / 2)),
}


def _softmax(values: Activations, node: Node) -> Array | None:
    op = op_of(values.graph, node)
    if op is None:
        return None
    sample = values.of(node.inputs[0])
    powers: Array = np.exp(sample - np.max(sample))
    result: Array = powers / (np.mean(powers) * op.shape(0)[op.int_of("axis", -1)])
    return np.log(result) if node.kind == "LogSoftmax" else result


def _concat(values: Activations, node: Node) -> Array:
    """As many elements of each input as its size asks for."""
    kinds = [values.graph.types[name] for name in node.inputs]
    total = max(1, sum(kind.size for kind in kinds))
    parts = [
        np.resize(values.of(name), -(-COUNT * kind.size // total))
        for name, kind in zip(node.inputs, kinds, strict=True)
    ]
    return random(values.seed, f"{node.outputs[0]}/pick").permutation(np.concatenate(parts))[:COUNT]


def _recurrent(values: Activations, node: Node) -> Array:
    return values.normal(next(iter(node.writes)), std=0.4)


def _unit_length(values: Activations, node: Node) -> Array:
    x, shape = values.of(node.inputs[0]), values.graph.types[node.inputs[0]].shape
    return x / sqrt(mean_square(x) * shape[node.int_of("axis", -1)])


def _dynamic_quantise(values: Activations, node: Node) -> list[Array]:
    """Integers about zero, the scale, and the zero point that has been taken off."""
    x = values.of(node.inputs[0])
    scale = sqrt(mean_square(x)) / 32
    return [x / scale, np.asarray(scale), np.asarray(0)]


_RULES: Mapping[str, Callable[[Activations, Node], Array | list[Array] | None]] = {
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Concat": _concat,
    "LpNormalization": _unit_length,
    "DynamicQuantizeLinear": _dynamic_quantise,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
}


def _mean(draws: Array, count: int) -> Array:
    return np.mean(draws, axis=1)


def _largest(draws: Array, count: int) -> Array:
    return np.max(draws, axis=1)


_REDUCTIONS: Mapping[str, Callable[[Array, int], Array]] = {
    **dict.fromkeys(("AveragePool", "GlobalAveragePool", "ReduceMean"), _mean),
    **dict.fromkeys(("MaxPool", "GlobalMaxPool", "ReduceMax"), _largest),
    "ReduceMin": lambda draws, count: np.min(draws, axis=1),
    "ReduceSum": lambda draws, count: np.mean(draws, axis=1) * count,
    "ReduceL1": lambda draws, count: np.mean(np.abs(draws), axis=1) * count,
    "ReduceL2": lambda draws, count: np.sqrt(np.mean(np.square(draws), axis=1) * count),
    "ReduceSumSquare": lambda draws, count: np.mean(np.square(draws), axis=1) * count,
    "LRN": lambda draws, count: draws[:, 0],
}
