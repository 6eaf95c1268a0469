"""The ladder: counts of FACTS to the digit, the order of rungs, fitted and unfitted rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.kernel.assess import NestModel, floor_check
from tilewright.kernel.calibrate import FITTED, fit, fit_error
from tilewright.kernel.execute import count, count_difference
from tilewright.kernel.ladder import RUNGS, LadderRow, ladder, last_rung, rung_names
from tilewright.kernel.problem import KernelError, KernelProblem
from tilewright.kernel.target import CoreTarget, calibration, target_of
from tilewright.machine.load import load_machine
from tilewright.report.kernel_text import ladder_markdown

LARGE = KernelProblem(256, 224, 224, 256, dtype="fp32")
# rung: DMAs of weights (run bytes), of the input (run bytes), of all, MB
PUBLISHED = {
    "baseline": ((3996, 4), (3996, 888), 8216, 1221),
    "input hoisted": ((3996, 4), (444, 3584), 4664, 516),
    "weights hoisted": ((444, 4608), (444, 3584), 1112, 516),
    "final": ((4, 4608), (444, 3584), 672, 256.5),
}


@pytest.fixture(scope="module")
def target() -> CoreTarget:
    return target_of(load_machine("trn2"))


@pytest.fixture(scope="module")
def rows(target: CoreTarget) -> tuple[LadderRow, ...]:
    return ladder(LARGE, target)


@pytest.mark.quick
@pytest.mark.parametrize("rung", PUBLISHED)
def test_transfers_of_the_fp32_rungs_are_the_published_ones(rung: str, target: CoreTarget) -> None:
    given = NestModel(LARGE, target).assess(RUNGS[rung](LARGE, target))
    weights, inputs, total, megabytes = PUBLISHED[rung]
    moved = {each.operand: (each.count, each.run_bytes) for each in given.transfers}
    assert (moved["w"], moved["x"], given.dma_count) == (weights, inputs, total)
    assert given.dma_bytes / 1e6 == pytest.approx(megabytes, abs=0.5 if megabytes > 300 else 0.05)
    assert given.legal


def test_counts_of_all_rungs_are_those_of_execution(rows: tuple[LadderRow, ...]) -> None:
    for row in rows:
        given = row.assessment
        seen = count(given.problem, given.nest)
        assert count_difference(given, seen) == ""
        assert (seen.dma_count, seen.dma_bytes) == (given.dma_count, given.dma_bytes)


@pytest.mark.quick
def test_rungs_get_faster_as_they_did(rows: tuple[LadderRow, ...]) -> None:
    ladders: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        problem = row.assessment.problem
        if problem.pool == 1:
            times = ladders.setdefault((problem.dtype, problem.image), [])
            times.append(row.assessment.seconds)
    assert len(ladders["fp32", "224x224"]) == 4
    assert len(ladders["fp16", "224x224"]) == 5
    assert len(ladders["fp32", "32x16"]) == 3
    for times in ladders.values():
        assert times == sorted(times, reverse=True)
    pooled = {
        r.assessment.problem.pool: r.assessment.seconds
        for r in rows
        if (r.rung, r.assessment.problem.dtype, r.assessment.problem.image)
        == ("final", "fp16", "224x224")
    }
    assert pooled[2] < pooled[1]  # 870 and 930 us


@pytest.mark.quick
def test_few_parameters_are_fitted_and_on_large_fp32_rows_only(rows: tuple[LadderRow, ...]) -> None:
    assert [p.name for p in calibration().parameters if p.kind == "fitted"] == list(FITTED)
    fitted = {r.assessment.problem for r in rows if r.measured is not None and r.measured.fit}
    assert fitted == {LARGE}


@pytest.mark.quick
def test_rows_that_were_not_fitted_are_within_ten_percent(rows: tuple[LadderRow, ...]) -> None:
    unfitted = [row for row in rows if row.measured is not None and not row.measured.fit]
    assert {row.measured.low for row in unfitted if row.measured} >= {930, 870, 35}
    assert len(unfitted) == 12
    for row in unfitted:
        assert row.error is not None and abs(row.error) <= 0.10, row.rung


def test_the_calibration_is_the_least_squares_fit() -> None:
    machine = load_machine("trn2")
    found, shipped = fit(machine), calibration()
    for name in FITTED:
        assert found.values[name] == pytest.approx(shipped.values[name], rel=0.02)
    best = fit_error(target_of(machine, shipped))
    for name in FITTED:
        for factor in (0.9, 1.1):
            worse = shipped.with_values(**{name: shipped.values[name] * factor})
            assert fit_error(target_of(machine, worse)) > best


@pytest.mark.quick
def test_intervals_are_wide_where_a_compiler_removes_loads(rows: tuple[LadderRow, ...]) -> None:
    first = rows[0].assessment
    assert first.low < 13481e-6 < first.high
    assert first.high > 40e-3  # as written, the weights alone take some 42 ms
    final = rows[3].assessment
    assert final.low == final.high


@pytest.mark.quick
@pytest.mark.parametrize(("machine", "floor"), [("trn2", 2957), ("trn1", 2535)])
def test_floors_refuse_claims_that_cannot_be(machine: str, floor: int) -> None:
    target = target_of(load_machine(machine))
    assert target.floor_seconds(LARGE.macs, "fp32") * 1e6 == pytest.approx(floor, abs=1)
    with pytest.raises(KernelError, match=f"fp32 operands need at least {floor} us"):
        floor_check(LARGE, target, "fp32", 930e-6)
    floor_check(LARGE, target, "fp16", 930e-6)


@pytest.mark.quick
def test_every_measured_rung_respects_the_floor_of_its_operands(
    rows: tuple[LadderRow, ...],
) -> None:
    for row in rows:
        assert row.measured is not None
        given = row.assessment
        assert row.measured.high * 1e-6 >= given.floor
        assert given.low >= given.floor


@pytest.mark.quick
def test_other_problems_and_machines_have_no_measured_rows(target: CoreTarget) -> None:
    other = ladder(replace(LARGE, width=100), target)
    assert [row.rung for row in other] == list(rung_names(LARGE, target))
    assert all(row.measured is None for row in other)
    assert all(row.measured is None for row in ladder(LARGE, target_of(load_machine("trn1"))))


@pytest.mark.quick
@pytest.mark.parametrize("width", [700, 1030])
def test_rows_longer_than_a_product_are_cut(width: int, target: CoreTarget) -> None:
    problem = KernelProblem(8, 9, width, 8, pool=3)
    assert NestModel(problem, target).assess(last_rung(problem, target)).legal


@pytest.mark.quick
def test_the_page_of_the_docs_is_the_model(rows: tuple[LadderRow, ...]) -> None:
    page = Path(__file__).parents[3] / "docs" / "ladder.md"
    assert ladder_markdown(rows) in page.read_text()


def test_short_runs_say_where_their_time_jumps(target: CoreTarget) -> None:
    (lint, *_) = NestModel(LARGE, target).assess(RUNGS["baseline"](LARGE, target)).lints
    assert "10 ns for a run of up to 64 B, an element of a gather, and 85 ns" in lint.text
    assert "that the step is there is an estimate" in lint.text
