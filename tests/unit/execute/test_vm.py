"""The virtual machine: addresses, poison, and bytes that balance."""

from dataclasses import replace

import numpy as np
import pytest

from support.programs import Lowered, lowered, quartered, relative_error, with_address, with_task
from tilewright.errors import VerificationError
from tilewright.execute.vm import HOST_BYTES, VirtualMachine
from tilewright.program.program import Compute

NETWORKS = ("four_convs@16x16", "residual", "transformer_block", "rn50_stem@32x32")
MACHINES = ("npu-2.7", "npu-4.0-2", "mcu")
CASES = [(network, machine) for network in NETWORKS for machine in MACHINES]


def traffic(case: Lowered, memory: str) -> tuple[int, int]:
    """Bytes that the task list reads from a memory and writes to it."""
    inside = [buffer.memory == memory for buffer in case.program.buffers]
    reads = (v.bytes for t in case.program.tasks for v in t.reads if inside[v.buffer])
    writes = (v.bytes for t in case.program.tasks for v in t.writes if inside[v.buffer])
    return sum(reads), sum(writes)


@pytest.mark.parametrize(("network", "machine"), CASES)
def test_bytes_of_the_task_list_are_those_executed(network: str, machine: str) -> None:
    case = lowered(network, machine)
    executed = case.execute()
    assert executed.tasks == len(case.program.tasks)
    for memory in case.machine.memories:
        counted = (executed.read_bytes[memory.name], executed.write_bytes[memory.name])
        assert counted == traffic(case, memory.name), memory.name


@pytest.mark.parametrize(("network", "machine"), CASES)
def test_compulsory_traffic_is_never_undercut(network: str, machine: str) -> None:
    case = lowered(network, machine)
    executed = case.execute()
    main = case.machine.main_memory.name
    used = {view.buffer for task in case.program.tasks for view in task.reads}
    given = {v.buffer: v.bytes for _, v in (*case.program.inputs, *case.program.constants)}
    arriving = sum(size for buffer, size in given.items() if buffer in used)
    leaving = sum(view.bytes for _, view in case.program.outputs)
    assert executed.read_bytes[main] >= arriving > 0
    assert executed.write_bytes[main] >= leaving > 0


@pytest.mark.parametrize(("network", "machine"), CASES)
def test_the_most_bytes_live_at_once_are_counted_right(network: str, machine: str) -> None:
    case = lowered(network, machine)
    program = case.program
    count = len(program.tasks) + 1
    lives: dict[int, tuple[int, int]] = {}
    for number, task in enumerate(program.tasks):
        for view in (*task.reads, *task.writes):
            lives[view.buffer] = (lives.get(view.buffer, (number, 0))[0], number + 1)
    for _, view in (*program.inputs, *program.constants, *program.outputs):
        lives[view.buffer] = (0, count)
    most = dict(case.placed.most_live)
    for memory, highest in case.placed.highest:
        live = np.zeros(count, dtype=np.int64)
        for buffer, (born, dead) in lives.items():
            if program.buffers[buffer].memory == memory:
                live[born:dead] += program.buffers[buffer].size
        assert live.max() == most[memory] <= highest, memory


def test_values_are_where_the_addresses_say() -> None:
    case = quartered("residual", "npu-2.7")
    machine = VirtualMachine(case.placed, case.machine, case.graph.opset)
    weights = {name: constant.data for name, constant in case.graph.constants.items()}
    outputs = machine.run(case.feeds(), weights).outputs
    ((name, view),) = case.program.outputs
    start = (case.placed.address[view.buffer] + view.offset) * HOST_BYTES
    memory = machine.memory[case.machine.main_memory.name]
    assert memory[start : start + 4].view(np.float32)[0] == outputs[name].flat[0]
    assert relative_error(outputs, case.reference()) < 1e-4


def test_moving_a_buffer_to_free_space_changes_nothing() -> None:
    case = quartered("residual", "npu-2.7")
    (memory, highest) = next((m, p) for m, p in case.placed.highest if m == "cluster0.cmx")
    local = next(i for i, b in enumerate(case.program.buffers) if b.memory == memory)
    grain = case.program.buffers[local].alignment
    moved = with_address(case.placed, local, -(-highest // grain) * grain)
    assert relative_error(case.execute(moved).outputs, case.execute().outputs) == 0


def test_what_was_never_written_is_not_a_number() -> None:
    case = quartered("residual", "npu-2.7")
    number, task = next(
        (n, t) for n, t in enumerate(case.program.tasks) if isinstance(t.work, Compute)
    )
    buffers = (*case.program.buffers, replace(case.program.buffers[task.reads[0].buffer]))
    fresh = replace(task.reads[0], buffer=len(buffers) - 1)
    (_, highest) = next((m, p) for m, p in case.placed.highest if m == buffers[-1].memory)
    changed = with_task(case.placed, number, replace(task, reads=(fresh, *task.reads[1:])))
    changed = replace(
        changed,
        program=replace(changed.program, buffers=buffers),
        address=(*case.placed.address, highest),
        highest=tuple((m, p + buffers[-1].size) for m, p in case.placed.highest),
    )
    assert any(np.isnan(array).any() for array in case.execute(changed).outputs.values())


def test_an_address_outside_its_memory_is_refused() -> None:
    case = quartered("residual", "mcu")
    addresses = tuple(start + 10**6 for start in case.placed.address)
    with pytest.raises(VerificationError, match="leaves"):
        case.execute(replace(case.placed, address=addresses))


def test_a_result_of_another_shape_is_not_broadcast() -> None:
    case = quartered("residual", "mcu")
    number, task = next(
        (n, t)
        for n, t in enumerate(case.program.tasks)
        if isinstance(t.work, Compute) and t.node == "conv3"
    )
    assert isinstance(task.work, Compute)
    view = task.reads[0]
    one_row = replace(view, shape=(*view.shape[:2], 3, *view.shape[3:]))
    step = task.work.steps[0]
    attributes = {**step.attributes, "pads": (0, 1, 0, 1)}
    work = replace(task.work, steps=(replace(step, attributes=attributes), *task.work.steps[1:]))
    changed = replace(task, work=work, reads=(one_row, *task.reads[1:]))
    with pytest.raises(VerificationError, match="gives"):
        case.execute(with_task(case.placed, number, changed))
