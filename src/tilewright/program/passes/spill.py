"""Buffers leave a memory that is too small for a while: stored to the main memory after a use, and
loaded again before the next one. What the main memory holds anyway is only loaded again."""

from dataclasses import dataclass, replace

from tilewright.cost.base import Copy
from tilewright.cost.dma import cost_of_copy
from tilewright.graph.ops.views import dense_strides
from tilewright.machine.machine import Machine
from tilewright.memory import Misfit
from tilewright.program.overlap import overlaps
from tilewright.program.place import Spill, fixed_buffers, users_of, worst_moment
from tilewright.program.program import Buffer, Program, Task, Transfer, View

STORE, RELOAD = "spill", "reload"


@dataclass(frozen=True, slots=True)
class _Gap:
    """A buffer between two of its uses."""

    buffer: int
    before: int
    behind: int


def spilled(
    program: Program, machine: Machine, memory: str, misfit: Misfit
) -> tuple[Program, tuple[Spill, ...]] | None:
    """The program with buffers spilled around the worst moment of a misfit: as many as it is short
    of, those used last first. None where nothing (more) can be spilled."""
    main = machine.main_memory.name
    ways = any(machine.routes(memory, main)) and any(machine.routes(main, memory))
    if memory == main or not ways:
        return None
    users = users_of(program)
    moment = worst_moment(program, users, memory, misfit)
    gaps = _gaps(program, users, memory, moment)
    wanted = misfit.short_by
    chosen: list[_Gap] = []
    for gap in gaps:
        if wanted > 0:
            chosen.append(gap)
            wanted -= program.buffers[gap.buffer].size
    if not chosen:
        return None
    last = len(program.tasks) - 1
    window = tuple(program.tasks[min(t, last)].name for t in (misfit.start, misfit.stop - 1))
    rewriting = _Rewriting(program, machine, users)
    spills: list[Spill] = []
    for gap in chosen:
        buffer, why = program.buffers[gap.buffer], misfit.reason.value
        moved = rewriting.spill(gap)
        spills.append(Spill(buffer.name, memory, buffer.size, *moved, why, (window[0], window[1])))
    return rewriting.finished(), tuple(spills)


def _gaps(program: Program, users: list[list[int]], memory: str, moment: int) -> list[_Gap]:
    """Buffers that live at a moment without being used then, the one needed last first. Those on
    their way out or just back stay: that gives each gap one chance, so spilling comes to an end."""
    fixed = fixed_buffers(program)
    found: list[_Gap] = []
    for number, buffer in enumerate(program.buffers):
        row = users[number]
        if buffer.memory != memory or number in fixed or not row:
            continue
        if not row[0] < moment < row[-1] or moment in row:
            continue
        before = max(use for use in row if use < moment)
        behind = min(use for use in row if use > moment)
        leaving = program.tasks[behind].name.startswith(f"{STORE} ")
        back = program.tasks[before].name.startswith(f"{RELOAD} ")
        if not leaving and not back:
            found.append(_Gap(number, before, behind))
    size = [buffer.size for buffer in program.buffers]
    return sorted(found, key=lambda gap: (-gap.behind, -size[gap.buffer], gap.buffer))


