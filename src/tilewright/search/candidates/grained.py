"""Parts at multiples of what an array rounds up to: for 197 positions an array that takes 16 at a
time does 16 steps in tiles of 50, 49, 49 and 49, and 13 in tiles of 48, 48, 48 and 53."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import lcm
from typing import NamedTuple

from tilewright.geometry.interval import grained_split
from tilewright.tiling.grid import Split, dealt


class Steps(NamedTuple):
    """Of a dimension whose tiles are not of one size: how large they are for each of the largest,
    the share of the largest among all of them, and among those of the core that has most of these;
    a split of the axis into tiles of the next size."""

    size: float
    largest: float
    most: float
    lesser: Split


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
        return Steps(1.0, 1.0, 1.0, split)
    unit = lcm(grain, split.grain)
    lengths = [part.length for part in grained_split(extent, split.parts, unit)]
    sizes = [-(-length // unit) for length in lengths]
    cores = [sizes[part.start : part.stop] for part in dealt(split.parts, (1,) * among)]
    largest = max(sizes)
    most = max(core.count(largest) for core in cores) / -(-split.parts // among)
    lesser = max((size for size in sizes if 0 < size < largest), default=largest)
    size = min(1.0, -(-extent // split.parts) / max(lengths))  # as much as even ones
    share = sizes.count(largest) / split.parts
    next_size = replace(split, parts=-(-extent // (lesser * unit)), grain=lesser * unit)
    return Steps(size, share, most, next_size)
