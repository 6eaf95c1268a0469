"""The folder of a planned kernel: its page, its facts, its nest, its listing and a trace."""

import json
from pathlib import Path
from typing import Any

from tilewright.files import write_texts
from tilewright.kernel.listing import listing_text
from tilewright.kernel.nest_file import nest_text
from tilewright.kernel.plan import KernelPlan
from tilewright.kernel.timeline import TICKS, TRACKS, Simulated
from tilewright.report.html.page import filled_page, resource
from tilewright.report.kernel_facts import (
    kernel_json,
    ladder_json,
    listing_rows,
    proof_text,
    search_json,
)
from tilewright.report.perfetto import event, named_track, trace_text
from tilewright.tables import picked

SHOWN_BLOCKS = 3  # of the timeline, and no more than so many tasks
SHOWN_TASKS = 4000
TRACED_TASKS = 20_000


def write_kernel(plan: KernelPlan, folder: Path, *, ladder: bool = False) -> None:
    """Write all files of a kernel, or none. Other files in the folder stay."""
    facts = kernel_json(plan)
    if ladder:
        facts["ladder"] = ladder_json(plan.ladder, plan.target)
    texts = {
        "kernel.html": kernel_page(plan),
        "kernel.json": json.dumps(facts, indent=2) + "\n",
        "nest.yaml": nest_text(plan.assessment.nest),
        "listing.txt": listing_text(plan.assessment),
        "trace.json": kernel_trace(plan.simulated, plan.machine.name),
    }
    write_texts(folder, texts)


def kernel_page(plan: KernelPlan) -> str:
    """The page of a kernel, with everything inside."""
    title = f"{plan.problem.text()} on {plan.machine.name}: Tilewright"
    style = resource("report.css") + resource("kernel.css")
    body, script = resource("kernel.html"), resource("kernel.js")
    return filled_page(body, title, style, page_data(plan), script)


def page_data(plan: KernelPlan) -> dict[str, Any]:
    """What the page draws."""
    given, proof = plan.assessment, plan.proof
    said = "not executed" if proof is None else proof_text(proof)
    return {
        "head": {
            "problem": plan.problem.text(),
            "machine": plan.machine.name,
            "title": plan.machine.title,
            "proved": proof is not None,
            "proof": said,
        },
        "facts": kernel_json(plan),
        "listing": listing_rows(given),
        "ladder": ladder_json(plan.ladder, plan.target),
        "search": None if plan.found is None else search_json(plan.found),
        "nest": nest_text(given.nest),
        **_timeline(plan.simulated),
    }


def _timeline(simulated: Simulated | None) -> dict[str, Any]:
    """The tasks of the first blocks, in microseconds."""
    if simulated is None:
        names = ("name", "kind", "track", "start", "end", "bytes")
        columns: dict[str, list[Any]] = {name: [] for name in names}
        return {"tasks": columns, "tracks": list(TRACKS), "kinds": [], "timeline_text": ""}
    chosen = [
        number
        for number, task in enumerate(simulated.tasks)
        if task.track < len(TRACKS) and task.block < SHOWN_BLOCKS
    ][:SHOWN_TASKS]
    kinds = list(dict.fromkeys(simulated.tasks[number].what for number in chosen))
    starts: list[int] = simulated.schedule.start.tolist()
    ends: list[int] = simulated.schedule.end.tolist()
    blocks = len({simulated.tasks[number].block for number in chosen} - {-1})
    shown = [simulated.tasks[number] for number in chosen]
    return {
        "tasks": {
            "name": [task.name for task in shown],
            "kind": [kinds.index(task.what) for task in shown],
            "track": [task.track for task in shown],
            "start": [starts[number] / TICKS * 1e6 for number in chosen],
            "end": [ends[number] / TICKS * 1e6 for number in chosen],
            "bytes": [task.bytes for task in shown],
        },
        "tracks": list(TRACKS),
        "kinds": kinds,
        "timeline_text": (
            f"the first {blocks} blocks as simulated; the whole kernel, as written and with its "
            f"buffers, takes {simulated.seconds * 1e6:.1f} µs with launch and tail"
        ),
    }


def kernel_trace(simulated: Simulated | None, machine: str) -> str:
    """A Chrome trace for ui.perfetto.dev: a track for each engine, its first tasks."""
    events = [named_track("process_name", 0, name=machine)]
    events += [named_track("thread_name", number, name=n) for number, n in enumerate(TRACKS)]
    tasks = () if simulated is None else simulated.tasks[:TRACED_TASKS]
    starts: list[int] = [] if simulated is None else simulated.schedule.start.tolist()
    ends: list[int] = [] if simulated is None else simulated.schedule.end.tolist()
    for number, task in enumerate(tasks):
        if task.track < len(TRACKS):
            ticks = starts[number], ends[number] - starts[number]
            times = (count / TICKS * 1e6 for count in ticks)
            args = picked(task, "block", "bytes")
            events.append(event(task.name, task.what, task.track, *times, **args))
    return trace_text(events)
