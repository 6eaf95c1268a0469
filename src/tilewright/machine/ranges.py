"""Numbers as machine files may hold them: finite, and small enough for cycles to be counted.

The limits lie far beyond any machine. Within them a network of 10^12 multiply-accumulates stays
below the 2^53 cycles that every part of Tilewright counts exactly.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from tilewright.errors import TilewrightError
from tilewright.machine.dtypes import RATE_CLASSES, rate_class

# The operator classes that vector engines are costed by: what stands under `rates`.
OPERATOR_CLASSES: Mapping[str, str] = {
    "softmax": "Softmax, LogSoftmax, Hardmax",
    "norm": "layer, group, instance and batch normalisation, LRN",
    "exp": "Exp, Log, Sqrt, Pow and activations made of them",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "erf": "Erf",
    "gelu": "Gelu",
    "swish": "Swish (SiLU), HardSwish, Mish",
    "add": "element-wise arithmetic and comparison",
    "reduce": "sums, means, largest and smallest along axes",
    "pool": "pooling, an element per window position",
    "copy": "layout and resampling: elements that only move",
    "depthwise": "depthwise convolutions, a multiply-accumulate; as `mac` where left out",
    "mac": "convolutions and matrix products, a multiply-accumulate",
    "default": "whatever has no rate of its own",
}
MOST_CORES = 256
MOST_LINKS = 256
MOST_ROUTES = 200_000  # of all links together, patterns written out
# Bytes per cycle of the reference clock; schedules count them in fractions of up to 64 parts.
LEAST_RATE, MOST_RATE = 1 / 64, 1e9
MOST_LATENCY = 1e9  # cycles of the reference clock
MOST_PACKED = 15  # channels of a network's input: more are no image any more
CLOCK_RATIO = 1000  # between a block's own clock and the reference clock


def told(text: str, **limits: Any) -> Any:
    """What a field says of itself, in the documentation and to editors; limits of its length."""
    return Field(description=text, **limits)


def _no_truth(value: object) -> object:
    """Truth values are no numbers, though they can be read as such."""
    if isinstance(value, bool):
        raise ValueError(f"has to be a number, is '{str(value).lower()}'")
    return value


def _dtype(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return rate_class(value)
    except TilewrightError as error:
        raise ValueError(f"{error}: known are {', '.join(RATE_CLASSES)}") from None


def _operator_class(value: str) -> str:
    if value not in OPERATOR_CLASSES:
        raise ValueError(f"no such operator class: known are {', '.join(OPERATOR_CLASSES)}")
    return value


def _number(least: float, most: float) -> tuple[Any, ...]:
    return Field(ge=least, le=most, allow_inf_nan=False), BeforeValidator(_no_truth)


def _whole(least: int, most: int) -> tuple[Any, ...]:
    return Field(ge=least, le=most), BeforeValidator(_no_truth)


Count = Annotated[int, *_whole(1, 1 << 20)]
PackedCount = Annotated[int, *_whole(1, MOST_PACKED)]
CoreCount = Annotated[int, *_whole(1, MOST_CORES)]
LinkCount = Annotated[int, *_whole(1, MOST_LINKS)]
Length = Annotated[int, *_whole(1, 1 << 31)]
Levels = Annotated[int, *_whole(1, 16)]
ChannelCount = Annotated[int, *_whole(1, 4096)]
Cycles = Annotated[float, *_number(0, 1e9)]
CyclesEach = Annotated[float, *_number(0, 1e6)]
Factor = Annotated[float, *_number(1e-6, 1e6)]
BytesPerCycle = Annotated[float, *_number(1e-6, 1e12)]
Sharpness = Annotated[float, *_number(1, 1000)]
Picojoules = Annotated[float, *_number(0, 1e9)]
Dtype = Annotated[
    str, BeforeValidator(_dtype), WithJsonSchema({"type": "string", "examples": ["int8", "fp16"]})
]
OperatorClass = Annotated[
    str,
    AfterValidator(_operator_class),
    WithJsonSchema({"type": "string", "enum": [*OPERATOR_CLASSES]}),
]
