"""Translations of convolutions, linear layers, matrix products and attention."""

from collections.abc import Callable, Mapping, Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from tilewright.frontend.pytorch.calls import AtenCall, Ref
from tilewright.frontend.pytorch.emit import Emitter

Translation = Callable[[Emitter, AtenCall], None]


def per_axis(value: Any, rank: int) -> tuple[int, ...]:
    """An argument for each spatial axis: one number stands for all."""
    given: Sequence[int] = [value] if isinstance(value, int) else list(value)
    return tuple(int(v) for v in (given * rank if len(given) == 1 else given))


def _conv(e: Emitter, c: AtenCall) -> None:
    """conv1d, conv2d, conv3d and convolution, transposed or not."""
    a = c.arguments
    x, weight, bias = a["input"].name, a["weight"].name, a["bias"]
    rank = len(e.type(x).shape) - 2
    transposed = bool(a.get("transposed", False)) or c.target.startswith("conv_transpose")
    padding = a["padding"]
    attributes: dict[str, Any] = {
        "kernel_shape": e.type(weight).shape[2:],
        "strides": per_axis(a["stride"], rank),
        "dilations": per_axis(a["dilation"], rank),
        "group": int(a["groups"]),
    }
    if isinstance(padding, str):
        attributes["pads"] = _named_padding(padding, attributes)
    else:
        attributes["pads"] = per_axis(padding, rank) * 2
    if transposed:
        attributes["output_padding"] = per_axis(a.get("output_padding", 0), rank)
    inputs = [x, weight] + ([bias.name] if isinstance(bias, Ref) else [])
    e.made(c, "ConvTranspose" if transposed else "Conv", inputs, **attributes)


