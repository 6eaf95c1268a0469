"""`tilewright tile`: the tables of SYSTEM.md to the digit, JSON as agreed, groups, line buffers."""

import csv
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.builder import GraphBuilder
from tilewright.frontend.save import save_onnx

Command = Callable[..., Any]

STEM = [
    # output rows, input rows, input shape, pads t/b/l/r
    ((0, 28), (0, 59), (1, 3, 59, 224), (2, 0, 2, 3)),
    ((28, 56), (54, 115), (1, 3, 61, 224), (0, 0, 2, 3)),
    ((56, 84), (110, 171), (1, 3, 61, 224), (0, 0, 2, 3)),
    ((84, 112), (166, 224), (1, 3, 58, 224), (0, 3, 2, 3)),
]
SIDES = ("top", "bottom", "left", "right")


def rows(record: dict[str, Any]) -> tuple[int, int]:
    start, stop = record["region"][2]
    return start, stop


def shape(region: list[list[int]]) -> tuple[int, ...]:
    return tuple(stop - start for start, stop in region)


@pytest.mark.quick
def test_stem_table_for_people(succeeds: Command) -> None:
    text = succeeds("tile", "rn50_stem", "--node", "conv1", "--split", "H=4").out
    for index, ((ob, oe), (ib, ie), extents, pads) in enumerate(STEM):
        cells = [
            str(index),
            f"H {ob}-{oe}",
            "1x64x28x112",
            f"H {ib}-{ie}",
            "x".join(map(str, extents)),
            "/".join(map(str, pads)),
        ]
        assert re.search(r"\s*│\s*".join(map(re.escape, cells)), text), f"tile {index} in:\n{text}"
    assert "kernel 7x7 stride 2x2" in text
    assert "recomputed share 0.0%" in text


@pytest.mark.quick
def test_stem_json_for_programs(succeeds: Command) -> None:
    result = succeeds("tile", "rn50_stem", "--node", "conv1", "--split", "H=4", "--json").json
    assert result["recompute_ratio"] == 0
    assert len(result["tiles"]) == 4
    for index, (tile, (output, region, extents, pads)) in enumerate(
        zip(result["tiles"], STEM, strict=True)
    ):
        assert tile["node"] == "conv1"
        assert tile["index"] == index
        assert tile["output"] == [[0, 1], [0, 64], list(output), [0, 112]]
        (data,) = tile["inputs"]
        assert set(data) == {"name", "region", "pads"}
        assert rows(data) == region
        assert shape(data["region"]) == extents
        assert data["pads"] == dict(zip(SIDES, pads, strict=True))
        assert (tile["kernel"], tile["strides"], tile["dilations"]) == ([7, 7], [2, 2], [1, 1])
        assert tile["weights"][0]["region"] == [[0, 64], [0, 3], [0, 7], [0, 7]]
        assert all(set(weight) == {"name", "region"} for weight in tile["weights"])


@pytest.mark.quick
@pytest.mark.parametrize("last, expected", [("conv2", {"conv1": 2}), ("conv4", None)])
def test_first_row_of_four_convolutions(
    succeeds: Command, last: str, expected: dict[str, int] | None
) -> None:
    arguments = ("--from", "conv1", "--to", last, "--split", "H=56", "--json")
    result = succeeds("tile", "four_convs", *arguments).json
    first = {t["node"]: shape(t["output"])[2] for t in result["tiles"] if t["index"] == 0}
    assert first.pop(last) == 1
    assert first == (expected or {"conv3": 2, "conv2": 3, "conv1": 4})


@pytest.mark.quick
def test_weights_are_cut_with_the_channels(succeeds: Command) -> None:
    result = succeeds("tile", "rn50_stem", "--node", "conv1", "--split", "C=4", "--json").json
    cut = [tile["weights"][0]["region"][0] for tile in result["tiles"]]
    assert cut == [[0, 16], [16, 32], [32, 48], [48, 64]]
    assert all(rows(tile["inputs"][0]) == (0, 224) for tile in result["tiles"])


def covered(records: list[dict[str, Any]], node: str) -> int:
    total = 0
    for tile in records:
        if tile["node"] == node:
            size = 1
            for extent in shape(tile["output"]):
                size *= extent
            total += size
    return total


def test_group_over_a_residual_add_in_two_dimensions(succeeds: Command) -> None:
    arguments = ("--from", "layer1.0.conv1", "--to", "layer1.0.add", "--split", "H=4,W=2")
    result = succeeds("tile", "resnet18@64x64", *arguments, "--json").json
    assert result["grid"] == [4, 2]
    assert {tile["index"] for tile in result["tiles"]} == set(range(8))
    assert covered(result["tiles"], "layer1.0.add") == 64 * 16 * 16
    assert covered(result["tiles"], "layer1.0.conv1") > 64 * 16 * 16
    assert result["recompute_ratio"] > 0
    again = succeeds(
        "tile", "resnet18@64x64", *arguments[:4], "--split", "H=4", "--split", "W=2", "--json"
    )
    assert again.json == result


