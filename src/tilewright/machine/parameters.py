"""What the cost models of engines take from a machine file.

They stand here, below the models, so that a file is checked when it is read and not when it is
first used. Cycles are of the engine's own clock; the models convert them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pydantic import ConfigDict, NonNegativeFloat, PositiveFloat, PositiveInt

_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class Extent:
    """How many positions of each loop an array works on at once, or keeps in one block."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    width: PositiveInt = 1
    height: PositiveInt = 1
    out_channels: PositiveInt = 1
    in_channels: PositiveInt = 1
    kernel_width: PositiveInt = 1
    kernel_height: PositiveInt = 1


@dataclass(frozen=True, slots=True)
class ArrayMode:
    """One way to use the array: what runs at once (`unroll`) and what a block of work keeps in the
    accumulators, so that weights are read once per block of positions and activations once per
    block of output channels."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    unroll: Extent
    block: Extent | None = None


@dataclass(frozen=True, slots=True)
class DenseForm:
    """Cycles of a convolution: overhead + blocks + steps + input + the soft maximum of computing,
    reading activations, reading weights and writing the output (absent = no limit)."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    overhead: NonNegativeFloat = 0.0
    compute: PositiveFloat = 1.0
    per_block: NonNegativeFloat = 0.0
    per_step: NonNegativeFloat = 0.0
    input_bytes_per_cycle: PositiveFloat | None = None
    activation_bytes_per_cycle: PositiveFloat | None = None
    weight_bytes_per_cycle: PositiveFloat | None = None
    output_bytes_per_cycle: PositiveFloat | None = None


@dataclass(frozen=True, slots=True)
class ChannelwiseForm:
    """Cycles of work whose channels do not mix (depthwise, pooling, element-wise): overhead +
    columns and blocks for each kernel position + steps + input."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    overhead: NonNegativeFloat = 0.0
    per_column: NonNegativeFloat = 0.0
    per_block: NonNegativeFloat = 0.0
    per_step: NonNegativeFloat = 0.0
    input_bytes_per_cycle: PositiveFloat | None = None
    mode: str | None = None


@dataclass(frozen=True, slots=True)
class ArrayRate:
    """How an array runs one element type.

    `in_channels` is how many input channels a position takes in a cycle; fewer than
    `least_channels` cost as many; channelwise work counts in blocks of `channel_grain`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    conv: DenseForm
    in_channels: PositiveInt = 1
    least_channels: PositiveInt = 1
    channel_grain: PositiveInt = 1
    first_conv: DenseForm | None = None
    depthwise: ChannelwiseForm | None = None
    pool: ChannelwiseForm | None = None
    eltwise: ChannelwiseForm | None = None


@dataclass(frozen=True, slots=True)
class ArrayParameters:
    """A spatial array of multipliers. `sharpness` is the exponent of the soft maximum: 1 adds
    everything up, large is the plain maximum. `least_positions` is the shortest issue interval.
    A network's input of up to `packed_channels` channels is read packed, in the form `first_conv`;
    without it channels are expanded like all others."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    modes: Mapping[str, ArrayMode]
    rates: Mapping[str, ArrayRate]
    sharpness: PositiveFloat = 3.0
    least_positions: PositiveInt = 1
    packed_channels: PositiveInt | None = None


@dataclass(frozen=True, slots=True)
class VectorRate:
    """Cycles per element on one unit, and per call."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    per_element: NonNegativeFloat
    per_call: NonNegativeFloat | None = None


@dataclass(frozen=True, slots=True)
class VectorParameters:
    """A vector engine: rates by operator class (`default` for the rest) for the element type
    `dtype`, shared by `units`. With the class `mac` it also runs convolutions."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    rates: Mapping[str, VectorRate]
    per_call: NonNegativeFloat = 0.0
    units: PositiveInt = 1
    dtype_factors: Mapping[str, PositiveFloat] = field(default_factory=dict[str, float])
    cycles_of: Literal["engine", "reference"] = "engine"


@dataclass(frozen=True, slots=True)
class TableRow:
    """Measured cycles of one shape; a field left out matches anything."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    kind: str
    cycles: NonNegativeFloat
    energy_pj: NonNegativeFloat | None = None
    dtype: str | None = None
    operator: str | None = None
    out_height: PositiveInt | None = None
    out_width: PositiveInt | None = None
    out_channels: PositiveInt | None = None
    in_channels: PositiveInt | None = None
    kernel_height: PositiveInt | None = None
    kernel_width: PositiveInt | None = None
    stride: PositiveInt | None = None


@dataclass(frozen=True, slots=True)
class TableParameters:
    """Costs looked up by shape; what no row names is computed as an array, where one is given."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    rows: tuple[TableRow, ...]
    otherwise: ArrayParameters | None = None


EngineParameters = ArrayParameters | VectorParameters | TableParameters
