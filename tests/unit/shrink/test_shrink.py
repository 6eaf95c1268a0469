"""Shrinking a graph: the budget is kept, the numbers stay, refusals name a budget that works."""

import re

import numpy as np
import pytest

from support.builder import GraphBuilder
from support.compare import run_graph
from support.networks import pan
from tilewright.errors import BudgetError
from tilewright.execute.compare import compare
from tilewright.frontend import zoo
from tilewright.frontend.builder import Builder
from tilewright.frontend.weights import seeded, seeded_inputs
from tilewright.graph.graph import Graph
from tilewright.graph.verify import verify
from tilewright.peak.dequantised import beside_readers, best_order
from tilewright.peak.predict import predict_peak
from tilewright.shrink.shrink import rewritten, shrink_graph
from tilewright.units import parse_bytes


def wide_middle() -> Graph:
    """A narrow network whose inner values are large: what shrinking is for."""
    b = GraphBuilder()
    x = b.input(1, 4, 96, 96)
    y = b.add("Conv", x, b.weight(64, 4, 3, 3), pads=[1] * 4, name="grow")
    y = b.add("Relu", y, name="relu")
    y = b.add("Conv", y, b.weight(64, 64, 3, 3), pads=[1] * 4, name="middle")
    b.add("Conv", y, b.weight(4, 64, 3, 3), pads=[1] * 4, name="shrink")
    return b.graph()


@pytest.mark.parametrize("share", [0.7, 0.5, 0.35])
def test_peak_stays_under_the_budget_and_numbers_stay(share: float) -> None:
    graph = wide_middle()
    original = predict_peak(graph)
    result = shrink_graph(graph, share)
    assert result.original.peak == original.peak
    assert result.predicted.peak <= share * original.peak
    assert predict_peak(result.graph).peak == result.predicted.peak
    verify(result.graph)
    assert result.graph.outputs == graph.outputs
    feeds = seeded_inputs(graph)
    assert compare(run_graph(graph, feeds), run_graph(result.graph, feeds)).max_rel_error <= 1e-5


def test_a_smaller_budget_never_needs_more() -> None:
    graph = wide_middle()
    peaks = [shrink_graph(graph, share).predicted.peak for share in (0.8, 0.6, 0.4)]
    assert peaks == sorted(peaks, reverse=True)


@pytest.mark.quick
def test_a_model_within_the_budget_is_left_alone() -> None:
    graph = wide_middle()
    for budget in (1.0, predict_peak(graph).peak, 10**12):
        result = shrink_graph(graph, budget)
        assert result.graph is graph
        assert result.groups == ()
        assert result.recompute_ratio == 0


def test_groups_do_not_overlap() -> None:
    result = shrink_graph(zoo.build("fsrcnn@64x96"), 0.4)
    names = [tiled.node.name for group in result.groups for tiled in group.ops]
    assert len(names) == len(set(names)) > 0


def test_refusal_names_a_budget_that_can_be_met() -> None:
    graph = wide_middle()
    with pytest.raises(BudgetError) as refusal:
        shrink_graph(graph, 1000)
    named = re.search(r"smallest[^.]*? is ([\d.]+ [kMG]?B)", str(refusal.value))
    assert named is not None, refusal.value
    assert shrink_graph(graph, parse_bytes(named[1])).predicted.peak <= parse_bytes(named[1])


def test_refusal_is_the_same_for_every_budget_out_of_reach() -> None:
    """The smallest peak is a property of the model, not of the wish."""
    graph = zoo.build("fsrcnn@48x64")
    found: list[float] = []
    for budget in (1000, 60_000):
        with pytest.raises(BudgetError) as refusal:
            shrink_graph(graph, budget)
        named = re.search(r"smallest[^.]*? is ([\d.]+ [kMG]?B)", str(refusal.value))
        assert named is not None
        found.append(parse_bytes(named[1]))
    assert max(found) <= 1.1 * min(found)


def test_what_cannot_be_cut_is_refused_with_its_name() -> None:
    b = GraphBuilder()
    x = b.input(1, 4, 64, 64)
    y = b.add("Relu", x, name="relu")
    b.add("GlobalAveragePool", b.add("Softmax", y, axis=2, name="soft"), name="pool")
    with pytest.raises(BudgetError, match="cannot be met"):
        shrink_graph(b.graph(), 0.01)


def u_net(batch: int) -> Graph:
    b = GraphBuilder()
    y, skips = b.input(batch, 3, 64, 64), list[str]()
    for channels in (8, 16):
        y = b.add("Relu", b.add("Conv", y, b.weight(channels, b.shape(y)[1], 3, 3), pads=[1] * 4))
        skips.append(y)
        y = b.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    for skip in reversed(skips):
        channels = b.shape(skip)[1]
        up = b.weight(b.shape(y)[1], channels, 2, 2)
        y = b.add("Concat", b.add("ConvTranspose", y, up, strides=[2, 2]), skip, axis=1)
        y = b.add("Relu", b.add("Conv", y, b.weight(channels, 2 * channels, 3, 3), pads=[1] * 4))
    b.add("Conv", y, b.weight(2, 8, 1, 1))
    return b.graph()


