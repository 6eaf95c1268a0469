"""Random small networks, groups and grids for the property tests."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from support.builder import GraphBuilder
from tilewright.errors import ModelError, TilingError
from tilewright.graph.graph import Graph
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import Halo, Split
from tilewright.tiling.group import GroupTiles, exports, typed_group

Draw = Callable[[st.SearchStrategy], object]
Operator = Callable[[Draw, GraphBuilder, str], "str | None"]
LARGEST_TENSOR = 6000  # elements


def _int(draw: Draw, low: int, high: int) -> int:
    return draw(st.integers(low, max(low, high)))  # type: ignore[return-value]


def _ints(draw: Draw, count: int, low: int, high: int) -> list[int]:
    return [_int(draw, low, high) for _ in range(count)]


def _pick(draw: Draw, *choices: object) -> object:
    return draw(st.sampled_from(choices))


def _flag(draw: Draw) -> bool:
    return draw(st.booleans())  # type: ignore[return-value]


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def _is_float(b: GraphBuilder, x: str) -> bool:
    return b.type(x).dtype == "float32"


# --- windows ------------------------------------------------------------------------------------


def _window(draw: Draw, rank: int, pool: bool) -> dict[str, object]:
    kernel = _ints(draw, rank, 1, 4)
    dilations = _ints(draw, rank, 1, 2) if _flag(draw) else [1] * rank
    window: dict[str, object] = {
        "kernel_shape": kernel,
        "strides": _ints(draw, rank, 1, 3),
        "dilations": dilations,
    }
    mode = _pick(draw, "pads", "pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID")
    if mode != "pads":
        window["auto_pad"] = mode
        if mode != "VALID":
            window["dilations"] = [1] * rank  # onnxruntime has no SAME padding with dilation
    else:
        # Pools must see a real element; convolutions may be padded beyond their kernel.
        limits = [
            k - 1 if pool else (k - 1) * d + 2 for k, d in zip(kernel, dilations, strict=True)
        ]
        window["pads"] = [_int(draw, 0, limit) for limit in limits + limits]
    return window


def _is_image(b: GraphBuilder, x: str) -> bool:
    return len(b.shape(x)) >= 3 and _is_float(b, x)


def conv(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Convolution of 1 to 3 spatial axes, with groups, any pads, automatic padding."""
    if not _is_image(b, x):
        return None
    shape, rank = b.shape(x), len(b.shape(x)) - 2
    groups = _pick(draw, 1, 1, *_divisors(shape[1]))
    filters = groups * _int(draw, 1, 3)
    window = _window(draw, rank, pool=False)
    weight = b.weight(filters, shape[1] // groups, *window["kernel_shape"])
    bias = [b.weight(filters)] if _flag(draw) else []
    return b.add("Conv", x, weight, *bias, group=groups, **window)


def conv3(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """The commonest layer: 3x3, same size or half of it."""
    if not _is_image(b, x):
        return None
    shape, rank = b.shape(x), len(b.shape(x)) - 2
    stride = _pick(draw, 1, 1, 2)
    weight = b.weight(_int(draw, 1, 4), shape[1], *[3] * rank)
    return b.add("Conv", x, weight, pads=[1] * (2 * rank), strides=[stride] * rank)


def transposed(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Transposed convolution: groups, output padding or shape, strides beyond the kernel."""
    if not _is_image(b, x):
        return None
    shape, rank = b.shape(x), len(b.shape(x)) - 2
    groups = _pick(draw, 1, 1, *_divisors(shape[1]))
    kernel, strides = _ints(draw, rank, 1, 4), _ints(draw, rank, 1, 4)
    dilations = _ints(draw, rank, 1, 2)
    weight = b.weight(shape[1], _int(draw, 1, 2), *kernel)
    bias = [b.weight(b.shape(weight)[1] * groups)] if _flag(draw) else []
    attributes: dict[str, object] = {
        "group": groups,
        "strides": strides,
        "dilations": dilations,
        "kernel_shape": kernel,
    }
    full = [
        (extent - 1) * s + (k - 1) * d + 1
        for extent, s, k, d in zip(shape[2:], strides, kernel, dilations, strict=True)
    ]
    mode = _pick(draw, "pads", "pads", "pads", "output_shape", "SAME_UPPER", "SAME_LOWER", "VALID")
    if mode == "pads":
        attributes["pads"] = [
            _int(draw, 0, min(k * d, 4)) for k, d in zip(kernel, dilations, strict=True)
        ] * 2
        attributes["output_padding"] = [_int(draw, 0, s - 1) for s in strides]
    elif mode == "output_shape":
        attributes["output_shape"] = [
            max(e, f - _int(draw, 0, 3)) for e, f in zip(shape[2:], full, strict=True)
        ]
        attributes["auto_pad"] = _pick(draw, None, "SAME_UPPER", "SAME_LOWER")
    else:
        attributes["auto_pad"] = mode
    return b.add("ConvTranspose", x, weight, *bias, **attributes)


def pool(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Max, average and Lp pooling, with ceil mode; bytes have only the first."""
    shape, dtype = b.shape(x), b.type(x).dtype
    if len(shape) < 3 or dtype not in ("float32", "uint8", "int8"):
        return None
    rank = len(shape) - 2
    window = _window(draw, rank, pool=True)
    kind = _pick(draw, "MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool")
    if dtype != "float32":
        kind = "MaxPool"
    if kind == "AveragePool":
        window["count_include_pad"] = int(_flag(draw))
    if kind != "MaxPool" and b.inference.opsets[""] < 19:
        window.pop("dilations")
    if "auto_pad" not in window:
        window["ceil_mode"] = int(_flag(draw))
    if kind == "LpPool" and b.inference.opsets[""] < 18:
        window.pop("ceil_mode", None)
    return b.add(kind, x, **window)


def integer_conv(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Quantised convolutions, per channel or not."""
    shape, kind = b.shape(x), b.type(x).dtype
    if len(shape) != 4 or kind not in ("uint8", "int8"):
        return None
    groups = _pick(draw, 1, 1, *_divisors(shape[1]))
    filters = groups * _int(draw, 1, 3)
    window = _window(draw, 2, pool=False)
    weight = b.weight(filters, shape[1] // groups, *window["kernel_shape"], dtype="int8")
    zero = b.constant(_int(draw, 0, 3), kind)
    if kind == "uint8" and _flag(draw):
        return b.add("ConvInteger", x, weight, zero, group=groups, **window)
    scales = b.constant(0.5 + b.random.random(filters), "float32")
    zeros = b.constant(np.zeros(filters), "int8")
    if _flag(draw):
        scales, zeros = b.constant(0.5, "float32"), b.constant(0, "int8")
    one, result_zero = b.constant(2.0, "float32"), b.constant(_int(draw, 0, 3), kind)
    bias = [b.weight(filters, dtype="int32")] if _flag(draw) else []
    return b.add(
        "QLinearConv", x, one, zero, weight, scales, zeros, b.constant(3.0, "float32"), result_zero,
        *bias, group=groups, **window,
    )  # fmt: skip


# --- element by element -------------------------------------------------------------------------


def unary(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """An activation."""
    if not _is_float(b, x):
        return None
    kind = _pick(draw, "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Abs", "Neg", "Clip", "HardSwish")
    if kind == "Clip":
        return b.add("Clip", x, b.constant(-1.5, "float32"), b.constant(3.0, "float32"))
    return b.add(kind, x)


def residual(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Two values of one shape (an earlier one if there is one), added or combined."""
    kind = b.type(x)
    if not _is_float(b, x):
        return None
    others = [
        n for n, t in b.inference.types.items() if t == kind and n not in b.inference.constants
    ]
    other = _pick(draw, *others)
    return b.add(_pick(draw, "Add", "Add", "Sub", "Max"), x, other)


def broadcast(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """A constant, or the value's own sums, broadcast against it."""
    shape = b.shape(x)
    if not _is_float(b, x) or not shape:
        return None
    keep = [_flag(draw) for _ in shape]
    if _flag(draw) and not all(keep):
        axes = b.constant([a for a, k in enumerate(keep) if not k], "int64")
        other = b.add("ReduceMax", x, axes, keepdims=1)
    else:
        extents = [e if k else 1 for e, k in zip(shape, keep, strict=True)]
        other = b.weight(*extents[_int(draw, 0, len(shape) - 1) :])
    return b.add(_pick(draw, "Add", "Mul", "Min"), x, other)


def where(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """A choice by comparison."""
    if not _is_float(b, x):
        return None
    condition = b.add("Greater", x, b.constant(0.0, "float32"))
    return b.add("Where", condition, x, b.weight(b.shape(x)[-1]) if b.shape(x) else b.weight())


def quantise(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """To 8 bits, and back for what is 8 bits already."""
    kind, shape = b.type(x).dtype, b.shape(x)
    axis = _int(draw, 0, len(shape) - 1) if shape else 0
    extents = (shape[axis],) if shape and _flag(draw) else ()
    scale = b.constant(np.exp2(b.random.integers(-1, 2, extents)), "float32")
    if kind == "float32":
        if any(node.kind not in EXACT for node in b.nodes):
            return None  # rounding differs where sums were taken in another order
        zero = b.constant(b.random.integers(0, 4, extents), "uint8")
        return b.add("QuantizeLinear", x, scale, zero, axis=axis)
    if kind in ("uint8", "int8"):
        zero = b.constant(b.random.integers(0, 4, extents), kind)
        return b.add("DequantizeLinear", x, scale, zero, axis=axis)
    if kind in ("int32", "bool"):
        return b.add("Cast", x, to=1)
    return None


def expand(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Broadcast to a larger shape."""
    shape = [e if e > 1 or _flag(draw) else 3 for e in b.shape(x)]
    if len(shape) < 4 and _flag(draw):
        shape = [2, *shape]
    return b.add("Expand", x, b.constant(shape, "int64"))


# --- layout -------------------------------------------------------------------------------------


def concat(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Values that differ along one axis only, the value itself again included."""
    shape = b.shape(x)
    if not shape:
        return None
    axis = _int(draw, 0, len(shape) - 1)

    def fits(name: str) -> bool:
        other = b.type(name)
        return (
            other.dtype == b.type(x).dtype
            and len(other.shape) == len(shape)
            and all(a == axis or other.shape[a] == extent for a, extent in enumerate(shape))
        )

    others = [n for n in b.inference.types if n not in b.inference.constants and fits(n)]
    parts = [x, *(_pick(draw, *others) for _ in range(_int(draw, 1, 2)))]
    return b.add("Concat", *draw(st.permutations(parts)), axis=axis)


def split(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Two or three parts, often joined again by a later operator."""
    shape = b.shape(x)
    if not shape:
        return None
    axis = _int(draw, 0, len(shape) - 1)
    if shape[axis] < 3:
        return None
    first = _int(draw, 1, shape[axis] - 2)
    sizes = [first, 1, shape[axis] - first - 1]
    if sizes[2] == 0 or _flag(draw):
        sizes = [first, shape[axis] - first]
    name = b.add("Split", x, b.constant(sizes, "int64"), outputs=len(sizes), axis=axis)
    return _pick(draw, name, f"{name}.1")


def slice_(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Parts of axes, with steps of either sign."""
    shape = b.shape(x)
    if not shape:
        return None
    axes = sorted({_int(draw, 0, len(shape) - 1) for _ in range(_int(draw, 1, 2))})
    starts, stops, steps = [], [], []
    for axis in axes:
        step, extent = _pick(draw, 1, 1, 2, 3, -1, -2), shape[axis]
        low = _int(draw, 0, extent - 1)
        high = _int(draw, low + 1, extent)
        starts.append(low if step > 0 else _pick(draw, high - 1, high - 1 - extent))
        stops.append(_pick(draw, high, 2**31) if step > 0 else low - 1 if low else -(2**31))
        steps.append(step)
    signed = [a - len(shape) if _flag(draw) else a for a in axes]
    lists = (b.constant(values, "int64") for values in (starts, stops, signed, steps))
    return b.add("Slice", x, *lists)


def pad(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Constant (also negative), reflected or repeated borders."""
    shape = b.shape(x)
    if not shape or not _is_float(b, x):
        return None
    mode = _pick(draw, "constant", "constant", "reflect", "edge", "wrap")
    low = -1 if _flag(draw) else 0
    pads = [
        _int(draw, low, 3 if mode == "constant" else min(3, extent - 1)) if axis else 0
        for axis, extent in [*enumerate(shape), *enumerate(shape)]
    ]
    if any(e + a + z < 1 for e, a, z in zip(shape, pads, pads[len(shape) :], strict=False)):
        return None
    if mode == "wrap" and (b.inference.opsets[""] < 19 or low < 0):
        return None
    fill = [b.constant(_int(draw, -1, 2), "float32")] if mode == "constant" and _flag(draw) else []
    return b.add("Pad", x, b.constant(pads, "int64"), *fill, mode=mode)


def transpose(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Axes in another order."""
    return b.add("Transpose", x, perm=list(draw(st.permutations(range(len(b.shape(x)))))))


def reshape(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Neighbouring axes merged, one axis parted, ones put in or taken out."""
    shape = list(b.shape(x))
    for _ in range(_int(draw, 1, 2)):
        move = _pick(draw, "merge", "part", "one", "squeeze", "flatten")
        if move == "merge" and len(shape) > 2:
            axis = _int(draw, 0, len(shape) - 2)
            shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
        elif move == "part" and shape and len(shape) < 5:
            axis = _int(draw, 0, len(shape) - 1)
            outer = _pick(draw, *_divisors(shape[axis]))
            shape[axis : axis + 1] = [outer, shape[axis] // outer]
        elif move == "one" and len(shape) < 5:
            shape.insert(_int(draw, 0, len(shape)), 1)
        elif move == "squeeze" and 1 in shape[1:]:
            shape.pop(shape.index(1, 1))
        elif move == "flatten" and len(shape) > 2:
            shape = [shape[0], int(np.prod(shape[1:]))]
    return b.add("Reshape", x, b.constant(shape, "int64"))


def resize(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Nearest, linear and cubic interpolation, up and down, in all coordinate modes."""
    shape = b.shape(x)
    if len(shape) != 4 or not _is_float(b, x):
        return None
    mode = _pick(draw, "nearest", "linear", "cubic")
    coordinates = _pick(draw, "half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners")
    attributes: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = _pick(
            draw, "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"
        )
    if mode == "cubic":
        attributes["exclude_outside"] = int(_flag(draw))
    scales = [1.0, 1.0, *(_pick(draw, 1.0, 2.0, 2.0, 3.0, 4.0, 0.5, 1.5, 1.3) for _ in range(2))]
    if any(int(e * s) < 1 for e, s in zip(shape, scales, strict=True)):
        return None
    if _flag(draw):
        sizes = [int(e * s) for e, s in zip(shape, scales, strict=True)]
        return b.add("Resize", x, "", "", b.constant(sizes, "int64"), **attributes)
    return b.add("Resize", x, "", b.constant(scales, "float32"), **attributes)


def depth_space(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Pixel shuffle and its inverse."""
    shape = b.shape(x)
    if len(shape) != 4 or not _is_float(b, x):
        return None
    if shape[1] % 4 == 0:
        return b.add("DepthToSpace", x, blocksize=2, mode=_pick(draw, "DCR", "CRD"))
    if shape[2] % 2 == 0 and shape[3] % 2 == 0:
        return b.add("SpaceToDepth", x, blocksize=2)
    return None


def gather(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Positions of one axis, in any order."""
    shape = b.shape(x)
    if not shape or len(shape) > 4:
        return None
    axis = _int(draw, 0, len(shape) - 1)
    extents = _pick(draw, (), (3,), (2, 2))
    if len(shape) < 3 and extents == ():
        return None
    indices = b.constant(b.random.integers(-shape[axis], shape[axis], extents), "int64")
    return b.add("Gather", x, indices, axis=axis)


def repeat(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Repeat along one axis."""
    shape = b.shape(x)
    if not shape:
        return None
    repeats = [1] * len(shape)
    repeats[_int(draw, 0, len(shape) - 1)] = 2
    return b.add("Tile", x, b.constant(repeats, "int64"))


# --- products and reductions --------------------------------------------------------------------


def matmul(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Products with a weight, with the value itself transposed, with batch broadcasting."""
    shape, kind = b.shape(x), b.type(x).dtype
    if len(shape) < 2:
        return None
    columns = _int(draw, 1, 4)
    if kind == "uint8":
        zero = [b.constant(1, kind)] if _flag(draw) else []
        return b.add("MatMulInteger", x, b.weight(shape[-1], columns, dtype="int8"), *zero)
    if kind != "float32":
        return None
    choice = _pick(draw, "weight", "batch", "self", "left", "vector", "gemm")
    if choice == "gemm" and len(shape) == 2:
        trans_a, trans_b = _flag(draw), _flag(draw)
        inner = shape[0] if trans_a else shape[1]
        weight = b.weight(columns, inner) if trans_b else b.weight(inner, columns)
        rows = shape[1] if trans_a else shape[0]
        bias = [b.weight(*_pick(draw, (columns,), (1,), (rows, 1), (rows, columns)))]
        return b.add(
            "Gemm", x, weight, *(bias if _flag(draw) else []), alpha=0.5, transA=int(trans_a),
            transB=int(trans_b),
        )  # fmt: skip
    if choice == "self":
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        return b.add("MatMul", x, b.add("Transpose", x, perm=order))
    if choice == "left":
        return b.add("MatMul", b.weight(columns, shape[-2]), x)
    if choice == "vector" and len(shape) > 2:
        return b.add("MatMul", x, b.weight(shape[-1]))
    batch = [e if _flag(draw) else 1 for e in shape[:-2]] if choice == "batch" else []
    return b.add("MatMul", x, b.weight(*batch, shape[-1], columns))


def softmax(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Softmax along any axis."""
    if not _is_float(b, x) or not b.shape(x):
        return None
    return b.add("Softmax", x, axis=_int(draw, -len(b.shape(x)), len(b.shape(x)) - 1))


def norm(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Layer, instance, group and batch norm."""
    shape = b.shape(x)
    if not _is_float(b, x) or len(shape) < 3:
        return None
    kind = _pick(draw, "Layer", "Instance", "Group", "Batch", "Batch")
    channels = shape[1]
    if kind == "Layer":
        axis = _int(draw, 1, len(shape) - 1)
        scale, bias = b.weight(*shape[axis:]), b.weight(*shape[axis:])
        return b.add("LayerNormalization", x, scale, bias, axis=axis)
    if kind == "Instance":
        return b.add("InstanceNormalization", x, b.weight(channels), b.weight(channels))
    if kind == "Group":
        if b.inference.opsets[""] < 21:
            return None
        groups = _pick(draw, *_divisors(channels))
        scale, bias = b.weight(channels), b.weight(channels)
        return b.add("GroupNormalization", x, scale, bias, num_groups=groups)
    variance = b.constant(1 + b.random.random(channels), "float32")
    parameters = (b.weight(channels), b.weight(channels), b.weight(channels), variance)
    return b.add("BatchNormalization", x, *parameters)


def reduce(draw: Draw, b: GraphBuilder, x: str) -> str | None:
    """Sums, means and the like over some axes."""
    shape = b.shape(x)
    if not _is_float(b, x) or len(shape) < 2:
        return None
    axes = sorted({_int(draw, 0, len(shape) - 1) for _ in range(_int(draw, 1, 2))})
    kind = _pick(draw, "ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "GlobalAveragePool")
    if kind == "GlobalAveragePool":
        return b.add(kind, x) if len(shape) > 2 else None
    given = b.constant(axes, "int64")
    return b.add(kind, x, given, keepdims=int(_flag(draw)))


EXACT = frozenset(
    "Relu Concat Split Slice Pad Transpose Reshape Gather Tile Expand MaxPool QuantizeLinear "
    "Identity Neg Abs".split()
)
WINDOWS: tuple[Operator, ...] = (conv, conv3, conv3, transposed, pool)
JOINS: tuple[Operator, ...] = (residual, residual, concat, broadcast)
LAYOUT: tuple[Operator, ...] = (
    split, slice_, pad, transpose, reshape, resize, depth_space, gather, repeat, expand,
)  # fmt: skip
OTHERS: tuple[Operator, ...] = (matmul, softmax, norm, reduce, unary, where)
QUANTISED: tuple[Operator, ...] = (quantise, integer_conv, quantise, pool, concat, slice_, matmul)
ALL: tuple[Operator, ...] = (*WINDOWS, *JOINS, *LAYOUT, *OTHERS, quantise, integer_conv)
SHAPES = ((1, 4, 9, 8), (2, 3, 7, 6), (1, 2, 12), (2, 6, 5), (1, 2, 4, 5, 4), (5, 6))


@st.composite
def networks(
    draw: Draw,
    operators: tuple[Operator, ...] = ALL,
    nodes: int = 7,
    shapes: tuple[tuple[int, ...], ...] = SHAPES,
    dtype: str = "float32",
) -> Graph:
    """A network of up to so many operators; its outputs are what nothing reads, and perhaps
    something inside."""
    opset = _pick(draw, 18, 18, 13, 21, 22)
    if any(op in (reduce, broadcast, split) for op in operators) and opset < 18:
        opset = 18  # older reductions have their axes as attributes
    b = GraphBuilder(opset=opset, seed=_int(draw, 0, 3))
    live = [b.input(*_pick(draw, *shapes), dtype=dtype)]
    for _ in range(_int(draw, 1, nodes)):
        # Mostly the newest value, so that chains grow deep; at times an older one: a skip.
        x = live[-1] if _int(draw, 0, 3) else _pick(draw, *live)
        operator = _pick(draw, *operators)
        known, made = dict(b.inference.types), len(b.nodes)
        try:
            result = operator(draw, b, x)
        except ModelError:
            result = None
        kind = b.inference.types.get(result) if result is not None else None
        fresh = [name for node in b.nodes[made:] for name in node.writes]
        sane = kind is not None and all(
            n in b.inference.types and 0 < b.type(n).size <= LARGEST_TENSOR for n in fresh
        )
        if sane:
            live += [n for n in fresh if n != result] + [result]
        else:
            del b.nodes[made:]
            b.inference.types = known | {n: c.type for n, c in b.inference.constants.items()}
    if not b.nodes:
        b.add("Identity", live[0])
    inner = [name for node in b.nodes for name in node.writes if name not in b.unread()]
    extra = [_pick(draw, *inner)] if inner and _int(draw, 0, 3) == 0 else []
    return b.graph(*b.unread(), *extra)


def convex(graph: Graph, seeds: set[int]) -> tuple[int, ...]:
    """The seeds and everything on paths between them."""
    after = graph.reachable(seeds, forward=True)
    before = graph.reachable(seeds, forward=False)
    return tuple(sorted(after & before))


@dataclass(frozen=True, slots=True)
class Cutting:
    """A network, a group of it and how it is cut."""

    graph: Graph
    members: tuple[int, ...]
    splits: tuple[Split, ...]

    def tiles(self) -> GroupTiles:
        """The group's tiles."""
        return cut_group(self.graph, self.members, self.splits)


def cuttable_axes(graph: Graph, members: tuple[int, ...]) -> dict[int, int]:
    """Axes along which all final outputs of a group can be cut -> the shortest extent."""
    final = [name for name, inside in exports(graph, members).items() if not inside]
    found: dict[int, int] = {}
    access_of = {
        name: access
        for tiled in typed_group(graph, members)
        for name, access in zip(tiled.node.outputs, tiled.access, strict=True)
    }
    for axis in range(min((len(access_of[name].shape) for name in final), default=0)):
        if all(axis in access_of[name].tileable() for name in final):
            found[axis] = min(access_of[name].shape[axis] for name in final)
    return found


def grained(graph: Graph, members: tuple[int, ...], split: Split, grain: int) -> Split:
    """A split with a grain, if the group has such a cut."""
    other = replace(split, grain=grain)
    try:
        cut_group(graph, members, (other,))
    except TilingError:
        return split
    return other


@st.composite
def cuttings(
    draw: Draw, graph: Graph, halo: Halo | None = None, taken: frozenset[int] = frozenset()
) -> Cutting | None:
    """A convex group of the graph and a grid for it, or None where there is none."""
    free = [i for i in range(len(graph.nodes)) if i not in taken]
    if not free:
        return None
    whole = not taken and _flag(draw)
    picked = {_pick(draw, *free) for _ in range(_int(draw, 1, 3))}
    members = tuple(free) if whole else convex(graph, picked)
    if set(members) & taken:
        return None
    try:
        axes = cuttable_axes(graph, members)
    except TilingError:
        return None
    if not axes:
        return None
    chosen = draw(st.permutations(sorted(axes)))[: _int(draw, 1, 2)]
    splits = tuple(
        grained(
            graph,
            members,
            Split(axis, _int(draw, 2, min(4, axes[axis])), halo or _pick(draw, *Halo)),
            _int(draw, 1, 5),
        )
        for axis in chosen
    )
    return Cutting(graph, members, splits)
