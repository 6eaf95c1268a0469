"""Element by element, with broadcasting."""

from collections.abc import Callable
from functools import reduce
from math import pi, sqrt

import numpy as np

from tilewright.graph.graph import Array
from tilewright.graph.kernels.call import Call, Kernel, dtype_of_number, widened
from tilewright.graph.kernels.erf import erf
from tilewright.graph.kernels.quantised import dequantize, quantize

SELU_ALPHA, SELU_GAMMA = 1.6732632423543772, 1.0507009873554805


def _sigmoid(x: Array) -> Array:
    """Without overflow, and exact to the last bits far out on both sides."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return np.clip(alpha * x + beta, 0, 1)


def _celu(x: Array, alpha: float) -> Array:
    return np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0)


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _selu(x: Array, alpha: float, gamma: float) -> Array:
    return gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _gelu(call: Call) -> Array:
    x = call.array()
    if call.str_of("approximate", "none") == "tanh":
        return 0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + erf(x * sqrt(0.5)))


def _swish(x: Array, alpha: float) -> Array:
    return x * _sigmoid(alpha * x)


def _leaky_relu(x: Array, alpha: float) -> Array:
    return np.where(x >= 0, x, alpha * x)


def _thresholded(x: Array, alpha: float) -> Array:
    return np.where(x > alpha, x, np.zeros((), x.dtype))


def _shrink(x: Array, bias: float, limit: float) -> Array:
    shrunk = np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0))
    return shrunk.astype(x.dtype)


def _clip(call: Call) -> Array:
    """An upper bound below the lower one wins, as the standard says."""
    x, low, high = call.array(), call.optional(1), call.optional(2)
    x = x if low is None else np.maximum(x, low.reshape(()))
    return x if high is None else np.minimum(x, high.reshape(()))


def _is_inf(call: Call) -> Array:
    x = call.array()
    negative = np.isneginf(x) if call.int_of("detect_negative", 1) else np.zeros(x.shape, bool)
    positive = np.isposinf(x) if call.int_of("detect_positive", 1) else np.zeros(x.shape, bool)
    return negative | positive


def _dropout(call: Call) -> tuple[Array, Array]:
    x, training = call.array(), call.optional(2)
    if training is not None and training.any():
        raise call.refuse("in training")
    return x, np.ones(x.shape, dtype=bool)


def _div(call: Call) -> Array:
    """Whole numbers are divided toward zero."""
    a, b = call.array(0), call.array(1)
    if a.dtype.kind not in "iu":
        return np.divide(a, b)
    quotient = np.floor_divide(a, b)
    inexact = (quotient * b != a) & ((a < 0) != (b < 0))
    return quotient + inexact.astype(a.dtype)


def _pow(call: Call) -> Array:
    """In the type of the base."""
    base, exponent = call.array(0), call.array(1)
    if exponent.size == 1 and exponent.ndim <= base.ndim and exponent.reshape(-1)[0] == 2:
        return base * base
    if base.dtype.kind in "iu":
        return np.power(base.astype(np.float64), exponent.astype(np.float64)).astype(base.dtype)
    return np.power(base, exponent.astype(base.dtype))


def _expand(call: Call) -> Array:
    x = call.array()
    shape = np.broadcast_shapes(x.shape, call.list_of(1) or ())
    return np.broadcast_to(x, shape)


def _unary(function: Callable[[Array], Array]) -> Kernel:
    return lambda call: function(call.array())


def _binary(function: Callable[[Array, Array], Array]) -> Kernel:
    return lambda call: function(call.array(0), call.array(1))


def _curve(function: Callable[..., Array], **defaults: float) -> Kernel:
    """A function of one input, and of attributes that have these defaults."""
    return lambda call: function(
        call.array(), *(call.float_of(name, default) for name, default in defaults.items())
    )


def _fold(function: Callable[[Array, Array], Array]) -> Callable[[Call], Array]:
    """An operator with any number of inputs."""
    return lambda call: reduce(function, (call.array(i) for i in range(len(call.inputs))))


_FLOATING: dict[str, Kernel] = {
    "Acos": _unary(np.arccos),
    "Acosh": _unary(np.arccosh),
    "Asin": _unary(np.arcsin),
    "Asinh": _unary(np.arcsinh),
    "Atan": _unary(np.arctan),
    "Atanh": _unary(np.arctanh),
    "Ceil": _unary(np.ceil),
    "Celu": _curve(_celu, alpha=1.0),
    "Cos": _unary(np.cos),
    "Cosh": _unary(np.cosh),
    "Elu": _curve(_elu, alpha=1.0),
    "Erf": _unary(erf),
    "Exp": _unary(np.exp),
    "Floor": _unary(np.floor),
    "Gelu": _gelu,
    "HardSigmoid": _curve(_hard_sigmoid, alpha=0.2, beta=0.5),
    "HardSwish": _unary(lambda x: x * _hard_sigmoid(x, 1 / 6, 0.5)),
    "LeakyRelu": _curve(_leaky_relu, alpha=0.01),
    "Log": _unary(np.log),
    "Mish": _unary(lambda x: x * np.tanh(_softplus(x))),
    "Reciprocal": _unary(np.reciprocal),
    "Round": _unary(np.rint),
    "Selu": _curve(_selu, alpha=SELU_ALPHA, gamma=SELU_GAMMA),
    "Shrink": _curve(_shrink, bias=0.0, lambd=0.5),
    "Sigmoid": _unary(_sigmoid),
    "Sin": _unary(np.sin),
    "Sinh": _unary(np.sinh),
    "Softplus": _unary(_softplus),
    "Softsign": _unary(lambda x: x / (1 + np.abs(x))),
    "Sqrt": _unary(np.sqrt),
    "Swish": _curve(_swish, alpha=1.0),
    "Tan": _unary(np.tan),
    "Tanh": _unary(np.tanh),
    "ThresholdedRelu": _curve(_thresholded, alpha=1.0),
    "Add": _binary(np.add),
    "Div": _div,
    "Mean": lambda call: _fold(np.add)(call) / len(call.inputs),
    "Mod": lambda call: _binary(np.fmod if call.int_of("fmod", 0) else np.mod)(call),
    "Mul": _binary(np.multiply),
    "Pow": _pow,
    "PRelu": _binary(lambda x, slope: np.where(x < 0, slope * x, x)),
    "Sub": _binary(np.subtract),
    "Sum": _fold(np.add),
}

KERNELS: dict[str, Kernel] = {
    **{kind: widened(kernel) for kind, kernel in _FLOATING.items()},
    "Abs": _unary(np.abs),
    "BitwiseNot": _unary(np.invert),
    "Cast": lambda call: call.array().astype(dtype_of_number(call.int_of("to", 1))),
    "Clip": _clip,
    "Identity": _unary(lambda x: x),
    "IsInf": _is_inf,
    "IsNaN": _unary(np.isnan),
    "Neg": _unary(np.negative),
    "Not": _unary(np.logical_not),
    "Relu": _unary(lambda x: np.maximum(x, 0)),
    "Sign": _unary(np.sign),
    "And": _binary(np.logical_and),
    "BitShift": lambda call: _binary(
        np.left_shift if call.str_of("direction", "LEFT") == "LEFT" else np.right_shift
    )(call),
    "BitwiseAnd": _binary(np.bitwise_and),
    "BitwiseOr": _binary(np.bitwise_or),
    "BitwiseXor": _binary(np.bitwise_xor),
    "Equal": _binary(np.equal),
    "Greater": _binary(np.greater),
    "GreaterOrEqual": _binary(np.greater_equal),
    "Less": _binary(np.less),
    "LessOrEqual": _binary(np.less_equal),
    "Max": _fold(np.maximum),
    "Min": _fold(np.minimum),
    "Or": _binary(np.logical_or),
    "Where": lambda call: np.where(call.array(0), call.array(1), call.array(2)),
    "Xor": _binary(np.logical_xor),
    "Dropout": _dropout,
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "Expand": _expand,
}
