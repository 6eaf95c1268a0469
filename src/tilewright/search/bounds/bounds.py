"""Lower bounds on the latency, traffic and energy of any plan of a network on a machine.

docs/bounds.md has the proofs. Three facts carry them: every needed element is computed at least
once, so tiles cover it; every needed byte of the caller crosses the main memory's port; and at the
moment the last element of an operator first exists, all that leads to it is done and nothing that
depends on it has begun.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import numpy.typing as npt

from tilewright.cost.array import ArrayModel
from tilewright.cost.base import WorkKind, Workload
from tilewright.cost.from_graph import workload_of
from tilewright.cost.models import CostModels
from tilewright.geometry.access import Reach, Shifted
from tilewright.geometry.box import Box
from tilewright.geometry.interval import Interval
from tilewright.graph.graph import Graph, Node
from tilewright.graph.ops.spec import Engine, Op, OpSpec, Tile
from tilewright.machine.machine import EngineKind, Machine
from tilewright.machine.parameters import TableParameters
from tilewright.program.account import main_bytes_per_cycle
from tilewright.program.constants import immediate
from tilewright.program.layout import Layouts
from tilewright.search.bounds.flow import Flow
from tilewright.search.bounds.needs import Edge, Needs, count_of, counts_of

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

_MOST_PRICES = 129
_CHAIN_PRICES = 5  # of these, for the bound that looks at all pairs of operators
_PRECISION = 1e-9  # relative; costs are floats


@dataclass(frozen=True, slots=True)
class Bounds:
    """Cycles no plan can undercut, by argument: `cycles` is the largest, `name` says which, and
    `node` at which operator where it is one of those that look at a moment of the run.

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
    chain: int
    compulsory_bytes: int
    energy_pj: float

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Every bound on latency by its name."""
        return (
            ("matrix", self.matrix),
            ("vector", self.vector),
            ("compute", self.compute),
            ("traffic", self.traffic),
            ("suffix", self.suffix),
            ("prefix", self.prefix),
            ("chain", self.chain),
        )


def bounds_of(graph: Graph, machine: Machine, dtype: str) -> Bounds:
    """Bounds for every plan of the network on the machine with elements of a type."""
    return _Bounder(graph, machine, dtype).bounds()


class _Bounder:
    """Works out all bounds of one network on one machine."""

    def __init__(self, graph: Graph, machine: Machine, dtype: str) -> None:
        self.graph, self.machine, self.dtype = graph, machine, dtype
        self.layouts = Layouts.of(graph, machine, dtype)
        self.models = CostModels(machine)
        self.needs = Needs(graph)
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
        suffix, prefix, chain = self._moments()
        parts = {
            "matrix": (float(alone[0]), ""),
            "vector": (float(alone[1]), ""),
            "compute": (float(compute[0]), ""),
            "traffic": (traffic, ""),
            "suffix": suffix,
            "prefix": prefix,
            "chain": chain,
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
        out = Box.whole(counts_of(self.needs.need[written]))
        boxes = tuple(out if name == written else None for name in node.outputs)
        masks = {
            (edge.source, edge.target): edge.mask
            for name in dict.fromkeys(node.inputs)
            for edge in self.needs.readers.get(name, ())
            if edge.node == index
        }
        inputs = tuple(
            _reaches(counts_of(masks[name, written])) if (name, written) in masks else None
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
        while known is not None and known[0].folded(known[1]):
            maker = self._maker(index)
            while maker is not None and self._moves(maker):
                maker = self._maker(maker)
            if maker is None:
                return False
            index, known = maker, self.needs.specs[maker]
            if known is None:
                return False
            if not known[0].folded(known[1]):
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
        return count_of(self.needs.need[name]) * self.layouts.item(name)

    def _compulsory(self) -> Mapping[str, int]:
        """Bytes of inputs, constants and outputs that move at least once."""
        moved: dict[str, int] = {}
        order = [name for node in self.graph.nodes for name in node.writes]
        for name in (*reversed(order), *self.caller):
            if name not in self.needs.need:
                continue
            moved[name] = self._size(name) if name in self.outputs else 0
            for edge in self.needs.readers.get(name, ()):
                moved[name] = max(moved[name], self._moved_through(edge, moved))
        return {name: moved.get(name, 0) for name in (*self.caller, *self.outputs)}

    def _moved_through(self, edge: Edge, moved: Mapping[str, int]) -> int:
        """What one reader moves of a value. Data movement within the main memory moves as much as
        it writes, and as a view it moves what its own readers do."""
        size = count_of(edge.mask) * self.layouts.item(edge.source)
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

    def _moments(self) -> tuple[tuple[float, str], ...]:
        """The bounds that look at operators one by one: when the last element of one first exists,
        when its first task starts; and one such moment after the other."""
        nodes = [
            (i, name)
            for i, node in enumerate(self.graph.nodes)
            for name in node.writes
            if name in self.needs.need and sum(1 for _ in node.writes) == 1
        ]
        if not nodes:
            return (0.0, ""), (0.0, ""), (0.0, "")
        flow = Flow(self.graph, self.needs, self.bit, self._moves)
        count = len(self.graph.nodes)
        required = flow.required({name: k for k, (_, name) in enumerate(nodes)})
        last = [flow.after(name, flow.least(name)) for _, name in nodes]
        any_of = [flow.after(name, flow.most(name))[1] | 1 << i for i, name in nodes]
        first = [flow.before(name, flow.least(name)) for _, name in nodes]
        # What is done when a moment comes, and what has not begun: ends, and starts.
        done = self._done_matrix(required, nodes)
        waiting = _matrix([row[1] for row in last], count)
        needed = _matrix([row[1] for row in first], count)
        following = _matrix(any_of, count)
        weights, stores = self._bytes_of([row[0] for row in last])
        loads, _ = self._bytes_of([row[0] for row in first])
        arrived = self._sizes(required, len(nodes))
        ends = np.maximum(self._shared(done), [self._transfer(size) for size in arrived])
        starts = np.maximum(self._shared(needed), [self._transfer(size) for size in loads])
        streamed = np.maximum(0.0, np.array(weights) - self.scratchpads) + np.array(stores)
        late = np.maximum(self._shared(waiting), streamed / self.rate if self.rate else 0.0)
        rest = self._shared(following)
        chained = self._chained(
            np.stack((starts, ends), axis=1).ravel(),
            np.stack((following, waiting), axis=1).reshape(-1, count),
            np.stack((needed, done), axis=1).reshape(-1, count),
        )
        titles = [self.graph.nodes[index].name for index, _ in nodes]
        return (
            _largest(ends + late, titles),
            _largest(starts + rest, titles),
            _largest(np.maximum(chained[::2] + rest, chained[1::2] + late), titles),
        )

    def _chained(self, moments: Floats, waiting: Mask, done: Mask) -> Floats:
        """The moments, none before those it waits for and what lies between the two: operators that
        begin after the one and are done by the other. A moment waits for earlier ones only."""
        rows = self.prices[:2]
        if len(self.prices) > 2:
            picked = np.linspace(2, len(self.prices) - 1, _CHAIN_PRICES).astype(int)
            rows = np.concatenate((rows, self.prices[np.unique(picked)]))
        first, second = waiting.astype(np.float64), done.astype(np.float64)
        between = np.zeros((len(moments), len(moments)))
        for row in rows:
            between = np.maximum(between, (first * row) @ second.T)
        apart = np.where(first @ second.T > 0, between, -inf)
        found = moments.copy()
        for k in range(len(found)):
            found[k] = max(found[k], float((found[:k] + apart[:k, k]).max(initial=0.0)))
        return found

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


def _largest(values: Floats, titles: Sequence[str]) -> tuple[float, str]:
    """The largest value, and where it is."""
    place = int(values.argmax())
    return float(values[place]), titles[place]


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
