"""Kernels on machines: occupancy, waves, fill and drain, tiles busy; fused never slower."""

from importlib.resources import files
from math import ceil
from pathlib import Path

import pytest

from tilewright import api
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import Builder
from tilewright.graph.ops.whole import Product
from tilewright.partition.mapping.gpu import occupancy
from tilewright.partition.mapping.systolic import array_cycles
from tilewright.partition.products import gemms
from tilewright.processor import Processor, list_processors, load_processor


def gpu(name: str = "h100-sxm") -> Processor:
    return load_processor(name)


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks"),
    [
        (256, 32, 0, 8),  # 64 warps / 8
        (256, 128, 0, 2),  # 65,536 registers / (128 x 256)
        (32, 16, 0, 32),  # the limit of blocks
        (128, 32, 100 * 1024, 2),  # 228 KiB of shared memory
        (1024, 255, 300 * 1024, 1),  # larger than all: one at a time
    ],
)
def test_occupancy_is_the_least_of_four_limits(
    threads: int, registers: int, shared: int, blocks: int
) -> None:
    details = gpu().gpu
    assert details is not None
    assert occupancy(details, threads, registers, shared, 228 * 1024) == blocks


def test_waves_and_launches_of_a_product() -> None:
    b = Builder("product")
    graph = b.finish(b.op("MatMul", b.input("x", (4096, 512)), b.weight("w", (512, 4096))))
    result = api.partition(graph, on="h100-sxm")
    assert result.mapped is not None
    run = result.mapped.kernels[0].fused
    blocks, per_unit = run.figures["blocks"], run.figures["blocks_per_unit"]
    assert run.figures["waves"] == ceil(int(blocks) / (132 * int(per_unit)))
    # Never faster than the peak, and a large product comes close to it.
    least = 2 * 4096 * 4096 * 512 / 66.9e12
    assert least <= run.compute <= 1.4 * least
    assert run.launches == 1 and run.overhead == pytest.approx(5e-6)
    assert run.seconds == max(run.compute, *run.memory.values()) + run.overhead


def test_products_of_convolutions() -> None:
    b = Builder("convs")
    x = b.input("x", (2, 16, 10, 10))
    x = b.conv(x, 32, 3, pads=1, groups=4, name="grouped")
    x = b.conv(x, 32, 3, pads=1, groups=32, name="depthwise")
    graph = b.finish(b.conv(x, 8, 1, name="pointwise"))
    assert gemms(graph, range(3)) == [
        Product(4, 200, 36, 8),
        Product(32, 200, 9, 1),
        Product(1, 200, 32, 8),
    ]


def test_systolic_fill_and_drain_and_shapes() -> None:
    array = load_processor("tpu-v4").systolic
    assert array is not None
    # One block of weights on each of eight arrays: the rows, and the pipeline once.
    assert array_cycles(array, Product(1, 1000, 128, 8 * 128)) == 1000 + 255
    full = Product(1, 12544, 1152, 128)
    depthwise = Product(128, 12544, 9, 1)
    cells = array.arrays * array.rows * array.columns

    def utilisation(product: Product) -> float:
        return product.macs / (array_cycles(array, product) * cells)

    assert utilisation(full) > 0.4
    assert utilisation(depthwise) < 0.001
    assert (
        0.1 < utilisation(Product(1, 12544, 64, 64)) < 0.25
    )  # a 1x1 convolution: a quarter filled


@pytest.mark.parametrize("machine", [*list_processors(), "npu-2.7"])
@pytest.mark.parametrize("network", ["resnet18@64x64", "bert_base@16"])
def test_fusion_never_costs_time_or_launches(network: str, machine: str) -> None:
    result = api.partition(network, on=machine)
    mapped = result.mapped
    assert mapped is not None
    before, after = mapped.totals["before"], mapped.totals["after"]
    assert after["seconds"] <= before["seconds"] * (1 + 1e-9)
    assert (before["launches"], after["launches"]) == (
        result.partition.launches_before,
        result.partition.launches_after,
    )
    for kernel, run in zip(result.partition.kernels, mapped.kernels, strict=True):
        assert run.fused.launches == kernel.launches
        assert run.fused.compute >= kernel.work.flops_matmul / mapped.target.matrix_rate * (
            1 - 1e-9
        )


def test_tiles_fit_and_are_busy() -> None:
    result = api.partition("resnet18", on="kpu-t64")
    assert result.mapped is not None
    runs = {
        k.name: m.fused
        for k, m in zip(result.partition.kernels, result.mapped.kernels, strict=True)
    }
    first = runs["layer1.0.conv1"]
    assert first.figures["fits"] and int(first.figures["working_set_bytes"]) <= 256 * 1024
    assert first.figures["units_busy"] == 64
    assert runs["flatten"].figures["scheduling_operations"] == 0
    totals = result.mapped.totals
    assert totals["after"]["scheduling_operations"] < totals["before"]["scheduling_operations"]
    assert totals["after"]["dram_accesses"] < totals["before"]["dram_accesses"]


def test_views_cost_nothing_on_any_machine() -> None:
    for machine in list_processors():
        result = api.partition("resnet18@64x64", on=machine)
        assert result.mapped is not None
        names = [k.name for k in result.partition.kernels]
        assert result.mapped.kernels[names.index("flatten")].fused.seconds == 0.0


def test_every_figure_of_a_processor_has_a_source() -> None:
    for name in list_processors():
        processor = load_processor(name)
        blocks = [processor, *processor.rates.values(), *processor.memories.values()]
        blocks += [b for b in (processor.gpu, processor.systolic, processor.tiles) if b is not None]
        assert all(len(block.source) > 10 for block in blocks)
        sizes = [level.bandwidth for level in processor.memories.values()]
        assert sizes == sorted(sizes), "memories from the outermost in get faster"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("units: 132|units: 0", "units"),
        ("clock: 1830 MHz|clock: fast", "clock"),
        ("bandwidth: 3.35 TB/s|bandwidth: 3.35 TB", "memories.hbm.bandwidth"),
        ("capacity_level: l2|capacity_level: l5", "no memory is called 'l5'"),
        ("dtype: bf16|dtype: bf17", "bf17"),
        ("matrix: 66.9 TFLOP/s|matrix: .nan", "rates.fp32.matrix"),
        ("launch: 5 us|launch: -5 us", "launch"),
        ("kind: gpu|kind: cpu", "kind"),
        ("units: 132|units: 132\nmore: 1", "more"),
    ],
)
def test_a_wrong_processor_file_names_file_and_key(change: str, words: str, tmp_path: Path) -> None:

    text = (files("tilewright.processor") / "targets" / "h100-sxm.yaml").read_text()
    old, new = change.split("|")
    assert old in text
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(TilewrightError) as error:
        load_processor(str(path))
    assert words in str(error.value) and "mine.yaml" in str(error.value)
    assert "\n" not in str(error.value)
