"""Tile tables to the digit: the stem of SYSTEM.md, the chain of four convolutions, line buffers."""

import pytest

from support.builder import GraphBuilder, feeds_of
from support.compare import check_tiled, run_graph
from support.networks import inner_and_outer
from tilewright.geometry.interval import Interval
from tilewright.graph.graph import Graph
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import Halo, Split
from tilewright.tiling.halo import fresh_part, written_part
from tilewright.tiling.rewrite import tile_graph

pytestmark = pytest.mark.quick


def stem() -> Graph:
    b = GraphBuilder()
    b.add("Conv", b.input(1, 3, 224, 224), b.weight(8, 3, 7, 7), strides=[2, 2], pads=[2, 2, 3, 3])
    return b.graph()


def chain(count: int, rows: int, columns: int = 6, channels: int = 2) -> Graph:
    b = GraphBuilder()
    x = b.input(1, channels, rows, columns)
    for number in range(count):
        x = b.add("Conv", x, b.weight(channels, channels, 3, 3), pads=[1] * 4, name=f"l{number}")
    return b.graph()


@pytest.mark.parametrize(
    "index, output, rows, shape, pads",
    [
        (0, (0, 28), (0, 59), (1, 3, 59, 224), (2, 0, 2, 3)),
        (1, (28, 56), (54, 115), (1, 3, 61, 224), (0, 0, 2, 3)),
        (2, (56, 84), (110, 171), (1, 3, 61, 224), (0, 0, 2, 3)),
        (3, (84, 112), (166, 224), (1, 3, 58, 224), (0, 3, 2, 3)),
    ],
)
def test_stem_table(
    index: int,
    output: tuple[int, int],
    rows: tuple[int, int],
    shape: tuple[int, ...],
    pads: tuple[int, int, int, int],
) -> None:
    tiles = cut_group(stem(), [0], (Split(2, 4),))
    (tiled,) = tiles.ops
    tile = tiles.tile(tiled, (index,))
    assert tile is not None
    assert tile.output[2] == Interval(*output)
    assert tile.output.shape == (1, 8, 28, 112)
    region, reaches = tile.input_box(0), tile.inputs[0]
    assert region is not None and reaches is not None
    assert region[2] == Interval(*rows)
    assert region.shape == shape
    assert (reaches[2].before, reaches[2].after, reaches[3].before, reaches[3].after) == pads
    (step,) = tiled.spec.tile(tiled.op, tile)
    top, bottom, left, right = pads
    assert step.attributes["pads"] == (top, left, bottom, right)
    assert step.attributes["strides"] == (2, 2)
    assert step.attributes["kernel_shape"] == (7, 7)


def test_stem_recomputes_nothing() -> None:
    assert cut_group(stem(), [0], (Split(2, 4),)).recompute_ratio == 0


def test_chain_of_four_needs_2_3_4_rows() -> None:
    graph = chain(4, rows=8)
    tiles = cut_group(graph, range(4), (Split(2, 8),))
    first = {name: tiles.values[name].box((0,))[2].length for name in ("l0", "l1", "l2", "l3")}
    assert first == {"l3": 1, "l2": 2, "l1": 3, "l0": 4}
    middle = {name: tiles.values[name].box((4,))[2] for name in ("l0", "l1", "l2", "l3")}
    assert middle["l3"] == Interval(4, 5)
    assert middle["l2"] == Interval(3, 6)
    assert middle["l1"] == Interval(2, 7)
    assert middle["l0"] == Interval(1, 8)
    inner = cut_group(graph, range(2), (Split(2, 8),))
    assert inner.values["l0"].box((0,))[2] == Interval(0, 2)


def test_chain_recompute_ratio_counts_the_halo() -> None:
    """Two convolutions of 8 rows in 2 tiles: layer 0 computes 5 + 5 rows, layer 1 4 + 4."""
    tiles = cut_group(chain(2, rows=8), range(2), (Split(2, 2),))
    assert tiles.computed("l0") == 2 * 10 * 6
    assert tiles.recompute_ratio == pytest.approx(2 / 16)


def test_cache_keeps_two_rows_per_convolution() -> None:
    """Single rows, 3x3 kernels: two rows of each inner layer wait for the next tile."""
    graph = chain(4, rows=8)
    tiles = cut_group(graph, range(4), (Split(2, 8, Halo.CACHE),))
    assert tiles.recompute_ratio == 0
    assert tiles.fallbacks == ()
    row = 2 * 6 * 4  # channels x columns x bytes
    assert tiles.line_buffer_bytes == 3 * 2 * row
    fresh = [tiles.values["l0"].compute_box((i,))[2] for i in range(8)]
    assert fresh[:2] == [Interval(0, 4), Interval(4, 5)]
    assert sum(interval.length for interval in fresh) == 8
    feeds = feeds_of(graph)
    check_tiled(graph, [tiles], feeds, run_graph(graph, feeds))


