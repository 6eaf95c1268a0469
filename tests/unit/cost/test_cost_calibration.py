"""The calibrated model against its data: as shipped, and fitted on other rows."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "bench"))

import array_cost as bench

from tilewright.cost.base import WorkKind

ROWS = bench.grouped(bench.read_rows())
MEDIAN = {WorkKind.CONV: 10.0}
P90 = {WorkKind.CONV: 35.0, WorkKind.ELTWISE: 35.0}
COMBINATIONS = [key for key in ROWS if key[2] is not WorkKind.FIRST_CONV]
UNSEEN = [key for key in COMBINATIONS if key[2] is WorkKind.CONV]


@pytest.mark.parametrize("key", COMBINATIONS, ids=lambda key: "-".join(key))
def test_shipped_parameters(key: tuple[str, str, WorkKind]) -> None:
    rows = ROWS[key]
    model = bench.array_of(key[0])[0]
    found = bench.np.array([float(model.cost(row.work).cycles) for row in rows])
    errors = bench.summary(bench.relative(found, range(len(rows)), rows))
    assert errors["median"] <= MEDIAN.get(key[2], 15.0)
    assert errors["p90"] <= P90.get(key[2], 50.0)


@pytest.mark.parametrize("key", UNSEEN, ids=lambda key: "-".join(key))
def test_rows_held_back(key: tuple[str, str, WorkKind]) -> None:
    rows = ROWS[key]
    errors = bench.summary(bench.held_back(rows, bench.folds(len(rows)).__getitem__))
    assert errors["median"] <= MEDIAN.get(key[2], 15.0)
    assert errors["p90"] <= P90.get(key[2], 50.0)


def test_the_files_hold_what_the_fit_gives() -> None:
    key = ("npu-2.7", "int8", WorkKind.ELTWISE)
    form = bench.fit_rows(ROWS[key])
    shipped = bench.array_of("npu-2.7")[1].rates["int8"].eltwise
    assert shipped is not None and form.overhead == pytest.approx(shipped.overhead, rel=0.02)
