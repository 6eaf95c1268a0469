"""Collapse idioms to one node.

Activations become one whatever the operator set: planners and kernels know them all, and a file
with an older set is only read, never written, after this.
"""

from collections.abc import Callable, Mapping

import numpy as np

from tilewright.frontend.idioms import Idiom, recognise
from tilewright.graph.edit import Names, rebuilt
from tilewright.graph.graph import Array, Attribute, Constant, Graph, Node, constant_of
from tilewright.graph.types import TensorType


class _Weights:
    """Scale and bias as the one node wants them; new constants are kept here."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names = Names(graph)
        self.made: dict[str, Constant] = {}

    def filled(self, node: str, label: str, kind: TensorType, number: float) -> str:
        """A new weight that holds one number."""
        name = self.names.take(f"{node}/{label}")
        data: Array = np.full(kind.shape, number, np.dtype(kind.dtype))
        self.made[name] = constant_of(data)
        return name

    def shaped(self, node: str, label: str, weight: str, kind: TensorType) -> str | None:
        """A weight in the type that is wanted, None if it would have to be computed."""
        if self.graph.types.get(weight) == kind:
            return weight
        constant = self.graph.constants.get(weight)
        if constant is None or constant.type.dtype != kind.dtype or constant.type.size != kind.size:
            return None
        name = self.names.take(f"{node}/{label}")
        data = None if constant.data is None else constant.data.reshape(kind.shape)
        self.made[name] = Constant(kind, data)
        return name


def collapse_idioms(graph: Graph) -> Graph:
    """Collapse activations (GELU, SiLU, hard swish, Mish), and layer, group and RMS norm where the
    operator set has them.

    The node takes the place and the name of the idiom's last node. Attention and the rest stay as
    they are: planners need their inner nodes, or the operator set has no single one.
    """
    weights = _Weights(graph)
    replaced: dict[str, Node] = {}
    removed: set[str] = set()
    for idiom in recognise(graph):
        since, builder = COLLAPSED.get(idiom.kind, (0, None))
        if builder is None or graph.opset < since or removed.intersection(idiom.nodes):
            continue
        if _dtype(graph, idiom.inputs[0]) != _dtype(graph, idiom.outputs[0]):
            continue
        node = builder(weights, idiom)
        if node is not None:
            removed.update(idiom.nodes)
            replaced[idiom.nodes[-1]] = node
    if not replaced:
        return graph
    nodes = (
        replaced.get(node.name, node)
        for node in graph.nodes
        if node.name not in removed or node.name in replaced
    )
    return rebuilt(graph, nodes, weights.made)


def _dtype(graph: Graph, value: str) -> str | None:
    kind = graph.types.get(value)
    return None if kind is None else kind.dtype


def _node(idiom: Idiom, kind: str, inputs: tuple[str, ...], **attributes: Attribute) -> Node:
    return Node(idiom.nodes[-1], kind, inputs, idiom.outputs, attributes)


def _gelu(weights: _Weights, idiom: Idiom) -> Node:
    return _node(idiom, "Gelu", idiom.inputs, approximate=idiom.parameters["approximate"])


def _hard_swish(weights: _Weights, idiom: Idiom) -> Node:
    return _node(idiom, "HardSwish", idiom.inputs)


def _swish(weights: _Weights, idiom: Idiom) -> Node:
    return _node(idiom, "Swish", idiom.inputs, alpha=idiom.parameters["beta"])


def _mish(weights: _Weights, idiom: Idiom) -> Node:
    return _node(idiom, "Mish", idiom.inputs)


def _layer_norm(weights: _Weights, idiom: Idiom) -> Node | None:
    return _normalisation(weights, idiom, "LayerNormalization")


def _rms_norm(weights: _Weights, idiom: Idiom) -> Node | None:
    return _normalisation(weights, idiom, "RMSNormalization")


def _normalisation(weights: _Weights, idiom: Idiom, kind: str) -> Node | None:
    x, axis = weights.graph.types[idiom.inputs[0]], idiom.parameters["axis"]
    assert isinstance(axis, int)
    inputs = _with_weights(weights, idiom, TensorType(x.dtype, x.shape[axis:]))
    if inputs is None:
        return None
    inputs = inputs if idiom.inputs[-1] else inputs[:2]  # the bias may be left out
    return _node(idiom, kind, inputs, axis=axis, epsilon=idiom.parameters["epsilon"])


def _group_norm(weights: _Weights, idiom: Idiom) -> Node | None:
    x = weights.graph.types[idiom.inputs[0]]
    inputs = _with_weights(weights, idiom, TensorType(x.dtype, (x.shape[1],)))
    if inputs is None:
        return None
    groups, epsilon = idiom.parameters["groups"], idiom.parameters["epsilon"]
    return _node(idiom, "GroupNormalization", inputs, num_groups=groups, epsilon=epsilon)


def _with_weights(weights: _Weights, idiom: Idiom, kind: TensorType) -> tuple[str, ...] | None:
    """x, scale and bias in the type that is wanted; absent ones do nothing."""
    inputs = [idiom.inputs[0]]
    labels = (("scale", 1.0), ("bias", 0.0))
    for weight, (label, neutral) in zip(idiom.inputs[1:], labels, strict=False):
        if weight:
            name = weights.shaped(idiom.nodes[-1], label, weight, kind)
        else:
            name = weights.filled(idiom.nodes[-1], label, kind, neutral)
        if name is None:
            return None
        inputs.append(name)
    return tuple(inputs)


Builder = Callable[[_Weights, Idiom], Node | None]

# The first operator set in which the node is wanted, and how it is made.
COLLAPSED: Mapping[str, tuple[int, Builder]] = {
    "layer_norm": (17, _layer_norm),
    "gelu": (0, _gelu),
    "silu": (0, _swish),
    "hard_swish": (0, _hard_swish),
    "mish": (0, _mish),
    "group_norm": (21, _group_norm),
    "rms_norm": (23, _rms_norm),
}
