"""`tilewright plan --mapping`: the example of the project, bad files, and Stream's own files."""

import csv
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import yaml

from conftest import Command
from support.builder import GraphBuilder
from tilewright import api
from tilewright.api import load
from tilewright.frontend import zoo
from tilewright.frontend.save import save_onnx, serialize
from tilewright.frontend.weights import seeded
from tilewright.manycore.bounds import bounds_of
from tilewright.manycore.core_cost import tile_cost
from tilewright.manycore.costs import given_costs
from tilewright.manycore.decide import choices_of
from tilewright.manycore.evaluate import Evaluator, TimedAllocation, Unfit
from tilewright.manycore.fabric import fabric_of
from tilewright.manycore.mapping import read_mapping
from tilewright.manycore.plan import plan_cores
from tilewright.manycore.read_hardware import read_accelerator
from tilewright.manycore.tiles import build_tiles
from tilewright.manycore.workload import LOOPS, LayerShape, workload_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "manycore"
MACHINE, FUSED = EXAMPLE / "three_cores.yaml", EXAMPLE / "fused.yaml"
PEER = Path(__file__).parents[3] / "shared" / "data" / "stream"
LAB = (PEER / "lab/workload/4_convs.onnx", "--on", PEER / "lab/hardware/hda_bus.yaml")
peer = pytest.mark.peer
absent = pytest.mark.skipif(not PEER.is_dir(), reason="Stream's files are not here")


def test_plans_with_a_mapping_are_compared(
    succeeds: Command, refused: Callable[..., str], tmp_path: Path
) -> None:
    """Latency, cores and memories beside each other, and the layers that run elsewhere or are cut
    otherwise; a summary that makes no sense is one line."""
    fused, layers = tmp_path / "fused", tmp_path / "layers"
    for folder, mode in ((fused, "fused"), (layers, "lbl")):
        arguments = ("--on", MACHINE, "--mapping", FUSED, "--mode", mode, "--out", folder)
        succeeds("plan", "four_convs@16x16", *arguments)
    (found,) = succeeds("compare", fused, layers, "--json").json["compared"]
    summaries = [json.loads((each / "summary.json").read_text()) for each in (fused, layers)]
    latency = found["figures"]["latency_cycles"]
    assert [latency["before"], latency["after"]] == [s["latency_cycles"] for s in summaries]
    assert found["setting"] == {"mode": ["fused", "lbl"]}
    moved = {
        name
        for name, cores in summaries[0]["allocation"].items()
        if cores != summaries[1]["allocation"][name]
    }
    told = {
        cause["nodes"][0]: [what for what in cause["what"] if what.startswith("cores: core")]
        for cause in found["causes"]
    }
    assert moved == {name for name, what in told.items() if what}
    page = tmp_path / "page.html"
    shown = succeeds("compare", fused, layers, "--html", page).out
    assert "run beside each other" in shown and "busy cycles of core" in shown and page.is_file()
    assert api.compare(fused, layers).json["compared"] == [found]
    (layers / "summary.json").write_text(json.dumps({**summaries[1], "cut": {}}))
    assert "makes no sense" in refused("compare", fused, layers)


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        ("npu-2.7", "npu-2.7: is a machine that is shipped: it is planned without a mapping"),
        (
            EXAMPLE.parent / "machines" / "2-second-core.yaml",
            "is a machine file of Tilewright: it is planned without a mapping",
        ),
    ],
)
def test_a_mapping_is_for_no_machine_of_tilewright(
    refused: Callable[..., str], machine: object, told: str
) -> None:
    assert told in refused("plan", "four_convs@16x16", "--on", machine, "--mapping", FUSED)


