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

from tilewright.graph.types import TensorType

DTYPES: Mapping[int, str] = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.DOUBLE: "float64",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.BFLOAT16: "bfloat16",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.INT32: "int32",
    onnx.TensorProto.INT16: "int16",
    onnx.TensorProto.INT8: "int8",
    onnx.TensorProto.UINT64: "uint64",
    onnx.TensorProto.UINT32: "uint32",
    onnx.TensorProto.UINT16: "uint16",
    onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.BOOL: "bool",
    onnx.TensorProto.COMPLEX64: "complex64",
    onnx.TensorProto.COMPLEX128: "complex128",
    onnx.TensorProto.STRING: "string",
    onnx.TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    onnx.TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    onnx.TensorProto.FLOAT8E5M2: "float8_e5m2",
    onnx.TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    onnx.TensorProto.FLOAT8E8M0: "float8_e8m0fnu",
    onnx.TensorProto.FLOAT4E2M1: "float4_e2m1fn",
    onnx.TensorProto.INT4: "int4",
    onnx.TensorProto.UINT4: "uint4",
    onnx.TensorProto.INT2: "int2",
    onnx.TensorProto.UINT2: "uint2",
}
_CODES = {name: code for code, name in DTYPES.items()}

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
    RuntimeError,
    OverflowError,
    AssertionError,
    NotImplementedError,
    MemoryError,
    RecursionError,
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
    return onnx.helper.make_tensor_type_proto(_CODES[kind.dtype], kind.shape)
