"""Normalisation: passes that make a graph plainer and keep its results.

Every pass takes a Graph and gives a Graph with the same inputs, outputs and numbers.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tilewright.frontend.idioms import recognise
from tilewright.frontend.idioms.matching import Matcher
from tilewright.frontend.normalize.collapse import collapse_idioms
from tilewright.frontend.normalize.fold import fold_channel_affine
from tilewright.frontend.normalize.quantise import fold_quantisation
from tilewright.frontend.normalize.scale import move_scales
from tilewright.graph.edit import Names, hidden_values, rebuilt
from tilewright.graph.graph import Constant, Graph, Node, constant_of
from tilewright.graph.ops.layout import RESHAPES
from tilewright.graph.verify import verify

Pass = Callable[[Graph], Graph]

MERGED = {"Transpose": ("Transpose",), "Reshape": RESHAPES}  # a node -> what it may swallow
SAME_IF_SAME_SHAPE = frozenset({*RESHAPES, "Expand", "Tile"})
COMMUTATIVE = frozenset({"Add", "Mul"})
SAME_IF_ALONE = frozenset({"Concat", "Sum", "Max", "Min", "Mean"})


def merge_views(graph: Graph) -> Graph:
    """A transpose of a transpose, or a reshape of a reshape, becomes one.

    Views that belong to an idiom stay: without its own reshapes a group norm is not seen any more.
    """
    matcher, names = Matcher(graph), Names(graph)
    constants: dict[str, Constant] = {}
    current = dict(enumerate(graph.nodes))
    bound = {graph.index[name] for idiom in recognise(graph) for name in idiom.nodes}
    for index, node in enumerate(graph.nodes):
        partners = MERGED.get(node.kind, ()) if matcher.sound[index] else ()
        inner = matcher.maker(node.inputs[0], *partners) if partners else None
        if inner is None or bound & {index, inner}:
            continue
        if matcher.reader(node.inputs[0], node.kind) != index:
            continue
        first, kind = current[inner], graph.types.get(node.outputs[0])
        if node.kind == "Transpose":
            before, after = _permutation(graph, first), _permutation(graph, node)
            if len(before) != len(after):
                continue
            merged = {**node.attributes, "perm": tuple(before[axis] for axis in after)}
            current[index] = replace(node, inputs=first.inputs, attributes=merged)
        elif kind is not None and all(kind.shape):
            # Zeros in the old target shape may stand for extents of the value that goes away.
            shape = names.take(f"{node.name}/shape")
            constants[shape] = constant_of(np.asarray(kind.shape, dtype=np.int64))
            current[index] = replace(node, inputs=(first.inputs[0], shape))
        else:
            continue
        del current[inner]
    if len(current) == len(graph.nodes):
        return graph
    return rebuilt(graph, current.values(), constants)


def remove_no_ops(graph: Graph) -> Graph:
    """Drop nodes that only copy: identities, dropout, and casts, transposes and reshapes to what
    is there already. The network's outputs keep their names."""
    hidden = hidden_values(graph)
    named = hidden | set(graph.outputs)
    source_of: dict[str, str] = {}  # a copy -> what it is a copy of
    new_name: dict[str, str] = {}  # a value -> the network output it becomes
    kept: list[Node] = []
    for original in graph.nodes:
        node = original.renamed(source_of, {})
        source = _copied(graph, node)
        output = node.outputs[0] if node.outputs else ""
        if source is None or output in hidden:
            kept.append(original)
        elif output not in graph.outputs:
            source_of[output] = source
        elif source in graph.producer and not any(source in n for n in (named, new_name)):
            new_name[source] = output
        else:
            kept.append(original)
    if not source_of and not new_name:
        return graph
    read_as = {copy: new_name.get(source, source) for copy, source in source_of.items()} | new_name
    return rebuilt(graph, (node.renamed(read_as, new_name) for node in kept))


def constants_last(graph: Graph) -> Graph:
    """Sums and products name their constant second."""
    nodes = [
        replace(node, inputs=(node.inputs[1], node.inputs[0]))
        if node.kind in COMMUTATIVE
        and not node.domain
        and node.inputs[0] in graph.constants
        and node.inputs[1] not in graph.constants
        else node
        for node in graph.nodes
    ]
    return rebuilt(graph, nodes, {}) if nodes != list(graph.nodes) else graph


PASSES: tuple[Pass, ...] = (
    remove_no_ops,  # idioms are seen only once no copies lie between
    merge_views,
    remove_no_ops,  # merged views may do nothing
    collapse_idioms,
    move_scales,  # on what a convolution makes, a scale is folded next
    fold_channel_affine,
    fold_quantisation,  # activations are single operators by now
    constants_last,
)


def normalize(graph: Graph) -> Graph:
    """The graph after every pass, checked after each."""
    for run in PASSES:
        graph = run(graph)
        verify(graph)
    return graph


def _copied(graph: Graph, node: Node) -> str | None:
    """The value that the node copies unchanged, None if it does something."""
    if node.domain or not node.inputs or not node.outputs:
        return None
    source, output = node.inputs[0], node.outputs[0]
    if node.kind == "Identity":
        return source
    if node.kind == "Dropout":
        return source if _is_idle_dropout(graph, node) else None
    kind = graph.types.get(source)
    if kind is None or graph.types.get(output) != kind:
        return None
    if node.kind == "Cast" or node.kind in SAME_IF_SAME_SHAPE:
        return source
    if node.kind in SAME_IF_ALONE and len(node.inputs) == 1:
        return source
    if node.kind == "Transpose":
        moved = [axis for axis in _permutation(graph, node) if kind.shape[axis] != 1]
        return source if moved == sorted(moved) else None
    return None


def _is_idle_dropout(graph: Graph, node: Node) -> bool:
    """Whether a dropout runs in inference and nothing reads its mask."""
    mask = node.outputs[1] if len(node.outputs) > 1 else ""
    if mask and (mask in graph.consumers or mask in graph.outputs):
        return False
    if len(node.inputs) < 3 or not node.inputs[2]:
        return True
    training = graph.constants.get(node.inputs[2])
    return training is not None and training.data is not None and not training.data.any()


def _permutation(graph: Graph, node: Node) -> tuple[int, ...]:
    """The axes a transpose takes, in order; by default they are reversed."""
    given = node.ints_of("perm")
    if given is not None:
        return given
    kind = graph.types.get(node.inputs[0])
    return tuple(reversed(range(len(kind.shape)))) if kind else ()
