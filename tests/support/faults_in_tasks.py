"""Faults of places, engines, regions and arithmetic."""

from collections.abc import Iterator
from dataclasses import replace

from support.faults import (
    NUMBERS,
    PROGRAM,
    computes,
    fault,
    fewer_rows,
    tasks_of,
    transfers,
    with_buffer,
    with_steps,
)
from support.programs import Lowered, with_task
from tilewright.program.place import Placed
from tilewright.program.program import Transfer

# Places and engines.


@fault(PROGRAM)
def memory_that_does_not_exist(case: Lowered) -> Iterator[Placed]:
    for number in range(len(case.program.buffers)):
        yield with_buffer(case, number, memory="nowhere")


@fault(PROGRAM, "npu")
def memory_of_the_wrong_core(case: Lowered) -> Iterator[Placed]:
    cores = case.machine.cores
    other = {cores[0].memory.name: cores[1].memory.name, cores[1].memory.name: cores[0].memory.name}
    for number, buffer in enumerate(case.program.buffers):
        if buffer.memory in other:
            yield with_buffer(case, number, memory=other[buffer.memory])


@fault(PROGRAM)
def route_that_does_not_exist(case: Lowered) -> Iterator[Placed]:
    main = case.machine.main_memory
    for _, task in transfers(case, loads=True):
        local = task.writes[0].buffer
        yield with_buffer(case, local, memory=main.name, alignment=main.alignment)


@fault(PROGRAM)
def route_stated_is_another(case: Lowered) -> Iterator[Placed]:
    for number, task in transfers(case, loads=True):
        assert isinstance(task.work, Transfer)
        turned = Transfer((task.work.route[1], task.work.route[0]))
        yield with_task(case.placed, number, replace(task, work=turned))


@fault(PROGRAM)
def engine_that_does_not_exist(case: Lowered) -> Iterator[Placed]:
    for number, task in enumerate(case.program.tasks):
        yield with_task(case.placed, number, replace(task, engine="abacus"))


@fault(PROGRAM)
def operator_on_a_link(case: Lowered) -> Iterator[Placed]:
    for number, task, _ in computes(case):
        link = case.machine.links[0].name
        yield with_task(case.placed, number, replace(task, engine=link))


@fault(PROGRAM, "npu")
def engine_of_the_wrong_core(case: Lowered) -> Iterator[Placed]:
    for number, task, _ in computes(case):
        swapped = task.engine.replace("cluster0", "x").replace("cluster1", "cluster0")
        engine = swapped.replace("x", "cluster1")
        yield with_task(case.placed, number, replace(task, engine=engine))


@fault(PROGRAM, "npu")
def one_destination_of_a_multicast_dropped(case: Lowered) -> Iterator[Placed]:
    for number, task in transfers(case, loads=True):
        if len(task.writes) > 1:
            yield with_task(case.placed, number, replace(task, writes=task.writes[:1]))


# Regions.


@fault(PROGRAM)
def shrunk_halo(case: Lowered) -> Iterator[Placed]:
    for number, task in transfers(case, loads=True):
        if len(task.reads[0].shape) == 4 and task.reads[0].shape[2] > 3:
            reads, writes = (tuple(map(fewer_rows, views)) for views in (task.reads, task.writes))
            yield with_task(case.placed, number, replace(task, reads=reads, writes=writes))


@fault(PROGRAM)
def shrunk_halo_at_the_source_only(case: Lowered) -> Iterator[Placed]:
    for number, task in transfers(case, loads=True):
        if len(task.reads[0].shape) == 4 and task.reads[0].shape[2] > 3:
            reads = tuple(map(fewer_rows, task.reads))
            yield with_task(case.placed, number, replace(task, reads=reads))


@fault(NUMBERS)
def load_from_a_shifted_region(case: Lowered) -> Iterator[Placed]:
    for number, task in tasks_of(case, "load input@"):
        (view,) = task.reads
        for step in (-view.strides[2], view.strides[2]):
            buffer = case.program.buffers[view.buffer]
            last = view.offset + sum(
                (n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)
            )
            if view.offset + step >= 0 and last + view.item + step <= buffer.size:
                moved = replace(view, offset=view.offset + step)
                yield with_task(case.placed, number, replace(task, reads=(moved,)))


