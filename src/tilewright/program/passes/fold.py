"""Activations and biases run inside the operator that makes their input, on its way out of the
array."""

from collections.abc import Mapping
from dataclasses import replace

from tilewright.graph.ops import SPECS
from tilewright.graph.ops.spec import Step, is_bias
from tilewright.machine.machine import Machine
from tilewright.program.link import rebuilt
from tilewright.program.program import Compute, Program, Task


def fold_activations(program: Program, machine: Machine) -> Program:
    """Join an activation, or a bias that is added, with the matrix operator before it, if nothing
    else reads in between."""
    matrix = {engine.name for engine in machine.engines if engine.kind == "matrix"}
    readers: dict[int, list[int]] = {}
    writer: dict[int, int] = {}
    for number, task in enumerate(program.tasks):
        for view in task.reads:
            readers.setdefault(view.buffer, []).append(number)
        for view in task.writes:
            writer[view.buffer] = number
    constants = {name: view.shape for name, view in program.constants}
    tasks: list[Task | None] = list(program.tasks)
    for number, task in enumerate(program.tasks):
        bias = _adds_bias(task, program, constants)
        if not bias and not _is_activation(task):
            continue
        source = task.reads[0]
        maker = writer.get(source.buffer)
        before = tasks[maker] if maker is not None else None
        if before is None or before.engine not in matrix or not isinstance(before.work, Compute):
            continue
        if bias and not before.work.workload.dense:
            continue
        if readers[source.buffer] != [number] or before.writes != (source,):
            continue
        assert maker is not None
        tasks[maker] = None
        tasks[number] = _joined(before, task)
        writer[task.writes[0].buffer] = number
    kept = [task for task in tasks if task is not None]
    return rebuilt(program, kept) if len(kept) < len(tasks) else program


def _is_activation(task: Task) -> bool:
    work = task.work
    return (
        isinstance(work, Compute)
        and len(work.steps) == 1
        and len(task.writes) == 1
        and SPECS[work.steps[0].kind].folds
    )


def _adds_bias(task: Task, program: Program, constants: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether a task adds a number per channel, the same for all positions of the operator."""
    work = task.work
    if not isinstance(work, Compute) or [SPECS[step.kind].adds for step in work.steps] != [True]:
        return False
    if work.steps[0].inputs != (0, 1) or len(task.reads) != 2 or len(task.writes) != 1:
        return False
    data, bias = task.reads
    whole = constants.get(program.buffers[bias.buffer].value, ())
    if sum(extent > 1 for extent in whole) != 1:
        return False
    return data.shape == task.writes[0].shape and is_bias(bias.shape, data.shape)


def _joined(first: Task, second: Task) -> Task:
    """One task: the operator's result stays inside."""
    assert isinstance(first.work, Compute) and isinstance(second.work, Compute)
    inner = f"inner{len(first.work.steps)}"
    steps = [
        replace(step, outputs=tuple(inner if o == 0 else o for o in step.outputs))
        for step in first.work.steps
    ]
    shift = len(first.reads) - 1
    (last,) = second.work.steps
    inputs = tuple((i + shift if i else inner) if isinstance(i, int) else i for i in last.inputs)
    steps.append(Step(last.kind, last.attributes, inputs, last.outputs))
    return replace(
        first,
        name=f"{first.name}+{last.kind}",
        work=Compute(tuple(steps), first.work.workload),
        reads=(*first.reads, *second.reads[1:]),
        writes=second.writes,
    )
