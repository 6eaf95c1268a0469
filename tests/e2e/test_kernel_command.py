"""`tilewright kernel`: what a kernel writer sees, what a program reads, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
SMALL = ("kernel", "conv2d", "--in", "64x20x24", "--out-channels", "96", "--pool", "2")
LARGE = ("kernel", "conv2d", "--in", "256x224x224", "--out-channels", "256", "--kernel", "3")


def test_the_report_of_a_nest(succeeds: Command) -> None:
    text = succeeds(*SMALL, "--dtype", "fp32").out
    for part in (
        "for block in range(1):",
        "load x[image, all in, 20 rows, 24 cols]",
        "psum[out, row] += wT[out, in, fh, fw] . x[in, row + fh, cols + fw]",
        "predicted",
        "binding: tensor, next",
        "SBUF ",
        "PSUM 2 of 8 banks",
        "DMAs 4, ",
        "executed in numpy (all rows)",
    ):
        assert part in text, part


def test_json_of_a_nest(succeeds: Command) -> None:
    facts = succeeds(*SMALL, "--json").json
    assert facts["legal"] is True
    assert facts["violations"] == []
    assert facts["executed"]["dma_count"] == facts["dma_count"]
    assert facts["executed"]["dma_bytes"] == facts["dma_bytes"]
    assert facts["executed"]["difference"] <= facts["executed"]["tolerance"]
    assert set(facts["engines_us"]) == {"tensor", "vector", "scalar", "gpsimd", "dma"}
    assert facts["sbuf"]["bytes_per_partition"] <= facts["sbuf"]["of_bytes"]
    assert facts["predicted_us"] >= facts["floor_us"]
    assert {t["operand"] for t in facts["transfers"]} == {"x", "w", "bias", "out"}


def test_json_of_the_ladder(succeeds: Command) -> None:
    rungs = succeeds(*LARGE, "--pool", 2, "--dtype", "fp16", "--ladder", "--json").json["rungs"]
    keys = "name dtype pool image measured_us modelled_us interval_us fitted dma_count dma_bytes"
    for rung in rungs:
        assert {*keys.split(), "binding"} <= set(rung)
    by_name = {(r["name"], r["dtype"], r["pool"], r["image"]): r for r in rungs}
    assert by_name["baseline", "fp32", 1, "224x224"]["dma_count"] == 8216
    assert by_name["final", "fp16", 2, "224x224"]["measured_us"] == 870
    assert not by_name["final", "fp16", 2, "224x224"]["fitted"]
    assert by_name["small images", "fp16", 1, "32x16"]["measured_us"] == [35, 57]
    assert "weights flattened" in succeeds(*LARGE, "--ladder").out


def test_a_search_writes_a_nest_that_is_read_again(succeeds: Command, tmp_path: Path) -> None:
    folder = tmp_path / "found"
    facts = succeeds(*SMALL, "--search", "--out", folder, "--json").json
    assert facts["search"]["found_us"] <= facts["search"]["last_rung_us"]
    names = {"kernel.html", "kernel.json", "listing.txt", "nest.yaml", "trace.json"}
    assert {path.name for path in folder.iterdir()} == names
    again = succeeds(*SMALL, "--nest", folder / "nest.yaml", "--json").json
    assert again["predicted_us"] == facts["predicted_us"]
    trace = json.loads((folder / "trace.json").read_text())["traceEvents"]
    assert {e["args"]["name"] for e in trace if e["name"] == "thread_name"} >= {"tensor", "dma"}
    products = [e for e in trace if e.get("cat") == "product"]
    assert len(products) == next(
        w["count"] for w in facts["instructions"] if w["what"] == "products"
    )
    succeeds(*SMALL, "--out", folder)  # a folder of an earlier kernel is written over


def test_an_edited_nest_is_judged(
    succeeds: Command, command: Command, refused: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "kernel"
    succeeds(*SMALL, "--dtype", "fp16", "--out", folder)
    nest = folder / "nest.yaml"
    nest.write_text(nest.read_text().replace("tensor_tensor", "tensor_scalar"))
    line = refused(*SMALL, "--dtype", "fp16", "--nest", nest)
    assert "rule bias-type: a tensor-scalar bias of fp16 on a tile of fp32" in line
    judged = command(*SMALL, "--dtype", "fp16", "--nest", nest, "--json")
    assert judged.code == 2
    assert [v["rule"] for v in judged.json["violations"]] == ["bias-type"]


def test_a_matrix_product(succeeds: Command) -> None:
    facts = succeeds("kernel", "matmul", "--size", "96x200x700", "--search", "--json").json
    assert facts["executed"]["rows"] == 700
    assert "matmul 96x200 times 200x700" in facts["problem"]


def test_a_convolution_of_a_model(succeeds: Command) -> None:
    text = succeeds("kernel", "conv2d", "--from", "vgg16", "--node", "block5.conv3").out
    assert "512x14x14 -> 512 channels, 3x3, pads (1, 1, 1, 1), bias, relu, max-pool 2" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--in", "256x0x224"), "the height has to be at least 1, is 0"),
        (("--in", "3x8x8", "--out-channels", 0), "output channels has to be at least 1"),
        (("--in", "3x8x8", "--batch", 0), "the batch has to be at least 1"),
        (("--in", "3x8x8", "--pool", 0), "the pool has to be at least 1"),
        (("--in", "3x4x4", "--kernel", 5), "larger than the image 4x4"),
        (("--in", "3x8x8", "--kernel", "a"), "'a' is no kernel size"),
        (("--in", "3x8"), "'3x8' is no size of an image"),
        ((), "say what is convolved: image (--in) as CxHxW"),
        (("--in", "3x8x8", "--dtype", "int8"), "no kernels of element type 'int8'"),
        (("--in", "3x8x8", "--dtype", "nonsense"), "no kernels of element type 'nonsense'"),
        (("--in", "3x8x8", "--on", "npu-2.7"), "machine npu-2.7 has no PSUM"),
        (("--in", "3x8x8", "--on", "tpu-like"), "has no PSUM"),
        (("--in", "3x8x8", "--nest", "nowhere.yaml"), "cannot read 'nowhere.yaml'"),
        (("--in", "3x8x8", "--ladder", "--search"), "give one of"),
        (("--from", "vgg16"), "--from MODEL needs --node"),
        (("--in", "3x8x8", "--node", "a"), "--node NAME needs --from"),
        (("--from", "vgg16", "--node", "nope"), "has no node 'nope'"),
        (
            ("--in", "256x224x224", "--dtype", "fp32", "--claim-us", 930, "--no-check"),
            "930 us cannot be: fp32 operands need at least 2957 us",
        ),
        (("--in", "16x9x9", "--claim-us", 0), "fp16 operands need at least 0.00"),
        (("--in", "16x9x9", "--claim-us", "nan"), "a claimed time of nan is none"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[Any, ...], says: str, refused: Command) -> None:
    assert says in refused("kernel", "conv2d", *arguments)


def test_bad_products_are_one_line(refused: Command) -> None:
    assert "is no size of a product" in refused("kernel", "matmul", "--size", "4x4")
    assert "K (depth) of a product has to be at least 1" in refused(
        "kernel", "matmul", "--size", "4x0x4"
    )