@fault(NUMBERS)
def another_slice_of_the_weights(case: Lowered) -> Iterator[Placed]:
    for number, task in tasks_of(case, "load conv2.weight"):
        (view,) = task.reads
        half = view.shape[0] * view.strides[0]
        moved = replace(view, offset=half - view.offset)
        yield with_task(case.placed, number, replace(task, reads=(moved,)))


@fault(PROGRAM)
def view_leaves_its_buffer(case: Lowered) -> Iterator[Placed]:
    for number, task in enumerate(case.program.tasks):
        size = case.program.buffers[task.reads[0].buffer].size
        moved = replace(task.reads[0], offset=size // task.reads[0].item * task.reads[0].item)
        yield with_task(case.placed, number, replace(task, reads=(moved, *task.reads[1:])))


@fault(PROGRAM)
def elements_written_over_each_other(case: Lowered) -> Iterator[Placed]:
    for number, task, _ in computes(case):
        (view,) = task.writes
        strides = (*view.strides[:3], view.strides[3] // view.shape[1] // view.item * view.item)
        if view.shape[1] > 1 and strides[3] < view.strides[3]:
            yield with_task(
                case.placed, number, replace(task, writes=(replace(view, strides=strides),))
            )


@fault(NUMBERS)
def rows_and_columns_exchanged(case: Lowered) -> Iterator[Placed]:
    for number, task, _ in computes(case):
        for position, view in enumerate(task.reads):
            if len(view.shape) == 4 and view.shape[2] == view.shape[3] == 3:
                a, b, c, d = view.strides
                turned = replace(view, strides=(a, b, d, c))
                reads = (*task.reads[:position], turned, *task.reads[position + 1 :])
                yield with_task(case.placed, number, replace(task, reads=reads))


@fault(PROGRAM)
def elements_of_another_size(case: Lowered) -> Iterator[Placed]:
    for number, task in transfers(case, loads=False):
        views = tuple(replace(view, item=1, dtype="int8") for view in task.reads)
        yield with_task(case.placed, number, replace(task, reads=views))


# Arithmetic.


@fault(NUMBERS)
def pads_on_the_wrong_side(case: Lowered) -> Iterator[Placed]:
    for number, _, work in computes(case):
        pads = work.steps[0].attributes.get("pads")
        if isinstance(pads, tuple) and pads[0] != pads[2]:
            turned = (pads[2], pads[1], pads[0], pads[3])
            attributes = {**work.steps[0].attributes, "pads": turned}
            first = replace(work.steps[0], attributes=attributes)
            yield with_steps(case, number, (first, *work.steps[1:]))


@fault(NUMBERS)
def missing_pads(case: Lowered) -> Iterator[Placed]:
    for number, _, work in computes(case):
        pads = work.steps[0].attributes.get("pads")
        if isinstance(pads, tuple) and any(pads):
            attributes = {**work.steps[0].attributes, "pads": (0, 0, 0, 0)}
            first = replace(work.steps[0], attributes=attributes)
            yield with_steps(case, number, (first, *work.steps[1:]))


@fault(NUMBERS, "residual")
def missing_activation(case: Lowered) -> Iterator[Placed]:
    for number, _, work in computes(case):
        if len(work.steps) > 1:
            last = replace(work.steps[-2], outputs=(0,))
            yield with_steps(case, number, (*work.steps[:-2], last))


@fault(NUMBERS)
def swapped_operands(case: Lowered) -> Iterator[Placed]:
    for number, task, _ in computes(case):
        if len(task.reads) > 1:
            turned = (task.reads[1], task.reads[0], *task.reads[2:])
            yield with_task(case.placed, number, replace(task, reads=turned))


@fault(PROGRAM)
def operand_that_no_step_reads(case: Lowered) -> Iterator[Placed]:
    for number, task, work in computes(case):
        if len(task.reads) > 1:
            first = replace(work.steps[0], inputs=(0,))
            yield with_steps(case, number, (first, *work.steps[1:]))
