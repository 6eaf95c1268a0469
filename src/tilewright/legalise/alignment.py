"""What aligned channels add: the layout pads images, the array multiplies the padding too."""

from math import prod

from tilewright.geometry.box import Box
from tilewright.graph.ops.spec import IMAGE_RANKS, Engine, Op, OpSpec
from tilewright.legalise.limits import ALIGNMENT, aligned, array_limits, is_packed
from tilewright.machine.machine import Machine


def alignment_costs(
    spec: OpSpec, op: Op, machine: Machine, element_bytes: float
) -> tuple[str, int, int] | None:
    """Text, extra multiply-accumulates and extra bytes (read and written) of aligned channels, or
    None where they are aligned. A packed input is read as it is."""
    odd = [c for c in array_limits(op, None, machine) if c.limit == ALIGNMENT and not c.met]
    if not odd:
        return None
    grain, packed = machine.limits.channel_alignment, is_packed(op, machine)
    result, macs = op.result().shape, spec.macs(op, Box.whole(op.result().shape))
    values = [result] if packed else [op.shape(0), result]
    if len(result) not in IMAGE_RANKS or spec.family != "window":
        values = []
    elements = sum(
        prod(shape) // shape[1] * (aligned(shape[1], grain) - shape[1]) for shape in values
    )
    extra = 0
    if spec.engine is Engine.MATRIX:
        inner, outer = _mixed(spec, op)
        deep = inner if packed else aligned(inner, grain)
        scale = deep * aligned(outer, grain) / (inner * outer) if inner else 1.0
        if inner == 1 and not packed:  # depthwise: channels are not mixed
            scale = aligned(result[1], grain) / result[1]
        extra = round(macs * (scale - 1))
        if spec.family == "window" and (inner > 1 or packed):
            filters = macs // max(1, prod(result) // result[1])
            elements += round(filters * (scale - 1))
    texts = [odd[0].remedy] if packed else []
    rest = odd[1:] if packed else odd
    if rest:
        channels = ", ".join(f"{c.value} -> {aligned(c.value, grain)}" for c in rest)
        where = "the layout pads images" if values else "the array pads the product"
        texts.append(f"channels {channels}: {where}")
    return "; ".join(texts), extra, round(elements * element_bytes)


def _mixed(spec: OpSpec, op: Op) -> tuple[int, int]:
    """Channels that one output sums over, and outputs that share them."""
    result = op.result().shape
    if spec.family != "window":
        return spec.macs(op, Box.whole(result)) // max(1, prod(result)), result[-1]
    groups = op.int_of("group", 1)
    return op.shape(0)[1] // groups, result[1] // groups
