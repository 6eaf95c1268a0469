"""Operators on quantised numbers: dequantised, computed in float32, quantised again."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from tilewright.graph.graph import Array
from tilewright.graph.kernels.blocks import product
from tilewright.graph.kernels.call import Call, Kernel, Result
from tilewright.graph.kernels.quantised import exact_float, saturated, without_zero

_ONE = "AveragePool Gelu GlobalAveragePool HardSigmoid HardSwish LeakyRelu Mish Sigmoid Swish Tanh"
_TWO = "Add Mul"


def qlinear_kernels(kernels: Mapping[str, Kernel]) -> dict[str, Kernel]:
    """Kernels of the quantised forms, by those of the float operators inside them."""
    return {
        **{f"QLinear{kind}": _around(kind, kernels[kind], 1) for kind in _ONE.split()},
        **{f"QLinear{kind}": _around(kind, kernels[kind], 2) for kind in _TWO.split()},
        "QLinearSoftmax": _softmax(_around("Softmax", kernels["Softmax"], 1)),
        "QLinearConcat": _concat,
        "QGemm": _gemm,
    }


def _around(kind: str, kernel: Kernel, count: int) -> Kernel:
    """A float kernel between dequantised inputs and a quantised result."""

    def run(call: Call) -> Array:
        inputs = tuple(_real(call, 3 * k) for k in range(count))
        made = kernel(Call(kind, call.attributes, inputs, max(13, call.opset)))
        result = made[0] if isinstance(made, tuple) else made
        return _quantised(call, result, 3 * count)

    return run


def _softmax(kernel: Kernel) -> Kernel:
    """Before operator set 13 a softmax took all axes from its own on as one."""

    def run(call: Call) -> Result:
        if call.int_of("opset", 13) >= 13:
            return kernel(call)
        x = call.array()
        axis = call.int_of("axis", 1) % x.ndim
        flat = x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))
        made = kernel(replace(call, inputs=(flat, *call.inputs[1:]), attributes={"axis": -1}))
        assert not isinstance(made, tuple)
        return made.reshape(x.shape)

    return run


def _real(call: Call, index: int) -> Array:
    """A quantised input as the numbers that it stands for."""
    x, scale, zero = call.array(index), call.array(index + 1), call.optional(index + 2)
    shift = None if zero is None else zero.reshape(())
    return without_zero(x, shift, np.dtype(np.float32)) * scale.reshape(()).astype(np.float32)


def _quantised(call: Call, values: Array, index: int) -> Array:
    """Numbers in the scale, zero point and type that stand at an index."""
    scale, zero = call.array(index), call.optional(index + 1)
    dtype = call.array(0).dtype if zero is None else zero.dtype
    shift = 0 if zero is None else zero.reshape(())
    return saturated(values / scale.reshape(()).astype(np.float32), shift, dtype)


def _concat(call: Call) -> Array:
    parts = [_real(call, index) for index in range(2, len(call.inputs), 3)]
    return _quantised(call, np.concatenate(parts, axis=call.int_of("axis", 0)), 0)


def _gemm(call: Call) -> Array:
    """Exact sums, scaled in float32; without a scale of the result they stay floats."""
    a, b, bias = call.array(0), call.array(3), call.optional(6)
    dtype = exact_float(a.shape[0 if call.int_of("transA", 0) else 1])
    turned = bool(call.int_of("transB", 0))
    zero = call.array(5)
    zero = zero.reshape(()) if zero.size == 1 else zero.reshape((-1, 1) if turned else (1, -1))
    left = without_zero(a, call.array(2).reshape(()), dtype)
    right = without_zero(b, zero, dtype)
    left = left.T if call.int_of("transA", 0) else left
    sums = product(left, right.T if turned else right)
    if bias is not None:
        sums = sums.astype(np.float64) + bias
    scale = call.array(4)
    scale = scale.reshape(()) if scale.size == 1 else scale.reshape(1, -1)
    scale = scale.astype(np.float32) * call.array(1).reshape(()).astype(np.float32)
    scale = scale * np.float32(call.float_of("alpha", 1.0))
    target = call.optional(7)
    if target is None:
        return (sums.astype(np.float32) * scale).astype(np.float32)
    zero = call.optional(8)
    kind = a.dtype if zero is None else zero.dtype
    factor = scale / target.reshape(()).astype(np.float32)
    shift = 0 if zero is None else zero.reshape(())
    return saturated(sums.astype(np.float32) * factor, shift, kind)
