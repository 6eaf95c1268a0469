"""Regions against element-wise dependencies: never too small, larger only for a named reason."""

import os

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.compare import assert_written_once
from support.dependencies import POOLS, backwards, hull, needed, relation, understood
from support.strategies import (
    JOINS,
    Cutting,
    concat,
    conv,
    conv3,
    cuttings,
    depth_space,
    networks,
    pad,
    pool,
    reshape,
    residual,
    slice_,
    split,
    transpose,
    transposed,
)
from tilewright.geometry.box import Box
from tilewright.geometry.interval import Interval
from tilewright.graph.graph import Graph, Node
from tilewright.tiling.grid import Halo
from tilewright.tiling.group import GroupTiles

MORE = int(os.environ.get("TILEWRIGHT_EXAMPLES", "1"))  # times as many, for a longer search
SMALL = ((1, 2, 7, 6), (2, 4, 5, 3), (1, 2, 11))
MOVES = (slice_, pad, transpose, reshape, split, depth_space, concat)


def data_operands(graph: Graph, node: Node) -> list[int]:
    """Inputs that are computed, not constant."""
    return [k for k, name in enumerate(node.inputs) if name and name not in graph.constants]


def window_interval(node: Node, graph: Graph, out: Interval, axis: int) -> Interval:
    """SYSTEM.md's formula for one spatial axis, clipped to the input."""
    spatial = axis - 2
    if node.kind in POOLS:
        kernel = node.attributes["kernel_shape"][spatial]
    else:
        kernel = graph.types[node.inputs[1]].shape[axis]
    rank = len(graph.types[node.inputs[0]].shape) - 2
    stride = node.attributes.get("strides", (1,) * rank)[spatial]
    dilation = node.attributes.get("dilations", (1,) * rank)[spatial]
    before = node.attributes.get("pads", (0,) * (2 * rank))[spatial]
    start = out.start * stride - before
    stop = (out.stop - 1) * stride + (kernel - 1) * dilation + 1 - before
    return Interval(start, stop).clip(graph.types[node.inputs[0]].shape[axis])


def has_holes(node: Node, graph: Graph) -> bool:
    """Whether neighbouring windows, or the taps of one, leave out input rows; or, transposed,
    output rows that no input reaches."""
    if node.kind not in POOLS | {"Conv", "ConvTranspose"}:
        return False
    kernel = node.attributes.get("kernel_shape") or graph.types[node.inputs[1]].shape[2:]
    ones = (1,) * len(kernel)
    dilations = node.attributes.get("dilations", ones)
    strides = node.attributes.get("strides", ones)
    padded = node.kind == "ConvTranspose" and any(node.attributes.get("output_padding", ()))
    return padded or any(d > 1 or s > k for k, s, d in zip(kernel, strides, dilations, strict=True))


def check_operator_tiles(tiles: GroupTiles) -> None:
    """Every tile of every operator against its own dependencies."""
    graph = tiles.graph
    for tiled in tiles.ops:
        node = tiled.node
        if not understood(node):
            continue
        relations = {
            (output, k): relation(graph, node, output, k)
            for output, name in enumerate(node.outputs)
            for k in data_operands(graph, node)
            if name in tiles.values
        }
        for index in tiles.indices:
            tile = tiles.tile(tiled, index)
            if tile is None:
                continue
            for k in data_operands(graph, node):
                shape = graph.types[node.inputs[k]].shape
                mask = np.zeros(shape, dtype=bool)
                for output, box in enumerate(tile.outputs):
                    if box is not None:
                        result = graph.types[node.outputs[output]].shape
                        mask |= needed(relations[output, k], box, result, shape)
                region = tile.input_box(k)
                assert region is not None
                true = hull(mask)
                where = f"{node.kind} {index}: region {region}, needs {true}"
                assert region.covers(true), where
                if mask.any() and not has_holes(node, graph):
                    assert region == true, where
                if node.kind in POOLS | {"Conv"} and "auto_pad" not in node.attributes:
                    for axis in range(2, len(shape)):
                        assert region[axis] == window_interval(
                            node, graph, tile.output[axis], axis
                        ), where


