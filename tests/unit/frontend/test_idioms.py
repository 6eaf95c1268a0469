"""Idioms are found in every spelling exporters use, and mean what they claim to."""

from collections import Counter
from collections.abc import Callable
from math import erf, pi, sqrt
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from support.builder import GraphBuilder
from support.models import LIGHT, real_model
from tilewright.frontend.idioms import Idiom, recognise
from tilewright.frontend.load import load_onnx
from tilewright.frontend.proto import model_proto
from tilewright.graph.graph import Array, Graph

KINDS = frozenset(
    "group_norm layer_norm rms_norm gelu silu hard_swish mish attention squeeze_excite".split()
)


def values_of(graph: Graph, *names: str) -> list[Array]:
    """Values of the graph in onnxruntime, on seeded inputs; constants and inputs as they are."""
    random = np.random.default_rng(3)
    feeds = {
        name: random.standard_normal(graph.types[name].shape).astype(graph.types[name].dtype)
        for name in graph.inputs
    }
    made = [name for name in names if name in graph.producer]
    watched = Graph(
        graph.name,
        graph.nodes,
        graph.inputs,
        tuple(dict.fromkeys((*graph.outputs, *made))),
        graph.types,
        graph.constants,
        graph.opsets,
    )
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model_proto(watched, {}).SerializeToString(), options)
    found = dict(zip(watched.outputs, session.run(None, feeds), strict=True))
    everything = {k: c.data for k, c in graph.constants.items()} | feeds | found
    return [np.asarray(everything[name]) for name in names]


def softmax(x: Array) -> Array:
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def normalised(x: Array, axes: tuple[int, ...], epsilon: float, centre: bool = True) -> Array:
    deviation = x - x.mean(axis=axes, keepdims=True) if centre else x
    return deviation / np.sqrt((deviation**2).mean(axis=axes, keepdims=True) + epsilon)


def reference(idiom: Idiom, *inputs: Array) -> Array:
    """What an idiom of this kind computes, by its textbook formula."""
    given = idiom.parameters
    x, *rest = (array.astype(np.float64) for array in inputs)
    match idiom.kind:
        case "gelu" if given["approximate"] == "none":
            return 0.5 * x * (1 + np.vectorize(erf)(x / sqrt(2)))
        case "gelu":
            return 0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))
        case "silu":
            return x / (1 + np.exp(-given["beta"] * x))
        case "mish":
            return x * np.tanh(np.log1p(np.exp(x)))
        case "hard_swish":
            return x * np.clip(x + 3, 0, 6) / 6
        case "layer_norm" | "rms_norm":
            axes = tuple(range(x.ndim + given["axis"], x.ndim))
            y = normalised(x, axes, given["epsilon"], idiom.kind == "layer_norm")
            y = y * rest[0] if idiom.inputs[1] else y
            return y + rest[-1] if len(idiom.inputs) > 2 and idiom.inputs[2] else y
        case "group_norm":
            grouped = x.reshape(x.shape[0], given["groups"], -1)
            y = normalised(grouped, (2,), given["epsilon"]).reshape(x.shape)
            y = y * rest[0] if idiom.inputs[1] else y
            return y + rest[-1] if idiom.inputs[2] else y
        case "attention":
            scores = given["scale"] * (x @ rest[0])
            return softmax(scores + sum(rest[2:])) @ rest[1]
        case _:
            raise AssertionError(idiom.kind)


def the_idiom(graph: Graph, kind: str) -> Idiom:
    """The one idiom of a graph, after its claim is checked in onnxruntime."""
    (idiom,) = recognise(graph)
    assert idiom.kind == kind
    names = [name for name in idiom.inputs if name]
    *inputs, output = values_of(graph, *names, *idiom.outputs)
    loose = output.dtype == np.float16
    expected = reference(idiom, *inputs)
    assert output.shape == expected.shape
    np.testing.assert_allclose(
        output, expected, rtol=1e-2 if loose else 2e-5, atol=1e-2 if loose else 2e-5
    )
    return idiom


# GELU


