"""The table of a sweep for other programs: CSV, and Parquet where pyarrow is installed."""

import csv
import os
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import OutputError
from tilewright.sweep.point import METRICS
from tilewright.sweep.table import Table

SUFFIXES = (".csv", ".parquet")


def check_export(path: Path) -> None:
    """Raise before the work begins where a table could not be written."""
    if path.suffix.lower() not in SUFFIXES:
        raise OutputError(f"cannot export '{path}': give a name that ends in .csv or .parquet")
    if path.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise OutputError(
            f"cannot export '{path}': Parquet needs pyarrow: pip install 'tilewright[parquet]'"
        )


def export(table: Table, path: Path) -> None:
    """Write all rows, whole or not at all."""
    check_export(path)
    try:
        with tempfile.TemporaryDirectory(prefix=".tilewright-", dir=path.parent) as place:
            draft = Path(place) / "table"
            if path.suffix.lower() == ".csv":
                _write_csv(table, draft)
            else:
                _write_parquet(table, draft)
            os.replace(draft, path)
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror or error}") from None


def columns_of(table: Table) -> Iterator[tuple[str, list[Any]]]:
    """Every column by name: number, key, status, axes (as written, and as numbers), figures."""
    yield "number", table.numbers.tolist()
    yield "key", list(table.keys)
    yield "planned", table.ok.tolist()
    yield "reason", list(table.reasons)
    for axis in table.axes:
        codes = table.codes[axis.name].tolist()
        texts = [str(value) for value in axis.values]
        yield axis.name, [texts[code] for code in codes]
        if axis.numbers is not None and any(isinstance(value, str) for value in axis.values):
            yield f"{axis.name}_number", [axis.numbers[code] for code in codes]
    for name, column in table.figures.items():
        whole = METRICS.get(name) == "INTEGER"
        known = np.isfinite(column).tolist()
        pairs = zip(column.tolist(), known, strict=True)
        yield name, [(int(x) if whole else x) if there else None for x, there in pairs]


def _write_csv(table: Table, path: Path) -> None:
    names, columns = zip(*columns_of(table), strict=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(zip(*columns, strict=True))


def _write_parquet(table: Table, path: Path) -> None:
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    parquet.write_table(arrow.table(dict(columns_of(table))), str(path))
