"""Faults of order, edges, times and addresses."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from support.faults import PLACED, PROGRAM, computes, fault, live_pairs, transfers, with_buffer
from support.programs import (
    Lowered,
    highest_of,
    rearranged,
    with_address,
    with_task,
    with_times,
    without_edge,
    without_wait,
)
from tilewright.program.footprint import Footprints
from tilewright.program.place import Placed
from tilewright.program.program import View
from tilewright.schedule.problem import Schedule

# Order and edges.


@fault(PROGRAM)
def task_before_what_it_needs(case: Lowered) -> Iterator[Placed]:
    for number, task in enumerate(case.program.tasks):
        if number - 1 in task.after:
            order = list(range(len(case.program.tasks)))
            order[number - 1], order[number] = number, number - 1
            yield rearranged(case.placed, order)


@fault(PROGRAM)
def dropped_dependency(case: Lowered) -> Iterator[Placed]:
    for number, task, _ in computes(case):
        for need in task.after:
            yield without_wait(case.placed, need, number)


@fault(PROGRAM)
def dependency_on_itself(case: Lowered) -> Iterator[Placed]:
    for number, task in enumerate(case.program.tasks):
        yield with_task(case.placed, number, replace(task, after=(*task.after, number)))


@fault(PLACED)
def dependency_not_scheduled(case: Lowered) -> Iterator[Placed]:
    for number, task in enumerate(case.program.tasks):
        for need in task.after:
            yield without_edge(case.placed, need, number)


@fault(PLACED, "residual", "mcu")  # elsewhere there is room enough to reuse nothing
def dropped_reuse_edge(case: Lowered) -> Iterator[Placed]:
    for number, task in enumerate(case.program.tasks):
        for need in case.placed.problem.needs_of(number):
            if need not in task.after and _share_bytes(case, need, number):
                yield without_edge(case.placed, need, number)


def _share_bytes(case: Lowered, one: int, other: int) -> bool:
    """Whether two tasks touch the same byte and one of them writes it; buffers that share addresses
    need not share bytes, where channels are padded."""
    footprints = Footprints()

    def touched(views: tuple[View, ...]) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for view in views:
            base = case.placed.address[view.buffer] + view.offset
            memory = case.program.buffers[view.buffer].memory
            for low, high in zip(*footprints.intervals(view), strict=True):
                found.update((memory, b) for b in range(int(low) + base, int(high) + base))
        return found

    first, second = case.program.tasks[one], case.program.tasks[other]
    written = touched(second.writes)
    return bool(
        touched(first.writes) & (written | touched(second.reads)) or touched(first.reads) & written
    )


@fault(PROGRAM)
def dropped_store(case: Lowered) -> Iterator[Placed]:
    for number, _ in transfers(case, loads=False):
        yield rearranged(case.placed, [t for t in range(len(case.program.tasks)) if t != number])


@fault(PROGRAM)
def dropped_load(case: Lowered) -> Iterator[Placed]:
    for number, _ in transfers(case, loads=True):
        yield rearranged(case.placed, [t for t in range(len(case.program.tasks)) if t != number])


@fault(PROGRAM)
def duplicated_store(case: Lowered) -> Iterator[Placed]:
    for number, _ in transfers(case, loads=False):
        everything = list(range(len(case.program.tasks)))
        yield rearranged(case.placed, [*everything[: number + 1], *everything[number:]])


# Times.


@fault(PLACED)
def earlier_start(case: Lowered) -> Iterator[Placed]:
    schedule = case.placed.schedule
    for task in np.flatnonzero(schedule.start).tolist():
        start, end = int(schedule.start[task]), int(schedule.end[task])
        yield with_times(case.placed, task, start - 1, end - 1)


@fault(PLACED)
def negative_start(case: Lowered) -> Iterator[Placed]:
    length = int(case.placed.schedule.end[0] - case.placed.schedule.start[0])
    yield with_times(case.placed, 0, -1, length - 1)


@fault(PLACED)
def swapped_times(case: Lowered) -> Iterator[Placed]:
    schedule = case.placed.schedule
    for number, task in enumerate(case.program.tasks):
        for need in task.after:
            start, end = schedule.start.copy(), schedule.end.copy()
            start[[number, need]], end[[number, need]] = start[[need, number]], end[[need, number]]
            yield replace(case.placed, schedule=Schedule(start, end))


@fault(PLACED)
def engine_does_two_at_once(case: Lowered) -> Iterator[Placed]:
    problem, schedule = case.placed.problem, case.placed.schedule
    last: dict[int, int] = {}
    for task, engine in enumerate(problem.engine.tolist()):
        if engine in last:
            start = int(schedule.end[last[engine]]) - 1
            length = int(schedule.end[task] - schedule.start[task])
            yield with_times(case.placed, task, start, start + length)
        last[engine] = task


@fault(PLACED)
def shortened_duration(case: Lowered) -> Iterator[Placed]:
    schedule = case.placed.schedule
    for task, _ in enumerate(case.program.tasks):
        start, end = int(schedule.start[task]), int(schedule.end[task])
        yield with_times(case.placed, task, start, (start + end) // 2)


@fault(PLACED)
def truncated_schedule(case: Lowered) -> Iterator[Placed]:
    schedule = case.placed.schedule
    yield replace(case.placed, schedule=Schedule(schedule.start[:-1], schedule.end[:-1]))


@fault(PLACED)
def other_cycles_than_scheduled(case: Lowered) -> Iterator[Placed]:
    for number, task, _ in computes(case):
        yield with_task(case.placed, number, replace(task, cycles=task.cycles + 1))


@fault(PLACED)
def engine_of_the_schedule_is_another(case: Lowered) -> Iterator[Placed]:
    for number, _, _ in computes(case):
        engine = case.placed.problem.engine.copy()
        engine[number] = (engine[number] + 1) % len(case.machine.engines)
        yield replace(case.placed, problem=replace(case.placed.problem, engine=engine))


@fault(PROGRAM)
def moves_fewer_bytes_than_it_copies(case: Lowered) -> Iterator[Placed]:
    for number, task in transfers(case, loads=True):
        yield with_task(case.placed, number, replace(task, moved=task.reads[0].bytes - 1))


# Addresses.


@fault(PLACED)
def address_off_by_one(case: Lowered) -> Iterator[Placed]:
    for buffer, address in enumerate(case.placed.address):
        yield with_address(case.placed, buffer, address + 1)


@fault(PLACED)
def address_off_by_an_alignment(case: Lowered) -> Iterator[Placed]:
    for one, other in live_pairs(case):
        buffer, address = case.program.buffers[one], case.placed.address[one]
        if address + buffer.alignment + buffer.size > case.placed.address[other]:
            yield with_address(case.placed, one, address + buffer.alignment)


@fault(PLACED)
def address_off_by_its_size(case: Lowered) -> Iterator[Placed]:
    for one, other in live_pairs(case):
        size, grain = case.program.buffers[one].size, case.program.buffers[one].alignment
        moved = case.placed.address[one] + -(-size // grain) * grain
        start = case.placed.address[other]
        if start - size < moved < start + case.program.buffers[other].size:
            yield with_address(case.placed, one, moved)


@fault(PLACED)
def same_address_for_two(case: Lowered) -> Iterator[Placed]:
    for one, other in live_pairs(case):
        yield with_address(case.placed, one, case.placed.address[other])


@fault(PLACED)
def address_beyond_capacity(case: Lowered) -> Iterator[Placed]:
    for number, buffer in enumerate(case.program.buffers):
        usable = case.machine.memory(buffer.memory).usable
        grain = buffer.alignment
        yield with_address(case.placed, number, (usable - buffer.size) // grain * grain + grain)


@fault(PLACED)
def negative_address(case: Lowered) -> Iterator[Placed]:
    for number, buffer in enumerate(case.program.buffers):
        yield with_address(case.placed, number, -buffer.alignment)


@fault(PLACED)
def all_local_buffers_at_zero(case: Lowered) -> Iterator[Placed]:
    main = case.machine.main_memory.name
    pairs = zip(case.program.buffers, case.placed.address, strict=True)
    addresses = [start if buffer.memory == main else 0 for buffer, start in pairs]
    highest = highest_of(case.placed, addresses)
    yield replace(case.placed, address=tuple(addresses), highest=highest)


@fault(PLACED)
def stated_highest_address_too_low(case: Lowered) -> Iterator[Placed]:
    highest = tuple((name, address - 1) for name, address in case.placed.highest)
    yield replace(case.placed, highest=highest)


@fault(PLACED)
def stated_peak_too_low(case: Lowered) -> Iterator[Placed]:
    for place, (name, peak) in enumerate(case.placed.most_live):
        peaks = list(case.placed.most_live)
        peaks[place] = (name, peak - 1)
        yield replace(case.placed, most_live=tuple(peaks))


@fault(PROGRAM)
def shrunk_buffer(case: Lowered) -> Iterator[Placed]:
    for number, buffer in enumerate(case.program.buffers):
        if buffer.size > 1:
            yield with_buffer(case, number, size=buffer.size // 2)


@fault(PROGRAM)
def buffer_larger_than_its_memory(case: Lowered) -> Iterator[Placed]:
    for number, buffer in enumerate(case.program.buffers):
        usable = case.machine.memory(buffer.memory).usable
        yield with_buffer(case, number, size=usable + 1)


@fault(PROGRAM)
def alignment_ignored(case: Lowered) -> Iterator[Placed]:
    for number in range(len(case.program.buffers)):
        yield with_buffer(case, number, alignment=1)
