"""Quantities as people write them: bytes in, bytes out."""

import re

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
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str) -> int:
    """`64MB`, `1.5 MiB` or `4096` as a number of bytes (MB = 10^6, MiB = 2^20)."""
    match = _QUANTITY.fullmatch(text)
    factor = _FACTORS.get(match.group(2).lower()) if match else None
    if match is None or factor is None:
        raise TilewrightError(f"'{text}' is not an amount of memory: write 64MB, 1.5MiB or 4096")
    return round(float(match.group(1)) * factor)


def format_bytes(count: float) -> str:
    """A byte count in the largest decimal unit that keeps it readable."""
    for unit, factor in (("GB", 1000**3), ("MB", 1000**2), ("kB", 1000)):
        if abs(count) >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"


def format_count(count: float) -> str:
    """A plain count with a decimal prefix: 1.8 G, 3.2 M."""
    for unit, factor in (("G", 1000**3), ("M", 1000**2), ("k", 1000)):
        if abs(count) >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f}"
