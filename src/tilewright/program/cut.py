"""A group, cut: its tiles, the core of each, and what every core reads and writes of its values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product, zip_longest
from typing import NamedTuple

from tilewright.geometry.box import Box
from tilewright.geometry.interval import Interval
from tilewright.plan.plan import GroupPlan
from tilewright.program.faults import LoweringError
from tilewright.program.signature import Signature
from tilewright.tiling.grid import Cut, Shares, core_grid, dealt
from tilewright.tiling.group import GroupTiles, ValueTiles
from tilewright.units import noun

Index = tuple[int, ...]
Turn = tuple[Index, int]
Taken = Mapping[int, range]
"""Dimension of the grid -> the positions along it that a core has; all where it is not named."""

Lots = Mapping[int, Shares]
"""Dimensions of the grid whose parts cores divide, and in which shares."""

Hulls = dict[int, Box]
"""Core -> region."""


class GroupCut:
    """The tiles of a group and of all that look like it; `signature` is the one it was cut for.
    `turns` are tiles and cores in the order they run; `inner` are the values it computes, `given`
    those of them that it gives to the outside."""

    def __init__(
        self, signature: Signature, tiles: GroupTiles, plan: GroupPlan, cores: Sequence[int]
    ) -> None:
        self.signature, self.tiles, self.cores = signature, tiles, tuple(cores)
        self.replicated = plan.replicated
        self._lots = lots_of(plan, cores)
        self.turns = tuple(_turns(tiles, self._lots, plan.replicated, cores))
        values = [tiles.values.get(name) for name in signature.names]
        self.inner = frozenset([k for k, v in enumerate(values) if v is not None])
        self.given = frozenset(
            [k for k, v in enumerate(values) if v is not None and v.write is not None]
        )
        self._reads: dict[int, Hulls] = {}
        self._writes: dict[int, Hulls] = {}
        self._holds: dict[int, Hulls] = {}

    def reads(self, value: int) -> Hulls:
        """The hull of what each core's tiles take of a value from outside."""
        found = self._reads.get(value)
        if found is None:
            cuts = self.tiles.inputs.get(self.signature.names[value])
            ranges = self._ranges if cuts is not None else {}
            hulls = {core: _hull(cuts or (), taken) for core, taken in ranges.items()}
            found = self._reads[value] = {c: box for c, box in hulls.items() if not box.empty}
        return found

    def writes(self, value: int) -> Hulls:
        """The hull of what each core's tiles give of a value to the outside."""
        found = self._writes.get(value)
        if found is None:
            tiles = self.tiles.values[self.signature.names[value]]
            given = {core: _given(tiles, taken) for core, taken in self._ranges.items()}
            found = self._writes[value] = {
                core: box for core, box in given.items() if box is not None and not box.empty
            }
        return found

    def holds(self, value: int) -> Hulls:
        """The hull of what each core's tiles hold of a value that they compute."""
        found = self._holds.get(value)
        if found is None:
            have = self.tiles.values[self.signature.names[value]].have
            found = {core: _hull(have, taken) for core, taken in self._ranges.items()}
            self._holds[value] = found
        return found

    @cached_property
    def _ranges(self) -> dict[int, Taken]:
        return _ranges(self.tiles.counts, self._lots, self.cores, self.replicated)


def wrong_shares(plan: GroupPlan, cores: int) -> str:
    """Why the cores of a group cannot have the shares it says, or nothing; `cores` are those of the
    machine."""
    count = len(plan.cores) or cores
    fits = not plan.shares or len(plan.shares) == count
    return "" if fits else f"has {len(plan.shares)} shares for {count} {noun(count, 'core')}"


def lots_of(plan: GroupPlan, cores: Sequence[int]) -> Lots:
    """Dimensions whose parts are divided among cores, and in which shares."""
    if plan.replicated or plan.core_split is None:
        return {}
    wrong = wrong_shares(plan, len(cores))
    if wrong:
        raise LoweringError(f"the group of '{plan.nodes[0]}' {wrong}")
    if plan.shares:
        return {plan.core_split: plan.shares}
    grid = core_grid(plan.splits, plan.core_split, len(cores))
    return {dim: (1,) * among for dim, among in grid.items()}


def _ranges(
    counts: Sequence[int], lots: Lots, cores: Sequence[int], replicated: bool
) -> dict[int, Taken]:
    """Core -> the positions it has along the dimensions that are divided among the cores."""
    if replicated:
        return {core: {} for core in cores}
    grid = product(*(dealt(counts[dim], shares) for dim, shares in lots.items()))
    return {
        core: dict(zip(lots, taken, strict=True))
        for core, taken in zip(cores, grid, strict=False)
        if all(taken)
    }


def _hull(cuts: Iterable[Cut], taken: Taken) -> Box:
    """What some tiles touch of a value: cuts are separable, so it is found axis by axis."""
    found: list[Interval] = []
    for cut in cuts:
        some = cut.intervals
        if len(some) == 1:
            found.append(some[0] if some[0][0] < some[0][1] else Interval(0, 0))
            continue
        part = None if cut.dim is None else taken.get(cut.dim)
        if part is not None:
            some = some[part.start : part.stop]
        there = [interval for interval in some if interval[0] < interval[1]]
        if there:
            start, stop = min([i[0] for i in there]), max([i[1] for i in there])
            found.append(Interval(start, stop))
        else:
            found.append(Interval(0, 0))
    return Box(tuple(found))


def _given(value: ValueTiles, taken: Taken) -> Box | None:
    """What a core's tiles give to the outside; along dimensions that do not drive the value, only
    the first tile gives."""
    assert value.write is not None
    driven = {cut.dim for cut in value.have}
    if any(part.start > 0 and dim not in driven for dim, part in taken.items()):
        return None
    return _hull(value.write, taken)


def _turns(tiles: GroupTiles, lots: Lots, replicated: bool, cores: Sequence[int]) -> list[Turn]:
    """Tiles in the order they run: each core has neighbouring ones, the cores take turns; where
    their shares differ, each as often as it has tiles."""
    if replicated:
        return [(index, core) for index in tiles.indices for core in cores]
    takers = {
        dim: [k for k, part in enumerate(dealt(tiles.counts[dim], shares)) for _ in part]
        for dim, shares in lots.items()
    }
    rows: dict[int, list[Index]] = {}
    for index in tiles.indices:
        turn = 0
        for dim, shares in lots.items():
            turn = turn * len(shares) + takers[dim][index[dim]]
        rows.setdefault(turn, []).append(index)
    turns = sorted(rows)
    if any(len(set(shares)) > 1 for shares in lots.values()):
        timely = [(k / len(rows[t]), t, index) for t in turns for k, index in enumerate(rows[t])]
        return [(index, cores[turn]) for _, turn, index in sorted(timely)]
    return [
        (index, cores[turn])
        for taken in zip_longest(*(rows[turn] for turn in turns))
        for turn, index in zip(turns, taken, strict=True)
        if index is not None
    ]


class Outer(NamedTuple):
    """A value that a group takes from outside, or gives to it."""

    value: int
    name: str
    written: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """A group of plans: its nodes, what they look like, and (on cores) how it is cut; `cut` is the
    one shared by all groups that look and are cut alike, `alike` its number. `outer` are the values
    whose place the plan decides, `passing` those that are no constants; `number` counts entries."""

    number: int
    plan: GroupPlan
    members: tuple[int, ...]
    signature: Signature
    alike: int
    cut: GroupCut | None
    outer: tuple[Outer, ...]
    passing: tuple[Outer, ...]
