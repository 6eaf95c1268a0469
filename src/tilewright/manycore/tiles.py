"""Tiles of layers and the pieces of tensors that flow between them, as columns.

Every tensor is cut wherever one of its makers' or readers' tiles begins or ends. The boxes between
those cuts are its pieces: each is made by one tile, sent at most once to each core that reads it,
and held there until its last reader is done. Halo rows are pieces like any other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from math import gcd, prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.geometry.access import Access
from tilewright.geometry.box import Box
from tilewright.geometry.interval import Interval, even_split
from tilewright.graph.ops.spec import Tile
from tilewright.manycore.workload import Layer, LayerGraph, LayerShape, tile_shape
from tilewright.schedule.problem import Quantities
from tilewright.tiling.group import reaches_of

Columns = npt.NDArray[np.int64]
NONE = -1
Axes = tuple[tuple[int, int], ...]
"""Axes of a result and into how many parts each is cut."""


@dataclass(frozen=True, slots=True)
class LayerCut:
    """How a layer is cut: across cores, and within a core."""

    inter: Axes = ()
    intra: Axes = ()

    @property
    def parts(self) -> int:
        """Parts that may be on cores of their own."""
        return prod(count for _, count in self.inter)

    @property
    def tiles(self) -> int:
        """Tiles of all parts, at most."""
        return self.parts * prod(count for _, count in self.intra)


@dataclass(frozen=True)  # no slots: what is asked for often is kept
class Tensor:
    """A tensor of the network in pieces: the cuts of each axis, and the number of its first
    piece."""

    name: str
    shape: tuple[int, ...]
    bits: int
    cuts: tuple[tuple[int, ...], ...]
    first: int

    @property
    def counts(self) -> tuple[int, ...]:
        """Pieces along each axis."""
        return tuple(len(cut) - 1 for cut in self.cuts)

    def box(self, piece: int) -> Box:
        """Where a piece lies in the tensor."""
        found: list[Interval] = []
        rest = piece - self.first
        for cut in reversed(self.cuts):
            rest, at = divmod(rest, len(cut) - 1)
            found.append(Interval(cut[at], cut[at + 1]))
        return Box(tuple(reversed(found)))

    def spans(self, box: Box) -> list[range]:
        """The pieces along each axis that make up a box whose sides are cuts."""
        pairs = zip(self._places, box, strict=True)
        return [range(at[interval.start], at[interval.stop]) for at, interval in pairs]

    def pieces(self, box: Box) -> list[int]:
        """The pieces that make up a box whose sides are cuts."""
        numbers = [0]
        for span, count in zip(self.spans(box), self.counts, strict=True):
            numbers = [number * count + k for number in numbers for k in span]
        return [self.first + number for number in numbers]

    @cached_property
    def _places(self) -> list[dict[int, int]]:
        """Where on each axis every cut is among them."""
        return [{at: k for k, at in enumerate(cut)} for cut in self.cuts]


class TileInfo(NamedTuple):
    """A tile of a layer: the part it belongs to, its region of the operator's result, and what it
    reads of each activation and of the weights."""

    layer: int
    part: int
    box: Box
    reads: tuple[Box, ...]
    weight: Box | None


@dataclass(frozen=True, eq=False)
class TileGraph:
    """All tiles and pieces of a workload cut in one way. Lists of lists are one array with the
    beginnings beside it. `unit` is how many bits a unit of size is."""

    workload: LayerGraph
    cuts: tuple[LayerCut, ...]
    tiles: tuple[TileInfo, ...]
    tensors: tuple[Tensor, ...]
    shapes: tuple[LayerShape, ...]
    unit: int
    part_layer: Columns  # part -> layer
    part_first: Columns  # part -> its first tile; tiles of a part follow each other
    tile_shape: Columns  # tile -> number of its shape
    read_start: Columns
    reads: Columns  # tile -> pieces it reads
    write_start: Columns
    writes: Columns  # tile -> pieces it makes
    piece_size: Columns
    piece_tensor: Columns
    piece_maker: Columns  # the tile that makes it, NONE: the memory outside has it
    piece_weight: npt.NDArray[np.bool_]
    piece_final: npt.NDArray[np.bool_]  # part of a result of the network
    use_start: Columns
    use_part: Columns  # piece -> parts that read it,
    use_first: Columns  # the first of their tiles that does,
    use_last: Columns  # the last one,
    use_count: Columns  # and how many do
    rank: Columns  # a good order of all tiles, depth first

    @cached_property
    def by_name(self) -> Mapping[str, Tensor]:
        """The tensors by their names."""
        return {tensor.name: tensor for tensor in self.tensors}

    @property
    def parts(self) -> int:
        """Parts of layers that are put on cores."""
        return self.part_layer.size

    def part_name(self, part: int) -> str:
        """How a part is called: its layer, and its number where there are several."""
        layer = int(self.part_layer[part])
        name = self.workload.layers[layer].name
        return name if self.cuts[layer].parts == 1 else f"{name}#{self.part_index(part)}"

    def part_index(self, part: int) -> int:
        """The number of a part within its layer."""
        return part - int(np.flatnonzero(self.part_layer == self.part_layer[part])[0])

    def tensor_of(self, piece: int) -> Tensor:
        """The tensor that a piece belongs to."""
        return self.tensors[int(self.piece_tensor[piece])]

    def tile_name(self, tile: int) -> str:
        """How a tile is called: part and number."""
        part = self.tiles[tile].part
        return f"{self.part_name(part)}.{tile - int(self.part_first[part])}"

    def piece_name(self, piece: int) -> str:
        """How a piece is called: tensor and number."""
        tensor = self.tensor_of(piece)
        return f"{tensor.name}.{piece - tensor.first}"


def build_tiles(workload: LayerGraph, cuts: Sequence[LayerCut]) -> TileGraph:
    """Cut every layer and find what flows between the tiles."""
    tiles: list[TileInfo] = []
    part_layer: list[int] = []
    part_first: list[int] = []
    for layer, cut in zip(workload.layers, cuts, strict=True):
        for boxes in layer_boxes(layer, cut):
            part = len(part_layer)
            part_layer.append(layer.number)
            part_first.append(len(tiles))
            tiles += [_tile(layer, part, box) for box in boxes]
    part_first.append(len(tiles))
    tensors = _tensors(workload, tiles)
    unit = gcd(*(tensor.bits for tensor in tensors))
    return _Linked(workload, tiles, tensors, unit).graph(cuts, part_layer, part_first)


def layer_boxes(layer: Layer, cut: LayerCut) -> list[list[Box]]:
    """The regions of a layer's result: for every part, those of its tiles in order."""
    access = layer.main.access[0]
    whole = Box.whole(access.shape)
    found: list[list[Box]] = []
    for part in _grid(whole, cut.inter, access):
        found.append(list(_grid(part, cut.intra, access)))
    return found


