# pyright: basic
"""What onnx itself knows of an operator: the types of its results, and its results on constants."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.shape_inference

from tilewright.errors import ModelError
from tilewright.frontend.proto.kinds import DAMAGE, DTYPES, schema_of, type_proto
from tilewright.frontend.proto.write import node_proto
from tilewright.graph.graph import Array, Constant, Node
from tilewright.graph.types import TensorType

PARAMETER_ELEMENTS = 4096  # constants up to this size may steer shape inference


def infer_types(
    node: Node,
    types: Mapping[str, TensorType],
    constants: Mapping[str, Constant],
    opsets: Mapping[str, int],
) -> dict[str, TensorType]:
    """Types of the node's results as onnx infers them; what it cannot tell is left out."""
    schema = schema_of(node.kind, opsets.get(node.domain, 1), node.domain)
    if schema is None or any(name not in types for name in node.reads):
        return {}
    given = {name: type_proto(types[name]) for name in dict.fromkeys(node.reads)}
    data: dict[str, Any] = {}
    for name in given:
        array = constants[name].data if name in constants else None
        if array is not None and array.size <= PARAMETER_ELEMENTS:
            data[name] = onnx.numpy_helper.from_array(np.asarray(array, order="C"), name)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema, node_proto(node, opsets), given, data, opset_imports=imports, ir_version=10
        )
    except DAMAGE as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"node '{node.name}' ({node.kind}) is not valid: {first[:160]}") from None
    closed = ((name, _closed_type(proto)) for name, proto in found.items())
    return {name: kind for name, kind in closed if kind is not None}


def _closed_type(proto: Any) -> TensorType | None:
    if proto.WhichOneof("value") != "tensor_type" or not proto.tensor_type.HasField("shape"):
        return None
    tensor = proto.tensor_type
    dims = tensor.shape.dim
    known = all(d.WhichOneof("value") == "dim_value" and d.dim_value >= 0 for d in dims)
    if tensor.elem_type not in DTYPES or not known:
        return None
    return TensorType(DTYPES[tensor.elem_type], tuple(d.dim_value for d in dims))


def evaluate(node: Node, inputs: list[Array], opsets: Mapping[str, int]) -> list[Array] | None:
    """The node's results on constant inputs, or None where onnx's evaluator cannot do it."""
    from onnx.reference import ReferenceEvaluator  # heavy: only where there is something to fold

    try:
        evaluator = ReferenceEvaluator(node_proto(node, opsets), opsets=dict(opsets))
        feeds = dict(zip([name for name in node.inputs if name], inputs, strict=True))
        with np.errstate(all="ignore"):
            return [np.asarray(result) for result in evaluator.run(None, feeds)]
    except DAMAGE:
        return None
