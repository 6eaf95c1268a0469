"""The data of report.html: nothing is lost, and every sum is the account's."""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from support.programs import OWN
from tilewright import api
from tilewright.frontend.normalize import normalize
from tilewright.frontend.save import save_onnx
from tilewright.frontend.weights import seeded
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.planning import Planned
from tilewright.report.html.data import report_data
from tilewright.report.html.page import page_text, write_report
from tilewright.search.effort import Effort
from tilewright.search.explanation.explain import explain

FUSED = """
model: residual
machine: npu-2.7
dtype: fp16
groups:
- nodes: [conv1, relu1, conv2, relu2, conv3]
  splits: [{axis: 2, parts: 4, halo: recompute}]
  core_split: 0
- nodes: [difference, relu3]
- nodes: [pool]
"""


@cache
def planned(name: str, plan: str = "") -> tuple[Planned, Graph]:
    """A network of the tests, planned layer by layer or as written; and its graph."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        save_onnx(seeded(OWN[name]()), path)
        written = Path(folder) / "plan.yaml"
        written.write_text(plan)
        model = api.load(str(path))
        found = api.plan(
            model,
            load_machine("npu-2.7"),
            layer_by_layer=not plan,
            plan=written if plan else None,
            verify=False,
        ).planned
    return found, normalize(model.graph)


CASES = (("residual", ""), ("residual", FUSED), ("transformer_block", ""))


@pytest.fixture(params=CASES, ids=("residual", "fused", "transformer"))
def case(request: pytest.FixtureRequest) -> tuple[Planned, Graph]:
    return planned(*request.param)


@pytest.fixture
def data(case: tuple[Planned, Graph]) -> dict[str, Any]:
    """As a browser reads it."""
    return json.loads(json.dumps(report_data(case[0]), allow_nan=False))


def test_traffic_of_groups_is_the_accounts(case: tuple[Planned, Graph], data: Any) -> None:
    account = case[0].account
    reads = sum(g["read_weights"] + g["read_activations"] for g in data["groups"])
    assert reads == account.dram_read_bytes
    assert sum(g["written"] for g in data["groups"]) == account.dram_write_bytes
    assert sum(g["read_weights"] for g in data["groups"]) > 0


def test_cycles_that_groups_add_are_the_latency(case: tuple[Planned, Graph], data: Any) -> None:
    assert sum(g["adds"] for g in data["groups"]) == case[0].account.latency_cycles


def test_every_task_and_buffer_is_there(case: tuple[Planned, Graph], data: Any) -> None:
    placed = case[0].placed
    tasks, strings = data["tasks"], data["strings"]
    assert {len(column) for column in tasks.values()} == {len(placed.program.tasks)}
    for number, task in enumerate(placed.program.tasks):
        assert strings[tasks["name"][number]] + strings[tasks["label"][number]] == task.name
        assert data["machine"]["engines"][tasks["engine"][number]]["name"] == task.engine
        assert strings[tasks["node"][number]] == task.node
        assert (tasks["group"][number], tasks["tile"][number]) == (task.group, task.tile)
        assert tasks["start"][number] == placed.schedule.start[number]
        assert tasks["end"][number] == placed.schedule.end[number]
        for views, ids in ((task.reads, tasks["reads"]), (task.writes, tasks["writes"])):
            assert len(views) == len(ids[number])
            for view, i in zip(views, ids[number], strict=True):
                assert data["views"]["buffer"][i] == view.buffer
                assert data["views"]["offset"][i] == view.offset
                layout = data["layouts"][data["views"]["layout"][i]]
                assert layout == [list(view.shape), list(view.strides), view.item]
    buffers = data["buffers"]
    assert {len(column) for column in buffers.values()} == {len(placed.program.buffers)}
    assert buffers["address"] == list(placed.address)
    for memory, row in zip(case[0].machine.memories, data["machine"]["memories"], strict=True):
        assert (row["name"], row["usable"]) == (memory.name, memory.usable)
    assert sum(group["tasks"] for group in data["groups"]) == len(placed.program.tasks)


def test_buffers_that_share_addresses_do_not_share_time(data: Any) -> None:
    """The rectangles of the memory map do not overlap: what is drawn is what was validated."""
    b = data["buffers"]
    used = [i for i in range(len(b["size"])) if b["end"][i] > b["start"][i]]
    for i in used:
        for j in used:
            if i < j and b["memory"][i] == b["memory"][j]:
                apart = (
                    b["address"][i] + b["size"][i] <= b["address"][j]
                    or b["address"][j] + b["size"][j] <= b["address"][i]
                    or b["end"][i] <= b["start"][j]
                    or b["end"][j] <= b["start"][i]
                )
                assert apart


def test_every_node_is_drawn_in_its_group(case: tuple[Planned, Graph], data: Any) -> None:
    graph = data["graph"]
    home = {name: i for i, group in enumerate(case[0].plan.groups) for name in group.nodes}
    drawn = {
        name: group for name, group in zip(graph["name"], graph["group"], strict=True) if group >= 0
    }
    assert drawn == home
    places = list(zip(graph["x"], graph["y"], strict=True))
    wide, tall = graph["box"]
    for i, (x, y) in enumerate(places):
        assert wide / 2 <= x <= graph["width"] - wide / 2 and 0 < y < graph["height"]
        assert all(abs(x - u) >= wide or abs(y - v) >= tall for u, v in places[:i])


def test_groups_name_the_kinds_of_their_nodes(case: tuple[Planned, Graph], data: Any) -> None:
    """That of a node too whose result the network gives under the node's name."""
    graph = case[0].graph
    for row in data["groups"]:
        assert row["kinds"] == [graph.nodes[graph.index[name]].kind for name in row["nodes"]]