def _grid(box: Box, axes: Axes, access: Access) -> Iterable[Box]:
    """A box cut evenly along axes, the first of them slowest."""
    choices: list[list[Interval]] = []
    for axis, count in axes:
        inside = box[axis]
        parts = even_split(inside.length, min(count, inside.length), access.grain[axis])
        shifted = [part.shift(inside.start) for part in parts if not part.empty]
        choices.append(_computable(access, axis, shifted) if access.grows(axis) else shifted)
    for chosen in product(*choices):
        sides = list(box.intervals)
        for (axis, _), interval in zip(axes, chosen, strict=True):
            sides[axis] = interval
        yield Box(tuple(sides))


def _computable(access: Access, axis: int, parts: Sequence[Interval]) -> list[Interval]:
    """Parts, joined where one by itself would see nothing but padding."""
    found: list[Interval] = []
    for part in parts:
        part = access.grow(axis, part)
        while found and part.start < found[-1].stop:
            last = found.pop()
            both = Interval(min(last.start, part.start), max(last.stop, part.stop))
            part = access.grow(axis, both)
        found.append(part)
    return found


def _tile(layer: Layer, part: int, box: Box) -> TileInfo:
    reaches = reaches_of(layer.main, [box])
    tile = Tile((box,), reaches)
    reads: list[Box] = []
    for position, _ in layer.data:
        read = tile.input_box(position)
        assert read is not None
        reads.append(read)
    weight = None if layer.weight is None else tile.input_box(layer.weight[0])
    return TileInfo(layer.number, part, box, tuple(reads), weight)


def result_box(layer: Layer, box: Box) -> Box:
    """A region of the operator's result as one of the layer's result, whose shape may end in more
    or fewer ones."""
    sides = box.intervals[: len(layer.shape)]
    more = len(layer.shape) - len(sides)
    return Box((*sides, *(Interval(0, 1),) * more))


def _tensors(workload: LayerGraph, tiles: Sequence[TileInfo]) -> list[Tensor]:
    """Every tensor with its cuts: of who makes it and of who reads it."""
    shapes = {name: kind.shape for name, kind in workload.graph.types.items()}
    sides: dict[str, list[set[int]]] = {}

    def note(name: str, box: Box) -> None:
        if name not in sides:
            sides[name] = [{0, extent} for extent in shapes[name]]
        for axis, interval in enumerate(box):
            sides[name][axis] |= {interval.start, interval.stop}

    for tile in tiles:
        layer = workload.layers[tile.layer]
        for (_, name), box in zip(layer.data, tile.reads, strict=True):
            note(name, box)
        if layer.weight is not None and tile.weight is not None:
            note(layer.weight[1], tile.weight)
        note(layer.result, result_box(layer, tile.box))
    found: list[Tensor] = []
    first = 0
    for name, axes in sides.items():
        cuts = tuple(tuple(sorted(axis)) for axis in axes)
        found.append(Tensor(name, shapes[name], workload.bits[name], cuts, first))
        first += prod(found[-1].counts)
    return found


