"""The files of a plan on many cores: pages, pictures, the trace and the figures."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.drafts import draft_in, writing
from tilewright.errors import OutputError
from tilewright.files import check_place
from tilewright.manycore.core_cost import LOOPS
from tilewright.manycore.page import page_data, page_text
from tilewright.manycore.plan import CorePlan
from tilewright.manycore.told import summary
from tilewright.report.perfetto import named_tracks, trace_text
from tilewright.runs.saved import CORES_FILE
from tilewright.schedule.problem import Quantities

FILES = (
    "report.html",
    "schedule.html",
    "schedule.json",
    "summary.json",
    "memory.png",
    CORES_FILE,
)


def check_target(folder: Path, *, force: bool = False) -> None:
    """Raise before the work begins where a folder holds something else, or an earlier plan that
    is not to be replaced."""
    check_place(folder)
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set[str]()
    if there - {*FILES}:
        raise OutputError(
            f"cannot write '{folder}': there are files in it that are not of such a plan; give a "
            "new folder, or an empty one"
        )
    if there and not force:
        text = "it holds a plan; force=True (--force) replaces it"
        raise OutputError(f"cannot write '{folder}': {text}")


def write_plan(plan: CorePlan, folder: Path) -> None:
    """Write all files, or none."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with draft_in(folder) as draft:
            _write_all(plan, draft)
            for name in FILES:
                os.replace(draft / name, folder / name)


def _write_all(plan: CorePlan, folder: Path) -> None:
    from tilewright.report.plots import plot_cost_table, plot_levels

    told = summary(plan)
    (folder / "summary.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    data = page_data(plan)
    title = data["title"]
    for name, full in (("schedule.html", False), ("report.html", True)):
        (folder / name).write_text(page_text(data, full=full), encoding="utf-8")
    (folder / "schedule.json").write_text(trace(data), encoding="utf-8")
    plot_levels(levels(plan), f"{title}: what the cores' memories hold", folder / "memory.png")
    rows, columns, cycles, energy = cost_table(plan)
    plot_cost_table(rows, columns, cycles, energy, folder / CORES_FILE)


def trace(data: dict[str, Any]) -> str:
    """What the page shows for ui.perfetto.dev: a track per core and carrier; a cycle is a
    nanosecond."""
    events = list(named_tracks(data["engines"]))
    for engine, start, end, name, _, tensors in data["tasks"]:
        events.append(
            {
                "ph": "X",
                "name": name,
                "pid": 0,
                "tid": engine,
                "ts": start / 1000,
                "dur": (end - start) / 1000,
                "args": {"start_cycle": start, "end_cycle": end, "tensors": tensors},
            }
        )
    return trace_text(events)


def levels(plan: CorePlan) -> list[tuple[str, float, Quantities, Quantities]]:
    """For every memory of a core: name, size, times, and the bytes held from each on."""
    tiles = plan.tiles
    sizes = tiles.piece_size * tiles.unit // 8
    found: list[tuple[str, float, Quantities, Quantities]] = []
    for number, place in enumerate(plan.fabric.places):
        held = [copy for copy in plan.lowered.copies.all if copy.place == number]
        if number == 0 or not held:
            continue
        times = np.array([c.birth for c in held] + [c.death for c in held], np.int64)
        change = sizes[[c.piece for c in held]]
        change = np.concatenate((change, -change))
        order = np.lexsort((change, times))
        at, index = np.unique(times[order], return_index=True)
        running = np.cumsum(change[order])
        last = np.concatenate((index[1:] - 1, [running.size - 1]))
        found.append((place.name, place.bits / 8, at, running[last]))
    return found


def cost_table(
    plan: CorePlan,
) -> tuple[list[str], list[str], np.ndarray, np.ndarray]:
    """Shapes of tiles, cores, and the costs of each on each."""
    tiles, costs = plan.tiles, plan.evaluator.costs
    users: dict[int, str] = {}
    for tile, info in enumerate(tiles.tiles):
        shape = int(tiles.tile_shape[tile])
        users.setdefault(shape, plan.workload.layers[info.layer].name)
    rows = [
        f"{users.get(k, '')}: "
        + " ".join(f"{n}{e}" for n, e in zip(LOOPS, shape.extents, strict=True) if e > 1)
        for k, shape in enumerate(tiles.shapes)
    ]
    columns = [f"core{number}" for number, _ in plan.fabric.cores]
    return rows, columns, costs.cycles, costs.energy
