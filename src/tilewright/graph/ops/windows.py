"""Sliding windows: convolutions, transposed convolutions, pooling, local response norm."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from tilewright.geometry.access import (
    Access,
    AxisRule,
    Same,
    Scaled,
    TransposedWindow,
    Whole,
    Window,
    only_padding,
)
from tilewright.geometry.box import Box
from tilewright.graph.graph import Attribute
from tilewright.graph.ops.spec import (
    Engine,
    Filter,
    Op,
    OpSpec,
    Pool,
    Step,
    Tile,
    free,
    same_operator,
    same_rules,
    whole_rules,
)

FIRST_SPATIAL = 2  # batch and channels come first


@dataclass(frozen=True, slots=True)
class WindowParameters:
    """Kernel, strides, dilations and begin/end pads of the spatial axes, resolved to numbers."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def spans(self) -> tuple[int, ...]:
        """Positions from the first tap to the last, both included."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def _as_written(op: Op, weight: int | None) -> WindowParameters:
    """The window as attributes and weights say, whatever the automatic padding is."""
    rank = len(op.shape(0)) - FIRST_SPATIAL
    kernel = op.ints_of("kernel_shape")
    if kernel is None:
        kernel = op.shape(weight)[FIRST_SPATIAL:] if weight is not None else (1,) * rank
    strides = op.ints_of("strides") or (1,) * rank
    dilations = op.ints_of("dilations") or (1,) * rank
    pads = op.ints_of("pads") or (0,) * (2 * rank)
    return WindowParameters(kernel, strides, dilations, pads[:rank], pads[rank:])


def _overhangs(op: Op, window: WindowParameters) -> list[int]:
    """Positions that the windows of all results cover beyond the input without padding."""
    extents = zip(op.shape(0)[FIRST_SPATIAL:], op.result().shape[FIRST_SPATIAL:], strict=True)
    steps = zip(extents, window.strides, window.spans, strict=True)
    return [(result - 1) * stride + span - extent for (extent, result), stride, span in steps]


def window_parameters(op: Op, weight: int | None = None) -> WindowParameters:
    """The window of an operator, with automatic padding worked out."""
    window, mode = _as_written(op, weight), op.str_of("auto_pad", "NOTSET")
    before, after = window.before, window.after
    if mode == "VALID":
        before = after = (0,) * len(window.kernel)
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        before, after = _halves([max(0, more) for more in _overhangs(op, window)], mode)
    strides = window.strides
    if not op.int_of("ceil_mode", 0):
        # Over a single result nobody strides: as far as the input goes is as good as further.
        shape, result = op.shape(0), op.result().shape
        strides = tuple(
            min(stride, max(1, shape[a + 2] + before[a] + after[a] - window.spans[a] + 1))
            if result[a + 2] == 1
            else stride
            for a, stride in enumerate(strides)
        )
    return replace(window, strides=strides, before=before, after=after)


def _halves(totals: list[int], mode: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Automatic padding before and after: of an odd amount the larger part goes behind, or (by any
    mode but SAME_UPPER) before."""
    small, large = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
    return (small, large) if mode == "SAME_UPPER" else (large, small)


def _spatial_rules(
    op: Op, window: WindowParameters, rule: type[Window | TransposedWindow] = Window
) -> tuple[AxisRule, ...]:
    facts = (window.kernel, window.strides, window.dilations, window.before)
    axes = zip(*facts, op.shape(0)[FIRST_SPATIAL:], strict=True)
    return tuple(rule(FIRST_SPATIAL + a, *axis) for a, axis in enumerate(axes))


def _per_channel(op: Op, index: int) -> tuple[AxisRule, ...]:
    """Rules of a bias or a quantisation parameter: one number per channel, or one for all."""
    shape = op.shape(index)
    if len(shape) == 1 and shape[0] == op.result().shape[1] and shape[0] > 1:
        return (Same(1),)
    return whole_rules(shape)


def _crops(op: Op, weight: int | None = None) -> bool:
    """Whether automatic padding would have to be negative: runtimes disagree about it."""
    automatic = op.str_of("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER")
    return automatic and min(_overhangs(op, _as_written(op, weight)), default=0) < 0


