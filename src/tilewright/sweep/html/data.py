"""What the page of a sweep shows, as columns of numbers."""

import base64
import json
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from tilewright.sweep.answers import Answers, Front, machines_of
from tilewright.sweep.space import Space
from tilewright.sweep.store import Store
from tilewright.sweep.table import Floats, SweepTable
from tilewright.sweep.told import answers_json

VERSION = 1
MOST_PLAN_BYTES = 16_000_000  # of plans in the page, before they are packed
DIGITS = 7


def page_data(space: Space, table: SweepTable, answers: Answers, store: Store) -> dict[str, Any]:
    """All of a sweep, for `json.dumps`. Plans are there for the fronts first, then for points in
    their order until they are too many; `plan_of` is -1 for points without."""
    machines = machines_of(table) if answers.together is not None else None
    plans, plan_of = _plans(table, answers, store)
    told = answers_json(space, table, answers)
    reasons = list(dict.fromkeys(table.reasons))
    where = {reason: i for i, reason in enumerate(reasons)}
    return {
        "version": VERSION,
        "name": space.name,
        "axes": [
            {
                "name": axis.name,
                "values": [str(value) for value in axis.values],
                "numbers": None if axis.numbers is None else list(axis.numbers),
                "along": axis.along,
                "workload": axis.name in table.workload,
            }
            for axis in table.axes
        ],
        "codes": {name: codes.tolist() for name, codes in table.codes.items()},
        "figures": {name: _numbers(column) for name, column in table.figures.items()},
        "ok": table.ok.astype(np.int64).tolist(),
        "number": table.numbers.tolist(),
        "key": [key[:12] for key in table.keys],
        "reason": [where[reason] for reason in table.reasons],
        "reasons": reasons,
        "columns": list(answers.fronts[0].columns if answers.fronts else space.front),
        "fronts": [_front(front) for front in answers.fronts],
        "together": None if answers.together is None else _front(answers.together),
        "machines": None
        if machines is None
        else {
            "row": machines.members[:, 0].tolist(),
            "figures": {name: _numbers(column) for name, column in machines.figures.items()},
        },
        "sensitivity": told["sensitivity"],
        "cheapest": told["cheapest"],
        "plans": plans,
        "plan_of": plan_of,
    }


def _front(front: Front) -> dict[str, Any]:
    return {"label": front.workload, "rows": list(front.rows), "knee": front.knee}


def _numbers(column: Floats) -> list[float | int | None]:
    """Numbers with few digits; null where there is none."""
    known = np.isfinite(column)
    plain = np.where(known, column, 0.0)
    size = np.floor(np.log10(np.where(plain == 0, 1.0, np.abs(plain))))
    scale = 10.0 ** (DIGITS - 1 - size)
    short = np.round(plain * scale) / scale
    found: list[Any] = short.tolist()
    if np.array_equal(short, np.round(short)):
        found = short.astype(np.int64).tolist()
    if known.all():
        return found
    return [x if there else None for x, there in zip(found, known.tolist(), strict=True)]


def _plans(table: SweepTable, answers: Answers, store: Store) -> tuple[str, list[int]]:
    """Plans packed into one text, equal ones once, and which of them each row has."""
    fronts = [f for f in (*answers.fronts, answers.together) if f is not None]
    first = [row for front in fronts for row in front.rows]
    order = list(dict.fromkeys([*first, *range(len(table))]))
    texts: dict[str, int] = {}
    plan_of = [-1] * len(table)
    size = 0
    for row, text in _texts(order, table, store):
        if text not in texts:
            size += len(text)
            if size > MOST_PLAN_BYTES:
                break
            texts[text] = len(texts)
        plan_of[row] = texts[text]
    packed = zlib.compress(json.dumps(list(texts)).encode(), 6)
    return base64.b64encode(packed).decode("ascii"), plan_of


def _texts(order: list[int], table: SweepTable, store: Store) -> Iterable[tuple[int, str]]:
    planned = [row for row in order if table.ok[row]]
    rows: dict[str, list[int]] = {}
    for row in planned:
        rows.setdefault(table.keys[row], []).append(row)
    for key, text in store.plans(list(rows)):
        for row in rows[key]:
            yield row, text
