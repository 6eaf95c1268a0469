"""Error of the array cost model against its calibration data, and the calibration itself.

    python bench/array_cost.py                 error table: shipped parameters, 5-fold held-back,
                                               whole channel counts left out; by shape class
    python bench/array_cost.py --fit           fitted parameters, as they stand in machine files
    python bench/array_cost.py --fit --write   the same, written into the shipped machine files
    python bench/array_cost.py --json PATH     the figures as JSON too

The data are a predictor's output, not silicon (bench/data/npu/README.md).
"""

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from array_cost_fit import Fit, Floats, fit_form
from array_cost_show import emit, print_tables

from tilewright.cost.array import (
    ArrayModel,
    ModeSizes,
    channelwise_cycles,
    channelwise_terms,
    dense_cycles,
    dense_terms,
)
from tilewright.cost.base import WorkKind, Workload
from tilewright.cost.models import model_for
from tilewright.machine import load_machine
from tilewright.machine.parameters import ArrayParameters, ArrayRate, ChannelwiseForm, DenseForm

DATA = Path(__file__).parent / "data" / "npu" / "dpu_cycles.csv"
TARGETS = Path(__file__).parents[1] / "src" / "tilewright" / "machine" / "targets"
MACHINES = {"2_7": "npu-2.7", "4_0": "npu-4.0"}
DTYPES = {"f16": "fp16", "u8": "int8"}
KINDS = {
    "conv": WorkKind.CONV,
    "dwconv": WorkKind.DEPTHWISE,
    "maxpool": WorkKind.POOL,
    "eltwise": WorkKind.ELTWISE,
    "cmconv": WorkKind.FIRST_CONV,
}
MODE_OF = {WorkKind.DEPTHWISE: "16x16", WorkKind.POOL: "16x16", WorkKind.ELTWISE: "8x16"}
# What the array is, not what is fitted: one position takes 8 bytes of channels a cycle, channelwise
# work counts in 32 bytes of channels, and NPU 2.7 computes on 32 bytes of them at least.
STRUCTURE = {
    ("npu-2.7", "fp16"): ArrayRate(DenseForm(), 4, least_channels=16, channel_grain=16),
    ("npu-2.7", "int8"): ArrayRate(DenseForm(), 8, least_channels=32, channel_grain=32),
    ("npu-4.0", "fp16"): ArrayRate(DenseForm(), 4, least_channels=16, channel_grain=16),
    ("npu-4.0", "int8"): ArrayRate(DenseForm(), 8, least_channels=16, channel_grain=32),
}
FOLDS = 5


class Row(NamedTuple):
    """One workload of the data, with its cycles."""

    machine: str
    tag: str
    work: Workload
    cycles: int


def read_rows(path: Path = DATA) -> list[Row]:
    """The calibration data as workloads."""
    rows: list[Row] = []
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            n = {key: int(v) for key, v in line.items() if v.isdigit()}
            work = Workload(
                KINDS[line["op"]],
                DTYPES[line["in_dtype"]],
                out_channels=n["out_c"],
                in_channels=n["in_c"],
                out_height=n["out_h"],
                out_width=n["out_w"],
                in_height=n["in_h"],
                in_width=n["in_w"],
                kernel_height=n["k_h"],
                kernel_width=n["k_w"],
                stride_height=n["s_h"],
                stride_width=n["s_w"],
                pads=(n["pad_t"], n["pad_b"], n["pad_l"], n["pad_r"]),
            )
            rows.append(Row(MACHINES[line["device"]], line["tag"], work, n["cycles"]))
    return rows


@cache
def array_of(machine: str) -> tuple[ArrayModel, ArrayParameters]:
    """The shipped model of a machine's array."""
    loaded = load_machine(machine)
    engine = loaded.cores[0].engine("matrix")
    assert engine is not None and isinstance(engine.parameters, ArrayParameters)
    model = model_for(loaded, engine)
    assert isinstance(model, ArrayModel)
    return model, engine.parameters


