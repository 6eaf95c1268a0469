"""Implicit reshape: a matrix product's rows are seen as the height and width an array likes."""

from dataclasses import replace

from tilewright.cost.base import WorkKind, Workload
from tilewright.cost.models import models_of
from tilewright.machine.machine import Machine
from tilewright.program.program import Compute, Program, Task

WIDTHS = (1, 2, 4, 8, 16, 32, 64)


def implicit_reshape(program: Program, machine: Machine) -> Program:
    """See the positions of pointwise work as the height x width that costs least."""
    models = models_of(machine)
    engines = {engine.name: engine for engine in machine.engines}
    best: dict[tuple[str, Workload], Workload] = {}
    tasks: list[Task] = []
    for task in program.tasks:
        if not isinstance(task.work, Compute) or task.engine not in engines:
            tasks.append(task)
            continue
        model, work = models.model(engines[task.engine]), task.work.workload
        key = (task.engine, work)
        if key not in best:
            best[key] = min(views_of(work), key=lambda view: model.cost(view).cycles)
        view = best[key]
        if view == work:
            tasks.append(task)
            continue
        cost = model.cost(view)
        compute = replace(task.work, workload=view)
        tasks.append(replace(task, work=compute, cycles=cost.cycles, energy_pj=cost.energy_pj))
    return replace(program, tasks=tuple(tasks))


def views_of(work: Workload) -> list[Workload]:
    """The work itself first, then every other shape of its positions."""
    positions = work.positions
    stride = max(work.stride_height, work.stride_width)
    if work.kind is not WorkKind.CONV or work.taps > 1 or stride > 1 or work.groups > 1:
        return [work]
    widths = [width for width in WIDTHS if width <= positions]
    return [work, *(work.as_view(positions // width, width) for width in widths)]
