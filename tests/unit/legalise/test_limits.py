"""The checker that planners ask, tile by tile; and a network of the zoo, legalised whole."""

from dataclasses import replace

import pytest

from support.builder import GraphBuilder
from support.compare import assert_same, run_graph
from tilewright.frontend import zoo
from tilewright.frontend.weights import seeded, seeded_inputs
from tilewright.graph.graph import Graph
from tilewright.legalise import array_limits, fits_limits, legalise
from tilewright.machine import Machine, load_machine
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import Split

NPU = load_machine("npu-2.7")


def broken_by_tile(graph: Graph, *splits: Split, machine: Machine = NPU) -> list[list[str]]:
    """The broken limits of every tile of a network of one node."""
    group = cut_group(graph, [0], splits)
    (tiled,) = group.ops
    return [
        [check.limit for check in fits_limits(tiled.op, group.tile(tiled, index), machine)]
        for index in group.indices
    ]


@pytest.mark.quick
def test_pads_bind_only_the_tiles_at_the_border() -> None:
    b = GraphBuilder()
    b.add("Conv", b.input(1, 16, 20, 20), b.weight(16, 16, 3, 3), pads=[2, 1, 1, 1])
    assert broken_by_tile(b.graph(), Split(2, 3)) == [["pads"], [], []]


@pytest.mark.quick
def test_a_smaller_tile_meets_the_dimension() -> None:
    b = GraphBuilder()
    b.add("MatMul", b.input(4, 16), b.weight(16, 10240))
    graph = b.graph()
    assert broken_by_tile(graph) == [["dimension"]]
    assert broken_by_tile(graph, Split(1, 2)) == [[], []]


def test_rows_of_a_product_are_positions() -> None:
    b = GraphBuilder()
    b.add("MatMul", b.input(16384, 16), b.weight(16, 16))
    assert broken_by_tile(b.graph()) == [[]]  # 128 x 128
    b = GraphBuilder()
    b.add("MatMul", b.input(16411, 16), b.weight(16, 16))  # a prime: the last row is filled up
    assert broken_by_tile(b.graph()) == [[]]


def test_limits_of_the_array_do_not_bind_the_vector_engine() -> None:
    b = GraphBuilder()
    b.add("AveragePool", b.input(1, 16, 26, 26), kernel_shape=[13, 13])
    graph = b.graph()
    assert broken_by_tile(graph, Split(2, 2)) == [[], []]
    (tiled,) = cut_group(graph, [0], ()).ops
    assert [c.limit for c in array_limits(tiled.op, None, NPU) if not c.met] == ["kernel"]
    cores = tuple(
        replace(core, engines=tuple(e for e in core.engines if e.kind == "matrix"))
        for core in NPU.cores
    )
    assert broken_by_tile(graph, machine=replace(NPU, cores=cores)) == [["kernel"]]


def test_element_wise_work_has_no_limits() -> None:
    b = GraphBuilder()
    b.add("Relu", b.input(1, 3, 4, 9000))
    assert broken_by_tile(b.graph()) == [[]]
    assert legalise(b.graph(), NPU).steps == ()


def test_the_patches_of_a_vision_transformer_keep_their_numbers() -> None:
    graph = zoo.build("vit_b16@32x32")
    first = next(i for i, node in enumerate(graph.nodes) if node.kind == "Conv")
    nodes = graph.nodes[: first + 1]
    read = {name for node in nodes for name in node.reads}
    constants = {name: c for name, c in graph.constants.items() if name in read}
    kept = {*graph.inputs, *constants, *(name for node in nodes for name in node.writes)}
    head = replace(
        graph,
        nodes=nodes,
        outputs=nodes[-1].outputs,
        constants=constants,
        types={name: kind for name, kind in graph.types.items() if name in kept},
    )
    head = seeded(head, 0)
    legal = legalise(head, NPU, "fp16")
    assert "space to depth" in legal.steps[0].what
    feeds = seeded_inputs(head, 0)
    assert_same(run_graph(legal.graph, feeds), run_graph(head, feeds))


def test_what_no_rewrite_is_for_is_called_illegal() -> None:
    b = GraphBuilder()
    b.add("ConvTranspose", b.input(1, 16, 4, 4), b.weight(16, 16, 13, 13))
    result = legalise(b.graph(), NPU)
    assert [(step.limit, step.outcome) for step in result.steps] == [("kernel", "illegal")]
    assert str(result.steps[0]).endswith("kernel 13 is beyond 11: no rewrite for it")
