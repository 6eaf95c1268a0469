"""One browser and one report for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from devtools import Browser, find_chromium

from support.builder import GraphBuilder
from tilewright import api
from tilewright.frontend.normalize import normalize
from tilewright.machine.load import load_machine
from tilewright.planning import Planned
from tilewright.report.html.data import report_data
from tilewright.report.html.page import page_text, write_report

PLAN = """
model: four_convs
machine: npu-2.7
dtype: fp16
groups:
- nodes: [{0}, {1}]
  splits: [{{axis: 2, parts: 8, halo: recompute}}]
  core_split: 0
- nodes: [{2}]
  splits: [{{axis: 2, parts: 4, halo: recompute}}]
  core_split: 0
- nodes: [{3}]
  splits: [{{axis: 2, parts: 4, halo: recompute}}]
  core_split: 0
"""


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser, or the reason why these tests are not run."""
    found = find_chromium()
    if found is None:
        pytest.skip("no Chromium: apt-get install chromium, or name one in $CHROMIUM")
    return found


@pytest.fixture(scope="session")
def planned(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """Four convolutions, the first two fused."""
    model = api.load("four_convs")
    names = [node.name for node in normalize(model.graph).nodes]
    path = tmp_path_factory.mktemp("plan") / "plan.yaml"
    path.write_text(PLAN.format(*names))
    return api.plan(model, load_machine("npu-2.7"), plan=path).planned


@pytest.fixture(scope="session")
def report(planned: Planned, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report, as if a search had found the plan."""
    cycles, account = planned.account.latency_cycles, planned.account
    moved = account.dram_read_bytes + account.dram_write_bytes
    data = report_data(planned)
    other = {"name": "layer by layer", "latency_cycles": 2 * cycles, "dram_bytes": 3 * moved}
    data["head"]["baseline"] = other
    data["story"] |= {
        "rivals": [[*other.values()], ["fused (this plan)", cycles, moved]],
        "bounds": [["matrix engines", cycles // 2], ["traffic", 10]],
        "reasons": [
            {
                "boundary": "conv2",
                "before": "g0",
                "after": "g1",
                "text": "short of 4,096 bytes",
                "kind": "memory",
                "trial_cycles": 123_456,
            }
        ],
    }
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page_text(data), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def many_engines(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of eight cores: two dozen engines and links."""
    found = api.plan("four_convs@32x32", "eight-core-l2", layer_by_layer=True, verify=False)
    path = tmp_path_factory.mktemp("many") / "report.html"
    write_report(found.planned, path)
    return path


@pytest.fixture(scope="session")
def long_names(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report whose nodes are called as exporters call them."""
    net = GraphBuilder()
    value = net.input(1, 8, 16, 16, name="images")
    for number in range(6):
        name = f"/model.22/detection_head.{number}/branch.0/conv"
        value = net.add("Conv", value, net.weight(8, 8, 3, 3), name=name, pads=[1, 1, 1, 1])
    found = api.plan(net.graph(), "mcu", layer_by_layer=True, verify=False)
    path = tmp_path_factory.mktemp("long") / "report.html"
    write_report(found.planned, path)
    return path


@pytest.fixture(scope="session")
def browser(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all."""
    with Browser(chromium, tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture
def page(browser: Browser, report: Path) -> Iterator[Browser]:
    """The report, freshly opened; a test must leave no error behind."""
    with browser.fresh(report) as opened:
        yield opened