@pytest.mark.parametrize("name", ["residual", "transformer_block"])
def test_edges_are_the_graphs(name: str) -> None:
    found, _ = planned(name)
    graph = found.graph
    drawing = report_data(found)["graph"]
    edges = {(drawing["name"][e["from"]], drawing["name"][e["to"]]) for e in drawing["edges"]}
    wanted = {
        (graph.nodes[graph.producer[value]].name, node.name)
        for node in graph.nodes
        for value in node.reads
        if value in graph.producer
    }
    assert wanted <= edges
    readers = sum(len(graph.consumers[name]) for name in graph.inputs)
    assert len(edges - wanted) == readers + len(graph.outputs)


def test_resident_tensors_are_marked() -> None:
    found, graph = planned("residual")
    kept = next(iter(graph.nodes[1].writes))
    told = replace(found, plan=replace(found.plan, resident=(kept,)))
    edges = report_data(told)["graph"]["edges"]
    assert {edge["tensor"] for edge in edges if edge["resident"]} == {kept}


def test_tensors_in_a_memory_that_cores_share_are_told_and_are_no_peak_of_a_scratchpad() -> None:
    machine = load_machine("eight-core-l2")
    model = api.load(seeded(OWN["residual"]()))
    plain = api.plan(model, machine, layer_by_layer=True, verify=False).planned
    first = plain.plan.groups[0].nodes[-1]
    shared = replace(plain.plan, shared=(("l2", (first,)),))
    found = api.plan(model, machine, plan=shared, verify=False).planned
    data = report_data(found)
    ways = {(e["tensor"], e["way"], e["memory"]) for e in data["graph"]["edges"]}
    assert (first, "shared", "l2") in ways and (first, "main", "") not in ways
    assert {memory for _, way, memory in ways if way != "shared"} == {""}
    before = report_data(plain)
    peaks = [[row["peak"] for row in told["groups"]] for told in (before, data)]
    assert peaks[1] == peaks[0], "the L2 is no scratchpad"


def test_every_reader_of_a_kept_tensor_is_told_apart() -> None:
    """A skip that one reader loads again is not drawn as kept for it."""
    found, graph = planned("residual")
    name, readers = next((n, r) for n, r in graph.consumers.items() if len(r) > 1)
    first, again = (graph.nodes[index].name for index in readers[:2])
    plan = replace(found.plan, resident=(name,), reloaded=((name, (again,)),))
    drawing = report_data(replace(found, plan=plan))["graph"]
    ways = {drawing["name"][e["to"]]: e["way"] for e in drawing["edges"] if e["tensor"] == name}
    assert ways[first] == "kept" and ways[again] == "reloaded"
    others = {e["way"] for e in drawing["edges"] if e["tensor"] != name}
    assert others <= {"inside", "main"}


def test_halo_is_what_tiles_compute_twice() -> None:
    found, _ = planned("residual", FUSED)
    rows = report_data(found)["groups"]
    # 24 rows in 4 tiles: conv1 computes 24 + 2*6, conv2 24 + 6, conv3 24, by their MACs.
    first, others = 16 * 8, 16 * 16
    done = first * (24 + 12) + others * (24 + 6) + others * 24
    needed = 24 * (first + 2 * others)
    assert rows[0]["halo"] == pytest.approx(done / needed - 1, abs=1e-6)
    assert [row["halo"] for row in rows[1:]] == [0.0, 0.0]
    assert rows[0]["splits"] == [["H", 4, ""]] and rows[0]["tiles"] == 4


def test_peak_of_a_group_fits_its_scratchpad(case: tuple[Planned, Graph], data: Any) -> None:
    largest = max(m.usable for core in case[0].machine.cores for m in core.memories)
    for group, row in zip(case[0].plan.groups, data["groups"], strict=True):
        assert row["peak"] <= largest
        assert (row["peak"] > 0) == (group.place.value == "cores")


def test_story_is_told() -> None:
    model = api.load(seeded(OWN["residual"]()))
    found = api.plan(model, load_machine("npu-2.7"), effort=Effort.LOW, verify=False).planned
    assert found.found is not None
    given = found.graph, found.machine, found.plan, found.placed
    why = explain(*given)
    data = report_data(found, why)
    layers = next(rival for rival in found.found.rivals if rival.name == "layer by layer")
    assert data["head"]["baseline"]["latency_cycles"] == layers.cycles
    assert [layers.name, layers.cycles, layers.dram_bytes] in data["story"]["rivals"]
    assert max(cycles for _, cycles in data["story"]["bounds"]) == found.bounds.cycles
    assert [r["text"] for r in data["story"]["reasons"]] == [b.text for b in why.boundaries]
    told = [(row["binding"], row["note"]) for row in data["groups"]]
    assert told == [(facts.binding, facts.grid) for facts in why.groups]


def test_without_a_search_there_is_nothing_to_compare_with() -> None:
    data = report_data(planned("residual")[0])
    assert data["head"]["baseline"] is None and data["story"]["reasons"] == []
    assert [name for name, *_ in data["story"]["rivals"]] == ["this plan"]


def test_page_is_one_file_and_its_data_cannot_break_out(tmp_path: Path) -> None:
    found, _ = planned("residual")
    path = tmp_path / "report.html"
    write_report(found, path)
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)\s*=\s*[\"'](?!data:|#)", text)
    assert "http://" not in text and "https://" not in text
    data = report_data(found)
    data["strings"].append("</script><script>alert(1)</script>")
    hostile = page_text(data)
    embedded = hostile.split('id="data">')[1].split("</script>")[0]
    assert json.loads(embedded)["strings"][-1] == data["strings"][-1]


def test_same_run_same_bytes(tmp_path: Path) -> None:
    found, _ = planned("transformer_block")
    for name in ("one.html", "two.html"):
        write_report(found, tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
