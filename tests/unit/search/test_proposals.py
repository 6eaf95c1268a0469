"""Proposals beside the plainest: with less of the scratchpads, and data movement on the cores."""

import pytest

from support.networks import pair
from tilewright.frontend.builder import Builder
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.planning import prepared
from tilewright.search.candidates.candidate import Candidates
from tilewright.search.candidates.network import Network
from tilewright.search.fusion import Fusion

pytestmark = pytest.mark.quick


def heads(rows: int = 64, wide: int = 128) -> Graph:
    """Two heads of a product, and another product of them."""
    b = Builder("heads")
    x = b.input("x", (1, rows, wide))
    mixed = b.heads(b.linear(x, wide, name="first"), 2)
    second = b.weight("second", (1, 2, wide // 2, rows))
    return b.finish(b.op("MatMul", mixed, second, name="last"))


def test_views_of_what_nobody_else_reads_go_with_their_maker_on_the_cores() -> None:
    machine = load_machine("npu-2.7")
    network = Network(prepared(heads(), machine, machine.dtype).graph, machine, machine.dtype)
    kinds = [
        [network.graph.nodes[node].kind for node in unit.nodes]
        for unit in network.moving_on_cores().units
    ]
    assert any({"MatMul", "Reshape", "Transpose"} <= set(row) for row in kinds)
    assert any(unit.views for unit in network.units)


def test_two_heads_are_no_error_on_six_cores_where_they_do_not_fit() -> None:
    machine = load_machine("npu-4.0").with_memory(64 << 10)
    graph = prepared(heads(32, 256), machine, machine.dtype).graph
    candidates = Candidates(Network(graph, machine, machine.dtype).moving_on_cores())
    assert len(machine.cores) == 6
    assert candidates.candidate(0b11) is None


def test_groups_are_planned_with_a_share_of_the_scratchpads() -> None:
    machine = load_machine("npu-2.7").with_memory(512 << 10)
    graph = prepared(pair(3, 64, 56), machine, machine.dtype).graph
    candidates = Candidates(Network(graph, machine, machine.dtype))
    whole, less = candidates.candidate(3), candidates.within(0.6).candidate(3)
    assert whole is not None and less is not None
    assert less.bytes <= 0.6 * machine.cores[0].memory.usable < whole.bytes


def test_the_best_proposal_is_made_with_less_too_and_the_best_of_all_is_a_start() -> None:
    machine = load_machine("npu-2.7").with_memory(768 << 10)
    search = Fusion(prepared(heads(), machine, machine.dtype).graph, machine, machine.dtype, "m")
    search.propose()
    assert any("part of the scratchpads" in trial.name for trial in search.trials)
    assert search.best() in search.starts
