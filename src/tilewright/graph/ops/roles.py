"""What an operator is to someone who fuses or counts: its role, its usual name, its FLOPs.

The rules of counting stand in `tilewright.accounting`; what depends on the kind of an operator
stands here, beside the specs.
"""

from enum import Enum

from tilewright.geometry.box import Box
from tilewright.graph.graph import Graph, Node
from tilewright.graph.ops import SPECS, products_of, spec_of
from tilewright.graph.ops.layout import RESHAPES
from tilewright.graph.ops.reduction import SOFTMAXES
from tilewright.graph.ops.spec import Engine, Filter, OpSpec
from tilewright.graph.types import FLOATS, TensorType


class Role(Enum):
    """What an operator does to its data, as fusion sees it."""

    PRODUCT = "product"  # convolution, linear layer, matrix product
    CHANNEL_NORM = "channel norm"  # a batch norm: a scale and a shift per channel
    NORM = "norm"  # needs the statistics of its own input
    SOFTMAX = "softmax"
    ACTIVATION = "activation"
    ADD = "add"  # the sum of two activations
    AFFINE = "affine"  # element-wise with a parameter: bias, layer scale
    ELEMENTWISE = "element-wise"
    POOL = "pool"
    REDUCE = "reduction"
    VIEW = "view"  # the same elements in another shape
    TURN = "transpose"
    COPY = "copy"  # nothing changes: identity, dropout in inference
    MOVE = "data movement"
    ATTENTION = "attention"  # never one operator's: an idiom's
    OTHER = "other"


BATCH_NORM = "BatchNormalization"
_ACTIVATIONS = {
    "Relu": "ReLU",
    "Clip": "Clip",
    "LeakyRelu": "LeakyReLU",
    "PRelu": "PReLU",
    "Elu": "ELU",
    "Selu": "SELU",
    "Celu": "CELU",
    "Gelu": "GELU",
    "Sigmoid": "Sigmoid",
    "Tanh": "Tanh",
    "HardSigmoid": "HardSigmoid",
    "HardSwish": "HardSwish",
    "Mish": "Mish",
    "Softplus": "Softplus",
    "Softsign": "Softsign",
    "ThresholdedRelu": "ThresholdedReLU",
    "Swish": "SiLU",
}
_ROLES = {
    **dict.fromkeys(RESHAPES, Role.VIEW),
    **dict.fromkeys(("Identity", "Dropout"), Role.COPY),
    "Transpose": Role.TURN,
    **dict.fromkeys(_ACTIVATIONS, Role.ACTIVATION),
    BATCH_NORM: Role.CHANNEL_NORM,
    **dict.fromkeys(SOFTMAXES, Role.SOFTMAX),
}
_PARAMETER_KINDS = frozenset({"Add", "Sub", "Mul", "Div", "Sum"})
_LABELS = {
    BATCH_NORM: "BN",
    "LayerNormalization": "LayerNorm",
    "GroupNormalization": "GroupNorm",
    "InstanceNormalization": "InstanceNorm",
    "RMSNormalization": "RMSNorm",
    "Gemm": "Linear",
    "ConvInteger": "Conv",
    "QLinearConv": "Conv",
    **_ACTIVATIONS,
}
_AFFINE_LABELS = {"Add": "Bias", "Sub": "Bias", "Sum": "Bias", "Mul": "Scale", "Div": "Scale"}
_RELU6 = (0.0, 6.0)

# Element-wise kinds that compare, choose or convert: no arithmetic, no FLOP.
_NO_FLOPS = frozenset(
    "And BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast DequantizeLinear Dropout Equal "
    "Expand Greater GreaterOrEqual Identity IsInf IsNaN Less LessOrEqual Not Or QuantizeLinear "
    "Where Xor".split()
)
_NORM_FLOPS = 5  # a difference, a square, a quotient, a scale and a shift for each element
_SOFTMAX_FLOPS = 5  # maximum, difference, exponential, sum, quotient
# Parameters that inference folds into others: statistics of a batch norm.
_FOLDED_INPUTS = {BATCH_NORM: frozenset({3, 4})}
# Operators that read only what they give on: a table's rows, a part of a tensor.
_SELECTING = frozenset({"Slice", "Gather", "GatherElements", "GatherND"})


