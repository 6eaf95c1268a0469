"""The verifiers against good programs, small wrong ones, and brute force over every edge."""

from dataclasses import replace

import numpy as np
import pytest

from support.faults import lifetimes
from support.programs import (
    Lowered,
    bytes_of,
    quartered,
    relative_error,
    with_address,
    without_edge,
    without_wait,
)
from tilewright.cost.base import WorkKind, Workload
from tilewright.errors import VerificationError
from tilewright.graph.ops.spec import Step
from tilewright.machine.load import load_machine
from tilewright.program.footprint import Footprints
from tilewright.program.place import Placed
from tilewright.program.program import Buffer, Compute, Program, Task, Transfer, View
from tilewright.program.verify import verify_placed, verify_program

SMALL = [("four_convs@8x8", "npu-2.7"), ("four_convs@8x8", "mcu")]


@pytest.mark.parametrize(
    ("shape", "strides", "item"),
    [
        ((), (), 4),
        ((5,), (2,), 2),
        ((3, 4), (8, 2), 2),
        ((2, 3, 4, 5), (640, 2, 160, 32), 2),
        ((4, 3), (1, 4), 1),
        ((3, 4), (6, 2), 2),
        ((2, 3), (0, 2), 2),
        ((3, 2), (-8, 2), 2),
        ((2, 2, 2), (100, 10, 5), 5),
        ((1, 7, 1), (99, 3, 98), 1),
    ],
)
def test_footprint_is_every_byte(
    shape: tuple[int, ...], strides: tuple[int, ...], item: int
) -> None:
    view = View(0, 40, shape, strides, "float32", item)
    low, high = Footprints().intervals(view)
    touched = {b for a, z in zip(low + 40, high + 40, strict=True) for b in range(a, z)}
    exact = bytes_of(view)
    assert touched == exact
    assert Footprints().span(view) == (min(exact), max(exact) + 1)
    assert Footprints().of(view).distinct is (len(exact) == view.bytes)


def accesses(placed: Placed) -> list[tuple[set[tuple[str, int]], set[tuple[str, int]]]]:
    """The bytes that each task reads and writes, by memory and address."""

    def at(view: View) -> set[tuple[str, int]]:
        base = placed.address[view.buffer]
        memory = placed.program.buffers[view.buffer].memory
        return {(memory, base + byte) for byte in bytes_of(view)}

    return [
        (set().union(*map(at, task.reads)), set().union(*map(at, task.writes)))
        for task in placed.program.tasks
    ]


def conflicts(placed: Placed) -> list[tuple[int, int]]:
    """Pairs of tasks that touch the same byte, one of them writing."""
    used = accesses(placed)
    return [
        (one, other)
        for other in range(len(used))
        for one in range(other)
        if used[one][1] & (used[other][0] | used[other][1]) or used[one][0] & used[other][1]
    ]


def unordered(placed: Placed, pairs: list[tuple[int, int]]) -> bool:
    """Whether some pair is ordered neither by edges nor by an engine."""
    before: list[set[int]] = []
    last: dict[int, int] = {}
    for task in range(placed.problem.count):
        engine = int(placed.problem.engine[task])
        needs = [*placed.problem.needs_of(task), *([last[engine]] if engine in last else [])]
        before.append(set(needs).union(*(before[need] for need in needs)))
        last[engine] = task
    return any(one not in before[other] for one, other in pairs)


def raises(check: object, placed: Placed, case: Lowered) -> bool:
    try:
        if check is verify_program:
            verify_program(placed.program, case.machine)
        else:
            verify_placed(placed, case.machine)
    except VerificationError:
        return True
    return False


@pytest.mark.parametrize(("network", "machine"), SMALL)
def test_every_dropped_edge_that_leaves_a_conflict_is_a_race(network: str, machine: str) -> None:
    case = quartered(network, machine)
    pairs = conflicts(case.placed)
    harmful = 0
    for after, task in enumerate(case.program.tasks):
        for before in case.placed.problem.needs_of(after):
            fewer = without_edge(case.placed, before, after)
            if before in task.after:
                fewer = without_wait(fewer, before, after)
            expected = unordered(fewer, pairs)
            harmful += expected
            assert raises(verify_placed, fewer, case) is expected, (before, after)
    assert harmful > 20


