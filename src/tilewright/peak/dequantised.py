"""Bytes that are read as real numbers, each reading beside the operator it is for."""

from dataclasses import replace

from tilewright.graph.edit import Names
from tilewright.graph.graph import Graph, Node
from tilewright.peak.predict import predict_peak


def beside_readers(graph: Graph) -> Graph:
    """The network with every DequantizeLinear right before the one operator that reads it, as the
    runtime fuses them: between kernels there are bytes alone, and a group takes in what it needs.
    """
    # What leaves the network, or is read from within a subgraph, keeps its name and its place.
    fixed = {*graph.outputs, *(name for node in graph.nodes for name in node.captures)}
    moved = {
        node.outputs[0]: node
        for node in graph.nodes
        if node.kind == "DequantizeLinear" and not node.domain and node.outputs[0] not in fixed
    }
    if not moved:
        return graph
    names, types = Names(graph), dict(graph.types)
    taken: set[str] = set()
    nodes: list[Node] = []

    def own(name: str) -> str:
        """The value for a further reader: the first one has that of the network itself."""
        node = moved[name]
        inputs = tuple(own(each) if each in moved else each for each in node.inputs)
        if name not in taken:
            taken.add(name)
            nodes.append(replace(node, inputs=inputs))
            return name
        result = names.take(name)
        if name in types:
            types[result] = types[name]
        label = names.take(node.name)
        nodes.append(replace(node, name=label, inputs=inputs, outputs=(result,)))
        return result

    for node in graph.nodes:
        if node.outputs and node.outputs[0] in moved:
            continue
        read = {name: own(name) for name in dict.fromkeys(node.reads) if name in moved}
        nodes.append(node.renamed(read, {}))
    return replace(graph, nodes=tuple(nodes), types=types)


def best_order(graph: Graph) -> Graph:
    """The network with every DequantizeLinear of weights where it is, or at the beginning, as takes
    less memory. Of what a kernel waits for, the runtime makes first what stands later in the file:
    weights that stand beside their reader become real numbers before all that leads there."""
    first = [
        node
        for node in graph.nodes
        if node.kind == "DequantizeLinear" and all(n in graph.constants for n in node.reads)
    ]
    if not first:
        return graph
    early = {node.name for node in first}
    rest = (node for node in graph.nodes if node.name not in early)
    moved = replace(graph, nodes=(*first, *rest))
    return min(graph, moved, key=lambda each: predict_peak(each).peak)
