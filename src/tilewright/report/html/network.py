"""The network as a drawing needs it: nodes with their group, and the tensors between them."""

from dataclasses import dataclass
from enum import StrEnum

from tilewright.machine.dtypes import element_bytes
from tilewright.plan.plan import Place
from tilewright.planning import Planned
from tilewright.program.program import Transfer


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
    host: str = ""  # the node in whose output stage it runs


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
    """Boxes in an order in which they can run, and what is between them."""

    boxes: tuple[DrawnBox, ...]
    edges: tuple[DrawnEdge, ...]


def network_of(planned: Planned) -> Drawing:
    """The planned network, with its inputs and outputs."""
    graph, program = planned.graph, planned.placed.program
    busy = {task.node for task in program.tasks if not isinstance(task.work, Transfer)}
    home = {name: i for i, group in enumerate(planned.plan.groups) for name in group.nodes}
    boxes = [DrawnBox(name, "input", -1, BoxRole.INPUT) for name, _ in program.inputs]
    first = len(boxes)  # of the nodes
    folded = program.folded()
    roles = {Place.VIEW: BoxRole.VIEW, Place.MAIN: BoxRole.MOVE}
    for node in graph.nodes:
        group, host = home[node.name], folded.get(node.name, "")
        runs = BoxRole.NODE if node.name in busy else BoxRole.FOLDED
        role = roles.get(planned.plan.groups[group].place, runs)
        boxes.append(DrawnBox(node.name, node.kind, group, role, host))
    source = {value: first + index for value, index in graph.producer.items()}
    source |= {name: i for i, (name, _) in enumerate(program.inputs)}
    pairs = {
        (source[value], first + index, value): None
        for value, readers in graph.consumers.items()
        for index in readers
        if value in source
    }
    for name, _ in program.outputs:
        boxes.append(DrawnBox(name, "output", -1, BoxRole.OUTPUT))
        if name in source:
            pairs[source[name], len(boxes) - 1, name] = None
    main, each = planned.machine.main_memory.name, element_bytes(planned.plan.dtype)
    held = {buffer.value: buffer.size for buffer in program.buffers if buffer.memory == main}
    edges: list[DrawnEdge] = []
    for a, b, value in pairs:
        size = held.get(value, round(graph.types[value].size * each))
        edges.append(DrawnEdge(a, b, value, size, *_way(planned, value, boxes[a], boxes[b])))
    return Drawing(tuple(boxes), tuple(edges))


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
