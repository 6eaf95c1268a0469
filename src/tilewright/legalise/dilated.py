"""Dilated convolutions on arrays that cannot dilate: the phases of the input as images of a batch,
or the filter with zeros between its taps, whichever is cheaper."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations, product
from math import prod

import numpy as np

from tilewright.cost.base import Workload
from tilewright.graph.graph import Array, Constant
from tilewright.graph.ops.windows import FIRST_SPATIAL, WindowParameters, window_of
from tilewright.graph.rules import need, require
from tilewright.legalise.convolutions import but, kernel_parts, window_attributes
from tilewright.legalise.costs import LegalCosts
from tilewright.legalise.draft import Draft
from tilewright.legalise.limits import too_long
from tilewright.machine.machine import Limits
from tilewright.units import by


def take_batches(draft: Draft, limits: Limits) -> str:
    """Every output position of a dilated convolution reads every d-th position of the input: these
    are images of their own, on which the kernel is a plain one."""
    window, where = need(window_of(draft.op)), need(draft.spec.filter)
    require(not where.transposed and draft.data_zero() is not None)
    expandable = _filter(draft) is not None and _fill(draft, where.weight_zero) is not None
    costs = LegalCosts(draft)
    choices = [axes for axes in _choices(window, limits) if _reads_something(draft, window, axes)]
    require(bool(choices and costs.arrays))
    if not expandable:
        choices = choices[-1:]  # all of them: nothing else helps the others
    times = [_in_batches(costs, window, axes) for axes in choices]
    least = min(times)
    require(not expandable or draft.decide(least < _expansion(costs, window, limits)))
    axes = choices[times.index(least)]
    _write(draft, window, axes)
    images = prod(window.dilations[a] for a in axes)
    return (
        f"kernel {by(window.kernel)} dilation {by(window.dilations)} on {images} phases of the "
        "input: space to batch, then back"
    )


def expand_dilation(draft: Draft, limits: Limits) -> str:
    """A dilated filter gets zeros between its taps (a quantised one its zero point)."""
    window, where = need(window_of(draft.op)), need(draft.spec.filter)
    wide = [a for a, d in enumerate(window.dilations) if too_long(d, limits.dilation)]
    require(bool(wide))
    constant, fill = need(_filter(draft)), need(_fill(draft, where.weight_zero))
    kernel = tuple(window.spans[a] if a in wide else k for a, k in enumerate(window.kernel))
    attributes = dict(draft.op.attributes)
    attributes["kernel_shape"] = kernel
    attributes["dilations"] = tuple(1 if a in wide else d for a, d in enumerate(window.dilations))
    inputs = list(draft.old.inputs)
    if kernel != window.kernel:
        steps = tuple(d if a in wide else 1 for a, d in enumerate(window.dilations))
        inputs[where.weight] = draft.weight("expanded", _expanded(constant, kernel, steps, fill))
    draft.last(draft.op.kind, inputs, attributes)
    return f"kernel {by(window.kernel)} dilation {by(window.dilations)} expanded to {by(kernel)}"


def _choices(window: WindowParameters, limits: Limits) -> Iterator[tuple[int, ...]]:
    """Axes whose phases may become images; a stride would need some of them only."""
    wide = [
        a
        for a, dilation in enumerate(window.dilations)
        if too_long(dilation, limits.dilation) and window.kernel[a] > 1 and window.strides[a] == 1
    ]
    for count in range(1, len(wide) + 1):
        yield from combinations(wide, count)


def _positions(draft: Draft, window: WindowParameters, axis: int) -> int:
    """Positions of the result in each phase of an axis."""
    return -(-draft.op.result().shape[FIRST_SPATIAL + axis] // window.dilations[axis])


def _read(draft: Draft, window: WindowParameters, axis: int) -> int:
    """Positions of the padded input in each phase of an axis."""
    return _positions(draft, window, axis) + window.kernel[axis] - 1


def _reads_something(draft: Draft, window: WindowParameters, axes: Sequence[int]) -> bool:
    return all(_read(draft, window, a) * window.dilations[a] > window.before[a] for a in axes)


def _write(draft: Draft, window: WindowParameters, axes: Sequence[int]) -> None:
    op, fill = draft.op, draft.data_zero()
    assert fill is not None
    batch, channels, *space = op.shape(0)
    read = {a: _read(draft, window, a) * window.dilations[a] for a in axes}
    frames = {FIRST_SPATIAL + a: (window.before[a], length) for a, length in read.items()}
    data = draft.framed(draft.old.inputs[0], frames, fill)

    # [batch, channels, read, phase, ...] with the phases moved to the front, and back.
    steps = [window.dilations[a] if a in axes else 1 for a in range(len(space))]
    extents = [_read(draft, window, a) if a in axes else space[a] for a in range(len(space))]
    phases = [FIRST_SPATIAL + 2 * a + 1 for a in range(len(space))]
    order = [*phases, 0, 1, *(phase - 1 for phase in phases)]
    apart = (batch, channels, *chain.from_iterable(zip(extents, steps, strict=True)))
    images = prod(steps) * batch
    data = draft.transpose(draft.reshape(data, apart, "apart"), order, "phases")
    data = draft.reshape(data, (images, channels, *extents), "images")

    filters, *result = op.result().shape[1:]
    made = [_positions(draft, window, a) if a in axes else result[a] for a in range(len(space))]
    before, after = (but(given, axes, 0) for given in (window.before, window.after))
    dilations = but(window.dilations, axes, 1)
    plain = replace(window, dilations=dilations, before=before, after=after)
    attributes = window_attributes(draft, plain)
    name = draft.names.take(f"{draft.old.name}/plain")
    kind = op.result().with_shape((images, filters, *made))
    draft.node(
        name, op.kind, [data, *draft.old.inputs[1:]], {name: kind}, attributes, draft.old.domain
    )

    back = [order.index(axis) for axis in range(len(order))]
    value = draft.reshape(name, (*steps, batch, filters, *made), "batch")
    value = draft.transpose(value, back, "space")
    whole = [extent * step for extent, step in zip(made, steps, strict=True)]
    value = draft.reshape(value, (batch, filters, *whole), "whole")
    kept = {FIRST_SPATIAL + a: (0, extent, 1) for a, extent in enumerate(result)}
    draft.slice(value, kept, "inside")
    draft.end()


def _in_batches(costs: LegalCosts, window: WindowParameters, axes: Sequence[int]) -> float:
    """Cycles with some axes in phases and the others expanded; both rearrangements read and write
    what they move."""
    draft = costs.draft
    batch, channels, *space = draft.op.shape(0)
    filters, *result = draft.op.result().shape[1:]
    images = batch * prod(window.dilations[a] for a in axes)
    for a in axes:
        space[a], result[a] = _read(draft, window, a), _positions(draft, window, a)
    kernel = [k if a in axes else window.spans[a] for a, k in enumerate(window.kernel)]
    work = _with_kernel(costs.work(), kernel)._replace(
        batch=images,
        out_height=prod(result[:-1]),
        out_width=result[-1],
        in_height=prod(space[:-1]),
        in_width=space[-1],
    )
    moved = costs.bytes((images, channels, *space)) + costs.bytes((images, filters, *result))
    return max(costs.compute(work), costs.time(moved)) + costs.time(2 * moved)


def _expansion(costs: LegalCosts, window: WindowParameters, limits: Limits) -> float:
    """Cycles of the expanded filter, in parts where it is too long; partial results are added."""
    op, work = costs.draft.op, costs.work()
    data, result = costs.bytes(op.shape(0)), costs.bytes(op.result().shape)
    parts = list(product(*kernel_parts(window, limits)))
    total = costs.time(3 * result) * (len(parts) - 1)
    for part in parts:
        kernel = [
            (taps.length - 1) * step + 1 for taps, step in zip(part, window.dilations, strict=True)
        ]
        total += max(costs.compute(_with_kernel(work, kernel)), costs.time(data + result))
    return total


def _with_kernel(work: Workload, kernel: Sequence[int]) -> Workload:
    return work._replace(
        kernel_height=prod(kernel[:-1]),
        kernel_width=kernel[-1],
        dilation_height=1,
        dilation_width=1,
    )


def _filter(draft: Draft) -> Constant | None:
    where = draft.spec.filter
    return None if where is None else draft.graph.constants.get(draft.old.inputs[where.weight])


def _fill(draft: Draft, position: int | None) -> Array | None:
    """What a filter means by zero; None if it is not known before the network runs."""
    if position is None or not draft.op.has(position):
        return np.zeros(())
    return draft.op.value_of(position)


def _expanded(
    constant: Constant, kernel: tuple[int, ...], steps: tuple[int, ...], fill: Array
) -> Constant:
    shape = (*constant.type.shape[:FIRST_SPATIAL], *kernel)
    if constant.data is None:
        return Constant(constant.type.with_shape(shape), None)
    channel = fill.reshape(-1, *(1,) * (len(shape) - 1))  # one for all, or one per filter
    data = np.empty(shape, constant.data.dtype)
    data[...] = channel
    data[(..., *(slice(None, None, step) for step in steps))] = constant.data
    return Constant(constant.type.with_shape(shape), data)
