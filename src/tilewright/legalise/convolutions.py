"""Convolutions beyond the array: kernel parts, patches, explicit padding."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from tilewright.geometry.interval import Interval, even_split
from tilewright.graph.edit import part_of, reshaped
from tilewright.graph.graph import Attribute, Constant
from tilewright.graph.ops.windows import FIRST_SPATIAL, WindowParameters, window_of
from tilewright.graph.rules import need, require
from tilewright.legalise.draft import Draft
from tilewright.legalise.limits import taken_kernel, too_long
from tilewright.machine.machine import Limits
from tilewright.units import by


def split_kernels(draft: Draft, limits: Limits) -> str:
    """A kernel that is too large becomes a sum of convolutions over parts of it, each of the part
    of the input that it reads. Where the stride is too long, parts get no longer than it: they can
    then be taken as patches."""
    window = _plain_convolution(draft)
    cuts = kernel_parts(window, limits)
    parts = [part for part in product(*cuts) if _reads_something(draft, window, part)]
    require(any(len(cut) > 1 for cut in cuts) and bool(parts))
    results = [
        _part(draft, window, part, first=number == 0, alone=len(parts) == 1)
        for number, part in enumerate(parts)
    ]
    if len(parts) > 1:
        draft.sum(results)
    sizes = sorted({"x".join(str(cut.length) for cut in part) for part in parts})
    return f"kernel {by(window.kernel)} as a sum over {len(parts)} parts of {', '.join(sizes)}"


def kernel_parts(window: WindowParameters, limits: Limits) -> list[tuple[Interval, ...]]:
    """The taps of each axis in parts that the array can take."""
    longest = [_longest_part(window, axis, limits) for axis in range(len(window.kernel))]
    return [
        even_split(taps, -(-taps // most) if most is not None else 1)
        for taps, most in zip(window.kernel, longest, strict=True)
    ]


def take_patches(draft: Draft, limits: Limits) -> str:
    """Windows that do not overlap become channels: space to depth, then a kernel of 1."""
    window = _plain_convolution(draft)
    axes = [a for a in range(len(window.kernel)) if _is_patch(window, a, limits)]
    data, result = draft.old.inputs[0], draft.op.result().shape
    shape = draft.shape(data)
    require(bool(axes))
    needed = {a: result[FIRST_SPATIAL + a] * window.strides[a] for a in axes}
    frames = {FIRST_SPATIAL + a: (window.before[a], length) for a, length in needed.items()}
    blocks = draft.framed(data, frames)
    split: list[int] = list(shape[:FIRST_SPATIAL])
    outer: list[int] = []  # axes of what stays space
    inner: list[int] = []  # axes of what becomes channels
    taps: dict[int, tuple[int, int, int]] = {}
    for a, extent in enumerate(draft.shape(blocks)[FIRST_SPATIAL:]):
        outer.append(len(split))
        if a not in axes:
            split.append(extent)
            continue
        stride = window.strides[a]
        split += [extent // stride, stride]
        inner.append(len(split) - 1)
        taps[inner[-1]] = (0, window.spans[a], window.dilations[a])
    blocks = draft.slice(draft.reshape(blocks, tuple(split), "blocks"), taps, "taps")
    blocks = draft.transpose(blocks, (0, 1, *inner, *outer), "depth")
    count = prod(window.kernel[a] for a in axes)
    space = draft.shape(blocks)[FIRST_SPATIAL + len(inner) :]
    patches = draft.reshape(blocks, (shape[0], shape[1] * count, *space), "patches")
    weight = draft.weight("weight", _patch_weight(draft, axes, count))
    kernel, *steps = (
        but(given, axes, 1) for given in (window.kernel, window.strides, window.dilations)
    )
    borders = (but(given, axes, 0) for given in (window.before, window.after))
    attributes = window_attributes(draft, WindowParameters(kernel, *steps, *borders))
    draft.last("Conv", [patches, weight, *draft.old.inputs[2:]], attributes)
    return (
        f"kernel {by(window.kernel)} stride {by(window.strides)} as patches: "
        f"space to depth to {shape[1] * count} channels, then a {by(kernel)} kernel"
    )


def pad_explicitly(draft: Draft, limits: Limits) -> str:
    """What a pad has beyond half the kernel is written by a Pad before; the rest stays."""
    window, where = need(window_of(draft.op)), need(draft.spec.filter)
    require(limits.pad_half_kernel and not where.transposed)  # whose pads crop the result
    halves, given = [span // 2 for span in window.spans], (window.before, window.after)
    before, after = (tuple(map(min, sides, halves)) for sides in given)
    pads = {
        FIRST_SPATIAL + a: (window.before[a] - before[a], window.after[a] - after[a])
        for a in range(len(halves))
    }
    fill = need(draft.data_zero())
    require(any(sum(pair) for pair in pads.values()))
    padded = draft.pad(draft.old.inputs[0], pads, fill)
    attributes = window_attributes(draft, replace(window, before=before, after=after))
    draft.last(draft.op.kind, [padded, *draft.old.inputs[1:]], attributes)
    pair = (*window.before, *window.after), (*before, *after)
    was, now = ("/".join(map(str, numbers)) for numbers in pair)
    return f"pads {was} of kernel {by(window.kernel)}: a Pad before leaves {now}"


def split_channels(draft: Draft, limits: Limits) -> str:
    """More input channels than the array counts become a sum over parts of them."""
    _plain_convolution(draft)
    channels = draft.op.shape(0)[1]
    require(draft.op.int_of("group", 1) == 1 and channels > need(limits.dimension))
    cuts = reduction_parts(channels, limits)
    draft.sum_over(cuts, 1, 1)
    return f"{channels} input channels as a sum over {len(cuts)} parts"


def reduction_parts(extent: int, limits: Limits) -> tuple[Interval, ...]:
    """A reduction in as few even parts as the dimension allows, aligned where that fits."""
    most = limits.dimension
    assert most is not None
    grain = limits.channel_alignment if limits.channel_alignment <= most else 1
    units, most_units = -(-extent // grain), most // grain
    parts = even_split(units, -(-units // most_units))
    return tuple(Interval(p.start * grain, min(extent, p.stop * grain)) for p in parts)


def _plain_convolution(draft: Draft) -> WindowParameters:
    """The window of a Conv with constant weights."""
    where = need(draft.spec.filter)
    require(draft.spec.adds_up and draft.old.inputs[where.weight] in draft.graph.constants)
    return need(window_of(draft.op))


def _is_patch(window: WindowParameters, axis: int, limits: Limits) -> bool:
    stride = window.strides[axis]
    long = too_long(taken_kernel(window, axis, limits), limits.kernel)
    return window.spans[axis] <= stride and (long or too_long(stride, limits.stride))


def _longest_part(window: WindowParameters, axis: int, limits: Limits) -> int | None:
    """The most taps a part may have along an axis, None if it need not be cut."""
    stride, dilation = window.strides[axis], window.dilations[axis]
    if window.spans[axis] <= stride:
        return None  # legal, or taken as patches
    if too_long(stride, limits.stride):
        return (stride - 1) // dilation + 1
    if not too_long(taken_kernel(window, axis, limits), limits.kernel):
        return None
    assert limits.kernel is not None
    expanded = too_long(dilation, limits.dilation)
    return (limits.kernel - 1) // dilation + 1 if expanded else limits.kernel


Part = tuple[Interval, ...]


def _reads(draft: Draft, window: WindowParameters, part: Part) -> Iterator[tuple[int, int, int]]:
    """Per spatial axis: first and last position that a kernel part reads, and the extent."""
    for a, cut in enumerate(part):
        stride, dilation = window.strides[a], window.dilations[a]
        start = cut.start * dilation - window.before[a]
        last = (draft.op.result().shape[FIRST_SPATIAL + a] - 1) * stride
        stop = start + last + (cut.length - 1) * dilation + 1
        yield start, stop, draft.op.shape(0)[FIRST_SPATIAL + a]


def _reads_something(draft: Draft, window: WindowParameters, part: Part) -> bool:
    return all(start < extent and stop > 0 for start, stop, extent in _reads(draft, window, part))


def _part(draft: Draft, window: WindowParameters, part: Part, *, first: bool, alone: bool) -> str:
    """The convolution with a part of the kernel; only the first adds the bias."""
    reads = list(_reads(draft, window, part))
    before = tuple(max(0, -start) for start, _, _ in reads)
    after = tuple(max(0, stop - extent) for _, stop, extent in reads)
    ranges = {
        FIRST_SPATIAL + a: (max(0, start), min(extent, stop), 1)
        for a, (start, stop, extent) in enumerate(reads)
    }
    data = draft.slice(draft.old.inputs[0], ranges)
    weight = draft.graph.constants[draft.old.inputs[1]]
    cuts = {FIRST_SPATIAL + a: (cut.start, cut.stop) for a, cut in enumerate(part)}
    inputs = [
        data,
        draft.weight("weight", part_of(weight, cuts)),
        *(draft.old.inputs[2:] if first else ()),
    ]
    kernel = tuple(cut.length for cut in part)
    seen = replace(window, kernel=kernel, before=before, after=after)
    attributes = window_attributes(draft, seen)
    if alone:
        draft.last("Conv", inputs, attributes)
        return draft.old.outputs[0]
    return draft.add("Conv", inputs, draft.op.result().shape, "part", attributes)


def but(values: tuple[int, ...], axes: Sequence[int], value: int) -> tuple[int, ...]:
    """The values, with another one along some axes."""
    return tuple(value if a in axes else old for a, old in enumerate(values))


def window_attributes(draft: Draft, window: WindowParameters) -> dict[str, Attribute]:
    """The attributes of the node with another window."""
    attributes = dict(draft.op.attributes)
    attributes.pop("auto_pad", None)
    attributes |= {"kernel_shape": window.kernel, "strides": window.strides}
    return attributes | {"dilations": window.dilations, "pads": (*window.before, *window.after)}


def _patch_weight(draft: Draft, axes: list[int], count: int) -> Constant:
    """The filter with the taps of some axes moved to its channels."""
    weight = draft.graph.constants[draft.old.inputs[1]]
    filters, channels, *kernel = weight.type.shape
    order = (0, 1, *(FIRST_SPATIAL + a for a in axes))
    order += tuple(FIRST_SPATIAL + a for a in range(len(kernel)) if a not in axes)
    moved = None if weight.data is None else weight.data.transpose(order)
    shape = tuple(weight.type.shape[axis] for axis in order)
    space = tuple(1 if a in axes else k for a, k in enumerate(kernel))
    turned = Constant(weight.type.with_shape(shape), moved)
    return reshaped(turned, (filters, channels * count, *space))
