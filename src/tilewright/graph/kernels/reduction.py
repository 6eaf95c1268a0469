"""Reductions, softmax and normalisations."""

from collections.abc import Callable
from math import prod

import numpy as np

from tilewright.graph.graph import Array
from tilewright.graph.kernels.call import Call, Kernel, wide, widened
from tilewright.graph.kernels.quantised import along

Axes = tuple[int, ...]
Reduce = Callable[[Array, Axes], Array]


def _sum(x: Array, axes: Axes) -> Array:
    """Floats are added in double precision, whole numbers in their own type."""
    dtype = np.float64 if x.dtype.kind == "f" else x.dtype
    return np.sum(x, axis=axes, keepdims=True, dtype=dtype)


def _mean(x: Array, axes: Axes) -> Array:
    count = prod(x.shape[axis] for axis in axes)
    total = _sum(x, axes)
    return total / count if x.dtype.kind == "f" else np.trunc(total / count)


def _log_sum_exp(x: Array, axes: Axes) -> Array:
    top = np.max(x, axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    return np.log(_sum(np.exp(x - top), axes)) + top


_REDUCE: dict[str, Reduce] = {
    "ReduceL1": lambda x, axes: _sum(np.abs(x), axes),
    "ReduceL2": lambda x, axes: np.sqrt(_sum(x * x, axes)),
    "ReduceLogSum": lambda x, axes: np.log(_sum(x, axes)),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": lambda x, axes: np.max(x, axis=axes, keepdims=True),
    "ReduceMean": _mean,
    "ReduceMin": lambda x, axes: np.min(x, axis=axes, keepdims=True),
    "ReduceProd": lambda x, axes: np.prod(x, axis=axes, keepdims=True, dtype=x.dtype),
    "ReduceSum": _sum,
    "ReduceSumSquare": lambda x, axes: _sum(x * x, axes),
}


def _reduction(function: Reduce) -> Kernel:
    """A reduction over axes that an attribute or the second input names."""

    def run(call: Call) -> Array:
        x = call.array()
        given = call.ints_of("axes") or call.list_of(1)
        if not given and call.int_of("noop_with_empty_axes", 0):
            return function(x, ()).astype(x.dtype)
        axes = tuple(sorted({axis % x.ndim for axis in given or range(x.ndim)}))
        result = function(x, axes).astype(x.dtype)
        return result if call.int_of("keepdims", 1) else np.squeeze(result, axis=axes)

    return run


def _arg(call: Call) -> Array:
    """ArgMax and ArgMin: the first of equal numbers, or the last."""
    x = call.array()
    axis = call.int_of("axis", 0) % x.ndim
    function = np.argmax if call.kind == "ArgMax" else np.argmin
    keep = bool(call.int_of("keepdims", 1))
    if call.int_of("select_last_index", 0):
        backward = function(np.flip(x, axis), axis=axis, keepdims=keep)
        return (x.shape[axis] - 1 - backward).astype(np.int64)
    return np.asarray(function(x, axis=axis, keepdims=keep)).astype(np.int64)


def _softmax(call: Call) -> Array:
    x, axis = call.array(), call.int_of("axis", -1)
    result = np.exp(x - np.max(x, axis=axis, keepdims=True))
    result /= np.sum(result, axis=axis, keepdims=True)
    return result


def _log_softmax(call: Call) -> Array:
    x, axis = call.array(), call.int_of("axis", -1)
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def _hardmax(call: Call) -> Array:
    x, axis = call.array(), call.int_of("axis", -1)
    result = np.zeros_like(x)
    np.put_along_axis(result, np.argmax(x, axis=axis, keepdims=True), 1, axis)
    return result


def _lp_normalization(call: Call) -> Array:
    x, axis, power = call.array(), call.int_of("axis", -1), call.int_of("p", 2)
    if power == 1:
        norm = np.sum(np.abs(x), axis=axis, keepdims=True)
    else:
        norm = np.sqrt(np.sum(x * x, axis=axis, keepdims=True))
    return np.where(norm == 0, 0, x / norm).astype(x.dtype)


def _cum_sum(call: Call) -> Array:
    x, axis = call.array(), (call.list_of(1) or (0,))[0] % call.array().ndim
    backward = bool(call.int_of("reverse", 0))
    x = np.flip(x, axis) if backward else x
    result = np.cumsum(x, axis=axis, dtype=x.dtype)
    if call.int_of("exclusive", 0):
        lead = (slice(None),) * axis
        shifted = np.zeros_like(result)
        shifted[(*lead, slice(1, None))] = result[(*lead, slice(None, -1))]
        result = shifted
    return np.flip(result, axis) if backward else result


def _layer_norm(call: Call) -> tuple[Array, ...]:
    """LayerNormalization: the result, the means, and one over the deviations."""
    given, scale, bias = call.array(0), call.array(1), call.optional(2)
    x = wide(given)
    axes = tuple(range(call.int_of("axis", -1) % x.ndim, x.ndim))
    mean = np.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    inverse = 1 / np.sqrt(
        np.mean(centred * centred, axis=axes, keepdims=True) + call.float_of("epsilon", 1e-5)
    )
    centred *= inverse
    result = centred * wide(scale)
    result = result if bias is None else result + wide(bias)
    return result.astype(given.dtype), mean, inverse


def _rms_norm(call: Call) -> Array:
    x, scale = call.array(0), call.array(1)
    axes = tuple(range(call.int_of("axis", -1) % x.ndim, x.ndim))
    square = np.mean(x * x, axis=axes, keepdims=True)
    return (x / np.sqrt(square + call.float_of("epsilon", 1e-5)) * scale).astype(x.dtype)


def _batch_norm(call: Call) -> Array:
    if call.int_of("training_mode", 0):
        raise call.refuse("in training")
    x, scale, bias, mean, variance = (call.array(index) for index in range(5))
    factor = scale / np.sqrt(variance + call.float_of("epsilon", 1e-5))
    shift = bias - mean * factor
    axis = min(1, x.ndim - 1)
    return (x * along(factor, x.ndim, axis) + along(shift, x.ndim, axis)).astype(x.dtype)


def _normalised(x: Array, epsilon: float) -> Array:
    """Mean 0 and deviation 1 over the axes behind the second."""
    axes = tuple(range(2, x.ndim))
    centred = x - np.mean(x, axis=axes, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=axes, keepdims=True) + epsilon)


