"""Regions of tiles, looked up axis by axis: cuts are separable, so a grid of any size has a row per
axis and position. Tiles at the same positions along the dimensions that matter share one region."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from operator import itemgetter, sub
from typing import NamedTuple

from tilewright.geometry.box import Box, Ints
from tilewright.geometry.interval import Interval
from tilewright.graph.ops.spec import Tile
from tilewright.program.cut import Index
from tilewright.tiling.grid import Cut
from tilewright.tiling.group import GroupTiles, TiledOp, ValueTiles

Axis = tuple[int | None, Sequence[Interval]]
"""The dimension of the grid that drives an axis, and the intervals by position along it (one where
there is none)."""


class TileSpot(NamedTuple):
    """A region of a value: its first positions, those behind its last ones, and its extents."""

    starts: Ints
    stops: Ints
    shape: Ints

    def covers(self, other: "TileSpot") -> bool:
        """Whether it holds another region."""
        below = all(a <= b for a, b in zip(self.starts, other.starts, strict=True))
        return below and all(a >= b for a, b in zip(self.stops, other.stops, strict=True))

    def common(self, box: Box) -> "TileSpot | None":
        """What of it lies in a box, None where that is nothing."""
        starts = tuple([max(a, i[0]) for a, i in zip(self.starts, box.intervals, strict=True)])
        stops = tuple([min(b, i[1]) for b, i in zip(self.stops, box.intervals, strict=True)])
        found = spot_of(starts, stops)
        return found if min(found.shape, default=1) > 0 else None


Pick = Callable[[Index], TileSpot]
"""The region of a value that the tile at a position has to do with."""


def spot_of(starts: Ints, stops: Ints) -> TileSpot:
    """The region between two ends."""
    return TileSpot(starts, stops, tuple(map(sub, stops, starts)))


def box_spot(intervals: Collection[Interval]) -> TileSpot:
    """A box as a region; where it is empty, nothing from its start on."""
    if not intervals:
        return TileSpot((), (), ())
    starts, stops = zip(*intervals, strict=True)
    shape = tuple(map(sub, stops, starts))
    if min(shape) < 0:
        return spot_of(starts, tuple(map(max, starts, stops)))
    return TileSpot(starts, stops, shape)


def whole_spot(shape: Ints) -> TileSpot:
    """All of a value."""
    return TileSpot((0,) * len(shape), shape, shape)


def picker(axes: Sequence[Axis]) -> Pick:
    """The regions of a value that is cut so along its axes."""
    dims = sorted({dim for dim, _ in axes if dim is not None})
    if not dims:
        only = box_spot([row[0] for _, row in axes])
        return lambda index: only
    driving = itemgetter(*dims)
    known: dict[Hashable, TileSpot] = {}

    def at(index: Index) -> TileSpot:
        key = driving(index)
        spot = known.get(key)
        if spot is None:
            taken = [row[0 if dim is None else index[dim]] for dim, row in axes]
            spot = known[key] = box_spot(taken)
        return spot

    return at


def _axes_of(cuts: Sequence[Cut]) -> list[Axis]:
    return [(cut.dim, cut.intervals) for cut in cuts]


def _cut_picker(axes: Sequence[Axis], known: "ValueSpots") -> Pick:
    """The regions of a value that is cut so, the known ones of it where these are the same."""
    return known.have if axes == known.axes else picker(axes)


class ValueSpots:
    """The regions of one value of a group over its tiles: what a tile can read (`have`, cut along
    `axes`), and what it gives to the outside (`write`, cut along those `written`; None: nothing).
    `idle` are the dimensions that do not matter."""

    def __init__(self, value: ValueTiles, dims: int) -> None:
        self.axes = _axes_of(value.have)
        self.have = picker(self.axes)
        self.written = None if value.write is None else _axes_of(value.write)
        self.write = None if self.written is None else _cut_picker(self.written, self)
        self.once = value.once
        driven = {cut.dim for cut in value.have}
        self.idle = [dim for dim in range(dims) if dim not in driven]

    def given(self, index: Index) -> TileSpot | None:
        """What this tile gives to the outside: the first along dimensions that do not matter."""
        if self.write is None or (self.idle and any(index[dim] for dim in self.idle)):
            return None
        return self.write(index)


class OpTiles:
    """The tiles of one operator of a group: `inputs` and `outputs` are regions by position, of an
    input that is no data all of it. Of an operator with one result, `axes` are how its output and
    its inputs are cut (None: not at all), and `kinds` number positions along every dimension, those
    alike by extents and padding by the same."""

    def __init__(self, tiles: GroupTiles, tiled: TiledOp, spots: Mapping[str, ValueSpots]) -> None:
        self.tiles, self.tiled = tiles, tiled
        values = [tiles.values.get(name) if name else None for name in tiled.node.outputs]
        self._tiles: dict[Index, Tile | None] = {}
        self.kinds: list[Sequence[int]] | None = None
        self.axes: list[Sequence[Axis] | None] = []
        self._once: Ints = ()
        self._moves = tiled.spec.family == "layout"  # its steps may say from where they take
        if len(values) == 1 and values[0] is not None:
            self._separable(values[0], spots)
        else:
            count = len(tiled.op.inputs)
            self.outputs = [self._box_picker(k, written=True) for k in range(len(values))]
            self.inputs = [self._box_picker(k, written=False) for k in range(count)]

    def _separable(self, value: ValueTiles, spots: Mapping[str, ValueSpots]) -> None:
        """An operator with one result: everything is found axis by axis."""
        self._once = tuple(value.once)
        node, computed = self.tiled.node, _axes_of(value.compute)
        self.outputs = [_cut_picker(computed, spots[node.outputs[0]])]
        self.axes.append(computed)
        self.inputs: list[Pick] = []
        facts: list[list[list[object]]] = [[] for _ in self.tiles.counts]
        for cut in value.compute:
            if cut.dim is not None:
                facts[cut.dim].append([stop - start for start, stop in cut.intervals])
        for position, rows in enumerate(self.tiles.reaches[node.name]):
            if rows is None:
                self.inputs.append(self._all_of(position))
                self.axes.append(None)
                continue
            axes: list[Axis] = []
            for dim, reaches in rows:
                axes.append((dim, tuple([reach[0] for reach in reaches])))
                if dim is not None:
                    facts[dim].append(
                        [(i[1] - i[0], before, after) for i, before, after in reaches]
                    )
            self.axes.append(axes)
            inner = spots.get(node.inputs[position])
            same = inner is not None and axes == inner.axes
            self.inputs.append(inner.have if inner is not None and same else picker(axes))
        self.kinds = []
        for count, columns in zip(self.tiles.counts, facts, strict=True):
            seen: dict[tuple[object, ...], int] = {}
            entries = zip(*columns, strict=True) if columns else [()] * count
            numbers = [seen.setdefault(entry, len(seen)) for entry in entries]
            self.kinds.append(range(count) if self._moves else numbers)

    def _all_of(self, position: int) -> Pick:
        operand = self.tiled.op.inputs[position]
        spot = whole_spot(() if operand is None else operand.type.shape)
        return lambda index: spot

    def _box_picker(self, position: int, *, written: bool) -> Pick:
        """Regions of an operator with several results: its tiles know them."""

        def at(index: Index) -> TileSpot:
            tile = self.tile(index)
            box = tile.outputs[position] if written else tile.input_box(position)
            return self._all_of(position)(index) if box is None else box_spot(box.intervals)

        return at

    def computes(self, index: Index) -> bool:
        """Whether the tile at this position has anything to compute."""
        if self.kinds is None:
            return self._tile(index) is not None
        if self._once and any(index[dim] for dim in self._once):
            return False
        return 0 not in self.outputs[0](index).shape

    def kind(self, index: Index) -> Index:
        """Equal for tiles whose work is the same: extents and padding, not where they lie."""
        if self.kinds is None:
            return index
        return tuple([row[at] for row, at in zip(self.kinds, index, strict=True)])

    def extents(self, index: Index) -> Hashable:
        """What the work of a tile depends on: extents and padding, not where it lies. Data movement
        is the exception: its steps may say from where they take. Where there are several results,
        all about the tile."""
        if self.kinds is None or self._moves:
            return self.tile(index)
        rows: list[tuple[tuple[int, int, int], ...] | None] = []
        for axes in self.tiles.reaches[self.tiled.node.name]:
            if axes is None:
                rows.append(None)
                continue
            reaches = [row[0 if dim is None else index[dim]] for dim, row in axes]
            rows.append(tuple([(i[1] - i[0], before, after) for i, before, after in reaches]))
        return self.outputs[0](index).shape, tuple(rows)

    def tile(self, index: Index) -> Tile:
        """The tile as its operator knows it."""
        found = self._tile(index)
        assert found is not None
        return found

    def _tile(self, index: Index) -> Tile | None:
        if index not in self._tiles:
            self._tiles[index] = self.tiles.tile(self.tiled, index)
        return self._tiles[index]