def fit_rows(rows: Sequence[Row]) -> DenseForm | ChannelwiseForm:
    """The form of one machine, element type and kind that explains the rows best."""
    first = rows[0]
    kind, machine = first.work.kind, first.machine
    rate = STRUCTURE[machine, first.work.dtype]
    modes = array_of(machine)[1].modes
    cycles = np.array([row.cycles for row in rows], dtype=np.float64)
    if kind in MODE_OF:
        mode = modes[MODE_OF[kind]]
        terms = [channelwise_terms(row.work, mode, rate) for row in rows]
        columns = [[t.columns, t.blocks, t.steps, t.input] for t in terms]
        sums = np.array([columns], dtype=np.float64)
        found = fit_form(sums, None, cycles)
        return _channelwise(found, MODE_OF[kind])
    adding: list[list[list[float]]] = []
    limits: list[list[list[float]]] = []
    for mode in modes.values():
        dense = [dense_terms(row.work, ModeSizes.of(mode), rate) for row in rows]
        adding.append([[t.blocks, t.steps, t.input] for t in dense])
        limits.append([[t.compute, t.activation, t.weight, t.output] for t in dense])
    if kind is WorkKind.FIRST_CONV:  # a handful of near-equal rows: one coefficient
        compute = np.array([row[0] for row in limits[0]])
        return DenseForm(compute=_digits(float(np.median(cycles / compute))))
    return _dense(fit_form(np.array(adding), np.array(limits), cycles))


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


def _per_cycle(coefficient: float) -> float | None:
    """Bytes per cycle; a coefficient of next to nothing is no limit."""
    return _digits(1 / coefficient) if coefficient > 1e-5 else None


def _small(coefficient: float) -> float:
    return _digits(coefficient) if coefficient > 0.01 else 0.0


def _dense(fit: Fit) -> DenseForm:
    blocks, steps, source = fit.sums
    compute, activation, weight, output = fit.limits
    return DenseForm(
        _digits(fit.overhead),
        _digits(compute),
        *(_small(blocks), _small(steps), _per_cycle(source)),
        *(_per_cycle(activation), _per_cycle(weight), _per_cycle(output)),
    )


def _channelwise(fit: Fit, mode: str) -> ChannelwiseForm:
    columns, blocks, steps, source = fit.sums
    return ChannelwiseForm(
        _digits(fit.overhead),
        _small(columns),
        _small(blocks),
        _small(steps),
        _per_cycle(source),
        mode,
    )


def predict(form: DenseForm | ChannelwiseForm, rows: Iterable[Row]) -> Floats:
    """Cycles by a fitted form, through the product's own formulas."""
    result: list[float] = []
    for row in rows:
        rate = STRUCTURE[row.machine, row.work.dtype]
        parameters = array_of(row.machine)[1]
        if isinstance(form, ChannelwiseForm):
            mode = parameters.modes[form.mode or "16x16"]
            terms = channelwise_terms(row.work, mode, rate)
            result.append(channelwise_cycles(terms, form))
        else:
            result.append(
                min(
                    dense_cycles(dense_terms(row.work, sizes, rate), form, parameters.sharpness)
                    for sizes in map(ModeSizes.of, parameters.modes.values())
                )
            )
    return np.array(result)


def held_back(rows: Sequence[Row], group_of: Callable[[int], object]) -> Floats:
    """Relative errors when each group of rows is predicted by a fit on all the others."""
    errors = np.zeros(len(rows))
    groups = [group_of(index) for index in range(len(rows))]
    for group in dict.fromkeys(groups):
        inside = [i for i, g in enumerate(groups) if g == group]
        outside = [rows[i] for i, g in enumerate(groups) if g != group]
        form = fit_rows(outside)
        errors[inside] = relative(predict(form, [rows[i] for i in inside]), inside, rows)
    return errors


def relative(predicted: Floats, indices: Sequence[int], rows: Sequence[Row]) -> Floats:
    """Absolute relative errors of predictions."""
    truth = np.array([rows[i].cycles for i in indices], dtype=np.float64)
    return np.abs(predicted - truth) / truth


