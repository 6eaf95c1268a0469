"""Which nodes become one kernel, as in the graphs that onnxruntime saves."""

import pytest

from support.builder import GraphBuilder
from tilewright.graph.graph import Graph
from tilewright.peak import Runtime
from tilewright.peak.predict import lower

pytestmark = pytest.mark.quick


def kinds(
    graph: Graph, block: int = 1, extended: bool = True, signed_kernels: bool = False
) -> list[str]:
    """Kinds of the kernels in execution order."""
    runtime = Runtime(block, extended, signed_kernels)
    return [kernel.kind for kernel in lower(graph, runtime).in_order()]


def conv(b: GraphBuilder, x: str, channels: int = 8) -> str:
    return b.add("Conv", x, b.weight(channels, b.shape(x)[1], 3, 3), pads=[1, 1, 1, 1])


def cut(b: GraphBuilder, x: str, *bounds: list[int]) -> str:
    return b.add("Slice", x, *(b.constant(bound, "int64") for bound in bounds))


@pytest.mark.parametrize("kind", ["Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid"])
def test_conv_takes_in_its_activation(kind: str) -> None:
    b = GraphBuilder()
    b.add(kind, conv(b, b.input(1, 8, 16, 16)))
    assert kinds(b.graph()) == ["FusedConv"]
    assert kinds(b.graph(), extended=False) == ["Conv", kind]


def test_conv_leaves_what_it_cannot_compute_or_somebody_else_reads() -> None:
    b = GraphBuilder()
    b.add("PRelu", conv(b, b.input(1, 8, 16, 16)), b.weight(8, 1, 1))
    assert kinds(b.graph()) == ["Conv", "PRelu"]
    b = GraphBuilder()
    x = conv(b, b.input(1, 8, 16, 16))
    b.add("Concat", x, b.add("Relu", x), axis=1)
    assert kinds(b.graph()) == ["Conv", "Relu", "Concat"]


def test_constants_per_channel_go_into_the_weights() -> None:
    b = GraphBuilder()
    x = conv(b, b.input(1, 8, 16, 16))
    x = b.add("BatchNormalization", x, *(b.weight(8) for _ in range(4)))
    b.add("Add", b.add("Mul", x, b.weight(1, 8, 1, 1)), b.weight(8, 1, 1))
    assert kinds(b.graph(), extended=False) == ["Conv"]


def test_conv_transpose_takes_in_a_norm_but_no_activation() -> None:
    b = GraphBuilder()
    x = b.add("ConvTranspose", b.input(1, 8, 16, 16), b.weight(8, 8, 2, 2), strides=[2, 2])
    b.add("Relu", b.add("BatchNormalization", x, *(b.weight(8) for _ in range(4))))
    assert kinds(b.graph()) == ["ConvTranspose", "Relu"]


def test_a_pad_with_zeros_becomes_the_convolutions() -> None:
    b = GraphBuilder()
    pads = b.constant([0, 0, 1, 1, 0, 0, 1, 1], "int64")
    conv(b, b.add("Pad", b.input(1, 8, 16, 16), pads))
    assert kinds(b.graph(), extended=False) == ["Conv"]
    b = GraphBuilder()
    pads = b.constant([0, 0, 1, 1, 0, 0, 1, 1], "int64")
    conv(b, b.add("Pad", b.input(1, 8, 16, 16), pads, mode="reflect"))
    assert kinds(b.graph()) == ["Pad", "Conv"]


def test_matrix_products_take_in_bias_scale_and_transpose() -> None:
    b = GraphBuilder()
    x = b.add("MatMul", b.input(4, 8), b.weight(8, 16))
    b.add("Relu", b.add("Add", x, b.weight(16)))
    assert kinds(b.graph()) == ["FusedGemm"]
    b = GraphBuilder()
    q, k = b.input(2, 4, 8), b.input(2, 4, 8)
    scores = b.add("MatMul", q, b.add("Transpose", k, perm=[0, 2, 1]))
    b.add("Softmax", b.add("Mul", scores, b.constant(0.25, "float32")))
    assert kinds(b.graph()) == ["FusedMatMul", "Softmax"]
    assert kinds(b.graph(), extended=False) == ["Transpose", "MatMul", "Mul", "Softmax"]


