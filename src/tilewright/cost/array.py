"""Spatial arrays: work aligned to the array's grid, best of its modes.

Dense work (convolutions, matrix products) takes
    overhead + blocks + steps + input + soft maximum(compute, activations, weights, output);
channelwise work (depthwise, pooling, element-wise) takes
    overhead + columns + blocks + steps + input.
A step is one array-full of output positions and channels; a block is what the accumulators hold.
Every term grows with every extent and no coefficient is negative, so the cost does too; and every
term is linear in the end, so it stays sane far beyond the calibrated range.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf, prod
from typing import NamedTuple

from tilewright.cost.base import (
    Cost,
    CostError,
    CostModel,
    WorkKind,
    Workload,
    view_shapes,
    views_of,
    whole_cycles,
)
from tilewright.cost.energy import EnergyFigures
from tilewright.cost.steps import Dense, Pair, StepCosts, seen_cycles, tile_costs
from tilewright.machine.dtypes import element_bytes, nearest_class, runs_as
from tilewright.machine.machine import Engine
from tilewright.machine.parameters import (
    ArrayMode,
    ArrayParameters,
    ArrayRate,
    ChannelwiseForm,
    DenseForm,
)


class DenseTerms(NamedTuple):
    """What a dense form's coefficients multiply: counts, and bytes."""

    compute: float
    activation: float
    weight: float
    output: float
    input: float
    blocks: float
    steps: float


class ChannelwiseTerms(NamedTuple):
    """What a channelwise form's coefficients multiply."""

    columns: float
    blocks: float
    steps: float
    input: float


