"""How a kernel is cut so that one tile of it fits a memory: which tile, and how much halo.

The working set of a tile is everything it touches: its parts of the values it reads, makes and
keeps, and of the parameters. Nothing is reused, so that any order of its operators fits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from tilewright.errors import TilingError
from tilewright.graph.graph import Graph
from tilewright.graph.types import BITS, FLOATS
from tilewright.tiling.cutting import cut_ops
from tilewright.tiling.grid import Cut, Split, letters_of
from tilewright.tiling.group import GroupTiles, check_convex, exports, typed_group

CHANNELS = {4: 1, 3: 2, 2: 1, 5: 1}  # rank -> the axis that filters make
MOST_TILES = 1 << 16


@dataclass(frozen=True, slots=True)
class Tiling:
    """A cut of a kernel: parts along named axes, the bytes of the largest tile, and the work that
    neighbouring tiles do twice."""

    splits: tuple[tuple[str, int], ...]
    tiles: int
    working_set: int
    halo: float
    tile_shape: tuple[int, ...]
    read_ratio: float = 1.0  # bytes that all tiles read of the inputs, over the inputs' bytes

    def as_json(self) -> dict[str, Any]:
        """For a program to read."""
        return {
            "split": dict(self.splits),
            "tiles": self.tiles,
            "tile_shape": list(self.tile_shape),
            "working_set_bytes": self.working_set,
            "halo_ratio": self.halo,
        }

    def __str__(self) -> str:
        cut = " ".join(f"{axis}={parts}" for axis, parts in self.splits) or "whole"
        return f"{cut}, tile {'x'.join(map(str, self.tile_shape))}, halo {self.halo:.1%}"


class Scale:
    """Bytes of values on a machine: floats take as many as its own element type."""

    def __init__(self, graph: Graph, element_bytes: float) -> None:
        self.graph = graph
        self.element = element_bytes

    def of(self, name: str, elements: int) -> float:
        """Bytes of so many elements of a value."""
        dtype = self.graph.types[name].dtype
        size = self.element if dtype in FLOATS else BITS[dtype] / 8
        return elements * size


def best_tiling(
    graph: Graph,
    nodes: Sequence[int],
    capacity: float,
    element_bytes: float,
    *,
    least: int = 1,
) -> Tiling | None:
    """The cut with the fewest tiles, at least `least` where there are so many, that fits; None
    where no cut fits or an operator runs whole and is too large."""
    scale = Scale(graph, element_bytes)
    try:
        check_convex(graph, nodes)
        ops = typed_group(graph, nodes)
        exported = exports(graph, nodes)
        final = [name for name, inside in exported.items() if not inside]
        shape = graph.types[final[0]].shape if final else ()
    except TilingError:
        return _whole(graph, nodes, capacity, scale)
    if len({graph.types[name].shape for name in final}) != 1:
        return _whole(graph, nodes, capacity, scale)
    for splits in _candidates(shape, least):
        try:
            if working_set(cut_ops(graph, ops, exported, splits, probe=True), scale) > capacity:
                continue
            tiles = cut_ops(graph, ops, exported, splits)
        except TilingError:
            continue
        needed = working_set(tiles, scale)
        if needed <= capacity:
            return _tiling(tiles, needed, shape)
    return None


def _candidates(shape: tuple[int, ...], least: int) -> Iterator[tuple[Split, ...]]:
    """Cuts of an output (rows, rows and columns, channels, batch): those with enough tiles first,
    the fewest of them first; then those with too few, the most first."""
    rank = len(shape)
    channel = CHANNELS.get(rank, rank - 1)
    axes = [a for a in range(rank) if shape[a] > 1]
    spatial = [a for a in axes if a != channel and a != 0] or [a for a in axes if a != channel]
    options: list[tuple[int, int, tuple[Split, ...]]] = [(1, -1, ())]
    for order, combination in enumerate(_combinations(spatial, axes, channel)):
        grids = [_parts(shape[axis]) for axis in combination]
        for counts in product(*grids):
            if prod(counts) <= MOST_TILES:
                chosen = tuple(Split(a, n) for a, n in zip(combination, counts, strict=True))
                options.append((prod(counts), order, chosen))
    options.sort(key=lambda option: (option[0], option[1], tuple(s.parts for s in option[2])))
    yield from (splits for count, _, splits in options if count >= least)
    yield from (splits for count, _, splits in reversed(options) if count < least)


def _combinations(spatial: list[int], axes: list[int], channel: int) -> Iterator[tuple[int, ...]]:
    for axis in spatial[:1]:
        yield (axis,)
    if len(spatial) > 1:
        yield tuple(spatial[:2])
    if channel in axes:
        yield (channel,)
        if spatial:
            yield (spatial[0], channel)
    if 0 in axes and spatial and spatial[0] != 0:
        yield (0, spatial[0])


def _parts(extent: int) -> list[int]:
    """Numbers of parts worth a look: doubling, and single positions."""
    found: list[int] = []
    count = 2
    while count < extent:
        found.append(count)
        count *= 2
    return [*found, extent]


def _longest(cuts: tuple[Cut, ...]) -> int:
    return prod(max(interval.length for interval in cut.intervals) for cut in cuts)


def working_set(tiles: GroupTiles, scale: Scale) -> int:
    """Bytes of the largest tile: each value's largest part, and the parameters it needs."""
    total = 0.0
    for name, cuts in tiles.inputs.items():
        total += scale.of(name, _longest(cuts))
    for name, value in tiles.values.items():
        total += scale.of(name, _longest(value.have))
    return round(total + _parameters(tiles, scale))


