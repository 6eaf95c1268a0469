"""The machine file: what may stand in it, in the units people write.

Every block that holds parameters has a `source`: one text for the whole block, or a text per
parameter (`"*"` for the rest). A source may be a key of the file's `sources` table.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, model_validator

from tilewright.errors import TilewrightError
from tilewright.machine.parameters import ArrayParameters, TableParameters, VectorParameters
from tilewright.units import parse_bandwidth, parse_bytes, parse_frequency, parse_time


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number per second, or in cycles of the clock of the block it stands in."""

    value: float
    in_cycles: bool


def _bytes(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return _parsed(parse_bytes, value, "a number of bytes such as 4096, 64MB or 1.5MiB")


def _frequency(value: object) -> object:
    return _parsed(parse_frequency, value, "a frequency such as 1300 MHz")


def _latency(value: object) -> object:
    text, wanted = str(value), "a time such as 956 ns or 16 cycles"
    if text.endswith("cycles"):
        return Quantity(_parsed(float, value, wanted, "cycles"), True)
    return Quantity(_parsed(parse_time, value, wanted), False)


def _bandwidth(value: object) -> object:
    text, wanted = str(value), "a bandwidth such as 27 GB/s or 32 B/cycle"
    per_cycle = text.endswith("B/cycle")
    if per_cycle:
        rate = _parsed(float, value, wanted, "B/cycle")
    else:
        rate = _parsed(parse_bandwidth, value, wanted)
    if not 0 < rate < inf:
        raise ValueError(f"has to be more than 0, is '{text}'")
    return Quantity(rate, per_cycle)


def _parsed(parse: Any, value: object, wanted: str, unit: str = "") -> Any:
    try:
        return parse(str(value).removesuffix(unit))
    except (TilewrightError, ValueError):
        raise ValueError(f"has to be {wanted}, is '{value}'") from None


Bytes = Annotated[PositiveInt, BeforeValidator(_bytes)]
Hertz = Annotated[float, BeforeValidator(_frequency), Field(gt=0)]
Latency = Annotated[Quantity, BeforeValidator(_latency)]
Bandwidth = Annotated[Quantity, BeforeValidator(_bandwidth)]
Picojoules = Annotated[float, Field(ge=0)]


class Block(BaseModel):
    """A part of the file whose parameters carry their source."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    unsourced: ClassVar[frozenset[str]] = frozenset()

    source: str | dict[str, str]

    @model_validator(mode="after")
    def _all_sourced(self) -> "Block":
        if isinstance(self.source, dict) and "*" not in self.source:
            own = self.model_fields_set - self.unsourced - {"source"}
            missing = sorted(own - set(self.source))
            if missing:
                raise ValueError(f"no source for {', '.join(missing)}")
        return self


class MemoryFile(Block):
    """A memory, all of it usable by default; all links that touch it share `bandwidth`."""

    capacity: Bytes
    usable: Bytes | None = None
    alignment: Bytes = 1
    banks: PositiveInt = 1
    partitions: PositiveInt = 1
    bandwidth: Bandwidth | None = None
    read_pj_per_byte: Picojoules = 0.0
    write_pj_per_byte: Picojoules = 0.0

    @model_validator(mode="after")
    def _usable_fits(self) -> "MemoryFile":
        if self.usable is not None and self.usable > self.capacity:
            raise ValueError("usable is more than capacity")
        return self


class _EngineFile(Block):
    unsourced: ClassVar[frozenset[str]] = frozenset({"kind", "model"})

    kind: Literal["matrix", "vector"]
    clock: Hertz | None = None


class ArrayEngineFile(_EngineFile):
    """An engine costed as a spatial array."""

    model: Literal["array"]
    parameters: ArrayParameters


class VectorEngineFile(_EngineFile):
    """An engine costed by cycles per element."""

    model: Literal["vector"]
    parameters: VectorParameters


class TableEngineFile(_EngineFile):
    """An engine whose costs were measured."""

    model: Literal["table"]
    parameters: TableParameters


EngineFile = Annotated[
    ArrayEngineFile | VectorEngineFile | TableEngineFile, Field(discriminator="model")
]


class CoreFile(BaseModel):
    """A core, or `count` equal ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: PositiveInt | None = None
    memories: Annotated[dict[str, MemoryFile], Field(min_length=1)]
    engines: dict[str, EngineFile]


class RouteFile(Block):
    """Copies from `from` to `to`, which may be patterns such as `cluster*.cmx`."""

    unsourced: ClassVar[frozenset[str]] = frozenset({"origin", "to", "both_ways", "groups"})

    origin: str = Field(alias="from")
    to: str
    latency: Latency
    bandwidth: Bandwidth
    both_ways: bool = False
    groups: tuple[str, ...] = ()
    burst: Bytes = 1
    per_run: Latency | None = None
    multicast: bool = False


class LinkFile(Block):
    """A DMA queue, a link, a bus or a broadcast, or `count` equal ones; `clock` is the one its
    cycles count."""

    unsourced: ClassVar[frozenset[str]] = frozenset({"kind", "routes"})

    kind: Literal["dma", "link", "bus", "broadcast"]
    count: PositiveInt | None = None
    clock: Hertz | None = None
    stride_levels: PositiveInt | None = None
    routes: Annotated[dict[str, RouteFile], Field(min_length=1)]


class GroupFile(Block):
    """A bandwidth that several links share, beside those of memories."""

    bandwidth: Bandwidth


class LimitsFile(Block):
    """What one operator may be; left out is no limit."""

    kernel: PositiveInt | None = None
    stride: PositiveInt | None = None
    dilation: PositiveInt | None = None
    dimension: PositiveInt | None = None
    channel_alignment: PositiveInt = 1
    pad_half_kernel: bool = False
    weight_table: Annotated[int, BeforeValidator(_bytes), Field(ge=0)] = 0


class EnergyFile(Block):
    """Energies; `estimate` says that they are not the target's own."""

    mac_pj: dict[str, Picojoules]
    vector_pj: Picojoules = 0.0
    estimate: bool


class MachineFile(Block):
    """A whole file, after `extends` has been followed."""

    unsourced: ClassVar[frozenset[str]] = frozenset(
        {"name", "title", "sources", "cores", "memories", "links", "groups", "limits", "energy"}
    )

    name: str
    title: str
    clock: Hertz
    dtype: str
    sources: dict[str, str] = Field(default_factory=dict[str, str])
    cores: Annotated[dict[str, CoreFile], Field(min_length=1)]
    memories: Annotated[dict[str, MemoryFile], Field(min_length=1)]
    links: Annotated[dict[str, LinkFile], Field(min_length=1)]
    groups: dict[str, GroupFile] = Field(default_factory=dict[str, GroupFile])
    limits: LimitsFile
    energy: EnergyFile


def sources_of(file: MachineFile) -> Iterator[tuple[str, str]]:
    """Every block of the file, or parameter of it, with the text of its source."""
    yield from _walk(file, "", file.sources)


def _walk(item: object, path: str, table: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if isinstance(item, Block):
        if isinstance(item.source, str):
            yield path or "machine", table.get(item.source, item.source)
        else:
            for key, text in item.source.items():
                yield f"{path}.{key}".lstrip("."), table.get(text, text)
    if isinstance(item, BaseModel):
        for key in type(item).model_fields:
            yield from _walk(getattr(item, key), f"{path}.{key}".lstrip("."), table)
    elif isinstance(item, Mapping):
        for key, value in item.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _walk(value, f"{path}.{key}".lstrip("."), table)  # pyright: ignore[reportUnknownArgumentType]
