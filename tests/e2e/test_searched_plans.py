"""What `tilewright plan` decides: memory that is used well, and the same bytes every time."""

import os
import subprocess
import sys

import pytest

from tilewright import api
from tilewright.machine.load import load_machine
from tilewright.program.lower import lowered

PLAN = """
from tilewright import api
from tilewright.machine.load import load_machine
from tilewright.plan.plan import plan_text
from tilewright.program.text import program_text
from tilewright.report.plan_summary import summary_json

planned = api.plan(api.load({model!r}), load_machine({machine!r}), fast=True, verify=False).planned
print(plan_text(planned.plan))
print(program_text(planned.placed.program, planned.placed))
print(summary_json(planned))
"""


@pytest.mark.parametrize("machine", ["npu-2.7", "npu-4.0", "mcu"])
@pytest.mark.parametrize("model", ["four_convs", "fsrcnn@32x48"])
def test_a_plan_needs_little_more_than_what_is_live(model: str, machine: str) -> None:
    """Loads use all of a scratchpad to come early; with hardly more than what was live at once the
    same plan still runs, without spills."""
    target = load_machine(machine)
    planned = api.plan(api.load(model), target, fast=True).planned
    assert planned.verified is not None
    assert planned.account.latency_cycles >= planned.bounds.cycles
    main = target.main_memory.name
    live = dict(planned.placed.most_live)
    for memory, highest in planned.placed.highest:
        assert live[memory] <= highest <= target.memory(memory).usable
    most = max(size for memory, size in live.items() if memory != main)
    smaller = target.with_memory(int(1.1 * most))
    assert not lowered(planned.graph, smaller, planned.plan).spills


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
