"""Structural checks of a Graph: one definition per value, nodes in a runnable order."""

from tilewright.errors import ModelError
from tilewright.graph.graph import Graph


def verify(graph: Graph) -> None:
    """Raise ModelError where the graph is not a network that can run."""
    known = set(graph.inputs) | set(graph.constants)
    names: set[str] = set()
    for node in graph.nodes:
        if node.name in names:
            raise ModelError(f"two nodes are called '{node.name}'")
        names.add(node.name)
        for value in node.reads:
            if value not in known:
                raise ModelError(
                    f"node '{node.name}' reads '{value}', which nothing before it makes"
                )
        for value in node.writes:
            if value in known:
                raise ModelError(f"node '{node.name}' makes '{value}', which exists already")
            known.add(value)
    for value in graph.outputs:
        if value not in known:
            raise ModelError(f"the network's output '{value}' is made by no node")
