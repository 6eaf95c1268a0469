"""Every kind in SPECS has an example here: each axis it can be cut along is cut and compared.

Adding an operator to SPECS without an example makes `test_every_kind_has_an_example` fail.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from support.builder import GraphBuilder
from support.compare import check_tiled, run_graph
from tilewright.errors import TilingError
from tilewright.graph.graph import Array, Graph
from tilewright.graph.ops import SPECS
from tilewright.graph.ops.elementwise import BROADCAST, UNARY
from tilewright.graph.ops.quantised import PLANNED, PLANNED_UNARY, RUNTIME
from tilewright.graph.ops.reduction import REDUCE
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import Halo, Split
from tilewright.tiling.group import typed_group

Build = Callable[[GraphBuilder], object]
IMAGE = (2, 4, 6, 5)


@dataclass(frozen=True)
class Example:
    """One node (the last that `build` adds) and the axes of its result that can be cut.

    `axes` None: this node runs whole. `no_kernel`: onnxruntime cannot run it, so that only its
    tiles are derived. `steps`: how far off it may be where it rounds quantised results.
    """

    kind: str
    build: Build
    axes: tuple[int, ...] | None
    label: str = ""
    opset: int = 21
    no_kernel: str = ""
    steps: int = 0
    feeds: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.label}" if self.label else self.kind


def image(b: GraphBuilder, dtype: str = "float32") -> str:
    return b.input(*IMAGE, dtype=dtype)


def node(
    kind: str, *weights: tuple[int, ...], shape: tuple[int, ...] = IMAGE, **attributes: object
) -> Build:
    """A node with one input and some weights."""
    return lambda b: b.add(kind, b.input(*shape), *(b.weight(*w) for w in weights), **attributes)


def with_ints(
    kind: str, *lists: list[int], shape: tuple[int, ...] = IMAGE, **attributes: object
) -> Build:
    """A node with one input and lists of integers."""
    return lambda b: b.add(
        kind, b.input(*shape), *(b.constant(values, "int64") for values in lists), **attributes
    )


def binary(kind: str, dtype: str = "float32", **attributes: object) -> Build:
    """Two inputs, the second broadcast along two axes."""
    return lambda b: b.add(kind, image(b, dtype), b.input(1, 4, 1, 5, dtype=dtype), **attributes)


def several(kind: str) -> Build:
    return lambda b: b.add(kind, image(b), b.input(4, 1, 1), b.input(5))


def with_bounds(b: GraphBuilder) -> str:
    return b.add("Clip", image(b), b.constant(0.2, "float32"), b.constant(0.7, "float32"))


def quantised_conv(b: GraphBuilder) -> str:
    scale, zero = b.constant(0.5, "float32"), b.constant(3, "uint8")
    scales, zeros = b.constant(np.linspace(0.1, 0.4, 6), "float32"), b.constant([0] * 6, "int8")
    weight, bias = b.weight(6, 4, 3, 3, dtype="int8"), b.weight(6, dtype="int32")
    return b.add(
        "QLinearConv", image(b, "uint8"), scale, zero, weight, scales, zeros, scale, zero, bias,
        pads=[1, 1, 1, 1],
    )  # fmt: skip


def integer_conv(b: GraphBuilder) -> str:
    weight = b.weight(6, 2, 3, 2, dtype="int8")
    return b.add("ConvInteger", image(b, "uint8"), weight, b.constant(2, "uint8"), group=2)


def integer_matmul(b: GraphBuilder) -> str:
    zero = b.constant(2, "uint8")
    return b.add(
        "MatMulInteger", b.input(2, 6, 5, dtype="uint8"), b.weight(5, 4, dtype="int8"), zero
    )


def quantised_matmul(b: GraphBuilder) -> str:
    one, zero = b.constant(0.5, "float32"), b.constant(3, "uint8")
    weight, signed = b.weight(5, 4, dtype="int8"), b.constant(0, "int8")
    x = b.input(2, 6, 5, dtype="uint8")
    return b.add("QLinearMatMul", x, one, zero, weight, one, signed, one, zero)


def quantise(b: GraphBuilder) -> str:
    scales, zeros = b.constant([0.5, 0.1, 0.2, 1], "float32"), b.constant([1, 2, 3, 4], "uint8")
    return b.add("QuantizeLinear", image(b), scales, zeros, axis=1)


def dequantise(b: GraphBuilder) -> str:
    scales, zeros = b.constant([0.5, 0.1, 0.2, 1], "float32"), b.constant([1, 2, 3, 4], "uint8")
    return b.add("DequantizeLinear", image(b, "uint8"), scales, zeros, axis=1)


def steps(b: GraphBuilder, scale: float = 0.5, zero: int = 3) -> tuple[str, str]:
    """A scale and a zero point."""
    return b.constant(scale, "float32"), b.constant(zero, "uint8")


def quantised(kind: str, inputs: int = 1, domain: str = RUNTIME, **attributes: object) -> Build:
    """An operator on quantised images, its result in other steps."""

    def build(b: GraphBuilder) -> str:
        given = [name for _ in range(inputs) for name in (image(b, "uint8"), *steps(b))]
        return b.add(kind, *given, *steps(b, 0.03, 5), domain=domain, **attributes)

    return build


def quantised_gemm(b: GraphBuilder) -> str:
    scales, zeros = b.constant(np.linspace(0.1, 0.4, 4), "float32"), b.constant([0] * 4, "int8")
    weight, bias = b.weight(4, 5, dtype="int8"), b.weight(4, dtype="int32")
    x = b.input(6, 5, dtype="uint8")
    return b.add(
        "QGemm", x, *steps(b), weight, scales, zeros, bias, *steps(b), domain=RUNTIME, transB=1
    )


def quantised_concat(b: GraphBuilder) -> str:
    parts = [name for k in range(2) for name in (image(b, "uint8"), *steps(b, 0.25 * (k + 1)))]
    return b.add("QLinearConcat", *steps(b, 0.25), *parts, domain=RUNTIME, axis=1)


def blocks(b: GraphBuilder) -> str:
    scales = b.constant(np.arange(1, 121).reshape(2, 2, 6, 5) / 16, "float32")
    return b.add("DequantizeLinear", image(b, "uint8"), scales, axis=1, block_size=2)


def gather(b: GraphBuilder) -> str:
    return b.add("Gather", image(b), b.constant([[0, -1, 2], [1, 1, 3]], "int64"), axis=2)


def embedding(b: GraphBuilder) -> str:
    return b.add("Gather", b.weight(9, 6), b.input(2, 5, dtype="int64"))


def top_k(b: GraphBuilder) -> str:
    return b.add("TopK", image(b), b.constant([2], "int64"), outputs=2, axis=1)


def resize(scales: list[float], **attributes: object) -> Build:
    return lambda b: b.add(
        "Resize", image(b), "", b.constant([1, 1, *scales], "float32"), **attributes
    )


def batch_norm(b: GraphBuilder) -> str:
    variance = b.constant([0.5, 1, 2, 3], "float32")
    return b.add("BatchNormalization", image(b), b.weight(4), b.weight(4), b.weight(4), variance)


def choice(b: GraphBuilder) -> str:
    return b.add("Where", b.input(4, 1, 5, dtype="bool"), image(b), b.input(2, 4, 6, 1))


ALL = (0, 1, 2, 3)
PLAIN_UNARY = [k for k in UNARY if k not in {"BitwiseNot", "Cast", "Clip", "Not", "Swish"}]
PLAIN_BROADCAST = "Add Div Equal Greater GreaterOrEqual Less LessOrEqual Mul Pow Sub".split()

EXAMPLES = [
    *(Example(kind, node(kind), ALL) for kind in PLAIN_UNARY),
    Example("Swish", node("Swish"), ALL, opset=24),
    Example("Swish", node("Swish", alpha=1.702), ALL, "quick GELU", opset=24),
    *(
        Example(f"QLinear{kind}", quantised(f"QLinear{kind}"), ALL)
        for kind in ("LeakyRelu", "Sigmoid")
    ),
    *(Example(f"QLinear{kind}", quantised(f"QLinear{kind}", 2), ALL) for kind in ("Add", "Mul")),
    *(
        Example(f"QLinear{kind}", quantised(f"QLinear{kind}", 1, PLANNED), ALL, no_kernel="planned")
        for kind in PLANNED_UNARY
    ),
    Example("QLinearSoftmax", quantised("QLinearSoftmax", axis=-1, opset=13), (0, 1, 2), steps=1),
    Example(
        "QLinearSoftmax", quantised("QLinearSoftmax", axis=1, opset=12), None, "of old", steps=1
    ),
    Example(
        "QLinearAveragePool",
        quantised("QLinearAveragePool", kernel_shape=[2, 3], pads=[1, 1, 0, 1], strides=[2, 1]),
        ALL,
    ),
    Example("QLinearGlobalAveragePool", quantised("QLinearGlobalAveragePool"), (0, 1)),
    Example("QLinearConcat", quantised_concat, ALL),
    Example("QGemm", quantised_gemm, (0, 1)),
    Example("BitwiseNot", lambda b: b.add("BitwiseNot", image(b, "int32")), ALL),
    Example("Not", lambda b: b.add("Not", image(b, "bool")), ALL),
    Example("Cast", node("Cast", to=6), ALL),
    Example("Clip", with_bounds, ALL),
    *(Example(kind, binary(kind), ALL) for kind in PLAIN_BROADCAST),
    *(Example(kind, binary(kind, "bool"), ALL) for kind in ("And", "Or", "Xor")),
    *(
        Example(kind, binary(kind, "int32"), ALL)
        for kind in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
    ),
    Example("BitShift", binary("BitShift", "uint8", direction="LEFT"), ALL),
    Example("Mod", binary("Mod", "float32", fmod=1), ALL),
    *(Example(kind, several(kind), ALL) for kind in ("Max", "Mean", "Min", "Sum")),
    Example("PRelu", node("PRelu", (4, 1, 1)), ALL),
    Example("Where", choice, ALL),
    Example("Dropout", node("Dropout"), ALL),
    Example("Dropout", node("Dropout", outputs=2), None, "mask"),
    Example("QuantizeLinear", quantise, ALL),
    Example("DequantizeLinear", dequantise, ALL),
    Example("DequantizeLinear", blocks, ALL, "blocks"),
    Example("Expand", with_ints("Expand", [2, 4, 6, 5], shape=(4, 1, 5)), ALL),
    # windows
    Example("Conv", node("Conv", (6, 4, 3, 3), (6,), pads=[1, 1, 1, 1]), ALL),
    Example("Conv", node("Conv", (8, 2, 2, 3), group=2, strides=[2, 1]), (0, 1, 2, 3), "groups"),
    Example("Conv", node("Conv", (4, 1, 3, 3), group=4, auto_pad="SAME_LOWER"), ALL, "depthwise"),
    Example(
        "Conv", node("Conv", (3, 4, 2, 2), dilations=[2, 3], pads=[2, 0, 3, 4]), ALL, "dilated"
    ),
    Example("Conv", node("Conv", (3, 6, 4), shape=(2, 6, 9), pads=[5, 6]), (0, 1, 2), "1d"),
    Example("Conv", node("Conv", (3, 2, 2, 3, 1), shape=(2, 2, 4, 5, 3)), (0, 1, 2, 3, 4), "3d"),
    Example("ConvInteger", integer_conv, ALL),
    Example("QLinearConv", quantised_conv, ALL),
    Example("ConvTranspose", node("ConvTranspose", (4, 3, 3, 3), (3,), strides=[2, 2]), ALL),
    Example(
        "ConvTranspose",
        node(
            "ConvTranspose",
            (4, 2, 2, 2),
            group=2,
            strides=[3, 3],
            pads=[1, 0, 0, 1],
            output_padding=[2, 1],
        ),
        ALL,
        "holes",
    ),
    Example(
        "ConvTranspose",
        node("ConvTranspose", (4, 3, 3, 3), strides=[2, 2], output_shape=[12, 9]),
        ALL,
        "shape",
    ),
    Example(
        "MaxPool",
        node("MaxPool", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], ceil_mode=1),
        ALL,
    ),
    Example("MaxPool", node("MaxPool", kernel_shape=[2, 2], outputs=2), None, "indices"),
    Example("AveragePool", node("AveragePool", kernel_shape=[3, 3], pads=[1, 2, 2, 1]), ALL),
    Example(
        "AveragePool",
        node(
            "AveragePool",
            kernel_shape=[3, 3],
            strides=[2, 2],
            pads=[1, 1, 1, 1],
            count_include_pad=1,
            ceil_mode=1,
        ),
        ALL,
        "ceil",
    ),
    Example("LpPool", node("LpPool", kernel_shape=[2, 3], pads=[1, 1, 0, 1], p=2), ALL),
    *(
        Example(kind, node(kind), (0, 1))
        for kind in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
    ),
    Example("LRN", node("LRN", size=3), (0, 2, 3)),
    *(
        Example("Conv", node("Conv", (3, 4, 2, 4), auto_pad=mode), ALL, mode)
        for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")
    ),
    *(
        Example("MaxPool", node("MaxPool", kernel_shape=[2, 4], auto_pad=mode), ALL, mode)
        for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")
    ),
    # products
    Example("MatMul", lambda b: b.add("MatMul", b.input(3, 1, 4, 5), b.input(2, 5, 6)), ALL),
    Example("MatMul", lambda b: b.add("MatMul", b.input(5), b.input(2, 5, 6)), (0, 1), "row"),
    Example("MatMul", lambda b: b.add("MatMul", b.input(2, 4, 5), b.input(5)), (0, 1), "column"),
    Example("MatMulInteger", integer_matmul, (0, 1, 2)),
    Example("QLinearMatMul", quantised_matmul, (0, 1, 2)),
    Example("Gemm", node("Gemm", (5, 4), (4,), shape=(6, 5)), (0, 1)),
    Example(
        "Gemm",
        node("Gemm", (4, 6), (5, 1), shape=(6, 5), transA=1, transB=1, alpha=0.5, beta=2.0),
        (0, 1),
        "both",
    ),
    # reductions
    *(
        Example(kind, node(kind, axis=2), (0, 1, 3))
        for kind in ("Softmax", "LogSoftmax", "Hardmax")
    ),
    Example("LpNormalization", node("LpNormalization", axis=1), (0, 2, 3)),
    Example("CumSum", with_ints("CumSum", 2), (0, 1, 3)),
    *(Example(kind, with_ints(kind, [1, 3], keepdims=1), (0, 2)) for kind in REDUCE),
    Example("ReduceSum", with_ints("ReduceSum", [-3], keepdims=0), (0, 1, 2), "dropped"),
    Example(
        "ReduceMean", with_ints("ReduceMean", shape=(2, 3), noop_with_empty_axes=1), (0, 1), "noop"
    ),
    *(Example(kind, node(kind, axis=1, keepdims=0), (0, 1, 2)) for kind in ("ArgMax", "ArgMin")),
    Example("LayerNormalization", node("LayerNormalization", (6, 5), (6, 5), axis=2), (0, 1)),
    Example("LayerNormalization", node("LayerNormalization", (5,), (5,), outputs=3), None, "mean"),
    Example("RMSNormalization", node("RMSNormalization", (5,)), (0, 1, 2), opset=23),
    Example("BatchNormalization", batch_norm, ALL),
    Example("InstanceNormalization", node("InstanceNormalization", (4,), (4,)), (0, 1)),
    Example("GroupNormalization", node("GroupNormalization", (4,), (4,), num_groups=2), (0, 1)),
    Example(
        "GroupNormalization",
        node("GroupNormalization", (2,), (2,), num_groups=2),
        (0, 1),
        "18",
        opset=18,
    ),
    # layout
    Example("Reshape", with_ints("Reshape", [8, 3, 2, 5]), (0, 1, 3)),
    Example("Reshape", with_ints("Reshape", [6, 4], shape=(4, 6)), (0,), "mixed"),
    Example("Flatten", node("Flatten", axis=2), (0, 1)),
    Example("Squeeze", with_ints("Squeeze", [1], shape=(4, 1, 6)), (0, 1)),
    Example("Unsqueeze", with_ints("Unsqueeze", [0, 3]), (1, 2, 4, 5)),
    Example("Transpose", node("Transpose", perm=[2, 0, 3, 1]), ALL),
    Example("Concat", lambda b: b.add("Concat", image(b), b.input(2, 4, 3, 5), axis=2), ALL),
    Example("Split", with_ints("Split", [1, 3, 2], axis=2, outputs=3), (0, 1, 3)),
    Example("Slice", with_ints("Slice", [5, 0], [-100, 4], [2, 3], [-2, 1]), ALL),
    Example("Slice", with_ints("Slice", [-5], [2**40], [2]), ALL, "ends"),
    Example("Slice", with_ints("Slice", [99, -99], [-99, 99], [2, 3], [-2, 2]), ALL, "clamped"),
    Example("Pad", with_ints("Pad", [0, 1, 2, -1, 0, 0, 3, 2], mode="constant"), ALL),
    Example("Pad", with_ints("Pad", [0, 0, 3, 2, 0, 1, 2, 4], mode="reflect"), ALL, "reflect"),
    Example("Pad", with_ints("Pad", [0, 0, 3, 2, 0, 1, 2, 4], mode="edge"), ALL, "edge"),
    Example("Pad", with_ints("Pad", [0, 0, -1, 2, 0, 1, 2, 4], mode="edge"), (0, 1, 3), "crop"),
    Example("Pad", with_ints("Pad", [0, 0, 3, 0, 0, 0, 2, 0], mode="wrap"), (0, 1, 3), "wrap"),
    Example("Gather", gather, (0, 1, 2, 3, 4)),
    Example("Gather", embedding, (0, 1, 2), "embedding"),
    Example("DepthToSpace", node("DepthToSpace", blocksize=2), (0, 2, 3)),
    Example("DepthToSpace", node("DepthToSpace", blocksize=2, mode="CRD"), (0, 2, 3), "crd"),
    Example("SpaceToDepth", node("SpaceToDepth", blocksize=2, shape=(2, 3, 6, 4)), (0, 2, 3)),
    Example("Tile", with_ints("Tile", [1, 2, 1, 3]), (0, 2)),
    Example("TopK", top_k, None, "two results are never cut"),
    Example("Resize", resize([2, 3], mode="nearest"), ALL),
    Example("Resize", resize([2, 4], mode="linear"), ALL, "linear"),
    Example("Resize", resize([0.5, 2], mode="cubic"), ALL, "cubic"),
    Example("Resize", resize([2, 1.5], mode="linear"), (0, 1, 2), "odd"),
    Example(
        "Resize",
        resize([2, 2], mode="linear", coordinate_transformation_mode="align_corners"),
        (0, 1),
        "corners",
    ),
]
RANGES = {"Acosh": (1.0, 3.0), "BitShift": (0, 4)}


def graph_of(example: Example) -> Graph:
    b = GraphBuilder(opset=example.opset)
    example.build(b)
    (made,) = b.nodes
    assert made.kind == example.kind
    return b.graph()


def feeds_for(example: Example, graph: Graph) -> dict[str, Array]:
    """Numbers where every operator is defined: between 0.1 and 0.9, or small integers."""
    random = np.random.default_rng(5)
    low, high = RANGES.get(example.kind, (0.1, 0.9))
    result: dict[str, Array] = {}
    for name in graph.inputs:
        kind = graph.types[name]
        if kind.dtype == "float32":
            result[name] = random.uniform(low, high, kind.shape).astype(np.float32)
        else:
            result[name] = random.integers(0, 2 if kind.dtype == "bool" else 5, kind.shape).astype(
                kind.dtype
            )
    return result


@pytest.mark.quick
def test_every_kind_has_an_example() -> None:
    assert sorted(set(SPECS)) == sorted({example.kind for example in EXAMPLES})
    names = [example.name for example in EXAMPLES]
    assert len(names) == len(set(names))
    assert set(UNARY) | set(BROADCAST) <= set(SPECS)


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_operator_cut_along_each_axis(example: Example) -> None:
    graph = graph_of(example)
    if example.axes is None:
        with pytest.raises(TilingError, match="cannot be cut"):
            typed_group(graph, [0])
        return
    (tiled,) = typed_group(graph, [0])
    extents = [graph.types[name].shape for name in graph.outputs]
    axes = set.intersection(*(set(access.tileable()) for access in tiled.access))
    assert axes == set(example.axes)
    feeds = feeds_for(example, graph)
    expected = None if example.no_kernel else run_graph(graph, feeds)
    for number, axis in enumerate(sorted(axes)):
        halo = list(Halo)[number % 2]
        parts = min(3, min(shape[axis] for shape in extents))
        tiles = cut_group(graph, [0], (Split(axis, parts, halo),))
        assert max(tiles.counts) > 1
        if expected is not None:
            check_tiled(graph, [tiles], feeds, expected)


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_what_cannot_be_cut_is_refused(example: Example) -> None:
    if example.axes is None:
        return
    graph = graph_of(example)
    shape = graph.types[graph.outputs[0]].shape
    for axis in set(range(len(shape))) - set(example.axes):
        with pytest.raises(TilingError):
            cut_group(graph, [0], (Split(axis, 2),))
