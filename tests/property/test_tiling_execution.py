"""Tiled execution equals untiled: random networks, groups and grids in onnxruntime.

`TILEWRIGHT_EXAMPLES=20 pytest tests/property` searches twenty times as long.
"""

import os
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.builder import GraphBuilder, feeds_of
from support.compare import check_tiled, runs_untiled
from support.strategies import (
    ALL,
    JOINS,
    LAYOUT,
    OTHERS,
    QUANTISED,
    WINDOWS,
    Operator,
    conv3,
    cuttings,
    networks,
)
from tilewright.errors import TilingError
from tilewright.graph.graph import Graph
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import Halo, Split
from tilewright.tiling.group import GroupTiles

MORE = int(os.environ.get("TILEWRIGHT_EXAMPLES", "1"))
IMAGES = ((1, 4, 9, 8), (2, 3, 7, 6), (1, 2, 12, 5))
SEQUENCES = ((1, 2, 12), (2, 4, 9))


def check_work(tiles: GroupTiles) -> None:
    """The counts are those of the tiles; with every halo kept, nothing is computed twice."""
    graph = tiles.graph
    kept = all(split.halo is Halo.CACHE for split in tiles.splits) and not tiles.fallbacks
    for name, value in tiles.values.items():
        boxes = (box.size for i in tiles.indices if (box := value.own_box(i)) is not None)
        computed = sum(boxes)
        assert tiles.computed(name) == computed
        if kept:
            assert computed <= graph.types[name].size, f"{name} is computed twice"
    if kept:
        assert tiles.recompute_ratio <= 0  # below 0 where a slice leaves rows out
    held = sum(graph.types[name].bytes for name in tiles.values)
    assert tiles.line_buffer_bytes <= held * len(tiles.splits)


def check(data: st.DataObject, graph: Graph, halo: Halo | None = None) -> None:
    """Cut one or two groups of the network and compare."""
    cutting = data.draw(cuttings(graph, halo))
    assume(cutting is not None)
    groups = [cutting.tiles()]
    other = data.draw(cuttings(graph, halo, frozenset(cutting.members)))
    if other is not None:
        groups.append(other.tiles())
    for tiles in groups:
        check_work(tiles)
    feeds = feeds_of(graph)
    expected = runs_untiled(graph, feeds)
    assume(expected is not None)
    try:
        check_tiled(graph, groups, feeds, expected)
    except TilingError as error:
        assume("circle" not in str(error))
        raise


def family(operators: tuple[Operator, ...], examples: int, **options: object) -> Callable[[], None]:
    """A property over networks of these operators."""

    @settings(max_examples=examples * MORE)
    @given(data=st.data())
    def property_(data: st.DataObject) -> None:
        check(data, data.draw(networks(operators, **options)))

    return property_


test_windows = family((*WINDOWS, *JOINS), 80, shapes=IMAGES)
test_one_dimension = family((*WINDOWS, *JOINS), 40, shapes=SEQUENCES)
test_three_dimensions = family(WINDOWS, 15, nodes=3, shapes=((1, 2, 4, 5, 4),))
test_layout = family((*LAYOUT, *JOINS, conv3), 80)
test_products_and_norms = family((*OTHERS, *JOINS, *LAYOUT[:5]), 50)
test_quantised = family(QUANTISED, 50, dtype="uint8", shapes=IMAGES)
test_everything = family(ALL, 80, nodes=10)
test_quickly = pytest.mark.quick(family(ALL, 15, nodes=6))


@settings(max_examples=40 * MORE)
@given(data=st.data())
def test_halo_kept(data: st.DataObject) -> None:
    """Nothing twice, and fewer rows kept than there are."""
    check(data, data.draw(networks((*WINDOWS, *JOINS), shapes=IMAGES)), Halo.CACHE)


@settings(max_examples=25 * MORE)
@given(data=st.data())
def test_residual_concat_and_strided_skip_in_one_group(data: st.DataObject) -> None:
    """The whole network is one group, with all three kinds of crossing, under both policies."""
    integer = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    b = GraphBuilder(seed=integer(0, 3))
    channels, rows, columns = integer(1, 3), integer(6, 14), integer(5, 9)
    x = b.input(1, channels, rows, columns)

    def same(source: str, filters: int) -> str:
        """A convolution that keeps the size: odd kernels, dilated or not, pads to match."""
        kernel, dilation = 2 * integer(0, 2) + 1, integer(1, 2)
        pad = (kernel - 1) * dilation // 2
        weight = b.weight(filters, b.shape(source)[1], kernel, kernel)
        return b.add("Conv", source, weight, pads=[pad] * 4, dilations=[dilation] * 2)

    first = same(x, channels)
    added = b.add("Add", same(b.add("Relu", first), channels), first)
    joined = b.add("Concat", added, x, first, axis=1)
    stride = integer(2, 3)
    main = b.add(
        "Conv", joined, b.weight(2, 3 * channels, 3, 3), pads=[1] * 4, strides=[stride] * 2
    )
    skip = b.add("Conv", joined, b.weight(2, 3 * channels, 1, 1), strides=[stride] * 2)
    last = b.add("Add", main, skip)
    graph = b.graph(last, *([added] if data.draw(st.booleans()) else []))
    feeds = feeds_of(graph)
    expected = runs_untiled(graph, feeds)
    assert expected is not None
    extents = dict(enumerate(b.shape(last)))
    axes = data.draw(st.sampled_from([(2,), (3,), (2, 3), (3, 2)]))
    parts = [integer(2, min(4, extents[axis])) for axis in axes]
    for halos in ((Halo.RECOMPUTE,) * 2, (Halo.CACHE,) * 2, (Halo.CACHE, Halo.RECOMPUTE)):
        splits = tuple(Split(a, n, h) for a, n, h in zip(axes, parts, halos, strict=False))
        tiles = cut_group(graph, range(len(graph.nodes)), splits)
        check_work(tiles)
        check_tiled(graph, [tiles], feeds, expected)
