"""What the cost models of engines take from a machine file.

They stand here, below the models, so that a file is checked when it is read and not when it is
first used. Cycles are of the engine's own clock; the models convert them. What a field says of
itself is what the documentation and editors show.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

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
)

WorkName = Literal["conv", "first_conv", "depthwise", "pool", "eltwise", "vector"]


class _Strict:
    """Keys that a class does not have are faults."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class Extent(_Strict):
    """How many positions of each loop an array works on at once, or keeps in one block."""

    width: Annotated[Count, Field(description="Columns of the output.")] = 1
    height: Annotated[Count, Field(description="Rows of the output.")] = 1
    out_channels: Annotated[Count, Field(description="Output channels.")] = 1
    in_channels: Annotated[Count, Field(description="Input channels of a sum.")] = 1
    kernel_width: Annotated[Count, Field(description="Columns of the kernel.")] = 1
    kernel_height: Annotated[Count, Field(description="Rows of the kernel.")] = 1

    @property
    def lanes(self) -> int:
        """Multipliers that are at work at once."""
        spatial = self.width * self.height * self.out_channels
        return spatial * self.in_channels * self.kernel_width * self.kernel_height


@dataclass(frozen=True, slots=True)
class BlockExtent(_Strict):
    """What the accumulators hold: outputs, so neither input channels nor kernel positions."""

    width: Annotated[
        Count | None, Field(description="Columns of the output; left out: those of a step.")
    ] = None
    height: Annotated[
        Count | None, Field(description="Rows of the output; left out: those of a step.")
    ] = None
    out_channels: Annotated[
        Count | None, Field(description="Output channels; left out: those of a step.")
    ] = None


