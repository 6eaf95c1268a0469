"""Resize: each axis has taps (where to read, with what weight), applied one axis at a time."""

from dataclasses import dataclass

import numpy as np

from tilewright.graph.graph import Array
from tilewright.graph.kernels.call import Call, Kernel, widened

_SINGLE = np.float32  # coordinates are rounded as runtimes do, so that ties fall alike
_TIE = 1e-6  # this near to the middle between two positions is the middle, as in onnxruntime


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis to resize: extents, scale, and the part that is read (crop mode only)."""

    extent: int
    result: int
    scale: float
    start: float
    stop: float


def _axes(call: Call, x: Array) -> tuple[_Axis, ...]:
    """What happens to every axis; those that are not named stay as they are."""
    rank = x.ndim
    named = call.ints_of("axes")
    named = tuple(range(rank)) if named is None else tuple(axis % rank for axis in named)
    region, scales, sizes = call.optional(1), call.optional(2), call.list_of(3)
    found = [_Axis(n, n, 1.0, 0.0, 1.0) for n in x.shape]
    if sizes:
        factors = [
            _SINGLE(size) / _SINGLE(x.shape[a]) for a, size in zip(named, sizes, strict=True)
        ]
        policy = call.str_of("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            shared = min(factors) if policy == "not_larger" else max(factors)
            factors = [shared] * len(named)
            sizes = tuple(int(np.floor(float(shared) * x.shape[a] + 0.5)) for a in named)
    elif scales is not None:
        factors = [_SINGLE(v) for v in scales.reshape(-1)]
        sizes = tuple(int(_SINGLE(x.shape[a]) * f) for a, f in zip(named, factors, strict=True))
    else:
        raise call.refuse("without scales or sizes")
    for place, axis in enumerate(named):
        start, stop = 0.0, 1.0
        if region is not None and region.size:
            flat = region.reshape(-1)
            start, stop = float(flat[place]), float(flat[place + len(named)])
        factor = float(factors[place])
        found[axis] = _Axis(x.shape[axis], sizes[place], factor, start, stop)
    return tuple(found)


def _coordinates(axis: _Axis, mode: str) -> Array:
    """Where each position of the result lies in the input, in single precision."""
    place = np.arange(axis.result, dtype=_SINGLE)
    scale, one, half = _SINGLE(axis.scale), _SINGLE(1), _SINGLE(0.5)
    extent, result = _SINGLE(axis.extent), _SINGLE(axis.result)
    match mode:
        case "align_corners":
            return np.zeros_like(place) if result == 1 else place * (extent - one) / (result - one)
        case "asymmetric":
            return place / scale
        case "tf_half_pixel_for_nn":
            return (place + half) / scale
        case "pytorch_half_pixel":
            return (place + half) / scale - half if result > 1 else np.zeros_like(place)
        case "half_pixel_symmetric":
            offset = extent / _SINGLE(2) * (one - result / (scale * extent))
            # The last line is in double precision where the others are not: runtimes do it so.
            exact = (place.astype(np.float64) + 0.5) / float(scale) - 0.5
            return (float(offset) + exact).astype(_SINGLE)
        case "tf_crop_and_resize":
            start, stop = _SINGLE(axis.start), _SINGLE(axis.stop)
            if result == 1:
                return half * (start + stop) * (extent - one) + place
            return start * (extent - one) + place * (stop - start) * (extent - one) / (result - one)
        case _:
            return (place + half) / scale - half


def _rounded(places: Array, mode: str) -> Array:
    exact = places.astype(np.float64)  # so that the sum with a half is not rounded
    match mode:
        case "floor":
            return np.floor(places)
        case "ceil":
            return np.ceil(places)
        case "round_prefer_ceil":
            return np.floor(exact + (0.5 + _TIE))
        case _:
            return np.ceil(exact - (0.5 + _TIE))


def _cubic_weights(distance: Array, a: float) -> Array:
    """Keys' kernel, of positive distances."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def _taps(call: Call, axis: _Axis, places: Array) -> tuple[Array, Array]:
    """Per position of the result, the positions that are read and their weights."""
    mode = call.str_of("mode", "nearest")
    if mode == "nearest":
        reads = _rounded(places, call.str_of("nearest_mode", "round_prefer_floor"))
        reads = reads.astype(np.int64)[:, None]
        return np.clip(reads, 0, axis.extent - 1), np.ones(reads.shape)
    # An antialiased kernel is stretched over all that one position of a smaller result stands for.
    stretch = max(1.0, 1 / axis.scale) if call.int_of("antialias", 0) else 1.0
    reach = int(np.ceil((1 if mode == "linear" else 2) * stretch))
    if mode == "linear" and stretch == 1:
        places = np.clip(places, 0, axis.extent - 1)
    exact = places.astype(np.float64)[:, None]
    reads = np.floor(exact).astype(np.int64) + np.arange(1 - reach, reach + 1)
    distance = np.abs(exact - reads) / stretch
    if mode == "linear":
        weights = np.maximum(0, 1 - distance)
    else:
        weights = _cubic_weights(distance, call.float_of("cubic_coeff_a", -0.75))
    if call.int_of("exclude_outside", 0):
        weights = np.where((reads >= 0) & (reads < axis.extent), weights, 0)
    total = weights.sum(axis=1, keepdims=True)
    return np.clip(reads, 0, axis.extent - 1), weights / total


def _resize(call: Call) -> Array:
    x, mode = call.array(), call.str_of("coordinate_transformation_mode", "half_pixel")
    crops = mode == "tf_crop_and_resize"
    axes, result = _axes(call, x), x
    if tuple(axis.result for axis in axes) == x.shape:
        return x.copy()  # whatever the scales are: runtimes do it so
    for number, axis in enumerate(axes):
        if axis.extent == axis.result and axis.scale == 1:
            continue
        places = _coordinates(axis, mode)
        reads, weights = _taps(call, axis, places)
        result = _apply(result, number, reads, weights)
        if crops:
            outside = (places < 0) | (places > axis.extent - 1)
            parts = (slice(None),) * number
            result[(*parts, outside)] = call.float_of("extrapolation_value", 0.0)
    if x.dtype.kind in "iu" and result.dtype != x.dtype:
        limits = np.iinfo(x.dtype)
        whole = np.rint(result) if call.int_of("antialias", 0) else np.trunc(result)
        return np.clip(whole, limits.min, limits.max).astype(x.dtype)
    return result


def _apply(x: Array, axis: int, reads: Array, weights: Array) -> Array:
    """One axis read at its taps; whole numbers become floats where they are mixed."""
    if reads.shape[1] == 1:
        return np.take(x, reads[:, 0], axis=axis)
    dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float32)
    shape = [1] * x.ndim
    shape[axis] = len(reads)
    total: Array | None = None
    for tap in range(reads.shape[1]):
        if len(reads) and not weights[:, tap].any():
            continue
        term = np.take(x, reads[:, tap], axis=axis) * weights[:, tap].astype(dtype).reshape(shape)
        total = term if total is None else np.add(total, term, out=total)
    assert total is not None
    return total


KERNELS: dict[str, Kernel] = {"Resize": widened(_resize)}
