"""Seeded weights: activations keep their size, so that a check of outputs means something."""

from dataclasses import replace

import numpy as np
import onnxruntime
import pytest

from tilewright.errors import ModelError
from tilewright.frontend import proto, zoo
from tilewright.frontend.builder import Builder
from tilewright.frontend.weights import seeded, seeded_inputs
from tilewright.graph.graph import Array, Graph


def run(graph: Graph) -> dict[str, Array]:
    """Every float value of the seeded network."""
    full = seeded(graph)
    values = [
        value
        for node in full.nodes
        for value in node.writes
        if full.types[value].dtype in ("float32", "float16")
    ]
    model = proto.model_proto(replace(full, outputs=tuple(values)), {})
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    results = session.run(values, seeded_inputs(full))
    return dict(zip(values, results, strict=True))


def deviation(array: Array) -> float:
    return float(np.std(array.astype(np.float64)))


def check(graph: Graph, low: float = 0.03, high: float = 30.0) -> dict[str, Array]:
    """All products and outputs are finite, neither vanish nor explode, and differ over places."""
    values = run(graph)
    made = {value: node for node in graph.nodes for value in node.writes}
    for name, array in values.items():
        assert np.isfinite(array).all(), name
        if made[name].kind in ("Conv", "MatMul", "Gemm", "ConvTranspose", "Add") and array.size > 9:
            assert "mask" in name or low < deviation(array) < high, (name, deviation(array))
    for name in graph.outputs:
        array = values[name]
        assert low < deviation(array) < high
        if array.ndim > 2:
            axes = (2, 3) if array.ndim == 4 else (1,)
            assert np.mean(np.std(array, axis=axes)) > 0.05 * np.std(array)
    return values


@pytest.mark.parametrize(
    "name",
    [
        "resnet18@64x64",
        "resnet50@64x64",
        "mobilenet_v2@64x64",
        "fsrcnn@40x48",
        "unet@48x64",
        "sd15_down_block@8x8",
        "four_convs",
        "rn50_stem@64x64",
    ],
)
def test_activations_keep_their_size(name: str) -> None:
    check(zoo.build(name))


def transformer(layers: int, *, norm_first: bool) -> Graph:
    b = Builder("transformer")
    x = b.input("x", (1, 24, 32))
    for index in range(layers):
        with b.scope(f"layer{index}"):
            y = b.layer_norm(x, 1e-5) if norm_first else x
            query, key, value = (b.heads(b.linear(y, 32), 4) for _ in range(3))
            x = b.op("Add", x, b.linear(b.attention(query, key, value), 32))
            y = b.layer_norm(x, 1e-5)
            z = b.linear(b.op("Gelu", b.linear(y, 96)), 32)
            x = b.op("Add", x, z) if norm_first else b.op("Add", y, z)
    return b.finish(x)


@pytest.mark.parametrize("norm_first", [True, False])
def test_tokens_stay_different_through_many_layers(norm_first: bool) -> None:
    check(transformer(20, norm_first=norm_first))


def test_written_out_activations_and_norms_are_seen_through() -> None:
    b = Builder("written_out")
    x = b.input("x", (1, 30, 48))
    numbers = {"half": 0.5, "one": 1.0, "root": 2**0.5, "two": 2.0, "tiny": 1e-5}
    half, one, root, two, tiny = (
        b.constant(name, np.asarray(number, np.float32)) for name, number in numbers.items()
    )
    axes = b.constant("axes", np.asarray([-1], np.int64))
    for _ in range(12):
        y = b.linear(x, 48)
        gate = b.op("Add", b.op("Erf", b.op("Div", y, root)), one)
        y = b.op("Mul", b.op("Mul", y, gate), half)
        y = b.op("Sub", y, b.op("ReduceMean", y, axes))
        variance = b.op("ReduceMean", b.op("Pow", y, two), axes)
        x = b.op("Div", y, b.op("Sqrt", b.op("Add", variance, tiny)))
    check(b.finish(x))


def test_a_weight_is_followed_through_a_transpose_and_a_cast() -> None:
    b = Builder("carried")
    x = b.input("x", (5, 300))
    weight = b.op("Cast", b.weight("w", (20, 300), "float16"), to=1)
    y = b.op("MatMul", x, b.op("Transpose", weight, perm=(1, 0)))
    values = check(b.finish(y))
    assert 0.8 < deviation(values[y]) < 1.2


def test_missing_single_numbers_do_no_harm() -> None:
    b = Builder("scalars")
    x = b.input("x", (1, 8, 50))
    for _ in range(3):
        y = b.linear(x, 50, bias=False)
        scores = b.op("MatMul", y, b.op("Transpose", x, perm=(0, 2, 1)))
        scores = b.op("Mul", scores, b.weight(f"scale{scores}", ()))
        scores = b.op("Div", scores, b.weight(f"root{scores}", (1,)))
        mixed = b.op("MatMul", b.op("Softmax", scores), x)
        squares = b.op("Pow", mixed, b.weight(f"power{mixed}", ()))
        root = b.op("Sqrt", b.op("Add", squares, b.weight(f"tiny{mixed}", ())))
        x = b.op("Add", x, b.op("Clip", root, b.weight(f"l{root}", ()), b.weight(f"h{root}", ())))
    check(b.finish(x))


