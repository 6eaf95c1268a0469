"""`tilewright tile --on MACHINE`: limits met or broken, bytes in the machine's layout, the fit."""

from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., Any]
STEM = ("tile", "rn50_stem", "--node", "conv1", "--split", "H=4", "--on", "npu-2.7")


def aligned(size: int) -> int:
    """Bytes of a buffer."""
    return -(-size // 64) * 64


def limit(tile: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [entry for entry in tile["limits"] if entry["limit"] == name]
    return found


@pytest.mark.quick
def test_one_tile_is_no_plural(succeeds: Command) -> None:
    text = succeeds("tile", "rn50_stem", "--node", "conv1", "--split", "H=1").out
    assert "conv1: 1 tile; recomputed" in text
    large = ("tile", "rn50_stem@2000x2000", "--node", "conv1", "--split", "H=1", "--on", "mcu")
    assert "1 of 1 tile does not fit the scratchpad" in succeeds(*large).out


@pytest.mark.quick
def test_stem_is_legal_on_the_npu(succeeds: Command) -> None:
    result = succeeds(*STEM, "--json").json
    assert (result["machine"], result["dtype"]) == ("npu-2.7", "fp16")
    assert result["usable_bytes"] == 1936 * 1024
    assert len(result["tiles"]) == 4
    for tile, rows, pad in zip(result["tiles"], (59, 61, 61, 58), (3, 3, 3, 3), strict=True):
        pads = limit(tile, "pads")
        assert (pads["value"], pads["allowed"], pads["met"]) == (pad, 3, True)
        broken = [entry for entry in tile["limits"] if not entry["met"]]
        assert [(b["limit"], b["value"], b["allowed"]) for b in broken] == [
            ("channel_alignment", 3, 16)
        ]
        assert "input channels (3) stay packed" in broken[0]["legalised"]
        data, output, weights, table = rows * 224 * 3, 28 * 112 * 64, 64 * 3 * 49, 64 * 16
        assert tile["bytes"] == sum(map(aligned, (2 * data, 2 * output, 2 * weights, table)))
        assert tile["fits"]


@pytest.mark.quick
def test_stem_for_people(succeeds: Command) -> None:
    text = succeeds(*STEM).out
    assert "pads 3 <= 3" in text
    packed = "input channels (3) stay packed: the array reads the network's input so"
    assert f"{packed} (every tile)" in text
    assert "every tile fits the scratchpad" in text


def test_element_type_sets_the_bytes(succeeds: Command) -> None:
    half, byte = (succeeds(*STEM, "--dtype", t, "--json").json for t in ("fp16", "int8"))
    table = 64 * 16
    for a, b in zip(half["tiles"], byte["tiles"], strict=True):
        twice = 2 * (b["bytes"] - table)
        assert twice - 3 * 64 <= a["bytes"] - table <= twice  # buffers are aligned
    assert byte["dtype"] == "int8"


def test_an_array_without_the_packed_path_expands_the_input(succeeds: Command) -> None:
    arguments = ("--node", "conv1", "--split", "H=4", "--on", "tpu-like", "--json")
    (tile, *_) = succeeds("tile", "rn50_stem", *arguments).json["tiles"]
    found = [entry["legalised"] for entry in tile["limits"] if not entry["met"]]
    assert found == ["3 -> 8 channels in memory"]


def test_broken_limits_say_how_they_are_legalised(succeeds: Command) -> None:
    arguments = ("tile", "vit_b16", "--node", "patches", "--split", "H=2", "--on", "npu-2.7")
    text = succeeds(*arguments).out
    assert "breaks kernel 16 > 11: taken as patches" in text
    assert "breaks stride 16 > 8" in text
    assert "every tile fits" in text
    for tile in succeeds(*arguments, "--json").json["tiles"]:
        assert not limit(tile, "kernel")["met"] and tile["fits"]


def test_fused_run_is_checked_operator_by_operator(succeeds: Command) -> None:
    arguments = (
        "--from",
        "conv1",
        "--to",
        "maxpool",
        "--split",
        "H=4",
        "--on",
        "npu-4.0",
        "--json",
    )
    tiles = succeeds("tile", "rn50_stem", *arguments).json["tiles"]
    assert {tile["op"] for tile in tiles} >= {"Conv", "MaxPool"}
    assert all(tile["bytes"] > 0 for tile in tiles)


def test_machine_without_limits(succeeds: Command) -> None:
    arguments = ("--node", "conv1", "--split", "H=4", "--on", "three-core-bus", "--json")
    for tile in succeeds("tile", "rn50_stem", *arguments).json["tiles"]:
        assert tile["limits"] == []


def test_output_without_a_machine_has_no_machine(succeeds: Command) -> None:
    result = succeeds(*STEM[:-2], "--json").json
    assert "machine" not in result
    assert all("bytes" not in tile and "limits" not in tile for tile in result["tiles"])


def test_wrong_machines_and_types_are_refused(refused: Callable[..., str]) -> None:
    assert "no machine 'npu-9'" in refused(*STEM[:-1], "npu-9")
    assert "int3" in refused(*STEM, "--dtype", "int3")
    assert "--on" in refused(*STEM[:-2], "--dtype", "fp16")
