"""Translations of normalisations, pools and reductions."""

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.frontend.pytorch.calls import AtenCall, Ref
from tilewright.frontend.pytorch.emit import Emitter
from tilewright.frontend.pytorch.products import Translation, per_axis

_REDUCE = {
    "mean": "ReduceMean",
    "sum": "ReduceSum",
    "amax": "ReduceMax",
    "amin": "ReduceMin",
    "prod": "ReduceProd",
    "logsumexp": "ReduceLogSumExp",
}


def _scale_and_shift(e: Emitter, c: AtenCall) -> list[str]:
    """Weight and bias of a norm, one number for each channel; where absent, ones and zeros."""
    kind = e.result(c)
    dtype = kind.dtype if kind.dtype != "bfloat16" else "float32"
    given = (c.arguments.get("weight"), 1.0), (c.arguments.get("bias"), 0.0)
    return [
        value.name if isinstance(value, Ref) else e.filled(otherwise, (kind.shape[1],), dtype)
        for value, otherwise in given
    ]


def _batch_norm(e: Emitter, c: AtenCall) -> None:
    a, x = c.arguments, c.source
    mean, variance = a.get("running_mean"), a.get("running_var")
    if a.get("training") or not isinstance(mean, Ref) or not isinstance(variance, Ref):
        e.whole(c)
        return
    parts = [*_scale_and_shift(e, c), mean.name, variance.name]
    epsilon = float(a.get("eps", a.get("epsilon", 1e-5)))
    e.made(c, "BatchNormalization", (x, *parts), epsilon=epsilon)


def _layer_norm(e: Emitter, c: AtenCall) -> None:
    a, x = c.arguments, c.source
    kind, normalised = e.result(c), list(a["normalized_shape"])
    weight = a.get("weight")
    scale = weight.name if isinstance(weight, Ref) else ""
    if not scale:
        scale = e.filled(1.0, tuple(normalised), kind.dtype)
    inputs = [x, scale]
    if isinstance(a.get("bias"), Ref):
        inputs.append(a["bias"].name)
    e.made(c, "LayerNormalization", inputs, axis=-len(normalised), epsilon=float(a["eps"]))


def _group_norm(e: Emitter, c: AtenCall) -> None:
    """Reshape, InstanceNormalization, Reshape, Mul, Add: as exporters write it."""
    a, x = c.arguments, c.source
    kind = e.result(c)
    groups = int(a["num_groups"] if "num_groups" in a else a["group"])
    shape, dtype = kind.shape, kind.dtype
    ones, zeros = e.filled(1.0, (groups,), dtype), e.filled(0.0, (groups,), dtype)
    grouped = (shape[0], groups, kind.size // max(1, shape[0] * groups))
    value = e.op(
        "InstanceNormalization",
        (e.reshape(x, grouped), ones, zeros),
        grouped,
        dtype,
        epsilon=float(a["eps"]),
    )
    value = e.reshape(value, shape)
    weight, bias = a.get("weight"), a.get("bias")
    along = (shape[1], *[1] * (len(shape) - 2))
    for kind_, part in (("Mul", weight), ("Add", bias)):
        if isinstance(part, Ref):
            value = e.op(kind_, (value, _shaped(e, part.name, along)), shape, dtype)
    e.same(c.results[0], value)


def _shaped(e: Emitter, parameter: str, shape: tuple[int, ...]) -> str:
    """A parameter in another shape: a parameter again, where its numbers are at hand."""
    name = e.name(parameter)
    known = e.constants.get(name)
    if known is None or known.data is None:
        return e.reshape(parameter, shape)
    return e.constant(known.data.reshape(shape), f"{name}/shaped")


def _instance_norm(e: Emitter, c: AtenCall) -> None:
    a, x = c.arguments, c.source
    if not a.get("use_input_stats", True):
        e.whole(c)
        return
    e.made(c, "InstanceNormalization", (x, *_scale_and_shift(e, c)), epsilon=float(a["eps"]))


def _rms_norm(e: Emitter, c: AtenCall) -> None:
    """x / sqrt(mean(x^2) + epsilon) * weight, written out."""
    a, x = c.arguments, c.source
    kind, axes = e.result(c), len(a["normalized_shape"])
    epsilon = a.get("eps")
    number = 2.0**-23 if epsilon is None else float(epsilon)
    over = list(range(-axes, 0))
    small = (*kind.shape[:-axes], *[1] * axes)
    squared = e.op("Mul", (x, x), kind.shape, kind.dtype)
    mean = e.op("ReduceMean", (squared, e.ints(over)), small, kind.dtype, keepdims=1)
    moved = e.op("Add", (mean, e.number(number, kind.dtype)), small, kind.dtype)
    root = e.op("Sqrt", (moved,), small, kind.dtype)
    weight = a.get("weight")
    named = None if isinstance(weight, Ref) else c.results[0]
    value = e.op("Div", (x, root), kind.shape, kind.dtype, result=named)
    if isinstance(weight, Ref):
        e.made(c, "Mul", (value, weight.name))


def _pool(e: Emitter, c: AtenCall) -> None:
    """max_pool, avg_pool of one to three axes."""
    a, x = c.arguments, c.source
    rank = len(a["kernel_size"]) if not isinstance(a["kernel_size"], int) else 1
    rank = max(rank, int(next((d for d in c.target if d.isdigit()), "1")))
    kernel = per_axis(a["kernel_size"], rank)
    strides = per_axis(a["stride"], rank) if a.get("stride") else kernel
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": strides,
        "pads": per_axis(a.get("padding", 0), rank) * 2,
        "ceil_mode": int(bool(a.get("ceil_mode"))),
    }
    if len(e.type(x).shape) != rank + 2 or a.get("divisor_override") is not None:
        e.whole(c)
        return
    if c.target.startswith("avg"):
        attributes["count_include_pad"] = int(bool(a.get("count_include_pad", True)))
        e.made(c, "AveragePool", (x,), **attributes)
        return
    attributes["dilations"] = per_axis(a.get("dilation", 1), rank)
    e.made(c, "MaxPool", (x,), **attributes)


