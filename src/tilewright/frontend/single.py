"""A single operator as a model of its own, for a runtime to execute."""

from collections.abc import Mapping, Sequence

from tilewright.frontend.save import serialize
from tilewright.graph.graph import Attribute, Graph, Node
from tilewright.graph.types import TensorType

Types = Sequence[TensorType | None]


def operator_model(
    kind: str,
    domain: str,
    attributes: Mapping[str, Attribute],
    inputs: Types,
    outputs: Types,
    captures: Mapping[str, TensorType],
    opsets: Mapping[str, int],
) -> tuple[bytes, list[str]]:
    """The model, and the names of its inputs: those that are there, in order, then the values
    that subgraphs capture, which keep their names."""

    def named(types: Types, prefix: str) -> dict[str, TensorType]:
        return {f"{prefix}{k}": kind for k, kind in enumerate(types) if kind is not None}

    given, made = named(inputs, "tilewright.in"), named(outputs, "tilewright.out")
    node = Node(
        "operator",
        kind,
        tuple("" if t is None else f"tilewright.in{k}" for k, t in enumerate(inputs)),
        tuple("" if t is None else f"tilewright.out{k}" for k, t in enumerate(outputs)),
        attributes,
        domain,
        tuple(captures),
    )
    names = (*given, *captures)
    types = {**given, **captures, **made}
    graph = Graph("operator", (node,), names, tuple(made), types, {}, opsets)
    return serialize(graph), list(names)
