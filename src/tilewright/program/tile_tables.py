"""Regions of tiles, looked up axis by axis: cuts are separable, so a grid of any size has a row per
axis and position, and a tile picks from them."""

from tilewright.geometry.box import Span, span_of
from tilewright.geometry.interval import Interval
from tilewright.graph.ops.spec import Tile
from tilewright.program.cut import Index
from tilewright.tiling.grid import Cut
from tilewright.tiling.group import GroupTiles, TiledOp, ValueTiles

_Axis = tuple[int | None, list[int], list[int]]
_ANY = Interval(0, 1)


def _axis(cut: Cut) -> _Axis:
    starts = [interval.start for interval in cut.intervals]
    stops = [max(interval.start, interval.stop) for interval in cut.intervals]
    return cut.dim, starts, stops


def _picked(axes: list[_Axis], index: Index) -> Span:
    starts: list[int] = []
    stops: list[int] = []
    for dim, first, last in axes:
        at = 0 if dim is None else index[dim]
        starts.append(first[at])
        stops.append(last[at])
    return tuple(starts), tuple(stops)


class ValueSpans:
    """The regions of one value of a group over its tiles."""

    def __init__(self, value: ValueTiles, dims: int) -> None:
        self._have = [_axis(cut) for cut in value.have]
        self._write = None if value.write is None else [_axis(cut) for cut in value.write]
        driven = {cut.dim for cut in value.have}
        self._idle = [dim for dim in range(dims) if dim not in driven]

    def have(self, index: Index) -> Span:
        """What the tile can read."""
        return _picked(self._have, index)

    def write(self, index: Index) -> Span | None:
        """What the tile gives to the outside."""
        return None if self._write is None else _picked(self._write, index)

    def gives(self, index: Index) -> bool:
        """Whether this tile is the one that gives its part to the outside."""
        if self._write is None or not self._idle:
            return self._write is not None
        return not any(index[dim] for dim in self._idle)


class OpTiles:
    """The tiles of one operator of a group."""

    def __init__(self, tiles: GroupTiles, tiled: TiledOp) -> None:
        self.tiles, self.tiled = tiles, tiled
        values = [tiles.values.get(name) if name else None for name in tiled.node.outputs]
        self._values = values
        self._simple = len(values) == 1 and values[0] is not None
        self._known: dict[Index, Tile | None] = {}
        if not self._simple:
            return
        value, access = values[0], tiled.access[0]
        assert value is not None
        self._once = tuple(value.once)
        self._output = [_axis(cut) for cut in value.compute]
        self._inputs: list[list[_Axis] | None] = []
        classes: list[list[list[object]]] = [[[] for _ in range(count)] for count in tiles.counts]
        for cut in value.compute:
            if cut.dim is not None:
                for at, interval in enumerate(cut.intervals):
                    classes[cut.dim][at].append(interval.length)
        moves = tiled.spec.family == "layout"  # its steps may say from where they take
        for rules in access.inputs:
            if rules is None:
                self._inputs.append(None)
                continue
            rows: list[_Axis] = []
            for rule in rules:
                cut = value.compute[rule.axis] if rule.axis is not None else None
                some = (_ANY,) if cut is None else cut.intervals
                reaches = [rule.reach(interval) for interval in some]
                dim = None if cut is None else cut.dim
                rows.append(
                    (
                        dim,
                        [reach.interval.start for reach in reaches],
                        [max(r.interval.start, r.interval.stop) for r in reaches],
                    )
                )
                if dim is not None:
                    for at, r in enumerate(reaches):
                        classes[dim][at].append((r.interval.length, r.before, r.after))
            self._inputs.append(rows)
        self._classes: list[list[int]] = []
        for row in classes:
            seen: dict[tuple[object, ...], int] = {}
            numbers = [seen.setdefault(tuple(entry), len(seen)) for entry in row]
            self._classes.append(list(range(len(row))) if moves else numbers)

    def computes(self, index: Index) -> bool:
        """Whether the tile at this position has anything to compute."""
        if not self._simple:
            return self._tile(index) is not None
        if any(index[dim] for dim in self._once):
            return False
        for dim, first, last in self._output:
            at = 0 if dim is None else index[dim]
            if last[at] <= first[at]:
                return False
        return True

    def look(self, index: Index) -> object:
        """Equal for tiles whose work is the same: extents and padding, not where they lie."""
        if not self._simple:
            return index
        return tuple([row[at] for row, at in zip(self._classes, index, strict=True)])

    def tile(self, index: Index) -> Tile:
        """The tile as its operator knows it."""
        found = self._tile(index)
        assert found is not None
        return found

    def _tile(self, index: Index) -> Tile | None:
        if index not in self._known:
            self._known[index] = self.tiles.tile(self.tiled, index)
        return self._known[index]

    def output(self, index: Index, position: int) -> Span:
        """What the tile writes of an output."""
        if self._simple:
            return _picked(self._output, index)
        box = self.tile(index).outputs[position]
        assert box is not None
        return span_of(box)

    def input(self, index: Index, operand: int) -> Span | None:
        """What the tile reads of an input; None where that is not data."""
        if self._simple:
            rows = self._inputs[operand]
            return None if rows is None else _picked(rows, index)
        box = self.tile(index).input_box(operand)
        return None if box is None else span_of(box)
