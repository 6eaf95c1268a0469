"""Every rewrite keeps the numbers, and leaves nothing that the array cannot run."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from support.builder import GraphBuilder, feeds_of
from support.compare import assert_claimed_types, assert_same, run_graph, runs_untiled
from support.networks import one_conv as conv
from tilewright.graph.graph import Graph
from tilewright.graph.ops import spec_of
from tilewright.legalise import Legalised, dilated, fits_limits, legalise
from tilewright.machine import Limits, Machine, load_machine
from tilewright.machine.machine import Engine
from tilewright.machine.parameters import ArrayParameters

NPU = load_machine("npu-2.7")


def machine_with(**limits: object) -> Machine:
    """The NPU with other limits."""
    return replace(NPU, limits=replace(NPU.limits, **limits))  # type: ignore[arg-type]


def unpacked(machine: Machine) -> Machine:
    """The machine without a packed path for the first layer."""

    def plain(engine: Engine) -> Engine:
        parameters = engine.parameters
        if not isinstance(parameters, ArrayParameters):
            return engine
        return replace(engine, parameters=replace(parameters, packed_channels=None))

    cores = (replace(core, engines=tuple(map(plain, core.engines))) for core in machine.cores)
    return replace(machine, cores=tuple(cores))


TIGHT = machine_with(kernel=3, stride=2, dimension=40, channel_alignment=8)


def check(graph: Graph, machine: Machine = NPU) -> Legalised:
    """Legalise, run both, and ask the checker about what is left."""
    result = legalise(graph, machine, "fp16")
    assert_claimed_types(result.graph)
    feeds = feeds_of(graph)
    assert_same(run_graph(result.graph, feeds), run_graph(graph, feeds))
    left = {step.limit for step in result.steps if step.outcome in ("tiling", "illegal")}
    for node in result.graph.nodes:
        known = spec_of(result.graph, node)
        if known is not None:
            broken = {found.limit for found in fits_limits(known[1], None, machine)}
            assert broken <= left, f"{node.name}: {broken}"
    return result


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


def rewritten(result: Legalised) -> list[str]:
    return [step.limit for step in result.steps if step.outcome == "rewritten"]


@pytest.mark.quick
def test_legal_network_stays_untouched() -> None:
    graph = conv((1, 16, 20, 20), 32, (3, 3), pads=[1, 1, 1, 1])
    result = legalise(graph, NPU, "fp16")
    assert result.graph is graph
    assert result.steps == ()


@pytest.mark.quick
@pytest.mark.parametrize("group", [1, 2, 4])
def test_dilated_filter_is_expanded(group: int) -> None:
    graph = conv((1, 4, 17, 19), 8, (3, 2), group, dilations=[2, 5], pads=[1, 0, 2, 3])
    result = check(graph)
    assert rewritten(result) == ["dilation"]
    (step, *_) = result.steps
    assert "expanded to 5x6" in step.what
    assert step.macs == (5 * 6 - 3 * 2) * 8 * 4 // group * 16 * 17
    assert step.bytes == (5 * 6 - 3 * 2) * 8 * 4 // group * 2


def test_dilation_too_long_to_expand_becomes_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dilated, "_in_batches", lambda *_: float("inf"))
    graph = conv((1, 2, 40, 40), 4, (3, 3), dilations=[6, 12], pads=[6, 12, 6, 12])
    result = check(graph)
    assert set(rewritten(result)) == {"kernel", "dilation", "pads"}


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Space to batch whatever it costs."""
    monkeypatch.setattr(dilated, "_expansion", lambda *_: float("inf"))


def test_deep_dilated_convolution_goes_phase_by_phase() -> None:
    result = check(conv((1, 64, 26, 26), 64, (3, 3), dilations=[4, 4], pads=[4] * 4))
    (step, *_) = result.steps
    assert "on 16 phases" in step.what
    assert step.macs == (28 * 28 - 26 * 26) * 9 * 64 * 64  # 7 positions of every phase
    (plain,) = [node for node in result.graph.nodes if node.kind == "Conv"]
    assert result.graph.types[plain.outputs[0]].shape == (16, 64, 7, 7)


def test_shallow_dilated_convolution_is_expanded() -> None:
    result = check(conv((1, 3, 64, 64), 8, (3, 3), dilations=[2, 2], pads=[2] * 4))
    assert "expanded to 5x5" in result.steps[0].what


