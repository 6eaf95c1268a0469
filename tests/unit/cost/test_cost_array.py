"""The array model on shipped machines."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tilewright.cost.array import ArrayModel, soft_maximum
from tilewright.cost.base import CostError, WorkKind, Workload, matrix_product, views_of
from tilewright.cost.models import CostModels
from tilewright.errors import TilewrightError
from tilewright.machine import load_machine
from tilewright.machine.load import machine_of

NPU = CostModels(load_machine("npu-2.7"))
NEWER = CostModels(load_machine("npu-4.0"))


def cycles(models: CostModels, work: Workload) -> int:
    """Cycles on the array of the first core."""
    engine = models.machine.cores[0].engine("matrix")
    assert engine is not None
    return models.model(engine).cost(work).cycles


@pytest.mark.parametrize(
    ("dtype", "column", "by_four", "by_sixteen"),
    [("fp16", 113664, 41339, 43441), ("int8", 69893, 18700, 18478)],
)
def test_implicit_reshape(dtype: str, column: int, by_four: int, by_sixteen: int) -> None:
    work = matrix_product(2048, 48, 256, dtype)
    views = [work, work.as_view(512, 4), work.as_view(128, 16)]
    found = [cycles(NPU, view) for view in views]
    assert found[0] >= 2.5 * min(found[1:])
    for mine, predictor in zip(found, (column, by_four, by_sixteen), strict=True):
        assert mine == pytest.approx(predictor, rel=0.2)


def test_a_view_keeps_the_positions() -> None:
    work = matrix_product(2048, 48, 256, "fp16")
    assert work.as_view(128, 16).macs == work.macs
    with pytest.raises(CostError, match="is not 100x16"):
        work.as_view(100, 16)
    with pytest.raises(CostError):
        work._replace(kernel_height=3).as_view(128, 16)


@pytest.mark.parametrize("rows", [16, 35, 63, 99, 197, 3137])
@pytest.mark.parametrize("models", [NPU, NEWER], ids=["2.7", "4.0"])
def test_positions_are_seen_as_one_rectangle_or_two(models: CostModels, rows: int) -> None:
    model = models.model(models.machine.cores[0].engines[0])
    work = matrix_product(rows, 768, 256, "fp16")
    found = model.seen(work)
    assert (found.positions, found.macs) == (rows, work.macs)
    assert sum(piece.positions for piece in found.pieces) >= rows  # some may be computed twice
    assert all(piece.positions <= rows for piece in found.pieces)
    assert all(model.cost(found).cycles <= model.cost(view).cycles for view in views_of(work))
    assert model.floor(work) <= model.cost(found).cycles


@pytest.mark.parametrize("machine", ["npu-2.7", "npu-4.0", "three-core-bus", "mcu", "trn2"])
def test_of_all_views_only_those_near_the_best_are_costed_one_by_one(machine: str) -> None:
    models = CostModels(load_machine(machine))
    model = models.model(models.machine.cores[0].engines[0])
    assert isinstance(model, ArrayModel)
    sizes = [(rows, made) for rows in (1, 17, 49, 196, 197, 3136) for made in (8, 100, 256)]
    costed, views = 0, 0
    for rows, made in sizes:
        work = matrix_product(rows, 144, made, models.machine.dtype)
        near, everything = model.views(work), views_of(work)
        least = min(everything, key=lambda view: model.cost(view).cycles)
        best = min(near, key=lambda view: model.cost(view).cycles)
        assert best == model.seen(work)
        assert model.cost(best).cycles <= model.cost(least).cycles
        costed, views = costed + len(near), views + len(everything)
    assert costed < views / 2


def test_ragged_rows_cost_little_more_than_whole_blocks() -> None:
    model = NPU.model(NPU.machine.cores[0].engines[0])
    ragged, blocks = matrix_product(99, 768, 256, "fp16"), matrix_product(64, 768, 256, "fp16")
    spent, alone = (model.cost(model.seen(work)).cycles for work in (ragged, blocks))
    assert spent < 7 / 4 * 1.02 * alone  # seven steps of sixteen positions, and four
    assert min(model.cost(view).cycles for view in views_of(ragged)) > 1.06 * spent


def test_a_rest_holds_what_its_rectangle_leaves() -> None:
    work = matrix_product(99, 48, 256, "fp16")
    assert [p.positions for p in work.as_view(8, 8, (12, 4)).pieces] == [64, 48]
    with pytest.raises(CostError):
        work.as_view(8, 8, (8, 4))  # three positions are missing
    with pytest.raises(CostError):
        work.as_view(8, 8, (32, 4))  # there are no 128 positions


def test_first_convolution_packs_its_channels() -> None:
    stem = Workload(WorkKind.FIRST_CONV, "fp16", 64, 3, 28, 112, 59, 224, 7, 7, 2, 2)
    padded = stem._replace(kind=WorkKind.CONV, in_channels=16)
    assert cycles(NPU, stem) == pytest.approx(73784, rel=0.2)
    assert cycles(NPU, padded) == pytest.approx(162062, rel=0.2)
    assert cycles(NPU, stem._replace(in_channels=16)) <= cycles(NPU, padded)


def test_batch_groups_and_unaligned_channels() -> None:
    work = Workload(WorkKind.CONV, "fp16", 64, 64, 28, 28, 28, 28, 3, 3)
    one = cycles(NPU, work)
    assert cycles(NPU, work._replace(batch=4)) == pytest.approx(4 * one, rel=1e-3)
    assert cycles(NPU, work._replace(groups=4)) <= one
    assert cycles(NPU, work._replace(out_channels=60)) <= one
    assert cycles(NPU, work._replace(in_channels=3)) == pytest.approx(
        cycles(NPU, work._replace(in_channels=16)), rel=0.02
    )


def test_beyond_the_calibrated_range_cost_stays_linear() -> None:
    for models in (NPU, NEWER):
        for dtype in ("fp16", "int8"):
            work = Workload(WorkKind.CONV, dtype, 1024, 1024, 14, 14, 14, 14)
            for name in ("in_channels", "out_channels"):
                ratio = cycles(models, work._replace(**{name: 8192})) / cycles(models, work)
                assert 7 < ratio <= 8.05, (name, ratio)
            deep = work._replace(kind=WorkKind.DEPTHWISE, kernel_height=3, kernel_width=3)
            wide = deep._replace(in_channels=8192, out_channels=8192)
            assert cycles(models, wide) / cycles(models, deep) == pytest.approx(8, rel=0.02)


def test_peak_is_what_the_array_has() -> None:
    for dtype, peak in (("fp16", 1024), ("u8", 2048)):
        work = Workload(WorkKind.CONV, dtype, 512, 512, 32, 32, 34, 34, 3, 3)
        assert work.macs / peak == pytest.approx(cycles(NPU, work), rel=0.15)


def test_energy_and_utilisation() -> None:
    core = NPU.machine.cores[0]
    work = Workload(WorkKind.CONV, "fp16", 64, 64, 56, 56, 56, 56, 3, 3)
    engine, cost = NPU.best(core, work)
    assert engine.name == "cluster0.dpu"
    assert 0.9 < cost.utilisation <= 1
    operands = (2 * 56 * 56 * 64 + 64 * 64 * 9) * 2 * 1.75
    assert cost.energy_pj == pytest.approx(work.macs * 0.5 + operands)
    _, small = NPU.best(core, work._replace(dtype="int8"))
    assert small.energy_pj < cost.energy_pj / 2


def test_costs_are_remembered_and_shared_by_equal_cores() -> None:
    first, second = NPU.machine.cores
    work = Workload(WorkKind.CONV, "fp16", 64, 64, 56, 56, 56, 56, 3, 3)
    one, other = first.engines[0], second.engines[0]
    assert NPU.model(one) is NPU.model(other)
    assert NPU.model(one).cost(work) is NPU.model(other).cost(work._replace())


def test_three_cores_give_the_published_row_costs() -> None:
    models = CostModels(load_machine("three-core-bus"))
    row = Workload(WorkKind.CONV, "int8", 8, 8, 1, 56, 3, 56, 3, 3)
    found = [models.best(core, row)[1].cycles for core in models.machine.cores]
    assert found[:2] == [514, 146]
    assert found[2] == pytest.approx(120, rel=0.1)


def test_soft_maximum_lies_between_maximum_and_sum() -> None:
    assert soft_maximum((3.0, 4.0, 0.0), 2) == pytest.approx(5)
    assert soft_maximum((0.0, 0.0), 3) == 0
    assert soft_maximum((5.0, 5.0), 1) == 10
    assert 5 <= soft_maximum((5.0, 4.0), 64) < 5.01


MINIMAL = Path(__file__).parents[3] / "examples" / "machines" / "1-minimal.yaml"
WINDOW = Workload(WorkKind.DEPTHWISE, "int8", 32, 32, 10, 10, 12, 12, 3, 3)  # 28,800 products


def array_with(array: dict[str, Any], simd: dict[str, Any] | None = None) -> CostModels:
    """The smallest machine with other parameters of its engines."""
    engines = {"array": {"parameters": array}, "simd": {"parameters": simd or {}}}
    tree = {"name": "mine", "extends": str(MINIMAL), "cores": {"core": {"engines": engines}}}
    return CostModels(machine_of(tree, "mine"))


@pytest.mark.parametrize(
    ("unroll", "rate", "each"),
    [
        ({"out_channels": 16, "in_channels": 16}, {"depthwise": {}}, 16),
        ({"out_channels": 8, "in_channels": 16}, {"depthwise": {}}, 8),
        ({"out_channels": 16, "in_channels": 16}, {"depthwise": {}, "channel_grain": 8}, 8),
        ({"out_channels": 16, "in_channels": 16}, {"depthwise": {"per_column": 2}}, 8),
        ({"out_channels": 16, "width": 5}, {"depthwise": {}}, 80),
        ({"out_channels": 16, "kernel_width": 3, "kernel_height": 3}, {"depthwise": {}}, 144),
    ],
)
def test_depthwise_of_an_array_whose_size_is_known(
    unroll: dict[str, int], rate: dict[str, Any], each: int
) -> None:
    models = array_with({"modes": {"plain": {"unroll": unroll}}, "rates": {"int8": rate}})
    assert cycles(models, WINDOW) == WINDOW.macs // each
    alike = WINDOW._replace(kind=WorkKind.POOL)
    assert not models.model(models.machine.engines[0]).supports(alike)


def test_depthwise_on_the_vector_engine() -> None:
    def taken(rates: dict[str, Any]) -> int:
        models = array_with({}, {"rates": rates})
        engine, cost = models.best(models.machine.cores[0], WINDOW)
        assert engine.kind == "vector"
        return cost.cycles

    assert taken({}) == WINDOW.macs // 8  # as `mac`
    assert taken({"depthwise": {"per_element": 0.5}}) == WINDOW.macs // 2
    assert taken({"depthwise": {"per_element": 0.5}, "mac": None}) == WINDOW.macs // 2
    with pytest.raises(
        CostError, match=r"runs depthwise .*`depthwise` under the rates of an array"
    ):
        taken({"mac": None})


def test_a_block_that_gives_one_extent_has_the_others_of_a_step() -> None:
    rate = {"conv": {"activation_bytes_per_cycle": 16, "overhead": 0}}
    work = Workload(WorkKind.CONV, "int8", 64, 64, 16, 16, 16, 16)
    unroll = {"out_channels": 16, "in_channels": 16}
    found = [
        cycles(array_with({"modes": {"plain": mode}, "rates": {"int8": rate}}), work)
        for mode in (
            {"unroll": unroll},
            {"unroll": unroll, "block": {"width": 1}},
            {"unroll": unroll, "block": {"width": 16, "height": 16, "out_channels": 16}},
            {"unroll": unroll, "block": {"out_channels": 64}},
        )
    ]
    assert found[0] == found[1] == found[2] > found[3]


ROWS = {
    "[{kind: conv, cycles: 1}, {kind: conv, cycles: 2, stride: 2}]": r"rows\[1\]: never counts: r",
    "[{kind: conv, cycles: 1}, {kind: first_conv, cycles: 2}]": r"rows\[1\]: never counts: rows\[0",
    "[{kind: conv, cycles: 1, operator: add}]": r"rows\[0\].operator: work of kind conv has none",
    "[{kind: vector, cycles: 1, out_height: 3}]": r"rows\[0\].out_height: work of kind vector has",
}


@pytest.mark.parametrize("rows", ROWS)
def test_rows_that_never_match_are_refused(rows: str) -> None:
    engine = {"kind": "matrix", "model": "table", "parameters": {"rows": yaml.safe_load(rows)}}
    tree = {
        "name": "mine",
        "extends": str(MINIMAL),
        "cores": {"core": {"engines": {"measured": engine}}},
    }
    with pytest.raises(TilewrightError, match=ROWS[rows]):
        machine_of(tree, "mine")
