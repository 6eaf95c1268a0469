# pyright: basic
"""What both directions share: element types, operators' schemas, what damaged bytes raise."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import onnx
import onnx.checker
import onnx.defs
import onnx.helper
import onnx.shape_inference
from google.protobuf.message import DecodeError

from tilewright.graph.types import ONNX_NUMBERS, TensorType

DTYPES: Mapping[int, str] = {number: name for name, number in ONNX_NUMBERS.items()}

# What onnx and protobuf raise on bytes that are no model, or a damaged one.
DAMAGE = (
    DecodeError,
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    RuntimeError,  # and what it is the base of: not implemented, nested too deep
    OverflowError,
    AssertionError,
    MemoryError,
)
NEWEST_OPSET: int = onnx.defs.onnx_opset_version()


@lru_cache(maxsize=4096)
def schema_of(kind: str, version: int, domain: str) -> Any:
    """The operator as its domain defines it, or None where onnx does not know it."""
    try:
        return onnx.defs.get_schema(kind, version, domain)
    except onnx.defs.SchemaError:
        return None


def type_proto(kind: TensorType) -> Any:
    """A tensor's type as onnx writes it."""
    return onnx.helper.make_tensor_type_proto(ONNX_NUMBERS[kind.dtype], kind.shape)
