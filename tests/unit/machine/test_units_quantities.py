"""Quantities as people write them."""

import pytest

from tilewright.errors import TilewrightError
from tilewright.units import (
    format_bandwidth,
    format_frequency,
    format_time,
    noun,
    parse_bandwidth,
    parse_frequency,
    parse_time,
)


def test_parse_quantities() -> None:
    assert parse_bandwidth("27 GB/s") == 27e9
    assert parse_bandwidth("1.2TB/s") == 1.2e12
    assert parse_bandwidth("64 KiB/s") == 65536
    assert parse_frequency("1300 MHz") == 1.3e9
    assert parse_frequency("0.475GHz") == pytest.approx(475e6)
    assert parse_time("956 ns") == pytest.approx(956e-9)
    assert parse_time("2us") == pytest.approx(2e-6)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_bandwidth, "27 GB"),
        (parse_bandwidth, "27 /s"),
        (parse_bandwidth, "fast"),
        (parse_bandwidth, "27 GB/h"),
        (parse_frequency, "1300"),
        (parse_frequency, "1300 MB"),
        (parse_time, "-5 ns"),
        (parse_time, "5 cycles"),
    ],
)
def test_wrong_quantities_are_named(parse: object, text: str) -> None:
    assert callable(parse)
    with pytest.raises(TilewrightError, match=text):
        parse(text)


def test_format_quantities() -> None:
    assert format_bandwidth(27e9) == "27.0 GB/s"
    assert format_frequency(1.3e9) == "1300 MHz"
    assert format_time(956e-9) == "956 ns"
    assert format_time(0.0031) == "3.10 ms"
    assert [format_time(s) for s in (1e-3, 999.6e-6, 999.4e-6)] == ["1.00 ms", "1.00 ms", "999 us"]
    assert [format_time(s) for s in (0, 14e-6, 1234.0)] == ["0 ns", "14.0 us", "1,234 s"]


def test_words_for_one_and_for_several() -> None:
    assert [noun(n, "tile") for n in (0, 1, 2)] == ["tiles", "tile", "tiles"]
    assert noun(3, "boundary", "boundaries") == "boundaries"
