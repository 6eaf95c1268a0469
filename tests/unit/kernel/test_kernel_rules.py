"""Every rule refuses the nest that breaks it, by its name, and no other rule does."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tilewright.kernel.assess import NestModel
from tilewright.kernel.execute import execute
from tilewright.kernel.ladder import final
from tilewright.kernel.problem import KernelError, KernelProblem
from tilewright.kernel.rules import RULES
from tilewright.kernel.target import CoreTarget, target_of
from tilewright.machine.load import load_machine

pytestmark = pytest.mark.quick
PROBLEM = KernelProblem(200, 40, 60, 200, pool=2, dtype="fp16")
HALF = {"compute": "fp16", "psum": "fp32", "bias": "tensor_scalar"}
BROKEN: list[tuple[str, Mapping[str, Any]]] = [
    ("loop-order", {"order": ("image", "out", "block", "in", "fh", "fw")}),
    ("loop-order", {"order": ("image", "out", "row", "block", "in", "fh", "fw")}),
    ("places", {"x_at": "rows"}),
    ("places", {"w_at": "in", "w_transpose_at": "out"}),
    ("places", {"x_at": "in", "x_copy_at": "block"}),
    ("choices", {"bias": "broadcast"}),
    ("choices", {"w_engine": "tensor"}),
    ("tile-sizes", {"tile_rows": 0}),
    ("tile-sizes", {"tile_rows": 4, "block_rows": 6}),
    ("partitions", {"tile_in": 200}),
    ("stationary", {"tile_out": 200}),
    ("moving", {"tile_rows": 10, "block_rows": 10}),
    ("pool-rows", {"tile_rows": 3, "block_rows": 3}),
    ("pool-rows", {"tile_cols": 7}),
    ("operand-types", {"compute": "fp32"}),
    ("accumulator-type", {"psum": "bf16"}),
    ("bias-type", HALF),
    ("flush", {"flush_at": "row"}),
    ("buffers", {"x_buffers": 0}),
    ("sbuf", {"x_at": "image"}),
    ("psum-banks", {"psum_buffers": 9}),
    ("bank", {"tile_rows": 10, "block_rows": 10}),
]


@pytest.fixture(scope="module")
def target() -> CoreTarget:
    return target_of(load_machine("trn2"))


def test_every_rule_has_a_nest_that_breaks_it() -> None:
    assert {rule for rule, _ in BROKEN} == set(RULES)


@pytest.mark.parametrize(("rule", "changes"), BROKEN)
def test_a_broken_rule_is_named(rule: str, changes: Mapping[str, Any], target: CoreTarget) -> None:
    problem = replace(PROBLEM, height=220, width=220) if rule == "sbuf" else PROBLEM
    good = final(problem, target)
    model = NestModel(problem, target)
    assert model.violations(good) == ()
    broken = model.violations(replace(good, **changes))
    allowed = {rule, *({"stationary"} if rule == "partitions" else set())}
    allowed |= {"partitions"} if rule == "stationary" else set()
    allowed |= {"moving", "bank"} if rule in ("moving", "bank") else set()
    assert rule in [each.rule for each in broken]
    assert {each.rule for each in broken} <= allowed


def test_a_tensor_scalar_bias_is_legal_where_types_agree(target: CoreTarget) -> None:
    single = replace(PROBLEM, dtype="fp32")
    nest = replace(final(single, target), bias="tensor_scalar")
    assert NestModel(single, target).violations(nest) == ()
    half = replace(final(PROBLEM, target), bias="tensor_scalar", psum="fp16")
    assert NestModel(PROBLEM, target).violations(half) == ()
    unbiased = replace(PROBLEM, bias=False)
    assert NestModel(unbiased, target).violations(replace(final(unbiased, target), **HALF)) == ()


def test_an_illegal_nest_is_not_executed(target: CoreTarget) -> None:
    given = NestModel(PROBLEM, target).assess(replace(final(PROBLEM, target), psum_buffers=9))
    with pytest.raises(KernelError, match="rule psum-banks: 9 banks are more than 8"):
        execute(given)


def test_short_runs_are_remarked(target: CoreTarget) -> None:
    nest = replace(final(PROBLEM, target), w_at="fw", w_transpose_at="fw")
    (lint,) = (
        each for each in NestModel(PROBLEM, target).assess(nest).lints if each.operand == "w"
    )
    assert "runs of 2 B" in lint.text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"height": 0}, "the height has to be at least 1"),
        ({"kernel": (50, 3)}, "larger than the image 40x60"),
        ({"pool": 99}, "larger than the result 38x58"),
        ({"pads": (0, -1, 0, 0)}, "cannot be negative"),
    ],
)
def test_problems_that_do_not_exist(changes: Mapping[str, Any], text: str) -> None:
    with pytest.raises(KernelError, match=text):
        replace(PROBLEM, **changes)
