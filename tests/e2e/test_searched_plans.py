"""What `tilewright plan` decides: memory that is used well, and the same bytes every time."""

import os
import subprocess
import sys

import pytest

from tilewright import api
from tilewright.machine.load import load_machine
from tilewright.planning import plan_model

PLAN = """
from tilewright import api
from tilewright.machine.load import load_machine
from tilewright.plan.plan import plan_text
from tilewright.planning import plan_model
from tilewright.program.text import program_text
from tilewright.report.plan_summary import summary_json

planned = plan_model(api.load({model!r}), load_machine({machine!r}), fast=True, verify=False)
print(plan_text(planned.plan))
print(program_text(planned.placed.program, planned.placed))
print(summary_json(planned))
"""


@pytest.mark.parametrize("machine", ["npu-2.7", "npu-4.0", "mcu"])
@pytest.mark.parametrize("model", ["four_convs", "fsrcnn@32x48"])
def test_peak_is_close_to_what_is_live(model: str, machine: str) -> None:
    target = load_machine(machine)
    planned = plan_model(api.load(model), target, fast=True)
    assert planned.verified is not None
    live = dict(planned.placed.most_live)
    for memory, peak in planned.placed.peaks:
        assert peak <= 1.05 * live[memory], f"{memory}: {peak} bytes for {live[memory]} live"
    assert planned.account.latency_cycles >= planned.bounds.cycles


def planned_by_itself(model: str, machine: str, seed: int) -> str:
    """Plan, placed program and summary, of a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PLAN.format(model=model, machine=machine)],
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_searched_plans_are_the_same_bytes() -> None:
    first, second = (planned_by_itself("fsrcnn@32x48", "npu-2.7", seed) for seed in (1, 2))
    assert "resident:" in first
    assert first == second
