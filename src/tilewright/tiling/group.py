"""Groups: convex sets of operators that run tile by tile, and the tiles derived from their outputs.

Tiles are derived in reverse topological order, each value's region from its consumers' regions.
Access relations are separable, so everything is done per axis and per dimension of the grid: a
60 x 72 grid costs 132 steps, not 4,320.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod

from tilewright.errors import TilingError
from tilewright.geometry.access import Access, Reach
from tilewright.geometry.box import Box
from tilewright.geometry.interval import Interval, even_split
from tilewright.graph.graph import Graph, Node
from tilewright.graph.ops import spec_of
from tilewright.graph.ops.spec import Op, OpSpec, Tile
from tilewright.tiling.grid import Cut, Halo, Split, whole_cut
from tilewright.tiling.halo import fresh_part, written_part

_ANY = Interval(0, 1)  # of an output axis, for rules that no axis drives


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

    def gives_at(self, index: tuple[int, ...]) -> bool:
        """Whether the tile at this position is the one that gives its part to the outside: along
        dimensions that do not drive the value, several tiles may compute it."""
        if not any(index):
            return True
        driven = {cut.dim for cut in self.have}
        return not any(i for dim, i in enumerate(index) if dim not in driven)


@dataclass(frozen=True)
class GroupTiles:
    """A group, cut: for each value inside it and each value it reads, the regions of every tile."""

    graph: Graph
    ops: tuple[TiledOp, ...]
    splits: tuple[Split, ...]
    counts: tuple[int, ...]
    values: Mapping[str, ValueTiles]
    inputs: Mapping[str, tuple[Cut, ...]]
    fallbacks: tuple[str, ...]

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
        return Tile(tuple(boxes), reaches_of(tiled, boxes))

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


def typed_group(graph: Graph, nodes: Iterable[int]) -> tuple[TiledOp, ...]:
    """The group's nodes with their access relations, or an error for one that has to run whole."""
    ops: list[TiledOp] = []
    for index in sorted(nodes):
        node = graph.nodes[index]
        known = spec_of(graph, node)
        if known is None or not any(node.writes):
            raise TilingError(
                f"node '{node.name}' ({node.kind}) runs whole: it cannot be in a group"
            )
        spec, op = known
        present = next(k for k, kind in enumerate(op.outputs) if kind is not None)
        # An absent output takes the place of one that is there; nothing ever needs it.
        relations = [
            spec.access(op, present if kind is None else k) for k, kind in enumerate(op.outputs)
        ]
        access = tuple(relation for relation in relations if relation is not None)
        if len(access) != len(node.outputs):
            raise TilingError(
                f"node '{node.name}' ({node.kind}) cannot be cut with these attributes"
            )
        if any(relation.empty for relation in access):
            raise TilingError(f"node '{node.name}' ({node.kind}) has no elements to cut")
        ops.append(TiledOp(node, spec, op, access))
    if not ops:
        raise TilingError("the group is empty")
    return tuple(ops)


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


def cut_group(graph: Graph, nodes: Iterable[int], splits: tuple[Split, ...]) -> GroupTiles:
    """Derive every tile of every node of the group from an even split of its final outputs."""
    members = tuple(sorted(nodes))
    check_convex(graph, members)
    return cut_ops(graph, typed_group(graph, members), exports(graph, members), splits)


def cut_ops(
    graph: Graph,
    ops: tuple[TiledOp, ...],
    exported: Mapping[str, bool],
    splits: tuple[Split, ...],
    *,
    probe: bool = False,
) -> GroupTiles:
    """As `cut_group`, for a group that is typed and known to be convex.

    A probe derives a single inner tile: enough to know what one tile costs, at a fraction of the
    work. The result then has a grid of one.
    """
    final = [name for name, used_inside in exported.items() if not used_inside]
    if not final:
        raise TilingError("nothing outside the group reads what it makes")
    if len({split.axis for split in splits}) < len(splits):
        raise TilingError("an axis is cut twice")
    needs: dict[str, tuple[Cut, ...]] = {}
    access_of = {
        name: access
        for tiled in ops
        for name, access in zip(tiled.node.outputs, tiled.access, strict=True)
    }
    for name in final:
        needs[name] = _even_cuts(graph, name, access_of[name], splits, probe=probe)
    counts = tuple(
        max(len(cut.intervals) for name in final for cut in needs[name] if cut.dim == dim)
        for dim in range(len(splits))
    )
    written = {name: _padded(cuts, counts) for name, cuts in needs.items()}
    needs = dict(written)
    values: dict[str, ValueTiles] = {}
    fallbacks: list[str] = []
    for tiled in reversed(ops):
        computed: list[tuple[Cut, ...] | None] = []
        for name, access in zip(tiled.node.outputs, tiled.access, strict=True):
            if name not in needs and name not in exported:
                computed.append(None)
                continue
            cuts = needs.get(name) or tuple(whole_cut(extent) for extent in access.shape)
            write = written.get(name)
            if name in exported and write is None:
                cuts, write = (cuts, cuts) if probe else _write_inner(access.shape, cuts)
            have = tuple(_grown(access, axis, cut) for axis, cut in enumerate(cuts))
            tiles, fell_back = _apply_halo(have, access, write, splits)
            if fell_back:
                fallbacks.append(name)
            values[name] = tiles
            computed.append(tiles.compute)
        _propagate(tiled, computed, needs)
    inside = set(access_of)
    inputs = {name: cuts for name, cuts in needs.items() if name not in inside}
    ordered = {name: values[name] for name in access_of if name in values}
    return GroupTiles(graph, ops, splits, counts, ordered, inputs, tuple(fallbacks))


