"""The search: never worse than the ladder, near the floor, and its ablation adds up."""

from dataclasses import replace

import pytest

from tilewright.kernel.assess import NestModel
from tilewright.kernel.execute import execute
from tilewright.kernel.problem import KernelProblem
from tilewright.kernel.search import CHANGES, FoundNest, Judge, search
from tilewright.kernel.target import CoreTarget, target_of
from tilewright.machine.load import load_machine

LARGE = KernelProblem(256, 224, 224, 256, dtype="fp16")


@pytest.fixture(scope="module")
def target() -> CoreTarget:
    return target_of(load_machine("trn2"))


@pytest.fixture(scope="module")
def found(target: CoreTarget) -> FoundNest:
    return search(LARGE, target)


def test_the_large_problem_comes_near_the_floor(found: FoundNest) -> None:
    assert found.looked_at >= 10_000
    assert found.best.legal
    assert found.best.high <= found.start.high
    assert found.above_floor <= 0.15
    assert "us" in found.held_back_by()


def test_changes_lead_from_the_last_rung_to_the_found_nest(
    found: FoundNest, target: CoreTarget
) -> None:
    start, best = found.start.nest, found.best.nest
    names = [change.name for change in found.changes]
    fields = [field for name in names for field in CHANGES[name]]
    changed = replace(start, name="found", **{field: getattr(best, field) for field in fields})
    assert changed == best
    assert sorted(name for name, _ in found.steps) == sorted(names)
    assert found.steps[-1][1] == found.judged >= found.best.high
    judge = Judge(NestModel(LARGE, target))
    for change in found.changes:
        alone = replace(start, **{f: getattr(best, f) for f in CHANGES[change.name]})
        if change.alone is None:
            assert judge.model.violations(alone)
        else:
            assert change.alone == judge.time(alone)[0] >= judge.model.assess(alone).high


def test_a_search_finds_the_same_again(target: CoreTarget) -> None:
    problem = KernelProblem(64, 20, 20, 64)
    assert search(problem, target) == search(problem, target)


@pytest.mark.parametrize(
    "problem",
    [
        KernelProblem(256, 32, 16, 256, pool=2, dtype="fp32"),
        KernelProblem(3, 30, 700, 40, (5, 5), pool=3),
        KernelProblem(64, 56, 56, 64, pads=(1, 1, 1, 1), dtype="fp16"),
        KernelProblem(130, 15, 15, 257, batch=3, pads=(1, 1, 1, 1), relu=True, dtype="bf16"),
    ],
    ids=str,
)
def test_what_is_found_runs_and_is_no_slower(problem: KernelProblem, target: CoreTarget) -> None:
    found = search(problem, target)
    assert found.best.high <= found.start.high
    rows = [time for change in found.changes for time in (change.alone, change.without)]
    assert min((time for time in rows if time is not None), default=1.0) * 1.005 >= found.judged
    execute(found.best)
