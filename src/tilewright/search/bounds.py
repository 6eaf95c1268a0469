"""Lower bounds on the latency, traffic and energy of any plan of a network on a machine.

docs/bounds.md has the proofs. Three facts carry them: every needed element is computed at least
once, so tiles cover it; every needed byte of the caller crosses the main memory's port; and at the
moment the last element of an operator first exists, all that leads to it is done and nothing that
depends on it has begun.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod

import numpy as np
import numpy.typing as npt

from tilewright.cost.array import ArrayModel
from tilewright.cost.base import WorkKind, Workload
from tilewright.cost.from_graph import workload_of
from tilewright.cost.models import CostModels
from tilewright.geometry.access import Access, AxisRule, Reach, Same, Scaled, Shifted, Whole
from tilewright.geometry.box import Box
from tilewright.geometry.interval import Interval
from tilewright.graph.graph import Graph, Node
from tilewright.graph.ops import spec_of
from tilewright.graph.ops.spec import Engine, Op, OpSpec, Tile
from tilewright.machine.machine import EngineKind, Machine
from tilewright.machine.parameters import TableParameters
from tilewright.program.account import main_bytes_per_cycle
from tilewright.program.constants import immediate
from tilewright.program.layout import Layouts

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Need = tuple[Mask, ...]

_MOST_AXES = 6  # states are sets of axes; a value of more counts as unknown
_MOST_PRICES = 129
_PRECISION = 1e-9  # relative; costs are floats


@dataclass(frozen=True, slots=True)
class Bounds:
    """Cycles no plan can undercut, by argument: `cycles` is the largest, `name` says which, and
    `node` at which operator where it is one of the two that look at a moment of the run.

    `matrix` and `vector` are what only these engines can run; `compute` is all work, shared at
    best. Bytes and energy are bounds of their own.
    """

    cycles: int
    name: str
    node: str
    matrix: int
    vector: int
    compute: int
    traffic: int
    suffix: int
    prefix: int
    compulsory_bytes: int
    energy_pj: float

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Every bound on latency by its name."""
        names = ("matrix", "vector", "compute", "traffic", "suffix", "prefix")
        values = (self.matrix, self.vector, self.compute, self.traffic, self.suffix, self.prefix)
        return tuple(zip(names, values, strict=True))


def bounds_of(graph: Graph, machine: Machine, dtype: str) -> Bounds:
    """Bounds for every plan of the network on the machine with elements of a type."""
    return _Bounder(graph, machine, dtype).bounds()


@dataclass(frozen=True, slots=True)
class _Edge:
    """One operand of a node as one of its outputs needs it. `mask` is what all needed elements of
    the output read; `complete` says, per axis, whether that is all that anyone needs. `nonempty`
    says whether every needed position along the driving axis reads something, all of it needed.
    `merges` marks data movement that maps elements, not axes."""

    node: int
    source: str
    target: str
    rules: tuple[AxisRule, ...] | None  # None: the operator runs whole
    mask: Need
    complete: tuple[bool, ...]
    nonempty: tuple[bool, ...]
    whole_axes: int  # output axes that no tile cuts
    merges: bool

    @property
    def all_complete(self) -> bool:
        return all(self.complete)


