"""The best allocation of parts to cores: all where they can be counted, else the planner's
improvement loop with moves of parts between cores.

An allocation is timed by the evaluator under several rules; the best counts. Exact means: no
allowed allocation is better under the same scheduler. The bound holds for every schedule.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from tilewright.manycore.bounds import AllocationBounds, Allowed, bounds_of
from tilewright.manycore.copies import peaks_of
from tilewright.manycore.evaluate import Evaluator, Rule, TimedAllocation
from tilewright.manycore.state import NEVER
from tilewright.search.improvement.climb import Climber
from tilewright.search.progress import Tell, silent

COUNTED = 20_000
"""Allocations that are looked at one by one; more are climbed."""
CLIMB = 1_500
"""Evaluations of a climb."""
WORK = 10_000_000
"""Readings of tiles that the evaluations of a search add up to at most: large allocations are timed
fewer times."""
RUN = 3  # parts that go to another core together
EXPECTED = {"move": 0.3, "exchange": 0.2, "run": 0.2}
"""Gain of a move on an allocation, in percent, before anything is learnt."""

Objective = str
"""`latency`, `energy`, `memory` or `edp`."""


class FrontPoint(NamedTuple):
    """An allocation and what it takes; memory is the sum of the cores' peaks in bits."""

    core_of: tuple[int, ...]
    latency: int
    energy: float
    memory: int
    rule: Rule


@dataclass(frozen=True, slots=True)
class FoundAllocation:
    """The best allocation, timed; what it has of what is wanted least, and beside it latency (or
    energy); whether it was proven best, against how many; the bound of all; and the front of
    latency, energy and memory among those looked at; whether it was interrupted before all were."""

    best: TimedAllocation
    worth: tuple[float, float]
    bounds: AllocationBounds
    exact: bool
    space: int
    evaluations: int
    front: tuple[FrontPoint, ...]
    interrupted: bool = False

    @property
    def gap(self) -> float:
        """How far above the bound it may be."""
        return self.best.latency / max(1, self.bounds.cycles) - 1.0