def erf_of(b: GraphBuilder, x: str, by: str = "Div") -> str:
    number = sqrt(2) if by == "Div" else 1 / sqrt(2)
    scaled = b.add(by, x, b.constant(number, "float32"))
    return b.add("Add", b.add("Erf", scaled), b.constant(1.0, "float32"))


def gelu_half_last(b: GraphBuilder, x: str) -> str:
    return b.add("Mul", b.add("Mul", x, erf_of(b, x)), b.constant(0.5, "float32"))


def gelu_half_first(b: GraphBuilder, x: str) -> str:
    return b.add("Mul", b.add("Mul", b.constant(0.5, "float32"), x), erf_of(b, x, "Mul"))


def gelu_half_inside(b: GraphBuilder, x: str) -> str:
    return b.add("Mul", b.add("Mul", erf_of(b, x), b.constant(0.5, "float32")), x)


def gelu_halved(b: GraphBuilder, x: str) -> str:
    return b.add("Mul", b.add("Div", x, b.constant(2.0, "float32")), erf_of(b, x))


@pytest.mark.parametrize("write", [gelu_half_last, gelu_half_first, gelu_half_inside, gelu_halved])
def test_gelu_in_its_usual_orders(write: Callable[[GraphBuilder, str], str]) -> None:
    b = GraphBuilder()
    y = write(b, b.add("Relu", b.input(2, 3, 8)))
    idiom = the_idiom(b.graph(y), "gelu")
    assert idiom.parameters == {"approximate": "none"}
    assert len(idiom.nodes) == 5


def cube_by_power(b: GraphBuilder, x: str) -> str:
    return b.add("Pow", x, b.constant(3.0, "float32"))


def cube_by_products(b: GraphBuilder, x: str) -> str:
    return b.add("Mul", x, b.add("Mul", x, x))


@pytest.mark.parametrize("cube", [cube_by_power, cube_by_products])
def test_gelu_by_tanh(cube: Callable[[GraphBuilder, str], str]) -> None:
    b = GraphBuilder()
    x = b.input(2, 3, 8)
    inner = b.add("Add", x, b.add("Mul", b.constant(0.044715, "float32"), cube(b, x)))
    tanh = b.add("Tanh", b.add("Mul", inner, b.constant(sqrt(2 / pi), "float32")))
    one = b.add("Add", b.constant(1.0, "float32"), tanh)
    b.add("Mul", b.add("Mul", b.constant(0.5, "float32"), x), one)
    assert the_idiom(b.graph(), "gelu").parameters == {"approximate": "tanh"}


def test_gelu_by_tanh_as_the_fast_one_is_written() -> None:
    b = GraphBuilder()
    x = b.input(2, 8)
    square = b.add("Mul", b.add("Mul", x, b.constant(0.044715, "float32")), x)
    left = b.add("Mul", x, b.constant(0.7978845608, "float32"))
    right = b.add("Add", b.constant(1.0, "float32"), square)
    tanh = b.add("Tanh", b.add("Mul", left, right))
    half = b.add("Mul", x, b.constant(0.5, "float32"))
    b.add("Mul", half, b.add("Add", b.constant(1.0, "float32"), tanh))
    the_idiom(b.graph(), "gelu")


def test_a_wrong_constant_is_no_gelu() -> None:
    b = GraphBuilder()
    x = b.input(2, 8)
    erf_part = b.add("Erf", b.add("Div", x, b.constant(1.5, "float32")))
    one = b.add("Add", erf_part, b.constant(1.0, "float32"))
    b.add("Mul", b.add("Mul", x, one), b.constant(0.5, "float32"))
    assert recognise(b.graph()) == ()


def test_an_inner_value_that_is_used_elsewhere_is_no_gelu() -> None:
    b = GraphBuilder()
    x = b.input(2, 8)
    inner = erf_of(b, x)
    y = b.add("Mul", b.add("Mul", x, inner), b.constant(0.5, "float32"))
    assert recognise(b.graph(y)) != ()
    assert recognise(b.graph(y, inner)) == ()
    assert recognise(b.graph(y, b.add("Relu", inner))) == ()


# SiLU and hard swish