def _adaptive_pool(e: Emitter, c: AtenCall) -> None:
    """Pools to a given size: global, or with equal windows where the sizes divide."""
    x, kind = c.source, e.result(c)
    shape = e.type(x).shape
    rank = int(next(d for d in c.target if d.isdigit()))
    leading = len(shape) - rank
    before, after = shape[leading:], kind.shape[leading:]
    name = "Average" if "avg" in c.target else "Max"
    if leading != 2 or any(b % s for b, s in zip(before, after, strict=True)):
        e.whole(c)
        return
    if set(after) == {1}:
        e.made(c, f"Global{name}Pool", (x,))
        return
    window = tuple(b // s for b, s in zip(before, after, strict=True))
    e.made(c, f"{name}Pool", (x,), kernel_shape=window, strides=window)


def _reduce(e: Emitter, c: AtenCall) -> None:
    a, x = c.arguments, c.source
    kind, shape = e.result(c), e.type(x).shape
    given: Sequence[int] | int | None = a.get("dim")
    axes = list(range(len(shape))) if given is None or given == [] else given
    over = [int(d) % max(1, len(shape)) for d in ([axes] if isinstance(axes, int) else axes)]
    keep = bool(a.get("keepdim", False))
    # Of three dimensions the last is features as often as an image's row: no pool but a mean.
    spatial = len(shape) > 3 and sorted(over) == list(range(2, len(shape)))
    value = e.cast(x, kind.dtype)
    if c.target == "mean" and keep and spatial:
        e.made(c, "GlobalAveragePool", (value,))
        return
    e.made(c, _REDUCE[c.target], (value, e.ints(over)) if over else (value,), keepdims=int(keep))


def _arg(e: Emitter, c: AtenCall) -> None:
    a, x = c.arguments, c.source
    if a.get("dim") is None:
        e.whole(c)
        return
    name = "ArgMax" if c.target == "argmax" else "ArgMin"
    axis, keep = int(a["dim"]), int(bool(a.get("keepdim")))
    e.made(c, name, (x,), axis=axis, keepdims=keep)


TRANSLATIONS: Mapping[str, Translation] = {
    **dict.fromkeys(
        "batch_norm native_batch_norm _native_batch_norm_legit_no_training "
        "_native_batch_norm_legit cudnn_batch_norm _batch_norm_no_update".split(),
        _batch_norm,
    ),
    "layer_norm": _layer_norm,
    "native_layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "native_group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "rms_norm": _rms_norm,
    "_fused_rms_norm": _rms_norm,
    **dict.fromkeys(
        "max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices "
        "avg_pool1d avg_pool2d avg_pool3d".split(),
        _pool,
    ),
    **dict.fromkeys(
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d "
        "_adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d".split(),
        _adaptive_pool,
    ),
    **dict.fromkeys(_REDUCE, _reduce),
    "argmax": _arg,
    "argmin": _arg,
}
