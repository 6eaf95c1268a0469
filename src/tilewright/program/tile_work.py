"""What tiles of a network's operators do: the work, and which operands and results take part."""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from tilewright.cost.base import Workload
from tilewright.cost.from_graph import workload_of
from tilewright.geometry.box import Ints
from tilewright.graph.graph import Graph
from tilewright.graph.ops.spec import Tile
from tilewright.program.constants import immediate
from tilewright.program.signature import signatures_of
from tilewright.tiling.group import TiledOp, whole_tile


class TileWork(NamedTuple):
    """What tiles that look alike have in common: what an engine does, and the operands they read
    and the outputs they write, by number."""

    load: Workload
    operands: Ints
    results: Ints


class TileWorks:
    """The work of tiles in one element type, found out once for all that look the same."""

    def __init__(self, graph: Graph, dtype: str) -> None:
        self.graph, self.dtype = graph, dtype
        self._signatures = signatures_of(graph)
        self._tiles: dict[tuple[int, Hashable], TileWork] = {}
        self._wholes: dict[int, Workload] = {}

    def tile(self, tiled: TiledOp, extents: Hashable, make: Callable[[], Tile]) -> TileWork:
        """The work of tiles with these extents: what it depends on, beside the operator."""
        key = (self._number(tiled), extents)
        known = self._tiles.get(key)
        if known is None:
            tile = make()
            operands = operands_of(self.graph, tiled, tile)
            known = self._tiles[key] = TileWork(self._load(tiled, tile), operands, results_of(tile))
        return known

    def whole(self, tiled: TiledOp) -> Workload:
        """The work of an operator in one piece."""
        number = self._number(tiled)
        known = self._wholes.get(number)
        if known is None:
            known = self._wholes[number] = self._load(tiled, whole_tile(tiled))
        return known

    def _number(self, tiled: TiledOp) -> int:
        return self._signatures.node(self.graph.index[tiled.node.name])

    def _load(self, tiled: TiledOp, tile: Tile) -> Workload:
        return workload_of(tiled.spec, tiled.op, tile, self.dtype, tiled.access[0])


def tile_works_of(graph: Graph, dtype: str) -> TileWorks:
    """Those of a network, which are kept with it: they are the same on every machine."""
    key = ("tile works", dtype)
    if key not in graph.known:
        graph.known[key] = TileWorks(graph, dtype)
    return graph.known[key]


def operands_of(graph: Graph, tiled: TiledOp, tile: Tile) -> Ints:
    """The inputs that a tile reads from memory; single known numbers are part of the task."""
    steps = tiled.spec.tile(tiled.op, tile)
    read = sorted({i for step in steps for i in step.inputs if isinstance(i, int)})
    return tuple(i for i in read if immediate(graph, tiled.node.inputs[i]) is None)


def results_of(tile: Tile) -> Ints:
    """The outputs that a tile writes."""
    return tuple(k for k, box in enumerate(tile.outputs) if box is not None and not box.empty)