def test_dilation_of_weights_that_are_computed() -> None:
    b = GraphBuilder()
    filters = b.add("Relu", b.input(8, 16, 3, 3))
    b.add("Conv", b.input(1, 16, 20, 20), filters, dilations=[3, 3])
    result = check(b.graph())
    assert rewritten(result) == ["dilation"] and "9 phases" in result.steps[0].what


@pytest.mark.usefixtures("batches")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.tuples(st.integers(2, 4), st.integers(1, 3)),
    st.tuples(st.integers(2, 5), st.integers(1, 4)),
    st.tuples(*[st.integers(0, 9)] * 4),
    st.tuples(st.integers(3, 26), st.integers(3, 20)),
    st.sampled_from([1, 2, 4]),
    st.tuples(st.just(1), st.integers(1, 2)),
    st.integers(1, 2),
)
def test_any_dilation_phase_by_phase(
    kernel: tuple[int, ...],
    steps: tuple[int, ...],
    pads: tuple[int, ...],
    extent: tuple[int, ...],
    group: int,
    strides: tuple[int, ...],
    batch: int,
) -> None:
    for axis in range(2):
        room = extent[axis] + pads[axis] + pads[axis + 2]
        assume(room >= (kernel[axis] - 1) * steps[axis] + 1)
    graph = conv(
        (batch, 4, *extent), 8, kernel, group,
        dilations=list(steps), pads=list(pads), strides=list(strides),
    )  # fmt: skip
    assert "phases of the input" in check(graph).steps[0].what


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize("shape", [(1, 4, 30), (1, 4, 9, 8, 7)])
def test_dilation_of_lines_and_volumes_phase_by_phase(shape: tuple[int, ...]) -> None:
    rank = len(shape) - 2
    graph = conv(shape, 6, (3,) * rank, dilations=[2] * rank, pads=[1] * (2 * rank))
    assert "phases of the input" in check(graph).steps[0].what


def test_weightless_filter_grows_in_type_only() -> None:
    graph = conv((1, 4, 20, 20), 8, (3, 3), dilations=[2, 2])
    empty = {name: replace(c, data=None) for name, c in graph.constants.items()}
    result = legalise(replace(graph, constants=empty), NPU, "fp16")
    (node,) = result.graph.nodes
    assert result.graph.types[node.inputs[1]].shape == (8, 4, 5, 5)
    assert result.graph.constants[node.inputs[1]].data is None


@pytest.mark.quick
def test_patch_convolution_is_a_1x1_convolution() -> None:
    result = check(conv((1, 3, 64, 48), 24, (16, 16), strides=[16, 16]))
    assert kinds(result.graph) == ["Reshape", "Transpose", "Reshape", "Conv"]
    (node,) = [n for n in result.graph.nodes if n.kind == "Conv"]
    assert node.name == "Conv_y" and node.attributes["kernel_shape"] == (1, 1)
    step = result.steps[0]
    assert (step.limit, step.macs, step.bytes) == ("kernel", 0, 2 * 2 * 3 * 64 * 48)


def test_only_the_long_axis_is_taken_as_patches() -> None:
    result = check(conv((1, 4, 30, 33), 6, (3, 12), 2, strides=[1, 16], pads=[1, 3, 1, 0]))
    (node,) = [n for n in result.graph.nodes if n.kind == "Conv"]
    assert node.attributes["kernel_shape"] == (3, 1)


def test_long_stride_with_a_longer_kernel() -> None:
    result = check(conv((1, 4, 60, 60), 6, (13, 10), 2, strides=[10, 9], pads=[3, 0, 4, 2]))
    assert sum(step.macs for step in result.steps if step.outcome == "rewritten") == 0


@pytest.mark.quick
def test_large_kernel_is_a_sum_over_parts() -> None:
    result = check(conv((1, 3, 30, 30), 4, (15, 13), pads=[7, 6, 7, 6]))
    assert kinds(result.graph).count("Conv") == 4
    assert kinds(result.graph).count("Add") == 3
    assert result.graph.nodes[-1].name == "Conv_y"


@pytest.mark.quick
def test_pads_beyond_half_the_kernel_are_explicit() -> None:
    result = check(conv((1, 3, 9, 9), 4, (3, 2), pads=[2, 0, 1, 3]))
    assert kinds(result.graph) == ["Pad", "Conv"]
    assert result.graph.nodes[-1].attributes["pads"] == (1, 0, 1, 1)
    assert rewritten(result) == ["pads"]


def test_automatic_padding_is_understood() -> None:
    check(conv((1, 3, 40, 37), 4, (13, 3), auto_pad="SAME_UPPER", strides=[2, 1]))