def test_silu() -> None:
    b = GraphBuilder()
    x = b.input(1, 3, 4, 4)
    b.add("Mul", b.add("Sigmoid", x), x)
    assert the_idiom(b.graph(), "silu").parameters == {"beta": 1.0}


def test_silu_with_a_slope() -> None:
    b = GraphBuilder()
    x = b.input(1, 8)
    b.add("Mul", x, b.add("Sigmoid", b.add("Mul", b.constant(1.702, "float32"), x)))
    idiom = the_idiom(b.graph(), "silu")
    assert idiom.parameters["beta"] == pytest.approx(1.702)
    assert len(idiom.nodes) == 3


def test_a_gate_of_another_value_is_no_silu() -> None:
    b = GraphBuilder()
    x, gate = b.input(1, 8), b.input(1, 8)
    b.add("Mul", x, b.add("Sigmoid", gate))
    assert recognise(b.graph()) == ()


def test_hard_swish_by_hard_sigmoid() -> None:
    b = GraphBuilder()
    x = b.input(2, 8)
    b.add("Mul", x, b.add("HardSigmoid", x, alpha=1 / 6, beta=0.5))
    the_idiom(b.graph(), "hard_swish")


def test_the_default_hard_sigmoid_is_no_hard_swish() -> None:
    b = GraphBuilder()
    x = b.input(2, 8)
    b.add("Mul", x, b.add("HardSigmoid", x))
    assert recognise(b.graph()) == ()


@pytest.mark.parametrize("division", ["last", "inside", "by product"])
def test_hard_swish_by_clip(division: str) -> None:
    b = GraphBuilder()
    x = b.input(2, 8)
    six = b.constant(6.0, "float32")
    clipped = b.add(
        "Clip", b.add("Add", x, b.constant(3.0, "float32")), b.constant(0.0, "float32"), six
    )
    if division == "inside":
        b.add("Mul", x, b.add("Div", clipped, six))
    elif division == "last":
        b.add("Div", b.add("Mul", x, clipped), six)
    else:
        b.add("Mul", b.add("Mul", x, clipped), b.constant(1 / 6, "float32"))
    assert len(the_idiom(b.graph(), "hard_swish").nodes) == 4


# Normalisations


def deviation_of(b: GraphBuilder, x: str, axes: list[int]) -> str:
    return b.add("Sub", x, b.add("ReduceMean", x, axes=axes))


def root_of(b: GraphBuilder, squared: str, axes: list[int], dtype: str = "float32") -> str:
    mean = b.add("ReduceMean", squared, axes=axes)
    return b.add("Sqrt", b.add("Add", mean, b.constant(1e-5, dtype)))


@pytest.mark.parametrize("affine", ["scale and bias", "scale", "bias", "neither"])
@pytest.mark.parametrize("square", ["Pow", "Mul"])
@pytest.mark.parametrize("divide", ["Div", "Reciprocal", "one over", "power", "twice"])
def test_layer_norm(affine: str, square: str, divide: str) -> None:
    b = GraphBuilder(opset=17)
    x = b.input(2, 5, 8)
    deviation = deviation_of(b, x, [-1])
    again = deviation_of(b, x, [-1]) if divide == "twice" else deviation
    two = b.constant(2.0, "float32")
    squared = b.add("Pow", again, two) if square == "Pow" else b.add("Mul", again, again)
    if divide == "power":
        mean = b.add("ReduceMean", squared, axes=[2])
        added = b.add("Add", b.constant(1e-5, "float32"), mean)
        inverse = b.add("Pow", added, b.constant(-0.5, "float32"))
        y = b.add("Mul", inverse, deviation)
    else:
        root = root_of(b, squared, [2])
        if divide == "Reciprocal":
            y = b.add("Mul", deviation, b.add("Reciprocal", root))
        elif divide == "one over":
            y = b.add("Mul", deviation, b.add("Div", b.constant(1.0, "float32"), root))
        else:
            y = b.add("Div", deviation, root)
    if "scale" in affine:
        y = b.add("Mul", b.weight(8), y)
    if "bias" in affine:
        y = b.add("Add", y, b.weight(8))
    idiom = the_idiom(b.graph(y), "layer_norm")
    assert idiom.parameters["axis"] == -1
    assert idiom.parameters["epsilon"] == pytest.approx(1e-5)
    assert [bool(name) for name in idiom.inputs] == [True, "scale" in affine, "bias" in affine]
    assert len(idiom.nodes) == len(b.nodes)


