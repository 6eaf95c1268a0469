"""Comparisons as text and JSON."""

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from tilewright.compare.differ import CAUSES, TOP, Change, PlanDifference, PlanRegion
from tilewright.report import right
from tilewright.units import noun, some


def difference_json(found: PlanDifference) -> dict[str, Any]:
    """All of a comparison for a program."""
    return {
        "before": found.before.name,
        "after": found.after.name,
        "different_networks": bool(found.strangers),
        "setting": {name: [old, new] for name, old, new in found.setting},
        "machine_keys": {key: [old, new] for key, old, new in found.keys},
        "figures": {c.name: _pair(c) for c in found.figures},
        "engines_busy_cycles": {c.name: _pair(c) for c in found.engines},
        "peak_bytes": {c.name: _pair(c) for c in found.peaks},
        "causes": [
            dict(zip(CAUSES, (list(region.nodes), *cells, list(region.what)), strict=True))
            for region, cells in found.causes()
        ],
        "same_regions": found.same_regions,
        "resident_added": list(found.resident),
        "resident_removed": list(found.evicted),
    }


def _pair(change: Change) -> dict[str, float | None]:
    ratio = change.ratio
    return {
        "before": _plain(change.before),
        "after": _plain(change.after),
        "ratio": None if ratio is None else round(ratio, 6),
    }


def _plain(number: float | None) -> float | None:
    return int(number) if number is not None and number == int(number) else number


def notes(found: PlanDifference) -> Iterator[str]:
    """What else there is to know."""
    for side in (found.before, found.after):
        if side.edited is not None:
            yield f"'{side.edited}' was edited since; compared is the run as it was made"
    if found.strangers:
        yield found.strangers
    yield from found.asked_lines()
    old, new = (side.plan.rewrites for side in (found.before, found.after))
    if old != new:
        one, other = (", ".join(names or ()) or "none" for names in (old, new))
        yield f"rewrites: {one} against {other}; each lower bound is of its network as rewritten"
    for label, names in (("now resident", found.resident), ("resident no more", found.evicted)):
        if names:
            yield f"{label}: {some(names, TOP)}"
    if found.same_regions:
        are = noun(found.same_regions, "part of the network is", "parts of the network are")
        yield f"{found.same_regions} {are} the same in both"
    if found.before.mapped or found.after.mapped:
        yield "layers of a plan with a mapping run beside each other: none has cycles of its own"
    elif not found.told:
        yield "one of the runs has no figures by group: plan it again to see the causes"


def figures_table(found: PlanDifference) -> Table:
    """Figures, then engines and peaks that differ."""
    table = Table("figure", *right("before", "after", "ratio"))
    for row in figure_rows(found):
        table.add_row(*row)
    return table


def figure_rows(found: PlanDifference) -> Iterator[tuple[str, str, str, str]]:
    """Name, before, after and ratio of every figure, and of engines and peaks that differ."""
    sets = (("", found.figures), ("busy cycles of ", found.engines[:TOP]))
    for prefix, changes in (*sets, ("peak bytes of ", found.peaks[:TOP])):
        for change in changes:
            ratio = "" if change.ratio is None else f"{change.ratio:.3f}x"
            yield f"{prefix}{change.name}", _text(change.before), _text(change.after), ratio


def causes_table(found: PlanDifference, top: int = TOP) -> Table:
    """Parts of the network by what they change."""
    title = "Causes, the largest first" if found.told else "What differs"
    heads = right("cycles", "bytes") if found.told else ()
    columns = "part of the network", *heads, "what is different"
    table = Table(*columns, title=title, title_justify="left")
    for region in found.regions[:top]:
        figures = (f"{region.cycles:+,}", f"{region.bytes:+,}") if found.told else ()
        table.add_row(label(region), *figures, "; ".join(region.what) or "the same decisions")
    if len(found.regions) > top:
        table.caption = f"and {len(found.regions) - top} more"
    return table


def _text(number: float | None) -> str:
    if number is None:
        return ""
    return f"{int(number):,}" if number == int(number) else f"{number:,.6g}"


def label(region: PlanRegion) -> str:
    """A region by its first and last node."""
    first, last = region.nodes[0], region.nodes[-1]
    return first if first == last else f"{first} .. {last} ({len(region.nodes)})"
