"""What depends on one element of a value, and on what one depends: per axis, all or some."""

from collections.abc import Callable, Iterator, Mapping
from math import prod

from tilewright.graph.graph import Graph
from tilewright.graph.ops import SPECS
from tilewright.search.bounds.needs import ElementNeeds, NeedEdge, counts_of, stays

_MOST_AXES = 6  # states are sets of axes; a value of more counts as unknown


class Flow:
    """What depends on what, for elements of which only some axes are known to be whole.

    A state is a set of axes (as bits): along these, all needed positions are meant, along the
    others at least one. Sets of values and of nodes are bits too.
    """

    def __init__(
        self,
        graph: Graph,
        needs: ElementNeeds,
        bit: Mapping[str, int],
        moves: Callable[[int], bool],
    ) -> None:
        self.graph, self.needs, self.bit, self.moves = graph, needs, bit, moves
        self._after: dict[tuple[str, int], tuple[int, int]] = {}
        self._before: dict[tuple[str, int], tuple[int, int]] = {}
        self.counts = {name: counts_of(need) for name, need in needs.need.items()}
        order = [name for node in graph.nodes for name in node.writes if name in needs.need]
        operands: dict[int, list[NeedEdge]] = {}
        for edge in needs.edges:
            operands.setdefault(edge.node, []).append(edge)
        self.operands = operands
        for name in reversed(order):
            for state in self._states(name):
                self._after[name, state] = self._follow(name, state)
        for name in order:
            for state in self._states(name):
                self._before[name, state] = self._precede(name, state)

    def least(self, name: str) -> int:
        """The state of a single element: only axes of one needed position are whole."""
        return sum(1 << axis for axis, count in enumerate(self.counts[name]) if count <= 1)

    def most(self, name: str) -> int:
        """The state of all needed elements."""
        return (1 << len(self.needs.need[name])) - 1

    def _states(self, name: str) -> Iterator[int]:
        if len(self.needs.need[name]) > _MOST_AXES:
            return
        least = self.least(name)
        yield from (s for s in range(self.most(name) + 1) if s & least == least)

    def after(self, name: str, state: int) -> tuple[int, int]:
        """Constants and outputs of which every needed byte, and nodes of which every needed
        element, depends on elements in this state."""
        return self._after.get((name, state), (0, 0))

    def before(self, name: str, state: int) -> tuple[int, int]:
        """Inputs and constants of which every needed byte, and nodes of which every needed element,
        is needed for elements in this state."""
        return self._before.get((name, state), (0, 0))

    def follows(self, edge: NeedEdge) -> bool:
        """Whether whatever element of its operand comes last, some element of a node reads it."""
        return self._known(edge) and self._forward(edge, self.least(edge.source)) is not None

    def precedes(self, edge: NeedEdge) -> bool:
        """Whether any element of a node reads some needed element of its operand."""
        return self._known(edge) and self._backward(edge, self.least(edge.target)) is not None

    def _known(self, edge: NeedEdge) -> bool:
        names = (edge.source, edge.target)
        return all(name in self.counts and len(self.counts[name]) <= _MOST_AXES for name in names)

    def required(self, position: Mapping[str, int]) -> dict[str, int]:
        """Value -> the nodes (by position) whose needed elements need all needed ones of it."""
        found: dict[str, int] = {}
        order = [name for node in self.graph.nodes for name in node.writes]
        for name in (*reversed(order), *self.graph.inputs, *self.graph.constants):
            if name not in self.needs.need:
                continue
            mine = 1 << position[name] if name in position else 0
            for edge in self.needs.readers.get(name, ()):
                if edge.all_complete:
                    mine |= found.get(edge.target, 0)
            for group in self.needs.joint.get(name, ()):
                together = -1
                for edge in group:
                    together &= found.get(edge.target, 0)
                mine |= together
            found[name] = mine
        return found

    def _follow(self, name: str, state: int) -> tuple[int, int]:
        values = nodes = 0
        if name in self.bit and state == self.most(name):
            values |= self.bit[name]
        for edge in self.needs.readers.get(name, ()):
            reached = self._forward(edge, state)
            if reached is None:
                continue
            if reached == self.most(edge.target):
                nodes |= 1 << edge.node
            values |= self._constants(edge.node, edge.target, reached)
            more = self.after(edge.target, reached)
            values, nodes = values | more[0], nodes | more[1]
        return values, nodes

    def _constants(self, index: int, target: str, state: int) -> int:
        """Constants of a node that its output elements in a state read entirely."""
        if self.moves(index):
            return 0
        found = 0
        for edge in self.operands.get(index, ()):
            read = edge.target == target and edge.source in self.graph.constants
            if read and self._backward(edge, state) == (1 << len(edge.mask)) - 1:
                found |= self.bit.get(edge.source, 0)
        return found

    def _precede(self, name: str, state: int) -> tuple[int, int]:
        index = self.graph.producer[name]
        values = nodes = 0
        for edge in self.operands.get(index, ()):
            if edge.target != name:
                continue
            reached = self._backward(edge, state)
            if reached is None:
                continue
            whole = reached == self.most(edge.source)
            maker = self.graph.producer.get(edge.source)
            if maker is not None:
                more = self.before(edge.source, reached)
                values, nodes = values | more[0], nodes | more[1]
                if whole and sum(1 for _ in self.graph.nodes[maker].writes) == 1:
                    nodes |= 1 << maker
            elif whole and not self.moves(index):
                values |= self.bit.get(edge.source, 0)
        return values, nodes

    def _forward(self, edge: NeedEdge, state: int) -> int | None:
        """State of the output elements that read elements in a state; None where there may be
        none."""
        found = _forward(edge, state, self.counts[edge.target])
        return self._better(found, edge, state, edge.source, edge.target)

    def _backward(self, edge: NeedEdge, state: int) -> int | None:
        """State of what output elements in a state read; None where they may read nothing."""
        found = _backward(edge, state, self.counts)
        return self._better(found, edge, state, edge.target, edge.source)

    def _better(
        self, found: int | None, edge: NeedEdge, state: int, here: str, there: str
    ) -> int | None:
        """The larger of two states on the other side of a reshape of which all is needed: by axes
        that stay, or by how the elements lie in a row."""
        spec = SPECS.get(self.graph.nodes[edge.node].kind)
        before, after = self.graph.types[here].shape, self.graph.types[there].shape
        whole = self.counts[here] == before and self.counts.get(there) == after
        if spec is None or not spec.keeps_order or not whole or 0 in after:
            return found
        other = _reshaped(state, before, after)
        return other if found is None or other.bit_count() > found.bit_count() else found