def test_layer_norm_with_axes_as_an_input() -> None:
    b = GraphBuilder(opset=20)
    x, axes = b.input(2, 5, 8), b.constant([1, 2], "int64")
    deviation = b.add("Sub", x, b.add("ReduceMean", x, axes))
    mean = b.add("ReduceMean", b.add("Mul", deviation, deviation), axes)
    root = b.add("Sqrt", b.add("Add", mean, b.constant(1e-6, "float32")))
    b.add("Mul", b.add("Div", deviation, root), b.weight(5, 8))
    assert the_idiom(b.graph(), "layer_norm").parameters["axis"] == -2


def test_layer_norm_in_half_precision_with_casts_between() -> None:
    b = GraphBuilder(opset=17)
    x = b.input(2, 5, 8, dtype="float16")
    wide = b.add("Cast", x, to=1)
    deviation = deviation_of(b, wide, [-1])
    squared = b.add("Pow", deviation, b.constant(2.0, "float32"))
    narrow = b.add("Cast", b.add("Div", deviation, root_of(b, squared, [-1])), to=10)
    b.add("Add", b.add("Mul", narrow, b.weight(8, dtype="float16")), b.weight(8, dtype="float16"))
    idiom = the_idiom(b.graph(), "layer_norm")
    assert idiom.inputs[0] == x
    assert len(idiom.nodes) == len(b.nodes)


def test_a_mean_over_other_axes_is_no_layer_norm() -> None:
    b = GraphBuilder(opset=17)
    deviation = deviation_of(b, b.input(2, 5, 8), [1])
    squared = b.add("Pow", deviation, b.constant(2.0, "float32"))
    b.add("Div", deviation, root_of(b, squared, [2]))
    assert the_idiom(b.graph(), "rms_norm").inputs[0] == deviation


def test_a_deviation_used_elsewhere_is_no_layer_norm() -> None:
    b = GraphBuilder(opset=17)
    deviation = deviation_of(b, b.input(2, 5, 8), [2])
    root = root_of(b, b.add("Mul", deviation, deviation), [2])
    y = b.add("Div", deviation, root)
    assert recognise(b.graph(y, deviation)) == ()
    assert recognise(b.graph(y, root)) == ()


def test_a_product_with_another_value_stays_outside() -> None:
    b = GraphBuilder(opset=17)
    x = b.input(2, 5, 8)
    deviation = deviation_of(b, x, [2])
    y = b.add("Div", deviation, root_of(b, b.add("Mul", deviation, deviation), [2]))
    b.add("Mul", y, b.add("Relu", b.input(8)))
    idiom = the_idiom(b.graph(), "layer_norm")
    assert idiom.outputs == (y,)


@pytest.mark.parametrize("form", ["reciprocal", "division", "half"])
def test_rms_norm(form: str) -> None:
    b = GraphBuilder(opset=17)
    dtype = "float16" if form == "half" else "float32"
    given = b.input(2, 5, 8, dtype=dtype)
    x = b.add("Cast", given, to=1) if form == "half" else given
    root = root_of(b, b.add("Pow", x, b.constant(2.0, "float32")), [-1])
    y = b.add("Div", x, root) if form == "division" else b.add("Mul", x, b.add("Reciprocal", root))
    y = b.add("Cast", y, to=10) if form == "half" else y
    b.add("Mul", b.weight(8, dtype=dtype), y)
    idiom = the_idiom(b.graph(), "rms_norm")
    assert idiom.inputs[0] == given
    assert len(idiom.nodes) == len(b.nodes)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("form", ["instance", "means", "means of five axes"])
