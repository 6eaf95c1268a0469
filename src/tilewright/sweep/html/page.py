"""The page of a sweep: a template with style, scripts and data put into it."""

from tilewright.report.html.page import package_page
from tilewright.sweep.answers import Answers
from tilewright.sweep.html.data import page_data
from tilewright.sweep.space import Space
from tilewright.sweep.store import Store
from tilewright.sweep.table import SweepTable

SCRIPTS = ("state.js", "front.js", "parallel.js", "tables.js", "main.js")


def page_text(space: Space, table: SweepTable, answers: Answers, store: Store) -> str:
    """The whole page."""
    title, data = f"{space.name}: Tilewright sweep", page_data(space, table, answers, store)
    return package_page("tilewright.sweep.html", "sweep.html", "sweep.css", SCRIPTS, title, data)
