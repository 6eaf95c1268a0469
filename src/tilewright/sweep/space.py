"""The space of a sweep: axes, what follows from them, and what a point has to meet."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.sweep.errors import SpaceError
from tilewright.sweep.expression import Expression
from tilewright.sweep.point import Planner, Point
from tilewright.sweep.quantities import Scalar, quantity_of, written_as

OPTIONS = ("model", "shape", "batch", "machine", "dtype", "objective", "effort", "verify")
WORKLOAD = ("model", "shape", "batch")  # axes over which one machine is judged
FACTS = ("core_count", "scratchpad_bytes", "main_bandwidth", "macs_per_cycle", "clock_hz")
MOST_POINTS = 1_000_000  # of a grid


@dataclass(frozen=True)
class Axis:
    """A name, the fields that it sets, and its values. An axis that goes `along` with another
    takes its value at the same position."""

    name: str
    fields: tuple[str, ...]
    values: tuple[Scalar, ...]
    along: str | None = None

    @cached_property
    def numbers(self) -> tuple[float, ...] | None:
        """The values as numbers of base units; None where one is none."""
        found = [quantity_of(value) for value in self.values]
        known = [q.number for q in found if q is not None]
        return tuple(known) if len(known) == len(found) else None


@dataclass(frozen=True, slots=True)
class Guided:
    """A search instead of the whole grid: what is to be small, within so many points, in
    generations of so many machines."""

    minimise: tuple[str, ...]
    budget: int | None = None
    generation: int = 16
    seed: int = 0


@dataclass(frozen=True, slots=True)
class SpacePoint:
    """A point of the space: the values of its axes, and the numbers that follow from them."""

    number: int
    values: Mapping[str, Scalar]
    point: Point
    derived: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Space:
    """A checked space file. `folder` is where the files that it names are."""

    name: str
    folder: Path
    document: Mapping[str, Any]
    axes: tuple[Axis, ...]
    fixed: tuple[tuple[str, Scalar], ...]
    sets: tuple[tuple[str, Expression], ...]
    defines: tuple[tuple[str, Expression], ...]
    requires: tuple[Expression, ...]
    front: tuple[str, ...]
    under_ms: float | None
    guided: Guided | None

    @property
    def id(self) -> str:
        """The space by its content."""
        return sha256(json.dumps(self.document, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def leaders(self) -> tuple[Axis, ...]:
        """Axes that move by themselves."""
        return tuple(axis for axis in self.axes if axis.along is None)

    @property
    def size(self) -> int:
        """Points of the whole grid, before requirements."""
        return prod(len(axis.values) for axis in self.leaders)

    @property
    def workload(self) -> tuple[str, ...]:
        """Axes that say what is run, not on what."""
        return tuple(a.name for a in self.axes if a.fields and set(a.fields) <= set(WORKLOAD))

    def grid(self, planner: Planner) -> Iterator[SpacePoint]:
        """Every point that meets the requirements, the last axis fastest."""
        positions = product(*(range(len(axis.values)) for axis in self.leaders))
        number = 0
        for position in positions:
            found = self.candidate(position, number, planner)
            if found is not None:
                yield found
                number += 1

    def candidate(
        self, position: tuple[int, ...], number: int, planner: Planner
    ) -> SpacePoint | None:
        """The point at a position of the leading axes; None where a requirement is not met."""
        at = {axis.name: i for axis, i in zip(self.leaders, position, strict=True)}
        values = {axis.name: axis.values[at[axis.along or axis.name]] for axis in self.axes}
        point = self._point(values, planner)
        derived: dict[str, float] = {}
        try:
            derived |= planner.facts(point)
        except TilewrightError:  # no such machine: the row will say why
            return SpacePoint(number, values, point, derived)

        def look(name: str) -> float:
            return self._number(name, values, derived, point, planner)

        try:
            for name, expression in self.defines:
                derived[name] = expression.value(look)
            if not all(expression.value(look) for expression in self.requires):
                return None
        except SpaceError as error:
            raise SpaceError(f"{error}, where {_told(values)}") from None
        return SpacePoint(number, values, point, derived)

    def _point(self, values: Mapping[str, Scalar], planner: Planner) -> Point:
        options: dict[str, Any] = dict(self.fixed)
        for axis in self.axes:
            options |= dict.fromkeys(axis.fields, values[axis.name])
        point = _made(options)

        def look(name: str) -> float:
            return self._number(name, values, {}, point, planner)

        fields = dict(point.fields)
        for path, expression in self.sets:
            example = planner.field(point, path)
            fields[path] = written_as(expression.value(look), example)
        return _made({**options, **{f"machine.{path}": value for path, value in fields.items()}})

    def _number(
        self,
        name: str,
        values: Mapping[str, Scalar],
        derived: Mapping[str, float],
        point: Point,
        planner: Planner,
    ) -> float:
        if name in derived and name not in values:
            return derived[name]
        field = name.startswith("machine.")
        value = planner.field(point, name.removeprefix("machine.")) if field else values.get(name)
        quantity = quantity_of(value)
        if quantity is None:
            raise SpaceError(f"'{name}' is no number here: it is '{value}'")
        return quantity.number


def _told(values: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{name} is {value}" for name, value in values.items())


def _made(options: Mapping[str, Any]) -> Point:
    plain = {name: value for name, value in options.items() if name in OPTIONS}
    fields = {n.removeprefix("machine."): v for n, v in options.items() if n not in OPTIONS}
    return Point(fields=tuple(sorted(fields.items())), **plain)