class _Needs:
    """Which elements of every value any plan has to have, as one mask per axis, from the outputs
    back; no entry where nothing is known."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.specs = [spec_of(graph, node) for node in graph.nodes]
        self.need: dict[str, Need] = {}
        self.edges: list[_Edge] = []
        self.joint: dict[str, list[list[_Edge]]] = {}
        self._known: dict[tuple[AxisRule, int, bytes], tuple[Mask, bool]] = {}
        readers: dict[str, list[_Edge]] = {}
        for name in graph.outputs:
            if name in graph.types:
                self.need[name] = _everything(graph.types[name].shape)
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

    def _settle(self, name: str, edges: Sequence[_Edge]) -> None:
        """What all readers need of a value: their parts joined where they differ along one axis,
        else the largest part, which is needed anyway."""
        if name in self.need:  # an output of the network
            return
        best: Need | None = None
        used: list[_Edge] = []
        for edge in sorted(edges, key=lambda e: -_count(e.mask)):
            if best is None:
                best, used = edge.mask, [edge]
                continue
            differing = [
                a for a, (m, n) in enumerate(zip(best, edge.mask, strict=True)) if (n & ~m).any()
            ]
            same = all(
                np.array_equal(m, n)
                for a, (m, n) in enumerate(zip(best, edge.mask, strict=True))
                if a not in differing
            )
            if len(differing) == 1 and same:
                (axis,) = differing
                joined = best[axis] | edge.mask[axis]
                best = (*best[:axis], joined, *best[axis + 1 :])
                used.append(edge)
        if best is not None:
            self.need[name] = best
            if len(used) > 1:
                self.joint.setdefault(name, []).append(used)

    def _edges_of(self, index: int, node: Node) -> Iterator[_Edge]:
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
                    yield _whole_edge(index, source, target, shape)
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
    ) -> _Edge | None:
        shape = self.graph.types[source].shape
        merges = spec.engine is Engine.MOVE and not all(map(_plain, rules))
        nonempty = (True,) * len(shape)
        if merges:
            kept = {rule.axis for rule in rules if _stays(rule)}
            merged = [mask for axis, mask in enumerate(need) if axis not in kept]
            if not all(mask.all() for mask in merged):
                return None  # which elements these are is no product of axes
            mask = tuple(
                need[rule.axis] if rule.axis is not None and _stays(rule) else _ones(extent)
                for rule, extent in zip(rules, shape, strict=True)
            )
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
        return _Edge(index, source, target, rules, mask, (), nonempty, whole, merges)

    def _read(self, rule: AxisRule, wanted: Mask | None, extent: int) -> tuple[Mask, bool]:
        """Input positions that the wanted output positions read, each at its least, and whether
        every one reads something."""
        if wanted is None or isinstance(rule, Whole):
            return _ones(extent), True
        if isinstance(rule, Same):
            return wanted, True
        key = (rule, extent, wanted.tobytes())
        found = self._known.get(key)
        if found is None:
            mask = np.zeros(extent, dtype=np.bool_)
            every = True
            for position in np.flatnonzero(wanted).tolist():
                interval = rule.reach(Interval(position, position + 1)).interval
                every = every and not interval.empty
                mask[interval.start : interval.stop] = True
            found = self._known[key] = (mask, every)
        return found

    def _complete(self) -> None:
        """Fill in what each edge has of what anyone needs, now that this is known."""
        done: dict[int, _Edge] = {}
        for name, edges in self.readers.items():
            need = self.need[name]
            fresh: list[_Edge] = []
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


class _Bounder:
    """Works out all bounds of one network on one machine."""

    def __init__(self, graph: Graph, machine: Machine, dtype: str) -> None:
        self.graph, self.machine, self.dtype = graph, machine, dtype
        self.layouts = Layouts.of(graph, machine, dtype)
        self.models = CostModels(machine)
        self.needs = _Needs(graph)
        self.rate = main_bytes_per_cycle(machine)
        main = machine.main_memory.name
        self.latency = min(
            (
                r.latency
                for k in machine.links
                for r in k.routes
                if main in (r.source, r.destination)
            ),
            default=0,
        )
        self.scratchpads = sum(core.memory.usable for core in machine.cores)
        loaded = (n for n in graph.constants if immediate(graph, n) is None)
        self.caller = [n for n in (*graph.inputs, *loaded) if n in self.needs.need]
        self.outputs = [n for n in graph.outputs if n in graph.producer]
        self.bit = {name: 1 << i for i, name in enumerate((*self.caller, *self.outputs))}
        self._same_floor: dict[tuple[object, ...], tuple[float, float, float]] = {}

    def bounds(self) -> Bounds:
        """All of them, and the largest."""
        self._floors()
        compulsory = self._compulsory()
        traffic = self._transfer(sum(compulsory.values()))
        compute = self._shared(np.ones((1, len(self.graph.nodes)), dtype=np.bool_))
        alone = self.prices.sum(axis=1) if len(self.graph.nodes) else np.zeros(2)
        suffix, prefix = self._moments()
        parts = {
            "matrix": (float(alone[0]), ""),
            "vector": (float(alone[1]), ""),
            "compute": (float(compute[0]), ""),
            "traffic": (traffic, ""),
            "suffix": suffix,
            "prefix": prefix,
        }
        cycles = {name: int(value * (1 - _PRECISION)) for name, (value, _) in parts.items()}
        name = max(cycles, key=lambda key: cycles[key])
        return Bounds(
            cycles[name],
            name,
            parts[name][1],
            **cycles,
            compulsory_bytes=sum(compulsory.values()),
            energy_pj=self._energy(compulsory),
        )

    def _transfer(self, size: float) -> float:
        """Cycles until so many bytes have moved: none does during the first latency."""
        return self.latency + size / self.rate if size and self.rate else 0.0

    # Work -------------------------------------------------------------------------------------

    def _floors(self) -> None:
        """Per node, the least cycles on any engine of either class, and the prices of both."""
        count = len(self.graph.nodes)
        table = [self._floor(index) for index in range(count)]
        self.matrix = np.array([row[0] for row in table], dtype=np.float64)
        self.vector = np.array([row[1] for row in table], dtype=np.float64)
        self.work_energy = sum(row[2] for row in table)
        kinds = [engine.kind for engine in self.machine.engines]
        shares = [
            values / max(1, kinds.count(kind)) if kind in kinds else np.full(count, inf)
            for values, kind in ((self.matrix, "matrix"), (self.vector, "vector"))
        ]
        self.prices = _prices(shares[0], shares[1])

    def _floor(self, index: int) -> tuple[float, float, float]:
        node, known = self.graph.nodes[index], self.needs.specs[index]
        if known is None or known[0].engine is Engine.MOVE or self._folds(index):
            return 0.0, 0.0, 0.0
        spec, op = known
        written = [name for name in node.writes if name in self.needs.need]
        if len(written) != 1 or spec.access(op, node.outputs.index(written[0])) is None:
            return 0.0, 0.0, 0.0
        works = self._works(index, node, spec, op, written[0])
        found = self._same_floor.get(works)
        if found is None:
            able = [self._engines(work) for work in works]
            found = self._same_floor[works] = (
                min(row[0] for row in able),
                min(row[1] for row in able),
                min(row[2] for row in able),
            )
        return found

    def _engines(self, work: Workload) -> tuple[float, float, float]:
        """Floors on the classes of engines, and the least energy."""
        least: dict[EngineKind, float] = {"matrix": inf, "vector": inf}
        energy, even = inf, 1.0
        # A tile of work that is legal on arrays is legal too: where every core has one, no other
        # engine gets any of it.
        rows = [{e.kind for e in self.models.able(core, work)} for core in self.machine.cores]
        able = {e.kind for e in self.machine.engines if self.models.model(e).supports(work)}
        if all(row == {"matrix"} for row in rows):
            able = {"matrix"}
        # Of work that both classes share, parts of windows need not read their part of the input.
        windows = len(able) > 1 and (work.taps > 1 or work.stride_height * work.stride_width > 1)
        alone = replace(work, in_height=0, in_width=0) if windows else work
        for engine in self.machine.engines:
            model = self.models.model(engine)
            table = isinstance(engine.parameters, TableParameters)
            if engine.kind not in able and not table:
                continue
            if not model.supports(work):
                if table:
                    least[engine.kind], energy = 0.0, 0.0  # other tiles may have rows
                continue
            array = isinstance(model, ArrayModel)
            least[engine.kind] = min(least[engine.kind], model.floor(alone if array else work))
            even = min(even, model.evenness(work)) if isinstance(model, ArrayModel) else even
            energy = min(energy, 0.0 if table else model.cost(work).energy_pj)
        least["vector"] *= even
        if least["matrix"] == least["vector"] == inf:
            return 0.0, 0.0, 0.0
        return least["matrix"], least["vector"], energy

    def _works(
        self, index: int, node: Node, spec: OpSpec, op: Op, written: str
    ) -> tuple[Workload, ...]:
        """The needed part of the operator as one piece of work, positions that nobody needs left
        out; two where small tiles of it count as another kind."""
        out = Box.whole(_counts(self.needs.need[written]))
        boxes = tuple(out if name == written else None for name in node.outputs)
        masks = {
            (edge.source, edge.target): edge.mask
            for name in dict.fromkeys(node.inputs)
            for edge in self.needs.readers.get(name, ())
            if edge.node == index
        }
        inputs = tuple(
            _reaches(_counts(masks[name, written])) if (name, written) in masks else None
            for name in node.inputs
        )
        work = workload_of(spec, op, Tile(boxes, inputs), self.dtype)
        if len(out) > 4:  # folded axes do not say which input rows are read
            work = replace(work, in_height=0, in_width=0)
        if spec.family == "element-wise" and None not in inputs:
            full = Tile(boxes, (_reaches(out.shape),) * len(inputs))
            single = workload_of(spec, op, full, self.dtype)
            if single.kind is WorkKind.ELTWISE and single.kind is not work.kind:
                return work, single
        return (work,)

    def _folds(self, index: int) -> bool:
        """Whether the operator may run inside a matrix operator before it."""
        known = self.needs.specs[index]
        while known is not None and known[0].folds:
            maker = self._maker(index)
            while maker is not None and self._moves(maker):
                maker = self._maker(maker)
            if maker is None:
                return False
            index, known = maker, self.needs.specs[maker]
            if known is None:
                return False
            if not known[0].folds:
                return self._floor(maker)[0] < inf
        return False

    def _maker(self, index: int) -> int | None:
        return self.graph.producer.get(self.graph.nodes[index].inputs[0])

    def _moves(self, index: int) -> bool:
        known = self.needs.specs[index]
        return known is not None and known[0].engine is Engine.MOVE

    def _shared(self, chosen: Mask) -> Floats:
        """For every row of chosen nodes: cycles in which the engines can have done them all."""
        if not self.prices.size:
            return np.zeros(len(chosen))
        return (chosen.astype(np.float64) @ self.prices.T).max(axis=1)

    # Bytes ------------------------------------------------------------------------------------

    def _size(self, name: str) -> int:
        """Needed bytes of a value."""
        return _count(self.needs.need[name]) * self.layouts.item(name)

    def _compulsory(self) -> Mapping[str, int]:
        """Bytes of inputs, constants and outputs that move at least once."""
        moved: dict[str, int] = {}
        order = [name for node in self.graph.nodes for name in node.writes]
        for name in (*reversed(order), *self.caller):
            if name not in self.needs.need:
                continue
            moved[name] = self._size(name) if name in self.graph.outputs else 0
            for edge in self.needs.readers.get(name, ()):
                moved[name] = max(moved[name], self._moved_through(edge, moved))
        return {name: moved.get(name, 0) for name in (*self.caller, *self.outputs)}

    def _moved_through(self, edge: _Edge, moved: Mapping[str, int]) -> int:
        """What one reader moves of a value. Data movement within the main memory moves as much as
        it writes, and as a view it moves what its own readers do."""
        size = _count(edge.mask) * self.layouts.item(edge.source)
        if not self._moves(edge.node):
            return size
        first = edge.source == self.graph.nodes[edge.node].inputs[0]
        joined = any(isinstance(rule, Shifted) for rule in edge.rules or ())
        return min(size, moved.get(edge.target, 0)) if first or joined else 0

    def _energy(self, compulsory: Mapping[str, int]) -> float:
        """pJ of all work at its cheapest, and of the main memory's side of what has to move."""
        main = self.machine.main_memory
        each = dict.fromkeys(self.outputs, main.write_pj_per_byte)
        moved = (size * each.get(n, main.read_pj_per_byte) for n, size in compulsory.items())
        return self.work_energy + sum(moved)

    # Moments ----------------------------------------------------------------------------------

    def _moments(self) -> tuple[tuple[float, str], tuple[float, str]]:
        """The two bounds that look at one operator: when its last element first exists, and when
        its first task starts."""
        nodes = [
            (i, name)
            for i, node in enumerate(self.graph.nodes)
            for name in node.writes
            if name in self.needs.need and sum(1 for _ in node.writes) == 1
        ]
        if not nodes:
            return (0.0, ""), (0.0, "")
        flow = _Flow(self.graph, self.needs, self.bit, self._moves)
        position = {name: k for k, (_, name) in enumerate(nodes)}
        required = flow.required(position)
        ready = self._shared(self._done_matrix(required, nodes))
        sizes = self._sizes(required, len(nodes))
        last = [flow.after(name, flow.least(name)) for _, name in nodes]
        following = [flow.after(name, flow.most(name)) for _, name in nodes]
        late = self._shared(_matrix([row[1] for row in last], len(self.graph.nodes)))
        rest = self._shared(
            _matrix(
                [row[1] | (1 << i) for row, (i, _) in zip(following, nodes, strict=True)],
                len(self.graph.nodes),
            )
        )
        weights, stores = self._bytes_of([row[0] for row in last])
        loads, _ = self._bytes_of([flow.before(name, flow.least(name)) for _, name in nodes])
        suffix, prefix = (0.0, ""), (0.0, "")
        for k, (index, _) in enumerate(nodes):
            before = max(float(ready[k]), self._transfer(sizes[k]))
            moved = max(0.0, weights[k] - self.scratchpads) + stores[k]
            streaming = moved / self.rate if self.rate else 0.0
            title = self.graph.nodes[index].name
            suffix = max(suffix, (before + max(streaming, float(late[k])), title))
            prefix = max(prefix, (self._transfer(loads[k]) + float(rest[k]), title))
        return suffix, prefix

    def _done_matrix(self, required: Mapping[str, int], nodes: list[tuple[int, str]]) -> Mask:
        """For every node with one output, which nodes are done when its last element exists."""
        result = np.zeros((len(nodes), len(self.graph.nodes)), dtype=np.bool_)
        for index, name in nodes:
            result[:, index] = _bits(required.get(name, 0), len(nodes))
        return result

    def _sizes(self, required: Mapping[str, int], count: int) -> list[float]:
        """Bytes of inputs and constants that have been loaded by then."""
        total = np.zeros(count)
        for name in self.caller:
            if not any(self._moves(edge.node) for edge in self.needs.readers.get(name, ())):
                total += _bits(required.get(name, 0), count) * float(self._size(name))
        return total.tolist()

    def _bytes_of(self, sets: Sequence[int]) -> tuple[list[float], list[float]]:
        """For every set, bytes of the caller's values in it, and of the outputs in it."""
        sizes = np.array([self._size(name) for name in self.bit], dtype=np.float64)
        split = len(self.caller)
        chosen = _matrix(sets, len(self.bit)).astype(np.float64)
        arriving = chosen[:, :split] @ sizes[:split]
        return arriving.tolist(), (chosen[:, split:] @ sizes[split:]).tolist()


