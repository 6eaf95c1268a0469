"""Convolutions as matrix products; depthwise ones tap by tap."""

from math import prod

import numpy as np

from tilewright.graph.graph import Array
from tilewright.graph.kernels.blocks import blocks, lengths, product
from tilewright.graph.kernels.call import Call, Kernel, widened
from tilewright.graph.kernels.geometry import LEADING, Windows, stated, window_of
from tilewright.graph.kernels.quantised import along, exact_float, saturated, without_zero

_CACHED_BYTES = 1 << 18  # of a depthwise result that is added to tap after tap


def _conv(call: Call) -> Array:
    return _convolve(call, call.array(0), call.array(1), call.optional(2))


def _conv_integer(call: Call) -> Array:
    """Exact sums, in int32."""
    return _quantised_sums(call, 1, 2, 3).astype(np.int64).astype(np.int32)


def _qlinear_conv(call: Call) -> Array:
    """Exact sums, scaled in float32, rounded and saturated."""
    sums, zero, bias = _quantised_sums(call, 3, 2, 5), call.array(7), call.optional(8)
    if bias is not None:
        sums = sums.astype(np.float64) + along(bias, sums.ndim, 1)
    scale = call.array(1).reshape(()) * call.array(4) / call.array(6).reshape(())
    scaled = sums.astype(np.float32) * along(scale, sums.ndim, 1)
    return saturated(scaled, zero.reshape(()), zero.dtype)


def _quantised_sums(call: Call, filters: int, x_zero: int, weight_zero: int) -> Array:
    """The convolution of quantised numbers: exact, as whole floats. Inputs by their positions."""
    x, weight = call.array(0), call.array(filters)
    zero, zeros = call.optional(x_zero), call.optional(weight_zero)
    dtype = exact_float(prod(weight.shape[1:]))
    zero = None if zero is None else zero.reshape(())
    zeros = None if zeros is None else along(zeros, weight.ndim, 0)
    return _convolve(call, without_zero(x, zero, dtype), without_zero(weight, zeros, dtype), None)


def _convolve(call: Call, x: Array, weight: Array, bias: Array | None) -> Array:
    window = window_of(call, x.shape[LEADING:], weight.shape[LEADING:])
    groups = call.int_of("group", 1)
    padded = window.padded(x, 0)
    if weight.shape[1] == 1 and groups > 1:
        result = _depthwise(padded, weight, window, groups)
    else:
        result = _by_columns(padded, weight, window, groups)
    if bias is not None:
        result += along(bias, x.ndim, 1)
    return result


def _by_columns(padded: Array, weight: Array, window: Windows, groups: int) -> Array:
    """One product per group of the filters with the columns: every window, written out."""
    batch, depth = padded.shape[0], prod(weight.shape[1:])
    filters = weight.shape[0] // groups
    matrix = weight.reshape(groups, filters, depth)
    columns = window.columns(padded)
    taps = (slice(None),) * (1 + len(window.kernel))
    result = np.empty((batch, groups, filters, *window.result), dtype=padded.dtype)
    # Columns of a 1x1 convolution are the input itself: there is nothing to write out.
    item_bytes = groups * depth * padded.itemsize if prod(window.kernel) > 1 else 0
    for region in blocks((batch, *window.result), item_bytes):
        count, *extents = lengths(region)
        part = columns[(region[0], *taps, *region[1:])]
        part = part.reshape(count, groups, depth, prod(extents))
        made = product(matrix, part).reshape(count, groups, filters, *extents)
        if made.shape == result.shape:
            result = made
        else:
            result[(region[0], slice(None), slice(None), *region[1:])] = made
    return result.reshape(batch, groups * filters, *window.result)


