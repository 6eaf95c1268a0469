"""Reductions, softmax and normalisations: their own axes run whole."""

from dataclasses import replace
from functools import partial

from tilewright.geometry.access import Access, AxisRule, Same, Scaled, Whole
from tilewright.graph.ops.spec import (
    Engine,
    Op,
    OpSpec,
    Step,
    Tile,
    broadcast_rules,
    free,
    of_first,
    same_operator,
    same_rules,
)

REDUCE = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
    "ReduceSum ReduceSumSquare"
).split()
SOFTMAXES = ("Softmax", "LogSoftmax", "Hardmax")
ARGUMENTS = ("ArgMax", "ArgMin")


def _reduced_axes(op: Op) -> set[int] | None:
    rank = len(op.shape(0))
    axes = op.ints_of("axes")
    if op.kind in ARGUMENTS:
        axes = (op.int_of("axis", 0),)
    elif axes is None and op.has(1):
        value = op.value_of(1)
        if value is None:
            return None
        axes = tuple(int(v) for v in value.reshape(-1))
    if not axes:
        return set() if op.int_of("noop_with_empty_axes", 0) else set(range(rank))
    return {axis % rank for axis in axes}


def _reduce_access(op: Op, output: int) -> Access | None:
    axes = _reduced_axes(op)
    if axes is None:
        return None
    shape, result = op.shape(0), op.result().shape
    gone = () if op.int_of("keepdims", 1) else axes
    rules = (
        Whole(extent) if axis in axes else Same(axis - sum(other < axis for other in gone))
        for axis, extent in enumerate(shape)
    )
    return of_first(op, result, free(result), rules)


def _layer_norm_access(op: Op, output: int) -> Access | None:
    if sum(kind is not None for kind in op.outputs) > 1:
        return None
    result = op.result().shape
    axis = op.int_of("axis", -1) % len(result)
    grain = free(result, range(axis, len(result)))
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
    grain = free(result, range(2, len(result)))
    return Access(result, grain, (same_rules(len(result)), (Same(1),), (Same(1),)))


def _channels_of_group(op: Op) -> int:
    return op.result().shape[1] // op.int_of("num_groups", 1)


def _group_norm_access(op: Op, output: int) -> Access | None:
    """Channels are cut between groups. Before operator set 21 there is one scale per group."""
    result, each = op.result().shape, _channels_of_group(op)
    grain = (1, each, *result[2:])
    channel: AxisRule = Same(1) if op.shape(1) == result[1:2] else Scaled(1, 1, each)
    return Access(result, grain, (same_rules(len(result)), (channel,), (channel,)))


def _group_norm_tile(op: Op, tile: Tile) -> tuple[Step, ...]:
    groups = tile.output[1].length // _channels_of_group(op)
    (step,) = same_operator(op, tile)
    return (replace(step, attributes={**op.attributes, "num_groups": groups}),)


def _axis_access(op: Op, output: int) -> Access | None:
    """Softmax, cumulative sums, norms along one axis."""
    result = op.result().shape
    axis = op.int_of("axis", -1)
    if op.has(1):
        value = op.value_of(1)
        if value is None:
            return None
        axis = int(value.reshape(-1)[0])
    return of_first(op, result, free(result, {axis % len(result)}), same_rules(len(result)))


_reduction = partial(OpSpec, "reduction", Engine.VECTOR)
_normalisation = partial(OpSpec, "normalisation", Engine.VECTOR)
_OTHERS = "all but its own axis"
SPECS = (
    *(_reduction(kind, _OTHERS, _axis_access, rate="softmax") for kind in SOFTMAXES),
    _reduction("LpNormalization", _OTHERS, _axis_access, rate="norm"),
    _reduction("CumSum", _OTHERS, _axis_access),
    *(_reduction(kind, "axes that stay", _reduce_access) for kind in (*REDUCE, *ARGUMENTS)),
    _normalisation("LayerNormalization", "axes before its own", _layer_norm_access),
    _normalisation("RMSNormalization", "axes before its own", _layer_norm_access),
    _normalisation("BatchNormalization", "all", _batch_norm_access),
    _normalisation("InstanceNormalization", "batch, channels", _instance_norm_access),
    _normalisation(
        "GroupNormalization", "batch, channels by group", _group_norm_access, _group_norm_tile
    ),
)
