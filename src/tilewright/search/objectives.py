"""All objectives together: each search begins with what those before it found.

Whichever of them is asked for, the plans looked at are the same, so no plan that is found for one
is better by the measure of another than what is found for that; and rivals are the same too. Only
little memory stands apart: its plan is the fastest in a memory that is too small for the others.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tilewright.program.metrics import Objective
from tilewright.search.effort import Effort
from tilewright.search.found import Found, Trial

PORTION = 0.5  # of the improvements of a whole search that each objective but the first gets


class ObjectiveSearch(Protocol):
    """A search for one objective. `given` are plans that were found before, `portion` its part of
    the improvements of a whole search, `trials` what it found."""

    given: tuple[Trial, ...]
    portion: float
    trials: list[Trial]

    def run(self, effort: Effort) -> Found:
        """Search."""
        ...


@dataclass(slots=True)
class FoundPlans:
    """What all searches found, and the results of each."""

    trials: list[Trial] = field(default_factory=list[Trial])
    found: list[Found] = field(default_factory=list[Found])
    unsearched: tuple[Objective, ...] = ()  # where one was ended

    @property
    def interrupted(self) -> bool:
        """Whether the last search was ended."""
        return self.found[-1].interrupted

    @property
    def not_looked_at(self) -> str:
        """What the end left out, in words."""
        last = self.found[-1]
        rest = [f"all of {objective.value}" for objective in self.unsearched]
        return "; ".join([f"for {last.objective.value} {last.not_looked_at}", *rest])


def search_all(
    search_for: Callable[[Objective], ObjectiveSearch], effort: Effort, wanted: Objective
) -> FoundPlans:
    """Search for the fastest plan, then for every other objective that means something here, or for
    little memory; a larger effort goes on with all of them."""
    pool, objectives = FoundPlans(), [other for other in Objective if other is not Objective.MEMORY]
    if wanted is Objective.MEMORY:
        objectives = [Objective.LATENCY, wanted]
    searches: dict[Objective, ObjectiveSearch] = {}
    for step in effort.steps:
        pool.found, left = [], list(objectives)
        while left:
            objective = left.pop(0)
            search = searches.get(objective) or search_for(objective)
            searches[objective] = search
            search.given = tuple(pool.trials)
            search.portion = PORTION if pool.found else 1.0
            pool.found.append(search.run(step))
            pool.trials += [trial for trial in search.trials if trial not in pool.trials]
            if not pool.trials[0].metrics.energy_pj:
                left = [other for other in left if not other.counts_energy]
                objectives = [other for other in objectives if not other.counts_energy]
            if pool.interrupted:
                pool.unsearched = tuple(left)
                return pool
    return pool
