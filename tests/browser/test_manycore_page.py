"""The page of a plan on many cores: drawn without a network, zooms, and names tiles and tensors."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from access import faults_light_and_dark, stops
from devtools import Browser

from tilewright.api import load
from tilewright.manycore.output import write_plan
from tilewright.manycore.plan import plan_cores

pytestmark = pytest.mark.browser
EXAMPLE = Path(__file__).parents[2] / "examples" / "manycore"


@pytest.fixture(scope="module")
def folder(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    machine, mapping = EXAMPLE / "three_cores.yaml", EXAMPLE / "fused.yaml"
    made = tmp_path_factory.mktemp("cores") / "run"
    graph = load("four_convs@16x16").graph
    write_plan(plan_cores("four_convs", graph, machine, mapping), made)
    return made


@pytest.fixture
def opened(browser: Browser, folder: Path) -> Iterator[Browser]:
    with browser.fresh(folder / "report.html") as opened:
        yield opened


def test_layers_are_coloured_by_core_and_nothing_is_fetched(opened: Browser, folder: Path) -> None:
    fills = opened.run(
        "[...document.querySelectorAll('#network-view rect')].map((r) => r.getAttribute('fill'))"
    )
    cores = opened.run("data.layers.map((layer) => colour(layer.position[0]))")
    assert fills == ["#fff", *cores, "#fff"]
    assert opened.run("document.querySelectorAll('table').length") == 4
    page = (folder / "report.html").as_uri()
    assert [url for url in opened.requests if not url.startswith("data:")] == [page]


def test_it_zooms_and_a_tip_names_tile_and_tensors(opened: Browser) -> None:
    opened.run(
        "canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -1, clientX: 600, clientY: 300}))"
    )
    assert opened.run("to - from") < opened.run("data.latency")
    opened.run("canvas.dispatchEvent(new MouseEvent('dblclick'))")
    assert opened.run("to - from") == opened.run("data.latency")
    opened.run(
        """(() => {
          const task = byEngine[shown[0]][0], box = canvas.getBoundingClientRect();
          const x = box.left + place((task[1] + task[2]) / 2);
          const spot = {clientX: x, clientY: box.top + 10};
          canvas.dispatchEvent(new PointerEvent('pointermove', spot));
        })()"""
    )
    tip = opened.run("document.getElementById('tip').textContent")
    assert "conv1.0" in tip or "conv" in tip
    assert "reads" in tip and "writes" in tip and "in core" in tip


def test_keys_lead_from_task_to_task_and_read_them_out(opened: Browser) -> None:
    def pressed(key: str) -> str:
        opened.run(f"canvas.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))")
        return opened.run("element('time-told').textContent")

    first = pressed("ArrowDown")
    assert first.startswith(opened.run("data.engines[shown[0]]")) and "reads" in first
    assert pressed("n") != first and pressed("p") == first
    below = pressed("ArrowDown")
    assert below.startswith(opened.run("data.engines[shown[1]]"))
    pressed("Escape")
    assert opened.run("tip.hidden")


@pytest.mark.parametrize("name", ["report.html", "schedule.html"])
def test_the_pages_are_accessible_and_narrow(browser: Browser, folder: Path, name: str) -> None:
    browser.problems.clear()
    browser.open(folder / name)
    assert faults_light_and_dark(browser) == {}
    found = stops(browser)
    places = [stop["order"] for stop in found]
    assert places == sorted(places) and all(stop["seen"] for stop in found)
    assert "time" in {stop["id"] for stop in found}
    browser.call("Emulation.setDeviceMetricsOverride", width=420, height=800,
                 deviceScaleFactor=1, mobile=False)  # fmt: skip
    browser.settle()
    assert browser.run("document.documentElement.scrollWidth") <= 420
    browser.call("Emulation.clearDeviceMetricsOverride")
    assert browser.problems == []
