"""Translations of element-wise arithmetic, activations, comparisons and choices."""

from collections.abc import Mapping
from math import inf

import numpy as np

from tilewright.frontend.pytorch.calls import AtenCall, Ref
from tilewright.frontend.pytorch.emit import Emitter, promoted
from tilewright.frontend.pytorch.products import Translation
from tilewright.graph.types import FLOATS

_BINARY = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "true_divide": "Div",
    "pow": "Pow",
    "maximum": "Max",
    "minimum": "Min",
}
_COMPARE = {
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
}
_LOGICAL = {
    "logical_and": "And",
    "bitwise_and": "And",
    "logical_or": "Or",
    "bitwise_or": "Or",
    "logical_xor": "Xor",
}
_UNARY = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "hardswish": "HardSwish",
    "mish": "Mish",
    "erf": "Erf",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "neg": "Neg",
    "abs": "Abs",
    "cos": "Cos",
    "sin": "Sin",
    "floor": "Floor",
    "ceil": "Ceil",
    "round": "Round",
    "reciprocal": "Reciprocal",
    "sign": "Sign",
    "softsign": "Softsign",
    "isnan": "IsNaN",
    "isinf": "IsInf",
}


def _binary(e: Emitter, c: AtenCall) -> None:
    """Two operands, tensors or numbers, in the result's element type."""
    a = c.arguments
    kind = e.result(c)
    left, right = a["self"], a.get("other", a.get("exponent"))
    if (c.target == "div" and a.get("rounding_mode")) or kind.dtype == "bool":
        e.whole(c)
        return
    first, second = e.operand(left, kind.dtype), e.operand(right, kind.dtype)
    alpha = a.get("alpha", 1)
    if alpha != 1:
        shape = e.type(second).shape
        second = e.op("Mul", (second, e.number(alpha, kind.dtype)), shape, kind.dtype)
    e.made(c, _BINARY[c.target], (first, second))


def _rsub(e: Emitter, c: AtenCall) -> None:
    """other - self, the operands exchanged."""
    kind, a = e.result(c), c.arguments
    if a.get("alpha", 1) != 1:
        e.whole(c)
        return
    operands = (e.operand(a["other"], kind.dtype), e.operand(a["self"], kind.dtype))
    e.made(c, "Sub", operands)


def _compare(e: Emitter, c: AtenCall) -> None:
    """A comparison, in the operands' common type."""
    left, right = c.arguments["self"], c.arguments["other"]
    kinds = [e.type(v.name).dtype for v in (left, right) if isinstance(v, Ref)]
    if any(isinstance(v, float) for v in (left, right)) and not set(kinds) & FLOATS:
        kinds.append("float32")
    common = promoted(*kinds)
    operands = (e.operand(left, common), e.operand(right, common))
    shape = e.result(c).shape
    if c.target == "ne":
        e.op("Not", (e.op("Equal", operands, shape, "bool"),), shape, "bool", result=c.results[0])
        return
    e.op(_COMPARE[c.target], operands, shape, "bool", result=c.results[0])


def _logical(e: Emitter, c: AtenCall) -> None:
    kind = e.result(c)
    if kind.dtype != "bool":
        e.whole(c)
        return
    operands = [e.operand(c.arguments[key], "bool") for key in ("self", "other")]
    e.op(_LOGICAL[c.target], operands, kind.shape, "bool", result=c.results[0])


def _not(e: Emitter, c: AtenCall) -> None:
    kind = e.result(c)
    if kind.dtype != "bool":
        e.whole(c)
        return
    e.op("Not", (e.operand(Ref(c.source), "bool"),), kind.shape, "bool", result=c.results[0])


def _unary(e: Emitter, c: AtenCall) -> None:
    kind, x = e.result(c), c.source
    dtype = e.type(x).dtype if kind.dtype == "bool" else kind.dtype
    operand = e.cast(x, dtype)
    e.made(c, _UNARY[c.target], (operand,))


def _clip(e: Emitter, c: AtenCall) -> None:
    """relu6, hardtanh, clamp with numbers."""
    a, x = c.arguments, c.source
    low, high = {
        "relu6": (0.0, 6.0),
        "hardtanh": (a.get("min_val"), a.get("max_val")),
        "clamp_min": (a.get("min"), None),
        "clamp_max": (None, a.get("max")),
    }.get(c.target, (a.get("min"), a.get("max")))
    if isinstance(low, Ref) or isinstance(high, Ref):
        e.whole(c)
        return
    kind = e.result(c)
    bounds = [e.number(v, kind.dtype) if v is not None else "" for v in (low, high)]
    operand = e.cast(x, kind.dtype)
    inputs = [operand, *(bounds if bounds[1] else bounds[:1])]
    e.made(c, "Clip", inputs)


