"""What rows of columns refer to by number: a machine's engines and memories, views and copies that
look the same."""

from collections.abc import Iterator
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from tilewright.cost.base import Copy
from tilewright.cost.dma import CopyCost, cost_of_copy
from tilewright.errors import TilewrightError
from tilewright.machine.machine import Link, Machine
from tilewright.machine.rates import schedule_rate
from tilewright.program.columns import Copies, Hardware, Views
from tilewright.program.overlap import pattern
from tilewright.program.program import runs_of
from tilewright.program.rows import Price
from tilewright.program.works import Works
from tilewright.schedule.problem import Engine, Resources

Shape = tuple[int, ...]


class Layout(NamedTuple):
    """What views that lie alike have in common; `dtype` is for those who read the numbers."""

    shape: Shape
    strides: Shape
    dtype: str
    item: int


class Tables:
    """What is true of a machine whatever runs on it. Append-only: numbers stay what they are as
    long as the tables live."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.engines = (
            *(engine.name for engine in machine.engines),
            *(link.name for link in machine.links),
        )
        self.engine_number = {name: number for number, name in enumerate(self.engines)}
        self.memory_number = {memory.name: n for n, memory in enumerate(machine.memories)}
        self.hardware = _hardware(machine, self.memory_number)
        self.resources = _resources(machine)
        self.multicast = frozenset(
            (self.engine_number[link.name], self.memory_number[memory.name])
            for link in machine.links
            for memory in machine.memories
            if all(route.multicast for route in link.routes if route.source == memory.name)
        )
        self.alignment = [memory.alignment for memory in machine.memories]
        self.alignments = np.array(self.alignment, np.int64)
        self.works = Works(machine, self.engine_number)
        self.layouts: list[Layout] = []
        self._runs: list[Copy] = []
        self.costs: list[CopyCost] = []
        self.prices: list[Price] = []
        self._layout_number: dict[tuple[Shape, Shape, str, int], int] = {}
        self._copy_number: dict[tuple[int, int, int, int], int] = {}
        self._cost_number: dict[tuple[int, int, Copy], int] = {}
        wide = max(_ways(machine))
        self._views = [Growing(np.int64) for _ in Views._fields]
        self._views[3].append(0)
        kinds = (np.int32, np.int64, np.int64, np.float64, np.int64)
        self._copies = [*(Growing(kind, wide) for kind in kinds), Growing(np.bool_)]

    def layout(self, shape: Shape, strides: Shape, dtype: str, item: int) -> int:
        """The number of views that lie so."""
        key = (shape, strides, dtype, item)
        known = self._layout_number.get(key)
        if known is None:
            known = self._layout_number[key] = len(self.layouts)
            layout = Layout(*key)
            self.layouts.append(layout)
            self._add_view(layout)
        return known

    def copy(self, source: int, target: int, read: int, written: int) -> Price:
        """What copies between two memories cost whose views lie so: the one in more pieces
        counts."""
        key = (source, target, read, written)
        known = self._copy_number.get(key)
        if known is None:
            one, other = self._runs[read], self._runs[written]
            more = (other.bytes, other.runs) > (one.bytes, one.runs)
            known = self._new_copy(source, target, other if more else one)
            self._copy_number[key] = known
        return self.prices[known]

    def _new_copy(self, source: int, target: int, copy: Copy) -> int:
        known = self._cost_number.get((source, target, copy))
        if known is None:
            a, b = (self.machine.memories[number].name for number in (source, target))
            cost = cost_of_copy(self.machine, a, b, copy)
            if cost is None:
                raise TilewrightError(f"machine {self.machine.name} has no link from {a} to {b}")
            known = self._cost_number[source, target, copy] = len(self.costs)
            self._add_copy(cost)
        return known

    def _add_view(self, layout: Layout) -> None:
        low, reach, levels = pattern(layout.shape, layout.strides, layout.item)
        runs = Copy(*runs_of(*layout))
        self._runs.append(runs)
        for column, value in zip(self._views, (low, reach, runs.bytes), strict=False):
            column.append(value)
        for stride, count in levels:
            self._views[4].append(stride)
            self._views[5].append(count)
        self._views[3].append(self._views[4].count)

    def _add_copy(self, cost: CopyCost) -> None:
        self.costs.append(cost)
        rows = (
            [self.engine_number[way.link.name] for way in cost.ways],
            [way.cycles for way in cost.ways],
            [way.moved for way in cost.ways],
            [way.alone for way in cost.ways],
            [-1 if way.unshared is None else way.unshared for way in cost.ways],
        )
        for column, row in zip(self._copies, rows, strict=False):
            column.append(row + [-1] * (column.wide - len(row)))
        self._copies[-1].append(cost.small)
        way, number = cost.ways[cost.first], len(self.prices)
        engine = rows[0][cost.first]
        self.prices.append(Price(engine, way.cycles, cost.energy_pj, way.moved, number, cost.first))

    @property
    def views(self) -> Views:
        """All views as arrays."""
        return Views(*(column.array for column in self._views))

    @property
    def copies(self) -> Copies:
        """All copies as arrays, a column for every way."""
        return Copies(*(column.array for column in self._copies))


_latest: list[Tables] = []


def tables_of(machine: Machine) -> Tables:
    """The tables of a machine. Those of the machine asked for last are kept: many networks and
    plans in a row are lowered for the same one."""
    if not _latest or _latest[0].machine is not machine:
        _latest[:] = [Tables(machine)]
    return _latest[0]


class Growing:
    """An array that rows are appended to; numbers of a row where it is `wide`."""

    def __init__(self, kind: type[np.generic], wide: int = 0) -> None:
        self.count, self.wide = 0, wide
        self._array: Any = np.empty((64, wide) if wide else 64, kind)

    def append(self, row: Any) -> None:
        """One row more."""
        if self.count == len(self._array):
            self._array = np.concatenate((self._array, self._array))
        self._array[self.count] = row
        self.count += 1

    @property
    def array(self) -> Any:
        """All rows there are."""
        return self._array[: self.count]


def _ways(machine: Machine) -> Iterator[int]:
    """How many links lead from each memory to each other one."""
    names = [memory.name for memory in machine.memories]
    yield 1
    for source in names:
        for target in names:
            yield sum(1 for _ in machine.routes(source, target))


def _hardware(machine: Machine, memory_number: dict[str, int]) -> Hardware:
    core_of = [number for number, core in enumerate(machine.cores) for _ in core.engines]
    home = np.full(len(memory_number), -1, np.int32)
    for number, core in enumerate(machine.cores):
        for memory in core.memories:
            home[memory_number[memory.name]] = number
    return Hardware(
        np.array([*core_of, *(-1 for _ in machine.links)], np.int32),
        home,
        np.array([memory.usable for memory in machine.memories], np.int64),
        memory_number[machine.main_memory.name],
        len(machine.cores),
        _filling(machine),
    )


def _filling(machine: Machine) -> int:
    """How many links it takes to load as fast as the main memory gives."""
    main = machine.main_memory.name
    routes = [route for link in machine.links for route in link.routes if route.source == main]
    shares = [machine.joint_bytes_per_cycle(r) / r.bytes_per_cycle for r in routes]
    return ceil(max(shares, default=0.0))


def _resources(machine: Machine) -> Resources:
    """Engines and links as the simulator sees them, and the bandwidth they share."""
    engines = [Engine() for _ in machine.engines]
    engines += [_shared_engine(link, machine) for link in machine.links]
    return Resources(tuple(engines), tuple(schedule_rate(rate) for _, rate in machine.groups))


def _shared_engine(link: Link, machine: Machine) -> Engine:
    """A link as those of its routes see it that share bandwidth: the slowest of them where they
    differ. Where none does, its slowest route."""
    shared = [route for route in link.routes if route.groups]
    if not shared:
        return Engine(rate=schedule_rate(min(route.bytes_per_cycle for route in link.routes)))
    names = [name for name, _ in machine.groups]
    groups = {group for route in shared for group in route.groups}
    pool = min(groups, key=lambda name: (machine.group_bytes_per_cycle(name), names.index(name)))
    rate = schedule_rate(min(route.bytes_per_cycle for route in shared))
    return Engine(rate=rate, pool=names.index(pool))
