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
from tilewright.units import by


def write_trace(planned: Planned, path: Path) -> None:
    """Write the trace, one event a line."""
    events = [
        *_tracks(planned.machine, mark(planned.failure)),
        *_tasks(planned.placed, planned.machine),
    ]
    write_text(path, trace_text(events))


def trace_text(events: Iterable[dict[str, Any]]) -> str:
    """A Chrome trace of events."""
    lines = ",\n".join(map(json.JSONEncoder(separators=(",", ":")).encode, events))
    return f'{{"displayTimeUnit":"ns","traceEvents":[\n{lines}\n]}}\n'


def _tracks(machine: Machine, mark: str) -> list[dict[str, Any]]:
    """Names of the tracks, in the machine's order."""
    title = f"{machine.name}: {machine.title}{mark}"
    return [named_track("process_name", 0, name=title), *named_tracks(engine_names(machine))]


def named_tracks(names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Tracks of these names, in this order."""
    for number, name in enumerate(names):
        yield named_track("thread_name", number, name=name)
        yield named_track("thread_sort_index", number, sort_index=number)


def named_track(kind: str, track: int, **arguments: object) -> dict[str, Any]:
    """What a trace says about a track, or about all of them."""
    return {"ph": "M", "name": kind, "pid": 0, "tid": track, "args": arguments}


def _tasks(placed: Placed, machine: Machine) -> list[dict[str, Any]]:
    """Times are microseconds; the cycles are among the arguments."""
    events: list[dict[str, Any]] = []
    starts: list[int] = placed.schedule.start.tolist()
    ends: list[int] = placed.schedule.end.tolist()
    engines: list[int] = placed.problem.engine.tolist()
    needs: list[int] = placed.problem.needs.tolist()
    bounds: list[int] = placed.problem.need_start.tolist()
    for number, task in enumerate(placed.program.tasks):
        start, end = starts[number], ends[number]
        compute = isinstance(task.work, Compute)
        events.append(
            {
                "ph": "X",
                "name": task.name,
                "cat": "compute" if compute else "transfer",
                "pid": 0,
                "tid": engines[number],
                "ts": _microseconds(machine, start),
                "dur": _microseconds(machine, end - start),
                "args": {
                    "task": number,
                    "node": task.node,
                    "group": task.group,
                    "tile": task.tile,
                    "start_cycle": start,
                    "cycles": end - start,
                    "moved_bytes": task.moved,
                    "reads": [_tensor(placed, view) for view in task.reads],
                    "writes": [_tensor(placed, view) for view in task.writes],
                    "after": needs[bounds[number] : bounds[number + 1]],
                },
            }
        )
    return events


def _microseconds(machine: Machine, cycles: int) -> float:
    return round(machine.seconds(cycles) * 1e6, 6)


def _tensor(placed: Placed, view: View) -> str:
    """`conv1[1x64x28x112] at cluster0.cmx+4096`."""
    buffer = placed.program.buffers[view.buffer]
    address = placed.address[view.buffer] + view.offset
    return f"{buffer.value or buffer.name}[{by(view.shape)}] at {buffer.memory}+{address}"
