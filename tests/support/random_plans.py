"""Random plans for a network on a machine: any convex groups, cuts, spreads and resident tensors;
and what has to hold for each of them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hypothesis import assume
from hypothesis import strategies as st

from support.builder import GraphBuilder, feeds_of
from support.strategies import Operator, cuttable_axes, grained, networks
from tilewright.errors import TilewrightError, TilingError, VerificationError
from tilewright.execute.compare import compare
from tilewright.execute.runtime import run
from tilewright.frontend.save import serialize
from tilewright.graph.graph import Array, Graph, Node
from tilewright.graph.ops import runs_whole
from tilewright.machine.machine import Machine
from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.planning import prepared, validate
from tilewright.planning.proof import run_tasks
from tilewright.planning.result import Numbers
from tilewright.program.account import account_of
from tilewright.program.lower import lowered
from tilewright.program.place import Placed
from tilewright.search.bounds.bounds import bounds_of
from tilewright.search.candidates.network import Network
from tilewright.tiling.grid import Halo, Split
from tilewright.tiling.group import exports

Draw = Callable[[st.SearchStrategy], object]
TOLERANCE = 1e-5


def legal_on(graph: Graph, machine: Machine) -> Graph:
    """A network as it is planned for a machine; another is drawn where nothing of it is left to
    plan, or it cannot be."""
    try:
        legal = prepared(graph, machine, machine.dtype).graph
    except TilewrightError:
        assume(False)
    assume(bool(legal.nodes))
    assume(all(name in legal.types for node in legal.nodes for name in node.writes))
    return legal


@st.composite
def legal_networks(
    draw: Draw,
    operators: Sequence[Sequence[Operator]],
    shapes: Sequence[tuple[int, ...]],
    machines: Mapping[str, Machine],
    kibibytes: Sequence[int | None],
    changed: Callable[[Draw, Machine], Machine] = lambda draw, machine: machine,
) -> tuple[Graph, Machine]:
    """A network of one of the kinds of operators on a machine that can run it, with so many KiB in
    its cores' memories (None: as it is)."""
    graph = draw(networks(draw(st.sampled_from(operators)), nodes=6, shapes=shapes))
    machine = machines[draw(st.sampled_from(list(machines)))]
    memory = draw(st.sampled_from(kibibytes))
    machine = machine if memory is None else machine.with_memory(memory * 1024)
    machine = changed(draw, machine)
    return legal_on(graph, machine), machine


@dataclass(frozen=True, slots=True)
class Case:
    """A network with numbers, as it is planned for a machine, and what it has to give."""

    original: Graph
    graph: Graph
    machine: Machine
    feeds: dict[str, Array]
    expected: dict[str, Array]

    def check(self, plan: Plan) -> Placed:
        """Lower a plan, validate and execute it; `TilewrightError` where it cannot be lowered,
        `AssertionError` where anything else is wrong with it."""
        try:
            placed = lowered(self.graph, self.machine, plan)
        except VerificationError as error:
            raise AssertionError(f"a pass made a wrong program: {error}") from error
        try:
            validate(placed, self.machine)
            self.execute(placed)
        except VerificationError as error:
            raise AssertionError(str(error)) from error
        self._check_bounds(placed)
        return placed

    def _check_bounds(self, placed: Placed) -> None:
        """No plan undercuts what every plan takes."""
        account = account_of(placed, self.machine)
        bounds = bounds_of(self.graph, self.machine, self.machine.dtype)
        moved = account.dram_read_bytes + account.dram_write_bytes
        assert moved >= bounds.compulsory_bytes, "below the bound of traffic"
        assert account.latency_cycles >= bounds.cycles, f"below the bound: {bounds.name}"
        assert account.energy_pj >= bounds.energy_pj * (1 - 1e-9), "below the bound of energy"

    def execute(self, placed: Placed) -> None:
        """Run it: the bytes that are accounted, the numbers of onnxruntime."""
        data = {n: c.data for n, c in self.graph.constants.items() if c.data is not None}
        numbers = Numbers(0, None, False, self.feeds, data, self.expected)
        account = account_of(placed, self.machine)
        done = run_tasks(placed, self.machine, self.graph.opsets, account, numbers)
        try:
            compare(self.expected, done.outputs, TOLERANCE)
        except VerificationError:  # its fusions round elsewhere: operators as written decide
            as_written = run(serialize(self.original), self.feeds, optimise=False)
            compare(as_written, done.outputs, TOLERANCE)


