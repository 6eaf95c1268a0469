"""One word for one thing: what the text, the JSON, the page and the picture say is the same."""

from dataclasses import replace
from functools import cache

from rich.console import Console

from support.programs import OWN
from tilewright import api
from tilewright.frontend.weights import seeded
from tilewright.planning import UNPROVEN, Planned
from tilewright.report.html.data import report_data
from tilewright.report.memory_map import memory_words
from tilewright.report.plan_summary import memory_table, summary_json, summary_lines
from tilewright.report.verified import verified_line
from tilewright.search.effort import Effort
from tilewright.search.explanation.explain import explain
from tilewright.units import format_bytes


@cache
def searched() -> Planned:
    """A small network whose loads lie all over a scratchpad that is hardly used."""
    model = api.load(seeded(OWN["residual"]()))
    return api.plan(model, "eight-core-l2", effort=Effort.LOW, verify=False).planned


def printed(planned: Planned) -> str:
    """The table of memories as people see it."""
    console = Console(width=120, record=True, quiet=True)
    console.print(memory_table(planned))
    return console.export_text()


def test_a_peak_is_what_is_live_at_once_everywhere() -> None:
    planned = searched()
    summary, page = summary_json(planned), report_data(planned)["machine"]["memories"]
    peaks, highest = summary["peak_bytes"], summary["highest_address_bytes"]
    assert peaks == dict(planned.placed.most_live)
    assert any(peaks[name] < highest[name] for name in peaks), "else nothing is told apart here"
    assert {row["name"]: row["peak"] for row in page} == peaks
    assert {row["name"]: row["highest"] for row in page} == highest
    for line in printed(planned).splitlines():
        cells = [cell.strip() for cell in line.split("│")]
        if len(cells) > 2 and cells[1] in peaks:
            name = cells[1]
            assert cells[2:4] == [format_bytes(peaks[name]), format_bytes(highest[name])]
    for name in peaks:
        memory = planned.machine.memory(name)
        assert f"peak {format_bytes(peaks[name])} of" in memory_words(planned.placed, memory)


def test_an_interrupted_search_says_so_in_every_output() -> None:
    planned = searched()
    assert planned.found is not None
    left = "sections"
    stopped = replace(
        planned,
        found=replace(planned.found, interrupted=True, exact=False, not_looked_at=left),
        unproven=True,
        notes=(UNPROVEN,),
    )
    head = report_data(stopped)["head"]
    assert head["interrupted"] and not report_data(planned)["head"]["interrupted"]
    assert "interrupted" in head["search_line"] and left in head["search_line"]
    assert f"search       {head['search_line']}" in summary_lines(stopped)
    summary = summary_json(stopped)
    assert summary["search"]["interrupted"] and summary["notes"] == [UNPROVEN] == head["notes"]
    assert verified_line(stopped) == head["verified_line"] and "--no-verify" not in head
    assert "interrupted" in head["verified_line"]


def test_the_page_says_which_boundaries_were_not_tried() -> None:
    planned = searched()
    for limit, remedies, words in ((None, True, ""), (0, True, "--all"), (None, False, "spilled")):
        given = planned.graph, planned.machine, planned.plan, planned.placed
        why = explain(*given, limit=limit, remedies=remedies)
        tried = report_data(planned, why, remedies)["story"]["tried"]
        assert bool(tried) == bool(words) and words in tried
