"""The virtual machine: runs a placed program at its addresses, in its scheduled order.

One byte array per memory. Values are held in float32 whatever the planned element size: four host
bytes stand behind every planned byte, so overlaps stay overlaps. A task poisons its destination
when it starts and writes when it ends; a wrong address, a missing edge or a halo off by one gives
wrong numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import VerificationError
from tilewright.graph.graph import Array
from tilewright.graph.kernels import run_step
from tilewright.graph.types import FLOATS, TensorType
from tilewright.machine.machine import Machine
from tilewright.program.place import Placed
from tilewright.program.program import Compute, Task, View, Whole

HOST_BYTES = 4  # behind every planned byte
TOLD = 1000  # times at most that an execution says how far it is
POISON = 0xFF  # in every byte: not a number for floats


@dataclass(frozen=True, slots=True)
class Executed:
    """Outputs of the network, and what was counted on the way."""

    outputs: Mapping[str, Array]
    tasks: int
    read_bytes: Mapping[str, int]
    write_bytes: Mapping[str, int]


# Executes an operator that has no kernel here: its reads in, its writes (of these types) out.
RunWhole = Callable[[Whole, Sequence[Array], Sequence[TensorType]], Sequence[Array]]


class VirtualMachine:
    """Memories as byte arrays, and the program that runs on them; `run_whole` executes operators
    that run in one piece."""

    def __init__(
        self, placed: Placed, machine: Machine, opset: int, run_whole: RunWhole | None = None
    ) -> None:
        self.placed, self.machine, self.opset = placed, machine, opset
        self.run_whole = run_whole
        self.program = placed.program
        self.memory = {
            name: np.full(max(1, highest) * HOST_BYTES, POISON, np.uint8)
            for name, highest in placed.highest
        }
        self.reads = dict.fromkeys(self.memory, 0)
        self.writes = dict.fromkeys(self.memory, 0)

    def run(
        self,
        feeds: Mapping[str, Array],
        weights: Mapping[str, Array],
        told: Callable[[float], None] | None = None,
    ) -> Executed:
        """Execute every task and read the outputs; `told` is told the share that is done."""
        for name, view in self.program.inputs:
            self.array(view)[...] = feeds[name]
        for name, view in self.program.constants:
            self.array(view)[...] = weights[name]
        schedule = self.placed.schedule
        # At one time, ends come before starts: what is written is there for who starts then.
        events = [(int(t), 0, i) for i, t in enumerate(schedule.end)]
        events += [(int(t), 1, i) for i, t in enumerate(schedule.start)]
        pending: dict[int, list[Array]] = {}
        often = -(-len(events) // TOLD)
        for done, (_, starts, number) in enumerate(sorted(events)):
            if told is not None and done % often == 0:
                told(done / len(events))
            task = self.program.tasks[number]
            if starts:
                pending[number] = self._begin(task)
                if schedule.start[number] == schedule.end[number]:
                    self._finish(task, pending.pop(number))
            elif number in pending:
                self._finish(task, pending.pop(number))
        outputs = {name: self.array(view).copy() for name, view in self.program.outputs}
        return Executed(outputs, len(self.program.tasks), self.reads, self.writes)

    def array(self, view: View) -> Array:
        """The host array behind a view."""
        buffer = self.program.buffers[view.buffer]
        host = np.dtype(np.float32 if view.dtype in FLOATS else view.dtype)
        base = (self.placed.address[view.buffer] + view.offset) * HOST_BYTES
        strides = tuple(stride * HOST_BYTES for stride in view.strides)
        try:
            return np.ndarray(view.shape, host, self.memory[buffer.memory].data, base, strides)
        except (TypeError, ValueError):
            raise VerificationError(f"a view of '{buffer.name}' leaves {buffer.memory}") from None

    def _begin(self, task: Task) -> list[Array]:
        """Read operands, poison the destination, compute."""
        operands = [self.array(view).copy() for view in task.reads]
        for view in task.reads:
            self.reads[self.program.buffers[view.buffer].memory] += view.bytes
        for view in task.writes:
            target = self.array(view)
            target[...] = _poison(target.dtype)
        if isinstance(task.work, Compute):
            return self._compute(task.work, operands, len(task.writes))
        if isinstance(task.work, Whole):
            return self._whole(task, task.work, operands)
        return [operands[0]] * len(task.writes)

    def _compute(self, work: Compute, operands: list[Array], count: int) -> list[Array]:
        known: dict[int | str, Array] = dict(enumerate(operands))
        results: dict[int, Array] = {}
        for step in work.steps:
            inputs = [known[i] if isinstance(i, int | str) else i for i in step.inputs]
            try:
                made = run_step(step.kind, step.attributes, inputs, self.opset, len(step.outputs))
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                raise VerificationError(
                    f"{step.kind} cannot run on its operands: {error}"
                ) from None
            for place, array in zip(step.outputs, made, strict=True):
                if isinstance(place, int):
                    results[place] = array
                else:
                    known[place] = array
        return [results[i] for i in range(count)]

    def _whole(self, task: Task, work: Whole, operands: list[Array]) -> list[Array]:
        """A runtime's results: it works in the network's own element types."""
        if self.run_whole is None:
            raise VerificationError(f"{task.name}: there is no runtime for {work.kind}")
        given = [a.astype(v.dtype) for a, v in zip(operands, task.reads, strict=True)]
        types = [TensorType(view.dtype, view.shape) for view in task.writes]
        made = self.run_whole(work, given, types)
        return [
            a.astype(np.float32) if t.dtype in FLOATS else a
            for a, t in zip(made, types, strict=True)
        ]

    def _finish(self, task: Task, results: list[Array]) -> None:
        for view, array in zip(task.writes, results, strict=True):
            if array.shape != view.shape:
                raise VerificationError(f"{task.name}: gives {array.shape} for {view.shape}")
            self.array(view)[...] = array
            self.writes[self.program.buffers[view.buffer].memory] += view.bytes


def _poison(kind: "np.dtype[Any]") -> float | int | bool:
    """A value no network computes with: wrong where it is used, and loud as an index."""
    if np.issubdtype(kind, np.floating):
        return np.nan
    return np.iinfo(kind).max if np.issubdtype(kind, np.integer) else True
