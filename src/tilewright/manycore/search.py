"""The best allocation of parts to cores: all where they can be counted, else a seeded climb.

An allocation is timed by the evaluator under several rules; the best counts. Exact means: no
allowed allocation is better under the same scheduler. The bound holds for every schedule.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from random import Random

from tilewright.manycore.bounds import Allowed, Bounds, bounds_of
from tilewright.manycore.copies import peaks_of
from tilewright.manycore.evaluate import Evaluator, Rule, Timed
from tilewright.manycore.state import NEVER

COUNTED = 20_000
"""Allocations that are looked at one by one; more are climbed."""
CLIMB = 1_500
"""Evaluations of a climb."""
STUCK = 60  # moves without gain before a kick
KICK = 3  # parts that a kick moves

Tell = Callable[[str], None]
Objective = str
"""`latency`, `energy`, `memory` or `edp`."""


def _silent(text: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Point:
    """An allocation and what it takes; memory is the sum of the cores' peaks in bits."""

    core_of: tuple[int, ...]
    latency: int
    energy: float
    memory: int
    rule: Rule


@dataclass(frozen=True, slots=True)
class Found:
    """The best allocation, timed; whether it was proven best, against how many; the bound of all;
    and the front of latency, energy and memory among those looked at."""

    best: Timed
    bounds: Bounds
    exact: bool
    space: int
    evaluations: int
    front: tuple[Point, ...]

    @property
    def gap(self) -> float:
        """How far above the bound it may be."""
        return self.best.latency / max(1, self.bounds.cycles) - 1.0


class Search:
    """Looks for the best allocation of one evaluator."""

    def __init__(
        self,
        evaluator: Evaluator,
        allowed: Allowed,
        *,
        objective: Objective = "latency",
        seed: int = 0,
        tell: Tell | None = None,
    ) -> None:
        self.evaluator, self.allowed, self.objective = evaluator, allowed, objective
        self.random = Random(seed)
        self.tell: Tell = tell if tell is not None else _silent
        self.bounds = bounds_of(evaluator, allowed)
        self.known: dict[tuple[int, ...], float] = {}
        self.best: Timed | None = None
        self.score = float(NEVER)
        self.points: list[Point] = []

    def run(self, *, counted: int = COUNTED, climb: int = CLIMB) -> Found | None:
        """The best allocation; None where none fits."""
        space = prod(len(cores) for cores in self.allowed)
        exact = space <= counted
        for start in self._starts():
            self.evaluate(start)
        if exact:
            self._all()
        else:
            self._climb(climb)
        if self.best is None:
            return None
        evaluations = len(self.known)
        return Found(self.best, self.bounds, exact, space, evaluations, self._front())

    def evaluate(self, core_of: Sequence[int], *, rules: Sequence[Rule] = ()) -> float:
        """The score of an allocation by the best of some rules; of all where none are given, or
        where one of them makes it the best so far. It is remembered."""
        key = tuple(core_of)
        if key not in self.known:
            before = self.score
            first = rules or self.evaluator.rules
            score = min(self._timed(key, rule) for rule in first)
            if score < before:
                others = [rule for rule in self.evaluator.rules if rule not in first]
                score = min([score, *(self._timed(key, rule) for rule in others)])
            self.known[key] = score
        return self.known[key]

    def _timed(self, core_of: tuple[int, ...], rule: Rule) -> float:
        # Where only time counts, what takes longer than the best need not be timed to its end.
        limit = int(self.score) if self.objective == "latency" and len(self.known) > 100 else NEVER
        timed = self.evaluator.timed(core_of, limit=limit, rule=rule)
        if not isinstance(timed, Timed):
            return float(NEVER)
        score = self._scored(timed)
        if score < self.score:
            self.score, self.best = score, timed
            gap = timed.latency / max(1, self.bounds.cycles)
            self.tell(f"{timed.latency:,} cycles, {gap:.2f}x of the bound")
        return score

    def _scored(self, timed: Timed) -> float:
        memory = -1
        if self._notable(timed) or self.objective == "memory":
            memory = self._memory(timed)
            point = Point(timed.core_of, timed.latency, timed.energy, memory, timed.rule)
            self.points.append(point)
        if self.objective == "energy":
            return timed.energy
        if self.objective == "memory":
            return float(memory)
        return timed.latency * timed.energy if self.objective == "edp" else float(timed.latency)

    def _notable(self, timed: Timed) -> bool:
        """Whether no allocation before was at least as good in both latency and energy."""
        small = len(self.known) < 256 and len(self.evaluator.graph.tiles) < 512
        return small or not any(
            p.latency <= timed.latency and p.energy <= timed.energy for p in self.points
        )

    def _memory(self, timed: Timed) -> int:
        peaks = peaks_of(self.evaluator, timed)
        return int(peaks[1:].sum()) * self.evaluator.graph.unit

    def _front(self) -> tuple[Point, ...]:
        """Points that no other is better than in everything."""
        rows = sorted(self.points, key=lambda p: (p.latency, p.energy, p.memory, p.core_of))
        front: list[Point] = []
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

    def _all(self) -> None:
        """Every allocation, part by part; those whose bound is no better than the best are left
        out, with all that begin alike."""
        count = len(self.allowed)
        stack: list[tuple[int, ...]] = [()]
        prune = self.objective == "latency"
        while stack:
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

    def _climb(self, budget: int) -> None:
        """Moves on the best allocation, each timed and made if it helps; kicks where none does."""
        free = [part for part, cores in enumerate(self.allowed) if len(cores) > 1]
        if not free or self.best is None:
            return
        here, score, idle = list(self.best.core_of), self.score, 0
        tries = 0
        while len(self.known) < budget and tries < 4 * budget:
            tries += 1
            moved = list(here)
            for part in self._moved(free, moved):
                others = [core for core in self.allowed[part] if core != moved[part]]
                moved[part] = self.random.choice(others)
            found = self.evaluate(moved, rules=(self.best.rule,))
            if found <= score:
                idle = 0 if found < score else idle + 1
                here, score = moved, found
            else:
                idle += 1
            if idle > STUCK:
                here = list(self.best.core_of)
                for part in self.random.sample(free, min(KICK, len(free))):
                    here[part] = self.random.choice(self.allowed[part])
                score, idle = self.evaluate(here, rules=(self.best.rule,)), 0
            if self.score <= self.bounds.cycles:
                return

    def _moved(self, free: Sequence[int], now: list[int]) -> list[int]:
        """The parts that a move puts elsewhere: one, two that exchange cores, or a run of them."""
        kind = self.random.random()
        first = self.random.choice(free)
        if kind < 0.5:
            return [first]
        if kind < 0.8:
            second = self.random.choice(free)
            swap = now[first], now[second]
            if swap[0] in self.allowed[second] and swap[1] in self.allowed[first]:
                now[first], now[second] = swap[1], swap[0]
                return []
            return [first]
        core = self.random.choice(self.allowed[first])
        for part in free:
            if first <= part < first + 3 and core in self.allowed[part]:
                now[part] = core
        return []
