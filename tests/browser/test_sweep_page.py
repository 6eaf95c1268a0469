"""sweep.html in a real browser: what a person sees and does."""

from collections.abc import Iterator

import numpy as np
import pytest
from access import faults_light_and_dark, stops
from devtools import Browser

from tilewright.api import compare
from tilewright.compare.page import page
from tilewright.sweep.api import Swept, sweep, write_answers

pytestmark = pytest.mark.browser
SPACE = {
    "name": "page",
    "fixed": {"machine": "npu-2.7", "effort": "layers"},
    "axes": {
        "model": ["four_convs@8x8", "four_convs@10x10"],
        "bandwidth": {
            "field": "machine.memories.ddr.bandwidth",
            "values": ["9 GB/s", "18 GB/s", "27 GB/s"],
        },
        "cores": {"field": "machine.cores.cluster.count", "values": [1, 2]},
        "usable": {
            "field": "machine.cores.cluster.memories.cmx.usable",
            "values": ["1 MiB", "9 MiB"],  # the second is more than there is
        },
    },
    "define": {"cost": "cores + bandwidth / GB / 10"},
    "under_ms": 1,
}


@pytest.fixture(scope="module")
def swept(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    found = sweep(SPACE, tmp_path_factory.mktemp("sweep"))
    write_answers(found)
    return found


@pytest.fixture
def opened(browser: Browser, swept: Swept) -> Iterator[Browser]:
    with browser.fresh(swept.folder / "sweep.html") as opened:
        yield opened


FIND = """(() => {
  const canvas = element("front-canvas"), box = canvas.getBoundingClientRect();
  for (let x = 60; x < box.width; x += 6) for (let y = 8; y < box.height; y += 6) {
    const at = { clientX: box.x + x, clientY: box.y + y };
    canvas.dispatchEvent(new PointerEvent("pointermove", at));
    const lines = tip.hidden ? [] : tip.innerText.split("\\n");
    if (lines.includes("point NUMBER")) return [at.clientX, at.clientY];
  }
  return null;
})()"""


def place(page: Browser, number: int) -> tuple[float, float]:
    """Where a point is drawn in the scatter: where its tooltip appears."""
    page.spot("#front-canvas")
    found = page.run(FIND.replace("NUMBER", str(number)))
    assert found is not None, f"no point {number} is drawn"
    page.run("hideTip()")
    return found[0], found[1]


def test_opens_without_errors_or_requests(opened: Browser, swept: Swept) -> None:
    fetched = [url for url in opened.requests if not url.startswith("data:")]
    assert fetched == [(swept.folder / "sweep.html").absolute().as_uri()]
    assert opened.run("document.documentElement.scrollWidth <= innerWidth"), "no sideways scrolling"
    head = opened.text("#head")
    assert "page" in head and str(len(swept.table)) in head


def test_hover_tells_and_click_opens_the_plan(opened: Browser, swept: Swept) -> None:
    opened.run("element('load').value = '1'; element('load').dispatchEvent(new Event('change'))")
    opened.settle()
    front = swept.answers.fronts[0]
    row = front.rows[len(front.rows) // 2]
    at = place(opened, int(swept.table.numbers[row]))
    opened.hover(at)
    tip = opened.run("tip.innerText")
    assert "latency_ms" in tip and str(swept.table.value("bandwidth", row)) in tip
    opened.click(at)
    opened.wait("document.querySelector('#plan-text') !== null")
    assert f"number {swept.table.numbers[row]}" in opened.text("#point-name")
    plan = opened.run("document.querySelector('#plan-text').textContent")
    assert plan.startswith("model: four_convs@8x8\n") and "groups:" in plan


def shown(page: Browser) -> list[str]:
    rows = "[...document.querySelectorAll('#points-table tbody tr')]"
    return page.run(f"{rows}.map((r) => r.cells[0].innerText)")


def filter_by(page: Browser, terms: str) -> None:
    page.run(f"element('filter').value = '{terms}'")
    page.run("element('filter').dispatchEvent(new Event('input'))")
    page.settle()


def test_tables_sort_and_filter(opened: Browser, swept: Swept) -> None:
    table = swept.table
    assert len(shown(opened)) == len(table)
    headings = "[...document.querySelectorAll('#points-table th')]"
    column = opened.run(f"{headings}.findIndex((h) => h.innerText.startsWith('latency_ms'))")
    opened.click(opened.spot(f"#points-table [data-column='{column}']"))
    latency = table.figures["latency_ms"]
    best = [int(table.numbers[i]) for i in np.argsort(latency, kind="stable")]
    assert [int(n) for n in shown(opened)][:3] == best[:3]
    filter_by(opened, "four_convs@10 cores=2")
    wanted = {
        int(table.numbers[i])
        for i in range(len(table))
        if table.value("model", i) == "four_convs@10x10" and table.value("cores", i) == 2
    }
    assert {int(n) for n in shown(opened)} == wanted
    assert f"{len(wanted)} of {len(table)} points" in opened.text("#chosen")
    limit = float(np.median(latency[table.ok]))
    filter_by(opened, f"latency_ms<{limit}")
    assert len(shown(opened)) == int((latency < limit).sum())
    opened.click(opened.spot("#unselect"))
    assert len(shown(opened)) == len(table)


def test_a_piece_of_an_axis_keeps_what_crosses_it(opened: Browser, swept: Swept) -> None:
    width = opened.run("document.querySelector('#parallel-canvas').clientWidth")
    first = 70 / width  # the axis at the left: bandwidth
    opened.drag(
        opened.spot("#parallel-canvas", first, 0.2), opened.spot("#parallel-canvas", first, 0.05)
    )
    kept = {
        opened.run(f"valueText('bandwidth', {i})")
        for i in range(len(swept.table))
        if opened.run(f"state.keep({i})")
    }
    assert kept == {"27 GB/s"}
    opened.click(opened.spot("#unselect"))
    assert opened.run("Object.keys(state.brushes).length") == 0


def test_rows_without_a_plan_say_why(opened: Browser, swept: Swept) -> None:
    bad = np.flatnonzero(~swept.table.ok)
    assert len(bad) == len(swept.table) // 2
    for row in bad[:1]:
        opened.run(f"choose({row})")
        opened.settle()
        assert swept.table.reasons[row] in opened.text("#point-view")
    assert opened.run("document.querySelectorAll('#sensitivity-view tbody tr').length") == 4 + 2
    assert "cost" in opened.text("#cheapest-view")
    opened.click(opened.spot("#cheapest-view tbody tr"))
    opened.wait("document.querySelector('#plan-text') !== null")


def test_a_comparison_opens_as_a_page(browser: Browser, swept: Swept) -> None:
    path = swept.folder / "compare.html"
    path.write_text(page(compare(f"{swept.folder}#0", f"{swept.folder}#2", f"{swept.folder}#4")))
    browser.problems.clear()
    browser.open(path)
    assert browser.problems == []
    assert browser.run("document.querySelectorAll('.compared').length") == 2
    assert browser.run("document.querySelectorAll('.causes tbody tr').length") > 0
    assert "takes" in browser.text(".compared h2")


def test_the_page_is_accessible_and_narrow(opened: Browser) -> None:
    assert faults_light_and_dark(opened) == {}
    found = stops(opened)
    places = [stop["order"] for stop in found]
    assert places == sorted(places) and all(stop["seen"] for stop in found)
    opened.call("Emulation.setDeviceMetricsOverride", width=420, height=800,
                deviceScaleFactor=1, mobile=False)  # fmt: skip
    opened.settle()
    assert opened.run("document.documentElement.scrollWidth") <= 420
    opened.call("Emulation.clearDeviceMetricsOverride")
