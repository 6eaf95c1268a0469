"""Data movement: reshape, transpose, concat, split, slice, pad, gather, depth to space."""

from functools import partial
from math import gcd, prod

import numpy as np

from tilewright.geometry.access import (
    Access,
    AxisRule,
    Mirrored,
    Same,
    Scaled,
    Shifted,
    Strided,
    Whole,
    Window,
    only_padding,
)
from tilewright.graph.ops.spec import (
    Engine,
    Op,
    OpSpec,
    Step,
    Tile,
    free,
    in_shape,
    ints,
    of_first,
    rules_but,
    same_rules,
    whole_rules,
)
from tilewright.graph.ops.views import (
    behind_reshape,
    behind_transpose,
    joined_parts,
    reshaped_view,
    slice_parameters,
    sliced_view,
    split_view,
    transposed_view,
)


def _segments(first: tuple[int, ...], second: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """Axes of two shapes with the same number of elements, in the smallest runs that match."""
    segments: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(first) or j < len(second):
        left, right = [i] if i < len(first) else [], [j] if j < len(second) else []
        i, j = i + len(left), j + len(right)
        a, b = prod(first[x] for x in left), prod(second[x] for x in right)
        while a != b:
            if a < b:
                left.append(i)
                a, i = a * first[i], i + 1
            else:
                right.append(j)
                b, j = b * second[j], j + 1
        segments.append((left, right))
    return segments


def _reshape_access(op: Op, output: int) -> Access | None:
    """In a run of axes that are merged or parted, the outermost can be cut; inner ones cannot."""
    shape, result = op.shape(0), op.result().shape
    if prod(shape) == 0:
        return None
    rules: list[AxisRule] = [Whole(extent) for extent in shape]
    grain = list(result)
    for left, right in _segments(shape, result):
        outer_in = next((x for x in left if shape[x] > 1), None)
        outer_out = next((x for x in right if result[x] > 1), None)
        if outer_in is None or outer_out is None:
            continue
        inner_in = prod(shape[x] for x in left if x > outer_in)
        inner_out = prod(result[x] for x in right if x > outer_out)
        shared = gcd(inner_in, inner_out)
        grain[outer_out] = inner_in // shared
        rules[outer_in] = Scaled(outer_out, inner_out // shared, inner_in // shared)
    return of_first(op, result, tuple(grain), rules)


def _transpose_access(op: Op, output: int) -> Access | None:
    result = op.result().shape
    order = op.ints_of("perm") or tuple(reversed(range(len(result))))
    return of_first(op, result, free(result), (Same(order.index(a)) for a in range(len(result))))


def _concat_access(op: Op, output: int) -> Access | None:
    result = op.result().shape
    axis = op.int_of("axis", 0) % len(result)
    offset = 0
    inputs: list[tuple[AxisRule, ...]] = []
    for index in range(len(op.inputs)):
        rules = list(same_rules(len(result)))
        extent = op.shape(index)[axis]
        rules[axis] = Shifted(axis, -offset, extent)
        inputs.append(tuple(rules))
        offset += extent
    return Access(result, free(result), tuple(inputs))


def _concat_tile(op: Op, tile: Tile) -> tuple[Step, ...]:
    axis = op.int_of("axis", 0) % len(op.result().shape)
    parts: list[int] = []
    for index, reaches in enumerate(tile.inputs):
        assert reaches is not None
        if not reaches[axis].interval.empty:
            parts.append(index)
    if len(parts) == 1:
        return (Step("Identity", {}, (parts[0],)),)
    return (Step("Concat", {"axis": axis}, tuple(parts)),)


def _split_access(op: Op, output: int) -> Access | None:
    shape, result = op.shape(0), op.result(output).shape
    if any(kind is None for kind in op.outputs):
        return None
    axis = op.int_of("axis", 0) % len(shape)
    offset = sum(op.result(k).shape[axis] for k in range(output))
    rules = list(same_rules(len(shape)))
    rules[axis] = Shifted(axis, offset, shape[axis])
    return of_first(op, result, free(result), rules)


def _split_tile(op: Op, tile: Tile) -> tuple[Step, ...]:
    """Each part is a slice of what the tile read."""
    axis = op.int_of("axis", 0) % len(op.shape(0))
    reaches = tile.inputs[0]
    assert reaches is not None
    steps: list[Step] = []
    for index, box in enumerate(tile.outputs):
        if box is None or box.empty:
            continue
        offset = sum(op.result(k).shape[axis] for k in range(index)) - reaches[axis].interval.start
        starts = [i.start - r.interval.start for i, r in zip(box, reaches, strict=True)]
        starts[axis] = box[axis].start + offset
        stops = [start + extent for start, extent in zip(starts, box.shape, strict=True)]
        axes = list(range(len(starts)))
        steps.append(Step("Slice", {}, (0, ints(starts), ints(stops), ints(axes)), (index,)))
    return tuple(steps)


def _slice_access(op: Op, output: int) -> Access | None:
    taken = slice_parameters(op)
    if taken is None:
        return None
    result = op.result().shape
    rules = (Strided(a, *taken[a]) if a in taken else Same(a) for a in range(len(result)))
    return of_first(op, result, free(result), rules)


def _slice_tile(op: Op, tile: Tile) -> tuple[Step, ...]:
    taken = slice_parameters(op)
    assert taken is not None
    if all(step == 1 for _, step in taken.values()):
        return (Step("Identity", {}, (0,)),)
    box, reaches = tile.output, tile.inputs[0]
    assert reaches is not None
    axes = sorted(taken)
    starts: list[int] = []
    stops: list[int] = []
    for axis in axes:
        first, step = taken[axis]
        start = first + box[axis].start * step - reaches[axis].interval.start
        stop = start + box[axis].length * step
        starts.append(start)
        stops.append(stop if stop >= 0 else np.iinfo(np.int64).min)
    steps = [taken[axis][1] for axis in axes]
    return (Step("Slice", {}, (0, ints(starts), ints(stops), ints(axes), ints(steps))),)


def _pad_amounts(op: Op) -> tuple[list[int], list[int]] | None:
    rank = len(op.shape(0))
    value = op.value_of(1)
    if value is None or (op.has(3) and op.value_of(3) is None):
        return None
    pads = [int(v) for v in value]
    given = op.value_of(3)
    axes = [int(a) % rank for a in given] if given is not None else list(range(rank))
    before, after = [0] * rank, [0] * rank
    for position, axis in enumerate(axes):
        before[axis], after[axis] = pads[position], pads[position + len(axes)]
    return before, after


def _pad_cuttable(mode: str, before: int, after: int) -> bool:
    """Whether the padding of an axis is made from what a tile holds."""
    return mode == "constant" or (mode in ("reflect", "edge") and min(before, after) >= 0)


def _pad_access(op: Op, output: int) -> Access | None:
    amounts = _pad_amounts(op)
    if amounts is None:
        return None
    shape, result = op.shape(0), op.result().shape
    mode = op.str_of("mode", "constant")
    grain = list(free(result))
    rules: list[AxisRule] = []
    for axis, (before, after) in enumerate(zip(*amounts, strict=True)):
        if before == after == 0:
            rules.append(Same(axis))
        elif not _pad_cuttable(mode, before, after):
            rules.append(Whole(shape[axis]))
            grain[axis] = result[axis]
        elif mode == "constant":
            rules.append(Window(axis, 1, 1, 1, before, shape[axis]))
        else:
            rules.append(Mirrored(axis, before, shape[axis]))
    if only_padding(tuple(rules), result):
        return None
    return of_first(op, result, tuple(grain), rules)


def _pad_tile(op: Op, tile: Tile) -> tuple[Step, ...]:
    amounts, reaches = _pad_amounts(op), tile.inputs[0]
    assert amounts is not None and reaches is not None
    mode = op.str_of("mode", "constant")
    before, after = amounts
    for axis, reach in enumerate(reaches):
        if _pad_cuttable(mode, before[axis], after[axis]):
            before[axis], after[axis] = reach.before, reach.after
    if not any(before) and not any(after):
        return (Step("Identity", {}, (0,)),)
    fill = (2,) if op.has(2) else ()
    return (Step("Pad", {"mode": mode}, (0, ints([*before, *after]), *fill)),)


def _gather_access(op: Op, output: int) -> Access | None:
    """Axes of the data other than the gathered one, and the axes of the indices, are free."""
    shape, indices, result = op.shape(0), op.shape(1), op.result().shape
    axis = op.int_of("axis", 0) % len(shape)
    later = (Same(a + len(indices) - 1) for a in range(axis + 1, len(shape)))
    rules = (*map(Same, range(axis)), Whole(shape[axis]), *later)
    return Access(result, free(result), (rules, tuple(Same(axis + a) for a in range(len(indices)))))


def _blocks_access(op: Op, output: int) -> Access | None:
    """Blocks of space become depth, or come from it."""
    shape, result = op.shape(0), op.result().shape
    block = op.int_of("blocksize", 1)
    read, made = (1, block) if op.kind == "DepthToSpace" else (block, 1)
    spatial = (Scaled(2, read, made), Scaled(3, read, made))
    return Access(result, (1, result[1], made, made), ((Same(0), Whole(shape[1]), *spatial),))


def _repeat_access(op: Op, output: int) -> Access | None:
    """Axes that are repeated run whole, the others are free."""
    shape, result = op.shape(0), op.result().shape
    repeated = [axis for axis, extent in enumerate(shape) if extent != result[axis]]
    return of_first(op, result, free(result, repeated), rules_but(shape, repeated))


def _outer_axes_only(op: Op, output: int) -> Access | None:
    """Rows before the operator's axis are independent: top-k, one-hot of rows."""
    shape = op.shape(0)
    if sum(kind is not None for kind in op.outputs) > 1:
        return None
    axes = (op.int_of("axis", -1) % len(shape),)
    result = op.result(output).shape
    rest = (whole_rules(i.type.shape) if i is not None else None for i in op.inputs[1:])
    return Access(result, free(result, axes), (rules_but(shape, axes), *rest))


RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
_OUTER = "outermost axis of each merged run"
_BLOCKS = "batch, height, width"
_PADDED = "all (wrap mode: unpadded axes)"


_moving = partial(OpSpec, "layout", Engine.MOVE)
_reshaping = partial(_moving, view=reshaped_view, behind=behind_reshape)
_reshape_tile = partial(in_shape, kind="Reshape")
SPECS = (
    *(
        _reshaping(kind, _OUTER, _reshape_access, _reshape_tile, keeps_order=True)
        for kind in RESHAPES
    ),
    _moving("Transpose", "all", _transpose_access, view=transposed_view, behind=behind_transpose),
    _moving("Concat", "all", _concat_access, _concat_tile, parts=joined_parts),
    _moving("Split", "all", _split_access, _split_tile, view=split_view),
    _moving("Slice", "all", _slice_access, _slice_tile, view=sliced_view),
    _moving("Pad", _PADDED, _pad_access, _pad_tile),
    _moving("Gather", "all", _gather_access),
    *(_moving(kind, _BLOCKS, _blocks_access) for kind in ("DepthToSpace", "SpaceToDepth")),
    _moving("Tile", "axes not repeated", _repeat_access),
    OpSpec("layout", Engine.VECTOR, "TopK", "all but its own axis", _outer_axes_only),
)
