"""Regions of tiles, looked up axis by axis: cuts are separable, so a grid of any size has a row per
axis and position. Tiles at the same positions along the dimensions that matter share one region."""

from collections.abc import Callable, Sequence
from operator import sub
from typing import NamedTuple

from tilewright.geometry.box import Box, Ints
from tilewright.graph.ops.spec import Tile
from tilewright.program.cut import Index
from tilewright.tiling.grid import Cut
from tilewright.tiling.group import GroupTiles, TiledOp, ValueTiles

_Axis = tuple[int | None, list[int], list[int]]


class Spot(NamedTuple):
    """A region of a value: its first positions, those behind its last ones, and its extents."""

    starts: Ints
    stops: Ints
    shape: Ints

    def covers(self, other: "Spot") -> bool:
        """Whether it holds another region."""
        below = all(a <= b for a, b in zip(self.starts, other.starts, strict=True))
        return below and all(a >= b for a, b in zip(self.stops, other.stops, strict=True))

    def common(self, box: Box) -> "Spot | None":
        """What of it lies in a box, None where that is nothing."""
        starts = tuple([max(a, i.start) for a, i in zip(self.starts, box, strict=True)])
        stops = tuple([min(b, i.stop) for b, i in zip(self.stops, box, strict=True)])
        found = spot_of(starts, stops)
        return found if all(extent > 0 for extent in found.shape) else None


def spot_of(starts: Ints, stops: Ints) -> Spot:
    """The region between two ends."""
    return Spot(starts, stops, tuple(map(sub, stops, starts)))


def box_spot(box: Box) -> Spot:
    """A box as a region; where it is empty, nothing from its start on."""
    return spot_of(tuple([i.start for i in box]), tuple([max(i) for i in box]))


class Picker:
    """The regions of one value over the tiles of a grid."""

    def __init__(self, axes: Sequence[_Axis]) -> None:
        self._axes = axes
        self._dims = tuple(sorted({dim for dim, _, _ in axes if dim is not None}))
        self._known: dict[Index, Spot] = {}

    def at(self, index: Index) -> Spot:
        """The region of a tile."""
        key = index if len(self._dims) == len(index) else tuple([index[d] for d in self._dims])
        known = self._known.get(key)
        if known is None:
            starts: list[int] = []
            stops: list[int] = []
            for dim, first, last in self._axes:
                at = 0 if dim is None else index[dim]
                starts.append(first[at])
                stops.append(last[at])
            known = self._known[key] = spot_of(tuple(starts), tuple(stops))
        return known


def picker_of(cuts: Sequence[Cut]) -> Picker:
    """The regions of a value that is cut so."""
    axes = [
        (
            cut.dim,
            [interval.start for interval in cut.intervals],
            [max(interval) for interval in cut.intervals],
        )
        for cut in cuts
    ]
    return Picker(axes)


class ValueSpots:
    """The regions of one value of a group over its tiles: what a tile can read (`have`), and what
    it gives to the outside (`write`, None: nothing)."""

    def __init__(self, value: ValueTiles, dims: int) -> None:
        self.have = picker_of(value.have).at
        same = value.write == value.have
        self.write: Callable[[Index], Spot] | None = None
        if value.write is not None:
            self.write = self.have if same else picker_of(value.write).at
        self.once = value.once
        driven = {cut.dim for cut in value.have}
        self._idle = [dim for dim in range(dims) if dim not in driven]

    def gives(self, index: Index) -> bool:
        """Whether this tile is the one that gives its part to the outside."""
        if self.write is None or not self._idle:
            return self.write is not None
        return not any(index[dim] for dim in self._idle)


class OpTiles:
    """The tiles of one operator of a group."""

    def __init__(self, tiles: GroupTiles, tiled: TiledOp) -> None:
        self.tiles, self.tiled = tiles, tiled
        values = [tiles.values.get(name) if name else None for name in tiled.node.outputs]
        self._known: dict[Index, Tile | None] = {}
        self._inputs: list[Picker | None] | None = None
        if len(values) == 1 and values[0] is not None:
            self._separable(values[0])

    def _separable(self, value: ValueTiles) -> None:
        """An operator with one result: everything is found axis by axis."""
        self._once = tuple(value.once)
        self._output = picker_of(value.compute)
        self._inputs = []
        facts: list[list[list[object]]] = [[[] for _ in range(n)] for n in self.tiles.counts]
        for cut in value.compute:
            if cut.dim is not None:
                for at, interval in enumerate(cut.intervals):
                    facts[cut.dim][at].append(interval.length)
        for rows in self.tiles.reaches[self.tiled.node.name]:
            if rows is None:
                self._inputs.append(None)
                continue
            axes: list[_Axis] = []
            for dim, reaches in rows:
                starts = [reach.interval.start for reach in reaches]
                stops = [max(reach.interval) for reach in reaches]
                axes.append((dim, starts, stops))
                if dim is not None:
                    for at, (interval, before, after) in enumerate(reaches):
                        facts[dim][at].append((interval.length, before, after))
            self._inputs.append(Picker(axes))
        moves = self.tiled.spec.family == "layout"  # its steps may say from where they take
        self._kinds: list[Sequence[int]] = []
        for row in facts:
            seen: dict[tuple[object, ...], int] = {}
            numbers = [seen.setdefault(tuple(entry), len(seen)) for entry in row]
            self._kinds.append(range(len(row)) if moves else numbers)

    def computes(self, index: Index) -> bool:
        """Whether the tile at this position has anything to compute."""
        if self._inputs is None:
            return self._tile(index) is not None
        if self._once and any(index[dim] for dim in self._once):
            return False
        return 0 not in self._output.at(index).shape

    def kind(self, index: Index) -> object:
        """Equal for tiles whose work is the same: extents and padding, not where they lie."""
        if self._inputs is None:
            return index
        return tuple([row[at] for row, at in zip(self._kinds, index, strict=True)])

    def tile(self, index: Index) -> Tile:
        """The tile as its operator knows it."""
        found = self._tile(index)
        assert found is not None
        return found

    def _tile(self, index: Index) -> Tile | None:
        if index not in self._known:
            self._known[index] = self.tiles.tile(self.tiled, index)
        return self._known[index]

    def output(self, index: Index, position: int) -> Spot:
        """What the tile writes of an output."""
        if self._inputs is not None:
            return self._output.at(index)
        box = self.tile(index).outputs[position]
        assert box is not None
        return box_spot(box)

    def input(self, index: Index, operand: int, shape: Ints) -> Spot:
        """What the tile reads of an input; all of it where that is not data."""
        if self._inputs is not None:
            picker = self._inputs[operand]
            if picker is not None:
                return picker.at(index)
        else:
            box = self.tile(index).input_box(operand)
            if box is not None:
                return box_spot(box)
        return Spot((0,) * len(shape), shape, shape)
