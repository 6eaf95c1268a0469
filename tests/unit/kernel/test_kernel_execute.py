"""Execution: numbers and counts agree with reference and ledger, and faults are noticed."""

from dataclasses import replace

import numpy as np
import pytest

from tilewright.kernel.assess import Assessment, NestModel
from tilewright.kernel.execute import (
    contiguous_run,
    count,
    count_difference,
    execute,
    reference,
    rounded,
    seeded_tensors,
)
from tilewright.kernel.ladder import RUNGS, rung_names
from tilewright.kernel.nest import Nest
from tilewright.kernel.plan import prove
from tilewright.kernel.problem import KernelError, KernelProblem, matmul_problem
from tilewright.kernel.target import CoreTarget, target_of
from tilewright.kernel.walk import Walk
from tilewright.machine.load import load_machine

PROBLEM = KernelProblem(
    130, 13, 40, 140, pool=2, relu=True, pads=(1, 1, 1, 1), batch=2, dtype="fp16"
)


@pytest.fixture(scope="module")
def target() -> CoreTarget:
    return target_of(load_machine("trn2"))


def assessed(problem: KernelProblem, nest: Nest, target: CoreTarget) -> Assessment:
    return NestModel(problem, target).assess(nest)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("rung", ["baseline", "weights flattened", "final"])
def test_rungs_compute_the_convolution(rung: str, dtype: str, target: CoreTarget) -> None:
    problem = replace(PROBLEM, dtype=dtype)
    given = assessed(problem, RUNGS[rung](problem, target), target)
    done = execute(given)
    assert done.difference <= done.tolerance
    assert done.counts.dma_bytes == given.dma_bytes


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("channels", [128, 256])
def test_small_images_of_the_exercise(batch: int, channels: int, target: CoreTarget) -> None:
    problem = KernelProblem(channels, 32, 16, channels, batch=batch, pool=2, dtype="fp32")
    for rung in rung_names(problem, target):
        execute(assessed(problem, RUNGS[rung](problem, target), target))


def test_matrix_products(target: CoreTarget) -> None:
    problem = matmul_problem(150, 200, 700, "fp32")
    tensors = seeded_tensors(problem)
    result = execute(assessed(problem, RUNGS["final"](problem, target), target), tensors).result
    expected = tensors.weights[:, :, 0, 0] @ tensors.x[0, :, :, 0]
    assert np.allclose(result[0, :, :, 0], expected, atol=1e-4)


def test_sums_in_sbuf_are_counted_and_right(target: CoreTarget) -> None:
    problem = replace(PROBLEM, dtype="fp32")
    nest = replace(RUNGS["final"](problem, target), flush_at="in")
    given = assessed(problem, nest, target)
    tiles = given.count("bias")
    assert given.count("PSUM added up in SBUF") == 2 * tiles
    execute(given)


def test_the_reference_knows_padding_relu_and_pool() -> None:
    tensors = seeded_tensors(PROBLEM)
    padded = np.pad(tensors.x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    assert tensors.bias is not None
    window = padded[0, :, 4:7, 8:11]
    four = [
        float(np.sum(padded[0, :, r : r + 3, c : c + 3] * tensors.weights[5])) + tensors.bias[5]
        for r in (4, 5)
        for c in (8, 9)
    ]
    assert window.shape == (130, 3, 3)
    expected = max(0.0, *four)
    assert reference(PROBLEM, tensors)[0, 5, 2, 4] == pytest.approx(expected, abs=1e-4)


def test_large_problems_are_proved_by_their_first_rows(target: CoreTarget) -> None:
    problem = KernelProblem(256, 60, 224, 256)
    given = assessed(problem, RUNGS["final"](problem, target), target)
    proof = prove(given)
    assert (proof.rows, proof.of_rows) == (4, 58)
    assert proof.counts is not None
    assert proof.counts.dma_count == given.dma_count


def test_huge_problems_are_not_walked_through(target: CoreTarget) -> None:
    problem = KernelProblem(64, 60_000, 40_000, 64)
    proof = prove(assessed(problem, RUNGS["final"](problem, target), target))
    assert proof.counts is None
    assert proof.executed.difference <= proof.executed.tolerance


def test_a_wrong_window_gives_wrong_numbers(
    target: CoreTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = assessed(PROBLEM, RUNGS["final"](PROBLEM, target), target)
    right = Walk.extent

    def shifted(self: Walk, axis: int) -> tuple[int, int]:
        first, last = right(self, axis)
        if self.at.get("fh") == 1 and axis == 0:
            return first - 1, last - 1
        return first, last

    monkeypatch.setattr(Walk, "extent", shifted)
    with pytest.raises(KernelError, match="computes other numbers"):
        execute(given)


def test_a_wrong_ledger_is_noticed(target: CoreTarget) -> None:
    nest = RUNGS["final"](PROBLEM, target)
    given = assessed(PROBLEM, nest, target)
    other = assessed(PROBLEM, replace(nest, x_at="fh"), target)
    with pytest.raises(KernelError, match="executed and counted differ: DMAs of x"):
        execute(replace(given, transfers=other.transfers))
    seen = count(PROBLEM, nest)
    assert count_difference(given, seen) == ""
    seen.instructions["weight transposes"] += 1
    assert "weight transposes" in count_difference(given, seen)
    seen.instructions["weight transposes"] -= 1
    seen.psum_tiles += 8
    assert "accumulators" in count_difference(given, seen)


@pytest.mark.quick
def test_runs_are_read_from_strides() -> None:
    whole = np.zeros((4, 6, 8), dtype=np.float32)
    assert contiguous_run(whole[:, 1:3], np.zeros((4, 2, 8), np.float32)) == 16
    assert contiguous_run(whole[:, 1:3, :7], np.zeros((4, 2, 7), np.float32)) == 7
    assert contiguous_run(whole[:, :, 2:3], np.zeros((4, 6, 1), np.float32)) == 1
    padded = np.zeros((4, 4, 10), np.float32)
    assert contiguous_run(whole[:, 1:3], padded[:, 1:3, 1:9]) == 8


@pytest.mark.quick
def test_rounding_is_to_the_nearest() -> None:
    numbers = np.array([1.0, 1.00390625, 1.01171875, -3.0e38, 1e-3], dtype=np.float32)
    assert rounded(numbers, "bf16").tolist()[:3] == [1.0, 1.0, 1.015625]
    assert rounded(numbers[4:], "fp16")[0] == np.float32(np.float16(1e-3))
    assert rounded(numbers, "fp32").tolist() == numbers.tolist()