def _conv_access(op: Op, output: int, weight: int) -> Access | None:
    if _crops(op, weight):
        return None
    shape, weights, result = op.shape(0), op.shape(weight), op.result().shape
    spatial = _spatial_rules(op, window_parameters(op, weight))
    if only_padding(spatial, result):
        return None
    groups = op.int_of("group", 1)
    filters = result[1] // groups
    channel: AxisRule = Whole(shape[1])
    grain = list(free(result))
    if groups > 1:
        channel = Scaled(1, shape[1] // groups, filters)
        grain[1] = filters
    known = {0: (Same(0), channel, *spatial), weight: (Same(1), *whole_rules(weights[1:]))}
    there = (k if operand is not None else None for k, operand in enumerate(op.inputs))
    rules = (None if k is None else known.get(k) or _per_channel(op, k) for k in there)
    return Access(result, tuple(grain), tuple(rules))


def _with_window(op: Op, tile: Tile, changed: Mapping[str, Attribute]) -> tuple[Step, ...]:
    """The operator with its padding, and what else is another in the tile, as attributes."""
    resolved = ("auto_pad", "output_shape", "output_padding")
    attributes = {name: value for name, value in op.attributes.items() if name not in resolved}
    (step,) = same_operator(op, tile)
    return (Step(op.kind, {**attributes, **changed}, step.inputs, step.outputs),)


def _conv_tile(op: Op, tile: Tile, weight: int) -> tuple[Step, ...]:
    reaches = tile.inputs[0]
    assert reaches is not None
    spatial, groups = reaches[FIRST_SPATIAL:], op.int_of("group", 1)
    changed: dict[str, Attribute] = {
        "kernel_shape": window_parameters(op, weight).kernel,
        "pads": (*(r.before for r in spatial), *(r.after for r in spatial)),
    }
    if groups > 1:
        changed["group"] = tile.output[1].length * groups // op.result().shape[1]
    return _with_window(op, tile, changed)


def _conv_macs(op: Op, box: Box, weight: int) -> int:
    return box.size * prod(op.shape(weight)[1:])


def _transposed_access(op: Op, output: int) -> Access | None:
    shape, weights, result = op.shape(0), op.shape(1), op.result().shape
    window = transposed_parameters(op)
    if window is None:
        return None
    groups = op.int_of("group", 1)
    filters = weights[1]
    grain = list(free(result))
    channel: AxisRule = Whole(shape[1])
    # With groups, the weight's input channels follow the output channels too.
    weight_rules: tuple[AxisRule, ...] = (Whole(weights[0]), Same(1), *whole_rules(weights[2:]))
    if groups > 1:
        grain[1] = filters
        channel = Scaled(1, shape[1] // groups, filters)
        weight_rules = (channel, *whole_rules(weights[1:]))
    spatial = _spatial_rules(op, window, TransposedWindow)
    bias = (_per_channel(op, 2),) if op.has(2) else ()
    return Access(result, tuple(grain), ((Same(0), channel, *spatial), weight_rules, *bias))


def transposed_parameters(op: Op) -> WindowParameters | None:
    """The window of a transposed convolution; its pads follow from the output shape."""
    shape, result, window = op.shape(0), op.result().shape, _as_written(op, 1)
    mode = op.str_of("auto_pad", "NOTSET")
    if op.ints_of("output_shape") is None and mode == "NOTSET":
        return window
    extra = op.ints_of("output_padding") or (0,) * len(window.kernel)
    totals = [
        stride * (shape[a + 2] - 1) + extra[a] + window.spans[a] - result[a + 2]
        for a, stride in enumerate(window.strides)
    ]
    if min(totals) < 0:
        return None
    before, after = _halves(totals, mode)
    return replace(window, before=before, after=after)


def _transposed_tile(op: Op, tile: Tile) -> tuple[Step, ...]:
    reaches = tile.inputs[0]
    assert reaches is not None
    spatial = reaches[FIRST_SPATIAL:]
    changed: dict[str, Attribute] = {
        "kernel_shape": op.ints_of("kernel_shape") or op.shape(1)[FIRST_SPATIAL:],
        "pads": (*(r.before for r in spatial), *(max(0, r.after) for r in spatial)),
    }
    if any(r.after < 0 for r in spatial):
        changed["output_padding"] = tuple(max(0, -r.after) for r in spatial)
    if op.int_of("group", 1) > 1:
        changed["group"] = tile.output[1].length // op.shape(1)[1]
    return _with_window(op, tile, changed)


def _transposed_macs(op: Op, box: Box) -> int:
    """Each output position receives kernel/stride taps along each axis, on average."""
    strides = op.ints_of("strides") or (1,)
    taps = prod(op.shape(1)[2:]) / prod(strides)
    return round(box.size * taps * op.shape(0)[1] / op.int_of("group", 1))


def _pool_access(op: Op, output: int) -> Access | None:
    if sum(kind is not None for kind in op.outputs) > 1:
        return None  # indices count positions of the whole input
    if _crops(op):
        return None
    result = op.result().shape
    rules: tuple[AxisRule, ...] = (Same(0), Same(1), *_spatial_rules(op, window_parameters(op)))
    return Access(result, free(result), (rules,))


def _pool_tile(op: Op, tile: Tile) -> tuple[Step, ...]:
    reaches = tile.inputs[0]
    assert reaches is not None
    window = window_parameters(op)
    spatial = reaches[FIRST_SPATIAL:]
    # Rows that only ceil mode adds beyond the layer's padding stay ceil mode's in the tile.
    after = (min(r.after, p) for r, p in zip(spatial, window.after, strict=True))
    pads = (*(r.before for r in spatial), *after)
    return _with_window(op, tile, {"kernel_shape": window.kernel, "pads": pads})


def _global_access(op: Op, output: int) -> Access | None:
    shape, result = op.shape(0), op.result().shape
    return Access(result, free(result), ((Same(0), Same(1), *whole_rules(shape[2:])),))


def _response_norm_access(op: Op, output: int) -> Access | None:
    result = op.result().shape
    grain = (1, result[1], *free(result[2:]))
    return Access(result, grain, (same_rules(len(result)),))


_SPATIAL = "batch, channels, height, width"


_matrix = partial(OpSpec, "window", Engine.MATRIX)
_vector = partial(OpSpec, "window", Engine.VECTOR)


def _conv(kind: str, where: Filter, *, adds_up: bool = False) -> OpSpec:
    return _matrix(
        kind,
        _SPATIAL,
        partial(_conv_access, weight=where.weight),
        partial(_conv_tile, weight=where.weight),
        partial(_conv_macs, weight=where.weight),
        filter=where,
        adds_up=adds_up,
    )


SPECS = (
    _conv("Conv", Filter(1), adds_up=True),
    _conv("ConvInteger", Filter(1, weight_zero=3, data_zero=2)),
    _conv("QLinearConv", Filter(3, weight_zero=5, data_zero=2)),
    _matrix(
        "ConvTranspose",
        _SPATIAL,
        _transposed_access,
        _transposed_tile,
        _transposed_macs,
        filter=Filter(1, transposed=True),
    ),
    _vector("MaxPool", _SPATIAL, _pool_access, _pool_tile, pool=Pool.MAXIMUM),
    _vector("AveragePool", _SPATIAL, _pool_access, _pool_tile, pool=Pool.AVERAGE),
    _vector("LpPool", _SPATIAL, _pool_access, _pool_tile, pool=Pool.NORM),
    _vector("GlobalMaxPool", "batch, channels", _global_access, pool=Pool.MAXIMUM),
    _vector("GlobalAveragePool", "batch, channels", _global_access, pool=Pool.AVERAGE),
    _vector("GlobalLpPool", "batch, channels", _global_access, pool=Pool.NORM),
    _vector("LRN", "batch, height, width", _response_norm_access, rate="norm"),
)
_FILTERS = {spec.kind: spec.filter for spec in SPECS if spec.filter is not None}
_POOLS = {spec.kind for spec in SPECS if spec.pool is not None and spec.access is _pool_access}
_POOLS.add("QLinearAveragePool")  # its attributes are the float one's


def window_of(op: Op) -> WindowParameters | None:
    """The window of an operator that has one: for tables, limits and costs."""
    where = _FILTERS.get(op.kind)
    if where is None:
        return window_parameters(op) if op.kind in _POOLS else None
    return transposed_parameters(op) if where.transposed else window_parameters(op, where.weight)
