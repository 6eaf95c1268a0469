"""Ways to cut along one axis or two, whatever they take: what estimates choose from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from tilewright.geometry.access import Access
from tilewright.graph.ops.spec import channel_axis
from tilewright.tiling.grid import Split

PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
COARSE = (1, 2, 4, 8, 16, 32, 64, 128)
LANES = (1, 2, 3, 4)  # times the channels an array takes at once: tiles that waste none


def parts_over(extent: int, cores: int, parts: Sequence[int] | None = None) -> list[int]:
    """Numbers of parts of an axis, the same for each of some cores; more than one."""
    return [n * cores for n in parts or PARTS if 1 < n * cores <= extent]


@dataclass(frozen=True, slots=True)
class Ways:
    """Cuts for so many cores, whose arrays take channels in such multiples."""

    cores: int
    alignment: int

    def alone(self, access: Access) -> Iterator[tuple[tuple[Split, ...], int | None]]:
        """Ways to cut a single unit: none, one axis, or output channels and one other; two axes
        that the cores share."""
        yield (), None
        axes = access.tileable()
        channel = channel_axis(len(access.shape))
        for axis in axes:
            for parts in parts_over(access.shape[axis], self.cores):
                yield (Split(axis, parts),), 0
        for pair in combinations(axes, 2):
            for parts in self.grids([access.shape[axis] for axis in pair]):
                yield (Split(pair[0], parts[0]), Split(pair[1], parts[1], crossed=True)), 0
        if channel not in axes:
            return
        aligned = self._aligned(access.shape[channel])
        for parts in aligned:
            yield (Split(channel, parts),), 0
        coarse = parts_over(access.shape[channel], self.cores, COARSE)
        for parts in sorted({*coarse, *aligned}):
            for axis in axes:
                if axis in (channel, 0):
                    continue
                for other in parts_over(access.shape[axis], 1, COARSE):
                    yield (Split(channel, parts), Split(axis, other)), 0
                    yield (Split(axis, other), Split(channel, parts)), 1
                for other in parts_over(access.shape[axis], self.cores, COARSE):
                    yield (Split(axis, other), Split(channel, parts)), 0

    def grids(self, extents: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Numbers of cores along two axes of these extents, at least two along each."""
        for along in range(2, self.cores):
            across = self.cores // along
            if along * across == self.cores and along <= extents[0] and across <= extents[1]:
                yield along, across

    def _aligned(self, channels: int) -> list[int]:
        """Numbers of parts with few channels each that fill the array's lanes, beside the usual."""
        usual = set(parts_over(channels, self.cores))
        found: set[int] = set()
        for lanes in LANES:
            parts = -(-channels // (self.alignment * lanes))
            parts = -(-parts // self.cores) * self.cores
            if 1 < parts <= channels:
                found.add(parts)
        return sorted(found - usual)
