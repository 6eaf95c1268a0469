"""A tiled network against the original: structure, claimed types, and numbers in onnxruntime."""

from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.errors import ModelError
from tilewright.execute.runtime import run
from tilewright.frontend.infer import Inference
from tilewright.frontend.save import serialize
from tilewright.graph.graph import Array, Graph
from tilewright.graph.kernels import run_step
from tilewright.graph.verify import verify
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import Halo, Split
from tilewright.tiling.group import GroupTiles
from tilewright.tiling.rewrite import tile_graph

TOLERANCE = 1e-5


def run_graph(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The network's outputs in onnxruntime."""
    return run(serialize(graph), feeds)


def run_kernels(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The network's outputs by our own kernels, operator by operator: for networks that planners
    know and no file can hold, with operators newer than the operator set."""
    values: dict[str, Array] = dict(feeds)
    values |= {name: c.data for name, c in graph.constants.items() if c.data is not None}
    for node in graph.nodes:
        given = [values[name] if name else None for name in node.inputs]
        made = run_step(node.kind, node.attributes, given, graph.opset, len(node.outputs))
        values |= dict(zip(node.outputs, made, strict=True))
    return {name: values[name] for name in graph.outputs}


def runs_untiled(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array] | None:
    """The outputs, or None where onnxruntime refuses the network or departs from the standard's
    shapes."""
    try:
        results = run_graph(graph, feeds)
    except ModelError:
        return None
    except Exception as error:
        if "onnxruntime" in type(error).__module__:
            return None
        raise
    fits = all(result.shape == graph.types[name].shape for name, result in results.items())
    return results if fits else None


def assert_same(actual: Mapping[str, Array], expected: Mapping[str, Array], steps: int = 0) -> None:
    """Integers equal (or so many steps apart); floats within 1e-5 of the largest."""
    assert list(actual) == list(expected)
    for name, want in expected.items():
        got = actual[name]
        assert got.dtype == want.dtype, name
        assert got.shape == want.shape, name
        if steps and not np.issubdtype(want.dtype, np.floating):
            assert np.abs(got.astype(np.int64) - want.astype(np.int64)).max() <= steps, name
            continue
        if not np.issubdtype(want.dtype, np.floating):
            np.testing.assert_array_equal(got, want, err_msg=name)
            continue
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=name)
        finite = np.isfinite(want)
        np.testing.assert_array_equal(got[~finite], want[~finite], err_msg=name)
        if finite.any():
            error = np.abs(got[finite] - want[finite]).max()
            scale = np.abs(want[finite]).max()
            assert error <= TOLERANCE * scale, f"{name}: error {error}, largest {scale}"


def assert_claimed_types(graph: Graph) -> None:
    """The types a rewritten graph claims are those that inference finds again."""
    inference = Inference(graph.opsets, {})
    for name in graph.inputs:
        inference.types[name] = graph.types[name]
    for name, constant in graph.constants.items():
        inference.constant(name, constant)
    for node in graph.nodes:
        inference.add(node)
        for name in node.writes:
            assert graph.types.get(name) == inference.types.get(name), f"{node.kind} {name}"


def assert_written_once(tiles: GroupTiles) -> None:
    """The written parts of every value the group gives out make it up exactly once."""
    for name in tiles.outputs:
        count = np.zeros(tiles.graph.types[name].shape, dtype=np.int64)
        value = tiles.values[name]
        assert value.write is not None
        driven = {cut.dim for cut in value.have}
        for index in tiles.indices:
            # A value that a grid dimension does not drive is written by its first tile.
            if any(i for dim, i in enumerate(index) if dim not in driven):
                continue
            box = value.write_box(index)
            assert box is not None
            count[box.slices()] += 1
            assert value.box(index).covers(box), f"{name} {index}: writes more than it has"
        assert count.min() == count.max() == 1, f"{name} is written {count.min()}-{count.max()} x"


def check_tiled(
    graph: Graph,
    groups: Sequence[GroupTiles],
    feeds: Mapping[str, Array],
    expected: Mapping[str, Array],
) -> Graph:
    """Rewrite with these groups and compare everything; gives the tiled graph."""
    for tiles in groups:
        assert_written_once(tiles)
    tiled = tile_graph(graph, groups)
    verify(tiled)
    assert_claimed_types(tiled)
    assert_same(run_graph(tiled, feeds), expected)
    return tiled


def check_split(graph: Graph, feeds: Mapping[str, Array], **parts: int) -> None:
    """Tile the whole graph (`axis2=3` cuts axis 2 in 3) under both halo policies and compare."""
    expected = run_graph(graph, feeds)
    for halo in Halo:
        splits = tuple(Split(int(k.removeprefix("axis")), n, halo) for k, n in parts.items())
        tiles = cut_group(graph, range(len(graph.nodes)), splits)
        check_tiled(graph, [tiles], feeds, expected)
