"""Numpy kernels against onnxruntime: every kind, variants of each, tiles, and whole networks."""

import re
from collections.abc import Mapping
from contextlib import suppress
from math import erf, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_every_operator import (
    EXAMPLES,
    Build,
    Example,
    binary,
    feeds_for,
    graph_of,
    image,
    node,
    with_ints,
)

from support.builder import GraphBuilder
from support.compare import assert_same, run_graph, runs_untiled
from tilewright.api import load
from tilewright.errors import ModelError
from tilewright.frontend.weights import seeded_inputs
from tilewright.graph.graph import Array, Graph
from tilewright.graph.kernels import KERNELS, blocks, run_step, supports
from tilewright.graph.kernels.erf import erf as vector_erf
from tilewright.graph.ops import SPECS
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import Split
from tilewright.tiling.rewrite import tile_graph

NAMES = [example.name for example in EXAMPLES]


def run_numpy(graph: Graph, feeds: Mapping[str, Array], *, views: bool = False) -> dict[str, Array]:
    """The network's outputs, node by node with the kernels.

    `views`: every value is held as every second element of a larger array, read-only.
    """
    values: dict[str, Array | None] = {"": None}
    values |= {name: constant.data for name, constant in graph.constants.items()}
    values |= feeds
    for made in graph.nodes:
        inputs = [values[name] for name in made.inputs]
        if views:
            inputs = [None if array is None else strided(array) for array in inputs]
        results = run_step(made.kind, made.attributes, inputs, graph.opset, len(made.outputs))
        for array in inputs:
            if array is not None:
                assert not any(np.may_share_memory(array, result) for result in results)
        for name, result in zip(made.outputs, results, strict=True):
            if name in graph.types:
                assert result.shape == graph.types[name].shape
                assert result.dtype.name == graph.types[name].dtype
            values[name] = result
    found = {name: values[name] for name in graph.outputs}
    return {name: array for name, array in found.items() if array is not None}


def strided(array: Array) -> Array:
    """The same numbers as a read-only view with gaps."""
    larger = np.zeros(tuple(2 * extent for extent in array.shape), dtype=array.dtype)
    view = larger[(*(slice(None, None, 2),) * array.ndim, ...)]
    view[...] = array
    view.flags.writeable = False
    return view


def check(graph: Graph, feeds: Mapping[str, Array]) -> None:
    assert_same(run_numpy(graph, feeds), run_graph(graph, feeds))


@pytest.mark.quick
def test_every_kind_has_a_kernel() -> None:
    assert sorted(KERNELS) == sorted(SPECS)
    assert all(supports(kind) for kind in SPECS)
    assert not supports("NonMaxSuppression")


@pytest.mark.quick
def test_what_cannot_be_executed_is_said_in_a_line() -> None:
    x = np.ones((1, 2), dtype=np.float32)
    with pytest.raises(ModelError, match="no kernel for operator Loop"):
        run_step("Loop", {}, [x], 21)
    with pytest.raises(ModelError, match="Add needs its input 1"):
        run_step("Add", {}, [x], 21)
    with pytest.raises(ModelError, match="3 are wanted"):
        run_step("Relu", {}, [x], 21, outputs=3)
    with pytest.raises(ModelError, match="in training"):
        run_step("Dropout", {}, [x, None, np.array(True)], 21)
    with pytest.raises(ModelError, match="no element type 99"):
        run_step("Cast", {"to": 99}, [x], 21)


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_every_example(example: Example) -> None:
    graph = graph_of(example)
    feeds = feeds_for(example, graph)
    expected = run_numpy(graph, feeds) if example.no_kernel else run_graph(graph, feeds)
    assert_same(run_numpy(graph, feeds), expected, example.steps)
    assert_same(run_numpy(graph, feeds, views=True), expected, example.steps)


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_tiles_of_every_example(example: Example) -> None:
    """The steps that a tile is written as, with its own pads, groups and crops."""
    graph = graph_of(example)
    feeds = feeds_for(example, graph)
    expected = run_numpy(graph, feeds)
    for axis in example.axes or ():
        parts = min(3, *(graph.types[name].shape[axis] for name in graph.outputs))
        tiled = tile_graph(graph, [cut_group(graph, [0], (Split(axis, parts),))])
        assert_same(run_numpy(tiled, feeds), expected)


