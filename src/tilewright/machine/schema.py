"""The machine file: what may stand in it, in the units people write.

Every block that holds parameters has a `source`: one text for the whole block, or a text per
parameter (`"*"` for the rest). A source may be a key of the file's `sources` table; a text at the
top of the file is also that of all blocks without one. What a field says of itself is what the
documentation and editors show.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from tilewright.errors import TilewrightError
from tilewright.machine.machine import EngineKind, Finish, LinkKind, Role
from tilewright.machine.parameters import ArrayParameters, TableParameters, VectorParameters
from tilewright.machine.ranges import (
    ChannelCount,
    CoreCount,
    Count,
    Dtype,
    Length,
    Levels,
    LinkCount,
    Picojoules,
    told,
)
from tilewright.units import parse_bandwidth, parse_bytes, parse_frequency, parse_time

_LEAST_HERTZ, _MOST_HERTZ = 1e3, 1e12


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
    wanted = "a frequency such as 1300 MHz"
    hertz = _parsed(parse_frequency, value, wanted)
    if not _LEAST_HERTZ <= hertz <= _MOST_HERTZ:
        raise ValueError(f"has to be {wanted}, from 1 kHz to 1000 GHz, is '{value}'")
    return hertz


def _latency(value: object) -> object:
    text, wanted = str(value), "a time such as 956 ns or 16 cycles"
    in_cycles = text.endswith("cycles")
    time = _parsed(float if in_cycles else parse_time, value, wanted, "cycles")
    if not 0 <= time < inf:
        raise ValueError(f"has to be {wanted}, is '{text}'")
    return Quantity(time, in_cycles)


def _bandwidth(value: object) -> object:
    text, wanted = str(value), "a bandwidth such as 27 GB/s or 32 B/cycle"
    per_cycle = text.endswith("B/cycle")
    rate = _parsed(float if per_cycle else parse_bandwidth, value, wanted, "B/cycle")
    if not 0 < rate < inf:
        raise ValueError(f"has to be more than 0, is '{text}'")
    return Quantity(rate, per_cycle)


def _parsed(parse: Any, value: object, wanted: str, in_cycles: str = "") -> Any:
    """A quantity; one `in_cycles` is a plain number before these words."""
    try:
        return parse(str(value).removesuffix(in_cycles))
    except (TilewrightError, ValueError, OverflowError):
        raise ValueError(f"has to be {wanted}, is '{value}'") from None


def _size(least: int, most: int, example: str) -> tuple[Any, ...]:
    """What a number of bytes has to be, and what editors are told of it."""
    shown = {"type": ["string", "integer"], "examples": [example], "minimum": least}
    bounds = Field(ge=least, le=most)
    return bounds, BeforeValidator(_bytes), WithJsonSchema({**shown, "maximum": most})


Bytes = Annotated[int, *_size(1, 1 << 50, "64 KiB")]
Grain = Annotated[int, *_size(1, 1 << 20, "64 B")]
TableBytes = Annotated[int, *_size(0, 1 << 16, "16 B")]


def _quantity(parse: Any, *examples: str) -> tuple[Any, ...]:
    """How the text of a quantity is read, and what editors are told of it."""
    return BeforeValidator(parse), WithJsonSchema({"type": "string", "examples": [*examples]})


Hertz = Annotated[float, *_quantity(_frequency, "1300 MHz")]
Latency = Annotated[Quantity, *_quantity(_latency, "956 ns", "16 cycles")]
Bandwidth = Annotated[Quantity, *_quantity(_bandwidth, "27 GB/s", "32 B/cycle")]
# Names of cores, memories, engines, links and bandwidths: `core.memory` and patterns need the rest.
Name = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9_-]+$", max_length=64)]
Text = Annotated[str, StringConstraints(min_length=1)]


class Block(BaseModel):
    """A part of the file whose parameters carry their source."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    unsourced: ClassVar[frozenset[str]] = frozenset()

    source: Annotated[
        str | dict[str, str],
        told(
            "Where the figures are from: a text, or a text per key (`*`: the rest). "
            "Left out, it is the text at the top of the file."
        ),
    ]

    @model_validator(mode="before")
    @classmethod
    def _inherits_source(cls, data: object, info: ValidationInfo) -> object:
        context = cast("Mapping[str, object]", info.context or {})
        outer = context.get("source")
        if isinstance(outer, dict):  # a source per key: `*` is that of all others
            outer = cast("dict[str, object]", outer).get("*")
        if isinstance(data, dict) and "source" not in data and isinstance(outer, str):
            return {**data, "source": outer}  # pyright: ignore[reportUnknownVariableType]
        return data  # pyright: ignore[reportUnknownVariableType]

    @model_validator(mode="after")
    def _all_sourced(self) -> "Block":
        if isinstance(self.source, dict) and "*" not in self.source:
            own = self.model_fields_set - self.unsourced - {"source"}
            missing = sorted(own - set(self.source))
            if missing:
                raise ValueError(f"no source for {', '.join(missing)}")
        return self


