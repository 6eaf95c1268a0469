"""All objectives together: each search begins with what those before it found.

Whichever objective is asked for, the plans looked at are the same, so no plan that is found for one
is better by the measure of another than what is found for that; and rivals are the same too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tilewright.program.metrics import Objective
from tilewright.search.effort import Effort
from tilewright.search.found import Found, Trial

PORTION = 0.5  # of the improvements of a whole search that each objective but the first gets


class Search(Protocol):
    """A search for one objective. `given` are plans that were found before, `portion` its part of
    the improvements of a whole search, `trials` what it found."""

    given: tuple[Trial, ...]
    portion: float
    trials: list[Trial]

    def run(self, effort: Effort) -> Found:
        """Search."""
        ...


@dataclass(slots=True)
class Pool:
    """What all searches found, and the results of each."""

    trials: list[Trial] = field(default_factory=list[Trial])
    found: list[Found] = field(default_factory=list[Found])

    @property
    def interrupted(self) -> bool:
        """Whether the last search was ended."""
        return self.found[-1].interrupted


def search_all(
    search_for: Callable[[Objective], Search], effort: Effort, given: Sequence[Trial] = ()
) -> Pool:
    """Search for the fastest plan, then for every other objective that means something here; all
    begin with the plans given."""
    pool = Pool(list(given))
    for objective in Objective:
        if pool.trials and objective.counts_energy and not pool.trials[0].metrics.energy_pj:
            continue
        search = search_for(objective)
        search.given = tuple(pool.trials)
        search.portion = PORTION if pool.found else 1.0
        pool.found.append(search.run(effort))
        pool.trials += [trial for trial in search.trials if trial not in search.given]
        if pool.interrupted:
            break
    return pool