@pytest.mark.parametrize("batch", [4, 5])
def test_a_batch_is_cut_item_by_item_and_each_item_further(batch: int) -> None:
    """Of several images little more is needed than of one, and the one is cut too."""
    alone, together = u_net(1), u_net(batch)
    small, smaller = (shrink_graph(graph, None) for graph in (alone, together))
    results = (batch - 1) * 2 * alone.types[alone.outputs[0]].bytes  # and their pieces
    assert smaller.predicted.peak < 1.25 * (small.predicted.peak + results)
    (group,) = smaller.groups
    assert {split.axis for split in group.splits} >= {0, 2}
    feeds = seeded_inputs(together)
    tiled = run_graph(smaller.graph, feeds)
    assert compare(run_graph(together, feeds), tiled).max_rel_error <= 1e-5


def test_a_detector_goes_to_two_fifths_and_holds_nothing_in_two_layouts() -> None:
    """Its skips are read by tiles (plain) and by convolutions (in blocks)."""
    graph = pan()
    result = shrink_graph(graph, None)
    assert result.predicted.peak < 0.42 * result.original.peak
    assert result.plain and predict_peak(result.graph).peak == result.predicted.peak
    verify(result.graph)
    feeds = seeded_inputs(graph)
    numbered = seeded(graph)
    again = rewritten(result, numbered)
    assert predict_peak(again).peak == result.predicted.peak
    assert compare(run_graph(numbered, feeds), run_graph(again, feeds)).max_rel_error <= 1e-5


def fork() -> Graph:
    """A skip around a pooled branch: what the search estimates is not what the runtime needs."""
    b = Builder("fork")
    x = b.input("x", (1, 3, 64, 80))
    x = b.op("Relu", b.conv(x, 16, 3, pads=1, stride=2, name="stem"), name="r1")
    x = b.op("Relu", b.conv(x, 32, 3, pads=1, name="skip"), name="r2")
    y = b.op("Relu", b.conv(x, 32, 3, pads=1, stride=2, name="down"), name="r3")
    scales = b.constant("scales", np.array([1, 1, 2, 2], np.float32))
    y = b.op("Resize", y, "", scales, mode="nearest", name="up")
    y = b.op("Concat", y, x, axis=1, name="join")
    y = b.conv(y, 48, 3, pads=1, name="fuse")
    y = b.op("Add", y, b.silu(y), name="mix")
    return b.finish(b.conv(y, 4, 1, name="box"), b.conv(y, 10, 1, name="score"))


def test_smallest_is_one_number() -> None:
    """Nothing below it is met, nothing above it refused, and refusals name it."""
    graph = fork()
    smallest = shrink_graph(graph, None).predicted.peak
    for share in (0.98, 0.9, 0.5):
        with pytest.raises(BudgetError, match="what `smallest` gives") as caught:
            shrink_graph(graph, round(share * smallest))
        named = re.search(r"smallest found is ([\d.]+ \w+)", str(caught.value))
        assert named is not None and 0 <= parse_bytes(named[1]) - smallest <= 100
    for share in (1.0, 1.01, 1.1):
        assert shrink_graph(graph, round(share * smallest)).predicted.peak <= share * smallest


def signed(channels: int, layers: int = 4) -> Graph:
    """Convolutions of signed integers that several read, whose weights the runtime makes real: the
    weights stand first in the file, as quantisers write them."""
    b = GraphBuilder()
    step = (b.constant(0.1, "float32"), b.constant(0, "int8"))
    weights = [
        b.add("DequantizeLinear", b.weight(channels, channels, 1, 1, dtype="int8"), *step)
        for _ in range(layers)
    ]
    x = b.input(1, channels, 2, 2)
    for weight in weights:
        x = b.add("DequantizeLinear", b.add("QuantizeLinear", x, *step), *step)
        after = b.add("Conv", x, weight)
        b.add("ReduceMax", x, keepdims=1)
        x = after
    return b.graph()


def test_a_network_that_is_not_cut_is_written_as_it_is() -> None:
    graph = signed(16)
    found = shrink_graph(graph, None)
    assert not found.groups
    assert predict_peak(found.graph).peak == found.predicted.peak


def test_weights_become_real_numbers_right_before_their_use() -> None:
    """Those that stand beside a reader in the file would be there from the start, all of them."""
    graph = signed(64)
    beside = beside_readers(graph)
    assert predict_peak(beside).peak > 2 * predict_peak(graph).peak
    assert predict_peak(best_order(beside)).peak == predict_peak(graph).peak