class AllocationSearch:
    """Looks for the best allocation of one evaluator."""

    def __init__(
        self,
        evaluator: Evaluator,
        allowed: Allowed,
        *,
        objective: Objective = "latency",
        seed: int = 0,
        work: int = WORK,
        tell: Tell = silent,
    ) -> None:
        self.evaluator, self.allowed, self.objective = evaluator, allowed, objective
        self.seed, self.work = seed, work
        self.tell, self.state = tell, "first allocation"
        self.bounds = bounds_of(evaluator, allowed)
        self.known: dict[tuple[int, ...], float] = {}
        self.best: TimedAllocation | None = None
        self.score = float(NEVER)
        self.points: list[FrontPoint] = []

    def run(self, *, counted: int = COUNTED, climb: int = CLIMB) -> FoundAllocation | None:
        """The best allocation; None where none fits. An interrupt ends it with the best so far, if
        there is any."""
        space = prod(len(cores) for cores in self.allowed)
        exact = interrupted = False
        try:
            for start in self._starts():
                self.evaluate(start)
            exact = space <= counted and self._all()
            if not exact:
                left = self.work // self.evaluator.graph.reads.size - self.evaluator.evaluations
                self._climb(min(climb, left))
        except KeyboardInterrupt:
            if self.best is None:
                raise
            interrupted = True
        if self.best is None:
            return None
        second = self.best.energy if self.objective == "latency" else self.best.latency
        worth, evaluations, front = (self.score, second), len(self.known), self._front()
        return FoundAllocation(
            self.best, worth, self.bounds, exact, space, evaluations, front, interrupted
        )

    def evaluate(
        self, core_of: Sequence[int], *, rules: Sequence[Rule] = (), worst: float | None = None
    ) -> float:
        """The score of an allocation by the best of some rules; of all where none are given, or
        where one of them makes it the best so far. It is remembered. What is no better than the
        best (or than `worst`) need not be timed to its end, where only time counts."""
        key = tuple(core_of)
        if key not in self.known:
            self.tell(self.state)  # where it may be interrupted
            before = self.score
            first = rules or self.evaluator.rules
            score = min(self._timed(key, rule, worst) for rule in first)
            if score < before:
                others = [rule for rule in self.evaluator.rules if rule not in first]
                score = min([score, *(self._timed(key, rule) for rule in others)])
            self.known[key] = score
        return self.known[key]

    def _timed(self, core_of: tuple[int, ...], rule: Rule, worst: float | None = None) -> float:
        limit = NEVER
        if self.objective == "latency" and len(self.known) > 100:
            limit = int(min(NEVER, self.score if worst is None else worst))
        timed = self.evaluator.timed(core_of, limit=limit, rule=rule)
        if not isinstance(timed, TimedAllocation):
            return float(NEVER)
        score = self._scored(timed)
        if score < self.score:
            self.score, self.best = score, timed
            gap = timed.latency / max(1, self.bounds.cycles)
            self.state = f"{timed.latency:,} cycles, {gap:.2f}x of the bound"
        return score

    def _scored(self, timed: TimedAllocation) -> float:
        memory = -1
        if self._notable(timed) or self.objective == "memory":
            memory = self._memory(timed)
            point = FrontPoint(timed.core_of, timed.latency, timed.energy, memory, timed.rule)
            self.points.append(point)
        if self.objective == "energy":
            return timed.energy
        if self.objective == "memory":
            return float(memory)
        return timed.latency * timed.energy if self.objective == "edp" else float(timed.latency)

    def _notable(self, timed: TimedAllocation) -> bool:
        """Whether no allocation before was at least as good in both latency and energy."""
        small = len(self.known) < 256 and len(self.evaluator.graph.tiles) < 512
        return small or not any(
            p.latency <= timed.latency and p.energy <= timed.energy for p in self.points
        )

    def _memory(self, timed: TimedAllocation) -> int:
        peaks = peaks_of(self.evaluator, timed)
        return int(peaks[1:].sum()) * self.evaluator.graph.unit

    def _front(self) -> tuple[FrontPoint, ...]:
        """Points that no other is better than in everything."""
        rows = sorted(self.points, key=lambda p: (p.latency, p.energy, p.memory, p.core_of))
        front: list[FrontPoint] = []
        for point in rows:
            if not any(p.energy <= point.energy and p.memory <= point.memory for p in front):
                front.append(point)
        return tuple(front)

    def _starts(self) -> Iterator[tuple[int, ...]]:
        """The fastest core for each part; the least loaded one; runs of layers on cores in turn."""
        work = self.bounds.work
        yield tuple(
            min(cores, key=lambda c, p=p: work[p, c]) for p, cores in enumerate(self.allowed)
        )
        load: dict[int, int] = {}
        chosen: list[int] = []
        for part, cores in enumerate(self.allowed):
            core = min(cores, key=lambda c, p=part: load.get(c, 0) + int(work[p, c]))
            load[core] = load.get(core, 0) + int(work[part, core])
            chosen.append(core)
        yield tuple(chosen)
        total = sum(int(work[p, list(cores)].min()) for p, cores in enumerate(self.allowed))
        done = 0
        chosen = []
        for part, cores in enumerate(self.allowed):
            at = min(len(cores) - 1, done * len(cores) // max(1, total))
            chosen.append(cores[at])
            done += int(work[part, list(cores)].min())
        yield tuple(chosen)

    def _all(self) -> bool:
        """Every allocation, part by part; those whose bound is no better than the best are left
        out, with all that begin alike. False where that is too much work."""
        count = len(self.allowed)
        stack: list[tuple[int, ...]] = [()]
        prune = self.objective == "latency"
        while stack:
            if 2 * self.evaluator.evaluations * self.evaluator.graph.reads.size > self.work:
                return False
            begun = stack.pop()
            if len(begun) == count:
                self.evaluate(begun)
                continue
            following: list[tuple[int, tuple[int, ...]]] = []
            for core in self.allowed[len(begun)]:
                more = (*begun, core)
                bound = self.bounds.of_loads(more) if prune else 0
                if bound < self.score:
                    following.append((bound, more))
            # The least loaded is looked at first: it lies on top of the stack.
            stack += [more for _, more in sorted(following, reverse=True)]
        return True

    def _climb(self, evaluations: int) -> None:
        """Moves on the best allocation, each timed and made if it helps; kicks where none does."""
        climber = _Climber(self)
        for _ in range(evaluations if self.best is None else 0):
            self.evaluate([climber.pick.choice(cores) for cores in self.allowed])
            if self.best is not None:
                break
        if self.best is None:
            return
        for _ in climber.better(self.best.core_of, self.score, evaluations):
            if self.score <= self.bounds.cycles:
                return


@dataclass(frozen=True, slots=True)
class _Spot:
    """A part that goes to another core, alone, in exchange for another, or with those behind it."""

    sort: str
    part: int
    key: tuple[str, int, tuple[int, ...]]


class _Climber(Climber[tuple[int, ...], float, tuple[int, ...], _Spot]):
    """The planner's improvement loop on allocations: a plan is a core for every part."""

    def __init__(self, search: "AllocationSearch") -> None:
        super().__init__(search.seed, kicks=CLIMB)
        self.search, self.allowed = search, search.allowed
        self.work = search.bounds.work
        self.free = [part for part, cores in enumerate(search.allowed) if len(cores) > 1]

    def look(self, plan: tuple[int, ...]) -> tuple[int, ...]:
        """The allocation itself."""
        return plan

    def places(self, look: tuple[int, ...]) -> Iterator[tuple[_Spot, float]]:
        """Every part that may go elsewhere: those with much work on cores with much work first."""
        load = [0] * self.work.shape[1]
        for part, core in enumerate(look):
            load[core] += int(self.work[part, core])
        for spot in self._spots(look, self.free):
            core = look[spot.part]
            yield spot, 1.0 + float(self.work[spot.part, core]) * load[core] / max(load) ** 2

    def touched(self, before: tuple[int, ...], look: tuple[int, ...]) -> Iterator[_Spot]:
        """Parts that went elsewhere, and their neighbours."""
        moved = [part for part in self.free if look[part] != before[part]]
        near = [p for p in self.free if any(abs(p - part) <= RUN for part in moved)]
        yield from self._spots(look, near)

    def _spots(self, look: tuple[int, ...], parts: Sequence[int]) -> Iterator[_Spot]:
        for part in parts:
            for sort in EXPECTED:
                yield _Spot(sort, part, (sort, part, look))

    def plans(self, look: tuple[int, ...], place: _Spot) -> Iterator[tuple[int, ...]]:
        """The allocations of a move, on the cores with the least work first."""
        part, here = place.part, look[place.part]
        others = sorted(self.allowed[part], key=lambda core: int(self.work[part, core]))
        if place.sort == "exchange":
            for other in self.free:
                there = look[other]
                if there != here and there in self.allowed[part] and here in self.allowed[other]:
                    yield self._with(look, {part: there, other: here})
            return
        row = [part]
        if place.sort == "run":
            row = [p for p in self.free if part <= p < part + RUN]
        for core in others:
            if core != here:
                yield self._with(look, {p: core for p in row if core in self.allowed[p]})

    def _with(self, look: tuple[int, ...], moved: Mapping[int, int]) -> tuple[int, ...]:
        return tuple(moved.get(part, core) for part, core in enumerate(look))

    def expected(self, place: _Spot) -> float:
        """What a move usually gives."""
        return EXPECTED[place.sort]

    def value(self, plan: tuple[int, ...], worst: float) -> float | None:
        """What the evaluator says by the rule of the best."""
        best = self.search.best
        rules = () if best is None else (best.rule,)
        score = self.search.evaluate(plan, rules=rules, worst=worst)
        return score if score < NEVER else None

    def score(self, value: float) -> float:
        """The objective."""
        return value
