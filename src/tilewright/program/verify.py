"""Naive checks of a program, apart from all that makes it.

A program is replayed buffer by buffer, in one array that says who wrote each byte last.
`verify_placed`, which checks addresses and times, has its own module.
"""

from itertools import product
from math import gcd

import numpy as np
import numpy.typing as npt

from tilewright.errors import VerificationError
from tilewright.graph.ops import SPECS
from tilewright.graph.ops.spec import Engine
from tilewright.machine.machine import Machine, Memory
from tilewright.program.footprint import Footprints
from tilewright.program.program import Compute, Program, Task, Transfer, View, Whole
from tilewright.program.verify_placed import verify_placed, where_is

__all__ = ["verify_placed", "verify_program"]

_NOBODY, _HOST, _FIRST_TASK = 0, 1, 2  # writers of a byte; task t is t + _FIRST_TASK

_Owners = npt.NDArray[np.int32]


def verify_program(program: Program, machine: Machine) -> None:
    """Raise `VerificationError` unless views, engines and links exist and fit, and every byte is
    written before it is read, by a task that its reader waits for, and results just once."""
    if program.machine != machine.name:
        raise VerificationError(f"the program is for {program.machine}, not for {machine.name}")
    check = _ProgramCheck(program, machine)
    check.buffers()
    for name, view in (*program.inputs, *program.constants, *program.outputs):
        check.view(view, name)
    for number, task in enumerate(program.tasks):
        check.task(number, task)
    check.bytes_written()


