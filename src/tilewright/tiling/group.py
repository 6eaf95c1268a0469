"""Groups: convex sets of operators that run tile by tile, and what is known of their tiles.
`tiling/cutting.py` derives them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod

from tilewright.errors import TilingError
from tilewright.geometry.access import ANY, Access, Reach
from tilewright.geometry.box import Box
from tilewright.graph.graph import Graph, Node
from tilewright.graph.ops import accesses_of, spec_of
from tilewright.graph.ops.spec import Op, OpSpec, Tile
from tilewright.tiling.grid import Cut, Split, letters_of


@dataclass(frozen=True, slots=True)
class TiledOp:
    """A node of a group with its spec and the access relation of each of its outputs."""

    node: Node
    spec: OpSpec
    op: Op
    access: tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class ValueTiles:
    """One value of the group over all tiles.

    `have` is what a tile can read of it, `compute` what the tile computes itself; they differ
    where rows are kept from the tile before. `write` is what the tile gives to the outside (the
    parts make up the tensor exactly once), None if nothing outside reads it. `once` lists the grid
    dimensions along which only the first tile computes it.
    """

    have: tuple[Cut, ...]
    compute: tuple[Cut, ...]
    write: tuple[Cut, ...] | None
    once: frozenset[int]

    def box(self, index: tuple[int, ...]) -> Box:
        """What the tile can read."""
        return Box(tuple([cut.at(index) for cut in self.have]))

    def compute_box(self, index: tuple[int, ...]) -> Box:
        """What the tile computes."""
        return Box(tuple([cut.at(index) for cut in self.compute]))

    def write_box(self, index: tuple[int, ...]) -> Box | None:
        """What the tile writes to the outside."""
        return None if self.write is None else Box(tuple([cut.at(index) for cut in self.write]))

    def own_box(self, index: tuple[int, ...]) -> Box | None:
        """What the tile at this position computes, None where that is nothing."""
        if any(index[dim] for dim in self.once):
            return None
        box = self.compute_box(index)
        return None if box.empty else box


ReachAxis = tuple[int | None, tuple[Reach, ...]]
"""What tiles read along an axis: the dimension of the grid that drives it, and a reach for each
position along that (one where there is none)."""

Reaches = tuple[tuple[ReachAxis, ...] | None, ...]
"""Per input, per axis; None for inputs that are absent or no data."""


@dataclass(frozen=True)
class GroupTiles:
    """A group, cut: for each value inside it and each value it reads, the regions of every tile;
    `reaches` has what nodes with a single output read, by name."""

    graph: Graph
    ops: tuple[TiledOp, ...]
    splits: tuple[Split, ...]
    counts: tuple[int, ...]
    values: Mapping[str, ValueTiles]
    inputs: Mapping[str, tuple[Cut, ...]]
    reaches: Mapping[str, Reaches]
    fallbacks: tuple[str, ...]

    @property
    def signal(self) -> bool:
        """Whether tensors of rank 3 are channels of a signal here, not rows of a sequence."""
        return is_signal(self.ops)

    @property
    def indices(self) -> Iterator[tuple[int, ...]]:
        """Grid positions in the order the tiles run: the last dimension fastest."""
        return product(*(range(count) for count in self.counts))

    @property
    def outputs(self) -> Iterator[str]:
        """Values the group gives to the outside."""
        return (name for name, tiles in self.values.items() if tiles.write is not None)

    def tile(self, tiled: TiledOp, index: tuple[int, ...]) -> Tile | None:
        """The node's tile at this position, or None where this tile has nothing to compute."""
        boxes: list[Box | None] = []
        for name in tiled.node.outputs:
            tiles = self.values.get(name) if name else None
            boxes.append(None if tiles is None else tiles.own_box(index))
        if all(box is None for box in boxes):
            return None
        known = self.reaches.get(tiled.node.name)
        if known is None:
            return Tile(tuple(boxes), reaches_of(tiled, boxes))
        picked = [
            None
            if axes is None
            else tuple([row[0 if dim is None else index[dim]] for dim, row in axes])
            for axes in known
        ]
        return Tile(tuple(boxes), tuple(picked))

    def computed(self, name: str) -> int:
        """Elements of the value computed by all tiles together."""
        tiles = self.values[name]
        total = 1
        for dim, count in enumerate(self.counts):
            cuts = [cut for cut in tiles.compute if cut.dim == dim]
            if cuts:
                total *= sum(prod(c.intervals[i].length for c in cuts) for i in range(count))
            elif dim not in tiles.once:
                total *= count
        return total * prod(c.intervals[0].length for c in tiles.compute if c.dim is None)

    @property
    def recompute_ratio(self) -> float:
        """Extra work over the work of the uncut group: multiply-accumulates where there are any,
        else computed elements."""
        macs = whole_macs = elements = whole_elements = 0.0
        for tiled in self.ops:
            for position, name in enumerate(tiled.node.outputs):
                if name not in self.values:
                    continue
                size = tiled.op.result(position).size
                share = self.computed(name) / max(1, size)
                whole = tiled.spec.macs(tiled.op, Box.whole(tiled.op.result(position).shape))
                macs, whole_macs = macs + whole * share, whole_macs + whole
                elements, whole_elements = elements + size * share, whole_elements + size
        if whole_macs:
            return macs / whole_macs - 1.0
        return elements / max(1.0, whole_elements) - 1.0

    @property
    def line_buffer_bytes(self) -> int:
        """Bytes kept between tiles under the cache policy, at most, over all values."""
        total = 0
        for name, tiles in self.values.items():
            kind = self.graph.types[name]
            size = kind.bytes / max(1, kind.size)
            for axis, (have, compute) in enumerate(zip(tiles.have, tiles.compute, strict=True)):
                if have.dim is None or have == compute:
                    continue
                needed = [interval for interval in have.intervals if not interval.empty]
                kept = max((a.stop - b.start for a, b in pairwise(needed)), default=0)
                # Rows wait for the next band of tiles over all that an inner dimension computes.
                others = (
                    tiles.compute[position].covered()
                    if cut.dim is not None and cut.dim > have.dim
                    else max(interval.length for interval in cut.intervals)
                    for position, cut in enumerate(tiles.have)
                    if position != axis
                )
                total += round(max(0, kept) * prod(others) * size)
        return total


