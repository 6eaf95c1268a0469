"""Data movement inside a group: another look at what the tile holds, where rows stay rows, or at
what it ends in, where that can be written at once; else a copy on a core."""

from collections.abc import Callable

import numpy as np
import pytest

from support.builder import GraphBuilder, feeds_of
from tilewright.execute.runtime import run
from tilewright.execute.vm import VirtualMachine
from tilewright.frontend.save import serialize
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.planning import prepared
from tilewright.program.lower import lowered
from tilewright.program.program import Compute
from tilewright.tiling.grid import Split

pytestmark = pytest.mark.quick

MOVES = {"Transpose", "Reshape", "Split"}


def tokens_to_image(channels: int) -> Graph:
    """Rows of channels, position by position, become an image that a convolution reads."""
    b = GraphBuilder()
    y = b.add("Relu", b.input(1, 64, channels))
    y = b.add("Transpose", y, perm=(0, 2, 1))
    y = b.add("Reshape", y, b.constant([1, channels, 8, 8]))
    return b.graph(b.add("Conv", y, b.weight(16, channels, 3, 3), pads=(1, 1, 1, 1)))


def heads(transposed: bool) -> Graph:
    """Rows of channels become heads; their product with others, read by columns or by rows."""
    b = GraphBuilder()
    y = b.add("Reshape", b.add("Relu", b.input(1, 24, 64)), b.constant([1, 24, 4, 16]))
    y = b.add("Transpose", y, perm=(0, 2, 3, 1) if transposed else (0, 2, 1, 3))
    inner = 24 if transposed else 16
    return b.graph(b.add("MatMul", y, b.weight(1, 4, inner, 32)))


def heads_joined(width: int, read_twice: bool = False) -> Graph:
    """Four heads become rows of channels, which no view of them is: they are written as such, if
    nothing else reads them."""
    b = GraphBuilder()
    made = b.add("MatMul", b.input(1, 4, 24, width), b.weight(1, 1, width, width))
    y = b.add("Reshape", b.add("Transpose", made, perm=(0, 2, 1, 3)), b.constant([24, 4 * width]))
    y = b.add("MatMul", y, b.weight(4 * width, 32))
    return b.graph(y, b.add("Sigmoid", made)) if read_twice else b.graph(y)


def channels_apart(first: int) -> Graph:
    """Some channels of an image."""
    b = GraphBuilder()
    y = b.add("Relu", b.input(1, 64, 6, 6))
    one = b.add("Split", y, b.constant([first, 64 - first]), outputs=2, axis=1)
    parts = ((one, first), (f"{one}.1", 64 - first))
    return b.graph(b.add("Add", *[b.add("Conv", y, b.weight(8, n, 1, 1)) for y, n in parts]))


def moved_twice() -> Graph:
    """No row stays one: a single copy does what two operators ask for."""
    b = GraphBuilder()
    y = b.add("Transpose", b.add("Relu", b.input(1, 12, 40)), perm=(0, 2, 1))
    y = b.add("Reshape", y, b.constant([1, 8, 60]))
    return b.graph(b.add("MatMul", y, b.weight(60, 32)))


@pytest.mark.parametrize(
    ("network", "splits", "copies"),
    [
        (lambda: tokens_to_image(32), (), set()),
        (lambda: tokens_to_image(32), (Split(2, 4),), set()),  # whole rows of the image
        (lambda: tokens_to_image(32), (Split(3, 4),), {"Transpose", "Reshape"}),  # once for all
        (lambda: tokens_to_image(24), (), set()),  # written as arrays read it: channels in sixteens
        (lambda: tokens_to_image(24), (Split(3, 4),), {"Transpose", "Reshape"}),
        (lambda: heads(transposed=False), (Split(1, 2),), set()),
        (lambda: heads(transposed=True), (), {"Transpose"}),
        (lambda: heads_joined(16), (), set()),
        (lambda: heads_joined(20), (Split(0, 3),), set()),
        (lambda: heads_joined(16, read_twice=True), (), {"Reshape"}),
        (lambda: channels_apart(32), (Split(2, 2),), set()),
        (lambda: channels_apart(24), (), {"Split"}),
        (moved_twice, (), {"Reshape"}),
    ],
)
def test_only_what_rows_do_not_survive_is_copied(
    network: Callable[[], Graph], splits: tuple[Split, ...], copies: set[str]
) -> None:
    machine, original = load_machine("npu-2.7"), network()
    graph = prepared(original, machine, machine.dtype).graph
    group = GroupPlan(tuple(node.name for node in graph.nodes), splits, 0 if splits else None)
    placed = lowered(graph, machine, Plan("net", machine.name, machine.dtype, (group,), ()))
    moves = {node.name: node.kind for node in graph.nodes if node.kind in MOVES}
    done = {t.node for t in placed.program.tasks if isinstance(t.work, Compute)}
    assert {moves[name] for name in done & moves.keys()} == copies

    feeds = feeds_of(original)
    weights = {n: c.data for n, c in graph.constants.items() if c.data is not None}
    outputs = VirtualMachine(placed, machine, graph.opset).run(feeds, weights).outputs
    for name, expected in run(serialize(original), feeds).items():
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-4, atol=1e-4)
