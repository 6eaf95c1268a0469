"""Captured calls become a Graph, and the operators its nodes belong to."""

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.accounting import Operator
from tilewright.frontend.pytorch import layouts, pointwise, products, statistics
from tilewright.frontend.pytorch.calls import AtenCall, Captured
from tilewright.frontend.pytorch.emit import Emitter
from tilewright.frontend.pytorch.products import Translation
from tilewright.graph.graph import Graph
from tilewright.graph.verify import verify

TRANSLATIONS: Mapping[str, Translation] = {
    **products.TRANSLATIONS,
    **pointwise.TRANSLATIONS,
    **layouts.TRANSLATIONS,
    **statistics.TRANSLATIONS,
}
_NOTHING = frozenset({"_assert_async", "_assert_tensor_metadata", "_assert_scalar", "sym_size"})


@dataclass(frozen=True, slots=True)
class TorchNetwork:
    """A torch network as a Graph; `operators` are what its own graph calls so, and `untranslated`
    the ATen operators that stand in it as they are."""

    graph: Graph
    operators: tuple[Operator, ...]
    untranslated: tuple[str, ...]
    source: str


def translate(captured: Captured) -> TorchNetwork:
    """The network of the calls."""
    e = Emitter(captured)
    for call in captured.calls:
        e.begin(call.operator)
        _emit(e, call)
    graph = e.graph(captured)
    verify(graph)
    members: dict[str, list[int]] = {}
    for index, operator in enumerate(e.owner):
        if any(name not in graph.parameters for name in graph.nodes[index].writes):
            members.setdefault(operator, []).append(index)
    operators = tuple(Operator(name, tuple(nodes)) for name, nodes in members.items())
    foreign = dict.fromkeys(node.kind for node in graph.nodes if node.domain)
    return TorchNetwork(graph, operators, tuple(foreign), captured.source)


def _emit(e: Emitter, call: AtenCall) -> None:
    if not any(call.results) or call.target in _NOTHING:
        return
    rule = TRANSLATIONS.get(call.target)
    if rule is None:
        e.whole(call)
    else:
        rule(e, call)
