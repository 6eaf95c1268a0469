"""Listings of kernels compared with the files beside this one (see test_golden_text.py)."""

import pytest

from support.golden import check_golden
from tilewright.kernel.assess import NestModel
from tilewright.kernel.ladder import RUNGS
from tilewright.kernel.listing import listing_text
from tilewright.kernel.nest_file import nest_text
from tilewright.kernel.problem import KernelProblem
from tilewright.kernel.target import target_of
from tilewright.machine.load import load_machine

pytestmark = [pytest.mark.quick, pytest.mark.golden]


@pytest.mark.parametrize("rung", RUNGS)
def test_listing_and_nest_of_a_rung(rung: str) -> None:
    target = target_of(load_machine("trn2"))
    problem = (
        KernelProblem(256, 32, 16, 256)
        if rung == "small images"
        else KernelProblem(256, 224, 224, 256)
    )
    nest = RUNGS[rung](problem, target)
    text = listing_text(NestModel(problem, target).assess(nest))
    check_golden(f"kernel_{rung.replace(' ', '_')}.txt", text + "\n" + nest_text(nest))
