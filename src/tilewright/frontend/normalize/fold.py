"""Fold what scales and shifts channels into the weights of the node before it.

BatchNormalization, and products and sums with a weight per channel, disappear into the
convolution, matrix product or BatchNormalization that makes their input, if nothing else reads it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilewright.frontend.idioms.matching import Matcher
from tilewright.graph.edit import Writer, scaled
from tilewright.graph.graph import Array, Attribute, Constant, Graph, Node
from tilewright.graph.types import FLOATS, TensorType


@dataclass(frozen=True, slots=True)
class Affine:
    """y -> scale y + shift for every channel; numbers that are not `known` are placeholders."""

    scale: Array
    shift: Array
    known: bool
    scales: bool  # False where the scale is one: weights stay as they are

    def then(self, later: "Affine") -> "Affine":
        """This, and then the later one."""
        return Affine(
            self.scale * later.scale,
            self.shift * later.scale + later.shift,
            self.known and later.known,
            self.scales or later.scales,
        )


@dataclass(frozen=True, slots=True)
class _Host:
    """A node that takes an affine map into its weights: which input holds the weight, which the
    bias, how a vector of channels lies along the weight, and the attributes it has afterwards."""

    weight: int
    bias: int
    factor: Callable[[Array], Array]
    bias_gain: float
    attributes: Mapping[str, Attribute]


def fold_channel_affine(graph: Graph) -> Graph:
    """Fold BatchNormalization and weights per channel into the node before them."""
    matcher, writer = Matcher(graph), Writer(graph)
    folded: set[int] = set()
    for index, node in enumerate(graph.nodes):
        if index in folded:
            continue
        host = _host(matcher, index)
        chain = _chain(matcher, node.outputs[0]) if host is not None else None
        if host is None or chain is None:
            writer.nodes.append(node)
            continue
        affine, tail = chain
        folded.update(tail)
        changed = _hosted(writer, node, host, affine)
        writer.nodes.append(replace(changed, outputs=(graph.nodes[tail[-1]].outputs[0],)))
    return writer.finish() if folded else graph


def _chain(matcher: Matcher, value: str) -> tuple[Affine, tuple[int, ...]] | None:
    """The affine nodes that follow a value one after the other, as one map."""
    whole: Affine | None = None
    tail: list[int] = []
    while True:
        index = matcher.reader(value, "BatchNormalization", "Mul", "Div", "Add", "Sub")
        step = None if index is None else _step(matcher, index, value)
        if index is None or step is None:
            break
        whole = step if whole is None else whole.then(step)
        tail.append(index)
        value = matcher.result(index)
    return None if whole is None else (whole, tuple(tail))


def _step(matcher: Matcher, index: int, value: str) -> Affine | None:
    """What one node does to the channels of the value, None if it does something else."""
    graph, node = matcher.graph, matcher.node(index)
    kind = graph.types.get(value)
    if kind is None or graph.types.get(node.outputs[0]) != kind or kind.dtype not in FLOATS:
        return None
    if len(kind.shape) < 2:
        return None
    if node.kind == "BatchNormalization":
        return _batch_norm(graph, node, kind) if node.inputs[0] == value else None
    other = matcher.other(index, value)
    constant = None if other is None else graph.constants.get(other)
    channels = None if constant is None else _per_channel(constant, kind)
    if constant is None or channels is None:
        return None
    known = constant.data is not None
    one, zero = np.ones_like(channels), np.zeros_like(channels)
    first = node.inputs[0] == value
    match node.kind:
        case "Mul":
            return Affine(channels, zero, known, True)
        case "Add":
            return Affine(one, channels, known, False)
        case "Sub" if first:
            return Affine(one, -channels, known, False)
        case "Sub":
            return Affine(-one, channels, known, True)
        case "Div" if first and bool(channels.all()):
            return Affine(1 / channels, zero, known, True)
        case _:
            return None


def _batch_norm(graph: Graph, node: Node, kind: TensorType) -> Affine | None:
    weights = [graph.constants.get(name) for name in node.inputs[1:]]
    epsilon = node.float_of("epsilon", 1e-5)
    if node.int_of("training_mode", 0) or any(node.outputs[1:]):
        return None
    vectors: list[Array] = []
    for weight in weights:
        if weight is None or weight.type.shape != (kind.shape[1],):
            return None
        unknown = np.ones(kind.shape[1])
        vectors.append(unknown if weight.data is None else weight.data.astype(np.float64))
    scale, bias, mean, variance = vectors
    known = all(weight is not None and weight.data is not None for weight in weights)
    if bool((variance + epsilon <= 0).any()):
        return None
    gain = scale / np.sqrt(variance + epsilon)
    return Affine(gain, bias - mean * gain, known, True)


def _per_channel(constant: Constant, kind: TensorType) -> Array | None:
    """A constant as one number per channel (axis 1), None if it differs along another axis."""
    shape = constant.type.shape
    padded = (1,) * (len(kind.shape) - len(shape)) + shape
    if len(padded) != len(kind.shape) or padded[1] not in (1, kind.shape[1]):
        return None
    if any(extent != 1 for axis, extent in enumerate(padded) if axis != 1):
        return None
    if constant.data is None:
        return np.ones(kind.shape[1])
    return np.broadcast_to(constant.data.reshape(-1).astype(np.float64), (kind.shape[1],))


def _host(matcher: Matcher, index: int) -> _Host | None:
    """How the node takes an affine map in, None if it cannot."""
    node = matcher.node(index)
    maker = _HOSTS.get(node.kind) if matcher.sound[index] else None
    kind = matcher.graph.types.get(node.outputs[0]) if node.outputs else None
    if maker is None or kind is None or kind.dtype not in FLOATS or any(node.outputs[1:]):
        return None
    host = maker(matcher.graph, node)
    if host is None or node.inputs[host.weight] not in matcher.graph.constants:
        return None
    bias = node.inputs[host.bias] if len(node.inputs) > host.bias else ""
    if not bias:
        return host
    constant = matcher.graph.constants.get(bias)
    if constant is None or constant.type.shape[:-1] != (1,) * (len(constant.type.shape) - 1):
        return None
    return host if constant.type.size in (1, kind.shape[1]) else None


def _along(rank: int, axis: int) -> Callable[[Array], Array]:
    """A vector of channels, laid along one axis of a weight."""
    shape = tuple(-1 if a == axis else 1 for a in range(rank))
    return lambda channels: channels.reshape(shape)


def _conv_host(graph: Graph, node: Node) -> _Host:
    return _Host(1, 2, _along(len(graph.types[node.inputs[1]].shape), 0), 1.0, node.attributes)


def _transposed_conv_host(graph: Graph, node: Node) -> _Host | None:
    """The weight is [inputs, outputs / groups, ...], and inputs are divided into the groups."""
    shape = graph.types[node.inputs[1]].shape
    groups = node.int_of("group", 1)
    if groups < 1 or shape[0] % groups:
        return None

    def factor(channels: Array) -> Array:
        per_group = np.repeat(channels.reshape(groups, -1), shape[0] // groups, axis=0)
        return per_group.reshape(shape[:2] + (1,) * (len(shape) - 2))

    return _Host(1, 2, factor, 1.0, node.attributes)


def _gemm_host(graph: Graph, node: Node) -> _Host:
    factor = _along(2, 0 if node.int_of("transB", 0) else 1)
    return _Host(1, 2, factor, node.float_of("beta", 1.0), {**node.attributes, "beta": 1.0})


def _batch_norm_host(graph: Graph, node: Node) -> _Host | None:
    if node.int_of("training_mode", 0):
        return None
    # The bias of a BatchNormalization is added after its scale, as a convolution's is.
    return _Host(1, 2, _along(1, 0), 1.0, node.attributes)


_HOSTS: Mapping[str, Callable[[Graph, Node], _Host | None]] = {
    "Conv": _conv_host,
    "ConvTranspose": _transposed_conv_host,
    "Gemm": _gemm_host,
    "BatchNormalization": _batch_norm_host,
}


def _hosted(writer: Writer, node: Node, host: _Host, affine: Affine) -> Node:
    """The node with the map in its weights; unknown numbers stay unknown."""
    inputs = [*node.inputs, *[""] * (host.bias + 1 - len(node.inputs))]
    weight = writer.graph.constants[inputs[host.weight]]
    bias = writer.graph.constants.get(inputs[host.bias])
    old: Array | None = np.zeros(1) if bias is None else bias.data
    if affine.scales:
        data = None
        if weight.data is not None and affine.known:
            data = scaled(weight.data, host.factor(affine.scale))
        name = writer.names.take(f"{node.name}/weight")
        inputs[host.weight] = writer.constant(name, Constant(weight.type, data))
    shift = None
    if old is not None and weight.data is not None and affine.known:
        exact = host.bias_gain * old.reshape(-1).astype(np.float64) * affine.scale + affine.shift
        shift = exact.astype(weight.data.dtype)
    kind = TensorType(weight.type.dtype, affine.shift.shape)
    name = writer.names.take(f"{node.name}/bias")
    inputs[host.bias] = writer.constant(name, Constant(kind, shift))
    return replace(node, inputs=tuple(inputs), attributes=host.attributes)
