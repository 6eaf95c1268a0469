"""Tables and JSON say the same, for tensors of every rank."""

import json
from io import StringIO

import pytest
from rich.console import Console

from support.builder import GraphBuilder
from support.networks import inner_and_outer
from tilewright.graph.graph import Graph
from tilewright.report.tiles import tiles_json, tiles_table
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import Halo, Split
from tilewright.tiling.group import GroupTiles

pytestmark = pytest.mark.quick


def text(group: GroupTiles) -> str:
    target = StringIO()
    console = Console(file=target, width=200, markup=False)
    for tiled in group.ops:
        console.print(tiles_table(group, tiled))
    return target.getvalue()


def conv(dims: int) -> Graph:
    b = GraphBuilder()
    x = b.input(1, 2, *(8,) * dims)
    b.add("Conv", x, b.weight(4, 2, *(3,) * dims), pads=[1] * (2 * dims), name="conv")
    return b.graph()


@pytest.mark.parametrize("dims, axis", [(1, 2), (2, 2), (2, 3), (3, 2), (3, 4)])
def test_pads_of_every_rank(dims: int, axis: int) -> None:
    group = cut_group(conv(dims), [0], (Split(axis, 2),))
    first, last = tiles_json(group)["tiles"]
    assert first["output"][axis] == [0, 4]
    assert first["inputs"][0]["region"][axis] == [0, 5]
    assert last["inputs"][0]["region"][axis] == [3, 8]
    assert set(first["inputs"][0]["pads"]) >= {"top", "bottom", "left", "right"}
    total = sum(first["inputs"][0]["pads"].values())
    assert total == 2 * dims - 1, "the seam has no padding"
    assert len(first["kernel"]) == dims
    assert text(group)


def test_json_is_plain_data() -> None:
    group = cut_group(conv(2), [0], (Split(2, 3, Halo.CACHE), Split(3, 2)))
    result = json.loads(json.dumps(tiles_json(group)))
    assert result["grid"] == [3, 2]
    assert result["halo"] == ["cache", "recompute"]
    assert len(result["tiles"]) == 6
    assert [tile["position"] for tile in result["tiles"]][:3] == [[0, 0], [0, 1], [1, 0]]


def test_written_parts_make_up_the_output_once() -> None:
    graph = inner_and_outer(9, 5)
    result = tiles_json(cut_group(graph, [0, 1], (Split(2, 4),)))
    for output in result["outputs"]:
        rows = [row for box in output["written"] for row in range(*box[2])]
        assert sorted(rows) == list(range(9)), output["name"]


def test_operators_without_a_window_and_with_two_inputs() -> None:
    b = GraphBuilder()
    b.add("Add", b.input(1, 2, 4, 4), b.input(1, 1, 4, 1), name="sum")
    group = cut_group(b.graph(), [0], (Split(2, 2),))
    first, _ = tiles_json(group)["tiles"]
    assert first["kernel"] is None
    assert [data["region"][2] for data in first["inputs"]] == [[0, 2], [0, 2]]
    said = text(group)
    assert "input x0" in said and "input x1" in said


def test_scalars_and_weights_of_a_matrix_product() -> None:
    b = GraphBuilder()
    b.add("MatMul", b.input(6, 4), b.weight(4, 8), name="product")
    (first, *_) = tiles_json(cut_group(b.graph(), [0], (Split(1, 4),)))["tiles"]
    (weight,) = first["weights"]
    assert weight["region"] == [[0, 4], [0, 2]]
