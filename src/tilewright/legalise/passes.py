"""Legalisation: rewrite a network until every operator meets the machine's limits.

Results do not change. Weights that have no numbers only change their shape: fill them in first
where the legalised network is to be run.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from tilewright.geometry.box import Box
from tilewright.graph.edit import Writer
from tilewright.graph.graph import Graph, Node
from tilewright.graph.ops import spec_of
from tilewright.graph.ops.spec import Engine
from tilewright.graph.rules import optional
from tilewright.graph.types import BITS, FLOATS, TensorType
from tilewright.graph.verify import verify
from tilewright.legalise import convolutions, dilated, pools, products, transposed
from tilewright.legalise.alignment import alignment_costs
from tilewright.legalise.draft import Draft
from tilewright.legalise.limits import ALIGNMENT, LimitCheck, array_limits, has_vector_engine
from tilewright.legalise.steps import Legalised, LegalStep, Outcome, wished
from tilewright.machine.dtypes import element_bits
from tilewright.machine.machine import Limits, Machine

Rule = Callable[[Draft, Limits], str]  # adds nodes and says what was done


# Rewrites of single nodes, and the limits they are for.
PASSES: tuple[tuple[str, Rule], ...] = (
    ("kernel", pools.cascade_factors),
    ("kernel", pools.cascade_maxima),
    ("phases", transposed.take_phases),  # before the kernel and its pads are looked at
    ("dilation", dilated.take_batches),  # before a kernel is cut to be expanded
    ("kernel", convolutions.split_kernels),  # parts of a long stride become patches
    ("kernel", convolutions.take_patches),
    ("dilation", dilated.expand_dilation),  # parts are short enough to be expanded
    ("dimension", convolutions.split_channels),  # patches have more channels
    ("dimension", products.split_reduction),
    ("pads", convolutions.pad_explicitly),  # the kernel is final
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
    run = _Run(machine, machine.elements(dtype or machine.dtype), rewrites)
    for limit, rule in PASSES:
        while (rewritten := run.once(graph, limit, rule)) is not graph:
            graph = rewritten
            verify(graph)
    steps = [*run.steps, *_remaining(graph, machine, run.dtype, run.origin)]
    order = {node.name: i for i, node in enumerate(graph.nodes)}
    ordered = tuple(sorted(steps, key=lambda s: order.get(s.node, len(order))))
    return Legalised(graph, ordered, tuple(run.choices.items()), tuple(run.forms.items()))


class _Run:
    """What was done so far: steps, whether operators that need not be rewritten were, and how."""

    def __init__(self, machine: Machine, dtype: str, rewrites: Collection[str] | None) -> None:
        self.machine, self.dtype, self.rewrites = machine, dtype, rewrites
        self.steps: list[LegalStep] = []
        self.origin: dict[str, str] = {}  # a new node -> the user's node that it stands for
        self.choices: dict[str, bool] = {}
        self.forms: dict[str, str] = {}

    def once(self, graph: Graph, limit: str, rule: Rule) -> Graph:
        """The network after a rule was tried on every node."""
        writer = Writer(graph)
        before = len(self.steps)
        for node in graph.nodes:
            known, user = spec_of(graph, node), self.origin.get(node.name, node.name)
            # What cannot be cut has a window that is not understood well enough to be rewritten.
            if known is None or known[0].access(known[1], 0) is None:
                writer.nodes.append(node)
                continue
            wish = wished(self.rewrites, user)
            draft = Draft(graph, node, known, writer.names, self.machine, self.dtype, wish)
            what = optional(rule)(draft, self.machine.limits)
            if draft.choice is not None:
                self.choices[user] = draft.choice
            if what is None:
                writer.nodes.append(node)
                continue
            writer.nodes += draft.nodes
            writer.types |= draft.types
            writer.constants |= draft.constants
            self.origin |= {new.name: user for new in draft.nodes}
            self.forms |= {user: draft.form} if draft.form else {}
            stated = _stated(limit, draft, self.machine)
            self.steps.append(_step(draft, user, stated, what, self.dtype))
        return graph if len(self.steps) == before else writer.finish()


def _stated(limit: str, draft: Draft, machine: Machine) -> str:
    """The limit that made a rule act: parts and patches serve kernels and strides."""
    broken = [c.limit for c in array_limits(draft.op, None, machine) if not c.met]
    return limit if limit in broken or not broken else broken[0]


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