def test_group_norm(form: str, affine: bool) -> None:
    b = GraphBuilder(opset=17)
    x = b.add("Relu", b.input(2, 6, 4, 5))
    if form == "instance":
        grouped = b.add("Reshape", x, b.constant([0, 3, -1], "int64"))
        ones, zeros = b.constant([1.0] * 3, "float32"), b.constant([0.0] * 3, "float32")
        y = b.add("InstanceNormalization", grouped, ones, zeros, epsilon=1e-5)
    else:
        shape = [2, 3, -1] if form == "means" else [2, 3, 2, 4, 5]
        axes = list(range(2, len(shape)))
        deviation = deviation_of(b, b.add("Reshape", x, b.constant(shape, "int64")), axes)
        y = b.add("Div", deviation, root_of(b, b.add("Mul", deviation, deviation), axes))
    y = b.add("Reshape", y, b.constant([2, 6, 4, 5], "int64"))
    if affine:
        y = b.add("Add", b.add("Mul", y, b.weight(6, 1, 1)), b.weight(1, 6, 1, 1))
    idiom = the_idiom(b.graph(y), "group_norm")
    assert idiom.parameters["groups"] == 3
    assert idiom.inputs[0] == x
    assert len(idiom.nodes) == len(b.nodes) - 1


def test_an_instance_norm_with_weights_of_its_own_is_no_group_norm() -> None:
    b = GraphBuilder(opset=17)
    grouped = b.add("Reshape", b.input(2, 6, 4, 5), b.constant([0, 3, -1], "int64"))
    two, zeros = b.constant([2.0] * 3, "float32"), b.constant([0.0] * 3, "float32")
    y = b.add("InstanceNormalization", grouped, two, zeros)
    b.add("Reshape", y, b.constant([2, 6, 4, 5], "int64"))
    assert recognise(b.graph()) == ()


# Attention


def test_attention_with_scaled_scores_and_mask() -> None:
    b = GraphBuilder()
    q, k, v = b.input(2, 3, 5, 4), b.input(2, 3, 4, 6), b.input(2, 3, 6, 4)
    mask = b.input(2, 1, 5, 6, name="mask")
    scores = b.add("Div", b.add("MatMul", q, k), b.constant(2.0, "float32"))
    weights = b.add("Softmax", b.add("Add", mask, scores), axis=3)
    b.add("MatMul", weights, v)
    idiom = the_idiom(b.graph(), "attention")
    assert idiom.inputs == (q, k, v, "mask")
    assert idiom.parameters == {"scale": 0.5}


def test_attention_with_queries_and_keys_scaled() -> None:
    b = GraphBuilder()
    x = b.input(5, 12)
    heads, root = b.constant([5, 3, 4], "int64"), b.constant([sqrt(0.5)], "float32")
    q = b.add("Transpose", b.add("Reshape", x, heads), perm=[1, 0, 2])
    k = b.add("Transpose", b.add("Reshape", b.input(5, 12), heads), perm=[1, 2, 0])
    v = b.add("Transpose", b.add("Reshape", b.input(5, 12), heads), perm=[1, 0, 2])
    scores = b.add("MatMul", b.add("Mul", q, root), b.add("Mul", root, k))
    y = b.add("MatMul", b.add("Softmax", scores, axis=-1), v)
    b.add("Reshape", b.add("Transpose", y, perm=[1, 0, 2]), b.constant([5, 12], "int64"))
    idiom = the_idiom(b.graph(), "attention")
    assert idiom.inputs == (q, k, v)
    assert idiom.outputs == (y,)
    assert idiom.parameters["scale"] == pytest.approx(0.5)
    assert len(idiom.nodes) == 5


def test_attention_with_a_causal_choice_and_a_guard_against_nan() -> None:
    b = GraphBuilder()
    q, k, v = b.input(3, 5, 4), b.input(3, 4, 5), b.input(3, 5, 4)
    scores = b.add("Mul", b.add("MatMul", q, k), b.constant(0.5, "float32"))
    causal = b.constant(np.tril(np.ones((5, 5), bool)))
    masked = b.add("Where", causal, scores, b.constant(-1e9, "float32"))
    weights = b.add("Softmax", masked, axis=-1)
    zero = b.constant(0.0, "float32")
    weights = b.add("Where", b.add("IsNaN", weights), zero, weights)
    b.add("MatMul", weights, v)
    (idiom,) = recognise(b.graph())
    assert idiom.kind == "attention"
    assert idiom.inputs == (q, k, v, causal)
    assert len(idiom.nodes) == len(b.nodes)


