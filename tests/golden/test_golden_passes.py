"""A program for two cores as it is built, and behind every pass, compared with files.

After a change that is meant: `make golden`, then read the diff.
"""

import pytest

from support.golden import check_golden
from support.two_cores import two_cores
from tilewright.program.lower import BUILD
from tilewright.program.pipeline import IN_PLACE, PASSES
from tilewright.program.text import program_text

pytestmark = [pytest.mark.quick, pytest.mark.golden]
# There is room for all here: results lie beside their operands.
STEPS = (BUILD, *(step.name for step in PASSES if step is not IN_PLACE))


@pytest.mark.parametrize("number", range(len(STEPS)), ids=STEPS)
def test_the_program_behind_each_step(number: int) -> None:
    step = STEPS[number]
    text = program_text(two_cores().after(step))
    check_golden(f"two_cores_{number}_{step}.txt", text)


def test_every_pass_shows_in_its_golden_text() -> None:
    """A pass that left the program as it was would have nothing to compare."""
    texts = [program_text(two_cores().after(step)) for step in STEPS]
    same = [step for step, a, b in zip(STEPS[1:], texts, texts[1:], strict=False) if a == b]
    assert not same
