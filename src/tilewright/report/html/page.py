"""The page: a template with style, scripts and data put into it."""

import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from tilewright.files import write_text
from tilewright.planning import Planned
from tilewright.report.html.data import report_data
from tilewright.search.explanation.explain import Explanation

SCRIPTS = "common base headline graph timeline memory charts tables layers find main".split()


def write_report(
    planned: Planned,
    path: Path,
    explanation: Explanation | None = None,
    *,
    remedies: bool = True,
    plain: Sequence[str] = (),
) -> None:
    """Write the report of a run; `plain` is its summary as lines of text."""
    write_text(path, page_text(report_data(planned, explanation, remedies), plain))


def page_text(data: dict[str, Any], plain: Sequence[str] = ()) -> str:
    """The whole report."""
    return filled_page(
        resource("page.html"),
        f"{data['head']['model']} on {data['head']['machine']}{data['head']['mark']}: Tilewright",
        resource("report.css"),
        data,
        "\n".join(resource(f"{name}.js") for name in SCRIPTS),
        plain,
    )


def embedded(data: dict[str, Any]) -> str:
    """Data as it stands in a page; `<` is escaped, so that nothing in it can end its element."""
    compact = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return compact.replace("<", "\\u003c")


def filled_page(
    body: str,
    title: str,
    style: str,
    data: dict[str, Any],
    script: str,
    plain: Sequence[str] = (),
) -> str:
    """A page that needs nothing else, from what its body shows; a body takes what pages share by
    `<!--include FILE-->`. `plain` are lines of text for who reads it without scripts."""
    return Template(resource("frame.html")).substitute(
        title=html.escape(title),
        style=style,
        body=re.sub("<!--include (.*?)-->", lambda found: resource(found[1]).rstrip(), body),
        data=embedded(data),
        script=script,
        plain=html.escape("\n".join(plain)),
    )


def package_page(
    package: str, body: str, sheet: str, scripts: Sequence[str], title: str, data: dict[str, Any]
) -> str:
    """A page whose body, sheet and scripts are files of a package, behind those that all share."""
    style = resource("report.css") + resource(sheet, package)
    script = "\n".join([resource("common.js"), *(resource(name, package) for name in scripts)])
    return filled_page(resource(body, package), title, style, data, script)


def resource(name: str, package: str = "tilewright.report.html") -> str:
    """A file of a package, or of the house style."""
    return files(package).joinpath(name).read_text(encoding="utf-8")
