"""How a group is cut: which axis, in how many parts, and what happens at the seams."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import accumulate, pairwise
from math import gcd, prod
from typing import NamedTuple

from tilewright.errors import TilingError
from tilewright.geometry.interval import Interval


class Halo(Enum):
    """What neighbouring tiles share: computed again by each, or kept from the tile before."""

    RECOMPUTE = "recompute"
    CACHE = "cache"


@dataclass(frozen=True, slots=True)
class Split:
    """One dimension of the grid of tiles: an axis of the group's outputs, and how it is cut.
    `crossed`: the cores share it too, beside the one that is divided among them. Parts begin at
    multiples of the `grain`."""

    axis: int
    parts: int
    halo: Halo = Halo.RECOMPUTE
    crossed: bool = False
    grain: int = 1

    def __hash__(self) -> int:  # of what differs most often: searches ask for it all the time
        return hash((self.axis, self.parts))


class Cut(NamedTuple):
    """The intervals of one axis of a value over the tiles.

    `dim` is the dimension of the grid that drives the axis; None means the same one interval in
    every tile.
    """

    dim: int | None
    intervals: tuple[Interval, ...]

    def at(self, index: tuple[int, ...]) -> Interval:
        """The interval in the tile at this position of the grid."""
        return self.intervals[0 if self.dim is None else index[self.dim]]

    def hull(self, other: "Cut", extent: int) -> "Cut":
        """Both together; an axis driven from two sides runs whole."""
        if self.dim == other.dim:
            pairs = zip(self.intervals, other.intervals, strict=True)
            return Cut(self.dim, tuple(a.hull(b) for a, b in pairs))
        if self.dim is not None and other.dim is not None:
            return Cut(None, (Interval(0, extent),))
        driven, fixed = (self, other) if other.dim is None else (other, self)
        if fixed.intervals[0] == Interval(0, extent):
            return fixed
        return Cut(driven.dim, tuple(i.hull(fixed.intervals[0]) for i in driven.intervals))

    def covered(self) -> int:
        """Total length over the tiles along its dimension."""
        return sum(interval.length for interval in self.intervals)


def tiles_of(splits: Iterable[Split]) -> int:
    """Into how many tiles a group is cut."""
    return prod([split.parts for split in splits])


Shares = tuple[int, ...]
"""In which proportion several takers share something."""


def dealt(parts: int, shares: Shares) -> list[range]:
    """The parts that each of several takers has: neighbours together, as close to their shares as
    can be."""
    whole = sum(shares)
    begins = [-(-before * parts // whole) for before in accumulate(shares, initial=0)]
    return [range(*pair) for pair in pairwise(begins)]


def core_grid(splits: Sequence[Split], core_split: int | None, cores: int) -> dict[int, int]:
    """Dimensions that are divided among the cores, and among how many each: all along the one, or
    where another is crossed with it, as many as its parts can be dealt to evenly, and the others
    along that."""
    if core_split is None:
        return {}
    crossed = [dim for dim, split in enumerate(splits) if split.crossed and dim != core_split]
    along = gcd(splits[core_split].parts, cores) if crossed else cores
    if along == cores:
        return {core_split: cores}
    return {core_split: along, crossed[0]: cores // along}


def turns_of(splits: Sequence[Split], grid: Mapping[int, int]) -> list[int]:
    """Parts of each dimension that a core goes through; the most of any core."""
    return [-(-split.parts // grid.get(dim, 1)) for dim, split in enumerate(splits)]


@lru_cache(maxsize=4096)
def whole_cut(extent: int) -> Cut:
    """An axis that is not cut."""
    return Cut(None, (Interval(0, extent),))


AXES_BY_RANK = {
    5: {"N": 0, "C": 1, "D": 2, "H": 3, "W": 4},
    4: {"N": 0, "C": 1, "H": 2, "W": 3},
    3: {"N": 0, "S": 1, "H": 1, "C": 2, "L": 2, "W": 2},
    2: {"N": 0, "S": 0, "H": 0, "C": 1, "W": 1},
    1: {"N": 0, "S": 0, "C": 0},
}


SIGNAL = {"N": 0, "C": 1, "L": 2, "W": 2}  # rank 3 as convolutions see it, not rows of channels


def axes_of(rank: int, signal: bool = False) -> Mapping[str, int]:
    """The axes of a tensor by their letters; of rank 3 as a `signal`, or as rows of a sequence."""
    return SIGNAL if signal and rank == 3 else AXES_BY_RANK.get(rank, {})


def letters_of(rank: int, signal: bool = False) -> dict[int, str]:
    """The letter of every axis."""
    return {axis: letter for letter, axis in reversed([*axes_of(rank, signal).items()])}


def axis_of(name: str, rank: int, signal: bool = False) -> int:
    """The axis a person means: N, C, H, W (images), L (signals), S (rows of a sequence), or its
    number."""
    text, known = name.strip().upper(), axes_of(rank, signal)
    if text in ("ROWS", "R", "S"):
        return known.get("L", max(0, rank - 2)) if signal else max(0, rank - 2)
    if text.removeprefix("-").isdecimal() and -rank <= int(text) < rank:
        return int(text) % rank
    if text not in known:
        names = ", ".join(known) or "none"
        raise TilingError(
            f"'{name}' is no axis of a tensor of rank {rank}: use {names} or a number"
        )
    return known[text]


def parse_splits(
    texts: Iterable[str], rank: int, cached: Iterable[str] = (), *, signal: bool = False
) -> tuple[Split, ...]:
    """`H=4`, or `H=4 W=2`, for outputs of this rank; `cached` names the axes that keep their halo
    (`all` for every one)."""
    kept = [name.strip() for name in cached]
    keep_all = "all" in kept
    kept_axes = {axis_of(name, rank, signal) for name in kept if not keep_all}
    splits: list[Split] = []
    for text in texts:
        name, equals, count = text.partition("=")
        if not equals or not count.strip().isdecimal() or int(count) < 1:
            raise TilingError(f"'{text}' is no split: write H=4, or H=4,W=2")
        axis = axis_of(name, rank, signal)
        if any(split.axis == axis for split in splits):
            raise TilingError(f"'{text}' cuts an axis that is cut already")
        halo = Halo.CACHE if keep_all or axis in kept_axes else Halo.RECOMPUTE
        splits.append(Split(axis, int(count), halo))
    if not splits:
        raise TilingError("no split given: write H=4, or H=4,W=2")
    return tuple(splits)
