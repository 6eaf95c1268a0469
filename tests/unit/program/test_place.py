"""Times of copies: routes that share bandwidth, and routes that do not."""

from dataclasses import replace

import pytest

from support.costs import alone_cost
from tilewright.cost.base import Copy
from tilewright.cost.dma import moved_bytes, start_cycles
from tilewright.errors import VerificationError
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.program.place import place
from tilewright.program.program import Buffer, Program, Task, Transfer, View
from tilewright.program.verify import verify_placed, verify_program

NPU = load_machine("npu-2.7")
DDR, ONE, OTHER = "ddr", "cluster0.cmx", "cluster1.cmx"
SIZE = 12_000


def copy(machine: Machine, name: str, link: str, route: tuple[str, str], views: str) -> Task:
    source, target = (View(int(b), 0, (SIZE // 2,), (2,), "float16", 2) for b in views)
    way = machine.link(link).route(*route)
    assert way is not None
    run = Copy(SIZE, ())
    cycles = start_cycles(run, machine.link(link), way)
    return Task(name, link, Transfer(route), (source,), (target,), cycles, moved_bytes(run, way))


def local_copies() -> Program:
    """Load to one cluster, then cluster to cluster on both queues."""
    memories = (DDR, ONE, OTHER, OTHER)
    buffers = tuple(Buffer(f"b{i}", memory, SIZE, 64) for i, memory in enumerate(memories))
    load = copy(NPU, "load", "dma0", (DDR, ONE), "01")
    first = replace(copy(NPU, "first", "dma0", (ONE, OTHER), "12"), after=(0,))
    second = replace(copy(NPU, "second", "dma1", (ONE, OTHER), "13"), after=(0,))
    whole = replace(load.reads[0])
    return Program("npu-2.7", (load, first, second), buffers, (("x", whole),), (), ())


def test_a_local_copy_takes_its_own_time_and_no_shared_bandwidth() -> None:
    program = local_copies()
    verify_program(program, NPU)
    placed = place(program, NPU)
    verify_placed(placed, NPU)
    taken = (placed.schedule.end - placed.schedule.start).tolist()
    assert taken[1] == 22 + SIZE // 12  # 16 B per 975 MHz cycle are 12 per DPU cycle
    assert taken[2] == taken[1]  # both at once: nothing is shared
    link = NPU.link("dma0")
    for number, route in ((0, (DDR, ONE)), (1, (ONE, OTHER))):
        way = link.route(*route)
        assert way is not None
        assert taken[number] == alone_cost(NPU, link, way, Copy(SIZE, ())).cycles


def test_a_local_copy_scheduled_at_the_rate_of_main_memory_is_refused() -> None:
    placed = place(local_copies(), NPU)
    faster = placed.problem.duration.copy()
    faster[1] -= SIZE // 24
    wrong = replace(placed, problem=replace(placed.problem, duration=faster))
    with pytest.raises(VerificationError, match="other cycles"):
        verify_placed(wrong, NPU)