def group_between(graph: Graph, first: str, last: str) -> tuple[int, ...]:
    """All nodes on paths from one node to another: what `--from A --to B` means."""
    start, stop = find_node(graph, first), find_node(graph, last)
    inside = graph.reachable([start], forward=True) & graph.reachable([stop], forward=False)
    if not inside:
        raise TilingError(f"no path leads from '{first}' to '{last}'")
    return tuple(sorted(inside))


def find_node(graph: Graph, name: str) -> int:
    """A node by its name, or by the name of the value it makes."""
    if name in graph.index:
        return graph.index[name]
    if name in graph.producer:
        return graph.producer[name]
    close = [n.name for n in graph.nodes if name.lower() in n.name.lower()][:4]
    hint = (
        f"did you mean {', '.join(close)}?"
        if close
        else "`tilewright show model MODEL` lists the nodes"
    )
    raise TilingError(f"there is no node '{name}': {hint}")


def check_convex(graph: Graph, nodes: Iterable[int]) -> None:
    """Raise where a path leaves the group and comes back."""
    inside = set(nodes)
    last = max(inside, default=0)
    # Nodes are in execution order: a path that comes back stays in front of the last one.
    todo = [s for i in inside for s in graph.successors(i) if s not in inside and s < last]
    outside = set(todo)
    while todo:
        index = todo.pop()
        for following in graph.successors(index):
            if following in inside:
                name = graph.nodes[index].name
                raise TilingError(
                    f"the group is not convex: a path leaves it and returns through '{name}'"
                )
            if following < last and following not in outside:
                outside.add(following)
                todo.append(following)


