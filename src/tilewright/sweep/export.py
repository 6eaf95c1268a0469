"""The table of a sweep for other programs: CSV, and Parquet where pyarrow is installed."""

import csv
import os
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.drafts import draft_in, writing
from tilewright.errors import OutputError
from tilewright.sweep.point import METRICS
from tilewright.sweep.table import Marks, SweepTable

SUFFIXES = (".csv", ".parquet")


def check_export(path: Path) -> None:
    """Raise before the work begins where a table could not be written."""
    if path.suffix.lower() not in SUFFIXES:
        raise OutputError(f"cannot export '{path}': give a name that ends in .csv or .parquet")
    if path.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise OutputError(
            f"cannot export '{path}': Parquet needs pyarrow: pip install 'tilewright[parquet]'"
        )


def export(table: SweepTable, path: Path) -> None:
    """Write all rows, whole or not at all."""
    check_export(path)
    with writing(path), draft_in(path.parent) as folder:
        draft = folder / "table"
        if path.suffix.lower() == ".csv":
            _write_csv(table, draft)
        else:
            _write_parquet(table, draft)
        os.replace(draft, path)


def columns_of(table: SweepTable) -> Iterator[tuple[str, NDArray[Any], Marks]]:
    """Every column by name, and where it is known: number, key, status, axes (as written, and as
    numbers), figures."""
    everywhere = np.ones(len(table), np.bool_)
    yield "number", table.numbers, everywhere
    yield "key", np.array(table.keys, np.object_), everywhere
    yield "planned", table.ok, everywhere
    yield "reason", np.array(table.reasons, np.object_), everywhere
    for axis in table.axes:
        codes = table.codes[axis.name]
        yield axis.name, np.array([str(x) for x in axis.values], np.object_)[codes], everywhere
        if axis.numbers is not None and any(isinstance(value, str) for value in axis.values):
            yield f"{axis.name}_number", np.array(axis.numbers)[codes], everywhere
    for name, column in table.figures.items():
        known = np.isfinite(column)
        whole = METRICS.get(name) == "INTEGER"
        yield name, np.where(known, column, 0).astype(np.int64) if whole else column, known


def _write_csv(table: SweepTable, path: Path) -> None:
    names: list[str] = []
    columns: list[list[Any]] = []
    for name, column, known in columns_of(table):
        names.append(name)
        cells: list[Any] = column.tolist()
        for row in np.flatnonzero(~known).tolist():
            cells[row] = None
        columns.append(cells)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(zip(*columns, strict=True))


def _write_parquet(table: SweepTable, path: Path) -> None:
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    columns = {name: arrow.array(column, mask=~known) for name, column, known in columns_of(table)}
    parquet.write_table(arrow.table(columns), str(path))