def case_of(graph: Graph, machine: Machine) -> Case | None:
    """A case, or None where onnxruntime or the machine has no way to run the network."""
    feeds = feeds_of(graph)
    try:
        expected = run(serialize(graph), feeds)
        legal = prepared(graph, machine, machine.dtype).graph
    except TilewrightError:
        return None
    except Exception as error:
        if "onnxruntime" in type(error).__module__:
            return None
        raise
    known = all(name in legal.types for node in legal.nodes for name in node.writes)
    if not known or not legal.nodes or any(_beyond(legal, node) for node in legal.nodes):
        return None
    if any(value.shape != graph.types[name].shape for name, value in expected.items()):
        return None
    return Case(graph, legal, machine, feeds, expected)


def with_copies_inside(machine: Machine) -> Machine:
    """The machine with links that copy within a core's memory too, as they do to the main one:
    halos can then be kept from tile to tile, and results by the side of what the tile reads."""
    main, links = machine.main_memory.name, []
    for link in machine.links:
        inside = [
            replace(route, destination=route.source, groups=(), multicast=False)
            for route in link.routes
            if route.destination == main and link.route(route.source, route.source) is None
        ]
        links.append(replace(link, routes=(*link.routes, *inside)))
    return replace(machine, links=tuple(links))


def ideal(machine: Machine, bytes_per_cycle: float) -> Machine:
    """The machine with copies that take no time to start: nothing hides a bound that is wrong."""
    main = machine.main_memory.name
    links = tuple(
        replace(
            link,
            routes=tuple(
                replace(route, latency=0, burst=1, cycles_per_run=0.0, bytes_per_cycle=1e4)
                for route in link.routes
            ),
        )
        for link in machine.links
    )
    machine = replace(machine, links=links, limits=replace(machine.limits, channel_alignment=1))
    return machine.with_bandwidth(main, bytes_per_cycle * machine.clock_hz)


def _beyond(graph: Graph, node: Node) -> bool:
    """Whether a pool has a window without any element: runtimes do not agree on those."""
    kernel = node.attributes.get("kernel_shape")
    if not isinstance(kernel, tuple) or "Pool" not in node.kind:
        return False
    rank = len(kernel)
    strides = node.attributes.get("strides") or (1,) * rank
    dilations = node.attributes.get("dilations") or (1,) * rank
    pads = node.attributes.get("pads") or (0,) * (2 * rank)
    extents = graph.types[node.inputs[0]].shape[2:]
    results = graph.types[node.outputs[0]].shape[2:]
    return any(
        (k - 1) * d + 1 > e + low + high or (r - 1) * s >= e + low
        for k, d, s, e, r, low, high in zip(
            kernel, dilations, strides, extents, results, pads[:rank], pads[rank:], strict=True
        )
    )


def _pick(draw: Draw, choices: Iterable[object]) -> object:
    return draw(st.sampled_from(list(choices)))


def _int(draw: Draw, low: int, high: int) -> int:
    return draw(st.integers(low, max(low, high)))  # type: ignore[return-value]


