"""Comparisons as text, JSON and a page."""

import html
from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from tilewright.compare.differ import Change, Difference, Region
from tilewright.report.html.page import filled_page, shared_parts

TOP = 12  # causes and engines told
_STYLE = """
.delta { display:inline-block; height:9px; border-radius:2px; vertical-align:middle; }
.more { background:#d98e2b; } .less { background:#5aa865; }
"""
_READY = 'document.documentElement.dataset.ready = "yes";'


def difference_json(found: Difference) -> dict[str, Any]:
    """All of a comparison for a program."""
    return {
        "before": found.before.name,
        "after": found.after.name,
        "setting": {name: [old, new] for name, old, new in found.setting},
        "figures": {c.name: _pair(c) for c in found.figures},
        "engines_busy_cycles": {c.name: _pair(c) for c in found.engines},
        "peak_bytes": {c.name: _pair(c) for c in found.peaks},
        "causes": [
            {
                "nodes": list(region.nodes),
                "groups_before": len(region.before),
                "groups_after": len(region.after),
                "cycles": region.cycles if found.told else None,
                "bytes": region.bytes if found.told else None,
                "energy_pj": round(region.energy_pj, 3) if found.told else None,
                "what": list(region.what),
            }
            for region in found.regions
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


def headline(found: Difference) -> str:
    """The comparison in a line."""
    return found.headline()[0]


def notes(found: Difference) -> Iterator[str]:
    """What else there is to know."""
    for name, old, new in found.setting:
        yield f"{name}: {old} against {new}"
    for label, names in (("now resident", found.resident), ("resident no more", found.evicted)):
        if names:
            more = f" and {len(names) - TOP} more" if len(names) > TOP else ""
            yield f"{label}: {', '.join(names[:TOP])}{more}"
    if found.same_regions:
        yield f"{found.same_regions} parts of the network are the same in both"
    if not found.told:
        yield "one of the runs has no figures by group: plan it again to see the causes"


def figures_table(found: Difference) -> Table:
    """Figures, then engines and peaks that differ."""
    table = Table("figure")
    for name in ("before", "after", "ratio"):
        table.add_column(name, justify="right")
    for change in (*found.figures, *_named(found)):
        table.add_row(change.name, *_cells(change))
    return table


def causes_table(found: Difference, top: int = TOP) -> Table:
    """Parts of the network by what they change."""
    table = Table(title="Causes, the largest first", title_justify="left")
    table.add_column("part of the network")
    for name in ("cycles", "bytes"):
        table.add_column(name, justify="right")
    table.add_column("what is different")
    for region in found.regions[:top]:
        figures = (f"{region.cycles:+,}", f"{region.bytes:+,}") if found.told else ("", "")
        table.add_row(_label(region), *figures, "; ".join(region.what) or "the same decisions")
    if len(found.regions) > top:
        table.caption = f"and {len(found.regions) - top} more"
    return table


def page(differences: Sequence[Difference]) -> str:
    """All comparisons as one page."""
    style, _ = shared_parts()
    first = differences[0].before.name
    title = f"{first} compared with {', '.join(d.after.name for d in differences)}"
    body = "".join(map(_section, differences))
    content = f"<header><h1>{html.escape(title)}</h1></header><main>{body}</main>"
    return filled_page(content, title, style + _STYLE, {}, _READY)


def _section(found: Difference) -> str:
    escape = html.escape
    most = max((abs(r.cycles) for r in found.regions), default=0) or 1
    rows = "".join(
        f"<tr><td>{escape(_label(region))}</td><td>{_bar(region.cycles, most)}</td>"
        f'<td class="n">{region.cycles:+,}</td><td class="n">{region.bytes:+,}</td>'
        f"<td>{escape('; '.join(region.what) or 'the same decisions')}</td></tr>"
        for region in found.regions
    )
    figures = "".join(
        f"<tr><td>{escape(c.name)}</td>"
        + "".join(f'<td class="n">{escape(cell)}</td>' for cell in _cells(c))
        + "</tr>"
        for c in (*found.figures, *_named(found))
    )
    told = "".join(f"<li>{escape(text)}</li>" for text in notes(found))
    return (
        f'<section class="compared"><h2>{escape(headline(found))}</h2><ul>{told}</ul>'
        '<div class="columns"><section><h2>Causes <small>largest first</small></h2>'
        '<div class="panel scroll tall"><table class="causes"><thead><tr><th>part of the network'
        '</th><th></th><th class="n">cycles</th><th class="n">bytes</th><th>what is different</th>'
        f"</tr></thead><tbody>{rows}</tbody></table></div></section>"
        '<section><h2>Figures</h2><div class="panel scroll tall"><table class="figures"><thead><tr>'
        '<th>figure</th><th class="n">before</th><th class="n">after</th><th class="n">ratio</th>'
        f"</tr></thead><tbody>{figures}</tbody></table></div></section></div></section>"
    )


def _bar(cycles: int, most: int) -> str:
    wide = round(90 * abs(cycles) / most)
    return f'<span class="delta {"more" if cycles > 0 else "less"}" style="width:{wide}px"></span>'


def _named(found: Difference) -> Iterator[Change]:
    for change in found.engines[:TOP]:
        yield Change(f"busy cycles of {change.name}", change.before, change.after)
    for change in found.peaks[:TOP]:
        yield Change(f"peak bytes of {change.name}", change.before, change.after)


def _cells(change: Change) -> tuple[str, str, str]:
    ratio = change.ratio
    return _text(change.before), _text(change.after), "" if ratio is None else f"{ratio:.3f}x"


def _text(number: float | None) -> str:
    if number is None:
        return ""
    return f"{int(number):,}" if number == int(number) else f"{number:,.6g}"


def _label(region: Region) -> str:
    first, last = region.nodes[0], region.nodes[-1]
    return first if first == last else f"{first} .. {last} ({len(region.nodes)})"
