"""The page of a partition in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from access import faults_light_and_dark
from devtools import Browser

from tilewright import api
from tilewright.report.partition.page import write_partition

pytestmark = pytest.mark.browser


@pytest.fixture(scope="session")
def partition_page(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ResNet-18 on a GPU."""
    folder = tmp_path_factory.mktemp("partition")
    result = api.partition("resnet18", on="h100-sxm")
    write_partition(result.partition, result.mapped, folder)
    return folder / "partition.html"


@pytest.fixture
def kernels(browser: Browser, partition_page: Path) -> Iterator[Browser]:
    """The page, freshly opened; a test must leave no error behind."""
    with browser.fresh(partition_page) as opened:
        yield opened


def test_opens_by_itself(kernels: Browser, partition_page: Path) -> None:
    fetched = [url for url in kernels.requests if not url.startswith("data:")]
    assert fetched == [partition_page.absolute().as_uri()]
    assert kernels.run("document.documentElement.scrollWidth <= innerWidth")


def test_headline_and_before_and_after(kernels: Browser) -> None:
    head = kernels.text("#head")
    assert "resnet18 on h100-sxm" in head and "69 \N{RIGHTWARDS ARROW} 32" in head
    assert "32.8 %" in head and "116.92 MB op by op" in head
    assert "68 \N{RIGHTWARDS ARROW} 31" in head
    story = kernels.text("#story")
    assert "written before" in story and "launch" in story


def test_every_kernel_is_drawn(kernels: Browser) -> None:
    assert kernels.run("document.querySelectorAll('#graph-view .box').length") == 69 + 2
    colours = kernels.run(
        "new Set([...document.querySelectorAll('#graph-view .box')]"
        ".map((b) => b.dataset.group)).size"
    )
    assert colours == 32 + 1
    dots = kernels.run("document.querySelectorAll('#roof-view .dot').length")
    assert dots == 29, "every kernel that computes: all but two pools and a view"
    roofs = kernels.run(
        "[...document.querySelectorAll('#roof-view .roof')].map((r) => r.dataset.roof)"
    )
    assert roofs == ["hbm", "l2", "shared"], "a roof for each memory"
    assert kernels.run("document.querySelectorAll('#kernels-view tbody tr').length") == 32
    assert kernels.run("document.querySelectorAll('#singles-view tbody tr').length") == 4


def test_dots_lie_below_their_roof(kernels: Browser) -> None:
    above = kernels.run(
        "kernels.filter((k) => k.flops_total > 0 && k.flops_total / k.mapping.seconds > 1.001 *"
        " k.flops_total / k.mapping.external_bytes *"
        " figures.mapping.roofs.bytes_per_second.hbm).length"
    )
    assert above == 0


def test_selecting_a_kernel_marks_it_everywhere(kernels: Browser) -> None:
    kernels.click(kernels.spot("#kernels-view tbody tr td"))
    assert kernels.run("state.group") == 0
    assert kernels.text("#chosen").startswith("Conv+BN+ReLU: conv1")
    assert kernels.run("document.querySelectorAll('#graph-view .box.chosen').length") == 3
    assert kernels.run("document.querySelectorAll('#roof-view .dot.chosen').length") == 1
    kernels.click(kernels.spot("#unselect"))
    assert kernels.run("state.group") is None


def test_columns_sort(kernels: Browser) -> None:
    column = kernels.run(
        "[...document.querySelectorAll('#kernels-view th')]"
        ".findIndex((t) => t.innerText === 'external')"
    )
    kernels.run(f"document.querySelector('#kernels-view [data-column=\"{column}\"]').click()")
    order = kernels.run(
        "[...document.querySelectorAll('#kernels-view tbody tr')].map((r) =>"
        " kernels[Number(r.dataset.group)].bytes_external)"
    )
    assert order == sorted(order, reverse=True)


def test_the_page_is_accessible(kernels: Browser) -> None:
    assert faults_light_and_dark(kernels) == {}
