"""The coordinator: which points are due, who plans them, and that every result is kept."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Literal

import numpy as np

from tilewright.sweep.answers import means
from tilewright.sweep.engine import PlanningEngine, PointJob
from tilewright.sweep.errors import SpaceError
from tilewright.sweep.guided import Breeder, Position, Scores
from tilewright.sweep.pace import Pace, every_kind_first
from tilewright.sweep.point import METRICS, Planner
from tilewright.sweep.space import Guided, Space, SpacePoint
from tilewright.sweep.store import Status, Store, StoredPoint

_CHUNK = 2000  # members entered in one transaction
_MOST_BARREN = 1000  # generations in a row of which nothing meets the requirements
Phase = Literal["listing points", "starting workers", "planning"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is: points done of all, or of those listed so far; of these planned now, and
    without a plan; points per second, and seconds that are left, once that can be said."""

    done: int
    total: int
    planned: int
    without: int
    phase: Phase = "planning"
    rate: float | None = None
    seconds_left: float | None = None


Watch = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """Nobody wants to know."""


class Sweep:
    """One pass over a space: points that the store has are not planned again."""

    def __init__(
        self, space: Space, store: Store, engine: PlanningEngine, watch: Watch = unwatched
    ) -> None:
        self._space, self._store, self._engine, self._watch = space, store, engine, watch
        self._planner = Planner(space.folder)
        self._done = self._total = self._planned = self._without = 0
        self._phase: Phase = "listing points"
        self._pace = Pace()

    def run(self, budget: int | None = None) -> Progress:
        """Plan what is due, at most the first `budget` points of the space. A guided search takes
        the budget of the space, or the last one, where none is given."""
        guided = self._space.guided
        if guided is not None and budget is None:
            budget = guided.budget or self._store.last_budget()
        self._store.begin(self._space, budget)
        if guided is None:
            due: dict[str, PointJob] = {}
            for chunk in _chunks(islice(self._space.grid(self._planner), budget)):
                due |= self._entered(chunk)
                self._watch(self._progress())
            if due:
                self._plan(due)
        else:
            self._search(guided, budget)
        if not self._total:
            raise SpaceError(
                "none of the points tried meets all of 'require'; "
                f"the space has {self._space.size:,}"
            )
        return self._progress()

    def _entered(self, candidates: list[SpacePoint]) -> dict[str, PointJob]:
        """Note points in the store; the jobs, by key, for those that it has no row of."""
        members = [(each, self._planner.key(each.point)) for each in candidates]
        self._store.enter(self._space, members)
        self._total += len(members)
        fresh: dict[str, PointJob] = {}
        for each, key in members:
            if self._store.has(key):
                self._done += 1
            else:
                fresh.setdefault(key, PointJob(key, each.point))
        return fresh

    def _plan(self, jobs: dict[str, PointJob]) -> None:
        """Plan jobs and keep every result at once."""
        self._done = self._total - len(jobs)  # some are planned as another of the same content
        self._pace.expect(jobs.values())
        if not self._planned:
            self._phase = "starting workers"
        self._watch(self._progress())
        for row in self._engine.run(self._due(every_kind_first(jobs.values()))):
            self._store.keep(row)
            self._count(row)
            self._watch(self._progress())

    def _due(self, jobs: Iterable[PointJob]) -> Iterator[PointJob]:
        """Jobs that nobody else has done meanwhile."""
        for job in jobs:
            if self._store.has(job.key):
                self._done += 1
                self._pace.skip(job.key)
            else:
                yield job

    def _count(self, row: StoredPoint) -> None:
        self._phase = "planning"
        self._done += 1
        self._planned += 1
        self._without += row.status is not Status.OK
        self._pace.finish(row.key, row.seconds, time.monotonic())

    def _progress(self) -> Progress:
        now = time.monotonic()
        return Progress(
            self._done,
            self._total + self._pace.unlisted,
            self._planned,
            self._without,
            self._phase,
            self._pace.rate(now),
            self._pace.left(now),
        )

    # ---- guided

    def _search(self, guided: Guided, budget: int | None) -> None:
        space = self._space
        if budget is None:
            raise SpaceError("a guided sweep needs a budget of points (--budget N)")
        names = set(space.workload)
        hardware = [axis for axis in space.leaders if axis.name not in names]
        loads = [axis for axis in space.leaders if axis.name in names]
        if not hardware:
            raise SpaceError("there is nothing to guide: all axes say what is run")
        every = list(product(*(range(len(axis.values)) for axis in loads)))
        if budget < len(every):
            raise SpaceError(f"a machine runs {len(every)} workloads: the budget has to be as much")
        breeder = Breeder([len(axis.values) for axis in hardware], guided.seed)
        left, number, barren = budget, 0, 0
        while left >= len(every) and barren < _MOST_BARREN:
            asked = breeder.ask(min(guided.generation, left // len(every)))
            if not asked:
                break
            families: dict[Position, list[SpacePoint]] = {}
            for position in asked:
                families[position] = []
                for load in every:
                    at = dict(zip((a.name for a in hardware), position, strict=True))
                    at |= dict(zip((a.name for a in loads), load, strict=True))
                    full = tuple(at[axis.name] for axis in space.leaders)
                    found = space.candidate(full, number, self._planner)
                    if found is not None:
                        families[position].append(found)
                        number += 1
            members = [each for family in families.values() for each in family]
            left -= len(members)
            self._pace.unlisted = left // len(every) * len(every)
            self._plan(self._entered(members))
            barren = 0 if members else barren + 1
            for position, family in families.items():
                whole = family if len(family) == len(every) else []
                breeder.tell(position, self._scores(whole, guided.minimise))
        self._pace.unlisted = 0

    def _scores(self, family: list[SpacePoint], names: tuple[str, ...]) -> Scores | None:
        """What a machine comes to over all that it has to run: the geometric mean of a figure."""
        keys = [self._planner.key(each.point) for each in family]
        rows = self._store.figures(keys)
        if not family or any(k not in rows or rows[k]["status"] != "ok" for k in keys):
            return None
        scores: list[float] = []
        for name in names:
            own = [each.derived.get(name) for each in family]
            found = [rows[k][name] for k in keys] if name in METRICS else own
            known = [float(x) for x in found if x is not None]
            scores.append(float(means(np.array([known or [0.0]]))[0]))
        return tuple(scores)


def _chunks(candidates: Iterator[SpacePoint]) -> Iterator[list[SpacePoint]]:
    while chunk := list(islice(candidates, _CHUNK)):
        yield chunk
