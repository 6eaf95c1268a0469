"""The report in a real browser: what a person sees and does."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from access import faults, faults_light_and_dark, stops
from devtools import Browser
from matplotlib.image import imread

from tilewright.planning import Planned
from tilewright.report.plan_tables import LAYERS, groups_table, layers_table

pytestmark = pytest.mark.browser


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
    head = page.text("#head")
    assert "four_convs on npu-2.7" in head and "fp16" in head
    assert f"{planned.account.latency_cycles:,} cycles" in head
    assert "2.00\N{MULTIPLICATION SIGN}" in head and "against layer by layer" in head
    assert "67 % less than layer by layer" in head
    assert "verified: " in head and "executed at their addresses" in head
    story = page.text("#story")
    assert "matrix engines" in story and "fused (this plan)" in story


def test_wheel_buttons_and_keys_zoom_time(page: Browser) -> None:
    whole = visible(page)
    page.wheel(page.spot("#time-canvas", 0.6), -240)
    first, last = visible(page)
    assert last - first < 0.7 * (whole[1] - whole[0])
    shown = page.text("#time-range")
    page.drag(page.spot("#time-canvas", 0.6), page.spot("#time-canvas", 0.5))
    moved = visible(page)
    assert moved[0] > first and moved[1] - moved[0] == pytest.approx(last - first)
    assert page.text("#time-range") != shown
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
    width, room = page.run("[document.getElementById('time-canvas').clientWidth, gutter]")
    left, top = page.spot("#time-canvas", 0, 0)
    return task, (left + room + x * (width - room - 8), top + 58)


def test_hover_shows_a_task_and_click_opens_its_tile(page: Browser, planned: Planned) -> None:
    number, at = middle_of_a_task(page)
    page.hover(at)
    task = planned.placed.program.tasks[number]
    tip = page.text("#tip")
    assert task.name in tip and f"node {task.node}" in tip and "reads" in tip and "writes" in tip
    assert f"{planned.placed.schedule.start[number]:,}" in tip
    page.click(at)
    assert page.run("state.task") == number
    assert task.name in page.text("#tasks-table tr.chosen")
    page.hover((5, 5))
    assert page.run("document.getElementById('tip').hidden")


def test_a_row_of_the_table_selects_its_group_everywhere(page: Browser, planned: Planned) -> None:
    page.click(page.spot("#groups-table tr[data-group='1']"))
    name = planned.plan.groups[1].nodes[0]
    assert name in page.run("document.querySelector('#graph-view .box.chosen').textContent")
    assert page.run("document.querySelectorAll('#graph-view .box.chosen').length") == 1
    assert page.run("document.getElementById('tiles-group').value") == "1"
    assert page.run("document.querySelectorAll('#tiles-table tbody tr').length") == 4
    tasks = page.text("#tasks-table")
    assert f"{name}@0" in tasks and "strides" in tasks and "cluster0.cmx+" in tasks
    assert name in page.text("#chosen")
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
    before = page.text("#memory-facts")
    picture = "document.getElementById('memory-canvas').toDataURL()"
    drawn = page.run(picture)
    page.run(
        "(() => { const s = document.getElementById('memory-which'); s.value = '0';"
        "s.dispatchEvent(new Event('change')); })()"
    )
    page.settle()
    assert page.text("#memory-facts") != before and page.run(picture) != drawn
    page.hover(page.spot("#memory-canvas", 0.5, 0.8))
    assert "at" in page.text("#tip") and "cycles" in page.text("#tip")


def test_colours_and_critical_path_can_be_switched(page: Browser) -> None:
    picture = "document.getElementById('time-canvas').toDataURL()"
    seen = {page.run(picture)}
    page.run(
        "(() => { const s = document.getElementById('time-colour'); s.value = 'kind';"
        "s.dispatchEvent(new Event('change')); })()"
    )
    page.settle()
    seen.add(page.run(picture))
    assert "load weights" in page.text("#time-legend")
    page.click(page.spot("#time-critical"))
    seen.add(page.run(picture))
    assert len(seen) == 3


def test_reasons_are_listed(page: Browser) -> None:
    assert "short of 4,096 bytes" in page.text("#reasons-view")
    assert "123,456 cycles" in page.text("#reasons-view")


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


def key(page: Browser, name: str) -> None:
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)
    page.settle()


def type_text(page: Browser, text: str) -> None:
    page.call("Input.insertText", text=text)
    page.settle()


def test_a_node_is_found_by_the_keyboard_alone(page: Browser, planned: Planned) -> None:
    page.run("document.getElementById('find').focus()")
    type_text(page, "conv3")
    listed = page.run("[...document.querySelectorAll('#find-list li')].map((e) => e.innerText)")
    assert any(text.startswith("conv3") and "Conv, g1" in text for text in listed)
    assert any("tensor" in text for text in listed) and any("weights" in text for text in listed)
    key(page, "ArrowDown")
    assert page.run("document.getElementById('find').getAttribute('aria-activedescendant')")
    key(page, "Enter")
    assert page.run("state.group") == 1
    assert page.run("[...document.querySelectorAll('.box.found')].length") == 1
    assert "conv3" in page.run("document.querySelector('.box.found').textContent")
    assert page.text("#found").startswith("conv3: Conv of g1")
    assert page.run("document.getElementById('find-list').hidden")
    page.click(page.spot("#unselect"))
    assert page.run("document.querySelectorAll('.found').length") == 0


def test_a_tensor_is_found_with_its_readers(page: Browser, planned: Planned) -> None:
    tensor = planned.graph.nodes[1].outputs[0]
    page.run("document.getElementById('find').focus()")
    type_text(page, tensor)
    listed = page.run("[...document.querySelectorAll('#find-list li')].map((e) => e.innerText)")
    at = next(n for n, told in enumerate(listed) if "tensor" in told)
    page.run(f"document.getElementById('find-{at}').dispatchEvent(new PointerEvent('pointerdown', "
             "{bubbles: true, cancelable: true}))")  # fmt: skip
    told = page.text("#found")
    assert told.startswith(f"{tensor}: tensor") and "kB" in told
    assert "To conv3 (g1): goes through the main memory" in told
    assert page.run("document.querySelectorAll('.edge.found').length") == 1
    page.run("(() => { const b = document.getElementById('find'); b.value = 'no such'; "
             "b.dispatchEvent(new Event('input')); })()")  # fmt: skip
    assert "nothing is called" in page.text("#found")


def test_words_are_explained_where_they_stand(page: Browser) -> None:
    page.hover(page.spot("#groups-table button[data-term='adds cycles']"))
    assert "add up to the latency" in page.text("#tip")
    page.hover((5, 5))
    assert page.run("document.getElementById('tip').hidden")
    page.run("document.querySelector('#story button.term[data-term=traffic]').focus()")
    page.settle()
    assert "bytes that have to move" in page.text("#tip")
    key(page, "Escape")
    assert page.run("document.getElementById('tip').hidden")
    listed = page.text("#words-list")
    assert "suffix" in listed and "resident" in listed and "halo" in listed
    told = page.run("[...document.querySelectorAll('[data-term]')].map((e) => e.dataset.term)")
    assert set(told) <= set(page.run("Object.keys(data.terms)")) and len(set(told)) > 12


def test_names_get_longer_as_the_graph_is_zoomed(browser: Browser, long_names: Path) -> None:
    browser.open(long_names)
    name = "Conv_/model.22/detection_head.2/branch.0/conv"
    shown = "[...document.querySelectorAll('#graph-view .sub')].map((e) => e.textContent)"
    assert name not in browser.run(shown) and any("…" in each for each in browser.run(shown))
    number = browser.run(f"data.graph.name.indexOf({name!r})")
    browser.run(f"drawing.lookAt([{number}])")
    for _ in range(3):
        browser.click(browser.spot("#graph-in"))
    assert name in browser.run(shown)
    fits = browser.run(
        "[...document.querySelectorAll('.box')].every((b) =>"
        " b.querySelector('.sub').getBBox().width <= b.querySelector('rect').getBBox().width)"
    )
    assert fits, "no name is wider than its box"
    browser.call("Emulation.setDeviceMetricsOverride", width=420, height=800, deviceScaleFactor=1,
                 mobile=False)  # fmt: skip
    browser.settle()
    assert browser.run("document.documentElement.scrollWidth") <= 420
    browser.call("Emulation.clearDeviceMetricsOverride")


def test_the_memory_map_opens_with_the_fullest_memory(browser: Browser, many_engines: Path) -> None:
    browser.open(many_engines)
    chosen = "machine.memories[Number(document.getElementById('memory-which').value)]"
    filled = "machine.memories.filter((m) => !m.main).map((m) => m.peak / m.usable)"
    assert browser.run(f"{chosen}.name") != "l2"
    assert browser.run(f"{chosen}.peak / {chosen}.usable") == max(browser.run(filled))


def test_many_engines_are_summed_up(browser: Browser, many_engines: Path) -> None:
    browser.open(many_engines)
    engines = browser.run("machine.engines.length")
    assert engines >= 16
    panel = "[...document.querySelectorAll('#story .panel')]"
    rows = browser.run(f"{panel}.map((p) => p.querySelectorAll(':scope > .bars .rod').length)")
    assert max(rows) <= 9, "one row for engines that are alike"
    told = browser.text("#story")
    assert "8 \N{MULTIPLICATION SIGN} core*.array" in told and f"Each of the {engines}" in told
    room = browser.run(
        f"{panel}.map((p) => p.clientHeight"
        " - [...p.children].reduce((sum, e) => sum + e.offsetHeight, 0))"
    )
    assert max(room) < 150, "no card is mostly empty"
    browser.run("document.getElementById('every-engine').open = true")
    assert browser.run("document.querySelectorAll('#every-engine .rod').length") == engines


def test_rows_are_chosen_with_the_keyboard(page: Browser) -> None:
    page.run("document.querySelector('#groups-table tr.row').focus()")
    stops = "document.querySelectorAll('#groups-table tr.row[tabindex=\"0\"]').length"
    assert page.run(stops) == 1
    key(page, "ArrowDown")
    assert page.run("document.activeElement.dataset.group") == "1"
    assert page.run(stops) == 1
    key(page, "Enter")
    assert page.run("state.group") == 1
    assert (
        page.run("document.querySelector('#groups-table tr[aria-selected=true]').dataset.group")
        == "1"
    )


def test_the_page_is_accessible(page: Browser) -> None:
    """In light and dark, with nothing and with a group chosen."""
    assert faults_light_and_dark(page) == {}
    page.run("select(0, 1)")
    assert faults_light_and_dark(page) == {}
    page.run("select(null)")
    media = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.call("Emulation.setEmulatedMedia", features=media)
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(18, 24, 31)"
    page.call("Emulation.setEmulatedMedia", features=[])


def test_the_tab_key_goes_through_the_page_in_order(page: Browser) -> None:
    found = stops(page)
    places = [stop["order"] for stop in found]
    assert places == sorted(places) and len(set(places)) == len(places)
    assert [stop for stop in found if not stop["seen"]] == []
    ids = {stop["id"] for stop in found}
    assert {
        "find",
        "graph-view",
        "time-canvas",
        "memory-canvas",
        "layers-csv",
        "tiles-group",
    } <= ids
    assert sum(stop["tag"] == "TR" for stop in found) <= 4, "one stop for a table"


def test_the_checker_sees_what_is_wrong(page: Browser) -> None:
    page.run(
        "document.querySelector('main').insertAdjacentHTML('beforeend', '<button type=button>"
        '</button><p style="color:#ccc;background:#fff">pale</p><h4>deep</h4><i id=head></i>\')'
    )
    told = "; ".join(faults(page))
    for fault in (
        "a button has no name",
        "'pale' (p.) has a contrast",
        "skips a level",
        "two elements",
    ):
        assert fault in told


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
    for chart in ("traffic-view", "roofline-view"):
        shrunk = f"document.querySelector('#{chart} svg').getScreenCTM().a"
        assert page.run(shrunk) > 0.9, "its letters can be read"
    page.call("Emulation.clearDeviceMetricsOverride")