def _gelu(e: Emitter, c: AtenCall) -> None:
    how = str(c.arguments.get("approximate", "none"))
    e.made(c, "Gelu", (c.source,), approximate=how)


def _silu(e: Emitter, c: AtenCall) -> None:
    """x sigmoid(x), as exporters write it."""
    kind, x = e.result(c), c.source
    gate = e.op("Sigmoid", (x,), kind.shape, kind.dtype)
    e.made(c, "Mul", (x, gate))


def _hard_sigmoid(e: Emitter, c: AtenCall) -> None:
    e.made(c, "HardSigmoid", (c.source,), alpha=1 / 6, beta=0.5)


def _sloped(e: Emitter, c: AtenCall) -> None:
    """leaky_relu, elu: an activation with one number."""
    a = c.arguments
    name, slope = (
        ("LeakyRelu", a.get("negative_slope", 0.01))
        if c.target == "leaky_relu"
        else ("Elu", a.get("alpha", 1.0))
    )
    if a.get("scale", 1) != 1 or a.get("input_scale", 1) != 1:
        e.whole(c)
        return
    e.made(c, name, (c.source,), alpha=float(slope))


def _prelu(e: Emitter, c: AtenCall) -> None:
    """A slope for each channel, shaped to be broadcast."""
    kind, a = e.result(c), c.arguments
    slope = a["weight"].name
    if len(e.type(slope).shape) == 1 and len(kind.shape) > 2:
        slope = e.reshape(
            slope,
            (-1 if not e.type(slope).size else e.type(slope).size, *[1] * (len(kind.shape) - 2)),
        )
    e.made(c, "PRelu", (c.source, slope))


def _softplus(e: Emitter, c: AtenCall) -> None:
    if c.arguments.get("beta", 1) != 1:
        e.whole(c)
        return
    e.made(c, "Softplus", (c.source,))


def _rsqrt(e: Emitter, c: AtenCall) -> None:
    kind = e.result(c)
    root = e.op("Sqrt", (e.cast(c.source, kind.dtype),), kind.shape, kind.dtype)
    e.made(c, "Reciprocal", (root,))


def _softmax(e: Emitter, c: AtenCall) -> None:
    kind, a = e.result(c), c.arguments
    name = "LogSoftmax" if "log" in c.target else "Softmax"
    x = e.cast(c.source, kind.dtype)
    e.made(c, name, (x,), axis=int(a["dim"]))


def _where(e: Emitter, c: AtenCall) -> None:
    kind, a = e.result(c), c.arguments
    if "self" not in a or "other" not in a:
        e.whole(c)
        return
    operands = [
        e.operand(a["condition"], "bool"),
        *(e.operand(a[key], kind.dtype) for key in ("self", "other")),
    ]
    e.made(c, "Where", operands)


def _masked_fill(e: Emitter, c: AtenCall) -> None:
    """The value where the mask is true. Infinities stay: torch's softmax knows them too."""
    kind, a = e.result(c), c.arguments
    value = a["value"]
    if isinstance(value, float) and value == -inf and kind.dtype == "float32":
        value = float(np.finfo(np.float32).min)
    operands = (a["mask"].name, e.operand(value, kind.dtype), a["self"].name)
    e.made(c, "Where", operands)


def _square(e: Emitter, c: AtenCall) -> None:
    e.made(c, "Mul", (c.source, c.source))


TRANSLATIONS: Mapping[str, Translation] = {
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_COMPARE, _compare),
    "ne": _compare,
    **dict.fromkeys(_LOGICAL, _logical),
    "logical_not": _not,
    "bitwise_not": _not,
    **dict.fromkeys(_UNARY, _unary),
    "rsub": _rsub,
    **dict.fromkeys("relu6 hardtanh clamp clamp_min clamp_max clip".split(), _clip),
    "gelu": _gelu,
    "silu": _silu,
    "hardsigmoid": _hard_sigmoid,
    "leaky_relu": _sloped,
    "elu": _sloped,
    "prelu": _prelu,
    "_prelu_kernel": _prelu,
    "softplus": _softplus,
    "rsqrt": _rsqrt,
    **dict.fromkeys("softmax _softmax log_softmax _log_softmax".split(), _softmax),
    "where": _where,
    "masked_fill": _masked_fill,
    "square": _square,
}
