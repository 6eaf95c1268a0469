"""Reductions, softmax and normalisations: their own axes run whole."""

from dataclasses import replace

from tilewright.geometry.access import Access, AxisRule, Same, Scaled, Whole
from tilewright.graph.ops.spec import (
    AccessFunction,
    Engine,
    Op,
    OpSpec,
    Step,
    Tile,
    TileFunction,
    broadcast_rules,
    free,
    same_operator,
    same_rules,
)

REDUCE = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
    "ReduceSum ReduceSumSquare"
).split()


def _with_whole_axes(shape: tuple[int, ...], axes: set[int]) -> tuple[int, ...]:
    return tuple(extent if axis in axes else 1 for axis, extent in enumerate(shape))


def _softmax_access(op: Op, output: int) -> Access | None:
    result = op.result().shape
    axis = op.int_of("axis", -1) % len(result)
    return Access(result, _with_whole_axes(result, {axis}), (same_rules(len(result)),))


def _reduced_axes(op: Op) -> set[int] | None:
    rank = len(op.shape(0))
    axes = op.ints_of("axes")
    if axes is None and op.has(1):
        value = op.value_of(1)
        if value is None:
            return None
        axes = tuple(int(v) for v in value.reshape(-1))
    if not axes:
        return set() if op.int_of("noop_with_empty_axes", 0) else set(range(rank))
    return {axis % rank for axis in axes}


def _reduce_rules(op: Op, axes: set[int], keep: bool) -> tuple[AxisRule, ...]:
    rules: list[AxisRule] = []
    position = 0
    for axis, extent in enumerate(op.shape(0)):
        if axis in axes:
            rules.append(Whole(extent))
            position += int(keep)
        else:
            rules.append(Same(position))
            position += 1
    return tuple(rules)


def _reduce_access(op: Op, output: int) -> Access | None:
    axes = _reduced_axes(op)
    if axes is None:
        return None
    result = op.result().shape
    rules = _reduce_rules(op, axes, bool(op.int_of("keepdims", 1)))
    return Access(result, free(result), (rules, *[None] * (len(op.inputs) - 1)))


def _arg_access(op: Op, output: int) -> Access | None:
    axes = {op.int_of("axis", 0) % len(op.shape(0))}
    result = op.result().shape
    rules = _reduce_rules(op, axes, bool(op.int_of("keepdims", 1)))
    return Access(result, free(result), (rules,))


def _layer_norm_access(op: Op, output: int) -> Access | None:
    if sum(kind is not None for kind in op.outputs) > 1:
        return None
    result = op.result().shape
    axis = op.int_of("axis", -1) % len(result)
    grain = _with_whole_axes(result, set(range(axis, len(result))))
    rest = (broadcast_rules(i.type.shape, result) if i is not None else None for i in op.inputs[1:])
    return Access(result, grain, (same_rules(len(result)), *rest))


def _batch_norm_access(op: Op, output: int) -> Access | None:
    if sum(kind is not None for kind in op.outputs) > 1 or op.int_of("training_mode", 0):
        return None
    result = op.result().shape
    channel: tuple[AxisRule, ...] = (Same(1),) if len(result) > 1 else (Whole(op.shape(1)[0]),)
    return Access(
        result, free(result), (same_rules(len(result)), channel, channel, channel, channel)
    )


def _instance_norm_access(op: Op, output: int) -> Access | None:
    result = op.result().shape
    grain = _with_whole_axes(result, set(range(2, len(result))))
    return Access(result, grain, (same_rules(len(result)), (Same(1),), (Same(1),)))


def _channels_of_group(op: Op) -> int:
    return op.result().shape[1] // op.int_of("num_groups", 1)


def _group_norm_access(op: Op, output: int) -> Access | None:
    """Channels are cut between groups. Before operator set 21 there is one scale per group."""
    result, each = op.result().shape, _channels_of_group(op)
    whole = _with_whole_axes(result, set(range(2, len(result))))
    grain = (whole[0], each, *whole[2:])
    channel: AxisRule = Same(1) if op.shape(1) == result[1:2] else Scaled(1, 1, each)
    return Access(result, grain, (same_rules(len(result)), (channel,), (channel,)))


def _group_norm_tile(op: Op, tile: Tile) -> tuple[Step, ...]:
    groups = tile.output[1].length // _channels_of_group(op)
    (step,) = same_operator(op, tile)
    return (replace(step, attributes={**op.attributes, "num_groups": groups}),)


def _axis_access(op: Op, output: int) -> Access | None:
    """Cumulative sums, norms along one axis."""
    result = op.result().shape
    axis = op.int_of("axis", -1)
    if op.has(1):
        value = op.value_of(1)
        if value is None:
            return None
        axis = int(value.reshape(-1)[0])
    grain = _with_whole_axes(result, {axis % len(result)})
    return Access(result, grain, (same_rules(len(result)), *[None] * (len(op.inputs) - 1)))


def _reduction(kind: str, axes: str, access: AccessFunction, rate: str = "") -> OpSpec:
    return OpSpec(kind, "reduction", Engine.VECTOR, axes, access, rate=rate)


def _normalisation(
    kind: str, axes: str, access: AccessFunction, tile: TileFunction = same_operator
) -> OpSpec:
    return OpSpec(kind, "normalisation", Engine.VECTOR, axes, access, tile)


_OTHERS = "all but its own axis"
SPECS = (
    *(
        _reduction(kind, _OTHERS, _softmax_access, "softmax")
        for kind in ("Softmax", "LogSoftmax", "Hardmax")
    ),
    _reduction("LpNormalization", _OTHERS, _axis_access, "norm"),
    _reduction("CumSum", _OTHERS, _axis_access),
    *(_reduction(kind, "axes that stay", _reduce_access) for kind in REDUCE),
    *(_reduction(kind, "axes that stay", _arg_access) for kind in ("ArgMax", "ArgMin")),
    _normalisation("LayerNormalization", "axes before its own", _layer_norm_access),
    _normalisation("RMSNormalization", "axes before its own", _layer_norm_access),
    _normalisation("BatchNormalization", "all", _batch_norm_access),
    _normalisation("InstanceNormalization", "batch, channels", _instance_norm_access),
    _normalisation(
        "GroupNormalization", "batch, channels by group", _group_norm_access, _group_norm_tile
    ),
)