def halves(kind: str, **attributes: object) -> Build:
    return lambda b: b.add(kind, image(b, "float16"), **attributes)


def pooled(kind: str, **attributes: object) -> Build:
    return node(kind, kernel_shape=[3, 2], pads=[1, 0, 1, 0], strides=[2, 2], **attributes)


def clipped(low: float | None, high: float | None) -> Build:
    return lambda b: b.add(
        "Clip", image(b), *("" if v is None else b.constant(v, "float32") for v in (low, high))
    )


def whole_binary(kind: str, **attributes: object) -> Build:
    """Whole numbers of both signs, divided by both signs."""
    return lambda b: b.add(
        kind,
        b.constant(np.arange(-9, 9), "int32"),
        b.add("Identity", b.input(1, dtype="int32")),
        **attributes,
    )


def quantised_by(dtype: str, scale: float) -> Build:
    """The half-way cases and both ends of the range."""
    return lambda b: b.add(
        "QuantizeLinear", b.add("Mul", image(b), b.constant(np.arange(-2, 3) * 200, "float32")),
        b.constant(scale, "float32"), b.constant(2, dtype),
    )  # fmt: skip


def resized(mode: str, coordinates: str, scales: list[float], **attributes: object) -> Build:
    return lambda b: b.add(
        "Resize", image(b), "", b.constant([1, 1, *scales], "float32"),
        mode=mode, coordinate_transformation_mode=coordinates, **attributes,
    )  # fmt: skip


def sized(**attributes: object) -> Build:
    return lambda b: b.add(
        "Resize", image(b), "", "", b.constant([7, 9], "int64"), axes=[2, 3], **attributes
    )


def cropped(b: GraphBuilder) -> str:
    region = b.constant([0, 0, 0.1, -0.2, 1, 1, 0.8, 1.1], "float32")
    scales = b.constant([1, 1, 1.5, 2], "float32")
    return b.add(
        "Resize", image(b), region, scales, mode="linear", extrapolation_value=7.0,
        coordinate_transformation_mode="tf_crop_and_resize",
    )  # fmt: skip


def padded_axes(mode: str) -> Build:
    return lambda b: b.add(
        "Pad", image(b), b.constant([1, 2, 3, 1], "int64"), b.constant(2.5, "float32"),
        b.constant([-1, 1], "int64"), mode=mode,
    )  # fmt: skip


def columns_quantised(b: GraphBuilder) -> str:
    """A scale and a zero point per column."""
    one, zero = b.constant(0.02, "float32"), b.constant(3, "uint8")
    weight, zeros = b.weight(5, 4, dtype="int8"), b.constant([1, 2, 0, -1], "int8")
    scales = b.constant([0.1, 0.2, 0.3, 0.4], "float32")
    x = b.input(2, 6, 5, dtype="uint8")
    return b.add("QLinearMatMul", x, one, zero, weight, scales, zeros, one, zero)


