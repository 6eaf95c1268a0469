"""Element types and tensor types."""

from dataclasses import dataclass
from math import prod

# Bits of an element by type, in the order of the numbers that ONNX gives the types, from 1 on.
BITS = {
    "float32": 32,
    "uint8": 8,
    "int8": 8,
    "uint16": 16,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "string": 256,  # the size of a std::string; text is never tiled
    "bool": 8,
    "float16": 16,
    "float64": 64,
    "uint32": 32,
    "uint64": 64,
    "complex64": 64,
    "complex128": 128,
    "bfloat16": 16,
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "uint4": 4,
    "int4": 4,
    "float4_e2m1fn": 4,
    "float8_e8m0fnu": 8,
    "uint2": 2,
    "int2": 2,
}
ONNX_NUMBERS = {name: number for number, name in enumerate(BITS, start=1)}
# Integers that stand for real numbers, by a scale and a zero point.
QUANTISED = frozenset({"int8", "uint8", "int4", "uint4", "int2", "uint2"})
FLOATS = frozenset({"float64", "float32", "float16", "bfloat16"})


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type (numpy's name for it) and shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return -(-self.size * BITS[self.dtype] // 8)

    def with_shape(self, shape: tuple[int, ...]) -> "TensorType":
        return TensorType(self.dtype, shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{'x'.join(map(str, self.shape))}]"
