"""Comparisons as a page: two runs side by side, in the report's own frame."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.compare.differ import PlanDifference, PlanRegion, group_text
from tilewright.compare.side import PlanSide
from tilewright.compare.told import figure_rows, label, notes
from tilewright.report.html.page import package_page
from tilewright.report.html.terms import TERMS
from tilewright.tables import picked

WORDS = ("group", "grid", "halo", "resident", "reloaded", "view", "main memory", "scratchpad",
         "layer by layer", "lower bound")  # fmt: skip
REPORT = "report.html"


def page(differences: Sequence[PlanDifference], folder: Path | None = None) -> str:
    """All comparisons as one page; `folder` is where it will lie, so that it can lead to the
    reports of its runs."""
    first = differences[0].before
    title = f"{first.name} compared with {', '.join(d.after.name for d in differences)}"
    data: dict[str, Any] = {
        "title": title,
        "terms": TERMS,
        "words": WORDS,
        "sides": [_side(side, folder) for side in (first, *(d.after for d in differences))],
        "pairs": [_pair(found, number) for number, found in enumerate(differences, start=1)],
    }
    package, scripts = "tilewright.compare", ("compare.js",)
    return package_page(package, "page.html", "compare.css", scripts, title, data)


def _side(side: PlanSide, folder: Path | None) -> dict[str, Any]:
    figures, parts = side.summary, side.parts
    return {
        "name": side.name,
        "report": _link(side, folder),
        "model": side.plan.model,
        "machine": side.plan.machine,
        "dtype": side.plan.dtype,
        "count": len(side.plan.groups),
        "cycles": figures["latency_cycles"],
        "bytes": figures["dram_read_bytes"] + figures["dram_write_bytes"],
        "energy": figures["energy_pj"],
        "groups": [
            {
                "nodes": list(part.plan.nodes),
                "cycles": part.cycles,
                "bytes": part.bytes,
                "how": group_text(part),
            }
            for part in parts
        ],
    }


def _link(side: PlanSide, folder: Path | None) -> str | None:
    """Where the report of a run lies, seen from the page."""
    if side.folder is None or folder is None or not (side.folder / REPORT).is_file():
        return None
    report = os.path.relpath((side.folder / REPORT).absolute(), folder.absolute())
    return Path(report).as_posix()


def _pair(found: PlanDifference, number: int) -> dict[str, Any]:
    names = (name for group in found.before.plan.groups for name in group.nodes)
    order = {name: place for place, name in enumerate(names)}
    ranked = sorted(found.regions, key=lambda r: order.get(r.nodes[0], len(order)))
    places = {region.nodes: place for place, region in enumerate(ranked)}
    return {
        "after": number,
        "headline": found.headline()[0],
        "notes": list(notes(found)),
        "figures": list(figure_rows(found)),
        "regions": [
            {
                "label": label(region),
                "nodes": list(region.nodes),
                "place": places[region.nodes],
                "before": _numbers(found.before, region),
                "after": _numbers(found.after, region),
                **picked(region, "cycles", "bytes", "energy_pj"),
                "what": list(region.what),
            }
            for region in found.regions
        ],
    }


def _numbers(side: PlanSide, region: PlanRegion) -> list[int]:
    """The numbers of a side's groups that lie in a region."""
    mine = frozenset(region.nodes)
    return [n for n, group in enumerate(side.plan.groups) if group.nodes[0] in mine]
