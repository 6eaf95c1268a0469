"""Words that pages explain: all that a report can show."""

import re

from tilewright import api
from tilewright.report.html.data import report_data
from tilewright.report.html.page import resource
from tilewright.report.html.terms import TERMS
from tilewright.search.explanation.trials import BoundaryKind


def test_every_bound_every_rival_and_every_reason_is_explained() -> None:
    found = api.plan("four_convs@16x16", "mcu", effort="low", verify=False)
    story = report_data(found.planned)["story"]
    shown = {name for name, *_ in (*story["bounds"], *story["rivals"])}
    shown |= {kind.value for kind in BoundaryKind}
    assert len(shown) > 15
    assert shown - set(TERMS) == set()


def test_every_word_that_scripts_ask_for_is_there() -> None:
    scripts = "".join(resource(name) for name in ("headline.js", "graph.js", "tables.js"))
    asked = set(re.findall(r'term\("([^"]+)"', scripts))
    assert {"lower bound", "view", "folded"} <= asked <= set(TERMS)