class _Flow:
    """What depends on what, for elements of which only some axes are known to be whole.

    A state is a set of axes (as bits): along these, all needed positions are meant, along the
    others at least one. Sets of values and of nodes are bits too.
    """

    def __init__(
        self,
        graph: Graph,
        needs: _Needs,
        bit: Mapping[str, int],
        moves: Callable[[int], bool],
    ) -> None:
        self.graph, self.needs, self.bit, self.moves = graph, needs, bit, moves
        self._after: dict[tuple[str, int], tuple[int, int]] = {}
        self._before: dict[tuple[str, int], int] = {}
        self.counts = {name: _counts(need) for name, need in needs.need.items()}
        order = [name for node in graph.nodes for name in node.writes if name in needs.need]
        operands: dict[int, list[_Edge]] = {}
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

    def before(self, name: str, state: int) -> int:
        """Inputs and constants of which every needed byte is needed for elements in this state."""
        return self._before.get((name, state), 0)

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
            reached = _forward(edge, state, self.counts[edge.target])
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
            if edge.target != target or edge.source not in self.graph.constants:
                continue
            whole = _backward(edge, state, self.counts) == (1 << len(edge.mask)) - 1
            if whole and edge.source in self.bit:
                found |= self.bit[edge.source]
        return found

    def _precede(self, name: str, state: int) -> int:
        index = self.graph.producer[name]
        found = 0
        for edge in self.operands.get(index, ()):
            if edge.target != name:
                continue
            reached = _backward(edge, state, self.counts)
            if reached is None:
                continue
            if edge.source in self.graph.producer:
                found |= self.before(edge.source, reached)
            elif reached == self.most(edge.source) and not self.moves(index):
                found |= self.bit.get(edge.source, 0)
        return found


