"""What a processor file may say. Every block has a `source`; nothing about a chip is in code."""

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, model_validator

from tilewright.errors import TilewrightError
from tilewright.machine.dtypes import RATE_CLASSES
from tilewright.units import parse_bandwidth, parse_bytes, parse_frequency, parse_time

_PREFIX = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
LARGEST = 1e18  # a rate or a size beyond it is a slip of the pen


def _flops(text: str) -> float:
    """`67 TFLOP/s` as operations per second."""
    number, _, unit = text.strip().partition(" ")
    prefix = unit.removesuffix("FLOP/s").removesuffix("OP/s")
    if unit == prefix or prefix not in _PREFIX:
        raise TilewrightError(f"'{text}' is no rate: write 67 TFLOP/s")
    return float(number) * _PREFIX[prefix]


def _quantity(parse: Any, wanted: str) -> Any:
    def read(value: object) -> float:
        try:
            found = float(parse(str(value)))
        except (TilewrightError, ValueError):
            raise ValueError(f"has to be {wanted}, is '{value}'") from None
        if not math.isfinite(found) or found > LARGEST:
            raise ValueError(f"has to be {wanted}, is '{value}'")
        return found

    return read


Bytes = Annotated[float, BeforeValidator(_quantity(parse_bytes, "bytes, as 50 MiB")), Field(gt=0)]
Hertz = Annotated[
    float, BeforeValidator(_quantity(parse_frequency, "a clock, as 1830 MHz")), Field(gt=0)
]
Seconds = Annotated[float, BeforeValidator(_quantity(parse_time, "a time, as 5 us")), Field(ge=0)]
Bandwidth = Annotated[
    float, BeforeValidator(_quantity(parse_bandwidth, "a bandwidth, as 3.35 TB/s")), Field(gt=0)
]
Rate = Annotated[float, BeforeValidator(_quantity(_flops, "a rate, as 67 TFLOP/s")), Field(gt=0)]


class ProcessorPart(BaseModel):
    """A part of the file: its figures and where they are from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str


class ProcessorRates(ProcessorPart):
    """Operations per second of one element type: products, and everything else."""

    matrix: Rate
    vector: Rate


class ProcessorMemory(ProcessorPart):
    """A memory, all of it shared, or one in each unit (`per_unit`); the bandwidth is that of all
    together."""

    capacity: Bytes
    bandwidth: Bandwidth
    per_unit: bool = False


class BlockTile(BaseModel):
    """A tile of a product that a thread block computes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows: PositiveInt
    columns: PositiveInt
    depth: PositiveInt
    stages: PositiveInt
    threads: PositiveInt
    registers: PositiveInt


class Elementwise(BaseModel):
    """A thread block of element-wise work."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    threads: PositiveInt
    elements_per_thread: PositiveInt
    registers: PositiveInt


class Gpu(ProcessorPart):
    """What fits on one streaming multiprocessor, and what kernels ask for."""

    warp: PositiveInt
    warps_per_unit: PositiveInt
    blocks_per_unit: PositiveInt
    registers_per_unit: PositiveInt
    shared: str
    tiles: Annotated[tuple[BlockTile, ...], Field(min_length=1)]
    elementwise: Elementwise


class Systolic(ProcessorPart):
    """Arrays of multiply-accumulate cells through which rows stream."""

    arrays: PositiveInt
    rows: PositiveInt
    columns: PositiveInt


class ComputeTiles(ProcessorPart):
    """Compute tiles with a memory each. `macs_per_cycle` by element type; DRAM is read in
    accesses of so many bytes."""

    local: str
    macs_per_cycle: Annotated[dict[str, PositiveInt], Field(min_length=1)]
    access: Bytes
    schedule: Seconds


class Processor(ProcessorPart):
    """A whole file. Memories are listed from the outermost to the innermost; `capacity_level` names
    the one that groups of operators have to fit."""

    name: str
    title: str
    kind: Literal["gpu", "systolic", "tiles"]
    clock: Hertz
    units: PositiveInt
    dtype: str
    launch: Seconds
    capacity_level: str
    rates: Annotated[dict[str, ProcessorRates], Field(min_length=1)]
    memories: Annotated[dict[str, ProcessorMemory], Field(min_length=1)]
    gpu: Gpu | None = None
    systolic: Systolic | None = None
    tiles: ComputeTiles | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "Processor":
        if getattr(self, self.kind) is None:
            raise ValueError(f"a {self.kind} has to have a block '{self.kind}'")
        named = [self.capacity_level]
        named += [self.gpu.shared] if self.gpu else []
        named += [self.tiles.local] if self.tiles else []
        for name in named:
            if name not in self.memories:
                raise ValueError(f"no memory is called '{name}'")
        unknown = [d for d in (self.dtype, *self.rates) if d not in RATE_CLASSES]
        if unknown or self.dtype not in self.rates:
            wrong = unknown[0] if unknown else self.dtype
            raise ValueError(f"'{wrong}' is no element type with a rate")
        return self

    @property
    def main(self) -> str:
        """The outermost memory."""
        return next(iter(self.memories))