def test_attention_with_heads_regrouped_around_the_mask() -> None:
    b = GraphBuilder()
    q, k, v = b.input(6, 5, 4), b.input(6, 4, 5), b.input(6, 5, 4)
    scores = b.add("Reshape", b.add("MatMul", q, k), b.constant([2, 3, 5, 5], "int64"))
    masked = b.add("Add", scores, b.input(2, 1, 5, 5))
    flat = b.add("Reshape", masked, b.constant([6, 5, 5], "int64"))
    b.add("MatMul", b.add("Softmax", flat, axis=-1), v)
    (idiom,) = recognise(b.graph())
    assert idiom.inputs == (q, k, v, "x3")


def test_a_softmax_over_rows_or_scores_used_elsewhere_are_no_attention() -> None:
    b = GraphBuilder()
    q, k, v = b.input(3, 5, 4), b.input(3, 4, 5), b.input(3, 5, 4)
    scores = b.add("MatMul", q, k)
    y = b.add("MatMul", b.add("Softmax", scores, axis=1), v)
    assert recognise(b.graph(y)) == ()
    z = b.add("MatMul", b.add("Softmax", scores, axis=2), v)
    assert recognise(b.graph(z, scores)) == ()


# Squeeze and excite


def test_squeeze_and_excite_holds_its_activations() -> None:
    b = GraphBuilder(opset=17)
    x = b.add("Relu", b.input(1, 4, 6, 6))
    small = b.add("Conv", b.add("GlobalAveragePool", x), b.weight(2, 4, 1, 1), b.weight(2))
    active = b.add("Mul", small, b.add("Sigmoid", small))
    gate = b.add("Sigmoid", b.add("Conv", active, b.weight(4, 2, 1, 1)))
    y = b.add("Mul", x, gate)
    inner, outer = recognise(b.graph(y))
    assert (inner.kind, outer.kind) == ("silu", "squeeze_excite")
    assert set(inner.nodes) < set(outer.nodes)
    assert (outer.inputs, outer.outputs) == ((x,), (y,))
    assert len(outer.nodes) == 7


# Real files

COUNTS = {
    "bert": {"attention": 12},
    "vit_b_16": {"attention": 12},
    "sd15_down0": {"group_norm": 6, "attention": 4, "silu": 5},
    "sd15_unet": {"group_norm": 61, "attention": 32, "silu": 47},
    "efficientnet_b0": {"silu": 49, "squeeze_excite": 16},
    "mobilenet_v2": {},
    "resnet50": {},
    "unet": {},
}


def check_regions(graph: Graph, idioms: tuple[Idiom, ...]) -> None:
    """Regions are closed, in order, and share no nodes but those inside a squeeze_excite."""
    seen: set[str] = set()
    for idiom in idioms:
        assert idiom.kind in KINDS
        inside = {graph.index[name] for name in idiom.nodes}
        for index in inside:
            for value in graph.nodes[index].writes:
                if value not in idiom.outputs:
                    assert value not in graph.outputs
                    assert set(graph.consumers[value]) <= inside
        if idiom.kind != "squeeze_excite":
            assert not seen & set(idiom.nodes)
            seen |= set(idiom.nodes)
    last = [graph.index[idiom.nodes[-1]] for idiom in idioms]
    assert last == sorted(last)


@pytest.mark.parametrize("model", COUNTS)
def test_counts_in_real_models(model: str) -> None:
    graph = real_model(model)
    idioms = recognise(graph)
    assert Counter(idiom.kind for idiom in idioms) == COUNTS[model]
    check_regions(graph, idioms)


@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda path: path.stem)
def test_the_old_networks_have_none(path: Path) -> None:
    assert recognise(load_onnx(path).graph) == ()
