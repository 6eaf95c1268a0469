"""Values of a space: what people write (`256 KiB`, `27 GB/s`, `resnet18`), and its number."""

import re
from dataclasses import dataclass
from math import isfinite

from tilewright.errors import TilewrightError
from tilewright.units import parse_bandwidth, parse_bytes, parse_frequency, parse_time

Scalar = str | int | float | bool
MOST_VALUES = 100_000  # of one axis

_AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+(?:/[A-Za-z]+)?)\s*")
_RATES = {"b/cycle": "B/cycle", "cycles": "cycles"}
_KINDS = (
    (parse_bytes, "B"),
    (parse_bandwidth, "B/s"),
    (parse_frequency, "Hz"),
    (parse_time, "s"),
)


@dataclass(frozen=True, slots=True)
class UnitValue:
    """A number in base units (bytes, bytes per second, hertz, seconds) and its unit; `factor` is
    how many base units the written one is."""

    number: float
    unit: str
    written_unit: str = ""
    factor: float = 1.0


def quantity_of(value: object) -> UnitValue | None:
    """The number in what a person wrote; None where it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return UnitValue(float(value), "") if isfinite(value) else None
    match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    amount, unit = match.groups()
    if unit.lower() in _RATES:
        return UnitValue(float(amount), _RATES[unit.lower()], unit)
    for parse, base in _KINDS:
        try:
            return UnitValue(
                float(parse(f"{amount} {unit}")), base, unit, float(parse(f"1 {unit}"))
            )
        except TilewrightError:
            continue
    return None


def plain(number: float) -> str:
    """A number as machine files take it: no exponent, no needless digits."""
    text = f"{number:.9f}".rstrip("0").rstrip(".")
    return text or "0"


def written_as(number: float, example: object) -> Scalar:
    """A number of base units in the form in which `example` is written: bytes as a whole number,
    `27 GB/s` as `.. B/s`, `1300 MHz` as `.. Hz`."""
    model = quantity_of(example)
    unit = model.unit if model is not None else ""
    if unit in ("", "B"):
        return round(number) if unit == "B" or number == round(number) else number
    if unit == "s":
        return f"{plain(number * 1e9)} ns"
    return f"{plain(number)} {unit}"


def spread_values(
    first: UnitValue,
    last: UnitValue,
    step: UnitValue | None,
    times: float | None,
    count: int | None,
) -> list[Scalar]:
    """The values of a range, both ends included, in the unit of its first: by a step, by a factor,
    or so many at equal distances."""
    if len({first.unit, last.unit, *([step.unit] if step else [])}) > 1:
        raise ValueError("from, to and step have to be in the same unit")
    if last.number < first.number:
        raise ValueError("'to' is below 'from'")
    numbers = _numbers(
        first.number, last.number, step.number if step is not None else None, times, count
    )
    if not first.unit:
        return [round(x) if abs(x - round(x)) < 1e-9 else x for x in numbers]
    return [f"{plain(x / first.factor)} {first.written_unit}" for x in numbers]


def _numbers(
    low: float, high: float, step: float | None, times: float | None, count: int | None
) -> list[float]:
    if sum(given is not None for given in (step, times, count)) != 1:
        raise ValueError("a range takes one of step, times (2 doubles) and count")
    slack = 1e-9 * max(abs(low), abs(high), 1e-30)
    if times is not None:
        if times <= 1 or low <= 0:
            raise ValueError("'times' has to be above 1, and 'from' above 0")
        found: list[float] = []
        while low <= high + slack and len(found) <= MOST_VALUES:
            found.append(low)
            low *= times
    elif step is not None:
        if step <= 0:
            raise ValueError("'step' has to be above 0")
        steps = int((high - low + slack) / step)
        found = [low + i * step for i in range(min(steps, MOST_VALUES) + 1)]
    else:
        assert count is not None
        if not 2 <= count <= MOST_VALUES:
            raise ValueError(f"'count' has to be between 2 and {MOST_VALUES}")
        found = [low + (high - low) * i / (count - 1) for i in range(count)]
    if len(found) > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES} values")
    return found