def test_negative_automatic_padding_is_not_touched() -> None:
    graph = conv((1, 4, 17, 5), 8, (2, 1), strides=[9, 1], auto_pad="SAME_UPPER")
    result = legalise(graph, NPU, "fp16")
    assert result.graph is graph
    assert ("stride", "illegal") in [(step.limit, step.outcome) for step in result.steps]


def test_one_and_three_dimensions() -> None:
    check(conv((2, 4, 70), 6, (16,), 2, strides=[16]))
    check(conv((1, 2, 70), 4, (25,), pads=[12, 12]))
    check(conv((1, 2, 5, 24, 24), 4, (2, 12, 12), strides=[2, 12, 12]))


@pytest.mark.parametrize("kind", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_pool_cascades(kind: str) -> None:
    b = GraphBuilder()
    b.add(kind, b.input(1, 16, 14, 28))
    result = check(b.graph())
    assert len(result.graph.nodes) == 2
    assert rewritten(result) == ["kernel"]


def test_pool_without_factors_stays_on_the_vector_engine() -> None:
    b = GraphBuilder()
    b.add("GlobalAveragePool", b.input(1, 16, 13, 13))
    result = check(b.graph())
    assert [step.outcome for step in result.steps] == ["vector"]


def test_large_maximum_cascades() -> None:
    b = GraphBuilder()
    b.add("MaxPool", b.input(1, 16, 20, 20), kernel_shape=[13, 13], pads=[6, 6, 6, 6])
    result = check(b.graph())
    assert [n.attributes["kernel_shape"] for n in result.graph.nodes] == [(7, 7), (7, 7)]
    assert [step.outcome for step in result.steps] == ["rewritten"]


@pytest.mark.quick
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("trans_a", [0, 1])
def test_long_reduction_is_split(trans_a: int, trans_b: int) -> None:
    b = GraphBuilder()
    x = b.input(*((100, 3) if trans_a else (3, 100)))
    w = b.weight(*((16, 100) if trans_b else (100, 16)))
    bias = b.weight(16)
    b.add("Gemm", x, w, bias, transA=trans_a, transB=trans_b, alpha=0.5, beta=2.0)
    result = check(b.graph(), TIGHT)
    assert kinds(result.graph).count("Gemm") == 3


def test_product_of_two_activations_is_split() -> None:
    b = GraphBuilder()
    b.add("MatMul", b.input(2, 5, 90), b.input(2, 90, 8))
    assert kinds(check(b.graph(), TIGHT).graph).count("MatMul") == 3


def test_many_channels_are_split() -> None:
    result = check(conv((1, 100, 6, 6), 8, (3, 3), pads=[1, 1, 1, 1]), TIGHT)
    assert kinds(result.graph).count("Conv") == 3


def test_vgg_dense_layer_is_split() -> None:
    b = GraphBuilder()
    b.add("Gemm", b.input(1, 25088), b.weight(8, 25088), b.weight(8), transB=1)
    result = check(b.graph())
    assert [step.limit for step in result.steps][:1] == ["dimension"]
    assert kinds(result.graph).count("Gemm") == 4


def test_transposed_convolution_is_expanded() -> None:
    b = GraphBuilder()
    w = b.weight(4, 3, 3, 3)
    b.add("ConvTranspose", b.input(1, 4, 9, 9), w, dilations=[2, 3], strides=[2, 2], group=2)
    check(b.graph())


def test_quantised_padding_and_filter_take_zero_points(monkeypatch: pytest.MonkeyPatch) -> None:
    b = GraphBuilder()
    x = b.input(1, 4, 12, 12, dtype="uint8")
    w = b.weight(6, 4, 3, 3, dtype="uint8")
    zero_x, zero_w = b.constant(3, "uint8"), b.constant([1, 2, 0, 1, 2, 3], "uint8")
    scale = b.constant(0.5, "float32")
    scales = b.constant([0.5] * 6, "float32")
    end = b.constant(0, "uint8")
    b.add(
        "QLinearConv", x, scale, zero_x, w, scales, zero_w, b.constant(8.0, "float32"), end,
        dilations=[2, 2], pads=[4, 2, 3, 2],
    )  # fmt: skip
    result = check(b.graph())
    assert rewritten(result) == ["dilation", "pads"] and "expanded" in result.steps[0].what
    monkeypatch.setattr(dilated, "_expansion", lambda *_: float("inf"))
    result = check(b.graph())
    assert "phases of the input" in result.steps[0].what


def test_channel_alignment_is_reported() -> None:
    graph = conv((1, 3, 8, 8), 24, (3, 3), pads=[1, 1, 1, 1])
    (step,) = check(graph).steps
    assert (step.limit, step.outcome) == ("channel_alignment", "layout")
    assert "input channels (3) stay packed" in step.what and "24 -> 32" in step.what
    assert step.macs == 64 * 9 * 3 * 8
    assert step.bytes == 2 * (64 * 8 + 9 * 3 * 8)
    (step,) = check(graph, unpacked(NPU)).steps
    assert "3 -> 16, 24 -> 32" in step.what
    assert step.macs == 64 * 9 * (16 * 32 - 3 * 24)
    assert step.bytes == 2 * (64 * 13 + 64 * 8 + 9 * (16 * 32 - 3 * 24))


def test_wide_result_is_left_to_tiles() -> None:
    b = GraphBuilder()
    b.add("MatMul", b.input(1, 16), b.weight(16, 48))
    result = check(b.graph(), TIGHT)
    assert [(step.outcome, step.limit) for step in result.steps] == [("tiling", "dimension")]


windows = st.fixed_dictionaries(
    {
        "kernel": st.tuples(st.integers(1, 9), st.integers(1, 5)),
        "stride": st.tuples(st.integers(1, 6), st.integers(1, 4)),
        "dilation": st.tuples(st.integers(1, 3), st.integers(1, 3)),
        "pads": st.tuples(*[st.integers(0, 6)] * 4),
        "extent": st.tuples(st.integers(3, 26), st.integers(3, 20)),
        "group": st.sampled_from([1, 2, 4]),
        "dilates": st.booleans(),
    }
)


@settings(max_examples=120)
@given(windows)
def test_any_convolution(w: dict[str, tuple[int, ...]]) -> None:
    for axis in range(2):
        room = w["extent"][axis] + w["pads"][axis] + w["pads"][axis + 2]
        assume(room >= (w["kernel"][axis] - 1) * w["dilation"][axis] + 1)
    graph = conv(
        (1, 4, *w["extent"]), 8, w["kernel"], w["group"],  # type: ignore[arg-type]
        strides=list(w["stride"]), dilations=list(w["dilation"]), pads=list(w["pads"]),
    )  # fmt: skip
    machine = machine_with(kernel=3, stride=2, dilation=None if w["dilates"] else 1)
    check(graph, machine)


@settings(max_examples=80)
@given(
    st.sampled_from(["MaxPool", "AveragePool"]),
    st.tuples(st.integers(1, 14), st.integers(1, 9)),
    st.tuples(st.integers(1, 6), st.integers(1, 4)),
    st.tuples(*[st.integers(0, 4)] * 4),
    st.tuples(st.integers(4, 30), st.integers(4, 20)),
    st.booleans(),
)
def test_any_pool(
    kind: str,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    pads: tuple[int, ...],
    extent: tuple[int, ...],
    ceil: bool,
) -> None:
    assume(all(pads[a] < kernel[a] and pads[a + 2] < kernel[a] for a in range(2)))
    assume(all(extent[a] + pads[a] + pads[a + 2] >= kernel[a] for a in range(2)))
    b = GraphBuilder()
    b.add(
        kind, b.input(1, 3, *extent), kernel_shape=list(kernel), strides=list(stride),
        pads=list(pads), ceil_mode=int(ceil),
    )  # fmt: skip
    graph = b.graph()
    assume(runs_untiled(graph, feeds_of(graph)) is not None)
    check(graph, machine_with(kernel=4, stride=3))


def test_machine_without_limits_needs_nothing() -> None:
    graph = conv((1, 3, 40, 40), 4, (15, 15), strides=[9, 9], dilations=[2, 2])
    free = replace(NPU, limits=Limits())
    assert legalise(graph, free).graph is graph
    assert legalise(graph, free).steps == ()


def test_two_networks_do_not_share_anything() -> None:
    graph = conv((1, 3, 30, 30), 4, (15, 13))
    first, second = legalise(graph, NPU), legalise(graph, NPU)
    assert first.steps == second.steps
    assert [n.name for n in first.graph.nodes] == [n.name for n in second.graph.nodes]
    for name, constant in first.graph.constants.items():
        other = second.graph.constants[name]
        assert constant.data is not None and other.data is not None
        assert np.array_equal(constant.data, other.data)