def test_silu_is_one_kernel() -> None:
    b = GraphBuilder()
    x = b.add("Abs", b.input(4, 8))
    b.add("Mul", x, b.add("Sigmoid", x))
    assert kinds(b.graph()) == ["Abs", "QuickGelu"]


@pytest.mark.parametrize("half_first", [False, True])
def test_gelu_is_one_kernel(half_first: bool) -> None:
    b = GraphBuilder()
    x, half = b.add("Abs", b.input(4, 8)), b.constant(0.5, "float32")
    erf = b.add("Erf", b.add("Div", x, b.constant(1.4142, "float32")))
    plus = b.add("Add", erf, b.constant(1.0, "float32"))
    if half_first:
        b.add("Mul", b.add("Mul", x, half), plus)
    else:
        b.add("Mul", b.add("Mul", x, plus), half)
    assert kinds(b.graph()) == ["Abs", "Gelu"]


@pytest.mark.parametrize(
    ("scale", "number", "half"), [("Mul", 0.5**0.5, 0.5), ("Div", 1.41, 0.5), ("Div", 2**0.5, 0.49)]
)
def test_other_ways_to_write_gelu_stay_as_they_are(scale: str, number: float, half: float) -> None:
    b = GraphBuilder()
    x = b.add("Abs", b.input(1, 8, 16))
    root = b.add("Erf", b.add(scale, x, b.constant(number, "float32")))
    plus = b.add("Add", root, b.constant(1.0, "float32"))
    b.add("Mul", b.add("Mul", x, plus), b.constant(half, "float32"))
    assert kinds(b.graph()) == ["Abs", scale, "Erf", "Add", "Mul", "Mul"]


def test_layer_norm_is_one_kernel_with_the_sum_before_it() -> None:
    b = GraphBuilder()
    x = b.add("Add", b.input(1, 4, 8), b.input(1, 4, 8))
    axes = b.constant([-1], "int64")
    centred = b.add("Sub", x, b.add("ReduceMean", x, axes))
    square = b.add("Pow", centred, b.constant(2.0, "float32"))
    variance = b.add("Add", b.add("ReduceMean", square, axes), b.constant(1e-5, "float32"))
    scaled = b.add("Mul", b.add("Div", centred, b.add("Sqrt", variance)), b.weight(8))
    b.add("Add", scaled, b.weight(8))
    assert kinds(b.graph()) == ["SkipLayerNormalization"]


def test_slices_of_one_axis_that_cover_it_become_a_split() -> None:
    """All tiles then exist at once: the tile writer gives its slices a second axis."""
    b = GraphBuilder()
    x = b.add("Abs", b.input(1, 1, 8, 8))
    parts = [b.add("Exp", cut(b, x, [a], [a + 4], [2])) for a in (0, 4)]
    b.add("Concat", *parts, axis=2)
    assert kinds(b.graph(), extended=False) == ["Abs", "Split", "Exp", "Exp", "Concat"]
    b = GraphBuilder()
    x = b.add("Abs", b.input(1, 1, 8, 8))
    parts = [b.add("Exp", cut(b, x, [a, 0], [a + 4, 8], [2, 3])) for a in (0, 4)]
    b.add("Concat", *parts, axis=2)
    assert kinds(b.graph()) == ["Abs", "Slice", "Exp", "Slice", "Exp", "Concat"]


def test_slices_that_overlap_stay() -> None:
    b = GraphBuilder()
    x = b.input(1, 1, 8, 8)
    parts = [b.add("Exp", cut(b, x, [a], [a + 5], [2])) for a in (0, 3)]
    b.add("Concat", *parts, axis=2)
    assert kinds(b.graph()) == ["Slice", "Exp", "Slice", "Exp", "Concat"]


