"""Tiles dealt to cores that differ: as many to each as it is fast at them."""

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from tilewright.cost.models import CostModels
from tilewright.search.candidates.dealt import Dealt, Work
from tilewright.tiling.grid import Shares
from tilewright.tiling.grid import dealt as dealt_parts


class Divided(NamedTuple):
    """The cores that have tiles, their shares, of the one that is done last what a tile takes and
    how many it has, and the most parts of any (0: each has as many)."""

    cores: tuple[str, ...]
    shares: Shares
    last: Work
    turns: int
    most: int = 0


class UnlikeCores:
    """The cores of a machine, or some by name, and the kind of each."""

    def __init__(self, models: CostModels, names: tuple[str, ...]) -> None:
        kinds = enumerate(models.core_classes)
        kind_of = {core.name: number for number, alike in kinds for core in alike}
        self.names, self.every = names, [core.name for core in models.machine.cores]
        self.kinds = [kind_of[name] for name in self.every]

    def divided(
        self,
        dealt: Dealt,
        works: Sequence[Work],
        replicated: bool,
        shares: Shares | None,
        pipelines: bool,
    ) -> Divided:
        """Who has which tiles of a cut, given what one takes on each kind of core: in some shares
        (none: evenly), or so that the last is done as soon as can be. All tiles are the first
        core's where no split is divided, and each has as many where two are."""
        slowest = max(works, key=lambda work: work.matrix + work.vector)
        if replicated or dealt.core_split is None:
            first = slowest if replicated else works[self.kinds[0]]
            return Divided(self.names, (), first, dealt.turns)
        if any(split.crossed for split in dealt.splits):
            return Divided(self.names, (), slowest, dealt.turns)
        parts = dealt.splits[dealt.core_split].parts
        each = [_cycles(work, pipelines) for work in works]
        times = [each[kind] for kind in self.kinds]
        if shares is None and len(set(times)) > 1:
            counts = soonest(parts, times)
        else:
            counts = [len(part) for part in dealt_parts(parts, shares or (1,) * len(times))]
        last = max(range(len(times)), key=lambda core: counts[core] * times[core])
        work, turns = works[self.kinds[last]], counts[last] * (dealt.tiles // parts)
        there = [number for number, count in enumerate(counts) if count]
        cores = self.names if all(counts) else tuple([self.every[number] for number in there])
        found = shares_of(tuple([counts[number] for number in there]))
        return Divided(cores, found, work, turns, max(counts))


def _cycles(work: Work, pipelines: bool) -> float:
    """What each of many tiles takes, its engines at the same time or not."""
    matrix, vector = work.matrix, work.vector
    return max(1.0, matrix, vector) if pipelines else max(1.0, matrix + vector)


def soonest(parts: int, times: Sequence[float]) -> list[int]:
    """Parts by core, given what a part takes on each: no other way to deal them ends sooner. What
    all of them could do in the same time is whole parts for each; the others go one by one to
    where they are done first."""
    common = parts / sum([1 / time for time in times])
    counts = [int(common / time) for time in times]
    for _ in range(parts - sum(counts)):
        first = min(range(len(times)), key=lambda core: (counts[core] + 1) * times[core])
        counts[first] += 1
    return counts


def shares_of(counts: Shares) -> Shares:
    """Counts in the smallest numbers of their proportion; none where all are equal."""
    common = gcd(*counts)
    found = tuple([count // common for count in counts])
    return found if len(set(found)) > 1 else ()
