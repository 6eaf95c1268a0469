"""Tasks, the views they read and write, and buffers: one list of numbers per field."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tilewright.machine.machine import Machine
from tilewright.planning import Planned
from tilewright.program.account import engine_names
from tilewright.program.place import Placed
from tilewright.program.program import Transfer, View

# What a task does, for colours: the page names them alike, in this order.
KINDS = (
    "matrix",
    "vector",
    "load weights",
    "load activations",
    "store",
    "in main memory",
    "between scratchpads",
)
MATRIX, VECTOR, WEIGHTS, ACTIVATIONS, STORE, MAIN, BETWEEN = range(len(KINDS))


class Strings:
    """Texts by number, each kept once."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text."""
        return self.known.setdefault(text, len(self.known))

    def split(self, name: str) -> tuple[int, int]:
        """A name as the numbers of what is before and after its `@`: both repeat a lot."""
        before, at, after = name.partition("@")
        return self.number(before), self.number(at + after)


def columns_of(planned: Planned, strings: Strings) -> dict[str, Any]:
    """The columns `tasks`, `views`, `layouts` and `buffers`."""
    placed, machine = planned.placed, planned.machine
    numbers = {name: i for i, name in enumerate(engine_names(machine))}
    views = _Views()
    tasks = placed.program.tasks
    names = [strings.split(task.name) for task in tasks]
    return {
        "kinds": KINDS,
        "tasks": {
            "name": [name for name, _ in names],
            "label": [label for _, label in names],
            "engine": [numbers[task.engine] for task in tasks],
            "start": placed.schedule.start.tolist(),
            "end": placed.schedule.end.tolist(),
            "kind": list(_kinds(placed, machine)),
            "node": [strings.number(task.node) for task in tasks],
            **{key: [getattr(task, key) for task in tasks] for key in ("group", "tile", "moved")},
            "reads": [[views.number(view) for view in task.reads] for task in tasks],
            "writes": [[views.number(view) for view in task.writes] for task in tasks],
        },
        "views": {
            name: [view[place] for view in views.known]
            for place, name in enumerate(("buffer", "offset", "layout"))
        },
        "layouts": list(views.layouts),
        "buffers": _buffers(placed, machine, strings),
    }


def _kinds(placed: Placed, machine: Machine) -> Iterator[int]:
    """Which of `KINDS` each task is, by engine, direction and what is carried."""
    engines = {engine.name: engine.kind for engine in machine.engines}
    constant = {view.buffer for _, view in placed.program.constants}
    for task in placed.program.tasks:
        if not isinstance(task.work, Transfer):
            engine = engines.get(task.engine)
            yield MAIN if engine is None else MATRIX if engine == "matrix" else VECTOR
            continue
        source, target = (memory == machine.main_memory.name for memory in task.work.route)
        if source and not target:
            yield WEIGHTS if task.reads[0].buffer in constant else ACTIVATIONS
        else:
            yield MAIN if source else STORE if target else BETWEEN


class _Views:
    """Equal views kept once; so are their shapes and strides."""

    def __init__(self) -> None:
        self.layouts: dict[tuple[tuple[int, ...], tuple[int, ...], int], int] = {}
        self.known: dict[tuple[int, int, int], int] = {}  # by buffer, offset and layout

    def number(self, view: View) -> int:
        shape = (view.shape, view.strides, view.item)
        key = (view.buffer, view.offset, self.layouts.setdefault(shape, len(self.layouts)))
        return self.known.setdefault(key, len(self.known))


class Lifetime(NamedTuple):
    """The cycles in which a buffer is there, and the group of its first user (-1: none)."""

    start: int = 0
    end: int = 0
    group: int = -1


def lifetimes(placed: Placed) -> dict[int, Lifetime]:
    """Every buffer that is used, from its first use to the end of its last; what the network brings
    or takes away is there from beginning to end."""
    program, found = placed.program, dict[int, Lifetime]()
    starts, ends = placed.schedule.start.tolist(), placed.schedule.end.tolist()
    for task, start, end in zip(program.tasks, starts, ends, strict=True):
        for view in (*task.reads, *task.writes):
            known = found.get(view.buffer, Lifetime(start, end, task.group))
            found[view.buffer] = Lifetime(min(known[0], start), max(known[1], end), known[2])
    for _, view in (*program.inputs, *program.constants, *program.outputs):
        group = found.get(view.buffer, Lifetime()).group
        found[view.buffer] = Lifetime(0, placed.schedule.makespan, group)
    return found


def _buffers(placed: Placed, machine: Machine, strings: Strings) -> dict[str, Any]:
    program, known = placed.program, lifetimes(placed)
    memories = {memory.name: i for i, memory in enumerate(machine.memories)}
    lives = [known.get(number, Lifetime()) for number in range(len(program.buffers))]
    role = [0] * len(program.buffers)
    for code, rows in enumerate((program.inputs, program.constants, program.outputs), start=1):
        for _, view in rows:
            role[view.buffer] = code
    return {
        "name": [strings.split(buffer.name)[0] for buffer in program.buffers],
        "label": [strings.split(buffer.name)[1] for buffer in program.buffers],
        "value": [strings.number(buffer.value) for buffer in program.buffers],
        "memory": [memories[buffer.memory] for buffer in program.buffers],
        "size": [buffer.size for buffer in program.buffers],
        "address": list(placed.address),
        **{key: [life[place] for life in lives] for place, key in enumerate(Lifetime._fields)},
        "role": role,
    }
