"""An If whose condition is known is the branch that it takes.

Exporters write one wherever Python asked a question about shapes, and most are settled once the
shapes are fixed. The branch's operators stand in its place; an If that data decide stays.
"""

from collections.abc import Iterator, Mapping

from tilewright.frontend import proto
from tilewright.frontend.infer import Inference
from tilewright.graph.edit import free_name
from tilewright.graph.graph import Node, Opaque


def settled(node: Node, inference: Inference) -> Iterator[Node]:
    """The node, or what runs in its stead; each is to be inferred before the next is asked for."""
    body = _taken(node, inference)
    inside = None if body is None else _renamed(body, node.outputs, inference)
    if body is None or inside is None:
        yield node
        return
    for name, constant in body.constants.items():
        inference.constant(inside[name], constant)
    for inner in body.nodes:
        yield from settled(inner.renamed(inside, inside), inference)
    for name, result in zip(body.outputs, node.outputs, strict=True):
        source = inside.get(name, name)
        if result and source != result:
            yield Node(f"{node.name}/{result}", "Identity", (source,), (result,))


def _taken(node: Node, inference: Inference) -> proto.Body | None:
    """The branch that an If takes, None where that is not known yet."""
    if node.kind != "If" or node.domain or len(node.inputs) != 1:
        return None
    condition = inference.constants.get(node.inputs[0])
    if condition is None or condition.data is None or condition.data.size != 1:
        return None
    branch = node.attributes.get("then_branch" if condition.data.item() else "else_branch")
    body = proto.body_of(branch) if isinstance(branch, Opaque) else None
    return body if body is not None and len(body.outputs) == len(node.outputs) else None


def _renamed(
    body: proto.Body, results: tuple[str, ...], inference: Inference
) -> Mapping[str, str] | None:
    """What the branch's own values are called outside: what it makes as the If calls it, others
    as they are unless such a name is taken. None where a subgraph in it knows one by its name."""
    made = [name for node in body.nodes for name in node.writes]
    inside: dict[str, str] = {}
    for name, result in zip(body.outputs, results, strict=True):
        if result and name in made:
            inside.setdefault(name, result)
    taken = {*inference.types, *made, *inside.values()}
    for name in (*body.constants, *made):
        if name not in inside and name in inference.types:
            inside[name] = free_name(name, taken)
            taken.add(inside[name])
        inside.setdefault(name, name)
    changed = {name for name, outside in inside.items() if name != outside}
    return None if any(changed & set(node.captures) for node in body.nodes) else inside
