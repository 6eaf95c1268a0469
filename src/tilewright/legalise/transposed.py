"""Transposed convolutions as stride phases: an ordinary convolution whose output channels are the
positions between two inputs, then depth to space."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilewright.cost.base import WorkKind, Workload
from tilewright.graph.graph import Array, Attribute, Constant
from tilewright.graph.ops.windows import FIRST_SPATIAL, WindowParameters, transposed_parameters
from tilewright.graph.rules import need, require
from tilewright.legalise.costs import LegalCosts
from tilewright.legalise.draft import Draft
from tilewright.legalise.limits import ALIGNMENT, array_limits
from tilewright.legalise.steps import CROPPED, UNCROPPED
from tilewright.machine.machine import Limits
from tilewright.units import by


@dataclass(frozen=True, slots=True)
class _PhaseAxis:
    """One spatial axis in phases. Row `crop + o` of the result before cropping is output row o,
    and phase (crop + o) % stride of position (crop + o) // stride. Phase p's tap at kernel index
    j is the filter's tap `stride * (last - j) + p + shift`, where there is one."""

    stride: int
    taps: int  # of the transposed convolution, holes of its dilation included
    crop: int
    shift: int
    first: int  # input positions back from the own one, from first to last
    last: int
    positions: int
    extent: int  # of the input
    result: int

    @staticmethod
    def of(stride: int, taps: int, pad: int, crop: int, extent: int, result: int) -> "_PhaseAxis":
        shift = pad - crop
        first, last = -((stride - 1 + shift) // stride), (taps - 1 - shift) // stride
        positions = -(-(result + crop) // stride)
        return _PhaseAxis(stride, taps, crop, shift, first, last, positions, extent, result)

    @property
    def kernel(self) -> int:
        """Taps of the convolution."""
        return self.last - self.first + 1

    @property
    def pads(self) -> tuple[int, int]:
        """Before and after; negative where the input is not read to its end."""
        return self.last, self.positions - self.first - self.extent

    @property
    def cropped(self) -> bool:
        """Whether rows are made that nobody wants."""
        return self.crop > 0 or self.positions * self.stride != self.result

    def numbers(self) -> Array:
        """Per phase and kernel index the filter's tap; `taps` stands for none."""
        phase, index = np.arange(self.stride)[:, None], np.arange(self.kernel)[None, :]
        tap = self.stride * (self.last - index) + phase + self.shift
        return np.where((tap >= 0) & (tap < self.taps), tap, self.taps)


def take_phases(draft: Draft, limits: Limits) -> str:
    """A transposed convolution with a stride becomes a convolution with an output channel for
    every phase, where that is cheaper on the array, or the only way onto it."""
    op = draft.op
    require(need(draft.spec.filter).transposed)
    weight = need(draft.graph.constants.get(draft.old.inputs[1]))
    window = need(transposed_parameters(op))
    bias = draft.old.inputs[2] if op.has(2) else ""
    require(max(window.strides) > 1 and (not bias or bias in draft.graph.constants))
    tries = {UNCROPPED: _axes(draft, window, crop=False), CROPPED: _axes(draft, window, crop=True)}
    if tries[CROPPED] == tries[UNCROPPED]:
        del tries[CROPPED]
    tries = {form: axes for form, axes in tries.items() if _possible(axes)}
    costs = LegalCosts(draft)
    require(bool(tries and costs.arrays))
    cheapest = min(tries, key=lambda form: _in_phases(costs, tries[form]))
    form = draft.asked if draft.asked in tries else cheapest
    best = tries[form]
    checks = array_limits(op, None, draft.machine)
    legal = all(check.met or check.limit in (ALIGNMENT, "dimension") for check in checks)
    require(not legal or draft.decide(_in_phases(costs, best) < costs.whole()))
    draft.form = form if len(tries) > 1 else ""
    _write(draft, best, weight, bias)
    kernels = by([axis.kernel for axis in best])
    crop = ", cropped" if any(axis.cropped for axis in best) else ""
    return (
        f"kernel {by(window.kernel)} stride {by(window.strides)} in phases: a {kernels} kernel "
        f"with {prod(axis.stride for axis in best)} times the channels, then depth to space{crop}"
    )


def _axes(draft: Draft, window: WindowParameters, *, crop: bool) -> tuple[_PhaseAxis, ...]:
    """Phases that start with the output, or (cropped) with the kernel, which is shorter then."""
    shape, result = draft.op.shape(0), draft.op.result().shape
    axes: list[_PhaseAxis] = []
    for a, stride in enumerate(window.strides):
        pad, axis = window.before[a], FIRST_SPATIAL + a
        whole = (stride, window.spans[a], pad)
        plain = _PhaseAxis.of(*whole, 0, shape[axis], result[axis])
        short = _PhaseAxis.of(*whole, pad % stride, shape[axis], result[axis])
        axes.append(short if crop and short.kernel < plain.kernel else plain)
    return tuple(axes)


def _possible(axes: Sequence[_PhaseAxis]) -> bool:
    """Whether there is a kernel, and an input for it to read."""
    return all(
        axis.kernel > 0 and axis.extent + min(0, axis.pads[0]) + min(0, axis.pads[1]) > 0
        for axis in axes
    )


def _write(draft: Draft, axes: tuple[_PhaseAxis, ...], weight: Constant, bias: str) -> None:
    op = draft.op
    batch, channels = op.result().shape[:FIRST_SPATIAL]
    groups, phases = op.int_of("group", 1), prod(axis.stride for axis in axes)
    # Phases outermost keeps channels together; groups need theirs within the group.
    phases_first = groups == 1
    ranges = {
        FIRST_SPATIAL + a: (max(0, -axis.pads[0]), axis.extent + min(0, axis.pads[1]), 1)
        for a, axis in enumerate(axes)
    }
    data = draft.slice(draft.old.inputs[0], ranges, "crop")
    inputs = [data, draft.weight("weight", _phase_weight(weight, axes, groups))]
    if bias:
        inputs.append(draft.weight("bias", _phase_bias(draft, bias, phases, phases_first)))
    ones = (1,) * len(axes)
    pads = [[max(0, side) for side in axis.pads] for axis in axes]
    attributes: dict[str, Attribute] = {
        "kernel_shape": tuple(axis.kernel for axis in axes),
        "strides": ones,
        "dilations": ones,
        "pads": (*(before for before, _ in pads), *(after for _, after in pads)),
        "group": groups,
    }
    space = tuple(axis.positions for axis in axes)
    made = draft.add("Conv", inputs, (batch, phases * channels, *space), "phases", attributes)
    wide = tuple(axis.positions * axis.stride for axis in axes)
    made = _to_space(draft, made, axes, (batch, channels, *wide), phases_first)
    kept = {
        FIRST_SPATIAL + a: (axis.crop, axis.crop + axis.result, 1) for a, axis in enumerate(axes)
    }
    draft.slice(made, kept, "inside")
    draft.end()


def _to_space(
    draft: Draft,
    value: str,
    axes: tuple[_PhaseAxis, ...],
    shape: tuple[int, ...],
    phases_first: bool,
) -> str:
    strides = [axis.stride for axis in axes]
    if len(axes) == 2 and len(set(strides)) == 1:
        how: dict[str, Attribute] = {
            "blocksize": strides[0],
            "mode": "DCR" if phases_first else "CRD",
        }
        return draft.add("DepthToSpace", [value], shape, "space", how)
    rank = len(axes)
    batch, channels = shape[:FIRST_SPATIAL]
    space = [axis.positions for axis in axes]
    inner = [*strides, channels] if phases_first else [channels, *strides]
    apart = draft.reshape(value, (batch, *inner, *space), "apart")
    first = 1 if phases_first else 2  # axis of the first phase
    order = [0, 1 + rank if phases_first else 1]
    for a in range(rank):
        order += [FIRST_SPATIAL + rank + a, first + a]
    return draft.reshape(draft.transpose(apart, order, "turned"), shape, "space")


def _phase_weight(weight: Constant, axes: tuple[_PhaseAxis, ...], groups: int) -> Constant:
    """[input, output per group, taps] as [outputs x phases, input per group, kernel]."""
    inputs, filters = weight.type.shape[:FIRST_SPATIAL]
    phases = prod(axis.stride for axis in axes)
    kernel = tuple(axis.kernel for axis in axes)
    shape = (phases * filters * groups, inputs // groups, *kernel)
    if weight.data is None:
        return Constant(weight.type.with_shape(shape), None)
    data = weight.data.reshape(groups, inputs // groups, *weight.data.shape[1:])
    for a, axis in enumerate(axes):
        position = 3 + 2 * a  # the axes before it are in two already
        data = _with_holes(data, position, axis.taps)
        data = np.take(data, axis.numbers(), axis=position)
    rank = len(axes)
    phase, tap = [3 + 2 * a for a in range(rank)], [4 + 2 * a for a in range(rank)]
    front = [0, *phase, 2] if groups == 1 else [0, 2, *phase]
    moved = np.ascontiguousarray(data.transpose(*front, 1, *tap)).reshape(shape)
    return Constant(weight.type.with_shape(shape), moved)


def _with_holes(data: Array, position: int, taps: int) -> Array:
    """The filter with zeros between the taps of a dilated one, and a zero behind the last."""
    kernel = data.shape[position]
    step = (taps - 1) // (kernel - 1) if kernel > 1 else 1
    shape = (*data.shape[:position], taps + 1, *data.shape[position + 1 :])
    spread = np.zeros(shape, data.dtype)
    spread[(slice(None),) * position + (slice(0, taps, step),)] = data
    return spread


def _phase_bias(draft: Draft, bias: str, phases: int, phases_first: bool) -> Constant:
    constant = draft.graph.constants[bias]
    kind = constant.type.with_shape((constant.type.shape[0] * phases,))
    if constant.data is None:
        return Constant(kind, None)
    repeat = np.tile if phases_first else np.repeat
    return Constant(kind, repeat(constant.data, phases))


def _in_phases(costs: LegalCosts, axes: tuple[_PhaseAxis, ...]) -> float:
    """Cycles as a convolution and a rearrangement: the larger of work and copies, and the way to
    space and back on top."""
    op = costs.draft.op
    batch, channels = op.result().shape[:FIRST_SPATIAL]
    phases, space = prod(axis.stride for axis in axes), [axis.positions for axis in axes]
    shape, kernel = op.shape(0), [axis.kernel for axis in axes]
    work = Workload(
        WorkKind.CONV,
        costs.draft.dtype,
        out_channels=phases * channels,
        in_channels=shape[1],
        out_height=prod(space[:-1]),
        out_width=space[-1],
        in_height=prod(shape[FIRST_SPATIAL:-1]),
        in_width=shape[-1],
        kernel_height=prod(kernel[:-1]),
        kernel_width=kernel[-1],
        batch=batch,
        groups=op.int_of("group", 1),
    )
    deep = costs.bytes((batch, phases * channels, *space))
    result = costs.bytes(op.result().shape)
    rest = 2 * result * (2 if any(axis.cropped for axis in axes) else 1)
    return max(costs.compute(work), costs.time(costs.bytes(shape) + deep)) + costs.time(rest)
