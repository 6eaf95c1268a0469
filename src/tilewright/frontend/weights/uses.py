"""What values are used for: residual branches, and indices into tables."""

from tilewright.frontend.weights.activations import CARRIERS, FACTORS, NORMS, PICKERS
from tilewright.graph.graph import Graph, Node

INDEXERS = frozenset({"Gather", "GatherElements", "GatherND"})


def branches(graph: Graph) -> dict[str, str]:
    """The last weighted node of each residual branch -> the stream that its result is added to."""
    ancestors = _ancestors(graph)

    def starts_from(branch: str, stream: str) -> bool:
        if branch not in graph.producer:
            return False
        maker = graph.producer.get(stream)
        return maker is None or bool(ancestors[graph.producer[branch]] >> maker & 1)

    found: dict[str, str] = {}
    for node in graph.nodes:
        if node.kind not in ("Add", "Sum"):
            continue
        values = [name for name in node.inputs if name not in graph.constants]
        for branch in values:
            stream = next((v for v in values if v != branch and starts_from(branch, v)), None)
            last = _last_weighted(graph, branch) if stream is not None else None
            if last is not None and stream is not None:
                found[last.name] = stream
    return found


def _ancestors(graph: Graph) -> list[int]:
    """The nodes before each node, as bits."""
    found: list[int] = []
    for index in range(len(graph.nodes)):
        bits = 0
        for before in graph.predecessors(index):
            bits |= found[before] | 1 << before
        found.append(bits)
    return found


def _last_weighted(graph: Graph, value: str) -> Node | None:
    """The product or norm that a value comes from, through biases, scales and changes of shape."""
    while value in graph.producer:
        node = graph.nodes[graph.producer[value]]
        if node.kind in FACTORS or node.kind in NORMS:
            return node
        inputs = [name for name in node.inputs if name and name not in graph.constants]
        if len(inputs) != 1 or node.kind not in CARRIERS | {"Add", "Mul"}:
            return None
        value = inputs[0]
    return None


def index_limits(graph: Graph, name: str) -> tuple[list[int], bool]:
    """The extents a value is an index of, and whether it has other uses too."""
    limits: list[int] = []
    others = False
    todo, seen = [name], {name}
    while todo:
        value = todo.pop()
        for reader in graph.consumers.get(value, ()):
            node = graph.nodes[reader]
            if node.kind in INDEXERS and value == node.inputs[1]:
                limits.append(_extent(graph, node))
            elif node.kind in CARRIERS | PICKERS and value == node.inputs[0]:
                todo += [result for result in node.writes if result not in seen]
                seen.update(node.writes)
            else:
                others = True
    return limits, others


def _extent(graph: Graph, node: Node) -> int:
    """How many entries the node can pick from, at least."""
    kind = graph.types.get(node.inputs[0])
    if kind is None or not kind.size:
        return 1
    if node.kind == "GatherND":
        return min(kind.shape, default=1)
    return kind.shape[node.int_of("axis", 0)]
