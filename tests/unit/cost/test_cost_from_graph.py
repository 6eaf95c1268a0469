"""Tiles of operators as work."""

import pytest

from support.builder import GraphBuilder
from tilewright.cost.base import WorkKind, Workload
from tilewright.cost.from_graph import workload_of
from tilewright.cost.limits import broken_limit
from tilewright.geometry.access import Reach
from tilewright.geometry.box import Box
from tilewright.geometry.interval import Interval
from tilewright.graph.ops import SPECS, spec_of
from tilewright.graph.ops.spec import Tile
from tilewright.machine.machine import Limits


def work_of(
    builder: GraphBuilder, name: str, axis: int = 0, part: Interval | None = None
) -> Workload:
    """The work of the node that makes a value, or of a tile of it."""
    graph = builder.graph(name)
    node = next(node for node in graph.nodes if name in node.outputs)
    known = spec_of(graph, node)
    assert known is not None
    spec, op = known
    access = spec.access(op, 0)
    assert access is not None
    intervals = [Interval(0, extent) for extent in access.shape]
    if part is not None:
        intervals[axis] = part
    inputs: list[tuple[Reach, ...] | None] = []
    for rules in access.inputs:
        if rules is None:
            inputs.append(None)
        else:
            outs = (intervals[r.axis] if r.axis is not None else Interval(0, 1) for r in rules)
            inputs.append(tuple(r.reach(out) for r, out in zip(rules, outs, strict=True)))
    return workload_of(spec, op, Tile((Box(tuple(intervals)),), tuple(inputs)))


def test_convolution_tile_has_its_own_pads() -> None:
    b = GraphBuilder()
    x = b.input(1, 3, 224, 224)
    y = b.add(
        "Conv", x, b.weight(64, 3, 7, 7), strides=[2, 2], pads=[2, 2, 3, 3], kernel_shape=[7, 7]
    )
    work = work_of(b, y, 2, Interval(84, 112))
    assert work == Workload(
        WorkKind.FIRST_CONV, "float32", 64, 3, 28, 112, 58, 224, 7, 7, 2, 2, (0, 3, 2, 3)
    )
    assert work.macs == 64 * 28 * 112 * 3 * 49


def test_kinds_of_windows() -> None:
    b = GraphBuilder()
    x = b.input(1, 32, 16, 16)
    depthwise = work_of(b, b.add("Conv", x, b.weight(32, 1, 3, 3), group=32))
    assert (depthwise.kind, depthwise.out_channels, depthwise.groups) == (WorkKind.DEPTHWISE, 32, 1)
    grouped = b.add("Conv", x, b.weight(64, 8, 3, 3), group=4)
    assert work_of(b, grouped).groups == 4
    half = work_of(b, grouped, 1, Interval(0, 32))
    assert (half.kind, half.groups, half.in_channels) == (WorkKind.CONV, 2, 16)
    dilated = work_of(b, b.add("Conv", x, b.weight(8, 32, 3, 3), dilations=[2, 2]))
    assert (dilated.kernel_height, dilated.kernel_width, dilated.in_height) == (3, 3, 16)
    assert (dilated.dilation_height, dilated.dilation_width, dilated.out_height) == (2, 2, 12)
    pool = work_of(b, b.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]))
    assert (pool.kind, pool.taps, pool.out_height) == (WorkKind.POOL, 4, 8)
    average = work_of(b, b.add("GlobalAveragePool", x))
    assert (average.kind, average.taps, average.operator) == (WorkKind.DEPTHWISE, 256, "pool")
    up = work_of(b, b.add("ConvTranspose", x, b.weight(32, 8, 4, 4), strides=[2, 2]))
    assert (up.kind, up.taps, up.stride_height, up.out_height) == (WorkKind.CONV, 16, 1, 34)


def test_limits_of_a_dilated_kernel_are_those_of_its_taps() -> None:
    b = GraphBuilder()
    x = b.input(1, 16, 40, 40)
    work = work_of(b, b.add("Conv", x, b.weight(8, 16, 3, 3), dilations=[8, 8], pads=[8] * 4))
    assert broken_limit(work, Limits(kernel=3, pad_half_kernel=True)) == ""
    assert broken_limit(work, Limits(kernel=3, dilation=4)) == "dilation 8 is beyond 4"
    assert broken_limit(work, Limits(kernel=2)) == "kernel 3 is beyond 2"
    point = work_of(b, b.add("Conv", x, b.weight(8, 16, 1, 1), dilations=[8, 8]))
    assert broken_limit(point, Limits(dilation=1)) == ""


def test_matrix_products() -> None:
    b = GraphBuilder()
    a, w = b.input(2, 2048, 48), b.weight(48, 256)
    work = work_of(b, b.add("MatMul", a, w))
    assert (work.batch, work.out_height, work.out_width) == (2, 2048, 1)
    assert (work.in_channels, work.out_channels) == (48, 256)
    c = b.input(48, 10)
    gemm = work_of(b, b.add("Gemm", c, b.weight(48, 7), transA=1))
    assert (gemm.out_height, gemm.in_channels, gemm.out_channels) == (10, 48, 7)


def test_everything_else_is_vector_work() -> None:
    b = GraphBuilder()
    x, y = b.input(1, 32, 16, 16), b.input(1, 32, 16, 16)
    add = work_of(b, b.add("Add", x, y))
    assert (add.kind, add.out_channels, add.out_width) == (WorkKind.ELTWISE, 32, 16)
    bias = work_of(b, b.add("Add", x, b.weight(32, 1, 1)))
    assert (bias.kind, bias.operator) == (WorkKind.VECTOR, "add")
    softmax = work_of(b, b.add("Softmax", x, axis=-1))
    assert (softmax.operator, softmax.out_elements) == ("softmax", 32 * 256)
    mean = work_of(b, b.add("ReduceMean", x, b.constant([2, 3], "int64")))
    assert (mean.operator, mean.in_elements, mean.out_elements) == ("reduce", 8192, 32)
    norm = work_of(b, b.add("LayerNormalization", x, b.weight(16), b.weight(16)))
    assert norm.operator == "norm"


@pytest.mark.parametrize("kind", ["Softmax", "Exp", "Gelu", "Tanh"])
def test_named_classes_are_operators(kind: str) -> None:
    assert kind in SPECS