def _even_cuts(
    graph: Graph, name: str, access: Access, splits: tuple[Split, ...], *, probe: bool
) -> tuple[Cut, ...]:
    """An even cut of a final output; of a probe, one tile of each axis."""
    cuts = [whole_cut(extent) for extent in access.shape]
    for dim, split in enumerate(splits):
        if split.axis >= len(access.shape):
            raise TilingError(f"output '{name}' has no axis {split.axis}")
        extent, grain = access.shape[split.axis], access.grain[split.axis]
        if split.parts > extent:
            raise TilingError(
                f"axis {split.axis} of '{name}' has {extent} positions: it cannot be cut in "
                f"{split.parts}"
            )
        if split.parts > 1 and grain >= extent:
            kind = graph.nodes[graph.producer[name]].kind
            raise TilingError(f"axis {split.axis} of '{name}' cannot be cut: {kind} needs it whole")
        if probe:
            intervals = (Interval(*inner_span(extent, split.parts, grain)),)
        else:
            intervals = even_split(extent, split.parts, grain)
        cuts[split.axis] = Cut(dim, intervals)
    return tuple(cuts)


def inner_span(extent: int, parts: int, grain: int = 1) -> tuple[int, int]:
    """The second tile of an even split, which has neighbours on both sides if there are more than
    two."""
    if parts == 1:
        return 0, extent
    if grain > 1:
        size = -(-extent // (parts * grain)) * grain
        return (size, min(2 * size, extent)) if size < extent else (0, extent)
    size, rest = divmod(extent, parts)
    first = size + (rest > 0)
    return first, first + size + (rest > 1)


def _padded(cuts: tuple[Cut, ...], counts: tuple[int, ...]) -> tuple[Cut, ...]:
    """Cuts with as many intervals as the grid has tiles; outputs with fewer have empty ones."""
    padded: list[Cut] = []
    for cut in cuts:
        missing = 0 if cut.dim is None else counts[cut.dim] - len(cut.intervals)
        end = cut.intervals[-1].stop
        padded.append(Cut(cut.dim, cut.intervals + (Interval(end, end),) * missing))
    return tuple(padded)


def _write_inner(
    shape: tuple[int, ...], cuts: tuple[Cut, ...]
) -> tuple[tuple[Cut, ...], tuple[Cut, ...]]:
    """A value used inside and outside: each tile writes the rows no earlier one wrote, the last
    completes it; what is read grows accordingly."""
    shared = _shared_dims(cuts)
    cuts = tuple(
        whole_cut(extent) if cut.dim in shared else cut
        for cut, extent in zip(cuts, shape, strict=True)
    )
    write = tuple(
        whole_cut(extent) if cut.dim is None else Cut(cut.dim, written_part(cut.intervals, extent))
        for cut, extent in zip(cuts, shape, strict=True)
    )
    grown = tuple(a.hull(b, e) for a, b, e in zip(cuts, write, shape, strict=True))
    return grown, write


def _shared_dims(cuts: tuple[Cut, ...]) -> set[int]:
    """Grid dimensions that drive two axes of one value: its tiles lie along a diagonal."""
    dims = [cut.dim for cut in cuts if cut.dim is not None]
    return {dim for dim in dims if dims.count(dim) > 1}


def _grown(access: Access, axis: int, cut: Cut) -> Cut:
    return Cut(cut.dim, tuple(access.grow(axis, interval) for interval in cut.intervals))


def _apply_halo(
    have: tuple[Cut, ...],
    access: Access,
    write: tuple[Cut, ...] | None,
    splits: tuple[Split, ...],
) -> tuple[ValueTiles, bool]:
    """Decide what each tile computes of what it has, per axis."""
    compute: list[Cut] = []
    fell_back = False
    shared = _shared_dims(have)
    for axis, cut in enumerate(have):
        if cut.dim is None or splits[cut.dim].halo is Halo.RECOMPUTE:
            compute.append(cut)
            continue
        fresh = None if cut.dim in shared else fresh_part(cut.intervals)
        if fresh is None or any(access.grow(axis, part) != part for part in fresh):
            fell_back = True
            compute.append(cut)
        else:
            compute.append(Cut(cut.dim, fresh))
    driven = {cut.dim for cut in have if cut.dim is not None}
    idle = {dim for dim in range(len(splits)) if dim not in driven}
    if driven:
        idle = {dim for dim in idle if splits[dim].halo is Halo.CACHE}
    return ValueTiles(have, tuple(compute), write, frozenset(idle)), fell_back


def _propagate(
    tiled: TiledOp, computed: list[tuple[Cut, ...] | None], needs: dict[str, tuple[Cut, ...]]
) -> None:
    """Add what the node's tiles read to the needs of its inputs."""
    for cuts, access in zip(computed, tiled.access, strict=True):
        if cuts is None:
            continue
        for operand, name, rules in zip(
            tiled.op.inputs, tiled.node.inputs, access.inputs, strict=True
        ):
            if operand is None or rules is None or operand.constant:
                continue
            read: list[Cut] = []
            for rule, extent in zip(rules, operand.type.shape, strict=True):
                if rule.axis is None:
                    read.append(whole_cut(extent))
                    continue
                source = cuts[rule.axis]
                intervals = tuple(
                    rule.reach(i).interval if not i.empty else Interval(0, 0)
                    for i in source.intervals
                )
                read.append(Cut(source.dim, intervals))
            known = needs.get(name)
            if known is not None:
                extents = operand.type.shape
                read = [a.hull(b, e) for a, b, e in zip(known, read, extents, strict=True)]
            needs[name] = tuple(read)


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
                    rule.reach(intervals[rule.axis] if rule.axis is not None else _ANY)
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
