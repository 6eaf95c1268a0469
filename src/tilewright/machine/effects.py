"""Keys of an engine that would change nothing, or that cannot be meant: they are refused, since a
figure that is never used looks as if it were.

A key that is written with the value it has when it is left out is no fault.
"""

from collections.abc import Iterator

from tilewright.machine.faults import Keys
from tilewright.machine.parameters import (
    ArrayParameters,
    ArrayRate,
    ChannelwiseForm,
    EngineParameters,
    TableParameters,
    TableRow,
)

Found = Iterator[tuple[Keys, str]]
_ROUNDED = 1e-3  # of what is told as the least
_SHARPNESS = ArrayParameters({}, {}).sharpness
_ANY = ("cycles", "energy_pj")  # of a row: what it says, not what it matches
_MIXED = ("conv", "first_conv")
_FLAT = ("kind", "dtype", "operator", "out_channels", "in_channels")
# What rows of work without a window can tell apart.
_ELEMENTS = {"vector": _FLAT, "eltwise": (*_FLAT, "out_height", "out_width")}


def engine_faults(parameters: EngineParameters, partitioned: bool) -> Found:
    """The keys of an engine that are without effect or impossible; `partitioned` says whether a
    memory of its core has partitions, as `tilewright kernel` needs it."""
    if isinstance(parameters, ArrayParameters):
        yield from _array(parameters)
        return
    if isinstance(parameters, TableParameters):
        yield from _table(parameters)
        return
    if parameters.per_call and all(r.per_call is not None for r in parameters.rates.values()):
        yield ("per_call",), "has no effect: every rate has a per_call of its own"
    for key in ("copy_16bit", "copy_16bit_psum"):
        if getattr(parameters, key) != 1 and not partitioned:
            text = "has no effect: `tilewright kernel` alone reads it, on cores with a memory of"
            yield (key,), f"{text} partitions"


def _array(parameters: ArrayParameters) -> Found:
    rates = parameters.rates
    dense = [form for r in rates.values() for form in (r.conv, r.first_conv) if form is not None]
    limits = [f"{what}_bytes_per_cycle" for what in ("activation", "weight", "output")]
    limited = any(getattr(form, limit) for form in dense for limit in limits)
    if parameters.sharpness != _SHARPNESS and not limited:
        text = "has no effect: there is nothing beside computing to take the soft maximum of"
        bandwidths = "activation_, weight_ or output_bytes_per_cycle of conv"
        yield ("sharpness",), f"{text} (give {bandwidths}, or leave it out)"
    for dtype, rate in rates.items():
        for keys, text in _rate(parameters, rate):
            yield ("rates", dtype, *keys), text


def _rate(parameters: ArrayParameters, rate: ArrayRate) -> Found:
    if rate.first_conv is not None and parameters.packed_channels is None:
        yield ("first_conv",), "has no effect without packed_channels beside modes and rates"
    forms = {"depthwise": rate.depthwise, "pool": rate.pool, "eltwise": rate.eltwise}
    if rate.channel_grain is not None and not any(forms.values()):
        text = "has no effect without depthwise, pool or eltwise: of conv, the mode's out_channels"
        yield ("channel_grain",), f"{text} count"
    for key, form in forms.items():
        if form is None:
            continue
        if form.mode is not None and form.mode not in parameters.modes:
            known = ", ".join(parameters.modes)
            yield (key, "mode"), f"no mode '{form.mode}' (there are {known})"
        elif key == "depthwise":
            yield from _beyond_peak(parameters, rate, form)
        elif not (form.per_column or form.per_block or form.per_step) and (
            form.input_bytes_per_cycle is None
        ):
            text = "takes as long whatever its size: give per_column, per_block, per_step or"
            yield (key,), f"{text} input_bytes_per_cycle"


def _beyond_peak(parameters: ArrayParameters, rate: ArrayRate, form: ChannelwiseForm) -> Found:
    """Depthwise work that multiplies more in a cycle than the array has multipliers."""
    modes = parameters.modes
    unroll = (modes[form.mode] if form.mode else next(iter(modes.values()))).unroll
    peak = max(mode.unroll.lanes for mode in modes.values()) * rate.in_channels
    column = unroll.width * unroll.height * unroll.kernel_width * unroll.kernel_height
    column *= rate.channel_grain or unroll.out_channels
    if column > peak * (form.per_column + form.per_block) * (1 + _ROUNDED):
        text = f"runs faster than the array's {peak} multiply-accumulates a cycle:"
        least = f"per_column and per_block are {column / peak:.4g} at least, together"
        yield ("depthwise",), f"{text} {least}"


def _table(parameters: TableParameters) -> Found:
    rows = parameters.rows
    if parameters.otherwise is not None:
        for keys, text in _array(parameters.otherwise):
            yield ("otherwise", *keys), text
    for number, row in enumerate(rows):
        place = ("rows", number)
        wrong = [key for key in _matched(row) if key not in _ELEMENTS.get(row.kind, (key,))]
        if row.kind in _MIXED and row.operator is not None:
            wrong.append("operator")
        for key in wrong:
            yield (*place, key), f"work of kind {row.kind} has none: the row would never match"
    for number, row in enumerate(rows):
        first = next(place for place, other in enumerate(rows) if _covers(other, row))
        if first < number:
            text = f"never counts: rows[{first}] matches all that it does, and stands before it"
            yield ("rows", number), text


def _matched(row: TableRow) -> list[str]:
    """The keys of a row that work has to equal."""
    return [k for k in TableRow.__slots__ if k not in _ANY and getattr(row, k) is not None]


def _covers(one: TableRow, other: TableRow) -> bool:
    """Whether one row matches whatever the other does."""
    keys = [key for key in _matched(one) if key != "kind"]
    same = all(getattr(one, key) == getattr(other, key) for key in keys)
    # A row of convolutions is one of first convolutions too.
    return same and (one.kind == other.kind or (one.kind, other.kind) == _MIXED)