def _depthwise(padded: Array, weight: Array, window: Windows, groups: int) -> Array:
    """Tap by tap, over as many channels at a time as stay in the cache."""
    batch, multiplier = padded.shape[0], weight.shape[0] // groups
    factors = weight.reshape(groups, multiplier, *window.kernel)
    result = np.empty((batch, groups, multiplier, *window.result), dtype=padded.dtype)
    step = max(1, _CACHED_BYTES // max(1, result.nbytes // max(1, groups)))
    ones = (1,) * len(window.result)
    for start in range(0, groups, step):
        channels = slice(start, start + step)
        total = result[:, channels]
        term = np.empty_like(total)
        for index, (tap, places) in enumerate(window.taps()):
            data = padded[(slice(None), channels, *places)][:, :, None]
            factor = factors[(channels, slice(None), *tap)]
            factor = factor.reshape(1, *factor.shape, *ones)
            np.multiply(data, factor, out=term if index else total)
            if index:
                total += term
    return result.reshape(batch, groups * multiplier, *window.result)


def _transposed_window(call: Call, extents: tuple[int, ...], kernel: tuple[int, ...]) -> Windows:
    """The window of a transposed convolution: its result extents follow from its pads, or its
    pads from the extents that are asked for."""
    rank = len(extents)
    strides, dilations, pads, mode = stated(call, rank)
    extra = call.ints_of("output_padding") or (0,) * rank
    full = tuple(
        s * (extent - 1) + e + (k - 1) * d + 1
        for s, extent, e, k, d in zip(strides, extents, extra, kernel, dilations, strict=True)
    )
    wanted = call.ints_of("output_shape")
    if wanted is None and mode.startswith("SAME"):
        # Strides beyond the kernel's reach would leave the end empty: it is left out.
        wanted = tuple(min(n * s, f) for n, s, f in zip(extents, strides, full, strict=True))
    if wanted is not None:
        result = wanted[-rank:]
        totals = [max(0, f - r) for f, r in zip(full, result, strict=True)]
        upper = mode == "SAME_UPPER"
        before = tuple(t // 2 if upper else t - t // 2 for t in totals)
        after = tuple(t - b for t, b in zip(totals, before, strict=True))
        return Windows(kernel, strides, dilations, before, after, result)
    before, after = (pads[:rank], pads[rank:]) if mode == "NOTSET" else ((0,) * rank, (0,) * rank)
    result = tuple(f - b - a for f, b, a in zip(full, before, after, strict=True))
    return Windows(kernel, strides, dilations, before, after, result)


def _conv_transpose(call: Call) -> Array:
    """One product gives every tap of every position, which are then added up."""
    x, weight, bias = call.array(0), call.array(1), call.optional(2)
    groups, extents = call.int_of("group", 1), x.shape[LEADING:]
    window = _transposed_window(call, extents, weight.shape[LEADING:])
    batch, depth, filters = x.shape[0], x.shape[1] // groups, weight.shape[1]
    taps = prod(window.kernel)
    matrix = weight.reshape(groups, depth, filters * taps).swapaxes(1, 2)
    canvas = tuple(
        max(b + r, s * (extent - 1) + (k - 1) * d + 1)
        for b, r, s, extent, k, d in zip(
            window.before,
            window.result,
            window.strides,
            extents,
            window.kernel,
            window.dilations,
            strict=True,
        )
    )
    result = np.zeros((batch, groups, filters, *canvas), dtype=x.dtype)
    for region in blocks((batch, *extents), groups * filters * taps * x.itemsize):
        count, *inner = lengths(region)
        data = x[(region[0], slice(None), *region[1:])].reshape(count, groups, depth, prod(inner))
        made = product(matrix, data).reshape(count, groups, filters, *window.kernel, *inner)
        for tap in np.ndindex(*window.kernel):
            places = tuple(
                slice(t * d + part.start * s, t * d + (part.stop - 1) * s + 1, s)
                for t, d, s, part in zip(
                    tap, window.dilations, window.strides, region[1:], strict=True
                )
            )
            part = (slice(None), slice(None), slice(None))
            result[(region[0], *part[1:], *places)] += made[(*part, *tap)]
    kept = tuple(slice(b, b + r) for b, r in zip(window.before, window.result, strict=True))
    cropped = result.reshape(batch, groups * filters, *canvas)[(slice(None), slice(None), *kept)]
    return cropped if bias is None else cropped + along(bias, x.ndim, 1)


KERNELS: dict[str, Kernel] = {
    "Conv": widened(_conv),
    "ConvInteger": _conv_integer,
    "QLinearConv": _qlinear_conv,
    "ConvTranspose": widened(_conv_transpose),
}
