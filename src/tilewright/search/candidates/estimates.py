"""What a way to cut a group would take: its copies first, then its engines."""

from dataclasses import dataclass
from typing import NamedTuple

from tilewright.plan.plan import GroupPlan
from tilewright.search.candidates.probe import Cutting, Region
from tilewright.tiling.grid import Split, core_grid

Division = tuple[tuple[int, int], ...]
"""Axes of a value that are divided among the cores, and among how many each; none: one core has all
of it."""

EVERYWHERE: Division = ((-1, 0),)  # every core has all of it


@dataclass(frozen=True, slots=True)
class Estimate:
    """A way to run a group. Cycles of one core's engines and of the way to the main memory;
    `fill` is what nothing hides; bytes that one core's scratchpad holds beside resident tensors,
    and the `least` of them if nothing overlaps; bytes from and to the main memory."""

    splits: tuple[Split, ...]
    core_split: int | None
    replicated: bool
    compute: float
    dma: float
    fill: float
    bytes: int
    least: int
    traffic: int
    energy: float
    halo: float  # share of the compute time that computes what another tile has
    cores: tuple[str, ...] = ()  # that it is for; none: all of them

    @property
    def cycles(self) -> float:
        """When all engines overlap as far as they can."""
        return max(self.compute, self.dma) + self.fill

    @property
    def amid(self) -> tuple[float, int]:
        """What it takes between units that keep their values, whose time hides half of the loads:
        cycles, then bytes."""
        return max(self.compute, self.dma / 2), self.bytes

    @property
    def axis(self) -> int | None:
        """The axis that is divided among the cores."""
        return None if self.core_split is None else self.splits[self.core_split].axis

    def division(self, cores: int) -> Division:
        """How the result is divided among so many cores."""
        if self.replicated:
            return EVERYWHERE
        grid = core_grid(self.splits, self.core_split, cores)
        return tuple((self.splits[dim].axis, among) for dim, among in grid.items())

    def plan(self, nodes: tuple[str, ...]) -> GroupPlan:
        """As a decision for these nodes."""
        replicated, cores = self.replicated, self.cores
        return GroupPlan(nodes, self.splits, self.core_split, replicated=replicated, cores=cores)


class Slow(NamedTuple):
    """Loads that serve several tiles in a row: cycles in all, and bytes of one of each."""

    cycles: float = 0.0
    held: int = 0


class Side(NamedTuple):
    """Cycles and bytes of what a tile loads, or stores."""

    cycles: float = 0.0
    first: float = 0.0
    bytes: float = 0.0
    held: int = 0
    slow: Slow = Slow()


@dataclass(frozen=True, slots=True)
class Copied:
    """A way to cut a group before anything is known of its engines: `inner` are bytes of values
    that live within a tile, `turns` tiles of the core that has the most, `kept` values that are
    resident."""

    cut: Cutting
    splits: tuple[Split, ...]
    core_split: int | None
    tiles: int
    turns: int
    cores: int
    load: Side
    store: Side
    inner: int
    kept: frozenset[str]

    @property
    def cycles(self) -> float:
        """Of all copies."""
        return self.load.cycles + self.store.cycles * self.tiles

    @property
    def least(self) -> float:
        """Cycles that it takes however fast the engines are."""
        return self.cycles + (self.load.first + self.store.cycles)

    def held(self, overlapped: bool) -> int:
        """Bytes of a scratchpad; twice those of a tile where neighbours overlap."""
        double = 2 if self.turns > 1 else 1
        return double * (self.load.held + self.store.held) + self.inner * (2 if overlapped else 1)


def work_of(copied: Copied) -> tuple[float, float, float, float]:
    """Cycles of a tile on matrix and vector engines, energy of all tiles, and the tile's cycles
    that no other tile repeats."""
    matrix = vector = energy = useful = 0.0
    cut, tiles, turns = copied.cut, copied.tiles, copied.turns
    probe, views = cut.probe, cut.views(copied.kept)
    for place, (outputs, tile) in enumerate(zip(probe.outputs, cut.tiles, strict=True)):
        node, run = probe.nodes[place], None if place in views else tile.run
        if run is None:
            continue
        cycles = 0 if node.folds and matrix else run.cycles
        once = tiles > 1 and not any(_driven(cut.needs[value]) for value in outputs)
        times = 1 / turns if once else 1.0
        if run.kind == "matrix":
            matrix += cycles * times
        else:
            vector += cycles * times
        energy += run.energy * tiles * times
        share = min([size / max(1, part * tiles) for size, part in tile.sizes], default=1.0)
        useful += cycles * times * min(1.0, share)
    return matrix, vector, energy, useful


def _driven(region: Region | None) -> bool:
    return region is not None and any(dim is not None for dim in region[0])