class _ProgramCheck:
    """One program under test."""

    def __init__(self, program: Program, machine: Machine) -> None:
        self.program, self.machine = program, machine
        self.memories = {memory.name: memory for memory in machine.memories}
        self.engines = {engine.name: engine for engine in machine.engines}
        self.links = {link.name: link for link in machine.links}
        self.footprints = Footprints()
        self.patterns: set[tuple[tuple[int, ...], tuple[int, ...], int]] = set()

    def buffers(self) -> None:
        """Buffers lie in memories that exist and are large enough."""
        for buffer in self.program.buffers:
            memory = self.memories.get(buffer.memory)
            if memory is None:
                raise VerificationError(f"buffer '{buffer.name}': no memory '{buffer.memory}'")
            if not 0 < buffer.size <= memory.usable:
                raise VerificationError(
                    f"buffer '{buffer.name}': {buffer.size} bytes in {memory.usable} of "
                    f"{memory.name}"
                )
            if buffer.alignment <= 0 or buffer.alignment % memory.alignment:
                raise VerificationError(
                    f"buffer '{buffer.name}': alignment {buffer.alignment} in {memory.name}, "
                    f"which asks for {memory.alignment}"
                )

    def view(self, view: View, where: str) -> None:
        """A view has elements, and all of them inside its buffer."""
        if not 0 <= view.buffer < len(self.program.buffers):
            raise VerificationError(f"{where}: there is no buffer {view.buffer}")
        pattern = (view.shape, view.strides, view.item)
        if pattern not in self.patterns:
            lengths = len(view.shape) == len(view.strides)
            if not lengths or view.item <= 0 or min(view.shape, default=1) < 1:
                raise VerificationError(
                    f"{where}: shape {view.shape}, strides {view.strides} and elements of "
                    f"{view.item} bytes make no view"
                )
        starts = (view.offset,) if pattern in self.patterns else (view.offset, *view.strides)
        if any(start % view.item for start in starts):
            raise VerificationError(f"{where}: elements of {view.item} bytes start inside another")
        self.patterns.add(pattern)
        low, high = self.footprints.span(view)
        buffer = self.program.buffers[view.buffer]
        if low < 0 or high > buffer.size:
            raise VerificationError(
                f"{where}: bytes {low}-{high} of buffer '{buffer.name}', which has {buffer.size}"
            )

    def task(self, number: int, task: Task) -> None:
        """A task uses an engine that is there and can reach what it reads and writes."""
        where = where_is(number, task)
        for view in (*task.reads, *task.writes):
            self.view(view, where)
        for view in task.writes:
            if not self.footprints.of(view).distinct:
                raise VerificationError(f"{where}: writes elements over each other")
        if task.cycles < 0 or task.moved < 0:
            raise VerificationError(f"{where}: takes {task.cycles} cycles, moves {task.moved}")
        if any(not 0 <= need < number for need in task.after):
            raise VerificationError(f"{where}: waits for a task that is not before it")
        if isinstance(task.work, Transfer):
            self._transfer(where, task, task.work)
        elif isinstance(task.work, Whole):
            self._whole(where, task, task.work)
        else:
            self._compute(where, task, task.work)

    def _transfer(self, where: str, task: Task, work: Transfer) -> None:
        link = self.links.get(task.engine)
        if link is None:
            raise VerificationError(f"{where}: no link '{task.engine}'")
        targets = list(task.writes)
        if len(task.reads) != 1 or not targets:
            raise VerificationError(f"{where}: copies {len(task.reads)} views to {len(targets)}")
        source = task.reads[0]
        start = self.program.buffers[source.buffer].memory
        ends = [self.program.buffers[target.buffer].memory for target in targets]
        for target, end in zip(targets, ends, strict=True):
            route = link.route(start, end)
            if route is None:
                raise VerificationError(f"{where}: {link.name} has no route from {start} to {end}")
            if len(targets) > 1 and not route.multicast:
                raise VerificationError(f"{where}: the route to {end} has one destination at once")
            if source.shape != target.shape:
                raise VerificationError(f"{where}: copies {source.shape} to {target.shape}")
            if (source.dtype, source.item) != (target.dtype, target.item):
                raise VerificationError(f"{where}: copies {source.dtype} to {target.dtype}")
        if work.route != (start, ends[0]):
            raise VerificationError(f"{where}: says {work.route}, goes from {start} to {ends[0]}")
        if task.moved < source.bytes:
            raise VerificationError(f"{where}: moves {task.moved} of {source.bytes} bytes")

    def _whole(self, where: str, task: Task, work: Whole) -> None:
        """Tensors of a shared memory, each used, and all of their bytes moved by a link there."""
        link = self.links.get(task.engine)
        routes = link.routes if link is not None else ()
        ends = {end for route in routes for end in (route.source, route.destination)}
        for view in (*task.reads, *task.writes):
            memory = self.program.buffers[view.buffer].memory
            if memory not in ends or work.route != (memory, memory):
                raise VerificationError(f"{where}: {task.engine} cannot reach {memory}")
        read = [i for i in work.inputs if i is not None] + [i for _, i in work.captures]
        made = [o for o in work.outputs if o is not None]
        if sorted(read) != list(range(len(task.reads))):
            raise VerificationError(f"{where}: reads {sorted(read)} of its views")
        if sorted(made) != list(range(len(task.writes))):
            raise VerificationError(f"{where}: writes {sorted(made)} of its views")
        needed = sum(view.bytes for view in (*task.reads, *task.writes))
        if task.moved < needed:
            raise VerificationError(f"{where}: moves {task.moved} of {needed} bytes")

    def _compute(self, where: str, task: Task, work: Compute) -> None:
        for view in (*task.reads, *task.writes):
            memory = self.memories[self.program.buffers[view.buffer].memory]
            if not self._reaches(task.engine, work, memory):
                raise VerificationError(f"{where}: {task.engine} cannot reach {memory.name}")
        made: set[str] = set()
        read: set[int] = set()
        results: list[int] = []
        for step in work.steps:
            read |= {i for i in step.inputs if isinstance(i, int)}
            if any(isinstance(i, str) and i not in made for i in step.inputs):
                raise VerificationError(f"{where}: {step.kind} reads what no step has made")
            made |= {o for o in step.outputs if isinstance(o, str)}
            results += [o for o in step.outputs if isinstance(o, int)]
        if read != set(range(len(task.reads))):
            raise VerificationError(f"{where}: its steps read {sorted(read)} of its views")
        if sorted(results) != list(range(len(task.writes))):
            raise VerificationError(f"{where}: its steps write {sorted(results)} of its views")
        # A task writes no bytes that it reads; or all that a view has, if every result lies where
        # its operand was when it is written.
        specs = [SPECS.get(step.kind) for step in work.steps]
        over = all(spec is not None and spec.rewrites for spec in specs)
        for given, written in product(task.reads, task.writes):
            if given.buffer != written.buffer or (over and given == written):
                continue
            if self.footprints.meet(given, written):
                name = self.program.buffers[given.buffer].name
                raise VerificationError(f"{where}: writes over '{name}', which it reads")

    def _reaches(self, name: str, work: Compute, memory: Memory) -> bool:
        """Whether an engine works on a memory: those of its core, and vector engines on shared
        ones; links move data about within memories that they touch."""
        if name in self.engines:
            engine = self.engines[name]
            return memory.core == engine.core or (memory.core is None and engine.kind == "vector")
        if name not in self.links:
            raise VerificationError(f"there is no engine '{name}'")
        ends = {end for r in self.links[name].routes for end in (r.source, r.destination)}
        specs = [SPECS.get(step.kind) for step in work.steps]
        moves = all(spec is not None and spec.engine is Engine.MOVE for spec in specs)
        return moves and memory.name in ends

    def bytes_written(self) -> None:
        """Replay every buffer by itself."""
        accesses: dict[int, list[tuple[int, View, bool]]] = {}
        for _, view in (*self.program.inputs, *self.program.constants):
            accesses.setdefault(view.buffer, []).append((_HOST, view, True))
        for who, task in enumerate(self.program.tasks, start=_FIRST_TASK):
            for views, writes in ((task.reads, False), (task.writes, True)):
                for view in views:
                    accesses.setdefault(view.buffer, []).append((who, view, writes))
        results: dict[int, list[View]] = {}
        for _, view in self.program.outputs:
            results.setdefault(view.buffer, []).append(view)
        waited = np.zeros(len(self.program.tasks) + _FIRST_TASK, dtype=np.bool_)
        waited[_HOST] = True
        for buffer in sorted({*accesses, *results}):
            self._replay(buffer, accesses.get(buffer, []), results.get(buffer, []), waited)

    def _replay(
        self,
        buffer: int,
        accesses: list[tuple[int, View, bool]],
        results: list[View],
        waited: npt.NDArray[np.bool_],
    ) -> None:
        """The accesses to one buffer in program order; `waited` is scratch, given back as it was.
        Tensors in shared memories are made once; what cores keep to themselves may be renewed."""
        if not results and self._plain(accesses):
            return
        grain = 0
        for view in (*results, *(view for _, view, _ in accesses)):
            footprint = self.footprints.of(view)
            grain = gcd(grain, footprint.grain, view.offset + footprint.low)
        owners = np.zeros(self.program.buffers[buffer].size // grain, dtype=np.int32)
        once = self.memories[self.program.buffers[buffer].memory].core is None
        name = self.program.buffers[buffer].name
        for who, view, writes in accesses:
            owner = self._owners(owners, view, grain)
            if writes:
                if once and np.any(owner):
                    raise VerificationError(f"{self._who(who)}: writes '{name}' a second time")
                owner[...] = who
                continue
            after = np.array(self.program.tasks[who - _FIRST_TASK].after, dtype=np.int64)
            waited[after + _FIRST_TASK] = True
            known = waited[owner]
            waited[after + _FIRST_TASK] = False
            if not known.all():
                writer = int(owner[~known].min())
                what = f"'{name}' without waiting for {self._who(writer)}"
                if writer == _NOBODY:
                    what = f"bytes of '{name}' that nothing has written"
                raise VerificationError(f"{self._who(who)}: reads {what}")
        for view in results:
            if not self._owners(owners, view, grain).all():
                raise VerificationError(f"bytes of the output '{name}' are never written")

    def _plain(self, accesses: list[tuple[int, View, bool]]) -> bool:
        """The plain case: all is written first, by one, without gaps (or read as it was written),
        and whoever reads it waits. False where that is not so, for whatever reason."""
        writer, made, writes = accesses[0]
        low, high = self.footprints.span(made)
        solid = not self.footprints.of(made).levels
        if not writes:
            return False
        for who, view, writes_too in accesses[1:]:
            if writes_too:
                return False
            start, stop = self.footprints.span(view)
            if view != made and not (solid and low <= start and stop <= high):
                return False
            after = self.program.tasks[who - _FIRST_TASK].after
            if writer != _HOST and writer - _FIRST_TASK not in after:
                return False
        return True

    def _owners(self, owners: _Owners, view: View, grain: int) -> _Owners:
        """The part of the array that stands for a view."""
        footprint = self.footprints.of(view)
        item = owners.itemsize
        shape = (*(count for count, _ in footprint.levels), footprint.run // grain)
        strides = (*(stride // grain * item for _, stride in footprint.levels), item)
        start = (view.offset + footprint.low) // grain * item
        return np.ndarray(shape, np.int32, owners.data, start, strides)

    def _who(self, writer: int) -> str:
        if writer < _FIRST_TASK:
            return "the host"
        number = writer - _FIRST_TASK
        return where_is(number, self.program.tasks[number])
