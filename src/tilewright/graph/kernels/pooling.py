"""Pools, axis by axis: the largest or the sum of a window is that of its rows' results."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from tilewright.graph.graph import Array
from tilewright.graph.kernels.call import Call, Kernel, widened
from tilewright.graph.kernels.geometry import LEADING, Windows, window_of

Combine = Callable[..., Array]


def pool_window(call: Call, shape: tuple[int, ...]) -> Windows:
    """The window that a pool slides over an input of this shape."""
    kernel = call.ints_of("kernel_shape") or shape[LEADING:]
    return window_of(call, shape[LEADING:], kernel, ceil=bool(call.int_of("ceil_mode", 0)))


def _taps_inside(window: Windows, axis: int, low: int, high: int) -> Array:
    """How many taps of every window along an axis lie in this range of the unpadded input."""
    start = np.arange(window.result[axis]) * window.strides[axis] - window.before[axis]
    reads = start[:, None] + np.arange(window.kernel[axis]) * window.dilations[axis]
    return ((reads >= low) & (reads < high)).sum(axis=1)


def _slide(padded: Array, window: Windows, combine: Combine) -> Array:
    """Every window combined, one axis after the other."""
    result = padded
    parameters = zip(window.kernel, window.strides, window.dilations, window.result, strict=True)
    for axis, (kernel, stride, dilation, extent) in enumerate(parameters):
        lead = (slice(None),) * (LEADING + axis)
        span = (extent - 1) * stride + 1
        parts = [
            result[(*lead, slice(tap * dilation, tap * dilation + span, stride))]
            for tap in range(kernel)
        ]
        if kernel == 1:
            result = parts[0]
            continue
        result = combine(parts[0], parts[1])
        for part in parts[2:]:
            combine(result, part, out=result)
    return result


def _lowest(dtype: np.dtype[Any]) -> float:
    return int(np.iinfo(dtype).min) if dtype.kind in "iu" else -np.inf


def _max_pool(call: Call) -> Array | tuple[Array, Array]:
    """MaxPool, with the places of the largest where they are wanted."""
    x = call.array()
    window = pool_window(call, x.shape)
    padded = window.padded(x, _lowest(x.dtype))
    if call.outputs > 1:
        return _max_with_places(padded, x.shape, window, bool(call.int_of("storage_order", 0)))
    largest = _slide(padded, window, np.maximum)
    for axis, extent in enumerate(x.shape[LEADING:]):
        empty = _taps_inside(window, axis, 0, extent) == 0
        if empty.any() and x.dtype.name in ("float32", "float64"):
            # All taps of a dilated window may miss the input: runtimes then give no infinity.
            largest = np.array(largest)
            largest[(*(slice(None),) * (LEADING + axis), empty)] = np.finfo(x.dtype).min
    return largest


def _max_with_places(
    padded: Array, shape: tuple[int, ...], window: Windows, by_columns: bool
) -> tuple[Array, Array]:
    """The largest of each window and its number in the whole input; the first one wins."""
    extents = shape[LEADING:]
    rank = len(extents)
    best = np.full((*shape[:LEADING], *window.result), _lowest(padded.dtype), dtype=padded.dtype)
    place = np.zeros(best.shape, dtype=np.int64)
    found: Array = np.zeros(window.result, dtype=bool)
    for _, places in window.taps():
        position: Array = np.zeros((), dtype=np.int64)
        inside: Array = np.ones((), dtype=bool)
        for axis, (part, before) in enumerate(zip(places, window.before, strict=True)):
            here = _positions(part, before).reshape([-1 if a == axis else 1 for a in range(rank)])
            inner = extents[:axis] if by_columns else extents[axis + 1 :]
            position = position + here * prod(inner)
            inside = inside & (here >= 0) & (here < extents[axis])
        data = padded[(slice(None), slice(None), *places)]
        better: Array = inside & (~found | (data > best))
        best, place = np.where(better, data, best), np.where(better, position, place)
        found = found | inside
    first = np.arange(prod(shape[:LEADING])).reshape(*shape[:LEADING], *(1,) * rank)
    return best, place + first * prod(extents)


def _positions(part: slice, before: int) -> Array:
    """Places in the unpadded input of one tap along one axis."""
    return np.arange(int(part.start), int(part.stop), int(part.step)) - before


def _average_pool(call: Call) -> Array:
    x = call.array()
    window = pool_window(call, x.shape)
    total = _slide(window.padded(x, 0), window, np.add)
    include = bool(call.int_of("count_include_pad", 0))
    for axis, extent in enumerate(x.shape[LEADING:]):
        low = -window.before[axis] if include else 0
        high = extent + window.after[axis] if include else extent
        # A window that no tap of which lies inside is 0, not 0 / 0.
        count = np.maximum(1, _taps_inside(window, axis, low, high)).astype(x.dtype)
        total = total / count.reshape([-1] + [1] * (x.ndim - LEADING - axis - 1))
    return total


def _lp_pool(call: Call) -> Array:
    x, power = call.array(), call.int_of("p", 2)
    window = pool_window(call, x.shape)
    return _root(_slide(_power(window.padded(x, 0), power), window, np.add), power)


def _power(x: Array, power: int) -> Array:
    return np.abs(x) if power == 1 else x * x if power == 2 else np.abs(x) ** power


def _root(x: Array, power: int) -> Array:
    return x if power == 1 else np.sqrt(x) if power == 2 else x ** (1 / power)


def _over_space(x: Array, function: Callable[..., Array]) -> Array:
    """A reduction over all of an image's space."""
    return function(x, axis=tuple(range(LEADING, x.ndim)), keepdims=True)


def _global_lp_pool(call: Call) -> Array:
    x, power = call.array(), call.int_of("p", 2)
    return _root(_over_space(_power(x, power), np.sum), power)


def _response_norm(call: Call) -> Array:
    """LRN: each channel divided by a power of the squares around it."""
    x, size = call.array(), call.int_of("size", 1)
    before, channels = (size - 1) // 2, x.shape[1]
    squares = np.zeros((x.shape[0], channels + size - 1, *x.shape[2:]), dtype=x.dtype)
    squares[:, before : before + channels] = x * x
    total = squares[:, :channels].copy()
    for tap in range(1, size):
        total += squares[:, tap : tap + channels]
    scale = call.float_of("bias", 1.0) + call.float_of("alpha", 0.0001) / size * total
    return x / scale ** call.float_of("beta", 0.75)


KERNELS: dict[str, Kernel] = {
    "MaxPool": _max_pool,
    "AveragePool": widened(_average_pool),
    "LpPool": widened(_lp_pool),
    "GlobalAveragePool": widened(lambda call: _over_space(call.array(), np.mean)),
    "GlobalMaxPool": lambda call: _over_space(call.array(), np.max),
    "GlobalLpPool": widened(_global_lp_pool),
    "LRN": widened(_response_norm),
}