COORDINATES = "half_pixel asymmetric pytorch_half_pixel align_corners half_pixel_symmetric".split()
ROUNDING = "round_prefer_floor round_prefer_ceil floor ceil".split()
TYPES = {1: "float32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 9: "bool", 10: "float16"}
VARIANTS: dict[str, Build] = {
    **{
        f"{kind}-half": halves(kind)
        for kind in "Relu Sigmoid Gelu Exp Softmax GlobalAveragePool Round HardSwish Erf".split()
    },
    **{f"Cast-{name}": node("Cast", to=number) for number, name in TYPES.items()},
    **{
        f"{kind}-{dtype}": binary(kind, dtype)
        for kind in ("Add", "Mul", "Max", "Sub")
        for dtype in ("int32", "int64", "uint8")
    },
    "Div-whole": whole_binary("Div"),
    "Mod-whole": whole_binary("Mod"),
    "Mod-fmod": whole_binary("Mod", fmod=1),
    "Gelu-tanh": node("Gelu", approximate="tanh"),
    "Shrink": node("Shrink", bias=0.2, lambd=0.3),
    "Celu": node("Celu", alpha=0.3),
    "Pow-square": lambda b: b.add("Pow", image(b), b.constant(2, "float32")),
    "Pow-mixed": lambda b: b.add("Pow", image(b), b.constant([2, 3, 0, 1, -1], "int64")),
    "Clip-low": clipped(0.5, None),
    "Clip-high": clipped(None, 0.5),
    "Clip-crossed": clipped(0.7, 0.3),
    "Clip-none": clipped(None, None),
    **{
        f"AveragePool-{ceil}{include}": pooled(
            "AveragePool", ceil_mode=ceil, count_include_pad=include
        )
        for ceil in (0, 1)
        for include in (0, 1)
    },
    "MaxPool-places": pooled("MaxPool", outputs=2, ceil_mode=1),
    "MaxPool-columns": pooled("MaxPool", outputs=2, storage_order=1),
    "MaxPool-dilated": node("MaxPool", kernel_shape=[2, 2], dilations=[3, 2], pads=[1, 1, 1, 1]),
    "LpPool-3": pooled("LpPool", p=3),
    "LRN": node("LRN", size=3, alpha=0.3, beta=0.5, bias=2.0),
    "Conv-multiplied": node("Conv", (8, 1, 3, 2), (8,), group=4, strides=[2, 1], pads=[1, 0, 2, 1]),
    "Conv-one": node("Conv", (5, 4, 1, 1), strides=[2, 2]),
    **{
        f"ConvTranspose-{mode}": node(
            "ConvTranspose", (4, 3, 3, 4), auto_pad=mode, strides=[2, 3], dilations=[2, 1]
        )
        for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")
    },
    "ConvTranspose-1d": node("ConvTranspose", (4, 3, 3), shape=(2, 4, 7), strides=[2]),
    "ConvTranspose-3d": node("ConvTranspose", (2, 3, 2, 1, 3), shape=(1, 2, 3, 4, 3)),
    **{
        f"Quantize-{dtype}": quantised_by(dtype, 0.5)
        for dtype in ("uint8", "int8", "uint16", "int16")
    },
    "QLinearMatMul-columns": columns_quantised,
    **{
        f"CumSum-{exclusive}{reverse}": with_ints(
            "CumSum", -2, exclusive=exclusive, reverse=reverse
        )
        for exclusive in (0, 1)
        for reverse in (0, 1)
    },
    "TopK-smallest": with_ints("TopK", [3], axis=2, largest=0, outputs=2),
    "Split-counted": node("Split", axis=3, num_outputs=3, outputs=3),
    "LpNormalization-1": node("LpNormalization", axis=2, p=1),
    "ReduceMax-all": node("ReduceMax", keepdims=0),
    "Reshape-zero": with_ints("Reshape", [0, -1]),
    "Expand-both": with_ints("Expand", [2, 1, 5, 1], shape=(3, 1, 4)),
    **{f"Pad-axes-{mode}": padded_axes(mode) for mode in ("constant", "reflect", "edge", "wrap")},
    **{
        f"Resize-nearest-{mode}-{rounding}": resized(
            "nearest", mode, [1.7, 0.6], nearest_mode=rounding
        )
        for mode in (*COORDINATES, "tf_half_pixel_for_nn")
        for rounding in ROUNDING
    },
    **{
        f"Resize-{kind}-{mode}": resized(kind, mode, [1.7, 0.6])
        for kind in ("linear", "cubic")
        for mode in COORDINATES
    },
    "Resize-outside": resized(
        "cubic", "half_pixel", [1.7, 0.6], exclude_outside=1, cubic_coeff_a=-0.5
    ),
    "Resize-smooth": resized("linear", "half_pixel", [0.5, 0.6], antialias=1),
    "Resize-smooth-cubic": resized("cubic", "half_pixel", [0.4, 2], antialias=1),
    "Resize-crop": cropped,
    **{
        f"Resize-{policy}": sized(mode="linear", keep_aspect_ratio_policy=policy)
        for policy in ("stretch", "not_larger", "not_smaller")
    },
}


@pytest.mark.parametrize("name", VARIANTS)
def test_variants(name: str) -> None:
    b = GraphBuilder(opset=19 if name.startswith("Resize") else 21)
    VARIANTS[name](b)
    graph = b.graph()
    feeds = feeds_for(Example("", VARIANTS[name], None), graph)
    for given_name, kind in graph.types.items():
        if given_name in feeds and kind.dtype == "float16":
            values = np.random.default_rng(3).uniform(-3, 3, kind.shape)
            feeds[given_name] = values.astype(np.float16)
        if given_name in feeds and kind.shape == (1,):
            feeds[given_name] = np.full(1, -4, dtype=kind.dtype)
    actual, expected = run_numpy(graph, feeds), run_graph(graph, feeds)
    if any(array.dtype == np.float16 for array in expected.values()):
        for found, want in zip(actual.values(), expected.values(), strict=True):
            np.testing.assert_allclose(found, want, rtol=2e-3, atol=2e-3)
        return
    assert_same(actual, expected)


FAR = [0, -0.0, 1e-7, 0.5, -1.5, 2.5, 40, -40, 100, -100, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize(
    "kind", "Erf Sigmoid Softplus Tanh Elu Selu Relu Celu Softsign Round IsInf IsNaN Sign".split()
)
def test_far_out_and_undefined_numbers(kind: str) -> None:
    b = GraphBuilder()
    b.add(kind, b.input(len(FAR)))
    check(b.graph(), {"x0": np.array(FAR, dtype=np.float32)})


@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin", "TopK"])
@pytest.mark.parametrize("last", [0, 1])
def test_equal_numbers(kind: str, last: int) -> None:
    b = GraphBuilder()
    x = b.input(2, 6)
    if kind == "TopK":
        b.add("TopK", x, b.constant([4], "int64"), outputs=2, largest=last)
    else:
        b.add(kind, x, axis=1, select_last_index=last)
    check(b.graph(), {"x0": np.array([[1, 3, 3, 0, 1, 0], [5] * 6], dtype=np.float32)})


@pytest.mark.quick
def test_error_function() -> None:
    x = np.concatenate([np.linspace(-7, 7, 40001), 10.0 ** np.arange(-30, 0)])
    want = np.array([erf(v) for v in x])
    np.testing.assert_allclose(vector_erf(x), want, rtol=1e-9)
    single = x.astype(np.float32)
    want = np.array([erf(v) for v in single])
    assert np.abs(vector_erf(single) - want).max() < 1e-7


# Windows


@st.composite
def windows(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Spatial extents, a kernel and the attributes of a window, in 1 to 3 dimensions."""
    rank = draw(st.integers(1, 3))

    def several(low: int, high: int, count: int = rank) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    extents, kernel = tuple(several(1, 8)), tuple(several(1, 4))
    attributes: dict[str, Any] = {"strides": several(1, 3), "dilations": several(1, 2)}
    mode = draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    pads = [0] * (2 * rank)
    if mode == "NOTSET":
        pads = [min(p, k - 1) for p, k in zip(several(0, 3, 2 * rank), kernel * 2, strict=True)]
        attributes["pads"] = pads
    else:
        attributes["auto_pad"] = mode
    # A kernel larger than all it slides over has no defined result.
    for axis, (extent, k, d) in enumerate(
        zip(extents, kernel, attributes["dilations"], strict=True)
    ):
        assume((k - 1) * d < extent + pads[axis] + pads[axis + rank])
    return extents, kernel, attributes


def check_window(b: GraphBuilder) -> None:
    """Against onnxruntime, where it accepts the node and keeps to the standard's shape."""
    assume(all(min(kind.shape, default=1) > 0 for kind in b.inference.types.values()))
    graph = b.graph()
    feeds = b.feeds(graph)
    expected = runs_untiled(graph, feeds)
    assume(expected is not None)
    assert expected is not None
    assert_same(run_numpy(graph, feeds), expected)
    assert_same(run_numpy(graph, feeds, views=True), expected)


@settings(max_examples=60)
@given(windows(), st.sampled_from(["Conv", "ConvTranspose"]), st.sampled_from([1, 2, 4]))
def test_any_convolution(
    window: tuple[tuple[int, ...], tuple[int, ...], dict[str, object]], kind: str, groups: int
) -> None:
    extents, kernel, attributes = window
    b = GraphBuilder()
    weight = (8, 4 // groups, *kernel) if kind == "Conv" else (4, 3, *kernel)
    bias = b.weight(8 if kind == "Conv" else 3 * groups)
    b.add(kind, b.input(2, 4, *extents), b.weight(*weight), bias, group=groups, **attributes)
    check_window(b)


@settings(max_examples=60)
@given(
    windows(),
    st.sampled_from(["MaxPool", "AveragePool", "LpPool"]),
    st.booleans(),
    st.booleans(),
)
def test_any_pool(
    window: tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]],
    kind: str,
    ceil: bool,
    second: bool,
) -> None:
    extents, kernel, attributes = window
    b = GraphBuilder(opset=22)
    if kind == "AveragePool":
        attributes["count_include_pad"] = int(second)
    outputs = 2 if kind == "MaxPool" and second else 1
    if "auto_pad" not in attributes:
        attributes["ceil_mode"] = int(ceil)
    elif attributes["auto_pad"] != "VALID":
        # onnxruntime's automatic padding forgets dilations, and crops where strides leave gaps.
        attributes["dilations"] = [1] * len(kernel)
        attributes["strides"] = [
            min(pair) for pair in zip(kernel, attributes["strides"], strict=True)
        ]
    b.add(kind, b.input(1, 2, *extents), kernel_shape=[*kernel], outputs=outputs, **attributes)
    check_window(b)


def pool_anywhere(random: np.random.Generator, b: GraphBuilder, x: str) -> None:
    """A pool of one axis with ceil mode, padding and dilation as they come."""
    kind = str(random.choice(["MaxPool", "AveragePool", "LpPool"]))
    opset = b.inference.opsets[""]
    kernel, stride = (int(random.integers(1, 5)) for _ in range(2))
    attributes: dict[str, object] = {"kernel_shape": [kernel], "strides": [stride]}
    if random.integers(4):
        attributes["pads"] = [int(random.integers(0, kernel)) for _ in range(2)]
    else:
        attributes["auto_pad"] = "VALID"
    if kind != "LpPool" or opset >= 18:
        attributes["ceil_mode"] = int(random.integers(0, 4) > 0)
    if kind == "MaxPool" or opset >= 19:
        attributes["dilations"] = [int(random.integers(1, 3))]
    if kind == "AveragePool":
        attributes["count_include_pad"] = int(random.integers(2))
    with suppress(ModelError):  # a kernel larger than all that is there has no defined result
        b.add(kind, x, **attributes)


def resize_anywhere(random: np.random.Generator, b: GraphBuilder, x: str) -> None:
    """A Resize of one axis by a scale that its extent does not divide."""
    scales = [1, 1, float(random.choice([1.3, 1.1, 0.7, 0.9, 3.3, 1.2, 0.3, 2 / 3, 4 / 3, 1.05]))]
    mode = str(random.choice(["nearest", "nearest", "linear"]))
    coordinates = "half_pixel asymmetric align_corners half_pixel_symmetric".split()
    attributes = {"mode": mode, "coordinate_transformation_mode": str(random.choice(coordinates))}
    if mode == "nearest":
        attributes["nearest_mode"] = str(random.choice(ROUNDING))
    with suppress(ModelError):  # nothing is left
        b.add("Resize", x, "", b.constant(scales, "float32"), **attributes)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("add", [pool_anywhere, resize_anywhere])
def test_extents_and_numbers_are_those_of_onnxruntime(add: Any, seed: int) -> None:
    """Windows that only ceil mode adds and that lie in the padding, windows all of whose taps miss
    the input, and scales whose product with the extent is nearly a whole number."""
    random = np.random.default_rng(seed)
    b = GraphBuilder(opset=(19, 22)[seed % 2] if add is resize_anywhere else 13 + 2 * seed)
    for _ in range(60):
        add(random, b, b.input(1, 2, int(random.integers(1, 8 if add is pool_anywhere else 25))))
    graph = b.graph()
    assert len(graph.nodes) > 30
    feeds = b.feeds(graph)
    expected = run_graph(graph, feeds)
    for name, result in expected.items():
        assert graph.types[name].shape == result.shape, graph.nodes[graph.producer[name]]
    assert_same(run_numpy(graph, feeds), expected)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
def test_windows_all_of_whose_taps_miss_the_input(kind: str) -> None:
    b = GraphBuilder(opset=22)
    b.add(kind, b.input(1, 2, 1, 3), kernel_shape=[2, 2], dilations=[2, 1], pads=[1, 0, 1, 0])
    graph = b.graph()
    check(graph, b.feeds(graph))


def test_resize_by_a_scale_whose_product_is_rounded_up() -> None:
    b = GraphBuilder()
    b.add("Resize", b.input(1, 1, 10, 4), "", b.constant([1, 1, 1.3, 1], "float32"), name="y")
    assert b.shape("y") == (1, 1, 13, 4)


@pytest.mark.parametrize(
    "attributes, words",
    [
        ({"kernel_shape": [3], "strides": [2]}, "kernel is larger than all of float32[1x1x1]"),
        ({"kernel_shape": [3], "strides": [2], "ceil_mode": 1}, "kernel is larger"),
        ({"kernel_shape": [2], "pads": [2, 1]}, "padding is not smaller than its kernel"),
    ],
)
def test_pools_without_a_defined_result_are_refused(
    attributes: dict[str, object], words: str
) -> None:
    b = GraphBuilder()
    with pytest.raises(ModelError, match=re.escape(words)):
        b.add("MaxPool", b.input(1, 1, 1), **attributes)


@pytest.mark.quick
@pytest.mark.parametrize("size", [1, 100, 700, 5000])
def test_blocks_cover_a_region_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BUFFER_BYTES", size)
    count = np.zeros((2, 7, 9), dtype=np.int64)
    for region in blocks.blocks(count.shape, 10):
        count[region] += 1
        assert 10 * prod(blocks.lengths(region)) <= max(size, 10)
    assert (count == 1).all()


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose", "QLinearConv"])
def test_blocks_give_the_same_numbers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for example in (example for example in EXAMPLES if example.kind == kind):
        graph = graph_of(example)
        feeds = feeds_for(example, graph)
        expected = run_numpy(graph, feeds)
        with monkeypatch.context() as patch:
            patch.setattr(blocks, "BUFFER_BYTES", 600)
            assert_same(run_numpy(graph, feeds), expected)


# Whole networks


@pytest.mark.parametrize(
    "name",
    [
        "resnet18",
        pytest.param("mobilenet_v2", marks=pytest.mark.quick),
        "unet@64x64",
        "fsrcnn@32x48",
        "vit_b16@32x32",
        "bert_base@16",
    ],
)
def test_networks(name: str) -> None:
    graph = load(name).with_numbers()
    feeds = seeded_inputs(graph)
    expected = run_graph(graph, feeds)
    actual = run_numpy(graph, feeds)
    assert list(actual) == list(expected)
    for output, want in expected.items():
        assert np.abs(actual[output] - want).max() <= 1e-4 * np.abs(want).max()
