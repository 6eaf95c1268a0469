"""The loop that improves what is evaluated one by one: moves that help are made.

Which moves pay is learnt on the way, and places with a large weight come first. Where no move is
left, the best is kicked: a few moves are made though they do not help, and what they touched is
improved again. What is searched, where it can be changed and into what, a `Climber` says: plans of
groups here, allocations of layers to cores in `manycore`.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from random import Random
from typing import Generic, Protocol, TypeVar

DEEPER = 0.4  # the next plans of a place are expected to give so much less than the ones before
DEPTHS = 3
KICKS = 120  # in a row without success, after which no more are tried, unless told otherwise
KICKED = 0.10  # share by which a kicked plan may be worse, if its parts are not larger
PATIENCE = 25  # evaluations without a gain after which a kicked plan is given up
STRENGTH = (1, 2, 3)  # moves of a kick
KICK_PLANS = 12  # of a place that a kick chooses from
TRUST = 8  # evaluations that the expectation counts for
FORGET = 0.97  # what a try counts for after the next one
LEAST = 0.03  # share of the first expectation that any move has at least: none is given up

Plan = TypeVar("Plan", bound=Hashable)
Value = TypeVar("Value")
Look = TypeVar("Look")


class Spot(Protocol):
    """Where a move can be made. `key` is the same as long as nothing changes there; what is learnt
    at a place holds for all of the same `sort`."""

    @property
    def sort(self) -> Hashable:
        """What kind of move it is."""
        ...

    @property
    def key(self) -> Hashable:
        """What it would change."""
        ...


At = TypeVar("At", bound=Spot)
Arm = tuple[Hashable, int]
"""A sort of places, and how many plans of the place were looked at before (none, one, a few, more):
what is learnt about together."""


@dataclass
class _Pay:
    """What a kind of move gave lately, in percent."""

    expected: float
    tries: float = TRUST

    def __post_init__(self) -> None:
        self.gain = self.expected * TRUST

    def learn(self, gain: float) -> None:
        """One more try; the older others are, the less they count."""
        self.tries = FORGET * self.tries + 1.0
        self.gain = FORGET * self.gain + gain

    @property
    def worth(self) -> float:
        """What the next one is expected to give."""
        return max(LEAST * self.expected, self.gain / self.tries)


@dataclass(frozen=True, slots=True)
class Better(Generic[Plan, Value]):
    """A plan that is better than all before, after how many evaluations; `move` is its number among
    the plans of the place where it was found."""

    plan: Plan
    metrics: Value
    evaluations: int
    move: int = -1


class Climber(ABC, Generic[Plan, Value, Look, At]):
    """Improves plans. A `Look` is a plan as its places and moves see it. It ends after so many
    `kicks` in a row without success."""

    def __init__(self, seed: int = 0, kicks: int = KICKS) -> None:
        self.pick, self.kicks = Random(seed), kicks
        self.pays: dict[Arm, _Pay] = {}
        self.tried: dict[Plan, Value | None] = {}
        self.seen: dict[Hashable, int] = {}  # plans of each place that were looked at
        self.evaluations: int = 0

    @abstractmethod
    def look(self, plan: Plan) -> Look:
        """A plan as moves see it."""

    @abstractmethod
    def places(self, look: Look) -> Iterator[tuple[At, float]]:
        """All places of a plan, with their weights."""

    @abstractmethod
    def touched(self, before: Plan, look: Look) -> Iterator[At]:
        """Places at what a plan does otherwise than the one before."""

    @abstractmethod
    def plans(self, look: Look, place: At) -> Iterator[Plan]:
        """What the moves at a place make, the most promising first."""

    def echoes(self, before: Look, place: At, number: int, look: Look) -> Iterator[tuple[At, Plan]]:
        """What the move that made a plan better, by so manieth of its plans, makes of the better
        plan at each place that looks like its own."""
        return iter(())

    @abstractmethod
    def expected(self, place: At) -> float:
        """The gain of a move, in percent, before anything is learnt."""

    @abstractmethod
    def value(self, plan: Plan, worst: float) -> Value | None:
        """What a plan takes; None where it cannot be, or where its score is above the worst that
        counts (which may be found out or not)."""

    def weight(self, plan: Plan) -> int:
        """How many evaluations that of a plan counts for."""
        return 1

    @abstractmethod
    def score(self, value: Value) -> float:
        """What is to become small."""

    def ahead(self, found: Value, now: Value) -> bool:
        """Whether one value is better than another."""
        return self.score(found) < self.score(now)

    def leeway(self, look: Look) -> float:
        """The share by which a kicked plan may be worse than the one before."""
        return KICKED

    def better(self, plan: Plan, value: Value, evaluations: int) -> Iterator[Better[Plan, Value]]:
        """Better and better plans, until so many more were evaluated or no move is left."""
        end = self.evaluations + evaluations
        for better in self._climbed(plan, value, end):
            plan, value = better.plan, better.metrics
            yield better
        failed = 0
        while failed < self.kicks and self.evaluations < end:
            failed += 1
            for better in self._kicked(plan, value, end):
                if self.ahead(better.metrics, value):
                    plan, value, failed = better.plan, better.metrics, 0
                    yield better

    def _climbed(self, plan: Plan, value: Value, end: int) -> Iterator[Better[Plan, Value]]:
        """Better plans until every move at every place was looked at, and again where some were."""
        found = True
        while found and self.evaluations < end:
            found = False
            self.tried[plan] = value
            while self.evaluations < end:
                look = self.look(plan)
                made = self._next(look, self._by_arm(self.places(look)), value, end)
                if made is None:
                    break
                place, better = made
                gain = self._gain(value, better.metrics)
                plan, value, found = better.plan, better.metrics, True
                yield better
                for echo in self._echoed(look, place, better, gain, end):
                    plan, value = echo.plan, echo.metrics
                    yield echo
            self.seen.clear()  # what did not help before may do now

    def _echoed(
        self, before: Look, place: At, better: Better[Plan, Value], gain: float, end: int
    ) -> Iterator[Better[Plan, Value]]:
        """Plans better and better by the move that made one better, at places like its own, as long
        as it gave more on average than any other is expected to."""
        plan, value, done = better.plan, better.metrics, set[Hashable]()
        most, tries = max(pay.worth for pay in self.pays.values()), 1
        while self.evaluations < end and gain >= most * tries:
            rows = self.echoes(before, place, better.move, self.look(plan))
            row = next((row for row in rows if row[0].key not in done), None)
            if row is None:
                return
            done.add(row[0].key)
            changed = row[1]
            if changed not in self.tried:
                self.evaluations += self.weight(changed)
                tries += 1
                found = self.tried[changed] = self.value(changed, self.score(value))
                if found is not None and self.ahead(found, value):
                    gain += self._gain(value, found)
                    plan, value = changed, found
                    yield Better(plan, value, self.evaluations)

    def _kicked(self, plan: Plan, value: Value, end: int) -> Iterator[Better[Plan, Value]]:
        """Plans better and better from one that a few moves made of the given one."""
        moved, now = plan, value
        worst = (1 + self.leeway(self.look(plan))) * self.score(value)
        for _ in range(self.pick.choice(STRENGTH)):
            look = self.look(moved)
            rows = self._by_arm(self.places(look)).values()
            places = [entry for row in rows for entry in row]
            if not places:
                return
            place = places[self._chosen([weight for _, weight in places])][0]
            plans = list(islice(self.plans(look, place), KICK_PLANS))
            if not plans or self.evaluations >= end:
                return
            changed = self.pick.choice(plans)
            found = self.tried.get(changed)
            if found is None:
                self.evaluations += self.weight(changed)
                found = self.value(changed, worst)
            if found is None or self.score(found) > worst:
                continue
            moved, now = changed, found
        if moved == plan:
            return
        self.tried[moved] = now
        if self.ahead(now, value):
            yield Better(moved, now, self.evaluations)
        self.seen.clear()
        while self.evaluations < end:
            look = self.look(moved)
            places = ((place, 1.0) for place in self.touched(plan, look))
            patience = min(end, self.evaluations + PATIENCE)
            made = self._next(look, self._by_arm(places), now, patience)
            if made is None:
                return
            _, better = made
            moved, now = better.plan, better.metrics
            yield better

    def _next(
        self, look: Look, places: dict[Arm, list[tuple[At, float]]], value: Value, end: int
    ) -> tuple[At, Better[Plan, Value]] | None:
        """The first plan found that is better than the one given, and where."""
        now = self.score(value)
        plans: dict[Hashable, Iterator[Plan]] = {}
        while places and self.evaluations < end:
            arms = list(places)
            arm = arms[self._chosen([self._pay(key, places[key][0][0]).worth for key in arms])]
            row = places[arm]
            number = self._chosen([weight for _, weight in row])
            place = row[number][0]
            plan = self._candidate(look, place, plans)
            entry = row.pop(number)
            if not row:
                del places[arm]
            if plan is None:
                continue
            places.setdefault(self._arm(place), []).append(entry)
            self.evaluations += self.weight(plan)
            found = self.tried[plan] = self.value(plan, now)
            better = found is not None and self.ahead(found, value)
            gain = self._gain(value, found) if found is not None and better else 0.0
            self._pay(arm, place).learn(gain)
            if found is not None and better:
                move = self.seen[place.key] - 1
                return place, Better(plan, found, self.evaluations, move)
        return None

    def _gain(self, before: Value, found: Value) -> float:
        """In percent."""
        return 100 * (1 - self.score(found) / self.score(before))

    def _candidate(
        self, look: Look, place: At, plans: dict[Hashable, Iterator[Plan]]
    ) -> Plan | None:
        """The next plan of a place that was not evaluated yet."""
        rows = plans.get(place.key)
        if rows is None:
            rows = islice(self.plans(look, place), self.seen.get(place.key, 0), None)
            plans[place.key] = rows
        for plan in rows:
            self.seen[place.key] = self.seen.get(place.key, 0) + 1
            if plan not in self.tried:
                return plan
        return None

    def _by_arm(self, places: Iterator[tuple[At, float]]) -> dict[Arm, list[tuple[At, float]]]:
        found: dict[Arm, list[tuple[At, float]]] = {}
        for place, weight in places:
            found.setdefault(self._arm(place), []).append((place, weight))
        return found

    def _arm(self, place: At) -> Arm:
        return place.sort, min(DEPTHS, self.seen.get(place.key, 0).bit_length())

    def _pay(self, arm: Arm, place: At) -> _Pay:
        if arm not in self.pays:
            self.pays[arm] = _Pay(self.expected(place) * DEEPER ** arm[1])
        return self.pays[arm]

    def _chosen(self, weights: Sequence[float]) -> int:
        """A number, the more probable the larger its weight."""
        sums = list(accumulate(weights))
        return bisect_right(sums, self.pick.random() * sums[-1], hi=len(sums) - 1)
