"""Fold what scales and shifts channels into the weights of the node before it.

BatchNormalization, and products and sums with a weight per channel, disappear into the
convolution, matrix product or BatchNormalization that makes their input, if nothing else reads it.
"""

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from tilewright.frontend.idioms.matching import Matcher
from tilewright.graph.edit import Writer, scaled
from tilewright.graph.graph import Array, Constant, Graph, Node
from tilewright.graph.rules import need, optional, require
from tilewright.graph.types import FLOATS, TensorType

HOSTS = ("Conv", "ConvTranspose", "Gemm", "BatchNormalization")
WEIGHT, BIAS = 1, 2  # their inputs; a BatchNormalization adds its bias after its scale


@dataclass(frozen=True, slots=True)
class Affine:
    """y -> scale y + shift for every channel; numbers that are not `known` are placeholders."""

    scale: Array
    shift: Array
    known: bool
    scales: bool  # False where the scale is one: weights stay as they are

    def then(self, later: "Affine") -> "Affine":
        return Affine(
            self.scale * later.scale,
            self.shift * later.scale + later.shift,
            self.known and later.known,
            self.scales or later.scales,
        )


def fold_channel_affine(graph: Graph) -> Graph:
    """Fold BatchNormalization and weights per channel into the node before them."""
    matcher, writer = Matcher(graph), Writer(graph)
    folded: set[int] = set()
    for index, node in enumerate(graph.nodes):
        if index in folded:
            continue
        tail, steps = _chain(matcher, node.outputs[0]) if _takes(matcher, index) else ([], [])
        if not tail:
            writer.nodes.append(node)
            continue
        folded.update(tail)
        changed = _hosted(writer, node, reduce(Affine.then, steps))
        writer.nodes.append(replace(changed, outputs=graph.nodes[tail[-1]].outputs[:1]))
    return writer.finish() if folded else graph


def _chain(matcher: Matcher, value: str) -> tuple[list[int], list[Affine]]:
    """The affine nodes that follow a value one after the other, and what they do."""
    tail: list[int] = []
    steps: list[Affine] = []
    while (following := _step(matcher, value)) is not None:
        index, step = following
        tail.append(index)
        steps.append(step)
        value = matcher.result(index)
    return tail, steps


@optional
def _step(matcher: Matcher, value: str) -> tuple[int, Affine]:
    """The one reader of a value, and what it does to its channels, if that is all it does."""
    graph = matcher.graph
    index = need(matcher.reader(value, "BatchNormalization", "Mul", "Div", "Add", "Sub"))
    node, kind = matcher.node(index), need(graph.types.get(value))
    require(graph.types.get(node.outputs[0]) == kind and kind.dtype in FLOATS)
    require(len(kind.shape) > 1)
    first = node.inputs[0] == value
    if node.kind == "BatchNormalization":
        require(first)
        return index, _batch_norm(graph, node, kind)
    constant = need(graph.constants.get(need(matcher.other(index, value))))
    channels, known = _per_channel(constant, kind), constant.data is not None
    one, zero = np.ones_like(channels), np.zeros_like(channels)
    match node.kind:
        case "Mul":
            return index, Affine(channels, zero, known, True)
        case "Add":
            return index, Affine(one, channels, known, False)
        case "Sub" if first:
            return index, Affine(one, -channels, known, False)
        case "Sub":
            return index, Affine(-one, channels, known, True)
        case _:
            require(first and bool(channels.all()))
            return index, Affine(1 / channels, zero, known, True)


def _batch_norm(graph: Graph, node: Node, kind: TensorType) -> Affine:
    require(not node.int_of("training_mode", 0) and not any(node.outputs[1:]))
    weights = [need(graph.constants.get(name)) for name in node.inputs[1:]]
    require(all(weight.type.shape == (kind.shape[1],) for weight in weights))
    unknown, epsilon = np.ones(kind.shape[1]), node.float_of("epsilon", 1e-5)
    vectors = [unknown if w.data is None else w.data.astype(np.float64) for w in weights]
    scale, bias, mean, variance = vectors
    known = all(weight.data is not None for weight in weights)
    require(not bool((variance + epsilon <= 0).any()))
    gain = scale / np.sqrt(variance + epsilon)
    return Affine(gain, bias - mean * gain, known, True)


def _per_channel(constant: Constant, kind: TensorType) -> Array:
    """A constant as one number per channel (axis 1), where it is the same along all others."""
    rank, channels = len(kind.shape), kind.shape[1:2]
    padded = (1,) * (rank - len(constant.type.shape)) + constant.type.shape
    require(padded in ((1,) * rank, (1, *channels, *(1,) * (rank - 2))))
    if constant.data is None:
        return np.ones(channels)
    return np.broadcast_to(constant.data.reshape(-1).astype(np.float64), channels)


def _takes(matcher: Matcher, index: int) -> bool:
    """Whether the node can take an affine map into its weight and its bias."""
    graph, node = matcher.graph, matcher.node(index)
    kind = graph.types.get(node.outputs[0]) if node.outputs else None
    if not matcher.is_kind(index, *HOSTS) or kind is None or kind.dtype not in FLOATS:
        return False
    weight, *biases = node.inputs[WEIGHT:]
    if any(node.outputs[1:]) or weight not in graph.constants or node.int_of("training_mode", 0):
        return False
    groups = node.int_of("group", 1)
    if node.kind == "ConvTranspose" and (groups < 1 or graph.types[weight].shape[0] % groups):
        return False
    if not biases or not biases[0]:
        return True
    constant = graph.constants.get(biases[0])
    if constant is None or constant.type.shape[:-1] != (1,) * (len(constant.type.shape) - 1):
        return False
    return constant.type.size in (1, kind.shape[1])


def _along_weight(node: Node, shape: tuple[int, ...], channels: Array) -> Array:
    """A vector of channels as it lies along a weight. That of a transposed convolution is
    [inputs, outputs / groups, ...], and inputs are divided into the groups."""
    if node.kind == "ConvTranspose":
        groups = node.int_of("group", 1)
        per_group = np.repeat(channels.reshape(groups, -1), shape[0] // groups, axis=0)
        return per_group.reshape(shape[:2] + (1,) * (len(shape) - 2))
    last = node.kind == "Gemm" and not node.int_of("transB", 0)
    return channels if last else channels.reshape(-1, *(1,) * (len(shape) - 1))


def _hosted(writer: Writer, node: Node, affine: Affine) -> Node:
    """The node with the map in its weights; unknown numbers stay unknown."""
    inputs = [*node.inputs, *[""] * (BIAS + 1 - len(node.inputs))]
    weight = writer.graph.constants[inputs[WEIGHT]]
    bias = writer.graph.constants.get(inputs[BIAS])
    old: Array | None = np.zeros(1) if bias is None else bias.data
    if affine.scales:
        data = None
        if weight.data is not None and affine.known:
            data = scaled(weight.data, _along_weight(node, weight.type.shape, affine.scale))
        inputs[WEIGHT] = writer.constant(f"{node.name}/weight", Constant(weight.type, data))
    shift = None
    if old is not None and weight.data is not None and affine.known:
        exact = (
            node.float_of("beta", 1.0) * old.reshape(-1).astype(np.float64) * affine.scale
            + affine.shift
        )
        shift = exact.astype(weight.data.dtype)
    kind = TensorType(weight.type.dtype, affine.shift.shape)
    inputs[BIAS] = writer.constant(f"{node.name}/bias", Constant(kind, shift))
    attributes = {**node.attributes, "beta": 1.0} if node.kind == "Gemm" else node.attributes
    return replace(node, inputs=tuple(inputs), attributes=attributes)