def _forward(edge: _Edge, state: int, counts: tuple[int, ...]) -> int | None:
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


def _forward_merged(edge: _Edge, state: int, counts: tuple[int, ...]) -> int | None:
    """Axes that stay keep their state; the others are whole only together."""
    assert edge.rules is not None
    if not edge.all_complete and state != (1 << len(edge.rules)) - 1:
        return None
    kept = {rule.axis: axis for axis, rule in enumerate(edge.rules) if _stays(rule)}
    merged = all(
        state >> axis & 1 or len(mask) == 1 or axis in kept.values()
        for axis, mask in enumerate(edge.mask)
    )
    reached = 0
    for out, count in enumerate(counts):
        full = bool(state >> kept[out] & 1) if out in kept else merged
        reached |= (full or count <= 1) << out
    return reached


def _backward(edge: _Edge, state: int, counts: Mapping[str, tuple[int, ...]]) -> int | None:
    """State of what output elements in a state read; None where they may read nothing."""
    found = counts[edge.source]
    if edge.rules is None:
        return (1 << len(found)) - 1
    merged = edge.merges and _merged_whole(edge, state, len(counts[edge.target]))
    whole = state | edge.whole_axes
    reached = 0
    for axis, rule in enumerate(edge.rules):
        if edge.merges and not _stays(rule):
            full = merged
        elif rule.axis is None:
            full = True
        else:
            full = bool(whole >> rule.axis & 1)
            if not full and not edge.nonempty[axis]:
                return None
        reached |= ((full and edge.complete[axis]) or found[axis] <= 1) << axis
    return reached


