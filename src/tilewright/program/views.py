"""Operators that are no work at all once layouts are chosen: their result is a view of what is
there. Asked by the planner (can it be one?) and by the builder (which one?)."""

from tilewright.graph.ops.layout import slice_parameters
from tilewright.graph.ops.spec import Op
from tilewright.program.layout import dense_strides
from tilewright.program.program import View

SHORTEST_RUN = 64  # bytes; a view that scatters reads into shorter runs is no gain


def view_of(op: Op, source: View, output: int = 0) -> View | None:
    """The operator's result as a view of its first input, or None where bytes have to move."""
    rule = _VIEWS.get(op.kind)
    view = rule(op, source, output) if rule is not None else None
    if view is None or view.bytes <= SHORTEST_RUN:
        return view
    run, _ = view.runs()
    return view if run >= min(SHORTEST_RUN, source.runs()[0]) else None


def _same(op: Op, source: View, output: int) -> View | None:
    return source if op.shape(0) == op.result(output).shape else None


def _reshaped(op: Op, source: View, output: int) -> View | None:
    """Any shape whose axes join or divide axes that follow each other without gaps."""
    shape = op.result(output).shape
    strides = _regrouped(source, shape)
    if strides is None:
        return None
    return View(source.buffer, source.offset, shape, strides, source.dtype, source.item)


def _transposed(op: Op, source: View, output: int) -> View | None:
    order = op.ints_of("perm") or tuple(reversed(range(len(source.shape))))
    shape = tuple(source.shape[axis] for axis in order)
    strides = tuple(source.strides[axis] for axis in order)
    return View(source.buffer, source.offset, shape, strides, source.dtype, source.item)


def _sliced(op: Op, source: View, output: int) -> View | None:
    taken = slice_parameters(op)
    if taken is None or any(step < 0 for _, step in taken.values()):
        return None
    offset, strides = source.offset, list(source.strides)
    for axis, (start, step) in taken.items():
        offset += start * source.strides[axis]
        strides[axis] *= step
    shape = op.result(output).shape
    return View(source.buffer, offset, shape, tuple(strides), source.dtype, source.item)


def _split(op: Op, source: View, output: int) -> View | None:
    axis = op.int_of("axis", 0) % len(source.shape)
    start = sum(op.result(k).shape[axis] for k in range(output))
    shape = op.result(output).shape
    offset = source.offset + start * source.strides[axis]
    return View(source.buffer, offset, shape, source.strides, source.dtype, source.item)


def concat_parts(op: Op, result: View) -> list[View]:
    """Where each input of a concat lies inside its result."""
    axis = op.int_of("axis", 0) % len(result.shape)
    parts: list[View] = []
    start = 0
    for index in range(len(op.inputs)):
        shape = op.shape(index)
        offset = result.offset + start * result.strides[axis]
        parts.append(View(result.buffer, offset, shape, result.strides, result.dtype, result.item))
        start += shape[axis]
    return parts


def _regrouped(source: View, shape: tuple[int, ...]) -> tuple[int, ...] | None:
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


def _joined(view: View) -> list[tuple[int, int]]:
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


_VIEWS = {
    "Identity": _same,
    "Reshape": _reshaped,
    "Flatten": _reshaped,
    "Squeeze": _reshaped,
    "Unsqueeze": _reshaped,
    "Transpose": _transposed,
    "Slice": _sliced,
    "Split": _split,
}