def _named_padding(padding: str, attributes: Mapping[str, Any]) -> tuple[int, ...]:
    """`valid`, or `same`: torch puts the odd one behind."""
    spans = [
        d * (k - 1) if padding == "same" else 0
        for k, d in zip(attributes["kernel_shape"], attributes["dilations"], strict=True)
    ]
    return (*(s // 2 for s in spans), *(s - s // 2 for s in spans))


def _linear(e: Emitter, c: AtenCall) -> None:
    a = c.arguments
    x, weight, bias = a["input"].name, a["weight"].name, a["bias"]
    kind = e.result(c)
    extra = [bias.name] if isinstance(bias, Ref) else []
    if len(e.type(x).shape) == 2 and len(e.type(weight).shape) == 2:
        e.made(c, "Gemm", [x, weight, *extra], transB=1)
        return
    product = e.op(
        "MatMul",
        (x, e.transposed(weight)),
        kind.shape,
        kind.dtype,
        result=None if extra else c.results[0],
    )
    if extra:
        e.made(c, "Add", (product, *extra))


def _addmm(e: Emitter, c: AtenCall) -> None:
    """beta bias + alpha a b, also of a batch (baddbmm)."""
    a = c.arguments
    left, right = (a["mat1"], a["mat2"]) if "mat1" in a else (a["batch1"], a["batch2"])
    kind = e.result(c)
    alpha, beta = float(a.get("alpha", 1)), float(a.get("beta", 1))
    if len(kind.shape) == 2:
        e.made(c, "Gemm", (left.name, right.name, a["self"].name), alpha=alpha, beta=beta)
        return
    product = e.op("MatMul", (left.name, right.name), kind.shape, kind.dtype)
    if alpha != 1.0:
        product = e.op("Mul", (product, e.number(alpha, kind.dtype)), kind.shape, kind.dtype)
    if beta == 0.0:
        e.same(c.results[0], product)
        return
    bias = a["self"].name
    if beta != 1.0:
        shape = e.type(bias).shape
        bias = e.op("Mul", (bias, e.number(beta, kind.dtype)), shape, kind.dtype)
    e.made(c, "Add", (product, bias))


def _matmul(e: Emitter, c: AtenCall) -> None:
    """matmul, mm, bmm, mv, dot."""
    names = [value.name for value in c.arguments.values() if isinstance(value, Ref)]
    e.made(c, "MatMul", names[:2])


def _einsum(e: Emitter, c: AtenCall) -> None:
    """A sum of products of two tensors: batch axes, rows, reduced axes, columns; else whole."""
    equation = str(c.arguments["equation"]).replace(" ", "")
    operands = [ref.name for ref in c.arguments["tensors"]]
    sides = equation.partition("->")
    terms = sides[0].split(",")
    plain = len(operands) == 2 and sides[1] and "." not in equation
    if not plain or any(len(set(t)) != len(t) for t in (*terms, sides[2])):
        e.whole(c)
        return
    (left, right), result = terms, sides[2]
    extent = dict(zip(left + right, e.type(operands[0]).shape + e.type(operands[1]).shape))  # noqa: B905
    batch = [x for x in left if x in right and x in result]
    inner = [x for x in left if x in right and x not in result]
    rows = [x for x in left if x not in right]
    columns = [x for x in right if x not in left]
    if set(rows + columns) - set(result):
        e.whole(c)
        return
    dtype = e.result(c).dtype

    def arranged(value: str, term: str, order: list[str], shape: Sequence[int]) -> str:
        turned = [term.index(x) for x in order]
        if turned != sorted(turned):
            value = e.transpose(value, turned)
        return value if e.type(value).shape == tuple(shape) else e.reshape(value, shape)

    def count(axes: list[str]) -> int:
        return prod(extent[x] for x in axes)

    outer = [extent[x] for x in batch]
    a = arranged(operands[0], left, batch + rows + inner, [*outer, count(rows), count(inner)])
    b = arranged(
        operands[1], right, batch + inner + columns, [*outer, count(inner), count(columns)]
    )
    product = e.op("MatMul", (a, b), [*outer, count(rows), count(columns)], dtype)
    made = batch + rows + columns
    full = [extent[x] for x in made]
    if e.type(product).shape != tuple(full):
        product = e.reshape(product, full)
    turned = [made.index(x) for x in result]
    if turned == sorted(turned):
        e.same(c.results[0], product)
    else:
        e.transpose(product, turned, c.results[0])


def _attention(e: Emitter, c: AtenCall) -> None:
    """Scaled dot-product attention in any of torch's names for it."""
    a = c.arguments
    query, key, value = a["query"].name, a["key"].name, a["value"].name
    q, k, result = e.type(query), e.type(key), c.results[0] or ""
    dtype, rank = q.dtype, len(q.shape)
    if len(k.shape) == rank > 2 and k.shape[-3] != q.shape[-3]:  # fewer heads of keys
        repeats = q.shape[-3] // k.shape[-3]
        key, value = _repeated(e, key, repeats), _repeated(e, value, repeats)
        k = e.type(key)
    order = (*range(rank - 2), rank - 1, rank - 2)
    shape = (*q.shape[:-1], k.shape[-2])
    scores = e.op("MatMul", (query, e.transpose(key, order)), shape, dtype)
    scale = a.get("scale")
    factor = 1 / sqrt(q.shape[-1]) if scale is None else float(scale)
    scores = e.op("Mul", (scores, e.number(factor, dtype)), shape, dtype)
    mask = a.get("attn_mask") or a.get("attn_bias")
    if isinstance(mask, Ref):
        scores = _masked(e, scores, mask.name, shape, dtype)
    if a.get("is_causal"):
        lower = np.tri(shape[-2], shape[-1], dtype=bool)
        visible = e.constant(lower, f"{result}/causal")
        scores = _masked(e, scores, visible, shape, dtype)
    weights = e.op("Softmax", (scores,), shape, dtype, axis=-1)
    kind = e.type(result)
    e.op("MatMul", (weights, value), kind.shape, kind.dtype, result=result)


def _masked(e: Emitter, scores: str, mask: str, shape: Sequence[int], dtype: str) -> str:
    """A mask of numbers is added, one of truth values chooses."""
    if e.type(mask).dtype != "bool":
        return e.op("Add", (scores, mask), shape, dtype)
    lowest = e.number(float(np.finfo(np.float32).min), dtype)
    return e.op("Where", (mask, scores, lowest), shape, dtype)


def _repeated(e: Emitter, value: str, times: int) -> str:
    """Every head several times in a row."""
    kind = e.type(value)
    *outer, heads, length, depth = kind.shape
    wide = e.reshape(value, (*outer, heads, 1, length, depth))
    shape = (*outer, heads, times, length, depth)
    many = e.op("Expand", (wide, e.ints(shape)), shape, kind.dtype)
    return e.reshape(many, (*outer, heads * times, length, depth))


TRANSLATIONS: Mapping[str, Translation] = {
    **dict.fromkeys(
        (
            "conv1d conv2d conv3d convolution _convolution conv_transpose1d conv_transpose2d "
            "conv_transpose3d"
        ).split(),
        _conv,
    ),
    "linear": _linear,
    "addmm": _addmm,
    "baddbmm": _addmm,
    **dict.fromkeys("matmul mm bmm mv dot".split(), _matmul),
    "einsum": _einsum,
    **dict.fromkeys(
        (
            "scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu "
            "_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention "
            "_scaled_dot_product_fused_attention_overrideable _scaled_dot_product_cudnn_attention"
        ).split(),
        _attention,
    ),
}