class _Groups:
    """Sets of nodes that run one after the other, merged at random."""

    def __init__(self, graph: Graph, draw: Draw, fixed: Collection[int]) -> None:
        self.graph, self.draw, self.fixed = graph, draw, fixed
        self.home = list(range(len(graph.nodes)))

    def edges(self) -> set[tuple[int, int]]:
        found = set()
        for node in range(len(self.graph.nodes)):
            for maker in self.graph.predecessors(node):
                found.add((self.home[maker], self.home[node]))
        return {(a, b) for a, b in found if a != b}

    def order(self, *, shuffled: bool = False) -> list[int] | None:
        """The groups in an order that runs; None where there is a circle."""
        left, edges, order = sorted(set(self.home)), self.edges(), []
        while left:
            ready = [g for g in left if not any(b == g and a in left for a, b in edges)]
            if not ready:
                return None
            following = _pick(self.draw, ready) if shuffled else ready[0]
            order.append(following)
            left.remove(following)
        return order

    def merge(self) -> None:
        """Join two groups that are connected, or any two; not where that makes a circle."""
        free = sorted(set(self.home) - {self.home[node] for node in self.fixed})
        pairs = [(a, b) for a, b in sorted(self.edges()) if a in free and b in free]
        if _int(self.draw, 0, 9) == 0:
            pairs = [(a, b) for a in free for b in free if a < b]
        if not pairs:
            return
        one, other = _pick(self.draw, pairs)
        before = list(self.home)
        self.home = [one if home == other else home for home in self.home]
        if self.order() is None:
            self.home = before


@st.composite
def plans(draw: Draw, graph: Graph, machine: Machine, *, on_cores: bool = False) -> Plan:
    """A plan for a (legalised) network: groups in any order that runs, cut in any way; `on_cores`:
    with all data movement there that can be, and most tensors resident."""
    network = Network(graph, machine, machine.dtype)
    place: dict[int, Place] = {}
    for unit in network.units:
        cuttable = not any(runs_whole(graph, graph.nodes[n]) for n in unit.nodes)
        movable = cuttable and (on_cores or (unit.place is Place.MAIN and draw(st.booleans())))
        place.update(dict.fromkeys(unit.nodes, Place.CORES if movable else unit.place))
        place.update(dict.fromkeys(unit.views, Place.CORES if on_cores else Place.VIEW))
    fixed = [node for node, where in place.items() if where is not Place.CORES]
    groups = _Groups(graph, draw, fixed)
    for _ in range(_int(draw, 0, 2 * len(graph.nodes))):
        groups.merge()
    order = groups.order(shuffled=True)
    assert order is not None
    made: list[GroupPlan] = []
    crossing: list[str] = []
    for group in order:
        members = tuple(n for n, home in enumerate(groups.home) if home == group)
        names = tuple(graph.nodes[n].name for n in members)
        if place[members[0]] is not Place.CORES:
            made.append(GroupPlan(names, (), None, place[members[0]]))
            continue
        made.append(random_cut(draw, graph, members, names))
        crossing += exports(graph, members)
    resident = _residents(draw, crossing)
    if on_cores and _int(draw, 0, 3):
        resident = tuple(name for name in crossing if _int(draw, 0, 7))
    return Plan("random", machine.name, machine.dtype, tuple(made), resident)


def random_cut(
    draw: Draw, graph: Graph, members: tuple[int, ...], names: tuple[str, ...]
) -> GroupPlan:
    """Some nodes as a group on the cores: any axes, parts, halos and core split."""
    try:
        axes = cuttable_axes(graph, members)
    except TilingError:
        axes = {}
    chosen = draw(st.permutations(sorted(axes)))[: _int(draw, 0, 2)]
    kept = _int(draw, -2, len(chosen) - 1) if chosen else -1  # one axis may keep its halo
    splits = tuple(
        grained(
            graph,
            members,
            Split(
                axis,
                _int(draw, 1 + (axes[axis] > 1), min(7, axes[axis])),
                Halo.CACHE if number == kept else Halo.RECOMPUTE,
            ),
            _int(draw, 1, 5),
        )
        for number, axis in enumerate(chosen)
    )
    core_split = _int(draw, -1, len(splits) - 1)
    if core_split >= 0 and len(splits) > 1 and _int(draw, 0, 1):
        splits = tuple(replace(s, crossed=k != core_split) for k, s in enumerate(splits))
    replicated = core_split < 0 and _int(draw, 0, 2) == 0
    return GroupPlan(names, splits, None if core_split < 0 else core_split, replicated=replicated)


