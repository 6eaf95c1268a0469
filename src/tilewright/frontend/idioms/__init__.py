"""Idioms: operations that exporters write as several nodes, found again in a graph.

Matching is by structure and by the value of constants, never by name; the graph is not changed.
"""

from collections.abc import Callable, Mapping

from tilewright.frontend.idioms import activations, attention, norms
from tilewright.frontend.idioms.matching import Idiom, Matcher
from tilewright.graph.graph import Graph

__all__ = ["Idiom", "recognise"]

Rule = Callable[[Matcher, int], Idiom | None]

# The kind of node a rule starts from: one that every spelling of the idiom has.
RULES: Mapping[str, Rule] = {
    "InstanceNormalization": norms.group_norm,
    "Div": norms.written_out,
    "Mul": norms.written_out,
    "Erf": activations.gelu,
    "Tanh": activations.by_tanh,
    "Sigmoid": activations.silu,
    "Exp": activations.silu_by_exp,
    "HardSigmoid": activations.hard_swish,
    "Clip": activations.hard_swish,
    "Softmax": attention.attention,
    "GlobalAveragePool": attention.squeeze_excite,
    "ReduceMean": attention.squeeze_excite,
}


def recognise(graph: Graph) -> tuple[Idiom, ...]:
    """Every idiom of the graph, in execution order.

    No two share a node, except that a squeeze_excite holds the activations inside it.
    """
    matcher = Matcher(graph)
    found: list[Idiom] = []
    for index, node in enumerate(graph.nodes):
        rule = RULES.get(node.kind) if matcher.sound[index] else None
        idiom = rule(matcher, index) if rule else None
        if idiom is not None:
            found.append(idiom)
    return tuple(sorted(found, key=lambda idiom: graph.index[idiom.nodes[-1]]))
