"""Quantisation: scales and zero points, saturation, rounding half to even."""

import numpy as np

from tilewright.graph.graph import Array
from tilewright.graph.kernels.call import Call, dtype_of_number, wide

_NARROW = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}
_EXACT_SUM = 1 << 24  # float32 adds whole numbers below it without rounding


def saturated(values: Array, zero: Array | int, dtype: np.dtype) -> Array:
    """Real numbers as integers of a type: rounded half to even, shifted, held within its range."""
    if dtype.name in _NARROW:
        low, high = _NARROW[dtype.name]
    else:
        limits = np.iinfo(dtype)
        low, high = int(limits.min), int(limits.max)
    shifted = np.rint(values).astype(np.float64) + np.asarray(zero, dtype=np.float64)
    return np.clip(shifted, low, high).astype(np.int32).astype(dtype)


def along(parameter: Array, rank: int, axis: int) -> Array:
    """A parameter for all, or one per position of an axis, ready to broadcast."""
    if parameter.size == 1:
        return parameter.reshape(())
    shape = [1] * rank
    shape[axis] = parameter.size
    return parameter.reshape(shape)


def exact_float(depth: int) -> np.dtype:
    """The float type in which sums of so many products of 8-bit numbers are exact."""
    return np.dtype(np.float32 if depth * 255 * 255 < _EXACT_SUM else np.float64)


def without_zero(values: Array, zero: Array | None, dtype: np.dtype) -> Array:
    """Quantised numbers less their zero point, as floats that hold them exactly."""
    plain = values.astype(dtype)
    return plain if zero is None else plain - zero.astype(dtype)


def _parameter(call: Call, parameter: Array, shape: tuple[int, ...], axis: int) -> Array:
    """A scale or zero point, repeated where it serves blocks of an axis."""
    block = call.int_of("block_size", 0)
    if not block:
        return along(parameter, len(shape), axis)
    repeated = np.repeat(parameter, block, axis=axis)
    return repeated[(slice(None),) * axis + (slice(shape[axis]),)]


def quantize(call: Call) -> Array:
    x, zero = call.array(0), call.optional(2)
    axis = call.int_of("axis", 1) % max(1, x.ndim)
    number = call.int_of("output_dtype", 0)
    dtype = np.dtype(np.uint8) if not number else dtype_of_number(number)
    dtype = dtype if zero is None else zero.dtype
    if dtype.kind not in "iu" and dtype.name not in _NARROW:
        raise call.refuse(f"to {dtype.name}")
    scale = _parameter(call, wide(call.array(1)), x.shape, axis)
    shift = 0 if zero is None else _parameter(call, zero, x.shape, axis)
    return saturated(wide(x).astype(scale.dtype) / scale, shift, dtype)


def dequantize(call: Call) -> Array:
    """DequantizeLinear: in the type of its scale."""
    x, scale, zero = call.array(0), call.array(1), call.optional(2)
    axis = call.int_of("axis", 1) % max(1, x.ndim)
    number = call.int_of("output_dtype", 0)
    result = dtype_of_number(number) if number else scale.dtype
    shifted = x.astype(np.int64) if x.dtype.kind in "iu" else x.astype(np.float32)
    if zero is not None:
        shifted = shifted - _parameter(call, zero.astype(shifted.dtype), x.shape, axis)
    factor = _parameter(call, wide(scale), x.shape, axis)
    return (shifted.astype(factor.dtype) * factor).astype(result)
