"""Programs that do not fit without spilling: they run, and faults around spills are caught."""

from dataclasses import replace
from functools import cache

import pytest

from support.programs import Lowered, rearranged, relative_error, with_task
from tilewright.errors import VerificationError
from tilewright.frontend.builder import Builder as GraphBuilder
from tilewright.frontend.normalize import normalize
from tilewright.frontend.weights import seeded
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.program.account import account_of
from tilewright.program.lower import lowered
from tilewright.program.passes.spill import RELOAD, STORE
from tilewright.program.place import DoesNotFitError, Placed
from tilewright.program.verify import verify_placed, verify_program

PIXELS = 32 * 32 * 16 * 2  # bytes of one activation
TENSORS = 3  # that fit beside the weights


def long_skips(skips: int = 2) -> Graph:
    """Results of the first convolutions are added up only at the end."""
    b = GraphBuilder("long_skips")
    x = b.input("input", (1, 16, 32, 32))
    kept: list[str] = []
    for number in range(skips):
        x = b.conv(x, 16, 3, pads=1, bias=True, name=f"early{number}")
        kept.append(x)
    for number in range(3):
        x = b.conv(x, 16, 3, pads=1, bias=True, name=f"late{number}")
    for number, skip in enumerate(kept):
        x = b.op("Sub", x, skip, name=f"sub{number}")
    return b.finish(b.pool("MaxPool", x, 2, 2, 0, name="pool"))


def one_group(graph: Graph, usable: int) -> Lowered:
    """All operators in one group, untiled, on one core with so many bytes."""
    machine = load_machine("npu-2.7").with_memory(usable)
    numbered = seeded(graph)
    normal = normalize(numbered)
    nodes = tuple(node.name for node in normal.nodes)
    plan = Plan("long_skips", machine.name, "fp16", (GroupPlan(nodes, ()),))
    return Lowered(numbered, normal, machine, lowered(normal, machine, plan))


@cache
def spilling() -> Lowered:
    return one_group(long_skips(), TENSORS * PIXELS + 8192)


def numbers(case: Lowered, start: str) -> list[int]:
    tasks = case.program.tasks
    return [n for n, task in enumerate(tasks) if task.name.startswith(f"{start} ")]


def test_a_program_that_needs_spills_runs_verified() -> None:
    case = spilling()
    verify_program(case.program, case.machine)
    verify_placed(case.placed, case.machine)
    assert case.placed.spills
    assert relative_error(case.execute().outputs, case.reference()) < 1e-4
    for spill in case.placed.spills:
        assert spill.memory == "cluster0.cmx"
        assert spill.reason in ("capacity", "fragmentation")
        assert spill.bytes == PIXELS
    assert len(numbers(case, STORE)) == sum(spill.stored for spill in case.placed.spills)
    assert len(numbers(case, RELOAD)) == len(case.placed.spills)


def test_without_need_nothing_is_spilled() -> None:
    case = one_group(long_skips(), 16 * PIXELS)
    assert case.placed.spills == ()


def test_spilled_bytes_are_counted_as_traffic() -> None:
    case, roomy = spilling(), one_group(long_skips(), 16 * PIXELS)
    tight_account = account_of(case.placed, case.machine)
    roomy_account = account_of(roomy.placed, roomy.machine)
    more = sum(spill.moved for spill in case.placed.spills)
    assert more > 0
    spent = tight_account.dram_read_bytes + tight_account.dram_write_bytes
    assert spent == roomy_account.dram_read_bytes + roomy_account.dram_write_bytes + more
    done = case.execute()
    assert done.read_bytes["ddr"] == tight_account.dram_read_bytes
    assert done.write_bytes["ddr"] == tight_account.dram_write_bytes


def test_what_cannot_be_spilled_is_explained() -> None:
    with pytest.raises(
        DoesNotFitError, match=r"memory cluster0.cmx: [\d.]+ [kM]?B are needed.*spilled"
    ):
        one_group(long_skips(), PIXELS + 8192)


def caught(placed: Placed, case: Lowered) -> bool:
    try:
        verify_program(placed.program, case.machine)
        verify_placed(placed, case.machine)
        return relative_error(case.execute(placed).outputs, case.reference()) > 1e-4
    except VerificationError:
        return True


def test_a_missing_spill_or_reload_is_caught() -> None:
    case = spilling()
    everything = range(len(case.program.tasks))
    for gone in (*numbers(case, STORE), *numbers(case, RELOAD)):
        assert caught(rearranged(case.placed, [t for t in everything if t != gone]), case)


def test_a_reload_that_does_not_wait_for_its_spill_is_caught() -> None:
    case = spilling()
    for number in numbers(case, RELOAD):
        task = case.program.tasks[number]
        assert task.after
        assert caught(with_task(case.placed, number, replace(task, after=())), case)


def test_a_reload_from_elsewhere_is_caught() -> None:
    case = spilling()
    wrong = next(view for name, view in case.program.inputs if name == "input")
    for number in numbers(case, RELOAD):
        task = case.program.tasks[number]
        source = replace(task.reads[0], buffer=wrong.buffer, offset=wrong.offset)
        assert caught(with_task(case.placed, number, replace(task, reads=(source,))), case)


def test_a_use_of_the_old_buffer_behind_a_spill_is_caught() -> None:
    case = spilling()
    for store, reload in zip(numbers(case, STORE), numbers(case, RELOAD), strict=False):
        old, new = (
            case.program.tasks[store].reads[0].buffer,
            case.program.tasks[reload].writes[0].buffer,
        )
        for number in range(reload + 1, len(case.program.tasks)):
            task = case.program.tasks[number]
            if any(view.buffer == new for view in task.reads):
                reads = tuple(replace(v, buffer=old) if v.buffer == new else v for v in task.reads)
                assert caught(with_task(case.placed, number, replace(task, reads=reads)), case)
