"""Quantities as people write them: bytes, bandwidths, frequencies and times, in and out."""

import re
from collections.abc import Iterable, Sequence
from math import isfinite
from numbers import Integral, Real

from tilewright.errors import TilewrightError

_FACTORS = {
    "": 1,
    "b": 1,
    "kb": 1000,
    "k": 1000,
    "mb": 1000**2,
    "m": 1000**2,
    "gb": 1000**3,
    "g": 1000**3,
    "tb": 1000**4,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
    "tib": 1024**4,
}
_HERTZ = {"hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_ROUNDED_UP = 0.9995  # of a unit: three digits of less than that are not one of it
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str) -> int:
    """`64MB`, `1.5 MiB` or `4096` as a number of bytes (MB = 10^6, MiB = 2^20)."""
    match = _QUANTITY.fullmatch(text)
    factor = _FACTORS.get(match.group(2).lower()) if match else None
    if match is None or factor is None:
        raise TilewrightError(f"'{text}' is not an amount of memory: write 64MB, 1.5MiB or 4096")
    return round(float(match.group(1)) * factor)


def parse_bandwidth(text: str) -> float:
    """`27 GB/s` as bytes per second."""
    amount, slash, unit = text.partition("/")
    match = _QUANTITY.fullmatch(amount)
    factor = _FACTORS.get(match.group(2).lower()) if match and match.group(2) else None
    if match is None or factor is None or not slash or unit.strip() != "s":
        raise TilewrightError(f"'{text}' is not a bandwidth: write 27 GB/s")
    return float(match.group(1)) * factor


def parse_frequency(text: str) -> float:
    """`1300 MHz` as hertz."""
    return _scaled(text, _HERTZ, "a frequency: write 1300 MHz")


def parse_time(text: str) -> float:
    """`956 ns` as seconds."""
    return _scaled(text, _SECONDS, "a time: write 956 ns")


def _scaled(text: str, factors: dict[str, float], expected: str) -> float:
    match = _QUANTITY.fullmatch(text)
    factor = factors.get(match.group(2).lower()) if match else None
    if match is None or factor is None:
        raise TilewrightError(f"'{text}' is not {expected}")
    return float(match.group(1)) * factor


def format_bytes(count: float) -> str:
    """A byte count in the largest decimal unit that keeps it readable."""
    for unit, factor in (("GB", 1000**3), ("MB", 1000**2), ("kB", 1000)):
        if abs(count) >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"


def format_binary(count: int) -> str:
    """A byte count to the byte, in the largest binary unit that it is a multiple of."""
    for unit, factor in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if count and count % factor == 0:
            return f"{count // factor} {unit}"
    return f"{count} B"


def format_bandwidth(per_second: float) -> str:
    """Bytes per second in the largest decimal unit that keeps it readable."""
    return f"{format_bytes(per_second)}/s"


def format_frequency(hertz: float) -> str:
    """A clock in MHz, as data sheets print it."""
    return f"{hertz / 1e6:.6g} MHz"


def format_time(seconds: float) -> str:
    """A duration to three digits, in the unit that keeps no more of them before the point."""
    if abs(seconds) >= 1e3 * _ROUNDED_UP:
        return f"{seconds:,.0f} s"
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= _ROUNDED_UP * factor:
            return f"{seconds / factor:#.3g} {unit}".replace(". ", " ")
    return f"{seconds * 1e9:#.3g} ns".replace(". ", " ") if seconds else "0 ns"


def number_of(value: object) -> int | float | None:
    """The number that a program gave, of numpy too; None where it is none that counts."""
    if isinstance(value, bool):
        return None
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) and isfinite(float(value)) else None


def noun(count: int, one: str, many: str = "") -> str:
    """The word for so many: `group` for 1, else `groups` (or `many`)."""
    return one if count == 1 else many or f"{one}s"


def some(names: Sequence[str], most: int = 3) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def several(count: int, one: str, many: str = "") -> str:
    """So many of something: `1 group`, `3 groups` (or `many`)."""
    return f"{count} {noun(count, one, many)}"


def format_count(count: float) -> str:
    """A plain count with a decimal prefix: 1.8 G, 3.2 M."""
    for unit, factor in (("G", 1000**3), ("M", 1000**2), ("k", 1000)):
        if abs(count) >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f}"


def by(extents: Iterable[int]) -> str:
    """Extents as people write them: `3x224x224`."""
    return "x".join(map(str, extents)) or "scalar"
