"""The page of a kernel: everything is drawn, nothing is fetched, the timeline moves."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from access import faults_light_and_dark
from devtools import Browser

import tilewright
from tilewright.report.kernel_files import write_kernel

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def kernel_page(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = tilewright.kernel(image="256x32x16", out_channels=256, pool=2, searched=True)
    folder = tmp_path_factory.mktemp("kernel")
    write_kernel(plan, folder)
    return folder / "kernel.html"


@pytest.fixture
def opened(browser: Browser, kernel_page: Path) -> Iterator[Browser]:
    with browser.fresh(kernel_page) as opened:
        yield opened


def test_all_parts_are_drawn(opened: Browser) -> None:
    assert opened.run("document.querySelectorAll('#listing-view tr.loop').length") == 7
    assert opened.run("document.querySelectorAll('#engines-view .rod').length") == 5
    assert opened.run("document.querySelectorAll('#ladder-view rect.modelled').length") == 16
    assert opened.run("document.querySelectorAll('#ladder-view rect.measured').length") == 16
    assert opened.run("document.querySelectorAll('#ledger-view .stack').length") == 9
    assert opened.run("document.querySelectorAll('#search-view tbody tr').length") > 0
    assert "block_rows" in opened.run("document.getElementById('nest-view').textContent")
    assert opened.run("document.querySelectorAll('#parameters-view tbody tr').length") == 5


def test_nothing_is_fetched(opened: Browser, kernel_page: Path) -> None:
    assert [url for url in opened.requests if not url.startswith("data:")] == [kernel_page.as_uri()]


def test_the_timeline_zooms_and_returns(opened: Browser) -> None:
    shown = "document.getElementById('time-range').textContent"
    drawn = "document.querySelectorAll('#time-view rect[data-task]').length"
    whole, many = opened.run(shown), opened.run(drawn)
    assert many > 50
    for _ in range(3):
        opened.run("document.getElementById('time-in').click()")
    assert opened.run(shown) != whole
    assert 0 < opened.run(drawn) < many
    opened.run("document.getElementById('time-reset').click()")
    assert (opened.run(shown), opened.run(drawn)) == (whole, many)


def test_the_page_is_accessible(opened: Browser) -> None:
    assert faults_light_and_dark(opened) == {}
