"""Translations of data movement: shapes, orders, parts, joins, look-ups, and other sizes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.frontend.pytorch.calls import AtenCall, Ref
from tilewright.frontend.pytorch.emit import Emitter
from tilewright.frontend.pytorch.products import Translation

_PADDING = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _reshape(e: Emitter, c: AtenCall) -> None:
    """view, reshape, flatten, squeeze, unsqueeze: the shape is known already."""
    kind = e.result(c)
    if e.type(c.source).dtype != kind.dtype:  # a view of the bits as another type
        e.whole(c)
        return
    e.reshape(c.source, kind.shape, c.results[0])


def _transpose(e: Emitter, c: AtenCall) -> None:
    """Two axes exchanged (transpose, t), or all of them put in order (permute)."""
    x, a = c.source, c.arguments
    rank = len(e.type(x).shape)
    order = list(range(rank))
    if "dims" in a:
        order = [int(axis) % rank for axis in a["dims"]]
    elif "dim0" in a:
        first, second = int(a["dim0"]) % max(1, rank), int(a["dim1"]) % max(1, rank)
        order[first], order[second] = order[second], order[first]
    else:
        order.reverse()
    e.transpose(x, order, c.results[0])


def _copy(e: Emitter, c: AtenCall) -> None:
    """contiguous, clone, dropout in inference; a cast where the type changes."""
    x, kind = c.source, e.result(c)
    if e.type(x).dtype != kind.dtype:
        e.cast(x, kind.dtype, c.results[0])
        return
    name = "Dropout" if c.target == "dropout" else "Identity"
    e.made(c, name, (x,))


def _alias(e: Emitter, c: AtenCall) -> None:
    """Nothing at all: another name."""
    e.same(c.results[0], c.source)


def _expand(e: Emitter, c: AtenCall) -> None:
    x, kind = c.source, e.result(c)
    e.made(c, "Expand", (x, e.ints(kind.shape)))


def _repeat(e: Emitter, c: AtenCall) -> None:
    x = c.source
    times = [int(n) for n in c.arguments["repeats"]]
    missing = len(times) - len(e.type(x).shape)
    if missing:
        x = e.reshape(x, (*[1] * missing, *e.type(x).shape))
    e.made(c, "Tile", (x, e.ints(times)))


def _cat(e: Emitter, c: AtenCall) -> None:
    kind, a = e.result(c), c.arguments
    names = [ref.name for ref in a["tensors"]]
    kept = [e.cast(n, kind.dtype) for n in names if e.type(n).size or len(names) == 1]
    axis = int(a.get("dim", 0)) % len(kind.shape)
    e.made(c, "Concat", kept, axis=axis)


def _stack(e: Emitter, c: AtenCall) -> None:
    kind, a = e.result(c), c.arguments
    axis = int(a.get("dim", 0)) % len(kind.shape)
    single = (*kind.shape[:axis], 1, *kind.shape[axis + 1 :])
    parts = [e.reshape(e.cast(ref.name, kind.dtype), single) for ref in a["tensors"]]
    e.made(c, "Concat", parts, axis=axis)


def _split(e: Emitter, c: AtenCall) -> None:
    """split, split_with_sizes, chunk: the sizes are known already."""
    x = c.source
    rank = len(e.type(x).shape)
    axis = int(c.arguments.get("dim", 0)) % rank
    results = [(name, e.type(name)) for name in c.results if name is not None]
    sizes = e.ints([kind.shape[axis] for _, kind in results])
    e.several("Split", (x, sizes), results, axis=axis)


def _unbind(e: Emitter, c: AtenCall) -> None:
    x = c.source
    axis = int(c.arguments.get("dim", 0)) % len(e.type(x).shape)
    for position, name in enumerate(c.results):
        if name is not None:
            _taken(e, x, axis, position, name)


def _select(e: Emitter, c: AtenCall) -> None:
    x, a = c.source, c.arguments
    shape = e.type(x).shape
    axis = int(a["dim"]) % len(shape)
    _taken(e, x, axis, int(a["index"]) % shape[axis], c.results[0])


def _taken(e: Emitter, x: str, axis: int, position: int, result: str | None) -> None:
    """One position of an axis, which goes."""
    kind = e.type(result or "")
    index = e.constant(np.asarray(position, np.int64), f"{result}/index")
    e.op("Gather", (x, index), kind.shape, kind.dtype, result=result, axis=axis)


def _slice(e: Emitter, c: AtenCall) -> None:
    x, a = c.source, c.arguments
    shape = e.type(x).shape
    axis, step = int(a.get("dim", 0)) % len(shape), int(a.get("step", 1) or 1)
    extent = shape[axis]
    if c.target == "narrow":
        start = int(a["start"])
        stop = start + int(a["length"])
    else:
        start = int(a.get("start") or 0)
        stop = extent if a.get("end") is None else int(a["end"])
    start = max(0, start + extent if start < 0 else start)
    stop = min(extent, stop + extent if stop < 0 else stop)
    kind = e.result(c)
    _sliced(e, x, axis, (start, stop, step), kind.shape, c.results[0])


def _sliced(
    e: Emitter,
    x: str,
    axis: int,
    span: tuple[int, int, int],
    shape: tuple[int, ...],
    result: str | None = None,
) -> str:
    inputs = (x, e.ints(span[:1]), e.ints(span[1:2]), e.ints((axis,)), e.ints(span[2:]))
    return e.op("Slice", inputs, shape, e.type(x).dtype, result=result)


def _roll(e: Emitter, c: AtenCall) -> None:
    """Each axis parted and joined the other way round."""
    x, a = c.source, c.arguments
    axes = [int(d) for d in a["dims"]]
    if not axes:
        e.whole(c)
        return
    kind = e.type(x)
    value = x
    for axis, shift in zip(axes, a["shifts"], strict=True):
        axis %= len(kind.shape)
        extent = kind.shape[axis]
        cut = extent - int(shift) % extent
        if cut == extent:
            continue
        low = (*kind.shape[:axis], cut, *kind.shape[axis + 1 :])
        high = (*kind.shape[:axis], extent - cut, *kind.shape[axis + 1 :])
        parts = [
            _sliced(e, value, axis, (cut, extent, 1), high),
            _sliced(e, value, axis, (0, cut, 1), low),
        ]
        value = e.op("Concat", parts, kind.shape, kind.dtype, axis=axis)
    e.made(c, "Identity", (value,))


def _embedding(e: Emitter, c: AtenCall) -> None:
    a = c.arguments
    e.made(c, "Gather", (a["weight"].name, a["indices"].name), axis=0)


def _gather(e: Emitter, c: AtenCall) -> None:
    """Positions of an axis (index_select), or one for every element (gather)."""
    a = c.arguments
    axis = int(a["dim"]) % max(1, len(e.type(c.source).shape))
    name = "GatherElements" if c.target == "gather" else "Gather"
    e.made(c, name, (c.source, a["index"].name), axis=axis)


def _index(e: Emitter, c: AtenCall) -> None:
    """x[i] with one list of positions; several at once run whole."""
    indices: list[Any] = list(c.arguments["indices"])
    given = [(axis, ref) for axis, ref in enumerate(indices) if isinstance(ref, Ref)]
    if len(given) != 1 or e.type(given[0][1].name).dtype not in ("int64", "int32"):
        e.whole(c)
        return
    axis, ref = given[0]
    e.made(c, "Gather", (c.source, ref.name), axis=axis)


def _pad(e: Emitter, c: AtenCall) -> None:
    x, a = c.source, c.arguments
    given = [int(p) for p in a.get("pad", a.get("padding", ()))]
    mode = str(a.get("mode", "constant"))
    if "reflection" in c.target or "replication" in c.target:
        mode = "reflect" if "reflection" in c.target else "replicate"
    rank, kind = len(e.type(x).shape), e.result(c)
    before, after = [0] * rank, [0] * rank
    for position in range(len(given) // 2):
        axis = rank - 1 - position
        before[axis], after[axis] = given[2 * position], given[2 * position + 1]
    inputs = [x, e.ints([*before, *after])]
    if mode == "constant":
        inputs.append(e.number(a.get("value") or 0.0, kind.dtype))
    e.made(c, "Pad", inputs, mode=_PADDING[mode])


def _pixel_shuffle(e: Emitter, c: AtenCall) -> None:
    if len(e.type(c.source).shape) != 4:
        e.whole(c)
        return
    factor = int(c.arguments["upscale_factor"])
    e.made(c, "DepthToSpace", (c.source,), blocksize=factor, mode="CRD")


def _upsample(e: Emitter, c: AtenCall) -> None:
    """Nearest and linear resizing to a size that is known already."""
    x, kind, a = c.source, e.result(c), c.arguments
    modes = {"nearest": "nearest", "bilinear": "linear", "linear": "linear", "trilinear": "linear"}
    mode = next((modes[m] for m in modes if f"upsample_{m}" in c.target), "")
    if not mode or "exact" in c.target:
        e.whole(c)
        return
    how = "align_corners" if a.get("align_corners") else "half_pixel"
    extra: dict[str, Any] = {"coordinate_transformation_mode": how, "mode": mode}
    if mode == "nearest":
        extra |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    source = e.type(x).shape
    scales = np.asarray([r / s for r, s in zip(kind.shape, source, strict=True)], np.float32)
    whole = all(r % s == 0 for r, s in zip(kind.shape, source, strict=True))
    if whole:
        inputs = (x, "", e.constant(scales, f"{c.operator}/scales"))
    else:
        inputs = (x, "", "", e.ints(kind.shape))
    e.made(c, "Resize", inputs, **extra)


def _filled(e: Emitter, c: AtenCall) -> None:
    """A tensor of one number, as large as another one."""
    a, kind = c.arguments, e.result(c)
    value = a.get("fill_value", 1 if "ones" in c.target else 0)
    if isinstance(value, Ref) or kind.dtype == "bfloat16":
        e.whole(c)
        return
    e.same(c.results[0], e.filled(value, kind.shape, kind.dtype))


TRANSLATIONS: Mapping[str, Translation] = {
    **dict.fromkeys(
        "view reshape _unsafe_view flatten unflatten squeeze unsqueeze view_as reshape_as".split(),
        _reshape,
    ),
    **dict.fromkeys("transpose permute t numpy_T swapaxes".split(), _transpose),
    **dict.fromkeys(
        "contiguous clone dropout feature_dropout alpha_dropout to _to_copy type_as".split(), _copy
    ),
    **dict.fromkeys("alias detach lift_fresh lift_fresh_copy lift".split(), _alias),
    "expand": _expand,
    "expand_as": _expand,
    "repeat": _repeat,
    "cat": _cat,
    "concat": _cat,
    "stack": _stack,
    **dict.fromkeys("split split_with_sizes chunk unsafe_split unsafe_chunk".split(), _split),
    "unbind": _unbind,
    "select": _select,
    "slice": _slice,
    "narrow": _slice,
    "roll": _roll,
    "embedding": _embedding,
    "index_select": _gather,
    "index": _index,
    "gather": _gather,
    **dict.fromkeys(
        "pad constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d "
        "replication_pad2d".split(),
        _pad,
    ),
    **dict.fromkeys("zeros_like ones_like full_like new_zeros new_ones new_full".split(), _filled),
    "pixel_shuffle": _pixel_shuffle,
    **dict.fromkeys(
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d "
        "upsample_linear1d upsample_trilinear3d".split(),
        _upsample,
    ),
}