def is_signal(ops: Iterable[TiledOp]) -> bool:
    """Whether tensors of rank 3 are channels of a signal here: a window passes over them."""
    return any(_has_window(tiled.spec) for tiled in ops)


def _has_window(spec: OpSpec) -> bool:
    return spec.filter is not None or spec.pool is not None


def output_axes(graph: Graph, nodes: Iterable[str]) -> tuple[str, Mapping[int, str]]:
    """The result of a group that its splits cut, and what people call its axes."""
    members = [graph.index[name] for name in nodes]
    outputs = exports(graph, members)
    last = graph.nodes[members[-1]].outputs[0]  # where nobody reads a result
    final = next((name for name, used in outputs.items() if not used), next(iter(outputs), last))
    specs = (spec_of(graph, graph.nodes[index]) for index in members)
    signal = any(known is not None and _has_window(known[0]) for known in specs)
    return final, letters_of(len(graph.types[final].shape), signal)


def typed_group(graph: Graph, nodes: Iterable[int]) -> tuple[TiledOp, ...]:
    """The group's nodes with their access relations, or an error for one that has to run whole."""
    ops = tuple([typed_node(graph, graph.nodes[index]) for index in sorted(nodes)])
    if not ops:
        raise TilingError("the group is empty")
    return ops


def typed_node(graph: Graph, node: Node) -> TiledOp:
    """A node with its access relations, or an error where it has to run whole; worked out once."""
    key = ("tiled", id(node))
    found = graph.known.get(key)
    if found is not None:
        return found
    known = spec_of(graph, node)
    if known is None or not any(node.writes):
        raise TilingError(f"node '{node.name}' ({node.kind}) runs whole: it cannot be in a group")
    spec, op = known
    access = tuple([relation for relation in accesses_of(graph, node) if relation is not None])
    if len(access) != len(node.outputs):
        raise TilingError(f"node '{node.name}' ({node.kind}) cannot be cut with these attributes")
    if any(relation.empty for relation in access):
        raise TilingError(f"node '{node.name}' ({node.kind}) has no elements to cut")
    found = graph.known[key] = TiledOp(node, spec, op, access)
    return found


def whole_tile(tiled: TiledOp) -> Tile:
    """The operator as a single tile."""
    boxes = [Box.whole(kind.shape) if kind is not None else None for kind in tiled.op.outputs]
    return Tile(tuple(boxes), reaches_of(tiled, boxes))


def exports(graph: Graph, nodes: Iterable[int]) -> dict[str, bool]:
    """Values of the group that something outside reads -> whether the group reads them too."""
    inside = set(nodes)
    found: dict[str, bool] = {}
    for index in sorted(inside):
        for name in graph.nodes[index].writes:
            readers = set(graph.consumers.get(name, ()))
            if name in graph.outputs or readers - inside:
                found[name] = bool(readers & inside)
    return found


def reaches_of(tiled: TiledOp, boxes: list[Box | None]) -> tuple[tuple[Reach, ...] | None, ...]:
    """What the node reads for these output boxes: per input, per axis."""
    result: list[tuple[Reach, ...] | None] = [None] * len(tiled.op.inputs)
    for box, access in zip(boxes, tiled.access, strict=True):
        if box is None:
            continue
        intervals = box.intervals
        for position, rules in enumerate(access.inputs):
            if rules is None:
                continue
            found = tuple(
                [
                    rule.reach(intervals[rule.axis] if rule.axis is not None else ANY)
                    for rule in rules
                ]
            )
            known = result[position]
            if known is not None:
                found = tuple(
                    Reach(a.interval.hull(b.interval)) for a, b in zip(known, found, strict=True)
                )
            result[position] = found
    return tuple(result)
