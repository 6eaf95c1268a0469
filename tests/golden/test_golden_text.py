"""Printed graphs compared with the files beside this one.

After a change that is meant: `make golden`, then read the diff.
"""

import pytest

from support.builder import GraphBuilder
from support.golden import check_golden
from support.graph_text import print_graph
from tilewright.graph.graph import Graph
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import Halo, Split
from tilewright.tiling.rewrite import tile_graph

pytestmark = [pytest.mark.quick, pytest.mark.golden]


def residual_block() -> Graph:
    """Two convolutions and the input added to their result."""
    b = GraphBuilder()
    x = b.input(1, 2, 8, 4, name="x")
    y = b.add("Conv", x, b.weight(4, 2, 3, 3), b.weight(4), pads=[1] * 4, name="first")
    y = b.add("Conv", y, b.weight(2, 4, 3, 3), pads=[1] * 4, name="second")
    b.add("Add", y, x, name="sum")
    return b.graph()


def test_residual_block_untiled() -> None:
    check_golden("residual_block.txt", print_graph(residual_block()))


@pytest.mark.parametrize("halo", list(Halo), ids=lambda halo: halo.value)
def test_residual_block_in_two_tiles(halo: Halo) -> None:
    graph = residual_block()
    tiles = cut_group(graph, range(3), (Split(2, 2, halo),))
    text = print_graph(tile_graph(graph, [tiles]))
    check_golden(f"residual_block_h2_{halo.value}.txt", text)