def test_cache_recomputes_nothing_and_reports_line_buffers(succeeds: Command) -> None:
    arguments = ("tile", "four_convs", "--from", "conv1", "--to", "conv4", "--split", "H=56")
    cached = succeeds(*arguments, "--halo", "cache", "--json").json
    assert cached["recompute_ratio"] == 0
    # Two rows of 8 channels and 56 columns of each inner value wait between the tiles.
    assert cached["line_buffer_bytes"] == 3 * 2 * 8 * 56 * 4
    assert covered(cached["tiles"], "conv1") == 8 * 56 * 56
    text = succeeds(*arguments, "--halo", "H=cache").out
    assert "line buffers kept between tiles: 10.8 kB" in text
    assert succeeds(*arguments, "--json").json["recompute_ratio"] > 0.5


def test_halo_policy_per_axis(succeeds: Command) -> None:
    arguments = ("tile", "four_convs", "--from", "conv1", "--to", "conv4", "--split", "H=4,W=4")
    ratios = {
        policy: succeeds(*arguments, "--halo", policy, "--json").json["recompute_ratio"]
        for policy in ("recompute", "H=cache", "H=cache,W=cache", "cache")
    }
    assert ratios["recompute"] > ratios["H=cache"] > ratios["cache"] == 0
    assert ratios["H=cache,W=cache"] == 0


def test_rows_of_a_transformer(succeeds: Command) -> None:
    found = succeeds("show", "model", "bert_base@16").out
    name = next(m for m in re.findall(r"│ (\S+)\s+│ Gelu|│ (\S+)\s+│ LayerNormalization", found))
    node = next(part for part in name if part)
    result = succeeds("tile", "bert_base@16", "--node", node, "--split", "S=4", "--json").json
    assert [tile["output"][1] for tile in result["tiles"]] == [[0, 4], [4, 8], [8, 12], [12, 16]]


@pytest.mark.quick
def test_uneven_split_gives_the_remainder_to_the_first_tiles(succeeds: Command) -> None:
    result = succeeds("tile", "four_convs", "--node", "conv1", "--split", "H=5", "--json").json
    assert [shape(tile["output"])[2] for tile in result["tiles"]] == [12, 11, 11, 11, 11]


@pytest.mark.quick
def test_axes_by_number_or_letter(succeeds: Command) -> None:
    by_axis = succeeds("tile", "four_convs", "--node", "conv1", "--split", "2=2", "--json").out
    assert (
        by_axis == succeeds("tile", "four_convs", "--node", "conv1", "--split", "h=2", "--json").out
    )


def test_padding_of_volumes_is_told_on_all_six_sides(succeeds: Command, tmp_path: Path) -> None:
    b = GraphBuilder()
    weights = b.weight(4, 2, 3, 5, 7)
    b.add("Conv", b.input(1, 2, 6, 8, 10), weights, pads=[1, 2, 3, 1, 2, 3])
    path, table = tmp_path / "volume.onnx", tmp_path / "tiles.csv"
    save_onnx(b.graph(), path)
    node = b.graph().nodes[0].name
    shown = succeeds("tile", path, "--node", node, "--split", "2=2", "--csv", table).out
    assert "pads front/back/top/bottom/left/right" in shown
    assert "1/0/2/2/3/3" in shown and "0/1/2/2/3/3" in shown
    rows = list(csv.DictReader(table.open()))
    found = [row["pads_front_back_top_bottom_left_right"] for row in rows]
    assert found == ["1 0 2 2 3 3", "0 1 2 2 3 3"]


def test_what_a_machine_says_of_tiles_is_in_the_csv_too(succeeds: Command, tmp_path: Path) -> None:
    table = tmp_path / "tiles.csv"
    asked = ("tile", "four_convs", "--node", "conv1", "--split", "H=2", "--on", "npu-2.7")
    tiles = succeeds(*asked, "--csv", table, "--json").json["tiles"]
    rows = list(csv.DictReader(table.open()))
    assert [row["bytes"] for row in rows] == [str(tile["bytes"]) for tile in tiles]
    assert [row["fits"] for row in rows] == [str(tile["fits"]) for tile in tiles]
    assert {row["limits_broken"] for row in rows} == {""}


def test_the_installed_program_is_the_same() -> None:
    arguments = ["tile", "rn50_stem", "--node", "conv1", "--split", "H=4", "--json"]
    code = "from tilewright.cli import main; main()"
    done = [
        subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
        )
        for _ in range(2)
    ]
    assert done[0].stdout == done[1].stdout
    assert done[0].stdout.startswith("{")
    assert done[0].stderr == ""
