"""A model file becomes a Graph: shapes known, constants folded, nodes named and in order."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from math import prod
from pathlib import Path

from tilewright.errors import ModelError, ShapeError, TilewrightError
from tilewright.frontend import proto
from tilewright.frontend.branches import settled
from tilewright.frontend.infer import Inference
from tilewright.frontend.open_shapes import Shapes, by_input, named_dims, open_message
from tilewright.frontend.upgrade import TARGET, Upgrade
from tilewright.graph.edit import Names, needed
from tilewright.graph.graph import Graph, Node
from tilewright.graph.types import TensorType
from tilewright.graph.verify import verify

OLDEST_OPSET = 9


@dataclass(frozen=True, slots=True)
class Loaded:
    """A graph, what the file left out, and whether dimensions that it fixes were replaced."""

    graph: Graph
    missing_files: tuple[str, ...]
    reshaped: bool


def load_onnx(path: Path, shapes: Shapes | None = None) -> Loaded:
    """Load an ONNX file. `shapes` fixes open dimensions (or replaces fixed ones) of inputs; a
    dimension that the file names may be given by its name."""
    return _loaded(proto.read_model(path), f"'{path}'", shapes)


def load_data(data: bytes, label: str, shapes: Shapes | None = None) -> Loaded:
    """The same from the bytes of a file, which errors call `label`."""
    return _loaded(proto.model_of(data, label, Path()), label, shapes)


def _loaded(raw: proto.RawModel, label: str, shapes: Shapes | None) -> Loaded:
    version, newest = raw.opsets.get("", TARGET), proto.NEWEST_OPSET
    if not OLDEST_OPSET <= version <= newest:
        raise ModelError(
            f"{label} uses operator set {version}; {OLDEST_OPSET} to {newest} can be read"
        )
    for domain, number in raw.opsets.items():
        if not 0 <= number < 2**31:
            raise ModelError(f"{label} uses operator set {number} of '{domain}': no such set")
    given = by_input(raw.inputs, shapes or {})
    replaced = [name for name in given if _replaces(raw.inputs, name, given[name])]
    try:
        graph = build(raw, given, shapes or {})
    except ShapeError:
        raise
    except ModelError as error:
        if not replaced:
            raise
        name = replaced[0]
        fixed = ",".join("?" if d is None else str(d) for d in raw.inputs[name].shape or ())
        raise ShapeError(
            f"shape {name}={','.join(map(str, given[name]))} contradicts {label}, which fixes "
            f"'{name}' as [{fixed}]: {error}"
        ) from None
    return Loaded(graph, raw.missing_files, bool(replaced))


def _replaces(inputs: Mapping[str, proto.OpenType], name: str, given: tuple[int, ...]) -> bool:
    """Whether a given shape replaces a dimension that the file fixes."""
    declared = (inputs[name].shape if name in inputs else None) or ()
    pairs = zip(declared, given, strict=False)
    return any(isinstance(fixed, int) and fixed != extent for fixed, extent in pairs)


def build(raw: proto.RawModel, shapes: Shapes, said: Shapes | None = None) -> Graph:
    """The Graph of a raw model, with the inputs' shapes fixed; `said` is what a person gave, for
    inputs and for dimensions by their names."""
    inputs = {name: _fixed(name, kind, shapes) for name, kind in raw.inputs.items()}
    unknown = [name for name in shapes if name not in inputs]
    if unknown:
        known = ", ".join(inputs) or "none"
        open_dims = named_dims(raw.inputs)
        near = get_close_matches(unknown[0], [*inputs, *open_dims], 1)
        dims = f"; open dimensions: {', '.join(open_dims)}" if open_dims else ""
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        text = f"no input and no open dimension is called '{unknown[0]}' (shapes, --shape)"
        raise ShapeError(f"{text}: the inputs are: {known}{dims}{hint}")
    if any(kind is None for kind in inputs.values()):
        raise ShapeError(open_message(raw.inputs, shapes, said or {}, partial(_refused, raw)))
    opsets = dict(raw.opsets)
    old = opsets.get("", TARGET)
    opsets[""] = max(old, TARGET)
    trusted = {} if shapes else {n: _closed(kind) for n, kind in raw.declared.items()}
    inference = Inference(opsets, {n: kind for n, kind in trusted.items() if kind is not None})
    inference.types.update({name: kind for name, kind in inputs.items() if kind is not None})
    for name, constant in raw.constants.items():
        inference.constant(name, constant)
    upgrade = Upgrade(old, inference)
    ordered = _ordered(raw, set(inputs))
    steps = (node for original in ordered for node in upgrade.nodes(original))
    return _finish(raw.name, tuple(inputs), raw.outputs, _staying(steps, inference), inference)


def _staying(steps: Iterable[Node], inference: Inference) -> list[Node]:
    """The nodes that did not become constants, each with a name of its own."""
    names = Names()
    nodes: list[Node] = []
    for step in steps:
        for node in settled(step, inference):
            name = node.name or f"{node.kind}_{next(iter(node.writes), '')}"
            named = replace(node, name=names.take(name))
            if inference.add(named):
                nodes.append(named)
    return nodes


def _refused(raw: proto.RawModel, shapes: Shapes) -> str:
    """Why a network does not take inputs of these shapes; nothing where it does."""
    try:
        build(raw, shapes)
    except TilewrightError as error:
        return str(error)
    return ""


def reinferred(graph: Graph, learnt: Mapping[str, TensorType]) -> Graph:
    """The network with types learnt elsewhere, and all that follows from them."""
    inference = Inference(graph.opsets, {**graph.types, **learnt})
    inference.types.update({name: graph.types[name] for name in graph.inputs})
    for name, constant in graph.constants.items():
        inference.constant(name, constant)
    nodes = _staying(graph.nodes, inference)
    return _finish(graph.name, graph.inputs, graph.outputs, nodes, inference)


def _finish(
    name: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    nodes: list[Node],
    inference: Inference,
) -> Graph:
    """Drop what nothing reads; a network output that became constant is copied out."""
    copies = [
        Node(f"constant_output_{name}", "Identity", (f"{name}/value",), (name,))
        for name in outputs
        if name in inference.constants
    ]
    for node in copies:
        inference.constant(node.inputs[0], inference.constants.pop(node.outputs[0]))
    alive = needed([*nodes, *copies], outputs)
    read = {*outputs, *(name for node in alive for name in node.reads)}
    constants = {name: c for name, c in inference.constants.items() if name in read}
    made = {name for node in alive for name in node.writes} | set(inputs) | set(constants)
    types = {name: kind for name, kind in inference.types.items() if name in made}
    graph = Graph(name, tuple(alive), inputs, outputs, types, constants, inference.opsets)
    verify(graph)
    return graph


def _ordered(raw: proto.RawModel, inputs: set[str]) -> Iterator[Node]:
    """Nodes in file order where that is runnable, as the standard asks, else sorted."""
    known = inputs | set(raw.constants)
    waiting = list(raw.nodes)
    while waiting:
        left: list[Node] = []
        for node in waiting:
            if all(name in known for name in node.reads):
                known.update(node.writes)
                yield node
            else:
                left.append(node)
        if len(left) == len(waiting):
            raise ModelError(_why_stuck(left, known))
        waiting = left


def _why_stuck(nodes: list[Node], known: set[str]) -> str:
    """What keeps the rest from running: a value that nothing makes, or else a cycle."""
    made = {name for node in nodes for name in node.writes}
    for node in nodes:
        missing = next((name for name in node.reads if name not in known | made), None)
        if missing is not None:
            return f"node '{node.name or node.kind}' reads '{missing}', which nothing makes"
    return f"the graph has a cycle: node '{nodes[0].name or nodes[0].kind}' needs its own result"


def _closed(kind: proto.OpenType) -> TensorType | None:
    if not kind.dtype or kind.shape is None:
        return None
    shape = tuple(extent for extent in kind.shape if isinstance(extent, int))
    return TensorType(kind.dtype, shape) if len(shape) == len(kind.shape) else None


def _fixed(name: str, kind: proto.OpenType, shapes: Shapes) -> TensorType | None:
    if not kind.dtype:
        raise ModelError(f"input '{name}' is not a tensor; only tensors can be planned")
    closed = _closed(kind)
    if closed is not None and name not in shapes:
        if closed.size > proto.LARGEST:
            raise ShapeError(f"input '{name}' is too large: {closed}")
        return closed
    if name not in shapes:
        return None
    given = shapes[name]
    if kind.shape is not None and len(kind.shape) != len(given):
        raise ShapeError(
            f"shape {name}={','.join(map(str, given))} has {len(given)} dimensions, "
            f"the input has {len(kind.shape)}"
        )
    if prod(given) > proto.LARGEST:
        raise ShapeError(f"shape {name}={','.join(map(str, given))} is too large")
    return TensorType(kind.dtype, given)