def folds(count: int, seed: int = 0) -> list[int]:
    """A fold for each row, at random but always the same."""
    order = np.random.default_rng(seed).permutation(count)
    result = [0] * count
    for position, index in enumerate(order):
        result[int(index)] = position % FOLDS
    return result


def shape_class(work: Workload) -> str:
    """The class a workload is reported under."""
    if work.kind is WorkKind.CONV:
        kernel = "1x1" if work.taps == 1 else "kxk"
        thin = work.out_width < 4 or work.out_height < 4
        return f"{kernel}{' stride 2' if work.stride_width > 1 else ''}{' thin' if thin else ''}"
    size = work.out_height * work.out_width
    return "small" if size < 256 else "medium" if size < 2048 else "large"


def summary(errors: Floats) -> dict[str, float]:
    """Median and 90th percentile in per cent."""
    return {
        "median": round(float(np.median(errors)) * 100, 1),
        "p90": round(float(np.percentile(errors, 90)) * 100, 1),
    }


def grouped(rows: Sequence[Row]) -> dict[tuple[str, str, WorkKind], list[Row]]:
    """Rows by machine, element type and kind."""
    result: dict[tuple[str, str, WorkKind], list[Row]] = {}
    for row in rows:
        result.setdefault((row.machine, row.work.dtype, row.work.kind), []).append(row)
    return dict(sorted(result.items()))


def measure(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The error table: one record per machine, element type and kind."""
    table: list[dict[str, Any]] = []
    for (machine, dtype, kind), some in grouped(rows).items():
        model = array_of(machine)[0]
        shipped = np.array([model.cost(row.work).cycles for row in some], dtype=np.float64)
        fitted = relative(shipped, range(len(some)), some)
        record: dict[str, Any] = {"machine": machine, "dtype": dtype, "kind": str(kind)}
        record |= {"rows": len(some), "shipped": summary(fitted)}
        if kind is not WorkKind.FIRST_CONV:
            fold_of = folds(len(some))
            errors = held_back(some, fold_of.__getitem__)
            record["held_back"] = summary(errors)
            channels = [(r.work.in_channels, r.work.out_channels) for r in some]
            for name, side in (("in_channels_left_out", 0), ("out_channels_left_out", 1)):
                groups = [pair[side] for pair in channels]
                record[name] = summary(held_back(some, groups.__getitem__))
            classes = [shape_class(row.work) for row in some]
            record["held_back_by_class"] = {
                name: {"rows": classes.count(name)}
                | summary(errors[[i for i, c in enumerate(classes) if c == name]])
                for name in sorted(set(classes))
            }
        table.append(record)
    return table


def reshape_check() -> list[dict[str, Any]]:
    """The 2048x48x256 matrix product in its views: the predictor's cycles and the model's."""
    return [
        {
            "machine": row.machine,
            "dtype": row.work.dtype,
            "view": row.tag.partition("_")[2],
            "predictor": row.cycles,
            "model": array_of(row.machine)[0].cost(row.work).cycles,
        }
        for row in read_rows()
        if row.tag.startswith("mm")
    ]


def fit_all(rows: Sequence[Row]) -> dict[tuple[str, str], ArrayRate]:
    """Rates of each machine and element type, fitted on all rows."""
    rates = dict(STRUCTURE)
    for (machine, dtype, kind), some in grouped(rows).items():
        form: Any = fit_rows(some)
        rates[machine, dtype] = replace(rates[machine, dtype], **{str(kind): form})
    return rates


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--fit", action="store_true", help="calibrate and print the parameters")
    parser.add_argument("--write", action="store_true", help="with --fit: into the machine files")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    options = parser.parse_args(arguments)
    rows = read_rows()
    if options.fit:
        emit(fit_all(rows), TARGETS if options.write else None)
        return 0
    result = {"errors": measure(rows), "implicit_reshape": reshape_check()}
    print_tables(result["errors"], result["implicit_reshape"])
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