def check_inner_values(tiles: GroupTiles) -> None:
    """What a tile reads of a value it can read; what it writes it has."""
    for tiled in tiles.ops:
        for index in tiles.indices:
            tile = tiles.tile(tiled, index)
            for k, name in enumerate(tiled.node.inputs if tile is not None else ()):
                box = tile.input_box(k)
                if box is None or box.empty:
                    continue
                if name in tiles.values:
                    assert tiles.values[name].box(index).covers(box), f"{name} {index}"
                elif name in tiles.inputs:
                    given = Box(tuple(cut.at(index) for cut in tiles.inputs[name]))
                    assert given.covers(box), f"{name} {index}"


def marked(tiles: GroupTiles, index: tuple[int, ...]) -> dict[str, np.ndarray]:
    """What one tile needs of each value, propagated element by element from what it writes."""
    graph = tiles.graph
    masks: dict[str, np.ndarray] = {}

    def mark(name: str, mask: np.ndarray) -> None:
        masks[name] = masks[name] | mask if name in masks else mask

    for name in tiles.outputs:
        box = tiles.values[name].write_box(index)
        mask = np.zeros(graph.types[name].shape, dtype=bool)
        mask[box.slices()] = True
        mark(name, mask)
    for tiled in reversed(tiles.ops):
        for output, name in enumerate(tiled.node.outputs):
            if name not in masks:
                continue
            for k in data_operands(graph, tiled.node):
                shape = graph.types[tiled.node.inputs[k]].shape
                rule = relation(graph, tiled.node, output, k)
                mark(tiled.node.inputs[k], backwards(rule, masks[name], shape))
    return masks


def check_group_regions(tiles: GroupTiles, exact: bool) -> None:
    """With recomputation each tile stands alone: its regions hold all that its outputs need."""
    for index in tiles.indices:
        for name, mask in marked(tiles, index).items():
            cuts = tiles.values[name].have if name in tiles.values else tiles.inputs[name]
            region = Box(tuple(cut.at(index) for cut in cuts))
            true = hull(mask)
            where = f"{name} {index}: region {region}, needs {true}"
            assert region.covers(true), where
            if exact and mask.any():
                assert region == true, where


def drawn(data: st.DataObject, operators, halo: Halo | None = None, **options) -> Cutting:
    graph = data.draw(networks(operators, shapes=SMALL, **options))
    assume(all(understood(node) for node in graph.nodes))
    cutting = data.draw(cuttings(graph, halo))
    assume(cutting is not None)
    return cutting


def check_all(tiles: GroupTiles) -> None:
    assert_written_once(tiles)
    check_operator_tiles(tiles)
    check_inner_values(tiles)


@settings(max_examples=60 * MORE)
@given(data=st.data())
def test_windows_need_what_the_formula_says(data: st.DataObject) -> None:
    check_all(drawn(data, (conv, conv, transposed, pool, *JOINS[:3]), nodes=4).tiles())


@settings(max_examples=40 * MORE)
@given(data=st.data())
def test_data_movement_needs_what_it_moves(data: st.DataObject) -> None:
    check_all(drawn(data, (*MOVES, conv3), nodes=4).tiles())


@settings(max_examples=40 * MORE)
@given(data=st.data())
def test_group_regions_hold_what_outputs_need(data: st.DataObject) -> None:
    operators = (conv, transposed, pool, residual, concat, *MOVES)
    tiles = drawn(data, operators, Halo.RECOMPUTE, nodes=5).tiles()
    check_group_regions(tiles, exact=False)


@settings(max_examples=40 * MORE)
@given(data=st.data())
def test_group_regions_are_exact_without_holes(data: st.DataObject) -> None:
    """Convolutions without holes, residual adds and concats: not one row too many."""
    tiles = drawn(data, (conv3, conv3, residual, concat), Halo.RECOMPUTE, nodes=6).tiles()
    check_group_regions(tiles, exact=True)
