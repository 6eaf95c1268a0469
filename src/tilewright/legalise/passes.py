"""Legalisation: rewrite a network until every operator meets the machine's limits.

Results do not change. Weights that have no numbers only change their shape: fill them in first
where the legalised network is to be run.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from tilewright.geometry.box import Box
from tilewright.graph.edit import Names, rebuilt
from tilewright.graph.graph import Constant, Graph, Node
from tilewright.graph.ops import spec_of
from tilewright.graph.ops.spec import Engine
from tilewright.graph.types import BITS, FLOATS, TensorType
from tilewright.graph.verify import verify
from tilewright.legalise import convolutions, dilated, pools, products, transposed
from tilewright.legalise.alignment import alignment_costs
from tilewright.legalise.draft import Draft
from tilewright.legalise.limits import (
    ALIGNMENT,
    LimitCheck,
    array_limits,
    has_vector_engine,
)
from tilewright.legalise.steps import Legalised, LegalStep, Outcome, wished
from tilewright.machine.dtypes import element_bits
from tilewright.machine.machine import Limits, Machine

Rule = Callable[[Draft, Limits], str | None]


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewrite of single nodes, and the limit it is for (a rule adds nodes or gives None)."""

    limit: str
    rule: Rule


PASSES: tuple[Pass, ...] = (
    Pass("kernel", pools.cascade_factors),
    Pass("kernel", pools.cascade_maxima),
    Pass("phases", transposed.take_phases),  # before the kernel and its pads are looked at
    Pass("dilation", dilated.take_batches),  # before a kernel is cut to be expanded
    Pass("kernel", convolutions.split_kernels),  # parts of a long stride become patches
    Pass("kernel", convolutions.take_patches),
    Pass("dilation", dilated.expand_dilation),  # parts are short enough to be expanded
    Pass("dimension", convolutions.split_channels),  # patches have more channels
    Pass("dimension", products.split_reduction),
    Pass("pads", convolutions.pad_explicitly),  # the kernel is final
)


def legalise(
    graph: Graph,
    machine: Machine,
    dtype: str | None = None,
    rewrites: Collection[str] | None = None,
) -> Legalised:
    """The network as the machine can run it, and every step that made it so. Of the operators that
    run as they are too, those of `rewrites` are rewritten (None: where that is estimated to be
    cheaper)."""
    element = machine.elements(dtype or machine.dtype)
    steps: list[LegalStep] = []
    origin: dict[str, str] = {}  # a new node -> the user's node that it stands for
    choices: dict[str, bool] = {}
    forms: dict[str, str] = {}
    for one in PASSES:
        while True:
            rewritten, made = _run(one, graph, machine, element, origin, rewrites, choices, forms)
            steps += made
            if not made:
                break
            graph = rewritten
            verify(graph)
    steps += _remaining(graph, machine, element, origin)
    order = {node.name: i for i, node in enumerate(graph.nodes)}
    ordered = tuple(sorted(steps, key=lambda s: order.get(s.node, len(order))))
    return Legalised(graph, ordered, tuple(choices.items()), tuple(forms.items()))


def _run(
    one: Pass,
    graph: Graph,
    machine: Machine,
    dtype: str,
    origin: dict[str, str],
    rewrites: Collection[str] | None,
    choices: dict[str, bool],
    forms: dict[str, str],
) -> tuple[Graph, list[LegalStep]]:
    """One pass over all nodes; `origin`, `choices` and `forms` are added to."""
    names = Names(graph)
    steps: list[LegalStep] = []
    nodes: list[Node] = []
    types: dict[str, TensorType] = {}
    constants: dict[str, Constant] = {}
    for node in graph.nodes:
        known = spec_of(graph, node)
        user = origin.get(node.name, node.name)
        draft = None
        # What cannot be cut has a window that is not understood well enough to be rewritten.
        if known is not None and known[0].access(known[1], 0) is not None:
            draft = Draft(graph, node, known, names, machine, dtype, wished(rewrites, user))
        what = one.rule(draft, machine.limits) if draft is not None else None
        if draft is not None and draft.choice is not None:
            choices[user] = draft.choice
        if draft is None or what is None:
            nodes.append(node)
            continue
        nodes += draft.nodes
        types |= draft.types
        constants |= draft.constants
        origin |= {new.name: user for new in draft.nodes}
        forms |= {user: draft.form} if draft.form else {}
        limit = _stated(one, draft, machine)
        steps.append(_step(draft, user, limit, what, dtype))
    return (rebuilt(graph, nodes, constants, types), steps) if steps else (graph, [])


