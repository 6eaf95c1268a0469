"""Old operator sets (9-12) are lifted to 13, so that everything else knows one form of each.

Only what changed between these versions is touched; results stay the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend import proto
from tilewright.frontend.infer import Inference
from tilewright.graph.edit import free_name
from tilewright.graph.graph import Array, Node, Opaque, constant_of
from tilewright.graph.ops.reduction import SOFTMAXES
from tilewright.graph.rules import need, optional, require

TARGET = 13


class Upgrade:
    """Rewrites nodes of an old operator set one by one; new constants go to the inference."""

    def __init__(self, opset: int, inference: Inference) -> None:
        self.opset = opset
        self.inference = inference

    def nodes(self, node: Node) -> Iterator[Node]:
        """The node in today's form: usually itself."""
        if self.opset < TARGET and any(isinstance(v, Opaque) for v in node.attributes.values()):
            node = proto.with_bodies(node, self.nodes, self.inference.opsets)
        rule = _RULES.get(node.kind)
        if self.opset >= TARGET or node.domain or rule is None or not any(node.writes):
            return iter((node,))
        try:
            return iter(optional(rule)(self, node) or (node,))
        except (ValueError, TypeError, OverflowError, IndexError):
            raise ModelError(f"node '{node.name}' ({node.kind}) is not valid") from None

    def input(self, node: Node, label: str, values: object, dtype: str = "int64") -> str:
        """A new constant for what used to be an attribute."""
        array: Array = np.asarray(values, dtype=np.dtype(dtype))
        # Bodies may use a name again.
        name = free_name(f"{next(node.writes)}/{label}", self.inference.types)
        self.inference.constant(name, constant_of(array))
        return name

    def dtype(self, node: Node) -> str:
        """Element type of the node's first input."""
        kind = self.inference.types.get(node.inputs[0])
        return kind.dtype if kind else "float32"


Rule = Callable[[Upgrade, Node], tuple[Node, ...]]


def _without(node: Node, *names: str) -> dict[str, object]:
    return {k: v for k, v in node.attributes.items() if k not in names}


def _to_inputs(*names: str) -> Rule:
    """Attributes became inputs behind the first; the node is as it should be where the first of
    them is not there."""

    def rule(up: Upgrade, node: Node) -> tuple[Node, ...]:
        require(names[0] in node.attributes and len(node.inputs) == 1)
        added = [
            up.input(node, name, value if isinstance(value, tuple) else (value,))
            for name, value in node.attributes.items()
            if name in names
        ]
        attributes = _without(node, *names)
        return (replace(node, inputs=(*node.inputs, *added), attributes=attributes),)

    return rule


def _slice(up: Upgrade, node: Node) -> tuple[Node, ...]:
    starts = need(node.ints_of("starts"))
    axes = node.attributes.get("axes", tuple(range(len(starts))))
    ordered = {"starts": starts, "ends": node.attributes.get("ends", ()), "axes": axes}
    return _to_inputs(*ordered)(up, replace(node, attributes=ordered))


def _pad(up: Upgrade, node: Node) -> tuple[Node, ...]:
    pads = need(node.attributes.get("pads"))
    value = up.input(node, "value", node.attributes.get("value", 0.0), up.dtype(node))
    inputs = (node.inputs[0], up.input(node, "pads", pads), value)
    return (replace(node, inputs=inputs, attributes=_without(node, "pads", "value")),)


def _clip(up: Upgrade, node: Node) -> tuple[Node, ...]:
    low, high = node.attributes.get("min"), node.attributes.get("max")
    require(low is not None or high is not None)
    lower = up.input(node, "min", low, up.dtype(node)) if low is not None else ""
    upper = (up.input(node, "max", high, up.dtype(node)),) if high is not None else ()
    return (replace(node, inputs=(node.inputs[0], lower, *upper), attributes={}),)


def _dropout(up: Upgrade, node: Node) -> tuple[Node, ...]:
    """Inference copies; the mask is only kept where something reads it."""
    require(len(node.inputs) < 3)  # or it may be in training
    kind = "Dropout" if len(list(node.writes)) > 1 else "Identity"
    return (replace(node, kind=kind, inputs=node.inputs[:1], attributes={}),)


def _softmax(up: Upgrade, node: Node) -> tuple[Node, ...]:
    """Before 13 all axes from `axis` on were normalised together."""
    kind = up.inference.types.get(node.inputs[0])
    raw = node.attributes.get("axis", 1)
    axis = raw if isinstance(raw, int) else 1
    first = next(node.writes)
    flat, result, shape = (f"{first}/{word}" for word in ("flat", "rows", "shape"))
    rows = replace(node, inputs=(flat,), outputs=(result,), attributes={"axis": 1})
    if kind is None:
        return (
            Node(f"{node.name}/shape", "Shape", node.inputs, (shape,)),
            Node(f"{node.name}/flatten", "Flatten", node.inputs, (flat,), {"axis": axis}),
            rows,
            Node(f"{node.name}/restore", "Reshape", (result, shape), node.outputs),
        )
    rank = len(kind.shape)
    axis %= max(1, rank)
    inner = [a for a in range(axis, rank) if kind.shape[a] > 1]
    if len(inner) <= 1:
        return (replace(node, attributes={"axis": inner[0] if inner else axis}),)
    outer = int(np.prod(kind.shape[:axis], dtype=np.int64))
    shape = up.input(node, "rows_shape", (outer, -1))
    back = up.input(node, "shape", kind.shape)
    return (
        Node(f"{node.name}/flatten", "Reshape", (node.inputs[0], shape), (flat,)),
        rows,
        Node(f"{node.name}/restore", "Reshape", (result, back), node.outputs),
    )


def _upsample(up: Upgrade, node: Node) -> tuple[Node, ...]:
    """Upsample, and Resize of opset 10: asymmetric coordinates, rounded down when it enlarges and
    up when it shrinks, as onnxruntime does."""
    require(node.kind == "Upsample" or up.opset <= 10)
    data, *given = node.inputs
    scales = (
        given[0] if given else up.input(node, "scales", node.attributes.get("scales"), "float32")
    )
    known = up.inference.constants.get(scales)
    shrinks = known is not None and known.data is not None and bool(np.all(known.data <= 1))
    attributes = {
        "mode": node.attributes.get("mode", "nearest"),
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "ceil" if shrinks else "floor",
    }
    return (replace(node, kind="Resize", inputs=(data, "", scales), attributes=attributes),)


def _scatter(up: Upgrade, node: Node) -> tuple[Node, ...]:
    return (replace(node, kind="ScatterElements"),)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("Squeeze", "Unsqueeze", "ReduceSum"), _to_inputs("axes")),
    "Split": _to_inputs("split"),
    "Slice": _slice,
    "Pad": _pad,
    "Clip": _clip,
    "Dropout": _dropout,
    **dict.fromkeys(SOFTMAXES, _softmax),
    **dict.fromkeys(("Upsample", "Resize"), _upsample),
    "Scatter": _scatter,
    "TopK": _to_inputs("k"),
}
