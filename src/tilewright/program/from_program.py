"""Columns of a program that is given as tasks and views."""

import numpy as np

from tilewright.program.columns import COMPUTE, COPY, WHOLE, Columns, gathered
from tilewright.program.program import Compute, Program, Transfer, View
from tilewright.program.tables import Tables


def columns_of(program: Program, tables: Tables) -> Columns:
    """The rows of a program."""
    rows: list[tuple[int, ...]] = []
    energy = [task.energy_pj for task in program.tasks]
    accesses: list[tuple[int, int, int, bool]] = []
    starts = [0]
    memories = [tables.memory_number[buffer.memory] for buffer in program.buffers]

    def access(view: View, write: bool) -> int:
        layout = tables.layout(view.shape, view.strides, view.dtype, view.item)
        accesses.append((view.buffer, view.offset, layout, write))
        return layout

    for task in program.tasks:
        reads = [access(view, False) for view in task.reads]
        writes = [access(view, True) for view in task.writes]
        starts.append(len(accesses))
        engine = tables.engine_number[task.engine]
        kind, source, target, copy, choice = COMPUTE, -1, -1, -1, -1
        if isinstance(task.work, Transfer):
            kind = COPY
            source, target = (tables.memory_number[name] for name in task.work.route)
            copy = tables.copy(source, target, reads[0], writes[0]).copy
            names = [way.link.name for way in tables.costs[copy].ways]
            choice = names.index(task.engine)
        elif not isinstance(task.work, Compute):
            kind = WHOLE
        rows.append(
            (
                kind,
                engine,
                source,
                target,
                task.cycles,
                task.moved,
                copy,
                choice,
                task.tile,
                task.group,
            )
        )
    outside = (*program.inputs, *program.constants, *program.outputs)
    fixed = np.zeros(len(program.buffers), np.bool_)
    fixed[[view.buffer for _, view in outside]] = True
    buffers = [
        (memory, buffer.size, buffer.alignment, -1)
        for memory, buffer in zip(memories, program.buffers, strict=True)
    ]
    return gathered(
        np.array(rows, np.int64).reshape(-1, 10).T.copy(),
        np.array(energy, np.float64),
        np.array(starts, np.int64),
        np.array(accesses, np.int64).reshape(-1, 4).T.copy(),
        np.array(buffers, np.int64).reshape(-1, 4).T.copy(),
        fixed,
    )