def test_the_example_is_planned_executed_and_written(succeeds: Command, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    told = succeeds(
        "plan", "four_convs", "--on", MACHINE, "--mapping", FUSED, "--out", folder, "--json"
    ).json
    assert told["exact"] and told["allocations"] == 81 and told["tiles"] == 224
    assert told["bound_cycles"] <= told["latency_cycles"]
    assert told["latency_cycles"] == told["latency_with_final_write_cycles"]
    assert told["verified"]["max_rel_error"] < 1e-4
    assert set(told["allocation"]) == {"conv1", "conv2", "conv3", "conv4"}
    for core in told["cores"]:
        assert core["busy_cycles"] + sum(core["idle_cycles"].values()) == told["latency_cycles"]
    written = {path.name for path in folder.iterdir()}
    assert written == {
        "report.html",
        "schedule.html",
        "schedule.json",
        "summary.json",
        "memory.png",
        "cost_lut.png",
    }
    trace = json.loads((folder / "schedule.json").read_text())["traceEvents"]
    carriers = {
        event["tid"]: event["args"]["name"] for event in trace if event["name"] == "thread_name"
    }
    carried: Counter[str] = Counter()
    for event in trace:
        if event["ph"] == "X":
            carried[carriers[event["tid"]]] += (
                event["args"]["end_cycle"] - event["args"]["start_cycle"]
            )
    waits = [wait for core in told["cores"] for wait in core["idle_cycles"].items()]
    assert any(why == "waiting for core1" for why, _ in waits)
    for why, cycles in waits:  # nobody waits for a carrier that carries nothing
        name = why.removeprefix("waiting for ")
        assert not name.startswith("bus") or cycles <= carried[name]
    ends = [event["args"]["end_cycle"] for event in trace if event["ph"] == "X"]
    assert max(ends) == told["latency_cycles"]
    assert json.loads((folder / "summary.json").read_text()) == told


def test_a_name_of_a_model_cannot_change_the_page(succeeds: Command, tmp_path: Path) -> None:
    model, folder = tmp_path / "DATA<b>.onnx", tmp_path / "run"
    model.write_bytes(serialize(seeded(zoo.build("four_convs@16x16"))))
    options = ("--on", MACHINE, "--mapping", FUSED, "--no-verify", "--out", folder)
    succeeds("plan", model, *options)
    page = (folder / "report.html").read_text()
    assert "<title>DATA&lt;b&gt; on three_cores: Tilewright</title>" in page
    begin = page.index('id="data">') + len('id="data">')
    assert json.loads(page[begin : page.index("</script>", begin)])["full"]


def test_first_rows_wait_for_two_three_and_four_rows_above(
    succeeds: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    succeeds("plan", "four_convs", "--on", MACHINE, "--mapping", FUSED, "--out", folder)
    page = (folder / "schedule.html").read_text()
    data = json.loads(page.split('id="data">')[1].split("</script>")[0].replace("<\\/", "</"))
    at = {task[3]: (task[1], task[2]) for task in data["tasks"] if task[3].startswith("conv")}
    start = at["conv4.0"][0]
    for layer, rows in (("conv3", 2), ("conv2", 3), ("conv1", 4)):
        assert all(at[f"{layer}.{row}"][1] <= start for row in range(rows))
    reads = next(task[5] for task in data["tasks"] if task[3] == "conv4.0")
    assert sum(line.startswith("reads") for line in reads) == 3  # two rows and the weights


def test_fusion_beats_layers_divided_among_all_cores(succeeds: Command) -> None:
    arguments = ("plan", "four_convs", "--on", MACHINE, "--no-verify", "--json", "--mapping")
    fused = succeeds(*arguments, FUSED).json["latency_cycles"]
    split = succeeds(*arguments, EXAMPLE / "split.yaml").json["latency_cycles"]
    layers = succeeds(*arguments, FUSED, "--mode", "lbl").json
    assert fused < split and fused < layers["latency_cycles"]
    assert layers["mode"] == "lbl"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The example, to be spoilt."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "files"))


@pytest.mark.parametrize("mode", ["lbl", "fused"])
def test_layers_that_do_not_fit_are_cut_as_finely_as_is_best(
    succeeds: Command, copied: Path, mode: str
) -> None:
    """Without a cut of their own: layer by layer, or fused where the mapping says nothing."""
    mapping = copied / "fused.yaml"
    mapping.write_text("- {name: default, core_allocation: [0, 1, 2]}\n")
    for name in ("channels", "pixels", "small"):
        path = copied / "cores" / f"{name}.yaml"
        text = path.read_text()
        path.write_text(text.replace("size: 1048576", "size: 262144").replace("524288", "262144"))
    told = succeeds(
        "plan",
        "four_convs",
        "--on",
        copied / "three_cores.yaml",
        "--mapping",
        mapping,
        "--mode",
        mode,
        "--no-verify",
        "--json",
    ).json
    found = [other["latency_cycles"] for other in told["alternatives"]]
    assert len(found) == 4 and told["latency_cycles"] == min(found) < found[0]
    assert any("is cut to fit" in note for note in told["notes"])


def test_open_tiles_are_never_worse(succeeds: Command) -> None:
    arguments = ("plan", "four_convs", "--on", MACHINE, "--no-verify", "--json", "--mapping")
    fused = succeeds(*arguments, FUSED).json["latency_cycles"]
    opened = succeeds(*arguments, EXAMPLE / "open.yaml").json
    assert opened["latency_cycles"] <= fused and len(opened["alternatives"]) > 1
    newer = succeeds(*arguments, EXAMPLE / "newer.yaml").json
    assert newer["tiles"] == 4 * 14


def test_show_prints_what_was_understood(succeeds: Command) -> None:
    text = succeeds("show", "machines", MACHINE).out
    assert "core 1: pixels" in text and "bus, to several cores at once" in text
    told = succeeds("show", "machines", MACHINE, "--json").json
    assert [core["name"] for core in told["cores"]] == ["channels", "pixels", "small"]


BAD = [
    ("fused.yaml", "[0, 1, 2]", "[0, 7]", "[0].core_allocation: there is no core 7"),
    ("fused.yaml", "[0, 1, 2]", "[[]]", "[0].core_allocation: names no core"),
    ("fused.yaml", "[0, 1, 2]", "[]", "[0].core_allocation: names no core"),
    ("fused.yaml", "OY, all", "OY, 57", "[0].intra_core_tiling[0]: 57 parts are more than OY"),
    ("fused.yaml", "OY, all", "OY", "is no loop with a count"),
    ("three_cores.yaml", "cores/small.yaml", "cores/none.yaml", "cores.2: there is no file"),
    ("three_cores.yaml", "[0, 1, 2, 3]", "[0, 3]", "core_connectivity: core"),
    ("three_cores.yaml", "bandwidth: 32", "bandwidth: 0", "core_connectivity[1].bandwidth"),
    ("cores/small.yaml", "size: 524288", "size: much", "memories.sram.size"),
    ("cores/small.yaml", "sizes: [8, 4]", "sizes: [8]", "operational_array.sizes"),
    ("cores/small.yaml", "sizes: [8, 4]", "sizes: [8, -4]", "operational_array.sizes"),
    ("cores/small.yaml", "size: 524288", "size: -1", "memories.sram.size"),
    ("cores/small.yaml", "size: 524288", f"size: {10**30}", "memories.sram.size"),
    ("cores/small.yaml", "D1: [", "D1: [[", "small.yaml:6: not YAML"),
    ("three_cores.yaml", "cores: [1, 2]", "cores: [1, \u00b2]", "core_connectivity[1].cores"),
    ("three_cores.yaml", "  0: cores", "  --5: cores", "cores.--5: cores are numbered"),
    ("fused.yaml", "[0, 1, 2]", "three", "[0].core_allocation: has to be a list"),
    ("fused.yaml", "OY, all", "OY, -1", "[0].intra_core_tiling[0]: '-1' is no count"),
]


@pytest.mark.parametrize(("name", "old", "new", "told"), BAD)
def test_bad_files_are_one_line_with_file_line_and_key(
    command: Command, copied: Path, name: str, old: str, new: str, told: str
) -> None:
    path = copied / name
    text = path.read_text()
    assert old in text
    text = text.replace(old, new)
    if told.endswith("core_connectivity: core"):
        text = text.replace("[0, 1, 2]", "[0, 1]").replace("[1, 2]", "[0, 1]")
    path.write_text(text)
    found = command(
        "plan",
        "four_convs",
        "--on",
        copied / "three_cores.yaml",
        "--mapping",
        copied / "fused.yaml",
    )
    assert found.code == 2 and len(found.err.strip().splitlines()) == 1
    assert told in found.err
    (line,) = re.findall(rf"{re.escape(path.name)}:(\d+): ", found.err)
    changed = [n for n, row in enumerate(text.splitlines(), 1) if new.strip() in row]
    key = told.split(":")[0].rpartition(".")[2].partition("[")[0]
    keys = [n for n, row in enumerate(text.splitlines(), 1) if f"{key}:" in row]
    assert int(line) in (*changed, *keys) or f"{path.name}:{line}" in told


def test_an_interrupted_search_keeps_its_best_plan_and_says_so(
    command: Command, copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilewright.manycore.search import AllocationSearch

    counted = AllocationSearch.evaluate
    asked = ("plan", "four_convs@16x16", "--on", copied / "three_cores.yaml", "--mapping")
    run = tmp_path / "run"

    def stops(self: AllocationSearch, *arguments: Any, **options: Any) -> float:
        if len(self.known) >= after:
            raise KeyboardInterrupt
        return counted(self, *arguments, **options)

    monkeypatch.setattr(AllocationSearch, "evaluate", stops)
    after = 1
    found = command(*asked, copied / "fused.yaml", "--out", run, "--no-verify")
    assert found.code == 0 and "interrupted: the best of those looked at" in found.out
    told = json.loads((run / "summary.json").read_text())
    assert told["interrupted"] and not told["exact"] and told["evaluated"] == after
    assert "interrupted: the best of those" in (run / "report.html").read_text()
    after = 0
    nothing = command(*asked, copied / "fused.yaml", "--no-verify")
    assert nothing.code == 130 and nothing.err.strip().endswith("tilewright: interrupted")


def test_missing_files_and_options_that_do_not_go_together(command: Command, copied: Path) -> None:
    missing = command("plan", "four_convs", "--on", MACHINE, "--mapping", copied / "none.yaml")
    assert missing.code == 2 and "none.yaml: there is no such file" in missing.err
    alone = command("plan", "four_convs", "--on", MACHINE)
    assert alone.code == 2 and "give --mapping too" in alone.err
    needs = command("plan", "four_convs", "--on", "mcu", "--no-final-write")
    assert needs.code == 2 and "needs --mapping" in needs.err


@peer
@absent
def test_core_costs_of_the_lab() -> None:
    accelerator = read_accelerator(LAB[2])
    errors: list[float] = []
    with (PEER / "lab/core_costs.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            bits = (int(row[f"{name}_bits"]) for name in ("weight", "input", "output"))
            tile = LayerShape(tuple(int(row[n]) for n in LOOPS), (1, 1), (1, 1), *bits)
            found = tile_cost(accelerator.core(int(row["core"])), tile)
            assert found is not None
            errors.append(abs(found.cycles / float(row["cycles"]) - 1))
            assert 0.5 <= found.cycles / float(row["cycles"]) <= 2
            assert 0.8 <= found.energy / float(row["energy_pj"]) <= 1.2
    assert median(errors) <= 0.1


@peer
@absent
def test_lab3_with_the_costs_of_its_tool(succeeds: Command) -> None:
    told = succeeds(
        "plan",
        *LAB,
        "--mapping",
        PEER / "lab/mapping/lab3.yaml",
        "--core-costs",
        PEER / "lab/core_costs.csv",
        "--no-final-write",
        "--json",
    ).json
    assert told["exact"] and told["allocations"] == 81
    assert told["latency_cycles"] <= 15_500
    assert told["verified"]["max_rel_error"] < 1e-4


def _lab3(*, final_write: bool) -> Evaluator:
    workload = workload_of(load(str(LAB[0])).graph)
    fabric = fabric_of(read_accelerator(LAB[2]))
    mapping = read_mapping(PEER / "lab/mapping/lab3.yaml", fabric.accelerator.ids)
    (choice,) = choices_of(mapping, workload, fabric, fused=True, open_tiles=False)
    tiles = build_tiles(workload, choice.cuts)
    costs = given_costs(tiles, fabric, PEER / "lab/core_costs.csv")
    return Evaluator(tiles, fabric, costs, write_final=final_write)


@peer
@absent
def test_all_allocations_of_lab3_fit_and_write_each_row_once() -> None:
    evaluator = _lab3(final_write=True)
    for core_of in product(range(3), repeat=4):
        timed = evaluator.timed(core_of)
        assert isinstance(timed, TimedAllocation) and timed.spills == 0
        outside = [evaluator.ways[way].target == 0 for way in timed.way.tolist() if way >= 0]
        assert sum(outside) == 56  # the last layer's rows, each once
        pieces = timed.item[timed.kind == 1].tolist()
        buses = 1 + len(set(core_of))  # at most once to every core, and out
        assert max(pieces.count(piece) for piece in set(pieces)) <= buses


@peer
@absent
def test_every_allocation_of_lab3_is_near_what_its_tool_can_do() -> None:
    evaluator = _lab3(final_write=False)
    bounds = bounds_of(evaluator, ((0, 1, 2),) * 4)
    for core_of in product(range(3), repeat=4):
        timed = [evaluator.timed(core_of, rule=rule) for rule in evaluator.rules]
        latency = min(found.latency for found in timed if isinstance(found, TimedAllocation))
        # That tool sends all rows between cores over one bus, 12,544 cycles a tensor, and its
        # best allocation takes 21,365 cycles.
        crossings = sum(a != b for a, b in pairwise(core_of))
        floor = max(bounds.of_loads(core_of), 12_544 * crossings, 21_365)
        assert latency <= 1.05 * floor


@peer
@absent
def test_labs_and_resnet_run_unchanged(succeeds: Command) -> None:
    def planned(*arguments: object) -> dict[str, object]:
        return succeeds("plan", *arguments, "--json", "--no-verify").json

    mappings = PEER / "lab/mapping"
    fused = planned(*LAB, "--mapping", mappings / "lab3.yaml")["latency_cycles"]
    split = planned(*LAB, "--mapping", mappings / "lab2.yaml")["latency_cycles"]
    assert isinstance(fused, int) and isinstance(split, int)
    assert split / fused > 1.15e5 / 2.98e4
    layers = planned(*LAB, "--mapping", mappings / "lab1.yaml", "--mode", "lbl")["latency_cycles"]
    assert isinstance(layers, int) and layers <= 79_340  # what its tool takes
    resnet = PEER / "resnet18"
    told = planned(
        resnet / "workload/resnet18.onnx",
        "--on",
        resnet / "hardware/tpu_like_quad_core.yaml",
        "--mapping",
        resnet / "mapping/tpu_like_quad_core.yaml",
    )
    assert isinstance(told["latency_cycles"], int) and told["latency_cycles"] <= 6_440_000


def test_wrong_numbers_are_written_and_marked(
    command: Command, wrong_numbers: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    base = ("plan", "four_convs@16x16", "--on", MACHINE, "--mapping", FUSED)
    outcome = command(*base, "--out", folder)
    assert outcome.code == 3
    assert "UNVERIFIED: output 'conv4' differs" in outcome.err and "[0, 3, 5, 7]" in outcome.err
    told = json.loads((folder / "summary.json").read_text())
    assert told["verified"] is None and told["failure"]["tensor"] == "conv4"
    for name in ("report.html", "schedule.html"):
        assert "UNVERIFIED" in (folder / name).read_text(), name


def test_idle_time_without_the_final_write_ends_with_the_last_tile(
    succeeds: Command, tmp_path: Path
) -> None:
    told = succeeds(
        "plan",
        "four_convs",
        "--on",
        MACHINE,
        "--mapping",
        FUSED,
        "--no-final-write",
        "--no-verify",
        "--csv",
        tmp_path / "layers.csv",
        "--json",
    ).json
    assert told["latency_cycles"] < told["latency_with_final_write_cycles"]
    for core in told["cores"]:
        assert core["busy_cycles"] + sum(core["idle_cycles"].values()) == told["latency_cycles"]
    with (tmp_path / "layers.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert sum(int(row["tiles"]) for row in rows) == told["tiles"]
    assert max(int(row["end"]) for row in rows) == told["latency_cycles"]
    busy = sum(core["busy_cycles"] for core in told["cores"])
    assert sum(int(row["cycles"]) for row in rows) == busy


def test_tiles_that_nearly_fill_the_memories_are_cut_further(
    succeeds: Command, tmp_path: Path
) -> None:
    """Four parts of this network's layers fit by their bytes, but not in one piece each beside what
    is kept for the way up."""
    mapping = tmp_path / "four.yaml"
    entry = {"name": "default", "core_allocation": [0, 1, 2], "intra_core_tiling": ["OY, 4"]}
    mapping.write_text(yaml.safe_dump([entry]))
    told = succeeds(
        "plan",
        "unet@64x64",
        "--on",
        MACHINE,
        "--mapping",
        mapping,
        "--fast",
        "--no-verify",
        "--json",
    ).json
    assert told["bound_cycles"] <= told["latency_cycles"]
    for memory in told["memories"]:
        assert memory["peak_bytes"] <= memory["size_bytes"]


def test_a_memory_outside_that_is_too_small_is_told_with_its_file(refused, tmp_path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "files")
    outside = tmp_path / "files" / "cores" / "outside.yaml"
    text = outside.read_text()
    (size,) = re.findall(r"size: *(\d+)", text)[:1]
    outside.write_text(text.replace(size, "64", 1))
    files = (tmp_path / "files" / name for name in ("three_cores.yaml", "fused.yaml"))
    hardware, mapping = files
    told = refused("plan", "four_convs@12x12", "--on", hardware, "--mapping", mapping, "--fast")
    assert str(hardware) in told and "bytes in 8 of dram" in told


def test_an_entry_for_all_layers_cuts_short_ones_as_far_as_they_go(
    succeeds: Command, refused: Callable[..., str], tmp_path: Path
) -> None:
    mapping = tmp_path / "seven.yaml"
    entry = {"name": "default", "core_allocation": [0, 1, 2], "intra_core_tiling": ["OY, 7"]}
    mapping.write_text(yaml.safe_dump([entry]))
    folder = tmp_path / "run"
    asked = ("plan", "mobilenet_v2@64x64", "--on", MACHINE, "--mapping", mapping, "--fast")
    told = succeeds(*asked, "--no-verify", "--out", folder, "--json").json
    assert any("has 2 positions along OY" in note for note in told["notes"])
    assert "planned with a mapping" in refused("verify", folder)
    ours = tmp_path / "ours.yaml"
    ours.write_text("name: ours\ncores: {core: {count: 2}}\n")
    assert "machine files of Tilewright" in refused(
        "plan", "four_convs@16x16", "--on", ours, "--mapping", FUSED
    )


@pytest.mark.parametrize(
    ("mapping", "words"),
    {
        "fused.yaml": "fused.yaml:5: [0].intra_core_tiling[0]: layer 'Conv_v2' is cut into "
        "2,000,007 tiles: more than 131,072 of all layers are not planned",
        "open.yaml": "no allocation can run: tile Conv_v2.0 works on 64,000,524 bytes",
    }.items(),
)
def test_a_layer_with_millions_of_rows_of_padding_ends_soon(
    refused: Callable[..., str], tmp_path: Path, mapping: str, words: str
) -> None:
    b = GraphBuilder()
    pads = [2_000_000, 1, 1, 1]
    b.add("Conv", b.input(1, 3, 8, 8), b.weight(4, 3, 3, 3), kernel_shape=[3, 3], pads=pads)
    path = tmp_path / "padded.onnx"
    save_onnx(b.graph(), path)
    on = ("--on", MACHINE, "--mapping", EXAMPLE / mapping)
    assert words in refused("plan", path, *on, "--no-verify")


def test_a_tile_without_room_on_its_cores_is_known_before_the_search() -> None:
    plan = plan_cores("", zoo.build("four_convs@12x12"), MACHINE, FUSED, fast=True)
    allowed, found = plan.choice.parts, plan.evaluator
    assert found.too_large(allowed) is None
    told = 0
    for share in (0.5, 0.1, 0.05, 0.01, 0.001):
        tight = found.varied(share=share)
        known = tight.too_large(allowed)
        if known is not None:
            told += 1
            assert all(isinstance(tight.timed(cores), Unfit) for cores in product(*allowed))
    assert told
