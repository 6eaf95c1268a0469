"""The simulated kernel: a valid schedule that does all the work the model counts."""

from dataclasses import replace

import pytest

from tilewright.kernel.assess import NestModel
from tilewright.kernel.ladder import RUNGS
from tilewright.kernel.problem import KernelProblem
from tilewright.kernel.search import search
from tilewright.kernel.target import CoreTarget, target_of
from tilewright.kernel.timeline import TICKS, TRACKS, simulated
from tilewright.machine.load import load_machine
from tilewright.schedule.validate import validate_schedule

SMALL = KernelProblem(256, 32, 16, 256, dtype="fp32", pool=2)
LARGE = KernelProblem(256, 224, 224, 256, dtype="fp16")


@pytest.fixture(scope="module")
def target() -> CoreTarget:
    return target_of(load_machine("trn2"))


@pytest.mark.parametrize("rung", ["baseline", "weights hoisted", "final", "small images"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_schedules_are_valid_and_do_all_work(rung: str, dtype: str, target: CoreTarget) -> None:
    problem = replace(SMALL, dtype=dtype, pads=(1, 0, 1, 0))
    given = NestModel(problem, target).assess(RUNGS[rung](problem, target))
    run = simulated(given)
    assert validate_schedule(run.problem, run.schedule) == ()
    slack = len(run.tasks) / TICKS  # each task is whole ticks
    for track, name in enumerate(TRACKS):
        assert run.busy(track) == pytest.approx(dict(given.engines)[name], abs=slack)
        assert run.seconds >= run.busy(track)


def test_the_closed_form_agrees_where_engines_overlap(target: CoreTarget) -> None:
    found = search(LARGE, target).best
    assert simulated(found).seconds == pytest.approx(found.high, rel=0.03)
    single = replace(LARGE, dtype="fp32")
    final = NestModel(single, target).assess(RUNGS["final"](single, target))
    assert simulated(final).seconds == pytest.approx(final.high, rel=0.01)


def test_one_buffer_is_slower_than_two(target: CoreTarget) -> None:
    problem = replace(LARGE, dtype="fp32", height=32)
    nest = RUNGS["final"](problem, target)
    model = NestModel(problem, target)
    two = model.assess(nest)
    for changes in ({"psum_buffers": 1}, {"x_buffers": 1}):
        one = model.assess(replace(nest, **changes))
        assert one.high > two.high
        assert simulated(one).seconds > simulated(two).seconds
