"""Parts at multiples of what an array rounds up to: for 197 positions an array that takes 16 at a
time does 16 steps in tiles of 50, 49, 49 and 49, and 13 in tiles of 48, 48, 48 and 53."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import lcm

from tilewright.geometry.interval import grained_split
from tilewright.tiling.grid import Split, dealt

Steps = tuple[float, float]
"""What the tiles along a dimension take for each of the largest: what they copy, as much as even
ones, and what the core that has most of them computes."""


def wastes(extent: int, parts: int, grain: int) -> bool:
    """Whether even parts are rounded up to more of these grains than the whole has."""
    grains = -(-extent // grain)
    size, larger = divmod(extent, parts)
    rounded = larger * -(-(size + 1) // grain) + (parts - larger) * -(-size // grain)
    return parts <= grains < rounded


def regrained(
    splits: Sequence[Split], extents: Mapping[int, int], grains: Sequence[int]
) -> Iterator[tuple[Split, ...]]:
    """The same numbers of parts along all axes, one of them in other multiples."""
    for dim, split in enumerate(splits):
        extent = extents.get(split.axis, 0)
        for grain in (1, *grains):
            if grain != split.grain and (grain == 1 or wastes(extent, split.parts, grain)):
                yield (*splits[:dim], replace(split, grain=grain), *splits[dim + 1 :])


def steps_of(split: Split, extent: int, grain: int, among: int) -> Steps:
    """Steps of a dimension of an axis with a grain of its own, divided among so many cores."""
    if split.grain == 1:
        return 1.0, 1.0
    unit = lcm(grain, split.grain)
    sizes = [-(-part.length // unit) for part in grained_split(extent, split.parts, unit)]
    cores = [sizes[part.start : part.stop] for part in dealt(split.parts, (1,) * among)]
    turns, largest = -(-split.parts // among), max(sizes)
    even = -(-extent // split.parts)
    return min(1.0, even / (largest * unit)), max(map(sum, cores)) / (turns * largest)
