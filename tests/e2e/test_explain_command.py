"""`tilewright explain`, patterns and ablations, from files to files."""

import json
import re
from pathlib import Path
from shutil import copytree

import pytest

import tilewright
from support.networks import attention
from tilewright import api
from tilewright.frontend.save import save_onnx
from tilewright.frontend.weights import seeded
from tilewright.machine.load import load_machine
from tilewright.runs.folder import write_run

SMALL = "extends: mcu\ncores: {core: {memories: {sram: {capacity: 8KiB, usable: 8KiB}}}}\n"


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a small network on an MCU core with little memory."""
    folder = tmp_path_factory.mktemp("explained") / "run"
    machine = load_machine("mcu").with_memory(8 * 1024)
    write_run(api.plan(api.load("four_convs@32x32"), machine, layer_by_layer=True).planned, folder)
    return folder


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Attention as a file."""
    path = tmp_path_factory.mktemp("network") / "attention.onnx"
    save_onnx(seeded(attention()), path)
    return path


def test_every_boundary_has_a_reason_and_trials(succeeds, planned: Path) -> None:
    found = succeeds("explain", planned, "--json").json
    summary = json.loads((planned / "summary.json").read_text())
    assert [[t["name"] for t in row["tensors"]] for row in found["boundaries"]] == [
        ["conv1"],
        ["conv2"],
        ["conv3"],
    ]
    assert len(found["groups"]) == summary["groups"]
    assert sum(g["dram_read_bytes"] for g in found["groups"]) == summary["dram_read_bytes"]
    assert sum(g["dram_write_bytes"] for g in found["groups"]) == summary["dram_write_bytes"]
    for row in found["boundaries"]:
        together, kept = sorted(row["trials"], key=lambda trial: trial["how"], reverse=True)
        assert (together["how"], kept["how"]) == ("tiled together", "kept in the scratchpads")
        assert kept["short_by_bytes"] == kept["needed_bytes"] - kept["usable_bytes"] > 0
        assert (kept["memory"], kept["usable_bytes"]) == ("core.sram", 8192)
        assert together["latency_cycles"] > 0
        assert row["saved_dma_cycles"] == 2 * row["bytes"] / found["dram_bytes_per_cycle"]
    assert found["boundaries_left_out"] == 0


def test_a_person_reads_tables(succeeds, planned: Path) -> None:
    text = succeeds("explain", planned).out
    for word in ("saved DMA = 2 x", "extra compute", "core.sram", "bound by", "halo", "conv1"):
        assert word in text


def test_the_run_alone_is_enough(succeeds, planned: Path, tmp_path: Path) -> None:
    assert (planned / "run" / "network.json").is_file()
    assert "tasks executed" in succeeds("verify", planned).out


def test_folders_that_are_no_runs_or_changed(refused, planned: Path, tmp_path: Path) -> None:
    assert "is no run" in refused("explain", tmp_path)
    changed = copytree(planned, tmp_path / "changed")
    with (changed / "summary.json").open("a") as file:
        file.write("\n")
    assert "not as it was written" in refused("explain", changed)


def test_boundaries_that_are_better_joined_are_joined(
    succeeds, planned: Path, tmp_path: Path
) -> None:
    better = tmp_path / "better.yaml"
    outcome = succeeds("explain", planned, "--apply", better)
    assert "joined (" in outcome.err and "better.yaml" in outcome.err
    machine = tmp_path / "mcu.yaml"
    machine.write_text(SMALL)
    before = json.loads((planned / "summary.json").read_text())["latency_cycles"]
    replayed = ("plan", "four_convs@32x32", "--on", machine, "--plan", better)
    after = succeeds(*replayed, "--json").json
    assert after["verified"] is not None
    assert after["latency_cycles"] < before
    told = [int(n.replace(",", "")) for n in re.findall(r"([0-9,]+) cycles", outcome.err)]
    assert told[-1] == after["latency_cycles"]


def test_the_report_has_reasons_and_notes(tmp_path: Path, succeeds, network: Path) -> None:
    folder = tmp_path / "run"
    arguments = ("--on", "mcu", "--out", folder, "--explain", "--no-verify")
    succeeds("plan", network, *arguments)
    page = (folder / "report.html").read_text()
    assert '"binding":"core.' in page or '"binding":"dma' in page
    machine = tmp_path / "small.yaml"
    machine.write_text(SMALL)
    succeeds("plan", "four_convs@32x32", "--on", machine, "--out", folder, "--no-verify", "--force")
    found = succeeds("explain", folder, "--json").json
    page = (folder / "report.html").read_text()
    assert page.count('"trial_cycles"') == len(found["boundaries"])


