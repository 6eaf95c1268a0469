"""The fastest plan within the fewest bytes of every on-chip memory that a network can be run in."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from tilewright.plan.plan import Plan
from tilewright.program.metrics import Metrics
from tilewright.search.effort import Effort
from tilewright.search.found import Found, Trial

PRECISION = 1.02  # times the smallest limit that is known to be too small


class LimitedSearch(Protocol):
    """A search for the fastest plan within a limit of memory; without `trials`, not even its first
    plan fits."""

    trials: list[Trial]
    simulated: int

    def run(self, effort: Effort) -> Found:
        """Search."""
        ...


class LeastMemory:
    """Finds the limit, then searches within it; `begun` is a search within so many bytes with its
    first plan tried, `most` are enough for some plan, `evaluate` says what one costs."""

    def __init__(
        self,
        begun: Callable[[int], LimitedSearch],
        most: int,
        evaluate: Callable[[Plan], Metrics | None],
    ) -> None:
        self.evaluate = evaluate
        searches = {most: begun(most)}

        def fits(limit: int) -> bool:
            searches[limit] = begun(limit)
            return bool(searches[limit].trials)

        self.limit = least_limit(fits, most)
        self.search = searches[self.limit]

    def run(self, effort: Effort) -> Found | None:
        """Search within the limit; with a larger effort it goes on. None where nothing fits."""
        if not self.search.trials:
            return None
        found = self.search.run(effort)
        plan = replace(found.best.plan, memory_limit=self.limit)
        return replace(found, best=self._tightened(plan, found.best))

    def _tightened(self, plan: Plan, found: Trial) -> Trial:
        """The plan within the fewest bytes that it fits in: groups may take less than each of their
        operators alone."""
        trials = {self.limit: replace(found, plan=plan)}

        def fits(limit: int) -> bool:
            less = replace(plan, memory_limit=limit)
            metrics = self.evaluate(less)
            if metrics is not None:
                trials[limit] = replace(found, plan=less, metrics=metrics)
            return metrics is not None

        return trials[least_limit(fits, self.limit)]


def least_limit(fits: Callable[[int], bool], most: int) -> int:
    """The fewest bytes that something `fits` in, to within the precision, if `most` are enough:
    halved as long as they are, then what lies between."""
    while most > 1 and fits(most // 2):
        most //= 2
    least = most // 2
    while least > 0 and most > PRECISION * least and most - least > 1:
        middle = (least + most) // 2
        if fits(middle):
            most = middle
        else:
            least = middle
    return most
