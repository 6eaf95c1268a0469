"""Results that are no work once layouts are chosen: another look at bytes that are there."""

import numpy as np

from tilewright.graph.ops.spec import Op, Strides


def same_view(op: Op, source: Strides, output: int) -> Strides | None:
    """The input as it is."""
    return source if op.shape(0) == op.result(output).shape else None


def reshaped_view(op: Op, source: Strides, output: int) -> Strides | None:
    """Any shape whose axes join or divide axes that follow each other without gaps."""
    return _in_shape(source, op.result(output).shape)


def behind_reshape(op: Op, result: Strides) -> Strides | None:
    """The input of a reshape as a view of its result."""
    return _in_shape(result, op.shape(0))


def _in_shape(lying: Strides, shape: tuple[int, ...]) -> Strides | None:
    strides = _regrouped(lying, shape)
    return None if strides is None else Strides(lying.offset, shape, strides, lying.item)


def behind_transpose(op: Op, result: Strides) -> Strides | None:
    """The input of a transpose as a view of its result."""
    order = op.ints_of("perm") or tuple(reversed(range(len(result.shape))))
    strides = [0] * len(order)
    for axis, stride in zip(order, result.strides, strict=True):
        strides[axis] = stride
    return Strides(result.offset, op.shape(0), tuple(strides), result.item)


def transposed_view(op: Op, source: Strides, output: int) -> Strides | None:
    """The axes in another order."""
    order = op.ints_of("perm") or tuple(reversed(range(len(source.shape))))
    shape = tuple(source.shape[axis] for axis in order)
    strides = tuple(source.strides[axis] for axis in order)
    return Strides(source.offset, shape, strides, source.item)


def sliced_view(op: Op, source: Strides, output: int) -> Strides | None:
    """Some positions of the axes, forwards."""
    taken = slice_parameters(op)
    if taken is None or any(step < 0 for _, step in taken.values()):
        return None
    offset, strides = source.offset, list(source.strides)
    for axis, (start, step) in taken.items():
        offset += start * source.strides[axis]
        strides[axis] *= step
    return Strides(offset, op.result(output).shape, tuple(strides), source.item)


def split_view(op: Op, source: Strides, output: int) -> Strides | None:
    """One of the parts along an axis."""
    axis = op.int_of("axis", 0) % len(source.shape)
    start = sum(op.result(k).shape[axis] for k in range(output))
    offset = source.offset + start * source.strides[axis]
    return Strides(offset, op.result(output).shape, source.strides, source.item)


def joined_parts(op: Op, result: Strides) -> tuple[Strides, ...]:
    """Where each input of a concat lies inside its result."""
    axis = op.int_of("axis", 0) % len(result.shape)
    parts: list[Strides] = []
    offset = result.offset
    for index in range(len(op.inputs)):
        shape = op.shape(index)
        parts.append(Strides(offset, shape, result.strides, result.item))
        offset += shape[axis] * result.strides[axis]
    return tuple(parts)


def slice_parameters(op: Op) -> dict[int, tuple[int, int]] | None:
    """Axis -> first position taken and step; None where they are not constant."""
    shape = op.shape(0)
    values = [op.value_of(index) for index in range(1, 5)]
    if any(op.has(k) and values[k - 1] is None for k in range(1, 5)):
        return None
    starts = values[0]
    if starts is None:
        return None
    axes = values[2] if values[2] is not None else np.arange(len(starts))
    steps = values[3] if values[3] is not None else np.ones(len(starts), dtype=np.int64)
    taken: dict[int, tuple[int, int]] = {}
    for raw_axis, raw_start, raw_step in zip(axes, starts, steps, strict=True):
        axis, start, step = int(raw_axis) % len(shape), int(raw_start), int(raw_step)
        extent = shape[axis]
        start = start + extent if start < 0 else start
        taken[axis] = (min(max(start, 0), extent - 1 if step < 0 else extent), step)
    return taken


def _regrouped(source: Strides, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides that give the source's elements in another shape, None if there are none."""
    if 0 in shape:
        return dense_strides(shape, source.item)
    runs = _joined(source)
    room, step = 1, source.item  # what is left of the run that axes are cut from, and its stride
    strides: list[int] = []
    for extent in reversed(shape):
        if extent > 1 and room == 1 and runs:
            room, step = runs.pop()
        if room % extent:
            return None
        strides.append(step)
        room, step = room // extent, step * extent
    return tuple(reversed(strides)) if room == 1 and not runs else None


def _joined(view: Strides) -> list[tuple[int, int]]:
    """Extents and strides with axes joined as far as they go, outermost first."""
    runs: list[tuple[int, int]] = []
    for extent, stride in zip(view.shape, view.strides, strict=True):
        if extent == 1:
            continue
        if runs and runs[-1][1] == extent * stride:
            runs[-1] = (runs[-1][0] * extent, stride)
        else:
            runs.append((extent, stride))
    return runs


def dense_strides(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    """Row by row, without gaps."""
    strides: list[int] = []
    step = item
    for extent in reversed(shape):
        strides.append(step)
        step *= max(1, extent)
    return tuple(reversed(strides))