def _parts(extent: float, size: float, exact: bool) -> float:
    """How many pieces of a size an extent takes; `exact` leaves rounding out, for the floor."""
    return extent / size if exact else -(-extent // size)


class ModeSizes(NamedTuple):
    """A mode's extents as plain numbers: of a step, and of a block."""

    width: int
    height: int
    out_channels: int
    in_channels: int
    kernel_width: int
    kernel_height: int
    block_width: int
    block_height: int
    block_channels: int

    @staticmethod
    def of(mode: ArrayMode) -> "ModeSizes":
        """Those of a mode."""
        step, block = mode.unroll, mode.held
        return ModeSizes(
            *(step.width, step.height, step.out_channels, step.in_channels),
            *(step.kernel_width, step.kernel_height),
            *(block.width, block.height, block.out_channels),
        )


def dense_terms(
    work: Workload, sizes: ModeSizes, rate: ArrayRate, least_positions: int = 1, exact: bool = False
) -> DenseTerms:
    """The terms of one convolution without groups and batch, in one mode; `exact` leaves rounding
    out, for the floor."""
    kind, dtype, made, read, high, wide, high_in, wide_in, taps_high, taps_wide = work[:10]
    across, down, each, inner, tap_columns, tap_rows, block_wide, block_high, block_made = sizes
    size = element_bytes(dtype)
    channels = max(read, 1 if kind is WorkKind.FIRST_CONV else rate.least_channels)
    lanes = rate.in_channels * inner  # in which a position takes channels of the sum, a cycle
    if exact:
        patches, filters = wide / across * (high / down), made / each
        taps, depth = taps_wide / tap_columns * (taps_high / tap_rows), channels / lanes
        spatial, kernels = wide / block_wide * (high / block_high), made / block_made
    else:
        patches, filters = -(-wide // across) * -(-high // down), -(-made // each)
        patches = max(patches, least_positions)
        taps = -(-taps_wide // tap_columns) * -(-taps_high // tap_rows)
        depth = channels / lanes if inner == 1 else -(-channels // lanes)
        spatial, kernels = -(-wide // block_wide) * -(-high // block_high), -(-made // block_made)
    field = taps_high * taps_wide * channels * size
    return DenseTerms(
        patches * filters * taps * depth,
        patches * across * down * field * kernels,
        spatial * filters * each * field,
        high * wide * made * size,
        high_in * wide_in * channels * size,
        spatial * kernels,
        patches * filters,
    )


def dense_cycles(terms: DenseTerms, form: DenseForm, sharpness: float) -> float:
    """A dense form applied to its terms."""
    limits = (
        terms.compute * form.compute,
        terms.activation / (form.activation_bytes_per_cycle or inf),
        terms.weight / (form.weight_bytes_per_cycle or inf),
        terms.output / (form.output_bytes_per_cycle or inf),
    )
    return (
        form.overhead
        + terms.blocks * form.per_block
        + terms.steps * form.per_step
        + terms.input / (form.input_bytes_per_cycle or inf)
        + soft_maximum(limits, sharpness)
    )


def soft_maximum(values: tuple[float, ...], sharpness: float) -> float:
    """The norm of the values: at least the largest, above it where several are close."""
    largest = max(values)
    if largest <= 0:
        return 0.0
    return largest * sum([(value / largest) ** sharpness for value in values]) ** (1 / sharpness)


def channelwise_terms(
    work: Workload, mode: ArrayMode, rate: ArrayRate, exact: bool = False
) -> ChannelwiseTerms:
    """The terms of work whose channels do not mix; columns are not rounded to the array's width."""
    unroll, block = mode.unroll, mode.held
    channels = _parts(work.out_channels, rate.channel_grain or unroll.out_channels, exact)
    taps = _parts(work.kernel_width, unroll.kernel_width, exact)
    taps *= _parts(work.kernel_height, unroll.kernel_height, exact)
    rows = _parts(work.out_height, unroll.height, exact)
    columns = work.out_width / unroll.width
    per_block = block.width * block.height / (unroll.width * unroll.height)
    blocks = _parts(work.out_width, block.width, exact) * _parts(
        work.out_height, block.height, exact
    )
    return ChannelwiseTerms(
        columns=columns * rows * channels * taps,
        blocks=blocks * per_block * channels * taps,
        steps=_parts(work.out_width, unroll.width, exact) * rows * channels,
        input=work.in_height * work.in_width * work.in_channels * element_bytes(work.dtype),
    )


def channelwise_cycles(terms: ChannelwiseTerms, form: ChannelwiseForm) -> float:
    """A channelwise form applied to its terms."""
    return (
        form.overhead
        + terms.columns * form.per_column
        + terms.blocks * form.per_block
        + terms.steps * form.per_step
        + terms.input / (form.input_bytes_per_cycle or inf)
    )


class ArrayModel(CostModel):
    """Costs work on one spatial array."""

    def __init__(self, engine: Engine, parameters: ArrayParameters, energy: EnergyFigures) -> None:
        self._parameters = parameters
        self._energy = energy
        self._scale = engine.reference_cycles
        self._modes = tuple(parameters.modes.values())
        self._sizes = tuple(ModeSizes.of(mode) for mode in self._modes)
        self._dtypes = tuple(parameters.rates)
        sizes = {(m.unroll.width, m.unroll.height, m.unroll.out_channels) for m in self._modes}
        self._same_steps = len(sizes) == 1
        self._lanes = max(mode.unroll.lanes for mode in self._modes)
        super().__init__()
        self._tiles: dict[Workload, StepCosts] = {}
        self._seen_shapes: dict[tuple[str, int, int, int], tuple[list[Pair], list[float]]] = {}

    def supports(self, work: Workload) -> bool:
        """Convolutions in types that the array has or that fit into one it has; channelwise work
        where the file gives it a form too."""
        if runs_as(work.dtype, self._dtypes) is None:
            return False
        return work.dense or self._channelwise(work.kind, self._rate(work)) is not None

    def grains(self, dtype: str) -> frozenset[int]:
        """What a step takes along each axis, and of positions in all."""
        steps = [mode.unroll for mode in self._modes]
        rate = self._parameters.rates[nearest_class(dtype, self._dtypes)]
        sides = {side for s in steps for side in (s.height, s.width, s.height * s.width)}
        sides |= {step.out_channels for step in steps} | {rate.channel_grain or 1}
        return frozenset(sides) - {1}

    def views(self, work: Workload) -> list[Workload]:
        """Any height and width for the positions of pointwise work, and two rectangles of whole
        steps of the array. Where modes have steps of the same size, only those that may cost least:
        all are costed at once for that, and rounding adds less than a cycle to each rectangle."""
        shapes = view_shapes(work)
        if not shapes or not self._same_steps:
            return views_of(work)
        others = self._shapes(work, shapes)
        pairs = [((1, 0), (1, 0)), *others[0]]  # the work as it is comes first
        cycles = [sum([self._cycles(piece, exact=False) for piece in work.pieces]), *others[1]]
        scale = work.batch * self._scale
        most = min(cycles) * (1 + 1e-9) + 2 / scale
        near: dict[tuple[float, int], int] = {}  # of equal single rectangles, the first
        for number, each in enumerate(cycles):
            if not each > most:
                near.setdefault((each, number if pairs[number][1][1] else 0), number)
        return [
            work.as_view(*pairs[n][0], pairs[n][1] if n > len(shapes) else (0, 0)) if n else work
            for n in near.values()
        ]

    def _shapes(
        self, work: Workload, shapes: list[tuple[int, int]]
    ) -> tuple[list[Pair], list[float]]:
        """Shapes for the positions of pointwise work, and what each takes: the same for all work of
        so many channels on so many positions."""
        key = (work.dtype, work.out_channels, work.in_channels, work.positions)
        known = self._seen_shapes.get(key)
        if known is None:
            pairs = [((high, wide), (1, work.positions - high * wide)) for high, wide in shapes]
            known = self._seen_shapes[key] = seen_cycles(work, self._choices(work), pairs)
        return known

    def floor(self, work: Workload) -> float:
        """One call per image, every input element once, and whole tiles where all modes have the
        same steps (docs/bounds.md has the proof); halos are not counted."""
        costs = self._tile_costs(work)
        return self._least(work, costs.cover() if costs is not None else 0.0)

    def even_floor(self, work: Workload) -> float:
        """A floor of which parts of the work keep their share: by whole steps, not whole tiles."""
        costs = self._tile_costs(work)
        return self._least(work, prod(costs.steps) * costs.per_step if costs is not None else 0.0)

    def volume_floor(self, work: Workload) -> float:
        """A floor of which any parts of the work keep their share of its elements: by whole steps
        where they spread over all elements, else by volume."""
        if self.evenness(work) == 1.0:
            return self.even_floor(work)
        if work.dense:
            return self._least(work, 0.0)
        return work.batch * self._cycles(work, exact=True) * self._scale

    def makespan(self, work: Workload, engines: int) -> float:
        """One of the engines has at least an even share of the whole steps, in whole tiles."""
        if not work.dense:
            form = self._channelwise(work.kind, self._rate(work))
            call = 0.0 if form is None else form.overhead * self._scale
            return call + (self.floor(work) - work.batch * call) / engines
        costs = self._tile_costs(work)
        each = self._overhead(work) if costs is None else costs.share(engines)
        return max(self.floor(work) / engines, each * self._scale)

    def _least(self, work: Workload, steps: float) -> float:
        """The floor, given that of one image's whole steps."""
        rate = self._rate(work)
        high = _covered(work.in_height, work.out_height, work.kernel_height, work.stride_height)
        wide = _covered(work.in_width, work.out_width, work.kernel_width, work.stride_width)
        work = work._replace(in_height=high, in_width=wide)
        if not work.dense:
            return work.batch * self._cycles(work, exact=False) * self._scale
        bare = work._replace(in_height=0, in_width=0)
        volume = self._overhead(work) + self._cycles(bare, exact=True)
        cycles = max(volume, steps)
        if work.groups == 1:  # reads every input element once
            cycles += min(
                dense_terms(seen, self._sizes[0], rate).input / (form.input_bytes_per_cycle or inf)
                for form, seen in self._forms(work, rate)
            )
        return work.batch * cycles * self._scale

    def _overhead(self, work: Workload) -> float:
        rate = self._rate(work)
        return min(form.overhead for form in (rate.conv, rate.first_conv or rate.conv))

    def evenness(self, work: Workload) -> float:
        """The share of the work's elements over which its floor can be spread evenly, so that
        parts keep their share of it: ragged ends count for more (docs/bounds.md)."""
        rate = self._rate(work)
        if work.dense:
            unroll = self._modes[0].unroll
            if work.groups > 1:
                return 1.0
            share = _even(work.out_channels, unroll.out_channels)
            if work.pointwise:
                area = unroll.width * unroll.height
                return share * _even(work.out_height * work.out_width, area)
            share *= _even(work.out_height, unroll.height)
            return share * _even(work.out_width, unroll.width)
        form = self._channelwise(work.kind, rate)
        mode = self._parameters.modes[form.mode] if form and form.mode else self._modes[0]
        unroll, block = mode.unroll, mode.held
        heights, widths = (unroll.height, block.height), (unroll.width, block.width)
        share = _even(work.out_channels, rate.channel_grain or unroll.out_channels)
        share *= min(_even(work.out_height, size) for size in heights)
        return share * min(_even(work.out_width, size) for size in widths)

    def _forms(self, work: Workload, rate: ArrayRate) -> Iterator[tuple[DenseForm, Workload]]:
        """The forms that a convolution may take, each with the work as it sees it."""
        plain = work if work.kind is WorkKind.CONV else work._replace(kind=WorkKind.CONV)
        yield rate.conv, plain
        packed = work.in_channels <= (self._parameters.packed_channels or 0)
        if work.kind is WorkKind.FIRST_CONV and packed and rate.first_conv is not None:
            yield rate.first_conv, work

    def _tile_costs(self, work: Workload) -> StepCosts | None:
        """The costs of tiles of one image by their whole steps. Tiles may mix modes, so nothing is
        known where the modes' steps differ in size; nor of groups, which may be joined."""
        if not work.dense or work.groups > 1 or not self._same_steps:
            return None
        shape = work._replace(in_height=0, in_width=0, pads=(0, 0, 0, 0), batch=1, rest=0)
        if shape not in self._tiles:
            self._tiles[shape] = tile_costs(shape, self._choices(shape))
        return self._tiles[shape]

    def _choices(self, work: Workload) -> Dense:
        rate, known = self._rate(work), self._parameters
        forms = tuple(self._forms(work, rate))
        return Dense(forms, self._modes, rate, known.least_positions, known.sharpness)

    def peak_macs(self, dtype: str) -> float:
        """Multiply-accumulates per cycle of the reference clock, by the array's size."""
        rate = self._parameters.rates[nearest_class(dtype, self._dtypes)]
        return self._lanes * rate.in_channels / self._scale

    def sustained_macs(self, dtype: str) -> float:
        """The same as long as its work goes on: less where a step takes several cycles."""
        rate = self._parameters.rates[nearest_class(dtype, self._dtypes)]
        return self.peak_macs(dtype) / max(1.0, rate.conv.compute)

    def compute(self, work: Workload) -> Cost:
        """The best mode's cost."""
        cycles = self.cycles(work)
        peak = self.peak_macs(work.dtype)
        useful = work.macs or work.out_elements
        utilisation = min(1.0, useful / (peak * cycles))
        return Cost(cycles, self._energy.compute(work), utilisation)

    def cycles(self, work: Workload) -> int:
        """The best mode's cycles."""
        return sum(
            whole_cycles(work.batch * self._cycles(piece, exact=False) * self._scale)
            for piece in work.pieces
        )

    def _cycles(self, work: Workload, exact: bool) -> float:
        """Cycles of the engine's clock for one image."""
        rate = self._rate(work)
        if work.dense:
            return self._dense(work, rate, exact)
        form = self._channelwise(work.kind, rate)
        if form is None:
            raise CostError(f"the array has no form for {work.kind} in {work.dtype}")
        mode = self._parameters.modes[form.mode] if form.mode else self._modes[0]
        terms = channelwise_terms(work, mode, rate, exact)
        return channelwise_cycles(terms, replace(form, overhead=0.0) if exact else form)

    def _dense(self, work: Workload, rate: ArrayRate, exact: bool) -> float:
        if work.groups == 1:
            forms = self._forms(work, rate)
            return min(self._best(seen, rate, form, exact) for form, seen in forms)
        # Group by group, or as one convolution with zeros between the groups.
        joined = work._replace(groups=1)
        ins, outs = work.in_channels // work.groups, work.out_channels // work.groups
        one = joined._replace(in_channels=ins, out_channels=outs)
        apart = work.groups * self._dense(one, rate, exact)
        return min(apart, self._dense(joined, rate, exact))

    def _best(self, work: Workload, rate: ArrayRate, form: DenseForm, exact: bool) -> float:
        if exact:
            form = replace(form, overhead=0.0)
        least, sharpness = self._parameters.least_positions, self._parameters.sharpness
        terms = [dense_terms(work, sizes, rate, least, exact) for sizes in self._sizes]
        return min([dense_cycles(each, form, sharpness) for each in terms])

    def _rate(self, work: Workload) -> ArrayRate:
        rates: Mapping[str, ArrayRate] = self._parameters.rates
        return rates[nearest_class(work.dtype, self._dtypes)]

    @staticmethod
    def _channelwise(kind: WorkKind, rate: ArrayRate) -> ChannelwiseForm | None:
        apart = (WorkKind.DEPTHWISE, WorkKind.POOL, WorkKind.ELTWISE)
        return getattr(rate, kind) if kind in apart else None


def _covered(inputs: int, outputs: int, kernel: int, stride: int) -> int:
    """Input positions that some window touches: a stride above the kernel leaves holes."""
    return max(0, inputs - max(0, outputs - 1) * max(0, stride - kernel))


def _even(extent: int, size: int) -> float:
    """The positions of an extent that any of the cuts into as few pieces as can be begins with."""
    rest = extent % size or size
    return min(1.0, -(-extent // size) * rest / max(1, extent))