def _reshaped(state: int, before: tuple[int, ...], after: tuple[int, ...]) -> int:
    """The state after a reshape: whole axes at the front are every so many-th element, those at the
    end are runs without gaps."""
    count, total = len(before), prod(after)
    front = next((k for k in range(count) if not state >> k & 1), count)
    back = next((k for k in range(count, 0, -1) if not state >> k - 1 & 1), 0)
    outer, run = prod(before[:front]), prod(before[back:])
    reached, seen = 0, 1
    for axis, extent in enumerate(after):
        behind = total // seen
        seen *= extent
        reached |= (outer % seen == 0 or run % behind == 0) << axis
    return reached


def _forward(edge: NeedEdge, state: int, counts: tuple[int, ...]) -> int | None:
    """State of the output elements that read elements in a state; None where there may be none."""
    if edge.rules is None:
        return (1 << len(counts)) - 1
    if edge.merges:
        return _forward_merged(edge, state, counts)
    drivers: dict[int, list[int]] = {}
    for axis, rule in enumerate(edge.rules):
        if not edge.complete[axis] and not (state >> axis & 1 and edge.nonempty[axis]):
            return None
        if rule.axis is not None:
            drivers.setdefault(rule.axis, []).append(axis)
    reached = 0
    for out, count in enumerate(counts):
        driving = drivers.get(out, [])
        full = all(state >> axis & 1 and edge.nonempty[axis] for axis in driving)
        if len(driving) > 1 and not full:
            return None
        if full or count <= 1 or edge.whole_axes >> out & 1:
            reached |= 1 << out
    return reached


def _forward_merged(edge: NeedEdge, state: int, counts: tuple[int, ...]) -> int | None:
    """Axes that stay keep their state; the others are whole only together."""
    assert edge.rules is not None
    if not all(edge.nonempty):  # some output elements may read nothing that is needed
        return None
    if not edge.all_complete and state != (1 << len(edge.rules)) - 1:
        return None
    kept = {rule.axis: axis for axis, rule in enumerate(edge.rules) if stays(rule)}
    merged = not edge.partial and all(
        state >> axis & 1 or len(mask) == 1 or axis in kept.values()
        for axis, mask in enumerate(edge.mask)
    )
    reached = 0
    for out, count in enumerate(counts):
        full = bool(state >> kept[out] & 1) if out in kept else merged
        reached |= (full or count <= 1) << out
    return reached


def _backward(edge: NeedEdge, state: int, counts: Mapping[str, tuple[int, ...]]) -> int | None:
    """State of what output elements in a state read; None where they may read nothing."""
    found = counts[edge.source]
    if edge.rules is None:
        return (1 << len(found)) - 1
    # Whether all output axes that are not simply kept are whole.
    kept = {rule.axis for rule in edge.rules if stays(rule)}
    others = (out for out in range(len(counts[edge.target])) if out not in kept)
    merged = edge.merges and all(state >> out & 1 for out in others)
    if edge.merges and not merged and (edge.partial or not all(edge.nonempty)):
        return None
    whole = state | edge.whole_axes
    reached = 0
    for axis, rule in enumerate(edge.rules):
        if edge.merges and not stays(rule):
            full = merged
        elif rule.axis is None:
            full = True
        else:
            full = bool(whole >> rule.axis & 1)
            if not full and not edge.nonempty[axis]:
                return None
        reached |= ((full and edge.complete[axis]) or found[axis] <= 1) << axis
    return reached
