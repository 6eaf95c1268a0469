"""Dependencies against brute force over bytes."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from support.programs import bytes_of
from tilewright.cost.base import WorkKind, Workload
from tilewright.machine.load import load_machine
from tilewright.program.columns import Columns
from tilewright.program.from_program import columns_of
from tilewright.program.kernels.link import link
from tilewright.program.kernels.order import permuted, renumbered
from tilewright.program.overlap import overlaps
from tilewright.program.program import Buffer, Compute, Program, Task, View
from tilewright.program.tables import Tables


def box(channels: slice, rows: slice, columns: slice) -> View:
    """A box of a channels-last image of 8 channels, 6 rows and 5 columns in one buffer."""
    strides = (2, 80, 16)
    parts = (channels, rows, columns)
    offset = sum(part.start * stride for part, stride in zip(parts, strides, strict=True))
    shape = tuple(part.stop - part.start for part in parts)
    return View(0, offset, shape, strides, "float16", 2)


def random_box(random: np.random.Generator) -> View:
    sides = [sorted(random.choice(n + 1, 2, replace=False).tolist()) for n in (8, 6, 5)]
    channels, rows, columns = (slice(*side) for side in sides)
    return box(channels, rows, columns)


def random_view(random: np.random.Generator) -> View:
    """Any view: other strides, steps, backwards."""
    shape = tuple(int(n) for n in random.integers(1, 4, 3))
    strides = tuple(int(s) for s in random.choice([-16, 2, 4, 6, 10, 16, 32, 80, 160], 3))
    return View(0, 240, shape, strides, "float16", 2)


def test_boxes_of_one_layout_overlap_exactly_where_they_share_bytes() -> None:
    random = np.random.default_rng(0)
    for _ in range(2000):
        one, other = random_box(random), random_box(random)
        assert overlaps(one, other) is bool(bytes_of(one) & bytes_of(other))


def test_interleaved_halves_do_not_overlap() -> None:
    halves = [box(slice(c, c + 4), slice(0, 6), slice(0, 5)) for c in (0, 4)]
    assert not overlaps(*halves)
    assert overlaps(halves[0], box(slice(0, 8), slice(2, 3), slice(0, 5)))
    flat = View(0, 80, (40,), (2,), "float16", 2)  # row 1, seen as one axis
    assert overlaps(flat, box(slice(4, 8), slice(1, 2), slice(2, 3)))
    assert not overlaps(flat, box(slice(4, 8), slice(2, 3), slice(2, 3)))


def test_no_overlap_is_ever_missed() -> None:
    random = np.random.default_rng(1)
    for _ in range(3000):
        one, other = random_view(random), random_view(random)
        if bytes_of(one) & bytes_of(other):
            assert overlaps(one, other), (one, other)


NPU = load_machine("npu-2.7")
CMX = NPU.cores[0].memory.name


def copy(number: int, reads: View, writes: View | None) -> Task:
    targets = () if writes is None else (writes,)
    work = Compute((), Workload(WorkKind.VECTOR, "fp16", 8))
    return Task(f"t{number}", NPU.engines[0].name, work, (reads,), targets, 1)


def columns(tasks: Sequence[Task]) -> tuple[Columns, Tables]:
    buffers = tuple(Buffer(f"image{k}", CMX, 480, 1) for k in range(2))
    tables = Tables(NPU)
    return columns_of(Program(NPU.name, tuple(tasks), buffers, (), (), ()), tables), tables


def linked(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Tasks with what the kernel says they wait for."""
    listed = list(tasks)
    rows, tables = columns(listed)
    needs = link(rows, tables.views)
    return tuple(
        replace(task, after=tuple(needs.needs[needs.start[n] : needs.start[n + 1]].tolist()))
        for n, task in enumerate(listed)
    )


def test_every_conflict_within_a_buffer_is_ordered() -> None:
    """Reads and writes of the same bytes are ordered by edges; a reader waits for who wrote what
    it reads, itself; nothing waits without a reason."""
    random = np.random.default_rng(2)
    for make in (random_box, random_view):
        for _ in range(60):
            tasks = linked(
                copy(
                    n, replace(make(random), buffer=n % 2), replace(make(random), buffer=1 - n % 2)
                )
                for n in range(14)
            )
            check(tasks, exact=make is random_box)


def check(tasks: tuple[Task, ...], exact: bool) -> None:
    before: list[set[int]] = []
    owner: dict[tuple[int, int], int] = {}
    used = [
        [{(v.buffer, b) for b in bytes_of(v)} for v in (*task.reads, *task.writes)]
        for task in tasks
    ]
    for number, task in enumerate(tasks):
        before.append(set(task.after).union(*(before[a] for a in task.after)))
        read, written = used[number]
        assert {owner[byte] for byte in read if byte in owner} <= {*task.after}
        for earlier in range(number):
            old_read, old_written = used[earlier]
            conflict = old_written & (read | written) or old_read & written
            if conflict:
                assert earlier in before[number]
            elif exact:
                assert earlier not in task.after
        owner.update(dict.fromkeys(written, number))


def test_tasks_in_another_order_wait_for_the_same_ones() -> None:
    """Both in orders that respect dependencies, where they are kept, and in those that do not."""
    random = np.random.default_rng(4)
    for respected in (True, False) * 20:
        tasks = linked(
            copy(
                number,
                random_box(random),
                random_box(random) if random.random() < 0.7 else None,
            )
            for number in range(12)
        )
        order: list[int] = []
        while len(order) < len(tasks):
            left = [number for number in range(len(tasks)) if number not in order]
            free = [n for n in left if set(tasks[n].after) <= {*order} or not respected]
            order.append(int(random.choice(free)))
        rows, tables = columns(tasks)
        numbers = np.array(order, np.int32)
        anew = link(permuted(rows, numbers), tables.views)
        needs, valid = renumbered(numbers, link(rows, tables.views))
        assert valid or not respected
        if valid:
            assert needs.start.tolist() == anew.start.tolist()
            assert needs.needs.tolist() == anew.needs.tolist()
