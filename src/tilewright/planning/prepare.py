"""Prepare: a network becomes one that can be planned on a machine, or an error says why not."""

import tempfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from tilewright.cost.from_graph import element_of
from tilewright.errors import ModelError
from tilewright.execute.runtime import output_types
from tilewright.frontend.load import reinferred
from tilewright.frontend.normalize import normalize
from tilewright.frontend.normalize.weigh import fold_scales
from tilewright.frontend.save import save_onnx
from tilewright.graph.edit import without_dead
from tilewright.graph.graph import Graph, Node
from tilewright.graph.ops import macs_of, planned_by_bytes, spec_of
from tilewright.graph.ops.spec import Engine
from tilewright.graph.types import BITS, FLOATS
from tilewright.legalise import Legalised, LegalStep, legalise
from tilewright.legalise.steps import SCALES
from tilewright.machine.dtypes import element_bits, rate_class
from tilewright.machine.machine import Machine
from tilewright.machine.parameters import lacking_elements
from tilewright.units import format_bytes, some

PLANNED = frozenset({*FLOATS, "bool", *(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64))})


def prepared(
    numbered: Graph, machine: Machine, dtype: str, rewrites: Collection[str] | None = None
) -> Legalised:
    """The network that is planned and run: plain, and within the machine's limits. `rewrites` are
    operators to be rewritten of those that need not be (None: as estimated); scales are folded into
    weights only where that says so.

    Its weights are seeded before: those that are folded together then fit each other.
    """
    graph, wanted = normalize(numbered), SCALES in (rewrites or ())
    weighed, scales = fold_scales(graph)
    legal = legalise(weighed if wanted else graph, machine, dtype, rewrites)
    if not scales:
        return legal
    steps: list[LegalStep] = []
    for name, into in (scales if wanted else {}).items():
        kind, what = graph.nodes[graph.index[name]].kind, f"folded into the weights of '{into}'"
        steps.append(LegalStep(name, kind, SCALES, "rewritten", what))
    choices = (*legal.choices, (SCALES, wanted))
    return replace(legal, steps=(*legal.steps, *steps), choices=choices)


def plannable(
    graph: Graph, machine: Machine, dtype: str, rewrites: Collection[str] | None = None
) -> Legalised:
    """The same, checked: every result has a type and a size that can be planned."""
    legal = prepared(typed(without_dead(graph)), machine, dtype, rewrites)
    _check_known(legal.graph)
    _check_room(legal.graph, machine, dtype)
    return legal


def warnings(graph: Graph, machine: Machine, dtype: str) -> tuple[str, ...]:
    """What makes the figures of a plan less than they seem."""
    found: list[str] = []
    if beside := _beside_arrays(graph, machine, dtype):
        text = f"the arrays of {machine.name} have no elements of type {dtype}"
        found.append(f"{text}, so that vector engines run {some(beside)}")
    known = [node for node in graph.nodes if planned_by_bytes(graph, node)]
    if known:
        macs = sum(macs_of(graph, node) for node in known)
        every = sum(macs_of(graph, node) for node in graph.nodes)
        share = f" ({macs / every:.0%} of the network's multiply-accumulates)" if macs else ""
        text = "costed by their bytes alone, as if computing took no time"
        found.append(f"{text}: {some([_called(node) for node in known])}{share}")
    narrow = [name for name, kind in graph.types.items() if BITS[kind.dtype] < 8]
    if element_bits(dtype) < 8:
        found.append(f"planned elements of {dtype} are held and moved as whole bytes each")
    elif narrow:
        found.append(
            f"'{narrow[0]}' is {graph.types[narrow[0]].dtype}: elements of less than a byte are "
            "moved packed, but each takes a whole byte of the memories that hold it"
        )
    return tuple(found)


def _called(node: Node) -> str:
    return f"'{node.name}' ({node.kind})"


def _beside_arrays(graph: Graph, machine: Machine, dtype: str) -> list[str]:
    """Convolutions and products in an element type that the machine's arrays do not have."""
    arrays = [engine.parameters for engine in machine.engines if engine.kind == "matrix"]
    if not arrays or not lacking_elements(arrays, dtype):
        return []
    known = [(node, spec_of(graph, node)) for node in graph.nodes]
    return [
        _called(node)
        for node, found in known
        if found is not None
        and found[0].engine is Engine.MATRIX
        and lacking_elements(arrays, rate_class(element_of(found[1], dtype)))
    ]


def typed(graph: Graph) -> Graph:
    """The network with types that only onnxruntime knows: results of its own operators, and what
    follows from them."""
    before: set[str] = set()
    while not graph.weightless:
        unknown = {n for node in graph.nodes for n in node.writes if n not in graph.types}
        if not unknown or unknown == before:
            break
        before = unknown
        foreign = [n for node in graph.nodes if node.domain for n in node.writes if n in unknown]
        outputs = tuple(dict.fromkeys((*graph.outputs, *foreign)))
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
            path = Path(folder) / "typed.onnx"
            save_onnx(replace(graph, outputs=outputs), path)
            found = output_types(path)
        graph = reinferred(graph, {name: found[name] for name in foreign if name in found})
    return graph


def _check_known(graph: Graph) -> None:
    """Raise where a result has no size before the network runs, or is no array of numbers."""
    for node in graph.nodes:
        for name in node.writes:
            kind, what = graph.types.get(name), f"node {_called(node)}"
            if kind is None:
                raise ModelError(
                    f"{what}: the shape of its result '{name}' is not known before it runs, so it "
                    "cannot be planned"
                )
            if kind.dtype not in PLANNED:
                raise ModelError(f"{what}: its result '{name}' is {kind}, which cannot be planned")


def _check_room(graph: Graph, machine: Machine, dtype: str) -> None:
    """Raise where the main memory cannot hold what goes in and comes out, whatever is planned."""
    names = {name for name in graph.inputs if name in graph.consumers}.union(graph.outputs)
    kinds = [graph.types[name] for name in names]
    planned = element_bits(dtype)
    bits = (k.size * (planned if k.dtype in FLOATS else BITS[k.dtype]) for k in kinds)
    memory, needed = machine.main_memory, -(-sum(bits) // 8)
    if needed > memory.usable:
        raise ModelError(
            f"memory {memory.name}: inputs and outputs of the network take {format_bytes(needed)}, "
            f"{format_bytes(memory.usable)} are there"
        )