def _stated(one: Pass, draft: Draft, machine: Machine) -> str:
    """The limit that made a rule act: parts and patches serve kernels and strides."""
    broken = [c.limit for c in array_limits(draft.op, None, machine) if not c.met]
    return one.limit if one.limit in broken or not broken else broken[0]


def _step(draft: Draft, user: str, limit: str, what: str, dtype: str) -> LegalStep:
    """A rewrite with what it adds: all new nodes' work and traffic, less the old one's."""
    macs = sum(_macs(draft, node) for node in draft.nodes) - _macs(draft, draft.old)
    moved = sum(_bytes(draft, node, dtype) for node in draft.nodes)
    moved -= _bytes(draft, draft.old, dtype)
    made = tuple(node.name for node in draft.nodes)
    return LegalStep(user, draft.op.kind, limit, "rewritten", what, macs, moved, made)


def _macs(draft: Draft, node: Node) -> int:
    values = {**draft.graph.types, **draft.types}
    constants = {**draft.graph.constants, **draft.constants}
    known = spec_of(replace(draft.graph, types=values, constants=constants), node)
    return known[0].macs(known[1], Box.whole(known[1].result().shape)) if known else 0


def _bytes(draft: Draft, node: Node, dtype: str) -> int:
    """Bytes that a node reads and writes on its own; views and lists of integers are free."""
    if node.name in draft.views:
        return 0
    names = [n for n in (*node.inputs, *node.outputs) if n and n not in draft.indices]
    return sum(_size(draft.type(name), dtype) for name in names)


def _size(kind: TensorType, dtype: str) -> int:
    bits = element_bits(dtype) if kind.dtype in FLOATS else BITS[kind.dtype]
    return -(-kind.size * bits // 8)


def _remaining(
    graph: Graph, machine: Machine, dtype: str, origin: Mapping[str, str]
) -> list[LegalStep]:
    """What no rewrite is for: aligned channels, dimensions for tiles to cut, vector work."""
    steps: list[LegalStep] = []
    for node in graph.nodes:
        known = spec_of(graph, node)
        if known is None or not known[1].outputs or known[1].outputs[0] is None:
            continue
        spec, op = known
        user = origin.get(node.name, node.name)
        for check in array_limits(op, None, machine):
            if check.met or check.limit == ALIGNMENT:
                continue
            outcome, what = _left(check, spec.engine, machine)
            steps.append(LegalStep(user, op.kind, check.limit, outcome, what))
        costs = alignment_costs(spec, op, machine, element_bits(dtype) / 8)
        if costs is not None:
            what, macs, moved = costs
            steps.append(LegalStep(user, op.kind, ALIGNMENT, "layout", what, macs, moved))
    return steps


def _left(check: LimitCheck, engine: Engine, machine: Machine) -> tuple[Outcome, str]:
    found = f"{check.limit} {check.value} is beyond {check.allowed}"
    if engine is not Engine.MATRIX and has_vector_engine(machine):
        return "vector", f"{found}: stays on the vector engine, which it does not bind"
    if check.limit == "dimension" and check.remedy.startswith("tiles"):
        return "tiling", f"{found}: needs {check.remedy}"
    return "illegal", f"{found}: no rewrite for it"
