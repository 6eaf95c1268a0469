"""One large inner tile of a group, in plain numbers: what it computes, reads, writes and costs.

The same tile as that of `tiling.group.cut_ops(probe=True)`, derived much faster: a search asks for
thousands of them.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import lcm, prod

from tilewright.geometry.access import Access
from tilewright.graph.ops.spec import Strides
from tilewright.program.views import behind, found_by_rows, serves, written_ahead
from tilewright.search.candidates.tile_costs import Dims, NodeTile, Span, Spans, TileCosts
from tilewright.tiling.cutting import inner_span
from tilewright.tiling.grid import Split
from tilewright.tiling.group import TiledOp

Region = tuple[Dims, Spans]
"""Per axis: the dimension of the grid that drives it, and the positions one tile has of it."""


class Probe:
    """A group of one network, ready to be cut in many ways."""

    def __init__(
        self, costs: TileCosts, ops: Sequence[TiledOp], exported: Mapping[str, bool]
    ) -> None:
        self.costs = costs
        self.nodes = tuple(costs.node(tiled) for tiled in ops)
        number: dict[str, int] = {}
        for tiled in ops:
            for name in (*tiled.node.inputs, *tiled.node.outputs):
                number.setdefault(name, len(number))
        self.names = tuple(number)
        self.moves = [
            place
            for place, node in enumerate(self.nodes)
            if node.moves and node.tiled.spec.view and len(node.data) == 1
        ]
        joinings = costs.network.joinings
        self.joinings = {
            place: joinings[tiled.node.name]
            for place, tiled in enumerate(ops)
            if tiled.node.name in joinings
        }
        self.outputs = tuple(tuple(number[name] for name in tiled.node.outputs) for tiled in ops)
        self.reads = tuple(
            tuple(number[tiled.node.inputs[position]] for position in node.data)
            for tiled, node in zip(ops, self.nodes, strict=True)
        )
        self.twins = _twins(ops)
        chains = written_ahead(ops, exported) if self.moves else {}
        self.ahead = {number[name]: chain for name, chain in chains.items()}
        self.computing = {  # values that are read by more than data movement
            value
            for node, values in zip(self.nodes, self.reads, strict=True)
            for value in values
            if not node.moves
        }
        self.made = made = {name for tiled in ops for name in tiled.node.outputs}
        self.inputs = tuple(
            number[name]
            for name in dict.fromkeys(
                tiled.node.inputs[position]
                for tiled, node in zip(ops, self.nodes, strict=True)
                for position in node.data
            )
            if name not in made
        )
        self.final = tuple(number[name] for name, inside in exported.items() if not inside)
        self.exported = frozenset(number[name] for name in exported)
        self.access: dict[int, Access] = {}
        last: dict[int, int] = {}  # where values are made, or read for the last time
        for place, tiled in enumerate(ops):
            for name in (*tiled.node.outputs, *tiled.node.inputs):
                last[number[name]] = place
            for name, access in zip(tiled.node.outputs, tiled.access, strict=True):
                self.access[number[name]] = access
        ends: list[list[int]] = [[] for _ in ops]
        for value in self.access:
            if value not in self.exported:
                ends[last[value]].append(value)
        self.ends = tuple(map(tuple, ends))
        self.values = tuple(
            costs.value(name) if name in costs.network.graph.types else None for name in number
        )
        self.views = bool(self.moves or self.joinings)  # whether what is kept decides the work
        self.look: Hashable = (
            *(self.nodes, self.values, self.outputs, self.reads),
            *(self.final, self.exported, self.ends, self.names if self.views else ()),
            self.twins if any(self.twins) else (),
        )
        self.cuts: dict[tuple[Split, ...], Cutting | None] = {}

    def kept(self, resident: Collection[str]) -> frozenset[int]:
        """Those of some values that the group has, by number."""
        return frozenset([k for k, name in enumerate(self.names) if name in resident])

    def cut(self, splits: tuple[Split, ...]) -> "Cutting | None":
        """One inner tile of the group; None where it cannot be cut so."""
        if splits not in self.cuts:
            self.cuts[splits] = self._cut(splits)
        return self.cuts[splits]

    def _cut(self, splits: tuple[Split, ...]) -> "Cutting | None":
        needs: list[Region | None] = [None] * len(self.names)
        for value in self.final:
            region = _even(self.access[value], splits)
            if region is None:
                return None
            needs[value] = region
        written = list(needs)
        tiles: list[NodeTile] = []
        for place in range(len(self.nodes) - 1, -1, -1):
            node, outputs = self.nodes[place], self.outputs[place]
            made: list[Spans | None] = []
            for position, value in enumerate(outputs):
                region = needs[value]
                if region is None:
                    made.append(None)
                    continue
                if written[value] is None and value in self.exported:
                    written[value] = region
                dims, spans = region
                if node.grown[position]:
                    spans = node.grow(position, spans)
                    needs[value] = (dims, spans)
                made.append(spans)
            key = tuple(made)
            tile = node.known.get(key) or self.costs.tile(node, key)
            tiles.append(tile)
            for position, value in enumerate(outputs):
                region, reads = needs[value], tile.reads[position]
                if region is None or reads is None:
                    continue
                driven = node.driven(position, region[0])
                for target, spans, dims in zip(self.reads[place], reads, driven, strict=True):
                    if dims is None:
                        continue
                    known = needs[target]
                    needs[target] = (
                        (dims, spans)
                        if known is None
                        else self._hull(known, (dims, spans), self._extents(target))
                    )
        tiles.reverse()
        return Cutting(self, needs, written, tiles)

    def _extents(self, value: int) -> tuple[int, ...]:
        return self.costs.network.graph.types[self.names[value]].shape

    @staticmethod
    def _hull(one: Region, other: Region, extents: tuple[int, ...]) -> Region:
        """Both together; an axis driven from two sides runs whole."""
        if one == other:
            return one
        dims: list[int | None] = []
        spans: list[Span] = []
        for a, b, first, second, extent in zip(
            one[0], other[0], one[1], other[1], extents, strict=True
        ):
            if a != b and a is not None and b is not None:
                dims.append(None)
                spans.append((0, extent))
                continue
            if a != b and (second if a is not None else first) == (0, extent):
                dims.append(None)
                spans.append((0, extent))
                continue
            dims.append(a if a is not None else b)
            if first[0] >= first[1]:
                spans.append(second)
            elif second[0] >= second[1]:
                spans.append(first)
            else:
                spans.append((min(first[0], second[0]), max(first[1], second[1])))
        return tuple(dims), tuple(spans)


def _twins(ops: Sequence[TiledOp]) -> tuple[int, ...]:
    """Of each node the first one with the same constants, if there is one: 0, or how far before."""
    first: dict[tuple[str, ...], int] = {}
    found: list[int] = []
    for place, tiled in enumerate(ops):
        pairs = zip(tiled.node.inputs, tiled.op.inputs, strict=True)
        names = tuple([name for name, operand in pairs if operand is not None and operand.constant])
        found.append(place - first.setdefault(names, place) if names else 0)
    return tuple(found)


class Probes:
    """Groups of one network; those that look alike share their cuts."""

    def __init__(self, costs: TileCosts) -> None:
        self.costs = costs
        self._cuts: dict[Hashable, dict[tuple[Split, ...], Cutting | None]] = {}

    def of(self, ops: Sequence[TiledOp], exported: Mapping[str, bool]) -> Probe:
        """A group with its values that are read outside, and whether they are inside too."""
        probe = Probe(self.costs, ops, exported)
        probe.cuts = self._cuts.setdefault(probe.look, probe.cuts)
        return probe


@dataclass(eq=False)
class Cutting:
    """A probe's tile: what it needs of each value, what it writes to the outside, its nodes'
    tiles."""

    probe: Probe
    needs: list[Region | None]
    written: list[Region | None]
    tiles: list[NodeTile]

    @cached_property
    def inner(self) -> int:
        """The most bytes of inner values that are live at once."""
        probe, costs = self.probe, self.probe.costs
        live = peak = 0
        held: dict[int, int] = {}
        for place, outputs in enumerate(probe.outputs):
            for value in outputs:
                region, part = self.needs[value], probe.values[value]
                if region is not None and part is not None and value not in probe.exported:
                    held[value] = size = costs.copy(part, region[1]).held
                    live += size
            peak = max(peak, live)
            for value in probe.ends[place]:
                live -= held.get(value, 0)
        return peak

    def views(self, kept: frozenset[int]) -> set[int]:
        """The places of data movement that is a view of what the tile holds, or that only joins or
        takes apart what lies together where some of it is `kept`: no work. Other results that are
        kept lie by themselves."""
        probe, lying = self.probe, dict[int, Strides]()
        names = {probe.names[value] for value in kept}
        free = (place for place, j in probe.joinings.items() if j.free(names, probe.made))
        found = set(free) if kept else set[int]()
        for place in probe.moves:
            if place in found:
                continue
            tiled, source = probe.nodes[place].tiled, probe.reads[place][0]
            rule, there = tiled.spec.view, lying.get(source) or self._lying(source)
            seen: dict[int, Strides] = {}
            for position, value in enumerate(probe.outputs[place]):
                if self.needs[value] is None:
                    continue
                view = rule(tiled.op, there, position) if rule and there else None
                if view is None or value in kept or not self._serves(value, view):
                    break
                seen[value] = view
            else:
                found.add(place)
                lying |= seen
        for value, chain in probe.ahead.items():
            if not found.issuperset(chain) and self._goes_ahead(value, chain, kept):
                found.update(chain)
        return found

    def _goes_ahead(self, value: int, chain: Sequence[int], kept: frozenset[int]) -> bool:
        """Whether a result that only data movement reads can be written where that leads."""
        probe = self.probe
        values = [value, *(probe.outputs[place][0] for place in chain)]
        regions = [self.needs[each] for each in values]
        sizes = {region and prod([b - a for a, b in region[1]]) for region in regions}
        end, own = self._lying(values[-1]), self._lying(value)
        if len(sizes) > 1 or kept.intersection(values[:-1]) or end is None or own is None:
            return False
        view, region = behind([probe.nodes[place].tiled for place in chain], end), regions[0]
        if view is None or region is None:
            return False
        shape = tuple([stop - start for start, stop in region[1]])
        offset = view.at([start for start, _ in region[1]])
        grain = probe.costs.network.layouts.grain(probe.names[value])
        return found_by_rows(shape, view.strides, offset, own.strides, grain)

    def _lying(self, value: int) -> Strides | None:
        """How the tile's part of a value lies by itself, told from the value's first element."""
        region = self.needs[value]
        if region is None:
            return None
        layouts, name = self.probe.costs.network.layouts, self.probe.names[value]
        shape = tuple([stop - start for start, stop in region[1]])
        strides = layouts.strides(name, shape, aligned=True)
        begin = sum([span[0] * stride for span, stride in zip(region[1], strides, strict=True)])
        return Strides(-begin, layouts.graph.types[name].shape, strides, layouts.item(name))

    def _serves(self, value: int, view: Strides) -> bool:
        """Whether all that read a value can take it from a view."""
        own, region = self._lying(value), self.needs[value]
        if own is None or region is None:
            return False
        layouts, name = self.probe.costs.network.layouts, self.probe.names[value]
        starts = tuple([start for start, _ in region[1]])
        shape = tuple([stop - start for start, stop in region[1]])
        usual, dtype = (own.strides, layouts.grain(name)), layouts.graph.types[name].dtype
        computed, given = value in self.probe.computing, value in self.probe.exported
        return serves(view, (starts, shape), usual, dtype, computed=computed, given=given)


def _even(access: Access, splits: tuple[Split, ...]) -> Region | None:
    """The tile that stands for all of an even cut; None where there is no such cut."""
    rank = len(access.shape)
    dims: list[int | None] = [None] * rank
    spans = [(0, extent) for extent in access.shape]
    for dim, split in enumerate(splits):
        if split.axis >= rank:
            return None
        extent, grain, parts = access.shape[split.axis], access.grain[split.axis], split.parts
        unit = lcm(grain, split.grain)
        most = extent if split.grain == 1 else -(-extent // unit)
        if parts > most or (parts > 1 and grain >= extent):
            return None
        dims[split.axis] = dim
        spans[split.axis] = inner_span(extent, split, grain)
    return tuple(dims), tuple(spans)
