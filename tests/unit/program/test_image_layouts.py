"""What windows read lies channels-last, whatever the number of axes of space."""

import pytest

from support.builder import GraphBuilder
from tilewright.machine.load import load_machine
from tilewright.program.layout import Layouts

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("space", [(12,), (6, 5), (3, 4, 5)])
def test_positions_are_rows_of_aligned_channels(space: tuple[int, ...]) -> None:
    b = GraphBuilder()
    x = b.input(1, 20, *space)
    weights = b.weight(24, 20, *(1 for _ in space))
    made = b.add("Relu", b.add("Conv", x, weights), name="y")
    b.add("Conv", made, b.weight(20, 24, *(1 for _ in space)))
    graph = b.graph()
    layouts = Layouts.of(graph, load_machine("npu-2.7"), "fp16")
    _, channel, *positions = layouts.strides("y", graph.types["y"].shape, aligned=True)
    assert channel == 2
    assert positions[-1] == 64  # 24 channels of two bytes, aligned to 32 of them
    assert all(
        outer == inner * extent
        for outer, inner, extent in zip(positions, positions[1:], space[1:], strict=False)
    )


def test_tokens_behind_a_convolution_are_rows() -> None:
    """A transpose to tokens ends the image: what follows is a matrix of rows."""
    b = GraphBuilder()
    made = b.add("Conv", b.input(1, 16, 12), b.weight(16, 16, 3))
    tokens = b.add("Transpose", made, perm=(0, 2, 1), name="tokens")
    b.add("MatMul", tokens, b.weight(16, 8))
    graph = b.graph()
    layouts = Layouts.of(graph, load_machine("npu-2.7"), "fp16")
    assert "tokens" not in layouts.images
    assert layouts.strides("tokens", (1, 10, 16), aligned=True) == (320, 32, 2)
