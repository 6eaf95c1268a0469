"""Tiles of a group that are alike: equal in all but where they lie. The first of them is built; the
others are its rows, with buffers and offsets of their own."""

from collections.abc import Callable, Mapping, Sequence
from operator import add
from typing import TYPE_CHECKING, NamedTuple

from tilewright.geometry.box import Ints
from tilewright.program.cut import Index
from tilewright.program.regions import Regions
from tilewright.program.rows import Access, GroupRows, Row
from tilewright.program.tile_tables import Axis

if TYPE_CHECKING:
    from tilewright.program.cut_tables import CutTables

Column = Sequence[object]
Starts = dict[int, list[tuple[int, int, list[int]]]]
"""Value -> its axes that are driven: their number, the dimension of the grid, and where regions
begin at every position along that."""

Move = list[tuple[int, list[int]]]
"""How far regions lie apart: bytes by position, for each dimension of the grid that matters."""


class Likeness(NamedTuple):
    """Positions along every dimension of a grid, with the same number where they are alike. Between
    tiles that are, all regions of a value move by as much: `starts` are those of one of them."""

    kinds: list[list[int]]
    starts: Starts

    def key(self, index: Index) -> Index:
        """Equal for tiles that are alike."""
        return tuple([row[at] for row, at in zip(self.kinds, index, strict=True)])

    def beside(
        self, written: Mapping[int, Sequence[Axis]], kept: Mapping[int, Regions]
    ) -> "Likeness":
        """The same where results that are `written` so are resident: of tiles that are alike, the
        same parts go to other cores."""
        columns: list[list[Column]] = [[row] for row in self.kinds]
        for value, regions in kept.items():
            reads = [region.read.intervals for region in regions.values() if region.read]
            for axis, (dim, row) in enumerate(written.get(value, ())):
                if dim is not None:
                    columns[dim] += [[_common(i, ends[axis]) for i in row] for ends in reads]
        return Likeness([_numbered(some) for some in columns], self.starts)


def likeness_of(tables: "CutTables") -> Likeness | None:
    """Which tiles of a cut are alike, whatever is around it; None where tiles use what others hold,
    or data is moved, which may lie anywhere."""
    counts, spots = tables.cut.tiles.counts, tables.values
    if tables.cached is not None or any(value.once for value in spots.values()):
        return None
    if any(op.moves or op.tiles.kinds is None for op in tables.ops):
        return None
    columns: list[list[Column]] = [[] for _ in counts]
    regions: dict[int, list[Sequence[Axis]]] = {}
    for value, some in spots.items():
        regions[value] = [some.axes]
        if some.written is not None:
            regions[value].append(some.written)
            for dim in some.idle:
                columns[dim].append([at == 0 for at in range(counts[dim])])
    for op in tables.ops:
        for column, row in zip(columns, op.tiles.kinds or (), strict=True):
            column.append(row)
        for value, axes in zip((*op.outputs, *op.inputs), op.tiles.axes, strict=True):
            if axes is not None:
                regions.setdefault(value, []).append(axes)
    starts: Starts = {}
    for value, several in regions.items():
        starts[value] = []
        for axis, rows in enumerate(zip(*several, strict=True)):
            dims = {dim for dim, _ in rows if dim is not None}
            if len(dims) > 1:
                return None
            for dim in dims:
                begins = next([ends[0] for ends in row] for at, row in rows if at == dim)
                starts[value].append((axis, dim, begins))
                columns[dim] += [_beside(row, begins) for _, row in rows]
    return Likeness([_numbered(some) for some in columns], starts)


def _beside(row: Sequence[Ints], begins: list[int]) -> Column:
    """Where regions begin and end, seen from others; a single one is that of all positions."""
    if len(row) == 1:
        row = [row[0]] * len(begins)
    return [(low - begin, high - begin) for (low, high), begin in zip(row, begins, strict=True)]


def _common(interval: Ints, other: Ints) -> object:
    """The part of an interval that is in another, seen from its begin."""
    low, high = max(interval[0], other[0]), min(interval[1], other[1])
    return (low - interval[0], high - interval[0]) if low < high else None


def _numbered(columns: Sequence[Column]) -> list[int]:
    """Positions by number, those with equal entries in all columns by the same."""
    seen: dict[object, int] = {}
    return [seen.setdefault(entry, len(seen)) for entry in zip(*columns, strict=True)]


Lies = Callable[[Row, int, int], tuple[int, Ints]]
"""Of an access to a buffer that others use too: the value, and its strides there. Asked by the row,
the number of the access (those read first), and its slot."""


class Pattern:
    """The rows of a tile as those like it repeat them. Slots count from the tile's first buffer; of
    buffers that others use too, each way a region moves there has a slot (~k: `outside[k]`)."""

    def __init__(self, made: GroupRows, likeness: Likeness, index: Index, lies: Lies) -> None:
        self.made, self.likeness = made, likeness
        self.outside: list[tuple[int, Move]] = []
        known: dict[tuple[int, int, Ints], int] = {}
        for row in made.rows:
            for first, some in ((0, row.reads), (len(row.reads), row.writes)):
                for number, (slot, offset, layout) in enumerate(some):
                    if slot < 0:
                        key = (slot, *lies(row, first + number, slot))
                        place = known.setdefault(key, len(known))
                        if place == len(self.outside):
                            self.outside.append((slot, self._move(*key[1:])))
                        start = offset - _bytes(self.outside[place][1], index)
                        some[number] = (~place, start, layout)

    def _move(self, value: int, strides: Ints) -> Move:
        """How regions move of a value that lies so."""
        tables: dict[int, list[int]] = {}
        for axis, dim, begins in self.likeness.starts.get(value, ()):
            step = [begin * strides[axis] for begin in begins]
            tables[dim] = list(map(add, tables[dim], step)) if dim in tables else step
        return list(tables.items())

    def repeat(self, made: GroupRows, turn: int, index: Index) -> None:
        """Add the rows of a tile like it, or its own."""
        first = len(made.buffers)
        made.buffers += [
            (memory, size, value, turn) for memory, size, value, _ in self.made.buffers
        ]
        there = [(slot, _bytes(move, index)) for slot, move in self.outside]

        def accesses(some: list[Access]) -> list[Access]:
            found: list[Access] = []
            for slot, offset, layout in some:
                if slot >= 0:
                    found.append((slot + first, offset, layout))
                else:
                    outside, moved = there[~slot]
                    found.append((outside, offset + moved, layout))
            return found

        made.rows += [
            Row(
                row.kind,
                row.price,
                row.ops,
                turn,
                accesses(row.reads),
                accesses(row.writes),
                row.title,
                row.work,
                row.source,
                row.target,
                row.value,
            )
            for row in self.made.rows
        ]


def _bytes(move: Move, index: Index) -> int:
    return sum([table[index[dim]] for dim, table in move])
