"""Predict the peak activation memory of one onnxruntime run on CPU, without onnx or onnxruntime.

The prediction has two halves that can be used apart:

* ``lower(graph, runtime)`` rewrites a model graph into the list of kernels onnxruntime runs: fusions, the blocked
  NCHWc layout with its reorder nodes, and the order of execution;
* ``simulate(kernels, runtime)`` walks that list and adds up buffers that live at the same time plus kernel scratch.

``predict(graph, runtime)`` is both.  A graph that onnxruntime has already optimised can go straight to ``simulate``.

Small parts for a search: ``scratch_bytes``, ``blocked_bytes``, ``in_place_inputs``, ``is_alias``, ``fuses_into_producer``,
``execution_order``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

Bytes = int
Shape = tuple[int, ...]

NCHWC = "com.microsoft.nchwc"
MICROSOFT = "com.microsoft"
PAGE: Bytes = 4096


# ------------------------------------------------------------------------------------------------ the input


@dataclass(frozen=True, slots=True)
class Value:
    """Shape and element size of one tensor."""

    shape: Shape
    element_size: int = 4

    @property
    def bytes(self) -> Bytes:
        return prod(self.shape) * self.element_size


@dataclass(frozen=True, slots=True)
class Node:
    """One operator; a missing optional input is the empty string."""

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """A model as plain data, nodes in file order."""

    nodes: Sequence[Node]
    values: Mapping[str, Value]
    constants: frozenset[str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


# ------------------------------------------------------------------------------------------------ the runtime


@dataclass(frozen=True, slots=True)
class Malloc:
    """How the C library hands out memory.

    ``mmap_threshold``: blocks of at least this size are mapped, and unmapped when freed.
    ``dynamic``: glibc's default, where freeing a mapped block raises the threshold to its size, up to 32 MiB; smaller
    blocks then come from the heap, which shrinks only at its top.
    """

    mmap_threshold: Bytes = 64 * 1024
    dynamic: bool = False
    trim_factor: int = 2
    maximum_threshold: Bytes = 32 * 1024 * 1024
    top_pad: Bytes = 128 * 1024


@dataclass(frozen=True, slots=True)
class Runtime:
    """Session settings and machine facts that change memory."""

    block: int = 8
    """Channels per NCHWc block: 8 with AVX2, 16 with AVX-512, 1 = the layout is off."""
    extended: bool = True
    """Fusions of level EXTENDED (Conv + activation, Gelu, LayerNormalization, MatMul scale ...)."""
    reuse: bool = False
    """SessionOptions.enable_mem_reuse."""
    malloc: Malloc = Malloc()
    fixed_overhead: Bytes = 300 * 1024
    """Code pages, thread state and small blocks first touched by a run."""
    conv_scratch: Bytes = 64 * 1024
    """Segmented im2col buffer of an unblocked convolution, one thread."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel onnxruntime launches, in execution order."""

    node: Node
    input_values: tuple[Value | None, ...]
    output_values: tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """What ``lower`` hands to ``simulate``."""

    kernels: tuple[Kernel, ...]
    constants: frozenset[str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    largest_constant: Bytes = 0


@dataclass(frozen=True, slots=True)
class Live:
    """A tensor or a scratch buffer that exists at the peak."""

    name: str
    bytes: Bytes


@dataclass(frozen=True, slots=True)
class Prediction:
    """Peak bytes, where, and of what."""

    peak: Bytes
    node: Node | None
    position: int
    live: tuple[Live, ...]
    scratch: Bytes


# ------------------------------------------------------------------------------------------------ facts per operator

_ALIAS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"})
"""Output shares the input's buffer, always."""

_IN_PLACE = frozenset(
    {
        "Relu",
        "Sigmoid",
        "Tanh",
        "LeakyRelu",
        "Elu",
        "HardSigmoid",
        "Softplus",
        "Softsign",
        "Selu",
        "Celu",
        "ThresholdedRelu",
        "Clip",
        "Softmax",
        "LogSoftmax",
    }
)
"""Output may overwrite input 0 at its last use."""

_CONV_ACTIVATIONS = frozenset(
    {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid", "HardSwish"}
)
_GEMM_ACTIVATIONS = frozenset(
    {
        "Relu",
        "Sigmoid",
        "Tanh",
        "LeakyRelu",
        "HardSigmoid",
        "Softplus",
        "Softsign",
        "Elu",
        "Selu",
        "ThresholdedRelu",
    }
)
_NCHWC_ACTIVATIONS = frozenset(
    {
        "Relu",
        "Sigmoid",
        "Tanh",
        "LeakyRelu",
        "Clip",
        "HardSigmoid",
        "Gelu",
        "QuickGelu",
        "HardSwish",
    }
)
_POOLS = frozenset({"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"})


def is_alias(node: Node) -> bool:
    """The output is the input's buffer seen with another shape."""
    return node.op_type in _ALIAS and node.domain == ""


def in_place_inputs(node: Node) -> tuple[int, ...]:
    """Inputs whose buffer output 0 may take over, if this is their last use and the sizes match."""
    if is_alias(node):
        return (0,)
    if (
        node.op_type in ("Conv", "FusedConv")
        and node.domain in (NCHWC, MICROSOFT)
        and len(node.inputs) > 3
    ):
        return (3,)
    if node.op_type in _IN_PLACE and node.domain == "":
        return (0,)
    return ()


def blocked_bytes(value: Value, block: int) -> Bytes:
    """Bytes of an NCHW tensor in the blocked layout: channels rounded up to the block."""
    batch, channels, *spatial = value.shape
    return batch * _round_up(channels, block) * prod(spatial) * value.element_size


def conv_is_blocked(weight: Shape, group: int, block: int) -> bool:
    """Whether onnxruntime moves this float convolution (constant weights, OIHW) to the NCHWc layout."""
    if block <= 1 or len(weight) != 4:
        return False
    outputs, inputs = weight[0], weight[1]
    if group > 1:
        if outputs % 4:
            return False
        depthwise = inputs == 1 and outputs == group
        return depthwise or (
            inputs % block == 0 and outputs % group == 0 and (outputs // group) % block == 0
        )
    return inputs < block or inputs % 4 == 0


def conv_reads_plain_input(weight: Shape, group: int, block: int) -> bool:
    """A blocked convolution of few channels reads the NCHW tensor itself, without a reorder."""
    return group == 1 and weight[1] < block


def scratch_bytes(
    node: Node,
    inputs: Sequence[Value | None],
    outputs: Sequence[Value | None],
    runtime: Runtime = Runtime(),
) -> Bytes:
    """Bytes a kernel allocates for itself while it runs (touched pages only)."""
    out = outputs[0] if outputs else None
    first = inputs[0] if inputs else None
    if out is None or first is None:
        return 0
    match node.op_type:
        case "ConvTranspose":
            # Gemm into a column buffer, one group at a time
            weight = inputs[1]
            assert weight is not None
            columns = prod(weight.shape[1:])
            return columns * prod(first.shape[2:]) * first.element_size
        case "Conv" | "FusedConv" if node.domain != NCHWC:
            return _conv_scratch(node, first, inputs[1], out, runtime)
        case "QLinearConv" | "ConvInteger" if inputs[-1] is not None:
            return _quantised_conv_scratch(node, inputs, out)
        case "Softmax" | "LogSoftmax":
            axis = int(node.attributes.get("axis", -1)) % max(1, len(first.shape))
            # another axis than the last is moved to the end and back, out of place
            return 2 * out.bytes if prod(first.shape[axis + 1 :]) > 1 else 0
        case "LRN":
            return int(2.26 * out.bytes)
        case "Where":
            return out.bytes
        case "GroupNormalization" | "Mish" | "HardSwish":
            return out.bytes  # run as a function body of several nodes
        case "Resize" if str(node.attributes.get("mode", "nearest")) == "cubic":
            return int(0.34 * out.bytes)
        case "LSTM" | "GRU" | "RNN":
            return 2 * out.bytes
        case _:
            return 0


def _conv_scratch(
    node: Node, x: Value, weight: Value | None, out: Value, runtime: Runtime
) -> Bytes:
    if weight is None:
        return 0
    kernel = weight.shape[2:]
    unit = all(s == 1 for s in _ints(node, "strides", len(kernel), 1))
    unpadded = not any(_ints(node, "pads", 2 * len(kernel), 0))
    if prod(kernel) == 1 and unit and unpadded:
        return 0
    group = int(node.attributes.get("group", 1))
    pixels = prod(out.shape[2:])
    columns = prod(weight.shape[1:])
    if weight.shape[0] // group > pixels:
        return pixels * columns * x.element_size
    return min(runtime.conv_scratch, pixels * columns * x.element_size)


def _quantised_conv_scratch(node: Node, inputs: Sequence[Value | None], out: Value) -> Bytes:
    # the kernel works channels-last: transposed copies of input and output, and an int32 accumulator in stripes
    first = inputs[0]
    assert first is not None
    return 0 if node.attributes.get("channels_last") else first.bytes + out.bytes


# ------------------------------------------------------------------------------------------------ order of execution


def execution_order(nodes: Sequence[Node], indices: Sequence[int] | None = None) -> list[int]:
    """Positions of ``nodes`` in the order onnxruntime runs them.

    A depth-first walk backwards from the nodes without consumers; among the producers of a node, and among the
    last nodes, the one with the highest index (file position, or later for nodes made by an optimiser) goes first.
    """
    rank = list(indices) if indices is not None else list(range(len(nodes)))
    producer = {name: i for i, node in enumerate(nodes) for name in node.outputs if name}
    sources = [
        sorted({producer[n] for n in node.inputs if n in producer}, key=rank.__getitem__)
        for node in nodes
    ]
    consumed = {i for above in sources for i in above}
    stack = [
        (i, False)
        for i in sorted((i for i in range(len(nodes)) if i not in consumed), key=rank.__getitem__)
    ]
    seen = [False] * len(nodes)
    order: list[int] = []
    while stack:
        current, done = stack.pop()
        if done:
            order.append(current)
            continue
        if seen[current]:
            continue
        seen[current] = True
        stack.append((current, True))
        stack.extend((above, False) for above in sources[current] if not seen[above])
    return order


# ------------------------------------------------------------------------------------------------ lowering


def fuses_into_producer(node: Node, producer: Node, uses_of_producer: int) -> bool:
    """Whether the producer's output never exists because ``node`` is computed inside the producer's kernel.

    ``node`` follows a producer whose output has ``uses_of_producer`` readers (a graph output counts as one).
    Additions into a convolution need both operands and are decided in ``lower``.
    """
    if uses_of_producer != 1:
        return False
    if producer.op_type in ("Conv", "FusedConv"):
        if node.op_type == "BatchNormalization":
            return "activation" not in producer.attributes
        return node.op_type in _CONV_ACTIVATIONS and "activation" not in producer.attributes
    if producer.op_type == "Gemm":
        return node.op_type in _GEMM_ACTIVATIONS
    return False


@dataclass(slots=True)
class _Draft:
    """A node while the graph is being rewritten; ``index`` decides the order of execution."""

    index: int
    op_type: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    domain: str

    def freeze(self) -> Node:
        return Node(
            self.op_type, tuple(self.inputs), tuple(self.outputs), self.attributes, self.domain
        )


@dataclass(slots=True)
class _Blocked:
    """A value that exists in the blocked layout."""

    token: str
    producer: _Draft
    uses: int
    remaining: int
    channels: int


class _Rewriter:
    """The graph while the optimisers' effects on memory are applied to it."""

    def __init__(self, graph: Graph, runtime: Runtime) -> None:
        self.runtime = runtime
        self.graph = graph
        self.values: dict[str, Value] = dict(graph.values)
        self.constants: set[str] = set(graph.constants)
        self.outputs = set(graph.outputs)
        self.drafts: dict[int, _Draft] = {
            i: _Draft(
                i,
                n.op_type,
                list(n.inputs),
                list(n.outputs),
                dict(n.attributes),
                "" if n.domain == "ai.onnx" else n.domain,
            )
            for i, n in enumerate(graph.nodes)
        }
        self.next_index = len(self.drafts)
        self.producer: dict[str, _Draft] = {}
        self.consumers: dict[str, list[_Draft]] = {}
        self._relink()

    # -- bookkeeping

    def _relink(self) -> None:
        self.producer = {o: d for d in self.drafts.values() for o in d.outputs if o}
        self.consumers = {}
        for draft in self.drafts.values():
            for name in draft.inputs:
                if name:
                    self.consumers.setdefault(name, []).append(draft)

    def uses(self, name: str) -> int:
        return len(self.consumers.get(name, ())) + (name in self.outputs)

    def sole_consumer(self, name: str) -> _Draft | None:
        readers = self.consumers.get(name, ())
        return readers[0] if len(readers) == 1 and name not in self.outputs else None

    def remove(self, draft: _Draft) -> None:
        del self.drafts[draft.index]
        for name in draft.inputs:
            readers = self.consumers.get(name)
            if readers and draft in readers:
                self.consumers[name] = [r for r in readers if r is not draft]
        for name in draft.outputs:
            if self.producer.get(name) is draft:
                del self.producer[name]

    def add(
        self,
        op_type: str,
        inputs: Iterable[str],
        outputs: Iterable[str],
        attributes: Mapping[str, Any],
        domain: str,
    ) -> _Draft:
        draft = _Draft(
            self.next_index, op_type, list(inputs), list(outputs), dict(attributes), domain
        )
        self.next_index += 1
        self.drafts[draft.index] = draft
        for name in draft.outputs:
            self.producer[name] = draft
        for name in draft.inputs:
            if name:
                self.consumers.setdefault(name, []).append(draft)
        return draft

    def absorb(self, head: _Draft, tail: _Draft) -> None:
        """``head`` now computes what ``tail`` did: its output takes the name of ``tail``'s."""
        self.remove(tail)
        del self.producer[head.outputs[0]]
        head.outputs[0] = tail.outputs[0]
        self.producer[head.outputs[0]] = head

    def reindex(self, draft: _Draft) -> None:
        """The optimiser replaced the node by a new one, which gets a later index."""
        del self.drafts[draft.index]
        draft.index = self.next_index
        self.next_index += 1
        self.drafts[draft.index] = draft

    def in_order(self) -> list[_Draft]:
        drafts = sorted(self.drafts.values(), key=lambda d: d.index)
        nodes = [d.freeze() for d in drafts]
        return [drafts[i] for i in execution_order(nodes, [d.index for d in drafts])]

    # -- level basic

    def fold_constants(self) -> None:
        for draft in self.in_order():
            if draft.op_type == "Constant" or (
                draft.inputs
                and draft.op_type != "DequantizeLinear"
                and all(not i or i in self.constants for i in draft.inputs)
            ):
                self.constants.update(draft.outputs)
                self.remove(draft)
                self._relink()

    def drop_no_ops(self) -> None:
        for draft in list(self.drafts.values()):
            if draft.op_type not in ("Identity", "Dropout") or draft.outputs[0] in self.outputs:
                continue
            self._bypass(draft)

    def _bypass(self, draft: _Draft) -> None:
        source, target = draft.inputs[0], draft.outputs[0]
        self.remove(draft)
        for reader in self.consumers.pop(target, []):
            reader.inputs = [source if i == target else i for i in reader.inputs]
            self.consumers.setdefault(source, []).append(reader)

    def fuse_conv_constants(self) -> None:
        """Conv followed by BatchNormalization, or by Mul / Add with one constant per channel."""
        changed = True
        while changed:
            changed = False
            for draft in list(self.drafts.values()):
                if draft.op_type != "Conv" or draft.inputs[1] not in self.constants:
                    continue
                tail = self.sole_consumer(draft.outputs[0])
                if tail is None:
                    continue
                others = [i for i in tail.inputs if i != draft.outputs[0]]
                if not others or not all(i in self.constants for i in others):
                    continue
                channels = self.values[draft.outputs[0]].shape[1]
                if (
                    tail.op_type == "BatchNormalization"
                    and len([o for o in tail.outputs if o]) == 1
                ):
                    pass
                elif (
                    tail.op_type in ("Mul", "Add")
                    and prod(self.values[others[0]].shape) == channels
                    and len(self.values[others[0]].shape) in (3, 4)
                ):
                    pass
                else:
                    continue
                self.absorb(draft, tail)
                changed = True

    def fuse_pads(self) -> None:
        """A constant zero Pad in front of a convolution becomes its padding."""
        for draft in list(self.drafts.values()):
            if (
                draft.op_type != "Pad"
                or str(draft.attributes.get("mode", "constant")) != "constant"
            ):
                continue
            readers = self.consumers.get(draft.outputs[0], [])
            if (
                draft.outputs[0] in self.outputs
                or not readers
                or any(r.op_type != "Conv" for r in readers)
            ):
                continue
            self._bypass(draft)

    # -- level extended

    def fuse_matmul_add(self) -> None:
        for draft in self.in_order():
            if draft.op_type != "MatMul" or len(self.values[draft.inputs[1]].shape) != 2:
                continue
            tail = self.sole_consumer(draft.outputs[0])
            if tail is None or tail.op_type != "Add" or draft.inputs[1] not in self.constants:
                continue
            bias = [i for i in tail.inputs if i != draft.outputs[0]]
            if (
                len(bias) != 1
                or bias[0] not in self.constants
                or len(self.values[bias[0]].shape) != 1
            ):
                continue
            self.absorb(draft, tail)
            draft.op_type = "Gemm"
            self.reindex(draft)

    def fuse_gemm_activations(self) -> None:
        for draft in self.in_order():
            if draft.op_type != "Gemm":
                continue
            tail = self.sole_consumer(draft.outputs[0])
            if tail is not None and tail.op_type in _GEMM_ACTIVATIONS:
                self.absorb(draft, tail)
                draft.domain, draft.op_type = MICROSOFT, "FusedGemm"
                self.reindex(draft)

    def fuse_matmul_scale_and_transpose(self) -> None:
        for draft in self.in_order():
            if draft.op_type not in ("MatMul", "FusedMatMul"):
                continue
            changed = False
            for slot in (0, 1):
                above = self.producer.get(draft.inputs[slot])
                if above is None or self.sole_consumer(draft.inputs[slot]) is not draft:
                    continue
                scalar = self._scaled_by_constant(above)
                swap = above.op_type == "Transpose" and self._swaps_last_two(above)
                if scalar is not None or swap:
                    source = scalar if scalar is not None else above.inputs[0]
                    self._bypass_to(above, source)
                    changed = True
            tail = self.sole_consumer(draft.outputs[0])
            if tail is not None and self._scaled_by_constant(tail) == draft.outputs[0]:
                self.absorb(draft, tail)
                changed = True
            if changed:
                draft.op_type, draft.domain = "FusedMatMul", MICROSOFT
                self.reindex(draft)

    def _bypass_to(self, draft: _Draft, source: str) -> None:
        target = draft.outputs[0]
        self.remove(draft)
        for reader in self.consumers.pop(target, []):
            reader.inputs = [source if i == target else i for i in reader.inputs]
            self.consumers.setdefault(source, []).append(reader)

    def _scaled_by_constant(self, draft: _Draft) -> str | None:
        if draft.op_type not in ("Mul", "Div") or len(draft.inputs) != 2:
            return None
        left, right = draft.inputs
        if right in self.constants and prod(self.values[right].shape) == 1:
            return left
        if left in self.constants and prod(self.values[left].shape) == 1 and draft.op_type == "Mul":
            return right
        return None

    def _swaps_last_two(self, draft: _Draft) -> bool:
        rank = len(self.values[draft.inputs[0]].shape)
        perm = list(draft.attributes.get("perm", range(rank - 1, -1, -1)))
        return perm == [*range(rank - 2), rank - 1, rank - 2]

    def fuse_silu(self) -> None:
        """x * Sigmoid(x), or x * Sigmoid(a x), becomes one QuickGelu."""
        for draft in self.in_order():
            if draft.op_type != "Sigmoid" or draft.index not in self.drafts:
                continue
            tail = self.sole_consumer(draft.outputs[0])
            if tail is None or tail.op_type != "Mul":
                continue
            other = next((i for i in tail.inputs if i != draft.outputs[0]), "")
            source = draft.inputs[0]
            above = self.producer.get(source)
            if source != other:
                if (
                    above is None
                    or self._scaled_by_constant(above) != other
                    or self.uses(source) != 1
                ):
                    continue
                self.remove(above)
            self.remove(draft)
            self.remove(tail)
            self.add("QuickGelu", [other], tail.outputs, {}, MICROSOFT)

    def fuse_gelu(self) -> None:
        """0.5 x (1 + Erf(x / sqrt 2)), in either order of its products, becomes one Gelu."""
        for draft in self.in_order():
            if draft.op_type != "Erf" or draft.index not in self.drafts:
                continue
            scale = self.producer.get(draft.inputs[0])
            plus = self.sole_consumer(draft.outputs[0])
            if (
                scale is None
                or plus is None
                or plus.op_type != "Add"
                or self.uses(draft.inputs[0]) != 1
            ):
                continue
            source = self._scaled_by_constant(scale)
            first = self.sole_consumer(plus.outputs[0])
            if source is None or first is None or first.op_type != "Mul":
                continue
            last = first
            gone = [scale, draft, plus, first]
            other = next(i for i in first.inputs if i != plus.outputs[0])
            half = self.producer.get(other)
            if other == source:
                following = self.sole_consumer(first.outputs[0])
                if following is None or self._scaled_by_constant(following) != first.outputs[0]:
                    continue
                last = following
                gone.append(following)
            elif (
                half is not None
                and self._scaled_by_constant(half) == source
                and self.uses(other) == 1
            ):
                gone.append(half)
            else:
                continue
            for piece in gone:
                self.remove(piece)
            self.add("Gelu", [source], last.outputs, {}, "")

    def fuse_layer_norm(self) -> None:
        """The chain ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div, Mul, Add becomes LayerNormalization."""
        for draft in self.in_order():
            if draft.op_type != "Sqrt" or draft.index not in self.drafts:
                continue
            plus = self.producer.get(draft.inputs[0])
            mean = (
                self.producer.get(next((i for i in plus.inputs if i not in self.constants), ""))
                if plus
                else None
            )
            power = (
                self.producer.get(mean.inputs[0]) if mean and mean.op_type == "ReduceMean" else None
            )
            if plus is None or mean is None or power is None or power.op_type not in ("Pow", "Mul"):
                continue
            centred = self.producer.get(power.inputs[0])
            if centred is None or centred.op_type != "Sub":
                continue
            source = centred.inputs[0]
            average = self.producer.get(centred.inputs[1])
            divide = self.sole_consumer(draft.outputs[0])
            if (
                average is None
                or average.op_type != "ReduceMean"
                or divide is None
                or divide.op_type != "Div"
            ):
                continue
            gain = self.sole_consumer(divide.outputs[0])
            bias = (
                self.sole_consumer(gain.outputs[0])
                if gain is not None and gain.op_type == "Mul"
                else None
            )
            if gain is None or gain.op_type != "Mul" or bias is None or bias.op_type != "Add":
                continue
            for piece in (average, centred, power, mean, plus, draft, divide, gain, bias):
                if piece.index in self.drafts:
                    self.remove(piece)
            self.add("LayerNormalization", [source], bias.outputs, {}, "")

    def fuse_skip_layer_norm(self) -> None:
        for draft in self.in_order():
            if (
                draft.op_type != "LayerNormalization"
                or len(self.values[draft.inputs[0]].shape) != 3
            ):
                continue
            above = self.producer.get(draft.inputs[0])
            if (
                above is None
                or above.op_type != "Add"
                or self.sole_consumer(draft.inputs[0]) is not draft
            ):
                continue
            shapes = {self.values[i].shape for i in above.inputs}
            if len(shapes) != 1:
                continue
            self.remove(above)
            self.remove(draft)
            self.add(
                "SkipLayerNormalization",
                [*above.inputs, *draft.inputs[1:]],
                draft.outputs[:1],
                {},
                MICROSOFT,
            )

    def fuse_conv_activations(self) -> None:
        for draft in self.in_order():
            if draft.op_type != "Conv" or draft.domain:
                continue
            tail = self.sole_consumer(draft.outputs[0])
            if tail is None or tail.op_type not in _CONV_ACTIVATIONS or tail.domain:
                continue
            if tail.op_type == "Clip" and not all(
                not i or i in self.constants for i in tail.inputs[1:]
            ):
                continue
            self.absorb(draft, tail)
            draft.op_type, draft.domain = "FusedConv", MICROSOFT
            draft.attributes["activation"] = tail.op_type
            self.reindex(draft)

    def fuse_conv_sums(self) -> None:
        """Conv + Add (+ activation) outside the blocked layout: the sum accumulates into the other operand."""
        for draft in self.in_order():
            if draft.op_type != "Conv" or draft.domain or draft.index not in self.drafts:
                continue
            tail = self.sole_consumer(draft.outputs[0])
            if tail is None or tail.op_type not in ("Add", "Sum") or len(tail.inputs) != 2:
                continue
            other = next((i for i in tail.inputs if i != draft.outputs[0]), "")
            if (
                not other
                or other in self.constants
                or self.values[other].shape != self.values[draft.outputs[0]].shape
            ):
                continue
            if self._reaches(draft, other):
                continue
            self.absorb(draft, tail)
            draft.inputs = [*draft.inputs, *[""] * (3 - len(draft.inputs)), other]
            self.consumers.setdefault(other, []).append(draft)
            act = self.sole_consumer(draft.outputs[0])
            if act is not None and act.op_type in _CONV_ACTIVATIONS:
                self.absorb(draft, act)
                draft.attributes["activation"] = act.op_type
            draft.op_type, draft.domain = "FusedConv", MICROSOFT
            self.reindex(draft)

    def _reaches(self, start: _Draft, name: str) -> bool:
        """Whether ``name`` depends on ``start`` (a sum with it would then be a cycle)."""
        stack, seen = [name], set[str]()
        while stack:
            above = self.producer.get(stack.pop())
            if above is None:
                continue
            if above is start:
                return True
            for i in above.inputs:
                if i and i not in seen:
                    seen.add(i)
                    stack.append(i)
        return False

    # -- level all: the blocked layout

    def block_layout(self) -> None:
        _BlockedLayout(self).run()

    def program(self) -> Program:
        drafts = self.in_order()
        kernels = tuple(
            Kernel(
                d.freeze(),
                tuple(self.values.get(i) for i in d.inputs),
                tuple(self.values.get(o) for o in d.outputs),
            )
            for d in drafts
        )
        largest = max(
            (self.values[c].bytes for c in self.graph.constants if c in self.values), default=0
        )
        return Program(
            kernels, frozenset(self.constants), self.graph.inputs, self.graph.outputs, largest
        )


class _BlockedLayout:
    """Convolutions, pools and what lies between them move to NCHWc, with reorders at the borders."""

    def __init__(self, rewriter: _Rewriter) -> None:
        self.g = rewriter
        self.block = rewriter.runtime.block
        self.blocked: dict[str, _Blocked] = {}
        self.reordered: dict[str, str] = {}
        self.count = 0

    def run(self) -> None:
        order = self.g.in_order()
        self.uses = {o: self.g.uses(o) for d in order for o in d.outputs if o}
        for draft in order:
            if draft.index in self.g.drafts:
                self._visit(draft)
        self._finish()
        self.g._relink()

    def _visit(self, draft: _Draft) -> None:
        kind = draft.op_type
        if kind in ("Conv", "FusedConv") and draft.domain in ("", MICROSOFT):
            self._conv(draft)
        elif kind in ("MaxPool", "AveragePool"):
            self._pool(draft)
        elif not draft.inputs or draft.inputs[0] not in self.blocked:
            return
        elif kind in ("Add", "Sum", "Mul") and draft.domain == "":
            self._binary(draft)
        elif kind == "Concat":
            self._concat(draft)
        elif kind in _NCHWC_ACTIVATIONS:
            self._activation(draft)
        elif kind == "BatchNormalization":
            self._batch_norm(draft)
        elif kind in ("Resize", "Upsample"):
            self._resize(draft)
        elif kind in ("GlobalMaxPool", "GlobalAveragePool"):
            self._pool(draft)
        elif kind == "Transpose" and list(draft.attributes.get("perm", ())) == [0, 2, 3, 1]:
            self._to_channels_last(draft)

    # -- one rule per kind of node

    def _conv(self, draft: _Draft) -> None:
        weight = self.g.values.get(draft.inputs[1])
        group = int(draft.attributes.get("group", 1))
        if weight is None or draft.inputs[1] not in self.g.constants or weight.element_size != 4:
            return
        if not conv_is_blocked(weight.shape, group, self.block):
            return
        if len(draft.inputs) > 2 and draft.inputs[2] and draft.inputs[2] not in self.g.constants:
            return
        draft.domain, draft.op_type = NCHWC, "Conv"
        self.g.reindex(draft)
        if not conv_reads_plain_input(weight.shape, group, self.block):
            self._take_input(draft)
        self._make_output(draft, weight.shape[0])

    def _pool(self, draft: _Draft) -> None:
        value = self.g.values[draft.inputs[0]]
        if (
            len([o for o in draft.outputs if o]) > 1
            or len(value.shape) != 4
            or value.element_size != 4
        ):
            return
        if value.shape[1] % self.block:
            return
        draft.domain = NCHWC
        self.g.reindex(draft)
        self._take_input(draft)
        self._make_output(draft, value.shape[1])

    def _binary(self, draft: _Draft) -> None:
        if any(i not in self.blocked for i in draft.inputs):
            return
        operands = [self.blocked[i] for i in draft.inputs]
        if len({self.g.values[i].shape for i in draft.inputs}) != 1:
            return
        names = list(draft.inputs)
        for slot, operand in enumerate(operands):
            draft.inputs[slot] = operand.token
            operand.remaining -= 1
        if draft.op_type in ("Add", "Sum") and len(operands) == 2:
            for n in (0, 1):
                conv = operands[n].producer
                if (
                    conv.domain == NCHWC
                    and conv.op_type == "Conv"
                    and len(conv.inputs) < 4
                    and operands[n].uses == 1
                    and "activation" not in conv.attributes
                ):
                    conv.inputs += [""] * (3 - len(conv.inputs)) + [operands[1 - n].token]
                    self._fuse_output(draft, operands[n])
                    return
        self._make_output(draft, self.g.values[names[0]].shape[1])

    def _concat(self, draft: _Draft) -> None:
        if int(draft.attributes.get("axis", 0)) != 1 or any(
            i not in self.blocked for i in draft.inputs
        ):
            return
        operands = [self.blocked[i] for i in draft.inputs]
        if any(o.channels % self.block for o in operands):
            return
        for slot, operand in enumerate(operands):
            draft.inputs[slot] = operand.token
            operand.remaining -= 1
        self._make_output(draft, sum(o.channels for o in operands))

    def _activation(self, draft: _Draft) -> None:
        source = self.blocked[draft.inputs[0]]
        draft.inputs[0] = source.token
        source.remaining -= 1
        conv = source.producer
        if (
            conv.domain == NCHWC
            and conv.op_type == "Conv"
            and source.uses == 1
            and "activation" not in conv.attributes
            and draft.op_type in _CONV_ACTIVATIONS
        ):
            conv.attributes["activation"] = draft.op_type
            self._fuse_output(draft, source)
        else:
            self._make_output(draft, source.channels)

    def _batch_norm(self, draft: _Draft) -> None:
        source = self.blocked[draft.inputs[0]]
        if len([o for o in draft.outputs if o]) > 1:
            return
        source.remaining -= 1
        draft.inputs[0] = source.token
        draft.op_type, draft.domain, draft.attributes = "Conv", NCHWC, {}
        draft.inputs = draft.inputs[:3]
        self.g.reindex(draft)
        self._make_output(draft, source.channels)

    def _resize(self, draft: _Draft) -> None:
        source = self.blocked[draft.inputs[0]]
        mode = str(draft.attributes.get("mode", "nearest"))
        transform = str(draft.attributes.get("coordinate_transformation_mode", "half_pixel"))
        small, large = self.g.values[draft.inputs[0]].shape, self.g.values[draft.outputs[0]].shape
        if draft.op_type == "Resize" and len(draft.inputs) > 3 and draft.inputs[3]:
            return
        if any(b % a for a, b in zip(small, large, strict=True)) or small[:2] != large[:2]:
            return
        if mode == "nearest":
            if (
                transform != "asymmetric"
                or str(draft.attributes.get("nearest_mode", "round_prefer_floor")) != "floor"
            ):
                return
        elif mode != "linear" or transform not in ("asymmetric", "align_corners", "half_pixel"):
            return
        source.remaining -= 1
        draft.inputs = [source.token]
        draft.op_type, draft.domain = "Upsample", NCHWC
        self.g.reindex(draft)
        self._make_output(draft, source.channels)

    def _to_channels_last(self, draft: _Draft) -> None:
        source = self.blocked[draft.inputs[0]]
        source.remaining -= 1
        draft.inputs = [source.token]
        draft.op_type, draft.domain = "ReorderOutput", NCHWC
        self.g.reindex(draft)

    # -- borders

    def _token(self, like: str, channels: int) -> str:
        value = self.g.values[like]
        self.count += 1
        token = f"{like}/nchwc{self.count}"
        shape = (value.shape[0], _round_up(channels, self.block), *value.shape[2:])
        self.g.values[token] = Value(shape, value.element_size)
        return token

    def _take_input(self, draft: _Draft) -> None:
        name = draft.inputs[0]
        if name in self.blocked:
            self.blocked[name].remaining -= 1
            draft.inputs[0] = self.blocked[name].token
            return
        if name not in self.reordered:
            token = self._token(name, self.g.values[name].shape[1])
            self.g.add("ReorderInput", [name], [token], {}, NCHWC)
            self.reordered[name] = token
        draft.inputs[0] = self.reordered[name]

    def _make_output(self, draft: _Draft, channels: int) -> None:
        name = draft.outputs[0]
        token = self._token(name, channels)
        uses = self.uses.get(name, 0)
        self.blocked[name] = _Blocked(token, draft, uses, uses, channels)
        draft.outputs[0] = token

    def _fuse_output(self, draft: _Draft, into: _Blocked) -> None:
        """``draft`` disappears; its output is what the convolution ``into`` now writes."""
        name = draft.outputs[0]
        uses = self.uses.get(name, 0)
        del self.g.drafts[draft.index]
        self.blocked[name] = _Blocked(into.token, into.producer, uses, uses, into.channels)

    def _finish(self) -> None:
        for name, blocked in self.blocked.items():
            if blocked.remaining > 0:
                self.g.add(
                    "ReorderOutput", [blocked.token], [name], {"channels": blocked.channels}, NCHWC
                )


def lower(graph: Graph, runtime: Runtime = Runtime()) -> Program:
    """The kernels onnxruntime will run for this model, in order."""
    g = _Rewriter(graph, runtime)
    g.fold_constants()
    g.drop_no_ops()
    g.fuse_pads()
    g.fuse_conv_constants()
    g.fuse_matmul_add()
    if runtime.extended:
        g.fuse_layer_norm()
        g.fuse_gelu()
        g.fuse_gemm_activations()
        g.fuse_conv_activations()
        g.fuse_silu()
        g.fuse_skip_layer_norm()
        g.fuse_matmul_scale_and_transpose()
        if runtime.block > 1:
            g.block_layout()
            g.fuse_conv_sums()
    return g.program()


# ------------------------------------------------------------------------------------------------ simulation


@dataclass(slots=True)
class _Buffer:
    name: str
    bytes: Bytes
    readers: int = 0
    """Launches that still read the buffer through any of its names, plus one while it is a graph output."""
    counted: bool = True
    shape: Shape = ()
    element_size: int = 4


def _assign_buffers(
    program: Program, runtime: Runtime
) -> tuple[dict[str, _Buffer], dict[str, int]]:
    """Which buffer each value lives in, and after which launch each buffer is freed."""
    outputs = set(program.outputs)
    buffers: dict[str, _Buffer] = {}
    for name in (*program.inputs, *program.constants):
        buffers[name] = _Buffer(name, 0, readers=1 << 60, counted=False)
    uses: dict[str, int] = {}
    for kernel in program.kernels:
        for name in kernel.node.inputs:
            if name:
                uses[name] = uses.get(name, 0) + 1
    free: list[_Buffer] = []
    last: dict[str, int] = {}

    def release(buffer: _Buffer, position: int) -> None:
        last[buffer.name] = position
        free.insert(0, buffer)

    for position, kernel in enumerate(program.kernels):
        node = kernel.node
        for slot, name in enumerate(node.outputs):
            value = kernel.output_values[slot] if name else None
            if not name:
                continue
            need = uses.get(name, 0) + (name in outputs)
            size = value.bytes if value else 0
            shape = value.shape if value else ()
            element = value.element_size if value else 4
            chosen: _Buffer | None = None
            if name not in outputs and slot == 0:
                for i in in_place_inputs(node):
                    if i < len(node.inputs) and node.inputs[i] in buffers:
                        candidate, source = buffers[node.inputs[i]], kernel.input_values[i]
                        same = (
                            source is not None
                            and source.shape == shape
                            and source.element_size == element
                        )
                        if is_alias(node) or (candidate.readers == 1 and same):
                            chosen = candidate
                            break
            if chosen is None and runtime.reuse and name not in outputs and shape:
                chosen = next(
                    (b for b in free if b.shape == shape and b.element_size == element), None
                )
                if chosen is not None:
                    free.remove(chosen)
            if chosen is None:
                chosen = _Buffer(name, size, shape=shape, element_size=element)
            chosen.readers += need
            buffers[name] = chosen
        for name in node.inputs:
            if not name or name not in buffers:
                continue
            buffer = buffers[name]
            buffer.readers -= 1
            if buffer.readers == 0 and buffer.counted:
                release(buffer, position)
        for name in node.outputs:
            if name and buffers[name].readers == 0 and buffers[name].counted:
                release(buffers[name], position)
    return buffers, last


def simulate(program: Program, runtime: Runtime = Runtime()) -> Prediction:
    """Walk the kernels and find the moment of most memory."""
    buffers, last = _assign_buffers(program, runtime)
    by_end: dict[int, list[str]] = {}
    for name, position in last.items():
        by_end.setdefault(position, []).append(name)
    heap = _make_heap(runtime.malloc, program.largest_constant)
    live: dict[str, Bytes] = {}
    best = Prediction(0, None, -1, (), 0)
    for position, kernel in enumerate(program.kernels):
        for name in kernel.node.outputs:
            if not name:
                continue
            buffer = buffers[name]
            if buffer.counted and buffer.name not in live and buffer.name == name:
                live[name] = buffer.bytes
                heap.allocate(name, buffer.bytes)
        scratch = scratch_bytes(kernel.node, kernel.input_values, kernel.output_values, runtime)
        if scratch:
            heap.allocate("/scratch", scratch)
        resident = heap.resident()
        if resident > best.peak:
            parts = tuple(Live(n, b) for n, b in sorted(live.items(), key=lambda item: -item[1]))
            best = Prediction(resident, kernel.node, position, parts, scratch)
        if scratch:
            heap.free("/scratch")
        for name in by_end.get(position, ()):
            if name in live:
                del live[name]
                heap.free(name)
    return replace(best, peak=best.peak + runtime.fixed_overhead)


def predict(graph: Graph, runtime: Runtime = Runtime()) -> Prediction:
    """Peak activation memory of one run of this model."""
    return simulate(lower(graph, runtime), runtime)


# ------------------------------------------------------------------------------------------------ the C library's heap


class _ExactHeap:
    """Every block is returned to the system when freed."""

    def __init__(self, malloc: Malloc) -> None:
        self.blocks: dict[str, Bytes] = {}
        self.total: Bytes = 0

    def allocate(self, name: str, size: Bytes) -> None:
        size = _round_up(size, PAGE) if size >= PAGE else size
        self.blocks[name] = size
        self.total += size

    def free(self, name: str) -> None:
        self.total -= self.blocks.pop(name)

    def resident(self) -> Bytes:
        return self.total


class _GlibcHeap:
    """glibc with its moving threshold: mapped blocks plus a heap that keeps the pages it once touched.

    onnxruntime asks for aligned blocks.  glibc then looks for a hole larger than the block by the alignment, so a
    freed block can not serve the next request of the same size unless a free neighbour joins it.
    """

    _ALIGN: Bytes = 64
    _SLACK: Bytes = 64 + 32
    _PIN: Bytes = 64
    """Small long-lived blocks that end up between the large ones and keep them from joining."""

    def __init__(self, malloc: Malloc, largest_freed: Bytes) -> None:
        self.malloc = malloc
        self.threshold = malloc.mmap_threshold
        self.trim = malloc.trim_factor * malloc.mmap_threshold
        self._raise_threshold(largest_freed)
        self.mapped: dict[str, Bytes] = {}
        self.mapped_total: Bytes = 0
        self.placed: dict[str, tuple[Bytes, Bytes]] = {}
        self.gaps: list[
            tuple[Bytes, Bytes]
        ] = []  # [start, end), sorted, never touching, below the top
        self.used_top: Bytes = 0
        self.extent: Bytes = 0

    def _raise_threshold(self, size: Bytes) -> None:
        if self.threshold < size <= self.malloc.maximum_threshold:
            self.threshold = size
            self.trim = self.malloc.trim_factor * size

    def allocate(self, name: str, size: Bytes) -> None:
        size = _round_up(size + 8, 16)
        need = size + self._SLACK
        fitting = [gap for gap in self.gaps if gap[1] - gap[0] >= need]
        if fitting:
            start, end = min(fitting, key=lambda gap: gap[1] - gap[0])
            self.gaps.remove((start, end))
            place = _round_up(start + 16, self._ALIGN) - 16
            for hole in ((start, place), (place + size, end)):
                if hole[1] - hole[0] >= 32:
                    self.gaps.append(hole)
            self.gaps.sort()
        elif need >= self.threshold and self.extent - self.used_top < need:
            self.mapped[name] = _round_up(need, PAGE)
            self.mapped_total += _round_up(size, PAGE)
            return
        else:
            place = _round_up(self.used_top + 16, self._ALIGN) - 16
            if place - self.used_top >= 32:
                self.gaps.append((self.used_top, place))
            self.used_top = place + size + self._PIN
            self.extent = max(self.extent, self.used_top)
        self.placed[name] = (place, place + size)

    def free(self, name: str) -> None:
        if name in self.mapped:
            size = self.mapped.pop(name)
            self.mapped_total -= _round_up(size - self._SLACK, PAGE)
            self._raise_threshold(size)
            return
        start, end = self.placed.pop(name)
        merged: list[tuple[Bytes, Bytes]] = []
        for gap in sorted([*self.gaps, (start, end)]):
            if merged and gap[0] - merged[-1][1] < 32:
                merged[-1] = (merged[-1][0], gap[1])
            else:
                merged.append(gap)
        if merged and self.used_top - merged[-1][1] < 32:
            self.used_top = merged.pop()[0]
        self.gaps = merged
        if end - start >= 64 * 1024 and self.extent - self.used_top >= self.trim:
            self.extent = self.used_top + self.malloc.top_pad

    def resident(self) -> Bytes:
        return self.mapped_total + self.extent


def _make_heap(malloc: Malloc, largest_freed: Bytes) -> _ExactHeap | _GlibcHeap:
    return _GlibcHeap(malloc, largest_freed) if malloc.dynamic else _ExactHeap(malloc)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _ints(node: Node, key: str, count: int, default: int) -> list[int]:
    return [int(v) for v in node.attributes.get(key, [default] * count)]
