"""Operators on quantised numbers, with their scales and zero points beside the data.

Each is a float operator between a dequantisation of its inputs and a quantisation of its result:
it is cut as that operator is, and runs on integers. onnxruntime has most of them in its own
domain; those that it lacks exist only in planned networks.
"""

from dataclasses import replace
from functools import partial

from tilewright.geometry.access import Access, AxisRule, Same
from tilewright.geometry.box import Box
from tilewright.graph.ops.elementwise import SPECS as ELEMENTWISE
from tilewright.graph.ops.layout import SPECS as LAYOUT
from tilewright.graph.ops.matmul import SPECS as MATMUL
from tilewright.graph.ops.reduction import SPECS as REDUCTION
from tilewright.graph.ops.spec import (
    Engine,
    Op,
    Operand,
    OpSpec,
    Step,
    Tile,
    same_operator,
    whole_rules,
)
from tilewright.graph.ops.windows import SPECS as WINDOWS
from tilewright.graph.types import TensorType

RUNTIME = "com.microsoft"
PLANNED = "tilewright"
PREFIX = "QLinear"

Rules = tuple[AxisRule, ...]

_FLOAT = {spec.kind: spec for spec in (*ELEMENTWISE, *LAYOUT, *REDUCTION, *WINDOWS)}
_GEMM = next(spec for spec in MATMUL if spec.kind == "Gemm")
# Float kinds with one input, or two: each input with its scale and zero point, then the result's.
UNARY = ("Sigmoid", "LeakyRelu", "Softmax", "AveragePool", "GlobalAveragePool")
BINARY = ("Add", "Mul")
PLANNED_UNARY = ("Gelu", "HardSigmoid", "HardSwish", "Mish", "Swish", "Tanh")


def data_inputs(kind: str, count: int) -> tuple[str, tuple[int, ...]] | None:
    """The float kind inside a quantised one of so many inputs, and which of these are its data."""
    if kind == "QGemm":
        return "Gemm", (0, 3)  # its bias is a parameter like scales and zero points
    inner = kind.removeprefix(PREFIX)
    if kind == inner:
        return None
    if inner == "Concat":
        return inner, tuple(range(2, count, 3))  # the result's scale and zero point come first
    return (inner, (0, 3) if inner in BINARY else (0,)) if inner in _FLOAT else None


def _inside(op: Op) -> tuple[OpSpec, Op, tuple[int, ...]]:
    """The float operator inside, and which inputs are its data."""
    found = data_inputs(op.kind, len(op.inputs))
    assert found is not None
    kind, data = found
    inputs = tuple(
        None if (o := op.inputs[k]) is None else Operand(_real(o.type), o.constant, None, o.given)
        for k in data
    )
    outputs = tuple(None if kind is None else _real(kind) for kind in op.outputs)
    spec = _GEMM if kind == "Gemm" else _FLOAT[kind]
    return spec, Op(kind, op.attributes, inputs, outputs, op.opset), data


def _real(kind: TensorType) -> TensorType:
    return TensorType("float32", kind.shape)


def _parameter(op: Op, index: int, channel: AxisRule | None = None) -> Rules | None:
    """Rules of a scale or zero point: one for all, or (where there is an axis) one per channel."""
    if not op.has(index):
        return None
    shape = op.shape(index)
    single = all(extent == 1 for extent in shape)
    if single or (channel is not None and len(shape) == 1):
        return whole_rules(shape) if single or channel is None else (channel,)
    return None


def _access(op: Op, output: int, columns: tuple[int, ...] = ()) -> Access | None:
    """As the float operator inside; `columns` are parameters that may be one per column."""
    inner, real, data = _inside(op)
    if op.int_of("channels_last", 0) or not all(op.has(k) for k in data):
        return None
    if inner.rate == "softmax" and op.int_of("opset", 13) < 13:
        return None  # it took all axes from its own as one
    plain = inner.access(real, output)
    if plain is None:
        return None
    rules: dict[int, Rules | None] = dict(zip(data, plain.inputs, strict=True))
    for index in range(len(op.inputs)):
        if index not in rules:
            rules[index] = _parameter(op, index, Same(1) if index in columns else None)
            if op.has(index) and rules[index] is None:
                return None
    return Access(plain.shape, plain.grain, tuple(rules[k] for k in sorted(rules)))


def _tile(op: Op, tile: Tile) -> tuple[Step, ...]:
    """The operator with the attributes that the float one's tile has."""
    inner, real, data = _inside(op)
    (step,) = inner.tile(real, Tile(tile.outputs, tuple(tile.inputs[k] for k in data)))
    (own,) = same_operator(op, tile)
    return (Step(op.kind, step.attributes, own.inputs, own.outputs),)


def _quantised(kind: str, domain: str) -> OpSpec:
    return replace(
        _FLOAT[kind],
        kind=PREFIX + kind,
        access=_access,
        tile=_tile,
        domains=(domain,),
        finish="",
        view=None,
    )


def _concat_tile(op: Op, tile: Tile) -> tuple[Step, ...]:
    """The parts that the tile reads, each with its scale and zero point."""
    axis = op.int_of("axis", 0) % len(op.result().shape)
    inputs: list[int] = [0, 1]
    for index in range(2, len(op.inputs), 3):
        reaches = tile.inputs[index]
        if reaches is not None and not reaches[axis].interval.empty:
            inputs += [index, index + 1, index + 2]
    return (Step(op.kind, {"axis": axis}, tuple(inputs)),)


def _gemm_macs(op: Op, box: Box) -> int:
    return _GEMM.macs(_inside(op)[1], box)


SPECS = (
    *(_quantised(kind, RUNTIME) for kind in (*UNARY, *BINARY)),
    *(_quantised(kind, PLANNED) for kind in PLANNED_UNARY),
    replace(
        _FLOAT["Concat"],
        kind=PREFIX + "Concat",
        engine=Engine.VECTOR,
        access=_access,
        tile=_concat_tile,
        domains=(RUNTIME,),
        parts=None,
    ),
    replace(
        _GEMM,
        kind="QGemm",
        # Scales and zero points of the second matrix, and the bias, may be per column.
        access=partial(_access, columns=(4, 5, 6)),
        macs=_gemm_macs,
        domains=(RUNTIME,),
        adds_up=False,
    ),
)
