"""What a way to run a group would take."""

from typing import NamedTuple

from tilewright.plan.plan import GroupPlan
from tilewright.tiling.grid import Shares, Split, core_grid

Division = tuple[tuple[int, int], ...]
"""Axes of a value that are divided among the cores, and among how many each; none: one core has all
of it."""

EVERYWHERE: Division = ((-1, 0),)  # every core has all of it


class Estimate(NamedTuple):
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
    shares: Shares = ()  # of the parts along the core split that they have; none: all as many

    @property
    def cycles(self) -> float:
        """When all engines overlap as far as they can."""
        return max(self.compute, self.dma) + self.fill

    @property
    def order(self) -> tuple[float, int, int]:
        """By what the best of several comes first."""
        return self.cycles, self.traffic, self.bytes

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
        return GroupPlan(
            nodes,
            self.splits,
            self.core_split,
            replicated=self.replicated,
            cores=self.cores,
            shares=self.shares,
        )