class MemoryFile(Block):
    """A memory; all links that touch it share its `bandwidth`."""

    unsourced: ClassVar[frozenset[str]] = frozenset({"roles"})

    capacity: Annotated[Bytes, told("Its size.")]
    usable: Annotated[Bytes | None, told("What a plan may use; left out: all of it.")] = None
    alignment: Annotated[Grain, told("Addresses are multiples of it.")] = 1
    banks: Annotated[Count, told("Banks of each partition.")] = 1
    partitions: Annotated[Count, told("Equal parts that are addressed alike.")] = 1
    bandwidth: Annotated[
        Bandwidth | None, told("What all links that touch it carry together; left out: no limit.")
    ] = None
    read_pj_per_byte: Annotated[Picojoules, told("pJ to read a byte.")] = 0.0
    write_pj_per_byte: Annotated[Picojoules, told("pJ to write a byte.")] = 0.0
    roles: Annotated[
        tuple[Role, ...] | None,
        told(
            "What it holds. Of a core's memories each role is one memory's; roles that "
            "none names are those of the first one without `roles`. A shared memory holds "
            "everything unless it says otherwise."
        ),
    ] = None

    @model_validator(mode="after")
    def _sizes_fit(self) -> "MemoryFile":
        usable = self.capacity if self.usable is None else self.usable
        if usable > self.capacity:
            raise ValueError("usable is more than capacity")
        for key in ("alignment", "banks", "partitions"):
            if getattr(self, key) > usable:
                raise ValueError(f"{key} is more than the usable bytes")
        return self


class _EngineFile(Block):
    unsourced: ClassVar[frozenset[str]] = frozenset({"kind", "model"})

    kind: Annotated[
        EngineKind,
        told(
            "`matrix` engines get convolutions and matrix products within the "
            "`limits`, `vector` engines the rest."
        ),
    ]
    clock: Annotated[Hertz | None, told("The clock its cycles count; left out: the reference.")] = (
        None
    )

    output_stage: Annotated[
        tuple[Finish, ...] | None,
        told(
            "What a matrix engine does to its results on their way out, at no further cycles: "
            "`bias` adds a constant per channel, `clamp` applies ReLU, Clip, LeakyReLU or PReLU, "
            "`activation` any other function of one number, `scale` multiplies by a number per "
            "channel, `add` adds a tensor of the same shape (a residual); any number of these in a "
            "row, in any order, each the only reader of the one before. Left out: `bias` and "
            "`clamp`; `[]`: nothing. A bias that is an input of the convolution is part of it."
        ),
    ] = None


class ArrayEngineFile(_EngineFile):
    """An engine costed as a spatial array of multipliers."""

    model: Annotated[Literal["array"], told("How it is costed.")]
    parameters: Annotated[ArrayParameters, told("What the model needs.")]


class VectorEngineFile(_EngineFile):
    """An engine costed by cycles per element."""

    model: Annotated[Literal["vector"], told("How it is costed.")]
    parameters: Annotated[VectorParameters, told("What the model needs.")]


class TableEngineFile(_EngineFile):
    """An engine whose costs were measured."""

    model: Annotated[Literal["table"], told("How it is costed.")]
    parameters: Annotated[TableParameters, told("What the model needs.")]


EngineFile = Annotated[
    ArrayEngineFile | VectorEngineFile | TableEngineFile, Field(discriminator="model")
]


