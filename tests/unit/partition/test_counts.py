"""What is counted: the published table to the digit, single kernels, and the rules one by one."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.networks import residual

from tilewright import api
from tilewright.accounting import AccountingError, Ledger, Traffic
from tilewright.frontend.builder import Builder
from tilewright.graph.graph import Graph
from tilewright.partition.partition import FusedKernel, FusionLevel, partition_graph
from tilewright.partition.quantised import operators_on_integers


def kernel_of(graph: Graph, name: str) -> FusedKernel:
    return next(k for k in partition_graph(graph).kernels if k.name == name)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "counts", "patterns", "matmul", "total", "external", "internal"),
    [
        (
            "resnet18",
            (69, 32),
            {"Conv+BN": 11, "Conv+BN+ReLU": 9, "Add+ReLU": 8, "single": 4},
            3_628_146_688,
            3_643_625_984,
            78_581_824,
            19_167_232,
        ),
        (
            "mobilenet_v2",
            (152, 65),
            {"Conv+BN+ReLU6": 35, "Conv+BN": 17, "single": 13},
            601_548_544,
            641_261_280,
            70_667_584,
            51_135_616,
        ),
    ],
)
def test_published_table(
    name: str,
    counts: tuple[int, int],
    patterns: dict[str, int],
    matmul: int,
    total: int,
    external: int,
    internal: int,
) -> None:
    found = partition_graph(api.load(name).graph)
    assert (len(found.operators), len(found.kernels)) == counts
    assert dict(found.patterns) == patterns
    assert (found.work.flops_matmul, found.work.flops_total) == (matmul, total)
    assert (found.traffic.external, found.traffic.internal) == (external, internal)
    assert found.traffic.op_by_op == external + 2 * internal


@pytest.mark.parametrize(
    ("network", "name", "gflop", "external", "internal", "intensity"),
    [
        ("resnet18", "conv1", 0.236, 3.85, 6.42, 61.3),
        ("resnet18", "layer1.0.conv1", 0.231, 1.75, 1.61, 131.8),
        ("mobilenet_v2", "features.2.expand.conv", 0.039, 5.63, 9.63, 6.85),
    ],
)
def test_single_kernels_to_the_digit(
    network: str, name: str, gflop: float, external: float, internal: float, intensity: float
) -> None:
    kernel = kernel_of(api.load(network).graph, name)
    assert round(kernel.work.flops_matmul / 1e9, 3) == gflop
    assert round(kernel.traffic.external / 1e6, 2) == external
    assert round(kernel.traffic.internal / 1e6, 2) == internal
    assert round(kernel.intensity, 2 if intensity < 10 else 1) == intensity


def test_views_move_bytes_alone_and_launch_nothing() -> None:
    found = partition_graph(api.load("resnet18").graph)
    flatten = next(k for k in found.kernels if k.name == "flatten")
    assert (flatten.traffic.external, flatten.launches) == (2 * 512 * 4, 0)
    assert (found.launches_before, found.launches_after) == (68, 31)
    assert "view" in flatten.reason


def test_statistics_of_a_batch_norm_are_not_read() -> None:
    b = Builder("norm")
    x = b.input("x", (1, 8, 4, 4))
    graph = b.finish(b.batch_norm(x, "bn"))
    (kernel,) = partition_graph(graph).kernels
    assert kernel.traffic.parameters == 2 * 8 * 4
    assert kernel.work.flops_total == 5 * 8 * 16


def test_a_second_reader_inside_adds_a_half() -> None:
    b = Builder("silu")
    x = b.input("x", (1, 8, 4, 4))
    graph = b.finish(b.silu(b.conv(x, 8, 1, name="conv")))
    (kernel,) = partition_graph(graph).kernels
    size = 8 * 16 * 4
    # The convolution's result: written once, read twice; the gate: written and read once.
    assert (kernel.traffic.internal_writes, kernel.traffic.internal_reads) == (2 * size, 3 * size)
    assert kernel.traffic.internal == 2.5 * size
    assert kernel.label == "Conv+SiLU"


def test_a_table_is_read_where_it_is_looked_up() -> None:
    b = Builder("words")
    ids = b.input("ids", (1, 5), "int64")
    graph = b.finish(b.op("Gather", b.weight("table", (1000, 16)), ids))
    (kernel,) = partition_graph(graph).kernels
    assert kernel.traffic.parameters == 5 * 16 * 4


def test_what_weights_alone_decide_is_no_operator() -> None:
    b = Builder("turned")
    x = b.input("x", (1, 7, 8))
    turned = b.op("Transpose", b.weight("w", (16, 8)), perm=(1, 0))
    graph = b.finish(b.op("MatMul", x, turned))
    found = partition_graph(graph)
    assert [operator.name for operator in found.operators] == ["matmul1"]
    assert found.traffic.parameters == 8 * 16 * 4


def test_a_lost_byte_is_an_error() -> None:
    graph = residual()
    ledger = Ledger(graph, operators_on_integers(graph))
    groups = [(i,) for i in range(len(ledger.operators))]
    whole = Traffic()
    for group in groups:
        whole += ledger.traffic_of(group)
    ledger.check(groups, whole)
    with pytest.raises(AccountingError, match="op by op"):
        ledger.check(groups, whole + Traffic(reads=1))
    with pytest.raises(AccountingError, match="exactly once"):
        ledger.check(groups[1:], whole)


GRAPH = api.load("mobilenet_v2@32x32").graph
LEDGER = Ledger(GRAPH, operators_on_integers(GRAPH))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_grouping_keeps_flops_and_bytes(data: st.DataObject) -> None:
    ledger = LEDGER
    count = len(ledger.operators)
    cuts = data.draw(st.lists(st.integers(1, count - 1), unique=True, max_size=20))
    edges = [0, *sorted(cuts), count]
    groups = [tuple(range(a, b)) for a, b in itertools.pairwise(edges)]
    whole = Traffic()
    for group in groups:
        whole += ledger.traffic_of(group)
    ledger.check(groups, whole)


@pytest.mark.parametrize("level", [FusionLevel.PATTERN, FusionLevel.BLOCK])
@pytest.mark.parametrize(
    "name", ["vit_b16@64x64", "bert_base@16", "sd15_down_block@16x16", "unet@32x32"]
)
def test_kernels_of_a_level_hold_every_operator_once(name: str, level: FusionLevel) -> None:
    found = partition_graph(api.load(name).graph, level)
    held = sorted(o for kernel in found.kernels for o in kernel.operators)
    assert held == list(range(len(found.operators)))
    place = {o: i for i, kernel in enumerate(found.kernels) for o in kernel.operators}
    for index, readers in enumerate(found.successors):
        assert all(reader > index for reader in readers), "an order in which kernels can run"
    assert len(place) == len(found.operators)
