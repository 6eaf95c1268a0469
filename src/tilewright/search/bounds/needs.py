"""Which elements of every value a network's outputs need, as masks per axis."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from tilewright.geometry.access import Access, AxisRule, Same, Scaled, Whole, Window
from tilewright.geometry.interval import Interval
from tilewright.graph.graph import Graph, Node
from tilewright.graph.kernels import run_step, supports
from tilewright.graph.ops import spec_of
from tilewright.graph.ops.spec import Engine, OpSpec

MOST_ELEMENTS = 2**24  # of a value, where elements are looked at one by one

Mask = npt.NDArray[np.bool_]
Need = tuple[Mask, ...]


@dataclass(frozen=True, slots=True)
class NeedEdge:
    """One operand of a node as one of its outputs needs it. `mask` is what all needed elements of
    the output read; `complete` says, per axis, whether that is all that anyone needs. `nonempty`
    says whether every needed position along the driving axis reads something, all of it needed.
    `merges` marks data movement that maps elements, not axes, `partial` that of which needed
    elements of the output read others too: `mask` is then a product of axes within what is read."""

    node: int
    source: str
    target: str
    rules: tuple[AxisRule, ...] | None  # None: the operator runs whole
    mask: Need
    complete: tuple[bool, ...]
    nonempty: tuple[bool, ...]
    whole_axes: int  # output axes that no tile cuts
    merges: bool
    partial: bool = False

    @property
    def all_complete(self) -> bool:
        return all(self.complete)


class ElementNeeds:
    """Which elements of every value any plan has to have, as one mask per axis, from the outputs
    back; no entry where nothing is known. Of values in `common` only those count that all of their
    readers read; `forks` are values of which readers read other parts, but some elements all."""

    def __init__(self, graph: Graph, common: frozenset[str] = frozenset()) -> None:
        self.graph, self.common = graph, common
        self.specs = [spec_of(graph, node) for node in graph.nodes]
        self.need: dict[str, Need] = {}
        self.edges: list[NeedEdge] = []
        self.joint: dict[str, list[list[NeedEdge]]] = {}
        self.forks: list[str] = []
        self._known: dict[tuple[AxisRule, int, bytes], tuple[Mask, bool]] = {}
        readers: dict[str, list[NeedEdge]] = {}
        for name in graph.outputs:
            if name in graph.types:
                self.need[name] = everything(graph.types[name].shape)
        for index in reversed(range(len(graph.nodes))):
            node = graph.nodes[index]
            for name in node.writes:
                self._settle(name, readers.get(name, []))
            for edge in self._edges_of(index, node):
                readers.setdefault(edge.source, []).append(edge)
        for name in (*graph.inputs, *graph.constants):
            self._settle(name, readers.get(name, []))
        self.readers = readers
        self._complete()

    def _settle(self, name: str, edges: Sequence[NeedEdge]) -> None:
        """What all readers need of a value: their parts joined where they differ along one axis,
        else the largest part, which is needed anyway."""
        if name in self.need:  # an output of the network
            return
        shared = tuple(
            np.logical_and.reduce(axes) for axes in zip(*(e.mask for e in edges), strict=True)
        )
        if name in self.common:
            self.need[name] = shared
            return
        differ = any(count_of(edge.mask) > count_of(shared) > 0 for edge in edges)
        if differ and name in self.graph.producer:
            self.forks.append(name)
        best: Need | None = None
        used: list[NeedEdge] = []
        for edge in sorted(edges, key=lambda e: -count_of(e.mask)):
            if best is None:
                best, used = edge.mask, [edge]
                continue
            pairs = list(enumerate(zip(best, edge.mask, strict=True)))
            differing = [axis for axis, (m, n) in pairs if (n & ~m).any()]
            same = all(np.array_equal(m, n) for axis, (m, n) in pairs if axis not in differing)
            if len(differing) == 1 and same:
                (axis,) = differing
                joined = best[axis] | edge.mask[axis]
                best = (*best[:axis], joined, *best[axis + 1 :])
                used.append(edge)
        if best is not None:
            self.need[name] = best
            if len(used) > 1:
                self.joint.setdefault(name, []).append(used)

    def _edges_of(self, index: int, node: Node) -> Iterator[NeedEdge]:
        known = self.specs[index]
        for position, target in enumerate(node.outputs):
            need = self.need.get(target)
            if not target or need is None:
                continue
            access = None if known is None else known[0].access(known[1], position)
            for operand, source in enumerate(node.inputs):
                if not source or source not in self.graph.types:
                    continue
                shape = self.graph.types[source].shape
                if known is None or access is None or access.empty:
                    every = (True,) * len(shape)
                    mask = everything(shape)
                    yield NeedEdge(index, source, target, None, mask, (), every, 0, False)
                    continue
                rules = access.inputs[operand]
                if rules is None:
                    continue
                edge = self._edge(index, known[0], access, rules, source, target, need)
                if edge is not None:
                    yield edge

    def _edge(
        self,
        index: int,
        spec: OpSpec,
        access: Access,
        rules: tuple[AxisRule, ...],
        source: str,
        target: str,
        need: Need,
    ) -> NeedEdge | None:
        shape = self.graph.types[source].shape
        merges = spec.engine is Engine.MOVE and not all(map(plain, rules))
        partial = False
        nonempty = (True,) * len(shape)
        if merges:
            kept = {rule.axis for rule in rules if stays(rule)}
            merged = [mask for axis, mask in enumerate(need) if axis not in kept]
            partial = not all(mask.all() for mask in merged)
            mask = tuple(
                need[rule.axis] if rule.axis is not None and stays(rule) else ones(extent)
                for rule, extent in zip(rules, shape, strict=True)
            )
            if partial:
                mask = self._within(index, source, target, need, mask)
                if mask is None:
                    return None
        else:
            pairs = [
                self._read(rule, need[rule.axis] if rule.axis is not None else None, extent)
                for rule, extent in zip(rules, shape, strict=True)
            ]
            mask = tuple(mask for mask, _ in pairs)
            nonempty = tuple(every for _, every in pairs)
            if any(not m.any() for m in mask):
                return None
        whole = 0
        if spec.engine is not Engine.MOVE:
            for axis, (grain, extent) in enumerate(zip(access.grain, access.shape, strict=True)):
                whole |= (grain >= extent) << axis
        return NeedEdge(index, source, target, rules, mask, (), nonempty, whole, merges, partial)

    def _within(self, index: int, source: str, target: str, need: Need, mask: Need) -> Need | None:
        """A product of axes within what needed elements read through data movement: one axis is
        less than `mask`, the one that leaves most. None where nothing is known."""
        node, shape = self.graph.nodes[index], self.graph.types[source].shape
        known = self.specs[index]
        if known is None or node.inputs[0] != source or prod(shape) > MOST_ELEMENTS:
            return None
        places = np.arange(prod(shape), dtype=np.int32).reshape(shape)
        if known[0].keeps_order:
            moved = places.reshape(self.graph.types[target].shape)
        elif len(node.inputs) == 1 and supports(node.kind):
            (moved,) = run_step(node.kind, node.attributes, (places,), self.graph.opset)
        else:
            return None
        flags = np.zeros(prod(shape), dtype=np.bool_)
        flags[moved[np.ix_(*need)]] = True
        seen = flags.reshape(shape)[np.ix_(*mask)]
        best: Need | None = None
        for axis, positions in enumerate(mask):
            others = tuple(a for a in range(len(shape)) if a != axis)
            held = positions.copy()
            held[positions] = seen.all(axis=others)
            found = (*mask[:axis], held, *mask[axis + 1 :])
            if count_of(found) > (0 if best is None else count_of(best)):
                best = found
        return best

    def _read(self, rule: AxisRule, wanted: Mask | None, extent: int) -> tuple[Mask, bool]:
        """Input positions that the wanted output positions read, each at its least, and whether
        every one reads something."""
        if wanted is None or isinstance(rule, Whole):
            return ones(extent), True
        if isinstance(rule, Same):
            return wanted, True
        key = (rule, extent, wanted.tobytes())
        found = self._known.get(key)
        if found is None:
            found = _windows(rule, wanted, extent) if isinstance(rule, Window) else None
            found = self._known[key] = found or _one_by_one(rule, wanted, extent)
        return found

    def _complete(self) -> None:
        """Fill in what each edge has of what anyone needs, now that this is known."""
        done: dict[int, NeedEdge] = {}
        for name, edges in self.readers.items():
            need = self.need[name]
            fresh: list[NeedEdge] = []
            for edge in edges:
                complete = tuple(
                    not bool((n & ~m).any()) for n, m in zip(need, edge.mask, strict=True)
                )
                nonempty = tuple(
                    every and not bool((m & ~n).any())
                    for every, n, m in zip(edge.nonempty, need, edge.mask, strict=True)
                )
                done[id(edge)] = replace(edge, complete=complete, nonempty=nonempty)
                fresh.append(done[id(edge)])
            self.readers[name] = fresh
            self.edges += fresh
        self.joint = {n: [[done[id(e)] for e in g] for g in s] for n, s in self.joint.items()}


def stays(rule: AxisRule) -> bool:
    """Whether the operator leaves the axis as it is."""
    same = isinstance(rule, Scaled) and rule.numerator == rule.denominator
    return same or isinstance(rule, Same)


def plain(rule: AxisRule) -> bool:
    """Whether a rule of data movement says exactly which positions are read: a reshape's rules
    name whole axes, and its result may be a view of which less is read."""
    return stays(rule) or not isinstance(rule, Scaled | Whole) or rule == Whole(1)


def ones(extent: int) -> Mask:
    return np.ones(extent, dtype=np.bool_)


def everything(shape: tuple[int, ...]) -> Need:
    return tuple(map(ones, shape))


def counts_of(mask: Need) -> tuple[int, ...]:
    return tuple(int(np.count_nonzero(axis)) for axis in mask)


def count_of(mask: Need) -> int:
    return prod(counts_of(mask))


def _windows(rule: Window, wanted: Mask, extent: int) -> tuple[Mask, bool]:
    """Positions under the windows at the wanted places, and whether none lies in the padding."""
    start = np.flatnonzero(wanted) * rule.stride - rule.pad_before
    stop = np.minimum(start + (rule.kernel - 1) * rule.dilation + 1, min(rule.extent, extent))
    start = np.maximum(start, 0)
    inside = start < stop
    steps = np.zeros(extent + 1, dtype=np.int64)
    np.add.at(steps, start[inside], 1)
    np.add.at(steps, stop[inside], -1)
    return np.cumsum(steps[:-1]) > 0, bool(inside.all())


def _one_by_one(rule: AxisRule, wanted: Mask, extent: int) -> tuple[Mask, bool]:
    mask = np.zeros(extent, dtype=np.bool_)
    every = True
    for position in np.flatnonzero(wanted).tolist():
        interval = rule.reach(Interval(position, position + 1)).interval
        every = every and not interval.empty
        mask[interval.start : interval.stop] = True
    return mask, every
