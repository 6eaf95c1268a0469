"""How a group is cut: every tile of every node, derived from an even split of its final outputs.

Tiles are derived in reverse topological order, each value's region from its consumers' regions.
Access relations are separable, so everything is done per axis and per dimension of the grid: a
60 x 72 grid costs 132 steps, not 4,320.
"""

from collections.abc import Iterable, Mapping
from math import lcm

from tilewright.errors import TilingError
from tilewright.geometry.access import Access
from tilewright.geometry.interval import Interval, even_split, grained_split
from tilewright.graph.graph import Graph
from tilewright.tiling.grid import Cut, Halo, Shares, Split, dealt, whole_cut
from tilewright.tiling.group import (
    GroupTiles,
    ReachAxis,
    Reaches,
    TiledOp,
    ValueTiles,
    check_convex,
    exports,
    typed_group,
)
from tilewright.tiling.halo import fresh_part, written_part

_NONE = Interval(0, 0)


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
    lots: Mapping[int, Shares] | None = None,
) -> GroupTiles:
    """As `cut_group`, for a group that is typed and known to be convex. `lots` says in
    which shares cores divide a dimension of the grid: halos are kept within a core.

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
        [
            max([len(cut.intervals) for name in final for cut in needs[name] if cut.dim == dim])
            for dim in range(len(splits))
        ]
    )
    begins = {
        dim: frozenset(part.start for part in dealt(counts[dim], shares) if part)
        for dim, shares in (lots or {}).items()
        if len(shares) > 1
    }
    written = {name: _padded(cuts, counts) for name, cuts in needs.items()}
    needs = dict(written)
    values: dict[str, ValueTiles] = {}
    reaches: dict[str, Reaches] = {}
    fallbacks: list[str] = []
    for tiled in reversed(ops):
        computed: list[tuple[Cut, ...] | None] = []
        for name, access in zip(tiled.node.outputs, tiled.access, strict=True):
            if name not in needs and name not in exported:
                computed.append(None)
                continue
            cuts = needs.get(name) or tuple([whole_cut(extent) for extent in access.shape])
            write = written.get(name)
            if name in exported and write is None:
                cuts, write = (cuts, cuts) if probe else _write_inner(access.shape, cuts)
            have = tuple([_grown(access, axis, cut) for axis, cut in enumerate(cuts)])
            tiles, fell_back = _apply_halo(have, access, write, splits, begins)
            if fell_back:
                fallbacks.append(name)
            values[name] = tiles
            computed.append(tiles.compute)
        for cuts, access in zip(computed, tiled.access, strict=True):
            if cuts is not None:
                read = _reaches(cuts, access)
                _propagate(tiled, cuts, access, read, needs)
                if len(computed) == 1:
                    reaches[tiled.node.name] = read
    inside = set(access_of)
    inputs = {name: cuts for name, cuts in needs.items() if name not in inside}
    ordered = {name: values[name] for name in access_of if name in values}
    return GroupTiles(graph, ops, splits, counts, ordered, inputs, reaches, tuple(fallbacks))


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
        unit = lcm(grain, split.grain)
        if split.grain > 1 and split.parts > -(-extent // unit):
            raise TilingError(
                f"axis {split.axis} of '{name}' has {extent} positions: it cannot be cut in "
                f"{split.parts} with a grain of {split.grain}"
            )
        if probe:
            intervals = (Interval(*inner_span(extent, split, grain)),)
        elif split.grain > 1:
            intervals = grained_split(extent, split.parts, unit)
        else:
            intervals = even_split(extent, split.parts, grain)
        cuts[split.axis] = Cut(dim, intervals)
    return tuple(cuts)


def inner_span(extent: int, split: Split, grain: int = 1) -> tuple[int, int]:
    """As many positions as the largest tile of a split has, with neighbours on both sides if there
    is room for that."""
    unit = lcm(grain, split.grain)
    if split.grain > 1:
        size = max(part.length for part in grained_split(extent, split.parts, unit))
    else:
        size = min(extent, -(-extent // (split.parts * unit)) * unit)
    start = min(-(-size // unit) * unit, (extent - size) // unit * unit)
    return start, min(start + size, extent)


def _padded(cuts: tuple[Cut, ...], counts: tuple[int, ...]) -> tuple[Cut, ...]:
    """Cuts with as many intervals as the grid has tiles; outputs with fewer have empty ones."""

    def padded(cut: Cut) -> Cut:
        missing = 0 if cut.dim is None else counts[cut.dim] - len(cut.intervals)
        end = cut.intervals[-1].stop
        return Cut(cut.dim, cut.intervals + (Interval(end, end),) * missing) if missing else cut

    return tuple(map(padded, cuts))


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
    return {dim for dim in dims if dims.count(dim) > 1} if dims[1:] else set()


def _grown(access: Access, axis: int, cut: Cut) -> Cut:
    if not access.grows(axis) or cut.intervals == ((0, access.shape[axis]),):
        return cut
    return Cut(cut.dim, tuple([access.grow(axis, interval) for interval in cut.intervals]))


def _apply_halo(
    have: tuple[Cut, ...],
    access: Access,
    write: tuple[Cut, ...] | None,
    splits: tuple[Split, ...],
    begins: Mapping[int, frozenset[int]],
) -> tuple[ValueTiles, bool]:
    """Decide what each tile computes of what it has, per axis; `begins` are the tiles, along a
    dimension, before which another core has the ones."""
    compute: list[Cut] = []
    fell_back = False
    shared = _shared_dims(have)
    for axis, cut in enumerate(have):
        if cut.dim is None or splits[cut.dim].halo is Halo.RECOMPUTE:
            compute.append(cut)
            continue
        fresh = None if cut.dim in shared else fresh_part(cut.intervals, begins.get(cut.dim, ()))
        if fresh is None or any(access.grow(axis, part) != part for part in fresh):
            fell_back = True
            compute.append(cut)
        else:
            compute.append(Cut(cut.dim, fresh))
    driven = {cut.dim for cut in have if cut.dim is not None}
    idle = {dim for dim in range(len(splits)) if dim not in driven}
    if driven and idle:
        idle = {dim for dim in idle if splits[dim].halo is Halo.CACHE and dim not in begins}
    return ValueTiles(have, tuple(compute), write, frozenset(idle)), fell_back


def _reaches(cuts: tuple[Cut, ...], access: Access) -> Reaches:
    """What the tiles of an output read, per input and axis."""
    found: list[tuple[ReachAxis, ...] | None] = []
    for rules, wholes in zip(access.inputs, access.wholes, strict=True):
        if rules is None or wholes is None:
            found.append(None)
            continue
        axes: list[ReachAxis] = []
        for rule, whole in zip(rules, wholes, strict=True):
            if rule.axis is None:
                axes.append((None, whole))
                continue
            dim, intervals = cuts[rule.axis]
            uncut = dim is None and intervals[0] == (0, access.shape[rule.axis])
            axes.append((dim, whole if uncut else tuple([rule.reach(i) for i in intervals])))
        found.append(tuple(axes))
    return tuple(found)


def _propagate(
    tiled: TiledOp,
    cuts: tuple[Cut, ...],
    access: Access,
    reaches: Reaches,
    needs: dict[str, tuple[Cut, ...]],
) -> None:
    """Add what the tiles of an output read to the needs of the node's inputs."""
    inputs = zip(tiled.op.inputs, tiled.node.inputs, access.inputs, reaches, strict=True)
    for operand, name, rules, axes in inputs:
        if operand is None or rules is None or axes is None or operand.constant:
            continue
        read: list[Cut] = []
        for rule, (dim, row), extent in zip(rules, axes, operand.type.shape, strict=True):
            if rule.axis is None:
                read.append(whole_cut(extent))
                continue
            some = zip(cuts[rule.axis].intervals, row, strict=True)
            read.append(Cut(dim, tuple([r[0] if i[0] < i[1] else _NONE for i, r in some])))
        known = needs.get(name)
        if known is not None:
            extents = operand.type.shape
            read = [a.hull(b, e) for a, b, e in zip(known, read, extents, strict=True)]
        needs[name] = tuple(read)
