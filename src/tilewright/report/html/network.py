"""The network as a drawing needs it: nodes with their group, and the tensors between them."""

from dataclasses import dataclass
from enum import StrEnum

from tilewright.graph.graph import Graph
from tilewright.machine.dtypes import element_bytes
from tilewright.plan.plan import Place
from tilewright.planning import Planned
from tilewright.program.program import Compute, Program, Transfer


class BoxRole(StrEnum):
    """What a box of the drawing is."""

    INPUT = "input"
    OUTPUT = "output"
    NODE = "node"
    FOLDED = "folded"  # runs inside the task of another node
    VIEW = "view"
    MOVE = "move"  # by copies in the main memory


@dataclass(frozen=True, slots=True)
class DrawnBox:
    """A node, or an input or output of the network (then group is -1)."""

    name: str
    kind: str
    group: int
    role: BoxRole


class EdgeWay(StrEnum):
    """How a tensor gets from who makes it to one of its readers."""

    INSIDE = "inside"  # tile by tile, within a group
    KEPT = "kept"  # in the scratchpads
    RELOADED = "reloaded"  # from the main memory, although it is kept for others
    SHARED = "shared"  # through a memory on the chip that the cores share
    MAIN = "main"  # through the main memory


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """A tensor from one box to another, and how it gets there; None bytes are unknown."""

    source: int
    target: int
    tensor: str
    bytes: int | None
    way: EdgeWay
    memory: str = ""  # that it lies in, where the cores share one and it does

    @property
    def resident(self) -> bool:
        """Whether this reader finds it in the scratchpads."""
        return self.way is EdgeWay.KEPT


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes in an order in which they can run. `sizes` are elements of whole tensors, where known;
    not `exact` means that edges around views may be missing."""

    boxes: tuple[DrawnBox, ...]
    edges: tuple[DrawnEdge, ...]
    sizes: dict[str, int]
    exact: bool


def network_of(planned: Planned, graph: Graph | None) -> Drawing:
    """The drawing's network: the graph's own, else what the tasks of the program show."""
    makers, readers, kinds = _from_graph(graph) if graph else _from_program(planned)
    program = planned.placed.program
    busy = {task.node for task in program.tasks if not isinstance(task.work, Transfer)}
    order = [node.name for node in graph.nodes] if graph else []
    home = {name: i for i, group in enumerate(planned.plan.groups) for name in group.nodes}
    boxes = [DrawnBox(name, "input", -1, BoxRole.INPUT) for name, _ in program.inputs]
    for name in order or home:
        if name in home:
            role = _role(planned.plan.groups[home[name]].place, name in busy)
            boxes.append(DrawnBox(name, kinds.get(name, ""), home[name], role))
    number = {box.name: i for i, box in enumerate(boxes) if box.role is not BoxRole.INPUT}
    source = {value: number[node] for value, node in makers.items() if node in number}
    source |= {name: i for i, (name, _) in enumerate(program.inputs)}
    pairs: dict[tuple[int, int, str], None] = {}
    for value, nodes in readers.items():
        for node in nodes:
            if value in source and node in number and source[value] < number[node]:
                pairs[source[value], number[node], value] = None
    for name, _ in program.outputs:
        boxes.append(DrawnBox(name, "output", -1, BoxRole.OUTPUT))
        if name in source:
            pairs[source[name], len(boxes) - 1, name] = None
    sizes = {name: kind.size for name, kind in graph.types.items()} if graph else {}
    held = _main_bytes(planned)
    each = element_bytes(planned.plan.dtype)
    edges = tuple(
        DrawnEdge(
            a,
            b,
            value,
            held.get(value, round(sizes[value] * each) if value in sizes else None),
            *_way(planned, value, boxes[a], boxes[b]),
        )
        for a, b, value in pairs
    )
    return Drawing(tuple(boxes), edges, sizes, graph is not None)


def _way(planned: Planned, value: str, maker: DrawnBox, reader: DrawnBox) -> tuple[EdgeWay, str]:
    """How one reader of a tensor gets it: each may get it in another way; and the memory that the
    cores share, if it is through that."""
    plan = planned.plan
    if maker.group == reader.group and maker.group >= 0:
        return EdgeWay.INSIDE, ""
    memory = next((memory for memory, names in plan.shared if value in names), "")
    again = dict(plan.reloaded).get(value, ())
    if value in plan.resident and reader.group >= 0 and reader.name not in again:
        return EdgeWay.KEPT, ""
    if memory:
        return EdgeWay.SHARED, memory
    return (EdgeWay.RELOADED if value in plan.resident and reader.group >= 0 else EdgeWay.MAIN), ""


def _role(place: Place, busy: bool) -> BoxRole:
    if place is Place.VIEW:
        return BoxRole.VIEW
    if place is Place.MAIN:
        return BoxRole.MOVE
    return BoxRole.NODE if busy else BoxRole.FOLDED


_Links = tuple[dict[str, str], dict[str, list[str]], dict[str, str]]


def _from_graph(graph: Graph) -> _Links:
    makers = {value: node.name for node in graph.nodes for value in node.writes}
    readers: dict[str, list[str]] = {}
    for node in graph.nodes:
        for value in dict.fromkeys(node.reads):
            readers.setdefault(value, []).append(node.name)
    return makers, readers, {node.name: node.kind for node in graph.nodes}


def _from_program(planned: Planned) -> _Links:
    """Who makes and who reads the values of buffers. A node without a task of its own runs inside
    the one before it in its group; a view's reader reads what the view is of."""
    program = planned.placed.program
    makers: dict[str, str] = {}
    readers: dict[str, dict[str, None]] = {}
    kinds: dict[str, str] = {}
    for task in program.tasks:
        work = task.work
        if not isinstance(work, Transfer):
            kind = work.steps[0].kind if isinstance(work, Compute) else work.kind
            kinds.setdefault(task.node, kind)
            for view in task.writes:
                makers[program.buffers[view.buffer].value] = task.node
            for view in task.reads:
                readers.setdefault(program.buffers[view.buffer].value, {})[task.node] = None
    for seen, value in _views(program).items():
        if seen not in makers:
            readers.setdefault(value, {}).update(readers.get(seen, {}))
    for group in planned.plan.groups:
        last = ""
        for name in group.nodes:
            if name in kinds or not last:
                last = name
                continue
            kinds[name] = "folded"
            for value in [value for value, maker in makers.items() if maker == last]:
                makers[value] = name
            hidden = f"{last} (inside)"
            makers[hidden], readers[hidden] = last, {name: None}
            last = name
    return makers, {value: list(nodes) for value, nodes in readers.items()}, kinds


def _views(program: Program) -> dict[str, str]:
    """Values that are loaded from another value's buffer, and that value."""
    found: dict[str, str] = {}
    for task in program.tasks:
        if not isinstance(task.work, Transfer):
            continue
        value = program.buffers[task.reads[0].buffer].value
        for view in task.writes:
            seen = program.buffers[view.buffer].value
            if seen != value:
                found[seen] = value
    return found


def _main_bytes(planned: Planned) -> dict[str, int]:
    main = planned.machine.main_memory.name
    buffers = planned.placed.program.buffers
    return {buffer.value: buffer.size for buffer in buffers if buffer.memory == main}