class CoreFile(BaseModel):
    """A core, or `count` equal ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: Annotated[
        CoreCount | None,
        told("So many equal cores: NAME0, NAME1, ...; left out: one, called NAME."),
    ] = None
    memories: Annotated[
        dict[Name, MemoryFile],
        told(
            "Its own memories; the first holds the tiles unless `roles` say otherwise.",
            min_length=1,
        ),
    ]
    engines: Annotated[dict[Name, EngineFile], told("What computes, by name.", min_length=1)]


class RouteFile(Block):
    """Copies from `from` to `to`, which may be patterns such as `cluster*.cmx`."""

    unsourced: ClassVar[frozenset[str]] = frozenset({"origin", "to", "both_ways", "groups"})

    origin: str = Field(alias="from", description="Memories it reads: a name or a pattern.")
    to: Annotated[str, told("Memories it writes: a name or a pattern.")]
    latency: Annotated[Latency, told("Before the first byte, of each descriptor.")]
    bandwidth: Annotated[Bandwidth, told("Bytes over time of a copy.")]
    both_ways: Annotated[bool, told("Copies the other way too.")] = False
    groups: Annotated[tuple[str, ...], told("Bandwidths under `groups` that it shares.")] = ()
    burst: Annotated[Grain, told("Every contiguous run takes whole bursts.")] = 1
    per_run: Annotated[
        Latency | None, told("What every contiguous run costs; left out: nothing.")
    ] = None
    multicast: Annotated[
        bool, told("One copy may have several destinations at the price of one.")
    ] = False


class LinkFile(Block):
    """Something that copies, one copy at a time; or `count` equal ones."""

    unsourced: ClassVar[frozenset[str]] = frozenset({"kind", "routes"})

    kind: Annotated[LinkKind, told("What it is, for people.")]
    count: Annotated[
        LinkCount | None, told("So many equal ones: NAME0, NAME1, ...; left out: one, called NAME.")
    ] = None
    clock: Annotated[Hertz | None, told("The clock its cycles count; left out: the reference.")] = (
        None
    )
    stride_levels: Annotated[
        Levels | None, told("Levels of stride in one descriptor; left out: any number.")
    ] = None
    routes: Annotated[
        dict[str, RouteFile], told("Between which memories, by a name of your own.", min_length=1)
    ]


class GroupFile(Block):
    """A bandwidth that several links share, beside those of memories."""

    bandwidth: Annotated[Bandwidth, told("What they carry together.")]


class LimitsFile(Block):
    """What one operator on a matrix engine may be; left out is no limit."""

    kernel: Annotated[Length | None, told("The longest side of a kernel.")] = None
    stride: Annotated[Length | None, told("The largest stride.")] = None
    dilation: Annotated[Length | None, told("The largest dilation; more is rewritten.")] = None
    dimension: Annotated[Length | None, told("The longest extent of a tensor along any axis.")] = (
        None
    )
    channel_alignment: Annotated[
        ChannelCount, told("Channels are filled up to a multiple of it.")
    ] = 1
    pad_half_kernel: Annotated[
        bool, told("Whether a pad may be at most half of what the kernel spans.")
    ] = False
    weight_table: Annotated[
        TableBytes, told("Extra bytes per output channel beside the weights.")
    ] = 0


class EnergyFile(Block):
    """Energies of operations; those of memories stand with the memories."""

    mac_pj: Annotated[
        dict[Dtype, Picojoules], told("pJ of a multiply-accumulate, by element type.")
    ]
    vector_pj: Annotated[Picojoules, told("pJ of one element operation of a vector engine.")] = 0.0
    estimate: Annotated[bool, told("Whether they are not the target's own.")]


class MachineFile(Block):
    """A whole file, after `extends` has been followed."""

    unsourced: ClassVar[frozenset[str]] = frozenset(
        {"name", "title", "sources", "cores", "memories", "links", "groups", "limits", "energy"}
    )

    name: Annotated[Text, told("Left out: the file's name.")]
    title: Annotated[Text, told("A name for people.")]
    clock: Annotated[Hertz, told("The reference clock: all results are in its cycles.")]
    dtype: Annotated[Dtype, told("The element type that plans take unless told otherwise.")]
    sources: Annotated[
        dict[str, str], told("Texts of sources by a short name, to be used below.")
    ] = Field(default_factory=dict[str, str])
    cores: Annotated[
        dict[Name, CoreFile], told("What computes, by name; cores may differ.", min_length=1)
    ]
    memories: Annotated[
        dict[Name, MemoryFile],
        told(
            "Shared memories; the first is the main one, where the network lives, the "
            "others lie on the chip.",
            min_length=1,
        ),
    ]
    links: Annotated[dict[Name, LinkFile], told("What copies between memories.", min_length=1)]
    groups: Annotated[dict[Name, GroupFile], told("Other bandwidths that routes share.")] = Field(
        default_factory=dict[str, GroupFile]
    )
    limits: Annotated[
        LimitsFile | None, told("What matrix engines can run; left out: anything.")
    ] = None
    energy: Annotated[
        EnergyFile | None, told("Energies of operations; left out: none is counted.")
    ] = None


def sources_of(file: MachineFile) -> Iterator[tuple[str, str]]:
    """Every block of the file, or parameter of it, with the text of its source."""
    yield from _walk(file, "", file.sources)


def _walk(item: object, path: str, table: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if isinstance(item, Block):
        given = {"": item.source} if isinstance(item.source, str) else item.source
        for key, text in given.items():
            yield f"{path}.{key}".strip(".") or "machine", table.get(text, text)
    inner: Mapping[str, object] = {}
    if isinstance(item, BaseModel):
        inner = {key: getattr(item, key) for key in type(item).model_fields}
    elif isinstance(item, Mapping):
        inner = cast("Mapping[str, object]", item)
    for key, value in inner.items():
        yield from _walk(value, f"{path}.{key}".lstrip("."), table)