def role_of(graph: Graph, node: Node, parameters: frozenset[str]) -> Role:
    """The role of a node; `parameters` are the values that do not depend on the input."""
    known = spec_of(graph, node)
    if known is None:
        return Role.ACTIVATION if node.kind in _ACTIVATIONS else Role.OTHER
    spec, _ = known
    kind = node.kind
    if spec.engine is Engine.MATRIX:
        return Role.PRODUCT
    if kind in _ROLES:
        return _ROLES[kind]
    if spec.family == "normalisation":
        return Role.NORM
    if spec.pool is not None:
        return Role.POOL
    if spec.family == "reduction":
        return Role.REDUCE
    if spec.family != "element-wise":
        return Role.MOVE
    if kind in _PARAMETER_KINDS and any(name in parameters for name in node.inputs):
        return Role.AFFINE
    return Role.ADD if kind in ("Add", "Sum") else Role.ELEMENTWISE


def label_of(graph: Graph, node: Node, role: Role, parameters: frozenset[str]) -> str:
    """The name a person has for the node: BN, ReLU6, Linear."""
    if node.kind == "Clip" and tuple(_bounds(graph, node)) == _RELU6:
        return "ReLU6"
    if role is Role.AFFINE:
        return _AFFINE_LABELS[node.kind]
    if role is Role.PRODUCT and "MatMul" in node.kind:
        return "Linear" if any(name in parameters for name in node.inputs) else "MatMul"
    return _LABELS.get(node.kind, node.kind)


def _bounds(graph: Graph, node: Node) -> list[float | None]:
    constants = (graph.constants.get(name) for name in node.inputs[1:3])
    return [None if constant is None else constant.number for constant in constants]


def is_convolution(node: Node) -> bool:
    """Whether the node slides filters over its input."""
    return _filter(node) is not None


def _filter(node: Node) -> Filter | None:
    spec = SPECS.get(node.kind)
    return spec.filter if spec is not None and node.domain in spec.domains else None


def is_depthwise(graph: Graph, node: Node) -> bool:
    """Whether the node is a convolution of each channel by itself."""
    groups = node.int_of("group", 1)
    kind = graph.types.get(node.inputs[0]) if is_convolution(node) else None
    return kind is not None and len(kind.shape) > 1 and 1 < kind.shape[1] == groups


def is_pointwise(graph: Graph, node: Node) -> bool:
    """Whether the node is a convolution whose filters see one position."""
    found = _filter(node)
    weights = graph.types.get(node.inputs[found.weight]) if found is not None else None
    return weights is not None and set(weights.shape[2:]) <= {1}


def node_work(graph: Graph, node: Node) -> tuple[int, int]:
    """Multiply-accumulates of a node, and its FLOPs beside them."""
    result = graph.types.get(node.outputs[0]) if node.outputs else None
    known = spec_of(graph, node) if result is not None else None
    if result is None or known is None:
        macs = sum(product.macs for product in products_of(graph, node))
        return macs, result.size if result is not None and node.kind in _ACTIVATIONS else 0
    spec, op = known
    if spec.engine is Engine.MATRIX:
        return spec.macs(op, Box.whole(result.shape)), 0
    return 0, _other_flops(spec, node, result)


def _other_flops(spec: OpSpec, node: Node, result: TensorType) -> int:
    if result.dtype not in FLOATS:
        return 0
    if spec.family == "normalisation":
        return _NORM_FLOPS * result.size
    if node.kind in SOFTMAXES:
        return _SOFTMAX_FLOPS * result.size
    if spec.family != "element-wise" or node.kind in _NO_FLOPS:
        return 0
    if node.kind in ("Sum", "Max", "Min", "Mean"):
        return max(0, len(node.inputs) - 1) * result.size
    return result.size


def read_bytes(graph: Graph, node: Node, position: int, parameters: frozenset[str]) -> int:
    """Bytes that a node reads of one of its inputs."""
    name = node.inputs[position]
    kind = graph.types.get(name)
    if kind is None:
        return 0
    if name in parameters:
        steers = kind.dtype == "int64" and len(kind.shape) <= 1
        if kind.size <= 1 or steers or position in _FOLDED_INPUTS.get(node.kind, ()):
            return 0
    read, whole = _selected(graph, node, position)
    return min(kind.bytes, -(-kind.bytes * read // max(1, whole)))


def _selected(graph: Graph, node: Node, position: int) -> tuple[int, int]:
    """Elements of an input that a node reads, and how many there are. What is dequantised to be
    looked up is read where it is looked up."""
    if node.kind == "DequantizeLinear":
        readers = graph.consumers.get(node.outputs[0], ())
        reader = graph.nodes[readers[0]] if len(readers) == 1 else None
        if reader is None or reader.inputs[0] != node.outputs[0]:
            return 1, 1
        return _selected(graph, reader, 0)
    source, result = (graph.types.get(n) for n in (node.inputs[position], node.outputs[0]))
    if position or node.kind not in _SELECTING or source is None or result is None:
        return 1, 1
    return result.size, source.size