def _instance_norm(call: Call) -> Array:
    x, scale, bias = call.array(0), call.array(1), call.array(2)
    normal = _normalised(x, call.float_of("epsilon", 1e-5))
    return normal * along(scale, x.ndim, 1) + along(bias, x.ndim, 1)


def _group_norm(call: Call) -> Array:
    """Before operator set 21 there is one scale and bias per group, since then per channel."""
    x, scale, bias = call.array(0), call.array(1), call.array(2)
    groups, channels = call.int_of("num_groups", 1), x.shape[1]
    grouped = x.reshape(x.shape[0], groups, -1)
    normal = _normalised(grouped, call.float_of("epsilon", 1e-5)).reshape(x.shape)
    if scale.size != channels:
        scale, bias = (np.repeat(p, channels // groups) for p in (scale, bias))
    return normal * along(scale, x.ndim, 1) + along(bias, x.ndim, 1)


KERNELS: dict[str, Kernel] = {
    **{kind: widened(_reduction(function)) for kind, function in _REDUCE.items()},
    "Softmax": widened(_softmax),
    "LogSoftmax": widened(_log_softmax),
    "Hardmax": _hardmax,
    "LpNormalization": widened(_lp_normalization),
    "CumSum": widened(_cum_sum),
    "ArgMax": _arg,
    "ArgMin": _arg,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": widened(_rms_norm),
    "BatchNormalization": widened(_batch_norm),
    "InstanceNormalization": widened(_instance_norm),
    "GroupNormalization": widened(_group_norm),
}