def quantised(name: str, shape: tuple[int, ...], b: Builder, dtype: str = "int8") -> str:
    """A weight as exporters of quantised networks write it, all numbers missing."""
    inputs = (
        b.weight(name, shape, dtype),
        b.weight(f"{name}.s", ()),
        b.weight(f"{name}.z", (), dtype),
    )
    return b.op("DequantizeLinear", *inputs)


def test_quantised_networks_with_dequantised_weights() -> None:
    b = Builder("qdq")
    x = b.input("x", (1, 8, 12, 12))
    for index in range(3):
        scale, zero = b.weight(f"s{index}", ()), b.weight(f"z{index}", (), "uint8")
        x = b.op("DequantizeLinear", b.op("QuantizeLinear", x, scale, zero), scale, zero)
        weight = quantised(f"w{index}", (8, 8, 3, 3), b)
        bias = quantised(f"b{index}", (8,), b, "int32")
        x = b.op("Relu", b.op("Conv", x, weight, bias, pads=(1, 1, 1, 1)))
    check(b.finish(x), low=0.2, high=5.0)


def test_quantised_operators() -> None:
    b = Builder("qlinear")
    x = b.input("x", (1, 16, 12, 12))
    scale, zero = b.weight("s", ()), b.weight("z", (), "uint8")
    x = b.op("QuantizeLinear", x, scale, zero)
    for index in range(3):
        weights = (
            b.weight(f"w{index}", (16, 16, 3, 3), "int8"),
            b.weight(f"ws{index}", (16,)),
            b.weight(f"wz{index}", (16,), "int8"),
        )
        bias = b.weight(f"b{index}", (16,), "int32")
        next_scale, next_zero = b.weight(f"s{index}", ()), b.weight(f"z{index}", (), "uint8")
        x = b.op("QLinearConv", x, scale, zero, *weights, next_scale, next_zero, bias)
        scale, zero = next_scale, next_zero
    check(b.finish(b.op("DequantizeLinear", x, scale, zero)), low=0.2, high=5.0)


def test_numbers_depend_on_seed_and_name_only() -> None:
    graph = zoo.build("four_convs")
    turned = replace(graph, constants=dict(reversed(graph.constants.items())))
    first, again, other = seeded(graph, 3), seeded(turned, 3), seeded(graph, 4)
    for name in graph.constants:
        one, two, three = (g.constants[name].data for g in (first, again, other))
        assert one is not None and two is not None and three is not None
        assert np.array_equal(one, two) and not np.array_equal(one, three)
        assert one.dtype == np.float32 and one.shape == graph.types[name].shape


def test_numbers_that_are_there_are_kept() -> None:
    b = Builder("half")
    x = b.input("x", (4, 6))
    known = b.constant("known", np.full((6, 6), 3.0, np.float32))
    graph = b.finish(b.op("MatMul", b.op("MatMul", x, known), b.weight("w", (6, 6))))
    full = seeded(graph)
    assert full.constants["known"] is graph.constants["known"]
    assert not full.weightless and graph.weightless
    assert seeded(full) is full


def test_integers_that_decide_something_cannot_be_made_up() -> None:
    b = Builder("integers")
    x = b.input("x", (4, 6), "int32")
    y = b.op("Add", x, b.weight("table", (4, 6), "int32"), name="sum")
    with pytest.raises(ModelError, match=r"'table'.*'sum'"):
        seeded(b.finish(y))


def test_missing_indices_are_legal() -> None:
    b = Builder("positions")
    places = b.weight("places", (1, 9), "int64")
    kept = b.op("GatherElements", places, b.weight("order", (1, 9), "int32"), axis=1)
    x = b.op("Gather", b.weight("words", (50, 4)), b.input("ids", (1, 9), "int64"))
    graph = b.finish(b.op("Add", x, b.op("Gather", b.weight("table", (5, 4)), kept)))
    data = seeded(graph).constants["places"].data
    assert data is not None and data.tolist() == [[0, 1, 2, 3, 4, 0, 1, 2, 3]]
    check(graph)


def test_inputs_are_legal() -> None:
    inputs = seeded_inputs(zoo.build("bert_base@16"))
    assert inputs["ids"].dtype == np.int64 and inputs["ids"].min() >= 0
    assert 1000 < inputs["ids"].max() < 30522
    assert inputs["mask"].tolist() == [[1] * 12 + [0] * 4]
    image = seeded_inputs(zoo.build("four_convs"), seed=1)["input"]
    assert image.dtype == np.float32 and 0.9 < image.std() < 1.1
    assert not np.array_equal(image, seeded_inputs(zoo.build("four_convs"), seed=2)["input"])


def test_inputs_of_other_types() -> None:
    b = Builder("types")
    seen = b.input("seen", (2, 8), "bool")
    pixels = b.op("Cast", b.input("pixels", (2, 8), "uint8"), to=1)
    half = b.op("Cast", b.input("half", (2, 8), "float16"), to=1)
    inputs = seeded_inputs(b.finish(b.op("Where", seen, pixels, half)))
    assert (
        inputs["seen"].dtype == np.bool_ and inputs["seen"][0].tolist() == [True] * 6 + [False] * 2
    )
    assert inputs["pixels"].dtype == np.uint8 and inputs["pixels"].max() > 100
    assert inputs["half"].dtype == np.float16