def _merged_whole(edge: _Edge, state: int, rank: int) -> bool:
    """Whether all output axes that are not simply kept are whole."""
    kept = {rule.axis for rule in edge.rules or () if _stays(rule)}
    return all(state >> out & 1 for out in range(rank) if out not in kept)


def _stays(rule: AxisRule) -> bool:
    """Whether the operator leaves the axis as it is."""
    same = isinstance(rule, Scaled) and rule.numerator == rule.denominator
    return same or isinstance(rule, Same)


def _plain(rule: AxisRule) -> bool:
    """Whether a rule of data movement says exactly which positions are read: a reshape's rules
    name whole axes, and its result may be a view of which less is read."""
    return _stays(rule) or not isinstance(rule, Scaled | Whole) or rule == Whole(1)


def _whole_edge(index: int, source: str, target: str, shape: tuple[int, ...]) -> _Edge:
    mask = _everything(shape)
    return _Edge(index, source, target, None, mask, (), (True,) * len(shape), 0, False)


def _prices(matrix: Floats, vector: Floats) -> Floats:
    """What each node costs at prices of the two classes that add up to one, a row per price: first
    all for the matrix engines, then all for the vector engines. A node takes what is cheaper, so
    the sum of a row is a bound; the best row is one at which some node is indifferent."""
    both = np.isfinite(matrix) & np.isfinite(vector) & (matrix > 0) & (vector > 0)
    points = np.unique(np.round(vector[both] / (matrix[both] + vector[both]), 12))
    if len(points) > _MOST_PRICES:
        points = points[np.linspace(0, len(points) - 1, _MOST_PRICES).astype(int)]
    shares = np.array([1.0, 0.0, *points.tolist()])[:, None]
    rows = np.minimum(_scaled(shares, matrix), _scaled(1 - shares, vector))
    return np.where(np.isfinite(rows), rows, 0.0)


def _scaled(shares: Floats, values: Floats) -> Floats:
    """Products in which what cannot run stays impossible even at price nothing."""
    finite = np.where(np.isfinite(values), values, 0.0)[None, :] * shares
    return np.where(np.isfinite(values)[None, :], finite, inf)


def _matrix(rows: Sequence[int], count: int) -> Mask:
    """Sets as rows of a matrix."""
    if not rows:
        return np.zeros((0, count), dtype=np.bool_)
    return np.stack([_bits(row, count) for row in rows])


def _bits(value: int, count: int) -> Mask:
    """The bits of a set, the first one first."""
    data = np.frombuffer(value.to_bytes((count + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(data, bitorder="little")[:count].astype(np.bool_)


def _reaches(shape: tuple[int, ...]) -> tuple[Reach, ...]:
    return tuple(Reach(Interval(0, extent)) for extent in shape)


def _ones(extent: int) -> Mask:
    return np.ones(extent, dtype=np.bool_)


def _everything(shape: tuple[int, ...]) -> Need:
    return tuple(map(_ones, shape))


def _counts(mask: Need) -> tuple[int, ...]:
    return tuple(int(np.count_nonzero(axis)) for axis in mask)


def _count(mask: Need) -> int:
    return prod(_counts(mask))
