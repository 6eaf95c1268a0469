"""The report in a real browser: what a person sees and does."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from devtools import Browser
from matplotlib.image import imread

from tilewright.planning import Planned
from tilewright.report.plan_tables import LAYERS, groups_table, layers_table

pytestmark = pytest.mark.browser


def text(page: Browser, selector: str) -> str:
    return page.run(f"document.querySelector('{selector}').innerText")


def visible(page: Browser) -> tuple[float, float]:
    first, last = page.run("[state.from, state.to]")
    return first, last


def colours(png: bytes) -> int:
    """How many different colours a picture has."""
    pixels = imread(BytesIO(png), format="png")
    return len(np.unique(pixels[..., :3].reshape(-1, 3), axis=0))


def test_opens_without_errors_or_requests(page: Browser, report: Path) -> None:
    assert page.problems == []
    fetched = [url for url in page.requests if not url.startswith("data:")]
    assert fetched == [report.absolute().as_uri()]
    assert page.run("document.documentElement.scrollWidth <= innerWidth"), "no sideways scrolling"


def test_headline(page: Browser, planned: Planned) -> None:
    head = text(page, "#head")
    assert "four_convs on npu-2.7" in head and "fp16" in head
    assert f"{planned.account.latency_cycles:,} cycles" in head
    assert "2.00\N{MULTIPLICATION SIGN}" in head and "against layer by layer" in head
    assert "67 % less than layer by layer" in head
    assert "verified: " in head and "executed at their addresses" in head
    story = text(page, "#story")
    assert "matrix engines" in story and "fused (this plan)" in story


def test_wheel_buttons_and_keys_zoom_time(page: Browser) -> None:
    whole = visible(page)
    page.wheel(page.spot("#time-canvas", 0.6), -240)
    first, last = visible(page)
    assert last - first < 0.7 * (whole[1] - whole[0])
    shown = text(page, "#time-range")
    page.drag(page.spot("#time-canvas", 0.6), page.spot("#time-canvas", 0.5))
    moved = visible(page)
    assert moved[0] > first and moved[1] - moved[0] == pytest.approx(last - first)
    assert text(page, "#time-range") != shown
    page.click(page.spot("#time-reset"))
    assert visible(page) == whole
    page.click(page.spot("#time-in"))
    assert visible(page)[1] - visible(page)[0] == pytest.approx(0.5 * whole[1])
    page.click(page.spot("#time-out"))
    assert visible(page) == pytest.approx(whole)
    page.run("document.getElementById('time-canvas').focus()")
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key="+", text="+" * (kind == "keyDown"))
    assert visible(page)[1] - visible(page)[0] < whole[1]


def middle_of_a_task(page: Browser) -> tuple[int, tuple[float, float]]:
    """The longest task of the first engine, and where it is drawn."""
    task, x = page.run(
        "(() => { const mine = tasks.start.map((_, t) => t).filter((t) => tasks.engine[t] === 0);"
        "const t = mine.reduce((a, b) => (tasks.end[b] - tasks.start[b] > tasks.end[a] -"
        "tasks.start[a] ? b : a)); return [t, (tasks.start[t] + tasks.end[t]) / 2 / makespan]; })()"
    )
    width = page.run("document.getElementById('time-canvas').clientWidth")
    left, top = page.spot("#time-canvas", 0, 0)
    return task, (left + 128 + x * (width - 136), top + 58)


def test_hover_shows_a_task_and_click_opens_its_tile(page: Browser, planned: Planned) -> None:
    number, at = middle_of_a_task(page)
    page.hover(at)
    task = planned.placed.program.tasks[number]
    tip = text(page, "#tip")
    assert task.name in tip and f"node {task.node}" in tip and "reads" in tip and "writes" in tip
    assert f"{planned.placed.schedule.start[number]:,}" in tip
    page.click(at)
    assert page.run("state.task") == number
    assert task.name in text(page, "#tasks-table tr.chosen")
    page.hover((5, 5))
    assert page.run("document.getElementById('tip').hidden")


def test_a_row_of_the_table_selects_its_group_everywhere(page: Browser, planned: Planned) -> None:
    page.click(page.spot("#groups-table tr[data-group='1']"))
    name = planned.plan.groups[1].nodes[0]
    assert name in page.run("document.querySelector('#graph-view .box.chosen').textContent")
    assert page.run("document.querySelectorAll('#graph-view .box.chosen').length") == 1
    assert page.run("document.getElementById('tiles-group').value") == "1"
    assert page.run("document.querySelectorAll('#tiles-table tbody tr').length") == 4
    tasks = text(page, "#tasks-table")
    assert f"{name}@0" in tasks and "strides" in tasks and "cluster0.cmx+" in tasks
    assert name in text(page, "#chosen")
    page.click(page.spot("#tiles-table tr[data-tile='2']"))
    assert page.run("state.tile") == 2
    assert visible(page)[1] - visible(page)[0] < planned.account.latency_cycles
    page.click(page.spot("#unselect"))
    assert page.run("state.group === null && !document.querySelector('.box.chosen')")


def test_a_box_of_the_graph_selects_its_group(page: Browser) -> None:
    page.click(page.spot("#graph-view .box[data-group='0']"))
    assert page.run("state.group") == 0
    assert page.run("document.querySelector('#groups-table tr.chosen').dataset.group") == "0"
    assert page.run("document.querySelectorAll('#tiles-table tbody tr').length") == 8
    before = page.run("document.querySelector('#graph-view svg').getAttribute('viewBox')")
    page.wheel(page.spot("#graph-view"), -200)
    after = page.run("document.querySelector('#graph-view svg').getAttribute('viewBox')")
    assert before != after


def test_columns_sort_both_ways(page: Browser) -> None:
    order = "[...document.querySelectorAll('#groups-table tbody tr')].map((r) => +r.dataset.group)"
    traffic = "(g) => groups[g].read_weights + groups[g].read_activations + groups[g].written"
    assert page.run(order) == [0, 1, 2]
    page.click(page.spot("#groups-table th:nth-child(10) button"))
    falling = page.run(f"({order}).map({traffic})")
    assert falling == sorted(falling, reverse=True) and len(set(falling)) > 1
    page.click(page.spot("#groups-table th:nth-child(10) button"))
    assert page.run(f"({order}).map({traffic})") == falling[::-1]
    assert page.run("document.querySelector('th[aria-sort=ascending]').innerText") == "traffic ▴"


def test_memory_can_be_chosen(page: Browser) -> None:
    names = page.run("[...document.getElementById('memory-which').options].map((o) => o.text)")
    assert [name.split()[0] for name in names] == ["ddr", "cluster0.cmx", "cluster1.cmx"]
    before = text(page, "#memory-facts")
    picture = "document.getElementById('memory-canvas').toDataURL()"
    drawn = page.run(picture)
    page.run(
        "(() => { const s = document.getElementById('memory-which'); s.value = '0';"
        "s.dispatchEvent(new Event('change')); })()"
    )
    page.settle()
    assert text(page, "#memory-facts") != before and page.run(picture) != drawn
    page.hover(page.spot("#memory-canvas", 0.5, 0.8))
    assert "at" in text(page, "#tip") and "cycles" in text(page, "#tip")


def test_colours_and_critical_path_can_be_switched(page: Browser) -> None:
    picture = "document.getElementById('time-canvas').toDataURL()"
    seen = {page.run(picture)}
    page.run(
        "(() => { const s = document.getElementById('time-colour'); s.value = 'kind';"
        "s.dispatchEvent(new Event('change')); })()"
    )
    page.settle()
    seen.add(page.run(picture))
    assert "load weights" in text(page, "#time-legend")
    page.click(page.spot("#time-critical"))
    seen.add(page.run(picture))
    assert len(seen) == 3


def test_reasons_are_listed(page: Browser) -> None:
    assert "short of 4,096 bytes" in text(page, "#reasons-view")
    assert "123,456 cycles" in text(page, "#reasons-view")


def test_the_picture_is_not_blank(page: Browser) -> None:
    assert colours(page.screenshot()) > 20


def test_layers_are_found_sorted_and_downloaded(page: Browser, planned: Planned) -> None:
    rows = "[...document.querySelectorAll('#layers-table tbody tr')]"
    assert page.run(f"{rows}.length") == len(planned.graph.nodes)
    name = planned.graph.nodes[-1].name
    typed = "const box = document.getElementById('layers-filter'); box.value = {}; box.oninput();"
    page.run(f"(() => {{ {typed.format(repr(name))} }})()")
    found = page.run(f"{rows}.map((row) => row.dataset.layer)")
    assert name in found and len(found) < len(planned.graph.nodes)
    page.run(f"{rows}.find((row) => row.dataset.layer === {name!r}).click()")
    home = next(n for n, group in enumerate(planned.plan.groups) if name in group.nodes)
    assert page.run("state.group") == home
    page.run(f"(() => {{ {typed.format(repr(''))} }})()")
    buttons = "[...document.querySelectorAll('#layers-table th button')]"
    page.run(f"{buttons}.find((b) => b.innerText.startsWith('cycles')).click()")
    place = LAYERS.split().index("cycles")
    shown = page.run(f"{rows}.map((r) => +r.children[{place}].innerText.replace(/[^0-9]/g, ''))")
    assert shown == sorted(shown, reverse=True)
    for where, table in (("layers", layers_table(planned)), ("group_table", groups_table(planned))):
        lines = page.run(f"csvText(data.{where})").splitlines()
        assert lines[0] == ",".join(table.columns)
        assert len(lines) == len(table) + 1
    typed = "const b = document.getElementById('groups-filter'); b.value = 'none'; b.oninput();"
    page.run(f"(() => {{ {typed} }})()")
    assert page.run("document.querySelectorAll('#groups-table tbody tr').length") == 0


def test_dark_mode_is_dark_and_readable(page: Browser) -> None:
    """Text stands out from what is behind it, by the ratio that accessibility rules ask for."""
    ratio = """(() => {
      const light = (text) => { const [r, g, b] = text.match(/[0-9.]+/g).map(Number).map((c) => c / 255)
        .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const behind = (e) => { for (let at = e; at; at = at.parentElement) { const c = getComputedStyle(at).backgroundColor;
        if (!/, 0\\)|transparent/.test(c)) return c; } return "rgb(255, 255, 255)"; };
      const worst = [1e9, ""];
      for (const e of document.querySelectorAll("h1,h2,small,.verified,.card *,.panel td,.panel th button,.bar a,.tools button,.hint,label")) {
        if (!e.innerText?.trim() || e.disabled || e.closest("svg")) continue;
        const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
        const found = (a + 0.05) / (b + 0.05);
        if (found < worst[0]) worst.splice(0, 2, found, `${e.tagName}.${e.className} ${e.innerText.slice(0, 30)}`);
      }
      return [...worst, light(getComputedStyle(document.body).backgroundColor)];
    })()"""  # noqa: E501
    for scheme, dark in (("light", False), ("dark", True)):
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        page.call("Emulation.setEmulatedMedia", features=media)
        page.settle()
        worst, where, paper = page.run(ratio)
        assert worst >= 4.5, (scheme, worst, where)
        assert (paper < 0.05) == dark
    page.call("Emulation.setEmulatedMedia", features=[])


def test_a_narrow_screen_has_nothing_beyond_its_edge(page: Browser) -> None:
    page.call(
        "Emulation.setDeviceMetricsOverride",
        width=420,
        height=800,
        deviceScaleFactor=1,
        mobile=False,
    )
    page.settle()
    wide = """[...document.querySelectorAll("body *")]
      .filter((e) => !e.closest(".panel, .scroll, svg") && e.getBoundingClientRect().right > 421)
      .map((e) => `${e.tagName}#${e.id}.${e.className}`)"""
    assert page.run(wide) == []
    assert page.run("document.documentElement.scrollWidth") <= 420
    page.call("Emulation.clearDeviceMetricsOverride")