class _Rewriting:
    """A program that is being changed: tasks to put in, and buffers that have a second life."""

    def __init__(self, program: Program, machine: Machine, users: list[list[int]]) -> None:
        self.program, self.machine, self.users = program, machine, users
        self.buffers = list(program.buffers)
        self.tasks = list(program.tasks)
        self.stores: dict[int, list[Task]] = {}
        self.reloads: dict[int, list[Task]] = {}

    def spill(self, gap: _Gap) -> tuple[int, bool]:
        """Cut a buffer's life in two; the bytes this moves, and whether any had to be stored."""
        old = self.buffers[gap.buffer]
        again = len(self.buffers)
        self.buffers.append(replace(old, name=f"{old.name}'"))
        moved, stored = 0, False
        for region in self._needed(gap):
            source = self._kept(gap, region)
            if source is None:
                source = self._room(old, region)
                title = f"{STORE} {old.name}"
                self._insert(self.stores, gap.before, self._copy(title, region, source))
                moved, stored = moved + region.bytes, True
            back = replace(region, buffer=again)
            title = f"{RELOAD} {old.name}"
            self._insert(self.reloads, gap.behind, self._copy(title, source, back))
            moved += region.bytes
        for number in self.users[gap.buffer]:
            if number >= gap.behind:
                self.tasks[number] = _renamed(self.tasks[number], gap.buffer, again)
        return moved, stored

    def finished(self) -> Program:
        """The program with all that was put in; what tasks wait for is found anew when it is
        placed."""
        tasks: list[Task] = []
        for number, task in enumerate(self.tasks):
            tasks += self.reloads.get(number, ())
            tasks.append(task)
            tasks += self.stores.get(number, ())
        return replace(self.program, buffers=tuple(self.buffers), tasks=tuple(tasks))

    def _needed(self, gap: _Gap) -> list[View]:
        """The regions written before the gap that something reads behind it."""
        written: dict[View, None] = {}
        read: dict[View, None] = {}
        for number in self.users[gap.buffer]:
            task = self.tasks[number]
            if number <= gap.before:
                written.update((v, None) for v in task.writes if v.buffer == gap.buffer)
            else:
                read.update((v, None) for v in task.reads if v.buffer == gap.buffer)
        return [region for region in written if any(overlaps(region, view) for view in read)]

    def _kept(self, gap: _Gap, region: View) -> View | None:
        """Where the main memory holds a region as it is now: where it was loaded from, or where it
        was stored to already."""
        main = self.machine.main_memory.name
        found: View | None = None
        for number in self.users[gap.buffer]:
            if number > gap.before:
                break
            task = self.tasks[number]
            for view in task.writes:
                if view.buffer == gap.buffer and overlaps(view, region):
                    loaded = isinstance(task.work, Transfer) and task.work.route[0] == main
                    found = task.reads[0] if loaded and view == region else None
            if isinstance(task.work, Transfer) and task.reads[0] == region:
                there = (v for v in task.writes if self.buffers[v.buffer].memory == main)
                found = next(there, found)
        return found

    def _room(self, old: Buffer, region: View) -> View:
        """A buffer of the main memory for a region, in the order in which it lies."""
        main = self.machine.main_memory
        axes = sorted(range(len(region.shape)), key=lambda axis: -abs(region.strides[axis]))
        dense = dense_strides(tuple(region.shape[axis] for axis in axes), region.item)
        strides = [0] * len(axes)
        for axis, stride in zip(axes, dense, strict=True):
            strides[axis] = stride
        name = f"{old.name} spilled"
        size = region.size * region.item
        self.buffers.append(Buffer(name, main.name, size, main.alignment, old.value))
        number = len(self.buffers) - 1
        return View(number, 0, region.shape, tuple(strides), region.dtype, region.item)

    def _copy(self, name: str, source: View, target: View) -> Task:
        a, b = self.buffers[source.buffer].memory, self.buffers[target.buffer].memory
        pieces = (Copy(*view.runs()) for view in (source, target))
        copy = max(pieces, key=lambda p: (p.bytes, p.runs))
        cost = cost_of_copy(self.machine, a, b, copy)
        assert cost is not None  # memories without a way to the main one are not spilled
        way = cost.ways[cost.first]
        figures = (way.cycles, way.moved, cost.energy_pj)
        return Task(name, way.link.name, Transfer((a, b)), (source,), (target,), *figures)

    def _insert(self, where: dict[int, list[Task]], number: int, task: Task) -> None:
        beside = self.program.tasks[number]
        task = replace(task, node=beside.node, group=beside.group, tile=beside.tile)
        where.setdefault(number, []).append(task)


def _renamed(task: Task, old: int, new: int) -> Task:
    def moved(view: View) -> View:
        return replace(view, buffer=new) if view.buffer == old else view

    return replace(task, reads=tuple(map(moved, task.reads)), writes=tuple(map(moved, task.writes)))
