"""The printed form of a program: one line a task, and all of it."""

import pytest

from tilewright import api
from tilewright.frontend.normalize import normalize
from tilewright.machine.load import load_machine
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.program.lower import lowered
from tilewright.program.pipeline import PASSES
from tilewright.program.place import Placed
from tilewright.program.text import program_text
from tilewright.tiling.grid import Split

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def placed() -> Placed:
    """Four convolutions in two halves each, on the MCU core."""
    machine = load_machine("mcu")
    graph = normalize(api.load("four_convs@8x8").graph)
    groups = tuple(GroupPlan((node.name,), (Split(2, 2),)) for node in graph.nodes)
    plan = Plan("four_convs", "mcu", "int8", groups)
    return lowered(graph, machine, plan, frozenset(step.name for step in PASSES))


def test_one_line_a_task_and_a_buffer(placed: Placed) -> None:
    program = placed.program
    lines = program_text(program).splitlines()
    assert sum(line.startswith("t") for line in lines) == len(program.tasks)
    assert sum(line.startswith("buffer ") for line in lines) == len(program.buffers)
    around = len(program.inputs) + len(program.constants) + len(program.outputs)
    assert len(lines) == 1 + around + len(program.buffers) + len(program.tasks)


def test_a_task_shows_its_engine_views_cost_and_edges(placed: Placed) -> None:
    lines = program_text(placed.program).splitlines()
    (line,) = [line for line in lines if " Conv conv1@0: " in line]
    number = next(i for i, task in enumerate(placed.program.tasks) if task.name == "conv1@0")
    task = placed.program.tasks[number]
    assert line.startswith(f"t{number} core.array Conv conv1@0: ")
    assert f"[1x3x5x8]/({','.join(map(str, task.reads[0].strides))})" in line
    assert line.endswith(f"{task.cycles} cycles after t0 t1")


def test_addresses_and_times_once_placed(placed: Placed) -> None:
    lines = program_text(placed.program, placed).splitlines()
    (first,) = [line for line in lines if line.startswith("buffer b0 ")]
    assert f" at {placed.address[0]}: " in first
    last = lines[-1]
    assert last.endswith(f", {placed.schedule.end[-1]})")


def test_same_program_same_text(placed: Placed) -> None:
    assert program_text(placed.program, placed) == program_text(placed.program, placed)