def test_cache_in_two_dimensions_keeps_less_than_the_tensors() -> None:
    graph = chain(3, rows=16, columns=16)
    tiles = cut_group(graph, range(3), (Split(2, 4, Halo.CACHE), Split(3, 4, Halo.CACHE)))
    assert tiles.recompute_ratio == 0
    # Per inner value: 2 rows of 16 columns for the next band, 2 columns of one tile's rows.
    tallest = {"l0": 6, "l1": 6}
    expected = sum(2 * 4 * (2 * 16 + 2 * rows) for rows in tallest.values())
    assert tiles.line_buffer_bytes == expected
    assert tiles.line_buffer_bytes < 2 * graph.types["l0"].bytes
    feeds = feeds_of(graph)
    check_tiled(graph, [tiles], feeds, run_graph(graph, feeds))


def test_mixed_halo_policies() -> None:
    graph = chain(3, rows=12, columns=12)
    feeds = feeds_of(graph)
    expected = run_graph(graph, feeds)
    for first, second in ((Halo.CACHE, Halo.RECOMPUTE), (Halo.RECOMPUTE, Halo.CACHE)):
        tiles = cut_group(graph, range(3), (Split(2, 3, first), Split(3, 3, second)))
        assert 0 < tiles.recompute_ratio < 1
        check_tiled(graph, [tiles], feeds, expected)


def test_inner_value_used_outside_is_written_once() -> None:
    """Each tile writes the rows no earlier one wrote; the last completes it."""
    graph = inner_and_outer(8, 6)
    tiles = cut_group(graph, range(2), (Split(2, 4),))
    written = [tiles.values["inner"].write_box((i,)) for i in range(4)]
    assert [box[2] for box in written if box] == [
        Interval(0, 3),
        Interval(3, 5),
        Interval(5, 7),
        Interval(7, 8),
    ]
    assert [tiles.values["outer"].write_box((i,))[2] for i in range(4)] == [  # type: ignore[index]
        Interval(0, 2),
        Interval(2, 4),
        Interval(4, 6),
        Interval(6, 8),
    ]


def test_fresh_part_is_what_no_earlier_tile_had() -> None:
    have = (Interval(0, 4), Interval(2, 6), Interval(6, 6), Interval(5, 9))
    assert fresh_part(have) == (Interval(0, 4), Interval(4, 6), Interval(6, 6), Interval(6, 9))
    assert fresh_part(have, {2}) == (Interval(0, 4), Interval(4, 6), *have[2:])
    assert fresh_part((Interval(4, 8), Interval(0, 4))) is None
    assert fresh_part((Interval(4, 8), Interval(0, 4)), {1}) == (Interval(4, 8), Interval(0, 4))


def test_written_part_completes_the_value() -> None:
    need = (Interval(0, 3), Interval(1, 5), Interval(4, 6))
    assert written_part(need, 9) == (Interval(0, 3), Interval(3, 5), Interval(5, 9))


def test_aligned_split_of_a_grouped_convolution() -> None:
    """Two groups of 3 filters: cutting in 4 gives the 2 tiles that exist."""
    b = GraphBuilder()
    b.add("Conv", b.input(1, 4, 5, 5), b.weight(6, 2, 3, 3), group=2)
    tiles = cut_group(b.graph(), [0], (Split(1, 4),))
    assert tiles.counts == (2,)
    (tiled,) = tiles.ops
    tile = tiles.tile(tiled, (1,))
    assert tile is not None
    assert tile.output[1] == Interval(3, 6)
    assert tile.inputs[0][1].interval == Interval(2, 4)  # type: ignore[index]
    (step,) = tiled.spec.tile(tiled.op, tile)
    assert step.attributes["group"] == 1


def test_tiled_graph_shares_slices_and_weights() -> None:
    """Rows are cut, not channels: every tile uses the very same weight."""
    graph = chain(2, rows=8)
    tiled = tile_graph(graph, [cut_group(graph, range(2), (Split(2, 2),))])
    weights = {node.inputs[1] for node in tiled.nodes if node.kind == "Conv"}
    assert weights == {node.inputs[1] for node in graph.nodes}
    assert [node.kind for node in tiled.nodes].count("Conv") == 4
