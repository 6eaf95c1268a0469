"""The printed form of a Graph: stable, one line a node, for golden files and for people."""

import numpy as np

from tilewright.graph.graph import Attribute, Graph, Opaque


def _attribute(value: Attribute) -> str:
    if isinstance(value, Opaque):
        return "<opaque>"
    if isinstance(value, np.ndarray):
        return f"<{value.dtype}{list(value.shape)}>"
    if isinstance(value, tuple):
        return "(" + ",".join(map(str, value)) + ")"
    return str(value)


def print_graph(graph: Graph) -> str:
    """The graph as text: inputs, nodes in order with their result types, outputs."""

    def typed(name: str) -> str:
        kind = graph.types.get(name)
        return f"{name}: {kind}" if kind else f"{name}: ?"

    lines = [f"graph {graph.name} (opset {graph.opset})"]
    lines += [f"  input {typed(name)}" for name in graph.inputs]
    for node in graph.nodes:
        kind = f"{node.domain}.{node.kind}" if node.domain else node.kind
        attributes = " ".join(f"{k}={_attribute(v)}" for k, v in sorted(node.attributes.items()))
        results = ", ".join(typed(name) if name else "_" for name in node.outputs)
        operands = ", ".join(name or "_" for name in node.inputs)
        tail = f" {{{attributes}}}" if attributes else ""
        lines.append(f"  {results} = {kind}({operands}){tail}")
    lines += [f"  output {typed(name)}" for name in graph.outputs]
    return "\n".join(lines) + "\n"
