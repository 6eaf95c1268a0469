"""Collapse idioms to one node.

Activations and norms become one whatever the operator set: planners and kernels know them all, and
a file with an older set is only read, never written, after this.
"""

from collections.abc import Callable, Mapping

import numpy as np

from tilewright.frontend.idioms import Idiom, recognise
from tilewright.graph.edit import Writer, rebuilt, reshaped
from tilewright.graph.graph import Graph, Node, constant_of
from tilewright.graph.rules import need, optional, require
from tilewright.graph.types import TensorType

Builder = Callable[[Writer, Idiom], Node]


def collapse_idioms(graph: Graph) -> Graph:
    """Collapse activations (GELU, SiLU, hard swish, Mish), and layer, group and RMS norm.

    The node takes the place and the name of the idiom's last node. Attention and the rest stay as
    they are: planners need their inner nodes.
    """
    writer = Writer(graph)
    replaced: dict[str, Node] = {}
    removed: set[str] = set()
    for idiom in recognise(graph):
        builder = COLLAPSED.get(idiom.kind)
        if builder is None or removed.intersection(idiom.nodes):
            continue
        if _dtype(graph, idiom.inputs[0]) != _dtype(graph, idiom.outputs[0]):
            continue
        node = optional(builder)(writer, idiom)
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
    return rebuilt(graph, nodes, writer.constants)


def _dtype(graph: Graph, value: str) -> str | None:
    kind = graph.types.get(value)
    return None if kind is None else kind.dtype


def _node(idiom: Idiom, kind: str, inputs: tuple[str, ...], attributes: Mapping[str, str]) -> Node:
    """The one node, with parameters of the idiom under the names of its attributes."""
    given = {name: idiom.parameters[key] for name, key in attributes.items()}
    return Node(idiom.nodes[-1], kind, inputs, idiom.outputs, given)


def _activation(kind: str, **attributes: str) -> Builder:
    return lambda writer, idiom: _node(idiom, kind, idiom.inputs, attributes)


def _normalisation(kind: str) -> Builder:
    def build(writer: Writer, idiom: Idiom) -> Node:
        x, axis = writer.type(idiom.inputs[0]), idiom.parameters["axis"]
        assert isinstance(axis, int)
        inputs = _with_weights(writer, idiom, TensorType(x.dtype, x.shape[axis:]))
        inputs = inputs if idiom.inputs[-1] else inputs[:2]  # the bias may be left out
        return _node(idiom, kind, inputs, {"axis": "axis", "epsilon": "epsilon"})

    return build


def _group_norm(writer: Writer, idiom: Idiom) -> Node:
    x = writer.type(idiom.inputs[0])
    inputs = _with_weights(writer, idiom, TensorType(x.dtype, (x.shape[1],)))
    names = {"num_groups": "groups", "epsilon": "epsilon"}
    return _node(idiom, "GroupNormalization", inputs, names)


def _with_weights(writer: Writer, idiom: Idiom, kind: TensorType) -> tuple[str, ...]:
    """x, scale and bias in the type that is wanted, unless one would have to be computed; absent
    ones do nothing."""
    inputs = [idiom.inputs[0]]
    labels = (("scale", 1.0), ("bias", 0.0))
    for weight, (label, neutral) in zip(idiom.inputs[1:], labels, strict=False):
        if weight and writer.graph.types.get(weight) == kind:
            inputs.append(weight)
            continue
        if weight:
            constant = need(writer.graph.constants.get(weight))
            require(constant.type == kind.with_shape(constant.type.shape))
            require(constant.type.size == kind.size)
            made = reshaped(constant, kind.shape)
        else:
            made = constant_of(np.full(kind.shape, neutral, np.dtype(kind.dtype)))
        inputs.append(writer.constant(f"{idiom.nodes[-1]}/{label}", made))
    return tuple(inputs)


COLLAPSED: Mapping[str, Builder] = {
    "layer_norm": _normalisation("LayerNormalization"),
    "gelu": _activation("Gelu", approximate="approximate"),
    "silu": _activation("Swish", alpha="beta"),
    "hard_swish": _activation("HardSwish"),
    "mish": _activation("Mish"),
    "group_norm": _group_norm,
    "rms_norm": _normalisation("RMSNormalization"),
}
