"""Resident tensors that lie together: those that a concat joins, or that are taken out of another,
are parts of one region on every core, and nothing is copied.

A *joining* is such an operator: a whole and its parts, each at fixed positions of it. Tensors that
joinings connect have positions to each other; where these agree, and no two that were computed
apart overlap, they are a joint.
"""

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import add, neg, sub
from typing import NamedTuple

from tilewright.geometry.box import Box, Ints
from tilewright.graph.graph import Node
from tilewright.graph.ops import spec_of
from tilewright.graph.ops.spec import Engine, Op, OpSpec, Strides
from tilewright.graph.ops.views import dense_strides
from tilewright.program.context import Context
from tilewright.program.layout import Layouts
from tilewright.program.linking import Kept
from tilewright.program.regions import Region, Regions
from tilewright.program.views import found_by_rows, long_runs


class Joining(NamedTuple):
    """An operator whose results can lie where its operands are: the `whole`, and its parts with
    their first positions in it. `joins`: the parts are its operands."""

    node: str
    whole: str
    parts: tuple[tuple[str, Ints], ...]
    joins: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The whole and all parts."""
        return (self.whole, *(name for name, _ in self.parts))

    @property
    def read(self) -> tuple[str, ...]:
        """What the operator reads."""
        return self.names[1:] if self.joins else (self.whole,)

    def free(self, kept: Container[str], inner: Container[str]) -> bool:
        """Whether it may move nothing in a group that computes `inner` values, where others are
        `kept` resident: some of what it has to do with is, and all it reads is there."""
        there = all(name in kept or name in inner for name in self.read)
        return there and any(name in kept for name in self.names)


def joinings_of(layouts: Layouts) -> tuple[Joining, ...]:
    """Operators of a network whose operands and results may lie together, in its order."""
    found: list[Joining] = []
    for node in layouts.graph.nodes:
        known = spec_of(layouts.graph, node)
        joining = None if known is None else _joining(node, *known)
        if joining is not None and _lie_alike(layouts, joining):
            found.append(joining)
    return tuple(found)


class Joints:
    """Which resident tensors of a network's plans lie together. `joinings` are all of the network,
    in its order, `moving` the nodes that only move data."""

    def __init__(self, context: Context) -> None:
        self.context, self.joinings = context, joinings_of(context.layouts)
        self._known: dict[Hashable, dict[str, tuple[str, Regions]]] = {}

    @cached_property
    def moving(self) -> frozenset[int]:
        """Nodes that only move data."""
        specs = [spec_of(self.context.graph, node) for node in self.context.graph.nodes]
        moves = [spec is not None and spec[0].engine is Engine.MOVE for spec in specs]
        return frozenset(number for number, known in enumerate(moves) if known)

    def together(
        self, joinings: Sequence[Joining], kept: Mapping[str, Kept], inner: Mapping[str, Kept]
    ) -> dict[str, tuple[str, Regions]]:
        """Tensors that lie together where these operators move nothing: the name of their buffers,
        and the parts of those that are theirs. `inner` are what tiles hold of values that are not
        resident: where one that is made lies with resident ones, it is written there too."""
        ways = [(kept.get(name) or inner.get(name) for name in j.names) for j in joinings]
        key = tuple([(j.node, *way) for j, way in zip(joinings, ways, strict=True)])
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = {}
            for joint in joints_of(self.context, joinings):
                made = {name: inner[name] for name in joint.made if name in inner}
                there = {name: kept[name] for name in joint.at if name in kept} | made
                if len(there) < 2 or len(made) == len(there):
                    continue
                label = max(joint.at, key=lambda name: self.context.graph.types[name].size)
                parts = _framed(self.context, joint.at, there) or {}
                known |= {name: (label, regions) for name, regions in parts.items()}
        return known


def _joining(node: Node, spec: OpSpec, op: Op) -> Joining | None:
    if spec.parts is not None:
        shape = op.result(0).shape
        lying = Strides(0, shape, dense_strides(shape, 1), 1)
        named = list(zip(node.inputs, spec.parts(op, lying), strict=True))
        whole = node.outputs[0]
    elif spec.view is not None:
        whole, shape = node.inputs[0], op.shape(0)
        lying = Strides(0, shape, dense_strides(shape, 1), 1)
        views = [(name, spec.view(op, lying, k)) for k, name in enumerate(node.outputs) if name]
        named = [(name, view) for name, view in views if view is not None]
        if len(named) < len(views):
            return None
    else:
        return None
    if 0 in shape or any(v.strides != lying.strides or 0 in v.shape for _, v in named):
        return None
    parts = tuple((name, _position(view.offset, lying.strides)) for name, view in named)
    return Joining(node.name, whole, parts, spec.parts is not None)


def _position(offset: int, strides: Ints) -> Ints:
    """The position of an element that lies so far from the first, without gaps."""
    found: list[int] = []
    for stride in strides:
        found.append(offset // stride)
        offset %= stride
    return tuple(found)


def _lie_alike(layouts: Layouts, joining: Joining) -> bool:
    """Whether the parts can be rows of the whole: of the same kind, and where engines find them."""
    graph, names = layouts.graph, joining.names
    if len(set(names)) < len(names) or any(name in graph.constants for name in names):
        return False
    kinds = {(graph.types[n].dtype, layouts.item(n), n in layouts.images) for n in names}
    if len(kinds) > 1 or any(n in layouts.images and layouts.packed(n) for n in names):
        return False
    _, item, image = kinds.pop()
    grain = layouts.grain(joining.whole)
    return not image or all(starts[1] * item % grain == 0 for _, starts in joining.parts)


@dataclass(slots=True)
class Joint:
    """Values that lie together, with their first positions, counted from any one of them; `made`
    are those that no joining gives."""

    at: dict[str, Ints] = field(default_factory=dict[str, Ints])
    made: list[str] = field(default_factory=list[str])


def joints_of(context: Context, joinings: Iterable[Joining]) -> list[Joint]:
    """Values that lie together where these joinings move nothing. A joining that others are in the
    way of is left out."""
    sets: dict[str, Joint] = {}
    for joining in joinings:
        if joining.joins:
            sources = [
                sets.get(name) or Joint({name: _zero(starts)}, [name])
                for name, starts in joining.parts
            ]
            merged = _merged(context, joining.parts, sources)
            if merged is None:
                continue
            name, starts = joining.parts[0]
            merged.at[joining.whole] = tuple(map(sub, merged.at[name], starts))
        else:
            whole = joining.whole
            alone = Joint({whole: _zero(joining.parts[0][1])}, [whole])
            merged = sets.get(whole) or alone
            for name, starts in joining.parts:
                merged.at[name] = tuple(map(add, merged.at[whole], starts))
        sets |= dict.fromkeys(merged.at, merged)
    return list({id(one): one for one in sets.values()}.values())


def _zero(starts: Ints) -> Ints:
    return (0,) * len(starts)


def _merged(
    context: Context, parts: Sequence[tuple[str, Ints]], sources: Sequence[Joint]
) -> Joint | None:
    """All that lie together with some part, each at its place; None where they cannot."""
    (first, begin), *others = parts
    found = Joint(dict(sources[0].at), list(sources[0].made))
    for (name, starts), source in zip(others, sources[1:], strict=True):
        place = tuple(map(add, found.at[first], map(sub, starts, begin)))
        if name in found.at:
            if found.at[name] != place:
                return None
            continue
        shift = tuple(map(sub, place, source.at[name]))
        moved = {n: tuple(map(add, at, shift)) for n, at in source.at.items()}
        boxes = [_box(context, n, moved[n]) for n in source.made]
        there = [_box(context, n, found.at[n]) for n in found.made]
        if any(not a.intersect(b).empty for a in boxes for b in there):
            return None
        found.at |= moved
        found.made += source.made
    return found


def _box(context: Context, name: str, at: Ints) -> Box:
    return shifted(Box.whole(context.graph.types[name].shape), at)


def shifted(box: Box, by: Iterable[int]) -> Box:
    """The same box so far away."""
    return Box(tuple(i.shift(n) for i, n in zip(box.intervals, by, strict=True)))


def _framed(
    context: Context, at: Mapping[str, Ints], kept: Mapping[str, Kept]
) -> dict[str, Regions] | None:
    """The regions of the resident members of a joint as parts of one on every core; None where
    engines would not find their rows there, stores find short ones, or it takes more bytes than
    apart."""
    frames: dict[int, Box] = {}
    apart: dict[int, int] = {}
    for name, one in kept.items():
        for core, region in one.regions.items():
            box = shifted(region.box, at[name])
            frames[core] = box.hull(frames[core]) if core in frames else box
            apart[core] = apart.get(core, 0) + context.local(name, region.box.shape)[0]
    inside = len(kept) < len(at)  # tiles hold a value that lies here too
    found: dict[str, Regions] = {}
    for name, one in kept.items():
        found[name] = {}
        for core, region in one.regions.items():
            frame = shifted(frames[core], map(neg, at[name]))
            size, strides = context.local(name, frame.shape)
            part = found[name][core] = Region(region.box, region.read, frame)
            if size > apart[core] and not inside:
                return None
            if not _rows_stay(context, name, part, strides, stored=one.stored):
                return None
    return found


def _rows_stay(context: Context, name: str, region: Region, strides: Ints, *, stored: bool) -> bool:
    """Whether a part has its rows where engines look for them, and long ones where it is stored."""
    shape = region.box.shape
    usual, grain = context.local(name, shape)[1], context.layouts.grain(name)
    if not found_by_rows(shape, strides, region.offset(strides), usual, grain):
        return False
    return not stored or long_runs(shape, strides, context.kind(name), context.item(name))
