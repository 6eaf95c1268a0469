"""Transposed convolutions in stride phases: the same numbers, and only where they are cheaper."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.builder import GraphBuilder, feeds_of
from support.compare import assert_claimed_types, assert_same, run_graph, runs_untiled
from support.networks import one_conv
from tilewright.frontend import zoo
from tilewright.graph.graph import Graph
from tilewright.legalise import Legalised, legalise
from tilewright.legalise.costs import LegalCosts
from tilewright.machine import load_machine

NPU = load_machine("npu-2.7")
upscale = partial(one_conv, transposed=True)


def phased(graph: Graph) -> Legalised:
    """Legalised with every transposed convolution in phases; the numbers are compared."""
    result = legalise(graph, NPU, "fp16")
    assert "ConvTranspose" not in {node.kind for node in result.graph.nodes}
    assert result.steps[0].outcome == "rewritten" and "in phases" in result.steps[0].what
    assert_claimed_types(result.graph)
    feeds = feeds_of(graph)
    assert_same(run_graph(result.graph, feeds), run_graph(graph, feeds))
    return result


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Phases whatever they cost."""
    monkeypatch.setattr(LegalCosts, "whole", lambda self: float("inf"))


def kinds(result: Legalised) -> list[str]:
    return [node.kind for node in result.graph.nodes]


@pytest.mark.quick
def test_fsrcnn_needs_no_crop() -> None:
    same = {"pads": [4, 4, 4, 4], "strides": [2, 2], "output_padding": [1, 1]}
    result = phased(upscale((1, 56, 20, 24), 1, (9, 9), **same))
    assert kinds(result) == ["Conv", "DepthToSpace"]
    (conv, space) = result.graph.nodes
    assert conv.attributes["kernel_shape"] == (5, 5)
    assert conv.attributes["pads"] == (2, 2, 2, 2)
    assert space.name == "ConvTranspose_y"


@pytest.mark.quick
def test_two_by_two_is_pointwise(always: None) -> None:
    result = phased(upscale((1, 32, 9, 7), 16, (2, 2), strides=[2, 2]))
    assert kinds(result) == ["Conv", "DepthToSpace"]
    assert result.graph.nodes[0].attributes["kernel_shape"] == (1, 1)
    assert result.graph.types["ConvTranspose_y/phases"].shape == (1, 64, 9, 7)


def test_strides_that_differ_and_other_ranks(always: None) -> None:
    assert "Transpose" in kinds(phased(upscale((2, 4, 5, 7), 6, (3, 5), 2, strides=[2, 3])))
    phased(upscale((1, 4, 9), 6, (4,), strides=[3], pads=[1, 0]))
    phased(upscale((1, 2, 3, 4, 3), 3, (2, 3, 3), strides=[2, 2, 1]))


def test_pads_longer_than_the_kernel_crop_the_input(always: None) -> None:
    phased(upscale((1, 4, 9, 9), 4, (3, 3), strides=[2, 2], pads=[5, 4, 4, 6]))


def test_automatic_padding_and_output_shape(always: None) -> None:
    phased(upscale((1, 4, 6, 6), 4, (3, 3), strides=[2, 2], auto_pad="SAME_UPPER"))
    phased(upscale((1, 4, 6, 6), 4, (4, 3), strides=[2, 2], output_shape=[13, 11]))


def test_a_kernel_beyond_the_limit_goes_in_phases_at_any_price() -> None:
    phased(upscale((1, 16, 4, 4), 16, (13, 13), strides=[2, 2]))


def test_a_cheap_one_stays_as_it_is() -> None:
    graph = upscale((1, 16, 4, 4), 16, (1, 1), strides=[2, 2])
    assert legalise(graph, NPU, "fp16").graph is graph


def test_no_phases_without_a_stride_or_with_weights_that_are_computed() -> None:
    graph = upscale((1, 16, 8, 8), 16, (3, 3))
    assert legalise(graph, NPU, "fp16").graph is graph
    b = GraphBuilder()
    b.add("ConvTranspose", b.input(1, 56, 20, 20), b.input(56, 16, 9, 9), strides=[2, 2])
    assert "ConvTranspose" in kinds(legalise(b.graph(), NPU, "fp16"))


def test_weights_without_numbers_get_the_right_types() -> None:
    graph = zoo.build("fsrcnn@24x32")
    assert graph.weightless
    result = legalise(graph, NPU, "fp16")
    conv = next(n for n in result.graph.nodes if n.name == "upscale/phases")
    weight = result.graph.constants[conv.inputs[1]]
    assert weight.type.shape == (4, 56, 5, 5) and weight.data is None


def test_names_do_not_change_between_runs() -> None:
    graph = zoo.build("unet@64x64")
    names = [[n.name for n in legalise(graph, NPU, "fp16").graph.nodes] for _ in range(2)]
    assert names[0] == names[1] and len(set(names[0])) == len(names[0])


@settings(max_examples=150, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "kernel": st.tuples(st.integers(1, 7), st.integers(1, 5)),
            "strides": st.tuples(st.integers(1, 4), st.integers(2, 4)),
            "pads": st.tuples(*[st.integers(0, 4)] * 4),
            "output_padding": st.tuples(st.integers(0, 3), st.integers(0, 3)),
            "dilations": st.tuples(st.integers(1, 2), st.integers(1, 3)),
        }
    ),
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
)
def test_any_transposed_convolution(
    window: dict[str, Any], extent: tuple[int, int], group: int, bias: bool
) -> None:
    assume(all(o < s for o, s in zip(window["output_padding"], window["strides"], strict=True)))
    attributes = {key: list(value) for key, value in window.items() if key != "kernel"}
    for a in range(2):
        size = window["strides"][a] * (extent[a] - 1) + window["output_padding"][a] + 1
        size += (window["kernel"][a] - 1) * window["dilations"][a]
        assume(size - window["pads"][a] - window["pads"][a + 2] >= 1)
    graph = upscale((1, 4, *extent), 8, window["kernel"], group, bias, **attributes)
    feeds = feeds_of(graph)
    expected = runs_untiled(graph, feeds)
    assume(expected is not None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LegalCosts, "whole", lambda self: float("inf"))
        free = replace(NPU, limits=replace(NPU.limits, pad_half_kernel=False))
        result = legalise(graph, free, "fp16")
    pads, kernel = window["pads"], window["kernel"]
    if all(max(pads[a], pads[a + 2]) < kernel[a] for a in range(2)):  # else all may be padding
        assert "ConvTranspose" not in kinds(result)
    assert_claimed_types(result.graph)
    assert_same(run_graph(result.graph, feeds), run_graph(graph, feeds))
