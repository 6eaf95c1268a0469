"""The page of a sweep: a template with style, scripts and data put into it."""

from importlib.resources import files

from tilewright.report.html.page import filled_page, shared_parts
from tilewright.sweep.answers import Answers
from tilewright.sweep.html.data import page_data
from tilewright.sweep.space import Space
from tilewright.sweep.store import Store
from tilewright.sweep.table import SweepTable

SCRIPTS = ("state.js", "front.js", "parallel.js", "tables.js", "main.js")


def page_text(space: Space, table: SweepTable, answers: Answers, store: Store) -> str:
    """The whole page."""
    style, common = shared_parts()
    return filled_page(
        _resource("sweep.html"),
        f"{space.name}: Tilewright sweep",
        style + _resource("sweep.css"),
        page_data(space, table, answers, store),
        "\n".join([common, *map(_resource, SCRIPTS)]),
    )


def _resource(name: str) -> str:
    return files("tilewright.sweep.html").joinpath(name).read_text(encoding="utf-8")
