"""Proposals: groupings that greedy merging and the additive model like, each simulated."""

from collections.abc import Callable
from typing import Protocol

from tilewright.plan.plan import Plan
from tilewright.search.candidates.candidate import Candidates
from tilewright.search.found import Trial
from tilewright.search.grouping.dp import best_grouping, greedy_merge
from tilewright.search.grouping.patterns import PatternSpace
from tilewright.search.progress import Tell

GROUPS_PER_UNIT = 10  # that the additive model may look at; beyond that, merging greedily has to do
SHARES = (1.0, 0.75, 0.6, 0.45)  # of the scratchpads that groups are planned with
REPAIRS = 6  # times that groups which do not fit are run one by one instead


class Proposing(Protocol):
    """The search that proposals are made for. `at_fault` are groups of the last plan that do not
    fit, `looked_at` counts groups."""

    trials: list[Trial]
    model: str
    progress: Tell
    at_fault: frozenset[int]
    looked_at: int

    def tried(self, name: str, plan: Plan, groups: tuple[int, ...]) -> Trial | None:
        """A plan simulated; None where it does not fit."""
        ...


class Proposals:
    """Proposals of one division of a network into units; `exact`: all groups were looked at."""

    def __init__(self, search: Proposing, candidates: Candidates, space: PatternSpace) -> None:
        self.search, self.candidates, self.space = search, candidates, space
        self.exact = False
        self._smaller = SHARES  # that nothing was merged with yet

    def merge(self, name: str) -> None:
        """What merging greedily makes, with and without runs that are cut as one."""
        self.search.progress("merging greedily, as compilers do")
        while self._merged(name) is None and self._smaller:
            pass

    def group(self, before: int) -> None:
        """The best grouping of the additive model, unless one of the trials behind those before
        has it."""
        for share in SHARES:
            self._take(share)
            if self._grouped(before):
                return

    def shrink(self, name: str, best: Callable[[], Trial]) -> None:
        """What merging greedily makes as if scratchpads were smaller and smaller, as long as that
        is better: what tiles leave free, loads come early into."""
        better = True
        while better and self._smaller:
            before = best()
            self._merged(name)
            better = best() is not before

    def score(self, mask: int) -> float | None:
        """The additive model's cost of a group."""
        candidate = self.space.candidate(mask)
        return None if candidate is None else candidate.score(self.candidates.prices)

    def attempt(self, name: str, groups: tuple[int, ...]) -> Trial | None:
        """Lower and simulate a grouping, without small groups that do not fit; None where it does
        not fit even so."""
        for _ in range(REPAIRS):
            plan = self.space.plan(self.search.model, groups)
            trial = self.search.tried(name, plan, groups)
            at_fault = self.search.at_fault
            nodes = [name for number in at_fault for name in plan.groups[number].nodes]
            mended = groups if trial is not None else self.space.parted(groups, nodes)
            if mended == groups:
                return trial
            groups = mended
        return None

    def _merged(self, name: str) -> Trial | None:
        """What merging greedily makes with the next share of the scratchpads, if it fits."""
        share, *smaller = self._smaller
        self._smaller = tuple(smaller)
        self._take(share)
        merged = greedy_merge(self.space.predecessors, self.score)
        trial = self.attempt(name, merged.groups)
        if trial is not None:
            self._apart(merged.groups)
        return trial

    def _take(self, share: float) -> None:
        """Plan with a share of the scratchpads: less where addresses were not found."""
        self.space.candidates = (
            self.candidates if share == SHARES[0] else self.candidates.within(share)
        )

    def _apart(self, groups: tuple[int, ...]) -> None:
        """The same groups with every unit of a section cut by itself, where that fits."""
        self.space.candidates = self.space.candidates.apart()
        if all(self.space.candidate(mask) is not None for mask in groups):
            self.attempt("fused, unit by unit", groups)

    def _grouped(self, before: int) -> bool:
        """Simulate the best grouping; whether it fits."""
        search, units = self.search, len(self.space.blocks)
        found = best_grouping(
            self.space.predecessors,
            self.score,
            may_grow=lambda mask: self.space.candidate(mask) is not None,
            evaluations=GROUPS_PER_UNIT * units,
            progress=lambda share: search.progress("looking at all groups", share),
        )
        self.exact, search.looked_at = found.exact, search.looked_at + found.evaluations
        search.progress("simulating the best grouping")
        groups = found.grouping.groups
        known = any(trial.groups == groups for trial in search.trials[before:])
        return known or self.attempt("fused", groups) is not None
