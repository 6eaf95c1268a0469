"""What the cost models of engines take from a machine file.

They stand here, below the models, so that a file is checked when it is read and not when it is
first used. Cycles are of the engine's own clock; the models convert them. What a field says of
itself is what the documentation and editors show.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict

from tilewright.machine.dtypes import RATE_CLASSES, runs_as
from tilewright.machine.ranges import (
    BytesPerCycle,
    Count,
    Cycles,
    CyclesEach,
    Dtype,
    Factor,
    OperatorClass,
    PackedCount,
    Picojoules,
    Sharpness,
    told,
)

WorkName = Literal["conv", "first_conv", "depthwise", "pool", "eltwise", "vector"]


class _Strict:
    """Keys that a class does not have are faults."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class Extent(_Strict):
    """How many positions of each loop an array works on at once, or keeps in one block."""

    width: Annotated[Count, told("Columns of the output.")] = 1
    height: Annotated[Count, told("Rows of the output.")] = 1
    out_channels: Annotated[Count, told("Output channels.")] = 1
    in_channels: Annotated[Count, told("Input channels of a sum.")] = 1
    kernel_width: Annotated[Count, told("Columns of the kernel.")] = 1
    kernel_height: Annotated[Count, told("Rows of the kernel.")] = 1

    @property
    def lanes(self) -> int:
        """Multipliers that are at work at once."""
        spatial = self.width * self.height * self.out_channels
        return spatial * self.in_channels * self.kernel_width * self.kernel_height


@dataclass(frozen=True, slots=True)
class BlockExtent(_Strict):
    """What the accumulators hold: outputs, so neither input channels nor kernel positions."""

    width: Annotated[Count | None, told("Columns of the output; left out: those of a step.")] = None
    height: Annotated[Count | None, told("Rows of the output; left out: those of a step.")] = None
    out_channels: Annotated[Count | None, told("Output channels; left out: those of a step.")] = (
        None
    )


@dataclass(frozen=True, slots=True)
class ArrayMode(_Strict):
    """One way to use the array: what runs at once (`unroll`) and what a block of work keeps in the
    accumulators, so that weights are read once per block of positions and activations once per
    block of output channels."""

    unroll: Annotated[Extent, told("What the array computes in one step.")]
    block: Annotated[
        BlockExtent | None, told("What the accumulators hold; left out: one step.")
    ] = None

    @property
    def held(self) -> Extent:
        """The outputs that a block has: those of a step, where the file does not say."""
        step, block = self.unroll, self.block or BlockExtent()
        return Extent(
            block.width or step.width,
            block.height or step.height,
            block.out_channels or step.out_channels,
        )


@dataclass(frozen=True, slots=True)
class DenseForm(_Strict):
    """Cycles of a convolution: overhead + blocks + steps + input + the soft maximum of computing,
    reading activations, reading weights and writing the output (absent = no limit)."""

    overhead: Annotated[Cycles, told("Cycles per call.")] = 0.0
    compute: Annotated[Factor, told("Cycles per step and kernel position; 1 is a full array.")] = (
        1.0
    )
    per_block: Annotated[CyclesEach, told("Cycles per block.")] = 0.0
    per_step: Annotated[CyclesEach, told("Cycles per step.")] = 0.0
    input_bytes_per_cycle: Annotated[
        BytesPerCycle | None, told("Reading the input once before computing; left out: no time.")
    ] = None
    activation_bytes_per_cycle: Annotated[
        BytesPerCycle | None, told("Reading activations while computing.")
    ] = None
    weight_bytes_per_cycle: Annotated[
        BytesPerCycle | None, told("Reading weights while computing.")
    ] = None
    output_bytes_per_cycle: Annotated[
        BytesPerCycle | None, told("Writing the output while computing.")
    ] = None


@dataclass(frozen=True, slots=True)
class ChannelwiseForm(_Strict):
    """Cycles of work whose channels do not mix (depthwise, pooling, element-wise): overhead +
    columns and blocks for each kernel position + steps + input. `{}` is an array that takes a
    column a cycle: its positions, channels and kernel positions at once, input channels idle."""

    overhead: Annotated[Cycles, told("Cycles per call.")] = 0.0
    per_column: Annotated[
        CyclesEach, told("Cycles per column of the array and kernel position; 1 is a full one.")
    ] = 1.0
    per_block: Annotated[CyclesEach, told("Cycles per block and kernel position.")] = 0.0
    per_step: Annotated[CyclesEach, told("Cycles per step.")] = 0.0
    input_bytes_per_cycle: Annotated[
        BytesPerCycle | None, told("Reading the input once before computing; left out: no time.")
    ] = None
    mode: Annotated[str | None, told("The mode it runs in; left out: the first one.")] = None


@dataclass(frozen=True, slots=True)
class ArrayRate(_Strict):
    """How an array runs one element type. `conv` is required; the others say that the array can
    run those too."""

    conv: Annotated[DenseForm, told("Convolutions and matrix products.")]
    in_channels: Annotated[Count, told("Input channels that a position takes in a cycle.")] = 1
    least_channels: Annotated[Count, told("Fewer input channels than this cost as many.")] = 1
    channel_grain: Annotated[
        Count | None,
        told(
            "Channels that `depthwise`, `pool` and `eltwise` take at once; left out: "
            "the mode's `out_channels`."
        ),
    ] = None
    first_conv: Annotated[
        DenseForm | None, told("A convolution that reads the network's packed input.")
    ] = None
    depthwise: Annotated[
        ChannelwiseForm | None, told("Depthwise convolutions, average pooling.")
    ] = None
    pool: Annotated[ChannelwiseForm | None, told("Largest-of pooling.")] = None
    eltwise: Annotated[ChannelwiseForm | None, told("Sums and products of two full tensors.")] = (
        None
    )


