"""A schedule as a Chrome trace, for ui.perfetto.dev: one track per engine and link."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tilewright.files import write_text
from tilewright.machine.machine import Machine
from tilewright.planning import Planned
from tilewright.program.account import engine_names
from tilewright.program.place import Placed
from tilewright.program.program import Compute, View
from tilewright.report.verified import mark
from tilewright.tables import picked
from tilewright.units import by


def write_trace(planned: Planned, path: Path) -> None:
    """Write the trace, one event a line."""
    machine = planned.machine
    title = f"{machine.name}: {machine.title}{mark(planned.failure)}"
    tracks = named_tracks(engine_names(machine))  # in the machine's order
    tasks = _tasks(planned.placed, machine)
    write_text(path, trace_text([named_track("process_name", 0, name=title), *tracks, *tasks]))


def trace_text(events: Iterable[dict[str, Any]]) -> str:
    """A Chrome trace of events."""
    lines = ",\n".join(map(json.JSONEncoder(separators=(",", ":")).encode, events))
    return f'{{"displayTimeUnit":"ns","traceEvents":[\n{lines}\n]}}\n'


def named_tracks(names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Tracks of these names, in this order."""
    for number, name in enumerate(names):
        yield named_track("thread_name", number, name=name)
        yield named_track("thread_sort_index", number, sort_index=number)


def named_track(kind: str, track: int, **arguments: object) -> dict[str, Any]:
    """What a trace says about a track, or about all of them."""
    return {"ph": "M", "name": kind, "pid": 0, "tid": track, "args": arguments}


def event(
    name: str, kind: str, track: int, start: float, length: float, **arguments: object
) -> dict[str, Any]:
    """Something on a track, from a time on for so long, in microseconds."""
    what = {"ph": "X", "name": name, "cat": kind, "pid": 0, "tid": track}
    return {**what, "ts": start, "dur": length, "args": arguments}


def _tasks(placed: Placed, machine: Machine) -> Iterator[dict[str, Any]]:
    """Times are microseconds; the cycles are among the arguments."""
    starts: list[int] = placed.schedule.start.tolist()
    ends: list[int] = placed.schedule.end.tolist()
    engines: list[int] = placed.problem.engine.tolist()
    for number, task in enumerate(placed.program.tasks):
        start, cycles = starts[number], ends[number] - starts[number]
        times = (round(machine.seconds(count) * 1e6, 6) for count in (start, cycles))
        kind = "compute" if isinstance(task.work, Compute) else "transfer"
        yield event(
            task.name,
            kind,
            engines[number],
            *times,
            task=number,
            **picked(task, "node", "group", "tile"),
            start_cycle=start,
            cycles=cycles,
            moved_bytes=task.moved,
            reads=[_tensor(placed, view) for view in task.reads],
            writes=[_tensor(placed, view) for view in task.writes],
            after=placed.problem.needs_of(number),
        )


def _tensor(placed: Placed, view: View) -> str:
    """`conv1[1x64x28x112] at cluster0.cmx+4096`."""
    buffer = placed.program.buffers[view.buffer]
    address = placed.address[view.buffer] + view.offset
    return f"{buffer.value or buffer.name}[{by(view.shape)}] at {buffer.memory}+{address}"