def test_patterns_from_a_file_are_kept_and_explained(succeeds, network: Path, tmp_path: Path):
    patterns = tmp_path / "apart.yaml"
    patterns.write_text("- {name: scores, operators: [MatMul, Softmax], action: keep apart}\n")
    folder = tmp_path / "run"
    arguments = ("plan", network, "--on", "npu-2.7", "--patterns", patterns, "--out", folder)
    summary = succeeds(*arguments, "--json").json
    assert summary["verified"]["max_rel_error"] <= 1e-4
    assert summary["search"]["patterns"][0]["name"] == "scores"
    patterns.unlink()
    rows = succeeds("explain", folder, "--json").json["boundaries"]
    (scores,) = (row for row in rows if row["tensors"][0]["name"] == "qk")
    assert scores["kind"] == "kept apart"
    assert "pattern 'scores'" in scores["text"]


def test_the_example_fuses_attention(succeeds, network: Path, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "patterns" / "attention.yaml"
    folder = tmp_path / "run"
    arguments = ("--on", "npu-2.7", "--patterns", example, "--out", folder, "--json")
    summary = succeeds("plan", network, *arguments).json
    assert summary["groups"] == 1
    assert summary["verified"]["max_rel_error"] <= 1e-4


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "- {name: a, operators: [MatMul, Softmax], do: fuse}",
            "patterns.yaml:1: [0].do: no such key",
        ),
        ("- {name: a, operators: [MatMul, Smax], action: fuse}", "no operator 'Smax'"),
    ],
)
def test_bad_patterns(refused, network: Path, tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "patterns.yaml"
    path.write_text(text)
    arguments = ("plan", network, "--on", "mcu", "--patterns", path)
    assert complaint in refused(*arguments)
    path.write_text("- {name: a, operators: [MatMul, Softmax], action: fuse}")
    assert "patterns are for a search" in refused(*arguments, "--layer-by-layer")


def test_a_pattern_too_large_for_the_machine(refused, network: Path, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "patterns" / "attention.yaml"
    machine = tmp_path / "tiny.yaml"
    machine.write_text(SMALL.replace("8KiB", "3KiB"))
    complaint = refused("plan", network, "--on", machine, "--patterns", example)
    assert "pattern 'attention' at 'qk' .. 'av' cannot be fused" in complaint
    assert "3.1 kB" in complaint


def test_a_written_plan_is_edited_and_replayed(succeeds, network: Path, tmp_path: Path) -> None:
    folder, again = tmp_path / "run", tmp_path / "again"
    base = ("plan", network, "--on", "npu-2.7", "--json")
    best = succeeds(*base, "--out", folder).json
    edited = tmp_path / "edited.yaml"
    edited.write_text((folder / "plan.yaml").read_text())
    assert succeeds(*base, "--plan", edited).json["latency_cycles"] == best["latency_cycles"]
    heads = "splits: [{axis: 1, parts: 2}], core_split: 0}"
    text = (
        "model: attention\nmachine: npu-2.7\ndtype: fp16\ngroups:\n"
        f"- {{nodes: [qk], {heads}\n- {{nodes: [softmax], {heads}\n- {{nodes: [av, relu], {heads}\n"
    )
    edited.write_text(text + "resident: [qk, softmax]\n")
    best = succeeds(*base, "--plan", edited).json
    edited.write_text(text)
    slower = succeeds(*base, "--plan", edited, "--out", again).json
    assert slower["dram_read_bytes"] > best["dram_read_bytes"]
    assert slower["verified"]["max_rel_error"] <= 1e-4
    assert slower["search"] is None
    kinds = {row["kind"] for row in succeeds("explain", again, "--json").json["boundaries"]}
    assert "better joined" in kinds


def test_ablation_side_by_side(succeeds, network: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    arguments = ("plan", network, "--on", "npu-2.7", "--ablation", "--out", folder)
    text = succeeds(*arguments, "--no-verify").out
    for word in ("+ vertical fusion", "+ implicit reshape", "in all", "pipelining switch"):
        assert word in text
    assert "published" not in text
    assert (folder / "ablation.png").stat().st_size > 1000
    summary = json.loads((folder / "summary.json").read_text())
    steps = summary["ablation"]["steps"]
    assert [step["factor"] >= 1 for step in steps] == [True] * 4
    assert steps[-1]["factor_in_all"] == pytest.approx(
        steps[0]["latency_cycles"] / steps[-1]["latency_cycles"], abs=1e-5
    )
    assert '"ablation":[["none",' in (folder / "report.html").read_text()
    succeeds("plan", network, "--on", "npu-2.7", "--out", folder, "--no-verify", "--force")
    assert not (folder / "ablation.png").exists()


def test_rounds_of_joining_are_told() -> None:
    found = tilewright.plan("four_convs@16x16", "mcu", layer_by_layer=True, verify=False)
    told: list[str] = []
    tilewright.explain(found, apply=True, progress=lambda text, share=None: told.append(text))
    assert any(
        text.startswith("1 joined, at most 16: fusing across boundary 1 of") for text in told
    )