def test_equal_nodes_run_once() -> None:
    b = GraphBuilder()
    x = b.input(1, 1, 8, 8)
    parts = [b.add("Exp", cut(b, x, [1, 0], [4, 8], [2, 3])) for _ in range(2)]
    b.add("Concat", *parts, axis=2)
    names = {name: b.graph().constants[name].data for name in b.graph().constants}
    assert len(names) == 6  # lists of several numbers are compared by name
    assert kinds(b.graph()) == ["Slice", "Exp", "Slice", "Exp", "Concat"]
    b = GraphBuilder()
    x = b.input(4)
    b.add("Concat", b.add("Exp", x), b.add("Exp", x), axis=0)
    assert kinds(b.graph(), extended=False) == ["Exp", "Concat"]


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("written", [1, 2])
def test_bytes_are_made_real_for_each_reader(constant: bool, written: int) -> None:
    """Once or twice in the file, weights or not: every tile has its own copy of a weight."""
    b = GraphBuilder()
    scale, zero = b.constant(0.1, "float32"), b.constant(0, "uint8")
    x = b.input(8, 16)
    held = b.weight(8, 16, dtype="uint8") if constant else b.add("QuantizeLinear", x, scale, zero)
    reals = [b.add("DequantizeLinear", held, scale, zero) for _ in range(written)]
    parts = [b.add(kind, x, real) for kind, real in zip(("Mul", "Add"), 2 * reals, strict=False)]
    assert kinds(b.graph(*parts)).count("DequantizeLinear") == 2


def test_a_transpose_and_its_inverse_cancel() -> None:
    b = GraphBuilder()
    x = b.add("Transpose", b.add("Abs", b.input(2, 3, 4)), perm=[1, 2, 0])
    b.add("Exp", b.add("Transpose", x, perm=[2, 0, 1]))
    assert kinds(b.graph(), extended=False) == ["Abs", "Exp"]


def test_copies_and_constant_nodes_vanish() -> None:
    b = GraphBuilder()
    b.add("Exp", b.add("Identity", b.add("Abs", b.input(4))))
    assert kinds(b.graph(), extended=False) == ["Abs", "Exp"]


def test_bytes_stay_bytes_between_quantised_operators() -> None:
    b = GraphBuilder()
    scale, zero = b.constant(0.1, "float32"), b.constant(0, "uint8")

    def real(x: str) -> str:
        return b.add("DequantizeLinear", x, scale, zero)

    weight = real(b.constant(b.random.integers(0, 3, (8, 8, 3, 3)), "uint8"))
    x = real(b.input(1, 8, 16, 16, dtype="uint8"))
    x = b.add("Relu", b.add("Conv", x, weight, pads=[1, 1, 1, 1]))
    x = b.add("QuantizeLinear", x, scale, zero)
    b.add("QuantizeLinear", b.add("Add", real(x), real(x)), scale, zero)
    found = kinds(b.graph())
    assert [kind for kind in found if kind != "DequantizeLinear"] == ["QLinearConv", "QLinearAdd"]
    last = kinds(b.graph(), block=8)
    assert last.count("Transpose") == 2  # channels-last in between


