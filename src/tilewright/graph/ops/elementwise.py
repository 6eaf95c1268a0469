"""Element by element, with broadcasting; quantisation parameters along one axis."""

from functools import partial

from tilewright.geometry.access import Access, AxisRule, Same, Scaled
from tilewright.graph.ops.spec import (
    Engine,
    Op,
    OpSpec,
    broadcast_rules,
    free,
    in_shape,
    of_first,
    same_rules,
    whole_rules,
)
from tilewright.graph.ops.views import same_view

UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast Ceil Celu Clip Cos Cosh Elu Erf Exp "
    "Floor Gelu HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal "
    "Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh "
    "ThresholdedRelu"
).split()
MOVES = frozenset({"Identity", "Cast"})
# What the output stage of an array would do to run it.
FINISHES = {
    **{kind: "activation" for kind in UNARY if kind not in MOVES},
    **dict.fromkeys(("BitwiseNot", "IsInf", "IsNaN", "Not"), ""),
    **dict.fromkeys(("Clip", "LeakyRelu", "PRelu", "Relu"), "clamp"),
    "Add": "add",
    "Mul": "scale",
}
PAIRS = frozenset({"Add", "Sub", "Mul", "Sum"})  # of two whole tensors: arrays can do that too
# Functions that machine files give rates of their own for; all others cost what an addition does.
RATES = {
    **dict.fromkeys(("Exp", "Log", "Sqrt", "Pow", "Softplus", "Elu", "Selu", "Celu"), "exp"),
    **dict.fromkeys(("HardSwish", "Mish", "Swish"), "swish"),
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Erf": "erf",
    "Gelu": "gelu",
}
BROADCAST = (
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less "
    "LessOrEqual Max Mean Min Mod Mul Or PRelu Pow Sub Sum Where Xor"
).split()


def _unary_access(op: Op, output: int) -> Access | None:
    """The first input follows the output; the others (clip bounds) are single numbers."""
    result = op.result().shape
    extra = (whole_rules(i.type.shape) if i is not None else None for i in op.inputs[1:])
    return Access(result, free(result), (same_rules(len(result)), *extra))


def _broadcast_access(op: Op, output: int) -> Access | None:
    result = op.result().shape
    rules = (broadcast_rules(i.type.shape, result) if i is not None else None for i in op.inputs)
    return Access(result, free(result), tuple(rules))


def _dropout_access(op: Op, output: int) -> Access | None:
    result = op.result().shape
    if op.value_of(2) is not None or sum(kind is not None for kind in op.outputs) > 1:
        return None
    return of_first(op, result, free(result), same_rules(len(result)))


def _quantise_access(op: Op, output: int) -> Access | None:
    """Scale and zero point: one for all, one per position of an axis, or one per block of it."""
    result = op.result().shape
    axis = op.int_of("axis", 1) % max(1, len(result))
    block = op.int_of("block_size", 0)

    def rules_of(shape: tuple[int, ...]) -> tuple[AxisRule, ...]:
        if block and len(shape) == len(result):
            blocks = Scaled(axis, 1, block)
            return tuple(blocks if k == axis else Same(k) for k in range(len(shape)))
        return (Same(axis),) if len(shape) == 1 and shape[0] > 1 else whole_rules(shape)

    rest = (rules_of(i.type.shape) if i is not None else None for i in op.inputs[1:])
    # Whole blocks: a tile counts them from its own beginning.
    grain = tuple(max(1, block) if k == axis else 1 for k in range(len(result)))
    return Access(result, grain, (same_rules(len(result)), *rest))


_expand_tile = partial(in_shape, kind="Expand")


def _expand_access(op: Op, output: int) -> Access | None:
    result = op.result().shape
    return Access(result, free(result), (broadcast_rules(op.shape(0), result), None))


def _spec(kind: str) -> OpSpec:
    return OpSpec(
        "element-wise",
        Engine.MOVE if kind in MOVES else Engine.VECTOR,
        kind,
        "all",
        _unary_access if kind in UNARY else _broadcast_access,
        finish=FINISHES.get(kind, ""),
        pairs=kind in PAIRS,
        rate=RATES.get(kind, ""),
        view=same_view if kind == "Identity" else None,
        keeps_order=kind == "Identity",
    )


SPECS = (
    *(_spec(kind) for kind in (*UNARY, *BROADCAST)),
    OpSpec("element-wise", Engine.MOVE, "Dropout", "all", _dropout_access),
    OpSpec("element-wise", Engine.VECTOR, "QuantizeLinear", "all", _quantise_access),
    OpSpec("element-wise", Engine.VECTOR, "DequantizeLinear", "all", _quantise_access),
    OpSpec("element-wise", Engine.MOVE, "Expand", "all", _expand_access, _expand_tile),
)
