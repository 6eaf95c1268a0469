"""The least that a step of a spatial array costs, over all tiles that work can be cut into.

A tile of some steps costs at least as much as the smallest extents that take these steps; divided
by its steps, and over all numbers of steps the work has room for, the least is what no cover of the
work undercuts (docs/bounds.md).
"""

from math import ceil, inf

import numpy as np
import numpy.typing as npt

from tilewright.cost.base import WorkKind, Workload
from tilewright.machine.dtypes import element_bytes
from tilewright.machine.parameters import ArrayMode, ArrayRate, DenseForm

Floats = npt.NDArray[np.float64]

EXACT = 256  # numbers of steps along an axis that are looked at one by one
WIDER = (
    1.01  # more of them by ranges so wide, at the cost of their least over the steps of the most
)


def steps_of(work: Workload, mode: ArrayMode) -> tuple[int, int, int]:
    """Steps of the whole work along rows, columns and filters; positions of pointwise work lie in
    one row."""
    unroll = mode.unroll
    filters = ceil(work.out_channels / unroll.out_channels)
    if work.pointwise:
        area = unroll.width * unroll.height
        return 1, ceil(work.out_height * work.out_width / area), filters
    return (
        ceil(work.out_height / unroll.height),
        ceil(work.out_width / unroll.width),
        filters,
    )


def least_per_step(
    work: Workload,
    mode: ArrayMode,
    rate: ArrayRate,
    form: DenseForm,
    least_positions: int,
    sharpness: float,
) -> float:
    """The fewest cycles per step of any tile of a convolution, reading its input left out."""
    unroll, block = mode.unroll, mode.block or mode.unroll
    size = element_bytes(work.dtype)
    least = 1 if work.kind is WorkKind.FIRST_CONV else rate.least_channels
    channels = max(work.in_channels, least)
    lanes = rate.in_channels * unroll.in_channels
    depth = channels / lanes if unroll.in_channels == 1 else ceil(channels / lanes)
    taps = ceil(work.kernel_width / unroll.kernel_width)
    taps *= ceil(work.kernel_height / unroll.kernel_height)
    field = work.taps * channels * size

    row, column, filters = steps_of(work, mode)
    rows, most_rows = _counts(row)
    columns, most_columns = _counts(column)
    filters, most_filters = _counts(filters)
    area = unroll.width * unroll.height
    if work.pointwise:
        positions = (columns - 1) * area + 1
        places = np.ones(1)[:, None] * positions[None, :]
        spatial = np.ceil(places / (block.width * block.height))
    else:
        high, wide = (rows - 1) * unroll.height + 1, (columns - 1) * unroll.width + 1
        places = high[:, None] * wide[None, :]
        spatial = np.ceil(high / block.height)[:, None] * np.ceil(wide / block.width)[None, :]
    patches = np.maximum(rows[:, None] * columns[None, :], least_positions)
    most = most_rows[:, None] * most_columns[None, :]
    best = inf
    for count, most_count in zip(filters.tolist(), most_filters.tolist(), strict=True):
        made = (count - 1) * unroll.out_channels + 1
        kernels = ceil(made / block.out_channels)
        limits = (
            patches * (count * taps * depth * form.compute),
            patches * (area * field * kernels / (form.activation_bytes_per_cycle or inf)),
            spatial * (count * unroll.out_channels * field / (form.weight_bytes_per_cycle or inf)),
            places * (made * size / (form.output_bytes_per_cycle or inf)),
        )
        cycles = (
            form.overhead
            + spatial * (kernels * form.per_block)
            + patches * (count * form.per_step)
            + _norm(limits, sharpness)
        )
        best = min(best, float((cycles / (most * most_count)).min()))
    return best


def _counts(most: int) -> tuple[Floats, Floats]:
    """Numbers of steps from one to the most as ranges: the least of each, and the most."""
    first = list(range(1, min(most, EXACT) + 1))
    while first[-1] < most:
        first.append(min(most, int(first[-1] * WIDER) + 1))
    last = [after - 1 for after in first[1:]] + [most]
    return np.array(first, dtype=np.float64), np.array(last, dtype=np.float64)


def _norm(values: tuple[Floats, ...], sharpness: float) -> Floats:
    largest = np.maximum.reduce(values)
    share = sum((value / largest) ** sharpness for value in values)
    return np.asarray(largest * share ** (1 / sharpness))
