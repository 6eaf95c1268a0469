"""Data movement: reshape, transpose, concat, split, slice, pad, gather, depth to space."""

from typing import Any

import numpy as np

from tilewright.graph.graph import Array
from tilewright.graph.kernels.call import Call, Kernel


def _reshape(call: Call) -> Array:
    x, wanted = call.array(), call.list_of(1) or ()
    if call.int_of("allowzero", 0):
        return x.reshape(wanted)
    return x.reshape([x.shape[axis] if v == 0 else v for axis, v in enumerate(wanted)])


def _flatten(call: Call) -> Array:
    x = call.array()
    axis = call.int_of("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    return x.reshape(rows, int(np.prod(x.shape[axis:], dtype=np.int64)))


def _concat(call: Call) -> Array:
    parts = [array for array in call.inputs if array is not None]
    return np.concatenate(parts, axis=call.int_of("axis", 0))


def _split(call: Call) -> tuple[Array, ...]:
    """By sizes, or into equal parts of which the last may be smaller."""
    x, sizes = call.array(), call.list_of(1)
    axis = call.int_of("axis", 0) % x.ndim
    if sizes is None:
        count, extent = call.int_of("num_outputs", call.outputs), x.shape[axis]
        size = -(-extent // count)
        sizes = tuple(max(0, min(size, extent - k * size)) for k in range(count))
    return tuple(np.split(x, np.cumsum(sizes[:-1]), axis=axis))


def _slice(call: Call) -> Array:
    x = call.array()
    starts, ends = call.list_of(1) or (), call.list_of(2) or ()
    axes = call.list_of(3) or tuple(range(len(starts)))
    steps = call.list_of(4) or (1,) * len(starts)
    parts = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # Python's slices clamp as the standard does, except below the first with negative steps.
        stop = None if step < 0 and end < -x.shape[axis] else end
        parts[axis] = slice(start, stop, step)
    return x[tuple(parts)]


def _pad(call: Call) -> Array:
    x, pads, fill = call.array(), call.list_of(1) or (), call.optional(2)
    axes = call.list_of(3)
    axes = tuple(range(x.ndim)) if axes is None else tuple(axis % x.ndim for axis in axes)
    amounts = dict(zip(axes, zip(pads[: len(axes)], pads[len(axes) :], strict=True), strict=True))
    # Negative amounts crop first; what is left is then extended.
    crops = [slice(None)] * x.ndim
    for axis, (before, after) in amounts.items():
        crops[axis] = slice(max(0, -before), x.shape[axis] - max(0, -after))
    x = x[tuple(crops)]
    sides = (amounts.get(axis, (0, 0)) for axis in range(x.ndim))
    extents = [(max(0, before), max(0, after)) for before, after in sides]
    mode: Any = call.str_of("mode", "constant")
    if mode == "constant":
        value = 0 if fill is None else fill.reshape(-1)[0]
        return np.pad(x, extents, mode, constant_values=value)
    return np.pad(x, extents, mode)


def _depth_to_space(call: Call) -> Array:
    x, block = call.array(), call.int_of("blocksize", 1)
    batch, channels, height, width = x.shape
    depth = channels // (block * block)
    if call.str_of("mode", "DCR") == "DCR":
        parts = x.reshape(batch, block, block, depth, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(batch, depth, block, block, height, width).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(batch, depth, height * block, width * block)


def _space_to_depth(call: Call) -> Array:
    x, block = call.array(), call.int_of("blocksize", 1)
    batch, channels, height, width = x.shape
    rows, columns = height // block, width // block
    parts = x.reshape(batch, channels, rows, block, columns, block).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(batch, channels * block * block, rows, columns)


def _top_k(call: Call) -> tuple[Array, Array]:
    """Sorted; of equal numbers the first comes first."""
    x, count = call.array(), (call.list_of(1) or (0,))[0]
    axis = call.int_of("axis", -1) % x.ndim
    if call.int_of("largest", 1):
        backward = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        order = x.shape[axis] - 1 - np.flip(backward, axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    kept = np.take(order, np.arange(count), axis=axis)
    return np.take_along_axis(x, kept, axis), kept.astype(np.int64)


KERNELS: dict[str, Kernel] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": lambda call: np.squeeze(call.array(), axis=call.list_of(1)),
    "Unsqueeze": lambda call: np.expand_dims(call.array(), axis=call.list_of(1) or ()),
    "Transpose": lambda call: np.transpose(call.array(), call.ints_of("perm")),
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Gather": lambda call: np.take(call.array(0), call.array(1), axis=call.int_of("axis", 0)),
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Tile": lambda call: np.tile(call.array(), call.list_of(1) or ()),
    "TopK": _top_k,
}