@pytest.mark.parametrize(
    ("signed", "skip", "found"),
    [
        (False, False, ["QLinearConv", "QLinearConv"]),
        (False, True, [*("Conv", "QuantizeLinear") * 2, "Add", "QuantizeLinear"]),
        (True, True, ["QLinearConv", "QLinearConv", "QLinearAdd"]),
    ],
)
def test_signed_bytes_have_kernels_where_one_operator_reads_them(
    signed: bool, skip: bool, found: list[str]
) -> None:
    """On processors without kernels of signed bytes they become unsigned; what several read stays
    signed, and convolutions before and behind it compute with real numbers."""
    b = GraphBuilder()
    scale, zero = b.constant(0.1, "float32"), b.constant(0, "int8")

    def real(x: str) -> str:
        return b.add("DequantizeLinear", x, scale, zero)

    def conv(x: str) -> str:
        weight = real(b.constant(b.random.integers(-2, 3, (8, 8, 3, 3)), "int8"))
        made = b.add("Conv", x, weight, pads=[1, 1, 1, 1])
        return b.add("QuantizeLinear", made, scale, zero)

    x = b.add("QuantizeLinear", b.input(1, 8, 16, 16), scale, zero)
    first = real(conv(real(x)))
    y = conv(first)
    if skip:
        y = b.add("QuantizeLinear", b.add("Add", first, real(y)), scale, zero)
    graph = b.graph(b.add("DequantizeLinear", y, scale, zero))
    made = kinds(graph, block=1, signed_kernels=signed)
    assert [kind for kind in made if kind != "DequantizeLinear"][1:] == found


def test_a_sum_goes_into_a_plain_convolution_with_its_activation() -> None:
    """Odd channels keep the convolution out of the blocked layout."""
    b = GraphBuilder()
    x = b.add("Abs", b.input(1, 9, 16, 16))
    b.add("Relu", b.add("Add", conv(b, x, 9), x))
    assert kinds(b.graph(), block=8) == ["Abs", "FusedConv"]
    assert kinds(b.graph(), block=1) == ["Abs", "Conv", "Add", "Relu"]


@pytest.mark.parametrize(
    ("dtype", "slices", "moved"),
    [("uint8", 2, "bytes"), ("int8", 1, "bytes"), ("int8", 2, "real numbers")],
)
def test_slices_that_are_quantised_behind_move_bytes_unless_they_share_signed_ones(
    dtype: str, slices: int, moved: str
) -> None:
    """QuantizeLinear goes before a Slice; signed bytes that several read stay signed, those behind
    become unsigned, and the Slices between them move real numbers."""
    b = GraphBuilder()
    scale, zero = b.constant(0.1, "float32"), b.constant(0, dtype)
    x = b.input(1, 8, 16, 16)
    axes = b.constant([2], "int64")
    parts: list[str] = []
    for start in range(slices):
        limits = [b.constant([value], "int64") for value in (7 * start, 7 * start + 9)]
        part = b.add("Slice", x, *limits, axes)
        for kind in ("QuantizeLinear", "DequantizeLinear"):
            part = b.add(kind, part, scale, zero)
        parts.append(b.add("Neg", part))
    found = kinds(b.graph(*parts), block=1, signed_kernels=False)
    before = found[: found.index("Slice")]
    assert before.count("QuantizeLinear") == 1, "one for all"
    assert ("DequantizeLinear" in before) == (moved == "real numbers")


def test_a_transpose_on_its_way_to_another_moves_real_numbers() -> None:
    """Between quantised convolutions and a sum that is none the runtime transposes behind the
    DequantizeLinear, and quantises once more."""
    b = GraphBuilder()
    scale, zero = b.constant(0.1, "float32"), b.constant(0, "uint8")

    def pair(x: str) -> str:
        return b.add("DequantizeLinear", b.add("QuantizeLinear", x, scale, zero), scale, zero)

    def conv(x: str) -> str:
        weight = b.constant(b.random.integers(0, 3, (16, 16, 3, 3)), "uint8")
        real = b.add("DequantizeLinear", weight, scale, zero)
        return pair(b.add("Conv", x, real, pads=[1] * 4))

    x = conv(pair(b.input(1, 16, 12, 12)))
    y = pair(b.add("Add", x, b.input(1, 16, 12, 12)))  # of real numbers: no quantised kernel
    found = kinds(b.graph(conv(y)), block=8)
    first = found.index("QLinearConv")
    assert found[first + 1 : found.index("Add")] == [
        *("DequantizeLinear", "Transpose", "QuantizeLinear", "DequantizeLinear")
    ]
