"""Lower bounds on the latency, traffic and energy of any plan of a network on a machine.

docs/bounds.md has the proofs. Three facts carry them: every needed element is computed at least
once, so tiles cover it; every needed byte of the caller crosses the main memory's port; and at the
moment the last element of an operator first exists, all that leads to it is done and nothing that
depends on it has begun.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from tilewright.geometry.access import Shifted
from tilewright.graph.graph import Graph
from tilewright.graph.ops import runs_whole
from tilewright.machine.machine import Machine
from tilewright.machine.rates import core_bytes_per_cycle, main_bytes_per_cycle
from tilewright.program.constants import immediate
from tilewright.program.layout import Layouts
from tilewright.search.bounds.floors import Floors
from tilewright.search.bounds.flow import Flow
from tilewright.search.bounds.needs import ElementNeeds, Mask, NeedEdge, count_of
from tilewright.search.bounds.prices import Floats, class_times, price_rows
from tilewright.tables import picked

Moments = tuple[tuple[float, str], ...]
"""Suffix, prefix and chain: cycles, and at which operator."""

_CHAIN_PRICES = 5  # of these, for the bound that looks at all pairs of operators
_LOADED = {"activations", "weights"}  # roles of memories that what is loaded lies in
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
        names = "matrix vector compute traffic suffix prefix chain".split()
        return tuple(picked(self, *names).items())


def bounds_of(graph: Graph, machine: Machine, dtype: str) -> Bounds:
    """Bounds for every plan of the network on the machine with elements of a type."""
    return _Bounder(graph, machine, dtype).bounds()


def busy_cycles(graph: Graph, machine: Machine, dtype: str) -> int:
    """The bound of engines alone, which takes a fraction of the time of all."""
    return int(_Bounder(graph, machine, dtype).busy()["compute"] * (1 - _PRECISION))


class _Bounder:
    """Works out all bounds of one network on one machine. Of values in `common`, only what all of
    their readers read is asked for."""

    def __init__(
        self, graph: Graph, machine: Machine, dtype: str, common: frozenset[str] = frozenset()
    ) -> None:
        self.graph, self.machine, self.dtype = graph, machine, dtype
        self.layouts = Layouts.of(graph, machine, dtype)
        self.needs = ElementNeeds(graph, common)
        self.floors = Floors(graph, machine, dtype, self.needs)
        self.rate = main_bytes_per_cycle(machine)
        first = self._least_latency(loads=True)
        self.exit = self._least_latency(loads=False)
        self.latency = min(first, self.exit)
        loaded = [n for n in graph.constants if immediate(graph, n) is None]
        # Whether every operator reads something that was loaded, or made of what was.
        brought = {*graph.inputs, *graph.producer, *loaded}
        self.entry = first if all(brought.intersection(n.inputs) for n in graph.nodes) else 0
        own = [m for core in machine.cores for m in core.memories if {*m.roles} & _LOADED]
        self.held_by_cores = sum(memory.usable for memory in own)
        self.held_on_chip = self.held_by_cores + sum(memory.usable for memory in machine.on_chip)
        self.caller = [n for n in (*graph.inputs, *loaded) if n in self.needs.need]
        self.outputs = [n for n in graph.outputs if n in graph.producer]
        self.bit = {name: 1 << i for i, name in enumerate((*self.caller, *self.outputs))}

    def bounds(self) -> Bounds:
        """All of them, and the largest."""
        busy = self.busy()
        compulsory = self._compulsory()
        traffic = self._transfer(sum(compulsory.values()))
        suffix, prefix, chain = self._at_forks(self._moments())
        parts = {
            **{name: (cycles, "") for name, cycles in busy.items()},
            "traffic": (traffic, ""),
            "suffix": suffix,
            "prefix": prefix,
            "chain": chain,
        }
        cycles = {name: int(value * (1 - _PRECISION)) for name, (value, _) in parts.items()}
        name = max(cycles, key=lambda key: cycles[key])
        # Energy of all work at its cheapest, and of the main memory's side of what has to move.
        main = self.machine.main_memory
        each = dict.fromkeys(self.outputs, main.write_pj_per_byte)
        moved = (size * each.get(n, main.read_pj_per_byte) for n, size in compulsory.items())
        return Bounds(
            cycles[name],
            name,
            parts[name][1],
            **cycles,
            compulsory_bytes=sum(compulsory.values()),
            energy_pj=self.work_energy + sum(moved),
        )

    def busy(self) -> dict[str, float]:
        """The bounds of engines: one kind alone, and all work shared at best."""
        self._prices()
        compute = self._shared(np.ones((1, len(self.graph.nodes)), dtype=np.bool_))
        alone = self.prices.sum(axis=1) if len(self.graph.nodes) else np.zeros(2)
        cycles = {"matrix": alone[0], "vector": alone[1], "compute": compute[0]}
        # Something is loaded before all work on cores, and stored behind it.
        return {
            name: self.entry + float(work) + self.exit if work else 0.0
            for name, work in cycles.items()
        }

    def _least_latency(self, *, loads: bool) -> int:
        """Cycles of any copy out of the main memory, or into it, before its first byte moves."""
        main = self.machine.main_memory.name
        routes = [route for link in self.machine.links for route in link.routes]
        ends = (route.source if loads else route.destination for route in routes)
        pairs = zip(routes, ends, strict=True)
        return min((route.latency for route, end in pairs if end == main), default=0)

    def _transfer(self, size: float) -> float:
        """Cycles until so many bytes have moved: none does during the first latency."""
        return self.latency + size / self.rate if size and self.rate else 0.0

    # Work -------------------------------------------------------------------------------------

    def _prices(self) -> None:
        """Per node, the least cycles on engines of each kind, and what it costs at their prices."""
        count = len(self.graph.nodes)
        table = [self.floors.of(index) for index in range(count)]
        self.least = np.array([min(row.takes[0], default=0.0) for row in table], dtype=np.float64)
        self.alone = np.array([row.alone for row in table], dtype=np.float64)
        self.tasks = [self.floors.task(index) for index in range(count)]
        self.work_energy = sum(row.energy_pj for row in table)
        takes = [row.takes for row in table]
        times = class_times(takes, self.floors.classes, self.floors.counts)
        self.prices = price_rows(*times)

    def _shared(self, chosen: Mask) -> Floats:
        """For every row of chosen nodes: cycles in which the engines can have done them all."""
        if not self.prices.size:
            return np.zeros(len(chosen))
        return (chosen.astype(np.float64) @ self.prices.T).max(axis=1)

    # Bytes ------------------------------------------------------------------------------------

    def _size(self, name: str) -> int:
        """Bytes of what is needed of a value, as they move."""
        return self.layouts.moved(name, count_of(self.needs.need[name]))

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

    def _moved_through(self, edge: NeedEdge, moved: Mapping[str, int]) -> int:
        """What one reader moves of a value. Data movement within the main memory moves as much as
        it writes, and as a view it moves what its own readers do."""
        size = self.layouts.moved(edge.source, count_of(edge.mask))
        if not self.floors.moves(edge.node):
            return size
        first = edge.source == self.graph.nodes[edge.node].inputs[0]
        joined = any(isinstance(rule, Shifted) for rule in edge.rules or ())
        return min(size, moved.get(edge.target, 0)) if first or joined else 0

    # Moments ----------------------------------------------------------------------------------

    def _at_forks(self, found: Moments) -> Moments:
        """The bounds of moments, or those of the network of which less is needed where some value's
        readers read other parts of it: only what all of them read. More then waits for the last of
        that, though less is done before. Most hopeful values first, as long as there is hope."""
        forks = [(self._at_most(name), name) for name in self.needs.forks]
        for hope, name in sorted(forks, reverse=True):
            if hope <= max(cycles for cycles, _ in found):
                break
            other = _Bounder(self.graph, self.machine, self.dtype, frozenset({name}))
            other.busy()
            pairs = zip(found, other._moments(), strict=True)
            found = tuple(max(pair, key=lambda part: part[0]) for pair in pairs)
        return found

    def _at_most(self, name: str) -> float:
        """Cycles that may be proved where all that reads a value, directly or through others, waits
        for the same element of it: the work before, then the weights of all that is behind."""
        behind, todo = set[int](), [self.graph.producer[name]]
        before = np.ones((1, len(self.graph.nodes)), dtype=np.bool_)
        while todo:
            fresh = [n for n in self.graph.successors(todo.pop()) if n not in behind]
            behind.update(fresh)
            todo += fresh
        before[0, list(behind)] = False
        read = {name for n in behind for name in self.graph.nodes[n].reads}
        weights = sum(float(self._size(n)) for n in self.caller if n in read)
        late = self._streamed([weights], [0.0], np.ones(1, dtype=np.bool_))
        return self.entry + float(self._shared(before)[0] + late[0])

    def _moments(self) -> Moments:
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
        flow = Flow(self.graph, self.needs, self.bit, self.floors.moves)
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
        ends = np.maximum(
            _behind(self._shared(done), self.entry), [self._transfer(size) for size in arrived]
        )
        starts = np.maximum(
            _behind(self._shared(needed), self.entry), [self._transfer(size) for size in loads]
        )
        on_cores = self.least[[index for index, _ in nodes]] > 0
        late = np.maximum.reduce(
            [
                _behind(self._shared(waiting), self.exit),
                self._streamed(weights, stores, on_cores),
                np.where(on_cores, self.exit, 0.0),
            ]
        )
        rest = _behind(self._shared(following), self.exit)
        chained = self._chained(
            np.stack((starts, ends), axis=1).ravel(),
            np.stack((following, waiting), axis=1).reshape(-1, count),
            np.stack((needed, done), axis=1).reshape(-1, count),
            [index for index, _ in nodes],
            flow,
        )
        titles = [self.graph.nodes[index].name for index, _ in nodes]
        return (
            _largest(ends + late, titles),
            _largest(starts + rest, titles),
            _largest(np.maximum(chained[::2] + rest, chained[1::2] + late), titles),
        )

    def _streamed(
        self, weights: Sequence[float], stores: Sequence[float], on_cores: Mask
    ) -> Floats:
        """Cycles after the moment when an operator's last element first exists: what the chip did
        not hold is loaded, what the cores did not comes to them, is used and its results stored;
        outputs are stored."""
        if not self.rate:
            return np.zeros(len(weights))
        loads = np.maximum(0.0, np.array(weights) - self.held_on_chip) / self.rate
        out = np.array(stores) / self.rate
        parts = [loads + out, np.where(on_cores, _behind(out, self.exit), out)]
        if any(runs_whole(self.graph, node) for node in self.graph.nodes):
            return np.maximum.reduce([*parts, loads])
        if inner := core_bytes_per_cycle(self.machine):
            missing = np.maximum(0.0, np.array(weights) - self.held_by_cores)
            loads = np.maximum(loads, missing / inner)
        return np.maximum.reduce([*parts, _behind(loads, self.exit)])

    def _chained(
        self, moments: Floats, waiting: Mask, done: Mask, nodes: Sequence[int], flow: Flow
    ) -> Floats:
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
        self._stand_alone(apart, waiting, done, nodes)
        self._one_task(apart, nodes, flow)
        found = moments.copy()
        for k in range(len(found)):
            found[k] = max(found[k], float((found[:k] + apart[:k, k]).max(initial=0.0)))
        return found

    def _stand_alone(self, apart: Floats, waiting: Mask, done: Mask, nodes: Sequence[int]) -> None:
        """An operator between two moments takes as long as all engines together need for it: of
        its own moments, of those whose results it reads, and of those who read its own."""
        place = {node: 2 * k for k, node in enumerate(nodes)}
        for node, mine in place.items():
            around = {mine, mine + 1}
            for other in (*self.graph.predecessors(node), *self.graph.successors(node)):
                around |= {place[other], place[other] + 1} if other in place else set()
            rows = [k for k in around if waiting[k, node]]
            columns = [k for k in around if done[k, node]]
            if rows and columns and self.alone[node] > 0:
                cells = np.ix_(rows, columns)
                apart[cells] = np.maximum(apart[cells], self.alone[node])

    def _one_task(self, apart: Floats, nodes: Sequence[int], flow: Flow) -> None:
        """A reader's first task waits for one of its maker's, and its last element for the maker's
        last, whatever the tiles are."""
        place = {node: 2 * k for k, node in enumerate(nodes)}
        for edge in self.needs.edges:
            maker = self.graph.producer.get(edge.source)
            if maker not in place or edge.node not in place:
                continue
            first, second = place[maker], place[edge.node]
            if flow.precedes(edge):
                apart[first, second] = max(apart[first, second], self.tasks[maker])
            if flow.follows(edge):
                least = self.tasks[edge.node]
                apart[first + 1, second + 1] = max(apart[first + 1, second + 1], least)

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
            if not any(self.floors.moves(edge.node) for edge in self.needs.readers.get(name, ())):
                total += _bits(required.get(name, 0), count) * float(self._size(name))
        return total.tolist()

    def _bytes_of(self, sets: Sequence[int]) -> tuple[list[float], list[float]]:
        """For every set, bytes of the caller's values in it, and of the outputs in it."""
        sizes = np.array([self._size(name) for name in self.bit], dtype=np.float64)
        split = len(self.caller)
        chosen = _matrix(sets, len(self.bit)).astype(np.float64)
        arriving = chosen[:, :split] @ sizes[:split]
        return arriving.tolist(), (chosen[:, split:] @ sizes[split:]).tolist()


def _behind(cycles: Floats, latency: int) -> Floats:
    """Cycles with those of a copy before or behind them, where there are any."""
    return np.where(cycles > 0, cycles + latency, 0.0)


def _largest(values: Floats, titles: Sequence[str]) -> tuple[float, str]:
    """The largest value, and where it is."""
    place = int(values.argmax())
    return float(values[place]), titles[place]


def _matrix(rows: Sequence[int], count: int) -> Mask:
    """Sets as rows of a matrix."""
    return np.array([_bits(row, count) for row in rows], np.bool_).reshape(-1, count)


def _bits(value: int, count: int) -> Mask:
    """The bits of a set, the first one first."""
    data = np.frombuffer(value.to_bytes((count + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(data, bitorder="little")[:count].astype(np.bool_)
