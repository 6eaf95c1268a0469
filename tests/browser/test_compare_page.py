"""Two runs side by side, as `tilewright compare --html` writes them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from access import faults_light_and_dark, stops
from devtools import Browser

from tilewright import api

pytestmark = pytest.mark.browser
NET = "four_convs@32x32"
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def comparison(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page, beside the folders of its runs."""
    place = tmp_path_factory.mktemp("compare")
    layers = api.plan(NET, "mcu", layer_by_layer=True, verify=False)
    fused = api.plan(NET, "mcu", effort="low", verify=False)
    folders = [layers.save(place / "layers"), fused.save(place / "fused")]
    return api.compare(*folders).save(place / "compare.html")


@pytest.fixture
def compared(browser: Browser, comparison: Path) -> Iterator[Browser]:
    """Freshly opened; a test must leave no error behind."""
    with browser.fresh(comparison) as opened:
        yield opened


def test_figures_stand_beside_each_other_with_the_reports(compared: Browser) -> None:
    head = compared.run("document.getElementById('head').innerText")
    assert "layers" in head and "fused" in head
    links = compared.run(
        "[...document.querySelectorAll('#head a')].map((a) => a.getAttribute('href'))"
    )
    assert links == ["layers/report.html", "fused/report.html"]
    cards = compared.run("document.querySelector('.cards').innerText")
    assert "Latency" in cards and "Main-memory traffic" in cards and "Energy" in cards


def test_both_runs_lie_on_one_scale(compared: Browser) -> None:
    """Widths of the blocks are their cycles, on the same scale in both rows."""
    width = (
        "[...document.querySelectorAll('.part[data-side=\"{0}\"]')].map((p) => p.getBBox().width)"
    )
    cycles = "data.sides[{0}].groups.map((g) => g.cycles)"
    scales = []
    for side in (0, 1):
        wide, long = compared.run(width.format(side)), compared.run(cycles.format(side))
        assert len(wide) == len(long) > 0
        scales.append(max(wide) / max(long))
        assert sum(long) == compared.run(f"data.sides[{side}].cycles")
    assert scales[0] == pytest.approx(scales[1], rel=1e-3)


def test_a_part_is_chosen_in_both_runs_and_in_the_table(compared: Browser) -> None:
    rows = "document.querySelectorAll('table.causes tbody tr').length"
    assert compared.run(rows) == compared.run("data.pairs[0].regions.length") > 0
    compared.run("document.querySelector('table.causes tr.row').focus()")
    compared.run("document.querySelector('table.causes tr.row').click()")
    region = compared.run("document.querySelector('table.causes tr.chosen').dataset.region")
    sides = compared.run(
        "[...document.querySelectorAll('.part.chosen')].map((p) => p.dataset.side)"
    )
    assert region == "0" and set(sides) == {"0", "1"}
    compared.run("(() => { const b = element('filter-0'); b.value = 'no such'; b.oninput(); })()")
    assert compared.run(rows) == 0


def test_the_page_is_accessible_and_narrow(compared: Browser) -> None:
    assert faults_light_and_dark(compared) == {}
    found = stops(compared)
    places = [stop["order"] for stop in found]
    assert places == sorted(places) and all(stop["seen"] for stop in found)
    assert {"filter-0", "csv-0"} <= {stop["id"] for stop in found}
    compared.call("Emulation.setDeviceMetricsOverride", width=420, height=800,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
    compared.settle()
    assert compared.run("document.documentElement.scrollWidth") <= 420
    beyond = (
        "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth + 1)"
    )
    assert compared.run(f"{beyond}.length") == 0, "every column is there without scrolling"
    compared.call("Emulation.clearDeviceMetricsOverride")


def test_plans_with_a_mapping_have_no_cycles_by_layer(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place, files = tmp_path_factory.mktemp("mapped"), EXAMPLES / "manycore"
    plans = [
        api.allocate(
            "four_convs@16x16",
            files / "three_cores.yaml",
            files / "fused.yaml",
            layer_by_layer=whole,
            verify=False,
        )
        for whole in (False, True)
    ]
    with browser.fresh(api.compare(*plans).save(place / "compare.html")) as opened:
        assert faults_light_and_dark(opened) == {}
        shown = opened.run("document.querySelector('main').innerText")
        assert "Both runs on one scale" not in shown and "run beside each other" in shown
        heads = opened.run("document.querySelector('table.causes thead').innerText")
        assert "cycles" not in heads and "what is different" in heads
