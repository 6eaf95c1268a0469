"""The points of a space as columns, which answers and pages are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.sweep.point import METRICS
from tilewright.sweep.quantities import Scalar
from tilewright.sweep.space import FACTS, Axis, Space
from tilewright.sweep.store import Status, Store

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Marks = NDArray[np.bool_]


@dataclass(frozen=True)
class SweepTable:
    """Rows by number. `codes` are the positions of a row's values on each axis, `figures` what was
    measured and derived (nan where it is not known)."""

    axes: tuple[Axis, ...]
    workload: tuple[str, ...]
    numbers: Codes
    keys: Sequence[str]
    ok: Marks
    reasons: Sequence[str]
    codes: Mapping[str, Codes]
    figures: Mapping[str, Floats]

    def __len__(self) -> int:
        return len(self.keys)

    def value(self, axis: str, row: int) -> Scalar:
        """A row's value of an axis, as the space has it."""
        return self._by_name[axis].values[int(self.codes[axis][row])]

    def values(self, row: int) -> dict[str, Scalar]:
        """A row's values of all axes."""
        return {axis.name: self.value(axis.name, row) for axis in self.axes}

    def label(self, row: int, axes: Sequence[str]) -> str:
        """A row by some of its values."""
        return ", ".join(f"{name} {self.value(name, row)}" for name in axes)

    def group(self, axes: Sequence[str]) -> Codes:
        """A number for each row, equal for rows that agree on these axes."""
        found = np.zeros(len(self), np.int64)
        for name in axes:
            found = found * len(self._by_name[name].values) + self.codes[name]
            found = np.unique(found, return_inverse=True)[1].astype(np.int64)  # keeps it small
        return found

    @property
    def hardware(self) -> tuple[str, ...]:
        """Axes that say on what, and how, it is run."""
        return tuple(axis.name for axis in self.axes if axis.name not in self.workload)

    @cached_property
    def _by_name(self) -> dict[str, Axis]:
        return {axis.name: axis for axis in self.axes}


def table_of(store: Store, space: Space) -> SweepTable:
    """The rows that a store has of a space."""
    at = {axis.name: {value: i for i, value in enumerate(axis.values)} for axis in space.axes}
    derived = [*FACTS, *(name for name, _ in space.defines)]
    numbers: list[int] = []
    keys: list[str] = []
    ok: list[bool] = []
    reasons: list[str] = []
    codes: dict[str, list[int]] = {axis.name: [] for axis in space.axes}
    figures: dict[str, list[float | None]] = {name: [] for name in (*METRICS, *derived)}
    for number, key, values, known, status, reason, *measured in store.table(space.id):
        numbers += number
        keys += key
        ok += [each == Status.OK for each in status]
        reasons += reason
        for name, column in zip(METRICS, measured, strict=True):
            figures[name] += column
        try:
            for name, place in at.items():
                codes[name] += [place[each[name]] for each in values]
            for name in derived:
                figures[name] += [each.get(name) for each in known]
        except (KeyError, TypeError, AttributeError):
            raise store.damaged("a point has values that its space has not") from None
    return SweepTable(
        space.axes,
        space.workload,
        np.array(numbers, np.int64),
        keys,
        np.array(ok, np.bool_),
        reasons,
        {name: np.array(column, np.int64) for name, column in codes.items()},
        {name: np.array(column, np.float64) for name, column in figures.items()},
    )
