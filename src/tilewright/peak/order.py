"""The order in which onnxruntime runs the nodes of a graph."""

from collections.abc import Sequence

from tilewright.graph.graph import Graph


def execution_order(graph: Graph) -> tuple[int, ...]:
    """Indices of the nodes in the order onnxruntime runs them."""
    return tuple(backward_order([sorted(graph.predecessors(i)) for i in range(len(graph.nodes))]))


def backward_order(sources: Sequence[Sequence[int]]) -> list[int]:
    """Depth first, backwards from the nodes without consumers.

    `sources` are each node's producers in ascending order. Among the producers of a node, and
    among the last nodes, the one with the highest number runs first.
    """
    consumed = [False] * len(sources)
    for above in sources:
        for number in above:
            consumed[number] = True
    # A number n stands for "visit n", its complement ~n for "everything n needs is done".
    stack = [number for number, used in enumerate(consumed) if not used]
    seen = [False] * len(sources)
    order: list[int] = []
    while stack:
        number = stack.pop()
        if number < 0:
            order.append(~number)
        elif not seen[number]:
            seen[number] = True
            stack.append(~number)
            stack.extend(above for above in sources[number] if not seen[above])
    return order
