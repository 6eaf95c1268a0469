"""The climbs of a search: which plans moves are made on, and how many of them."""

from collections.abc import Callable
from typing import Protocol

from tilewright.plan.plan import Plan
from tilewright.program.metrics import Metrics, Objective
from tilewright.search.found import Trial
from tilewright.search.improvement.boundaries import JOIN_SHARE, Joins
from tilewright.search.improvement.improve import Improver
from tilewright.search.improvement.splice import better_spliced
from tilewright.search.progress import Tell

STRETCHES = 3  # of the plans that are simulated; the last is repeated as long as it pays
PAYING = 0.005  # share by which a stretch has to lower the objective
SHORT = 10  # plans of an effort for each of a climb that shows which of several starts is best
SECOND = 7  # plans of an effort for each of the second climb that it begins with
SPLICES = 4  # plans of the second climb for each that has sections of both
IMPROVED = "fused, improved"


class Searching(Protocol):
    """The search that climbs are made for: its plans, and what it thinks of them. `starts` are the
    best proposals of each kind, `improving` plans simulated, of how many."""

    trials: list[Trial]
    starts: list[Trial]
    objective: Objective
    progress: Tell
    improving: tuple[int, int]

    def best(self) -> Trial:
        """The best of its plans."""
        ...

    def evaluate(self, plan: Plan) -> Metrics | None:
        """What a plan costs; None where it does not fit."""
        ...


class Climbs:
    """Improves the best plan of a search, effort by effort. `made` makes what climbs, by seed;
    `rivals` are names of plans that stay beside better ones."""

    def __init__(
        self,
        search: Searching,
        made: Callable[[int], Improver],
        joins: Joins,
        rivals: tuple[str, ...],
    ) -> None:
        self.search, self.made, self.joins, self.rivals = search, made, joins, rivals
        self.improver = made(0)
        self.start: Trial | None = None  # where second climbs begin
        self.efforts = 0  # that were made

    def improve(self, evaluations: int, elsewhere: Callable[[], Trial | None]) -> None:
        """Make moves on the best plan as the simulator likes them, so many or more: as long as the
        last of them pay. What is found `elsewhere` gets as many if it is better then. Boundaries
        are taken away last."""
        search, self.improver.evaluate = self.search, self._counted(*self.search.improving)
        stretch, left = max(1, evaluations // STRETCHES), evaluations
        if self.start is None:
            self.start = search.best()
            left -= self._begun(evaluations // SHORT)
        elif evaluations:
            self._second(self.start, evaluations // SECOND)
            left -= evaluations // SECOND
        self.efforts += 1
        self._climb(self.improver, search.best(), left - stretch)
        if elsewhere() is search.best():
            self._climb(self.improver, search.best(), evaluations - stretch)
        paying = evaluations > 0
        while paying:
            reached = self._score()
            self._climb(self.improver, search.best(), stretch)
            paying = self._score() <= (1 - PAYING) * reached
        if self.improver.moves.joins:
            self._join(evaluations // JOIN_SHARE)

    def _score(self) -> float:
        return self.search.best().score(self.search.objective)

    def _begun(self, evaluations: int) -> int:
        """Short climbs from the best proposals of each kind, and from each with branches side by
        side where that is better: the one that leads furthest is gone on with, and second climbs
        begin there. How many plans were simulated."""
        search, first, before = self.search, self.search.best(), self.improver.evaluations
        kinds = search.starts if first in search.starts else [first]
        starts = list(kinds)
        for start in kinds:
            better = list(self.improver.abreast(start.plan, start.metrics, evaluations))
            for plan in better[-1:]:
                trial = Trial("fused, side by side", plan.plan, start.groups, plan.metrics)
                search.trials.append(trial)
                starts.append(trial)
        taken = self.improver.evaluations - before
        if len(starts) == 1:
            return taken
        ends: list[tuple[Trial, Improver, Trial]] = []
        for start in starts:
            improver = self.improver if start is first else self.made(0)
            improver.evaluate = self.improver.evaluate
            ends.append((self._climb(improver, start, evaluations), improver, start))
        best, objective = search.best(), search.objective
        best_end = min(ends, key=lambda end: (end[0] is not best, end[0].score(objective)))
        _, self.improver, self.start = best_end
        return taken + len(starts) * evaluations

    def _climb(self, improver: Improver, start: Trial, evaluations: int) -> Trial:
        """Better plans than a trial's take its place; the last of them."""
        trials = self.search.trials
        others = [trial for trial in trials if trial is not start or trial.name in self.rivals]
        reached = start
        for better in improver.better(start.plan, start.metrics, evaluations):
            reached = Trial(IMPROVED, better.plan, start.groups, better.metrics)
            self.search.trials = [*others, reached]
        return reached

    def _second(self, start: Trial, evaluations: int) -> None:
        """A second climb from where the first began, with luck of its own. The better of both is
        gone on from, with the sections of the other that it is better with."""
        best, trials = self.search.best(), self.search.trials
        others = [trial for trial in trials if trial.name in self.rivals]
        first, second = self.improver, self.made(self.efforts)
        second.evaluate, reached = first.evaluate, start
        for better in second.better(start.plan, start.metrics, evaluations):
            reached = Trial(IMPROVED, better.plan, start.groups, better.metrics)
        ahead, behind = best, reached
        if second.ahead(reached.metrics, best.metrics):
            self.improver, ahead, behind = second, reached, best
        pair, limit = (ahead.plan, ahead.metrics), evaluations // SPLICES
        for plan, metrics in better_spliced(self.improver, pair, behind.plan, limit):
            ahead = Trial(IMPROVED, plan, start.groups, metrics)
        self.search.trials = others if ahead in others else [*others, ahead]

    def _join(self, evaluations: int) -> None:
        """Boundaries of the best plan that are better taken away."""
        search, best, told = self.search, self.search.best(), self.improver.evaluate
        for plan, metrics in self.joins.better(
            best.plan, best.metrics, told, search.objective, evaluations
        ):
            search.trials.append(Trial("fused, joined", plan, best.groups, metrics))

    def _counted(self, done: int, whole: int) -> Callable[[Plan], Metrics | None]:
        """Evaluates plans of an improvement, and says how far it is."""
        search = self.search

        def evaluate(plan: Plan) -> Metrics | None:
            nonlocal done
            if done == whole:
                search.progress("improving the best plan as long as it pays")
            else:
                done += 1
                search.progress("improving the best plan", done / whole)
            search.improving = (done, whole)
            return search.evaluate(plan)

        return evaluate
