"""Element types by the number that ONNX attributes give them."""

import numpy as np

from tilewright.errors import ModelError

_NAMES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
}


def dtype_of_number(number: int) -> np.dtype:
    """The element type of an attribute such as Cast's `to`."""
    name = _NAMES.get(number)
    try:
        return np.dtype(name or "no such type")
    except TypeError:  # bfloat16 and narrower are there only once some package registered them
        raise ModelError(f"numpy has no element type {name or number}") from None