def _parameters(tiles: GroupTiles, scale: Scale) -> float:
    """Bytes of the constants that one tile needs: a cut over channels parts weights too."""
    first = tuple(0 for _ in tiles.counts)
    most: dict[str, float] = {}
    for tiled in tiles.ops:
        tile = tiles.tile(tiled, first)
        if tile is None:
            continue
        for position, name in enumerate(tiled.node.inputs):
            operand = tiled.op.inputs[position]
            if operand is None or not operand.constant:
                continue
            box = tile.input_box(position)
            if box is not None:
                most[name] = max(most.get(name, 0.0), scale.of(name, box.size))
    return sum(most.values())


def _tiling(tiles: GroupTiles, needed: int, shape: tuple[int, ...]) -> Tiling:
    names = letters_of(len(shape), tiles.signal)
    splits = tuple(
        (names.get(split.axis, str(split.axis)), count)
        for split, count in zip(tiles.splits, tiles.counts, strict=True)
    )
    tile = list(shape)
    for split, count in zip(tiles.splits, tiles.counts, strict=True):
        tile[split.axis] = -(-shape[split.axis] // count)
    return Tiling(
        splits,
        prod(tiles.counts),
        needed,
        tiles.recompute_ratio,
        tuple(tile),
        _read_ratio(tiles),
    )


def _read_ratio(tiles: GroupTiles) -> float:
    """What all tiles together read of the inputs, over what there is to read once."""
    read = whole = 0
    for name, cuts in tiles.inputs.items():
        part = 1
        for dim, count in enumerate(tiles.counts):
            along = [cut for cut in cuts if cut.dim == dim]
            part *= sum(prod(c.intervals[i].length for c in along) for i in range(count))
        read += part * prod(c.intervals[0].length for c in cuts if c.dim is None)
        whole += tiles.graph.types[name].size
    return max(1.0, read / whole) if whole else 1.0


def _whole(graph: Graph, nodes: Sequence[int], capacity: float, scale: Scale) -> Tiling | None:
    """A kernel that cannot be cut: all of it at once, if that fits."""
    needed = round(whole_bytes(graph, nodes, scale))
    if needed > capacity:
        return None
    results = [name for name in exports(graph, nodes) if name in graph.types]
    shape = graph.types[results[0]].shape if results else ()
    return Tiling((), 1, needed, 0.0, shape)


def whole_bytes(graph: Graph, nodes: Sequence[int], scale: Scale) -> float:
    """Bytes of everything that nodes touch, each value once."""
    touched = dict.fromkeys(
        name for i in nodes for name in (*graph.nodes[i].reads, *graph.nodes[i].writes)
    )
    return sum(scale.of(name, graph.types[name].size) for name in touched if name in graph.types)