class _Linked:
    """Pieces of tensors, who makes them and who reads them."""

    def __init__(
        self, workload: LayerGraph, tiles: list[TileInfo], tensors: list[Tensor], unit: int
    ) -> None:
        self.workload, self.tiles, self.tensors, self.unit = workload, tiles, tensors, unit
        self.by_name = {tensor.name: tensor for tensor in tensors}
        self.sizes: list[int] = []
        self.owner: list[int] = []
        for number, tensor in enumerate(tensors):
            sides = [[b - a for a, b in pairwise(cut)] for cut in tensor.cuts]
            for lengths in product(*sides):
                self.sizes.append(prod(lengths) * tensor.bits // unit)
                self.owner.append(number)
        self.maker = [NONE] * len(self.sizes)
        self.uses: list[dict[int, list[int]]] = [{} for _ in self.sizes]

    def pieces(self, name: str, box: Box) -> list[int]:
        """The pieces of a region."""
        return self.by_name[name].pieces(box)

    def graph(
        self, cuts: Sequence[LayerCut], part_layer: list[int], part_first: list[int]
    ) -> TileGraph:
        """All columns."""
        layers = self.workload.layers
        reads: list[list[int]] = []
        writes: list[list[int]] = []
        shapes: dict[LayerShape, int] = {}
        tile_shapes: list[int] = []
        known: dict[tuple[int, tuple[int, ...]], int] = {}
        for number, tile in enumerate(self.tiles):
            layer = layers[tile.layer]
            read: dict[int, None] = {}
            for (_, name), box in zip(layer.data, tile.reads, strict=True):
                read.update(dict.fromkeys(self.pieces(name, box)))
            if layer.weight is not None and tile.weight is not None:
                read.update(dict.fromkeys(self.pieces(layer.weight[1], tile.weight)))
            reads.append(list(read))
            for piece in read:
                use = self.uses[piece].setdefault(tile.part, [number, number, 0])
                use[1], use[2] = number, use[2] + 1
            made = self.pieces(layer.result, result_box(layer, tile.box))
            writes.append(made)
            for piece in made:
                self.maker[piece] = number
            key = (tile.layer, tile.box.shape)
            if key not in known:
                known[key] = shapes.setdefault(tile_shape(layer, tile.box.shape), len(shapes))
            tile_shapes.append(known[key])
        constants = self.workload.graph.constants
        weight = np.array([t.name in constants for t in self.tensors], np.bool_)
        outputs = self.workload.graph.outputs
        final = np.array([t.name in outputs for t in self.tensors], np.bool_)
        owner = np.array(self.owner, np.int64)
        read_start, read_list = _columns(reads)
        write_start, write_list = _columns(writes)
        rows = [[(p, *u) for p, u in use.items()] for use in self.uses]
        flat = np.array([row for use in rows for row in use], np.int64).reshape(-1, 4)
        lengths = [0, *(len(use) for use in rows)]
        return TileGraph(
            self.workload,
            tuple(cuts),
            tuple(self.tiles),
            tuple(self.tensors),
            tuple(shapes),
            self.unit,
            np.array(part_layer, np.int64),
            np.array(part_first, np.int64),
            np.array(tile_shapes, np.int64),
            read_start,
            read_list,
            write_start,
            write_list,
            np.array(self.sizes, np.int64),
            owner,
            np.array(self.maker, np.int64),
            weight[owner],
            final[owner],
            np.cumsum(np.array(lengths, np.int64)),
            np.ascontiguousarray(flat[:, 0]),
            np.ascontiguousarray(flat[:, 1]),
            np.ascontiguousarray(flat[:, 2]),
            np.ascontiguousarray(flat[:, 3]),
            self._ranks(reads, part_first),
        )

    def _ranks(self, reads: list[list[int]], part_first: list[int]) -> Quantities:
        """Tiles in the order in which the last layers ask for them, each part in its own order."""
        before: list[list[int]] = []
        starts = set(part_first)
        for number, read in enumerate(reads):
            needs = {self.maker[piece] for piece in read if self.maker[piece] != NONE}
            if number not in starts:
                needs.add(number - 1)
            before.append(sorted(needs))
        rank = np.full(len(reads), NONE, np.int64)
        count = 0
        # From the last layer's first tile to the first layer's last; what each needs is before it.
        for wanted in sorted(range(len(reads)), key=lambda t: (-self.tiles[t].layer, t)):
            stack = [wanted]
            while stack:
                tile = stack[-1]
                todo = [need for need in before[tile] if rank[need] == NONE]
                if rank[tile] == NONE and todo:
                    stack.append(todo[-1])
                    continue
                stack.pop()
                if rank[tile] == NONE:
                    rank[tile] = count
                    count += 1
        return rank


def _columns(rows: Sequence[Sequence[int]]) -> tuple[Columns, Columns]:
    """Lists as one array, and where each begins."""
    lengths = np.array([0, *(len(row) for row in rows)], np.int64)
    return np.cumsum(lengths), np.array([item for row in rows for item in row], np.int64)