def _residents(draw: Draw, crossing: list[str]) -> tuple[str, ...]:
    if not crossing:
        return ()
    which = _int(draw, 0, 3)
    if which == 0:
        return ()
    if which == 1:
        return tuple(crossing)
    return tuple(name for name in crossing if draw(st.booleans()))


def squeeze(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Squeeze and excitation: a chain of both engines that no cut of the image drives."""
    shape = b.shape(x)
    if len(shape) != 4 or b.type(x).dtype != "float32":
        return None
    inner = _int(draw, 1, 3)
    y = b.add("Conv", b.add("GlobalAveragePool", x), b.weight(inner, shape[1], 1, 1))
    y = b.add("Relu", y) if draw(st.booleans()) else b.add("Softmax", y, axis=1)
    return b.add("Mul", x, b.add("Tanh", b.add("Conv", y, b.weight(shape[1], inner, 1, 1))))


def halves(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Channels in two parts at a multiple of sixteen; what follows reads the second."""
    channels = b.shape(x)[1]
    if channels < 32:
        return None
    first = 16 * _int(draw, 1, channels // 16 - 1)
    sizes = b.constant([first, channels - first], "int64")
    return b.add("Split", x, sizes, outputs=2, axis=1) + ".1"


def joined(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """A concat of channels, or of rows, with other values, each at most once."""
    axis = _pick(draw, (1, 1, 1, 2))
    shape = b.shape(x)
    others = [
        name
        for name in (*b.inputs, *(name for node in b.nodes for name in node.writes))
        if name != x
        and b.shape(name)[:axis] == shape[:axis]
        and b.shape(name)[axis + 1 :] == shape[axis + 1 :]
    ]
    if not others:
        return None
    chosen = draw(st.permutations(others))[: _int(draw, 1, 3)]
    row = draw(st.permutations([x, *chosen]))
    return b.add("Concat", *row, axis=axis)


def aligned(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """A convolution that gives a multiple of sixteen channels, with an activation perhaps."""
    kernel, filters = _pick(draw, (1, 3)), 16 * _int(draw, 1, 2)
    weight = b.weight(filters, b.shape(x)[1], kernel, kernel)
    y = b.add("Conv", x, weight, pads=[kernel // 2] * 4)
    return b.add("Relu", y) if draw(st.booleans()) else y


def pointwise(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """1x1 with an activation."""
    shape = b.shape(x)
    if len(shape) != 4 or b.type(x).dtype != "float32":
        return None
    filters = _int(draw, 1, 40)
    y = b.add("Conv", x, b.weight(filters, shape[1], 1, 1), b.weight(filters))
    return b.add("Relu", y) if draw(st.booleans()) else y


def halved(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """As a stage of a residual network begins: half the size behind 1x1 and 3x3, and beside it 1x1
    that reads every other position."""
    shape = b.shape(x)
    if len(shape) != 4 or b.type(x).dtype != "float32":
        return None
    inner, filters = _int(draw, 1, 40), _int(draw, 8, 96)
    y = b.add("Conv", x, b.weight(inner, shape[1], 1, 1), b.weight(inner))
    y = b.add("Conv", y, b.weight(filters, inner, 3, 3), pads=[1] * 4, strides=[2, 2])
    beside = b.add("Conv", x, b.weight(filters, shape[1], 1, 1), strides=[2, 2])
    return b.add("Relu", b.add("Add", y, beside))


def depthwise(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """3x3 or 5x5 for each channel, same size or half of it."""
    shape = b.shape(x)
    if len(shape) != 4 or b.type(x).dtype != "float32":
        return None
    kernel, stride = _pick(draw, (3, 5)), _pick(draw, (1, 1, 2))
    weight = b.weight(shape[1], 1, kernel, kernel)
    pads = [kernel // 2] * 4
    return b.add("Conv", x, weight, group=shape[1], pads=pads, strides=[stride] * 2)