@dataclass(frozen=True, slots=True)
class ArrayParameters(_Strict):
    """A spatial array of multipliers; of its modes the best counts."""

    modes: Annotated[
        Mapping[str, ArrayMode], told("Ways to use the array, by a name of your own.", min_length=1)
    ]
    rates: Annotated[
        Mapping[Dtype, ArrayRate], told("How it runs each element type that it has.", min_length=1)
    ]
    sharpness: Annotated[
        Sharpness,
        told("Exponent of the soft maximum: 1 adds everything up, large is the plain maximum."),
    ] = 3.0
    least_positions: Annotated[
        Count, told("The shortest issue interval, in steps over positions.")
    ] = 1
    packed_channels: Annotated[
        PackedCount | None,
        told(
            "A network's input of up to so many channels is read packed, in the form "
            "`first_conv`; left out: channels are expanded like all others."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class VectorRate(_Strict):
    """Cycles per element on one unit, and per call."""

    per_element: Annotated[CyclesEach, told("Cycles per element on one unit.")]
    per_call: Annotated[
        Cycles | None, told("Cycles per call; left out: the engine's `per_call`.")
    ] = None


@dataclass(frozen=True, slots=True)
class VectorParameters(_Strict):
    """A vector engine, costed by cycles per element."""

    rates: Annotated[
        Mapping[OperatorClass, VectorRate],
        told(
            "Rates by operator class, `default` for the rest; with `mac` it also runs "
            "convolutions and matrix products, with `depthwise` depthwise convolutions.",
            min_length=1,
        ),
    ]
    per_call: Annotated[Cycles, told("Cycles that every call costs.")] = 0.0
    units: Annotated[Count, told("Units that share the elements of a call.")] = 1
    dtype_factors: Annotated[
        Mapping[Dtype, Factor],
        told("What the rates are multiplied by for an element type; left out: 1."),
    ] = field(default_factory=dict[str, float])
    copy_16bit: Annotated[
        Factor,
        told("How many times as fast copies of two-byte elements are, to `tilewright kernel`."),
    ] = 1.0
    copy_16bit_psum: Annotated[Factor, told("The same with an accumulator memory on one side.")] = (
        1.0
    )
    cycles_of: Annotated[
        Literal["engine", "reference"],
        told(
            "The clock that the rates count: the engine's own, or the reference: then "
            "`clock` is told, and read by `tilewright kernel` alone."
        ),
    ] = "engine"


@dataclass(frozen=True, slots=True)
class TableRow(_Strict):
    """Measured cycles of one shape; a field left out matches anything."""

    kind: Annotated[WorkName, told("The kind of work.")]
    cycles: Annotated[Cycles, told("Cycles of one image.")]
    energy_pj: Annotated[Picojoules | None, told("pJ of one image; left out: computed.")] = None
    dtype: Annotated[Dtype | None, told("Element type.")] = None
    operator: Annotated[OperatorClass | None, told("Operator class.")] = None
    out_height: Annotated[Count | None, told("Rows of the output.")] = None
    out_width: Annotated[Count | None, told("Columns of the output.")] = None
    out_channels: Annotated[Count | None, told("Output channels.")] = None
    in_channels: Annotated[Count | None, told("Input channels.")] = None
    kernel_height: Annotated[Count | None, told("Rows of the kernel.")] = None
    kernel_width: Annotated[Count | None, told("Columns of the kernel.")] = None
    stride: Annotated[Count | None, told("Stride, the same both ways.")] = None


@dataclass(frozen=True, slots=True)
class TableParameters(_Strict):
    """Costs looked up by shape; what no row names is computed as an array, where one is given."""

    rows: Annotated[tuple[TableRow, ...], told("The first row that matches counts.")]
    otherwise: Annotated[ArrayParameters | None, told("An array for work that no row matches.")] = (
        None
    )


EngineParameters = ArrayParameters | VectorParameters | TableParameters


def engine_dtypes(parameters: EngineParameters) -> tuple[str, ...] | None:
    """The element types that an engine's file names; None where it takes any."""
    if isinstance(parameters, ArrayParameters):
        return tuple(parameters.rates)
    if isinstance(parameters, VectorParameters):
        return tuple(parameters.dtype_factors) or None
    rows = tuple(row.dtype for row in parameters.rows if row.dtype is not None)
    others = tuple(parameters.otherwise.rates) if parameters.otherwise is not None else ()
    return (*rows, *others) if len(rows) == len(parameters.rows) else None


def lacking_elements(
    engines: Collection[EngineParameters], wanted: str, *, held: bool = True
) -> str:
    """What is said of engines none of which computes with a class of elements, or (if `held`) with
    one that holds it; else nothing."""
    offered = [engine_dtypes(parameters) for parameters in engines]
    if any(some is None or wanted in some or (held and runs_as(wanted, some)) for some in offered):
        return ""
    known = [kind for kind in RATE_CLASSES if any(kind in (some or ()) for some in offered)]
    return f"has no elements of type {wanted} (it has {', '.join(known)})"


def packed_channels(parameters: EngineParameters) -> int:
    """The most channels of a network's input that an engine reads packed; 0: it does not."""
    if isinstance(parameters, TableParameters):
        return 0 if parameters.otherwise is None else packed_channels(parameters.otherwise)
    return parameters.packed_channels or 0 if isinstance(parameters, ArrayParameters) else 0