@pytest.mark.parametrize(("network", "machine"), SMALL)
def test_every_dropped_wait_for_a_writer_is_seen(network: str, machine: str) -> None:
    case = quartered(network, machine)
    used = accesses(case.placed)
    for after, task in enumerate(case.program.tasks):
        for before in task.after:
            fewer = without_wait(case.placed, before, after)
            expected = bool(used[before][1] & used[after][0])
            assert raises(verify_program, fewer, case) is expected, (before, after)


@pytest.mark.parametrize("machine", ["npu-2.7", "mcu"])
def test_what_the_verifiers_accept_gives_the_same_numbers(machine: str) -> None:
    case = quartered("residual", machine)
    expected = case.execute().outputs
    random = np.random.default_rng(0)
    lives = sorted(lifetimes(case))
    accepted = 0
    for _ in range(150):
        buffer = int(random.choice(lives))
        grain = case.program.buffers[buffer].alignment
        address = max(0, case.placed.address[buffer] + grain * int(random.integers(-40, 60)))
        changed = with_address(case.placed, buffer, address)
        if not raises(verify_placed, changed, case):
            accepted += 1
            assert relative_error(case.execute(changed).outputs, expected) == 0
    assert 0 < accepted < 150


def small_program(*tasks: Task, buffers: tuple[Buffer, ...]) -> Program:
    whole = View(0, 0, (16,), (1,), "float32", 1)
    result = replace(whole, buffer=len(buffers) - 1)
    return Program("mcu", tasks, buffers, (("x", whole),), (), (("y", result),))


def copy(source: View, target: View, route: tuple[str, str], *after: int) -> Task:
    return Task("copy", "dma", Transfer(route), (source,), (target,), 10, source.bytes, after=after)


def test_half_of_an_output_left_unwritten_is_named() -> None:
    inside, outside = ("external", "core.sram"), ("core.sram", "external")
    buffers = (
        Buffer("x", "external", 16, 16, "x"),
        Buffer("t", "core.sram", 16, 16, "t"),
        Buffer("y", "external", 16, 16, "y"),
    )
    whole = View(0, 0, (16,), (1,), "float32", 1)
    half = replace(whole, shape=(8,))
    load = copy(whole, replace(whole, buffer=1), inside)
    machine = load_machine("mcu")
    good = copy(replace(whole, buffer=1), replace(whole, buffer=2), outside, 0)
    verify_program(small_program(load, good, buffers=buffers), machine)
    short = copy(replace(half, buffer=1), replace(half, buffer=2), outside, 0)
    with pytest.raises(VerificationError, match="output 'y' are never written"):
        verify_program(small_program(load, short, buffers=buffers), machine)
    with pytest.raises(VerificationError, match="that nothing has written"):
        verify_program(small_program(replace(good, after=()), buffers=buffers), machine)
    with pytest.raises(VerificationError, match="is for mcu"):
        verify_program(small_program(load, good, buffers=buffers), load_machine("npu-2.7"))


@pytest.mark.parametrize(
    ("kind", "offset", "fine"),
    [
        ("Exp", 0, True),
        ("Softmax", 0, True),
        ("Exp", 2, False),  # each result over the operand of the next
        ("Transpose", 0, False),  # elements move
        ("MaxPool", 0, False),  # reads what is around
        ("Exp", 8, True),  # beside it
    ],
)
def test_a_task_writes_over_what_it_reads_only_in_place(kind: str, offset: int, fine: bool) -> None:
    machine = load_machine("mcu")
    engine = next(e.name for e in machine.engines if e.kind == "vector")
    given = View(0, 0, (2, 2), (4, 2), "float16", 2)
    read = replace(given, buffer=1)
    load = copy(given, read, ("external", "core.sram"))
    work = Compute((Step(kind, {}, (0,)),), Workload(WorkKind.VECTOR, "fp16", 4))
    task = Task("over", engine, work, (read,), (replace(read, offset=offset),), 1, after=(0,))
    buffers = (Buffer("x", "external", 16, 16, "x"), Buffer("near", "core.sram", 16, 16, "near"))
    program = Program("mcu", (load, task), buffers, (("x", given),), (), ())
    if fine:
        verify_program(program, machine)
    else:
        with pytest.raises(VerificationError, match="writes over 'near', which it reads"):
            verify_program(program, machine)