@dataclass(frozen=True, slots=True)
class ArrayMode(_Strict):
    """One way to use the array: what runs at once (`unroll`) and what a block of work keeps in the
    accumulators, so that weights are read once per block of positions and activations once per
    block of output channels."""

    unroll: Annotated[Extent, Field(description="What the array computes in one step.")]
    block: Annotated[
        BlockExtent | None, Field(description="What the accumulators hold; left out: one step.")
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

    overhead: Annotated[Cycles, Field(description="Cycles per call.")] = 0.0
    compute: Annotated[
        Factor, Field(description="Cycles per step and kernel position; 1 is a full array.")
    ] = 1.0
    per_block: Annotated[CyclesEach, Field(description="Cycles per block.")] = 0.0
    per_step: Annotated[CyclesEach, Field(description="Cycles per step.")] = 0.0
    input_bytes_per_cycle: Annotated[
        BytesPerCycle | None,
        Field(description="Reading the input once before computing; left out: no time."),
    ] = None
    activation_bytes_per_cycle: Annotated[
        BytesPerCycle | None, Field(description="Reading activations while computing.")
    ] = None
    weight_bytes_per_cycle: Annotated[
        BytesPerCycle | None, Field(description="Reading weights while computing.")
    ] = None
    output_bytes_per_cycle: Annotated[
        BytesPerCycle | None, Field(description="Writing the output while computing.")
    ] = None


@dataclass(frozen=True, slots=True)
class ChannelwiseForm(_Strict):
    """Cycles of work whose channels do not mix (depthwise, pooling, element-wise): overhead +
    columns and blocks for each kernel position + steps + input. `{}` is an array that takes a
    column a cycle: its positions, channels and kernel positions at once, input channels idle."""

    overhead: Annotated[Cycles, Field(description="Cycles per call.")] = 0.0
    per_column: Annotated[
        CyclesEach,
        Field(description="Cycles per column of the array and kernel position; 1 is a full one."),
    ] = 1.0
    per_block: Annotated[CyclesEach, Field(description="Cycles per block and kernel position.")] = (
        0.0
    )
    per_step: Annotated[CyclesEach, Field(description="Cycles per step.")] = 0.0
    input_bytes_per_cycle: Annotated[
        BytesPerCycle | None,
        Field(description="Reading the input once before computing; left out: no time."),
    ] = None
    mode: Annotated[
        str | None, Field(description="The mode it runs in; left out: the first one.")
    ] = None


@dataclass(frozen=True, slots=True)
class ArrayRate(_Strict):
    """How an array runs one element type. `conv` is required; the others say that the array can
    run those too."""

    conv: Annotated[DenseForm, Field(description="Convolutions and matrix products.")]
    in_channels: Annotated[
        Count, Field(description="Input channels that a position takes in a cycle.")
    ] = 1
    least_channels: Annotated[
        Count, Field(description="Fewer input channels than this cost as many.")
    ] = 1
    channel_grain: Annotated[
        Count | None,
        Field(
            description="Channels that `depthwise`, `pool` and `eltwise` take at once; left out: "
            "the mode's `out_channels`."
        ),
    ] = None
    first_conv: Annotated[
        DenseForm | None,
        Field(description="A convolution that reads the network's packed input."),
    ] = None
    depthwise: Annotated[
        ChannelwiseForm | None, Field(description="Depthwise convolutions, average pooling.")
    ] = None
    pool: Annotated[ChannelwiseForm | None, Field(description="Largest-of pooling.")] = None
    eltwise: Annotated[
        ChannelwiseForm | None, Field(description="Sums and products of two full tensors.")
    ] = None


@dataclass(frozen=True, slots=True)
class ArrayParameters(_Strict):
    """A spatial array of multipliers; of its modes the best counts."""

    modes: Annotated[
        Mapping[str, ArrayMode],
        Field(min_length=1, description="Ways to use the array, by a name of your own."),
    ]
    rates: Annotated[
        Mapping[Dtype, ArrayRate],
        Field(min_length=1, description="How it runs each element type that it has."),
    ]
    sharpness: Annotated[
        Sharpness,
        Field(
            description="Exponent of the soft maximum: 1 adds everything up, large is the plain "
            "maximum."
        ),
    ] = 3.0
    least_positions: Annotated[
        Count, Field(description="The shortest issue interval, in steps over positions.")
    ] = 1
    packed_channels: Annotated[
        PackedCount | None,
        Field(
            description="A network's input of up to so many channels is read packed, in the form "
            "`first_conv`; left out: channels are expanded like all others."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class VectorRate(_Strict):
    """Cycles per element on one unit, and per call."""

    per_element: Annotated[CyclesEach, Field(description="Cycles per element on one unit.")]
    per_call: Annotated[
        Cycles | None, Field(description="Cycles per call; left out: the engine's `per_call`.")
    ] = None


@dataclass(frozen=True, slots=True)
class VectorParameters(_Strict):
    """A vector engine, costed by cycles per element."""

    rates: Annotated[
        Mapping[OperatorClass, VectorRate],
        Field(
            min_length=1,
            description="Rates by operator class, `default` for the rest; with `mac` it also runs "
            "convolutions and matrix products, with `depthwise` depthwise convolutions.",
        ),
    ]
    per_call: Annotated[Cycles, Field(description="Cycles that every call costs.")] = 0.0
    units: Annotated[Count, Field(description="Units that share the elements of a call.")] = 1
    dtype_factors: Annotated[
        Mapping[Dtype, Factor],
        Field(description="What the rates are multiplied by for an element type; left out: 1."),
    ] = field(default_factory=dict[str, float])
    copy_16bit: Annotated[
        Factor,
        Field(
            description="How many times as fast copies of two-byte elements are, to "
            "`tilewright kernel`."
        ),
    ] = 1.0
    copy_16bit_psum: Annotated[
        Factor, Field(description="The same with an accumulator memory on one side.")
    ] = 1.0
    cycles_of: Annotated[
        Literal["engine", "reference"],
        Field(
            description="The clock that the rates count: the engine's own, or the reference: then "
            "`clock` is told, and read by `tilewright kernel` alone."
        ),
    ] = "engine"


@dataclass(frozen=True, slots=True)
class TableRow(_Strict):
    """Measured cycles of one shape; a field left out matches anything."""

    kind: Annotated[WorkName, Field(description="The kind of work.")]
    cycles: Annotated[Cycles, Field(description="Cycles of one image.")]
    energy_pj: Annotated[
        Picojoules | None, Field(description="pJ of one image; left out: computed.")
    ] = None
    dtype: Annotated[Dtype | None, Field(description="Element type.")] = None
    operator: Annotated[OperatorClass | None, Field(description="Operator class.")] = None
    out_height: Annotated[Count | None, Field(description="Rows of the output.")] = None
    out_width: Annotated[Count | None, Field(description="Columns of the output.")] = None
    out_channels: Annotated[Count | None, Field(description="Output channels.")] = None
    in_channels: Annotated[Count | None, Field(description="Input channels.")] = None
    kernel_height: Annotated[Count | None, Field(description="Rows of the kernel.")] = None
    kernel_width: Annotated[Count | None, Field(description="Columns of the kernel.")] = None
    stride: Annotated[Count | None, Field(description="Stride, the same both ways.")] = None


@dataclass(frozen=True, slots=True)
class TableParameters(_Strict):
    """Costs looked up by shape; what no row names is computed as an array, where one is given."""

    rows: Annotated[tuple[TableRow, ...], Field(description="The first row that matches counts.")]
    otherwise: Annotated[
        ArrayParameters | None, Field(description="An array for work that no row matches.")
    ] = None


EngineParameters = ArrayParameters | VectorParameters | TableParameters


def engine_dtypes(parameters: EngineParameters) -> tuple[str, ...] | None:
    """The element types that an engine's file names; None where it takes any."""
    if isinstance(parameters, ArrayParameters):
        return tuple(parameters.rates)
    if isinstance(parameters, VectorParameters):
        return tuple(parameters.dtype_factors) or None
    if any(row.dtype is None for row in parameters.rows):
        return None
    rows = tuple(row.dtype for row in parameters.rows if row.dtype is not None)
    return (*rows, *(parameters.otherwise.rates if parameters.otherwise is not None else ()))
