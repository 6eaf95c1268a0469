"""Matrix products of floats and of quantised numbers."""

import numpy as np

from tilewright.graph.graph import Array
from tilewright.graph.kernels.blocks import product
from tilewright.graph.kernels.call import Call, Kernel, widened
from tilewright.graph.kernels.quantised import exact_float, saturated, without_zero


def _gemm(call: Call) -> Array:
    a, b, bias = call.array(0), call.array(1), call.optional(2)
    a = a.T if call.int_of("transA", 0) else a
    b = b.T if call.int_of("transB", 0) else b
    alpha, beta = call.float_of("alpha", 1.0), call.float_of("beta", 1.0)
    result = product(a, b)
    if alpha != 1:
        result = (result * alpha).astype(result.dtype)
    if bias is None:
        return result
    result += bias if beta == 1 else (bias * beta).astype(result.dtype)
    return result


def _rows(parameter: Array | None) -> Array | None:
    """A parameter of the left matrix: one for all, or one per row."""
    if parameter is None or parameter.size == 1:
        return None if parameter is None else parameter.reshape(())
    return parameter[:, None] if parameter.ndim == 1 else parameter


def _columns(parameter: Array | None) -> Array | None:
    """A parameter of the right matrix: one for all, or one per column."""
    return parameter.reshape(()) if parameter is not None and parameter.size == 1 else parameter


def _sums(a: Array, b: Array, a_zero: Array | None, b_zero: Array | None) -> Array:
    """The product of quantised matrices: exact, as whole floats."""
    dtype = exact_float(a.shape[-1])
    return product(without_zero(a, _rows(a_zero), dtype), without_zero(b, _columns(b_zero), dtype))


def _integer(call: Call) -> Array:
    sums = _sums(call.array(0), call.array(1), call.optional(2), call.optional(3))
    return sums.astype(np.int64).astype(np.int32)


def _quantised(call: Call) -> Array:
    sums = _sums(call.array(0), call.array(3), call.array(2), call.array(5))
    left, right, result = _rows(call.array(1)), _columns(call.array(4)), _rows(call.array(6))
    assert left is not None and right is not None and result is not None
    scale = left.astype(np.float32) * right.astype(np.float32) / result.astype(np.float32)
    zero = _rows(call.array(7))
    assert zero is not None
    return saturated(sums.astype(np.float32) * scale, zero, zero.dtype)


KERNELS: dict[str, Kernel] = {
    "MatMul": widened(lambda call: product(call.array(0), call.array(1))),
    "Gemm": widened(_gemm),
    "MatMulInteger": _integer,
    "QLinearMatMul": _quantised,
}
