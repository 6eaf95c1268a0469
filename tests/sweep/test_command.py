"""`tilewright sweep` and `tilewright compare` as a person meets them."""

import csv
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from tilewright.api import compare
from tilewright.cli import main
from tilewright.sweep.point import METRICS, Planner, Point
from tilewright.sweep.store import FILE, Store


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tilewright", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


def test_answers_and_exports_of_a_sweep(
    command: Any, swept_folder: Path, tmp_path: Path, undisturbed: list[tuple[Any, ...]]
) -> None:
    table, parquet = tmp_path / "points.csv", tmp_path / "points.parquet"
    code, out, err = command(
        "sweep",
        "--out",
        swept_folder,
        "--answers",
        "--export",
        table,
        "--export",
        parquet,
        "--json",
    )
    assert code == 0, err
    answers = json.loads(out)
    assert answers == json.loads((swept_folder / "answers.json").read_text())
    assert answers["points"] == len(undisturbed) and answers["without_plan"] == 0
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(undisturbed)
    latency = {int(row["number"]): float(row["latency_ms"]) for row in rows}
    cost = {int(row["number"]): float(row["cost"]) for row in rows}
    for front in answers["fronts"]:
        load = {n for n in latency if rows[n]["model"] == front["points"][0]["axes"]["model"]}
        numbers = [point["number"] for point in front["points"]]
        for n in load:
            beats = [m for m in load if latency[m] <= latency[n] and cost[m] <= cost[n]]
            own = (latency[n], cost[n])
            assert (n in numbers) == all((latency[m], cost[m]) == own for m in beats)
    fine = [m["cost"] for m in answers["cheapest"]["machines"] if m["slowest_ms"] <= 0.02]
    assert fine == sorted(fine) and len(fine) == len(answers["cheapest"]["machines"]) > 0
    import pyarrow.parquet

    stored = pyarrow.parquet.read_table(parquet).to_pydict()
    assert stored["latency_ms"] == list(latency.values())
    assert (swept_folder / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_the_store_opens_with_any_sqlite_browser(swept_folder: Path) -> None:
    """The documented tables and columns, readable as they are."""
    with sqlite3.connect(swept_folder / FILE) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(points)")]
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
    assert {"meta", "points", "spaces", "members", "timings"} <= tables
    assert set(METRICS) < set(columns)
    text = (Path(__file__).parents[2] / "docs" / "sweep.md").read_text()
    assert all(f"`{name}`" in text for name in (*columns, "members", "timings", "spaces"))


def test_a_point_is_what_the_planner_gives(swept_folder: Path, command: Any) -> None:
    code, out, err = command("sweep", "--out", swept_folder, "--show", 3, "--json")
    assert code == 0, err
    row = json.loads(out)
    again = Planner(Path()).plan(Point.of_row(row["point"]))
    assert json.loads(json.dumps(again.summary)) == row["summary"] and again.plan == row["plan"]
    code, out, _ = command("sweep", "--out", swept_folder, "--show", row["key"][:10])
    assert out == row["plan"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nowhere.yaml", "--out", "x"), "nowhere.yaml: cannot be read"),
        (("nowhere.yaml",), "--out DIR"),
        (("--out", "x"), "say what to sweep"),
        (("--out", "x", "--resume"), "holds no sweep"),
        (("--out", "x", "--show", "1"), "holds no sweep"),
        (("s.yaml", "--out", "x", "--engine", "grid"), "no engine 'grid'"),
        (("s.yaml", "--out", "x", "--engine", "dask"), "--scheduler"),
        (("s.yaml", "--out", "x", "--export", "t.xlsx"), ".csv or .parquet"),
        (("s.yaml", "--out", "s.yaml"), "s.yaml"),
    ],
)
def test_mistakes_are_one_line(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: Any, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text("fixed: {machine: mcu}\naxes: {model: [four_convs@8x8]}\n")
    code, out, err = command("sweep", *arguments)
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("tilewright: ") and complaint in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.yaml"]


def test_a_space_cannot_execute_code(command: Any, tmp_path: Path) -> None:
    path, mark = tmp_path / "s.yaml", tmp_path / "HACKED"
    for text in (
        f"axes: !!python/object/apply:os.system ['touch {mark}']",
        "fixed: {machine: mcu}\naxes: {model: [four_convs@8x8]}\n"
        f"require: [\"__import__('os').system('touch {mark}') == 0\"]",
        "fixed: {machine: mcu}\naxes: {model: [four_convs@8x8]}\n"
        f"define: {{cost: \"open('{mark}', 'w').write('x')\"}}",
        "fixed: {machine: mcu}\naxes: {model: ['evil.py:build']}\n",
    ):
        (tmp_path / "evil.py").write_text(f"open({str(mark)!r}, 'w')\ndef build(): pass\n")
        path.write_text(text)
        code, _, err = command("sweep", path, "--out", tmp_path / "out")
        assert code == 2 and len(err.splitlines()) == 1
        assert not mark.exists() and not (tmp_path / "out").exists()


def test_a_guided_search_is_the_same_again_and_within_its_budget(
    command: Any, tmp_path: Path, space_file: Path
) -> None:
    text = space_file.read_text() + "\nguided: {generation: 4, seed: 1}\n"
    path = tmp_path / "guided.yaml"
    path.write_text(text)
    code, _, err = command("sweep", path, "--out", tmp_path / "none", "--workers", 1)
    assert code == 2 and "--budget" in err
    found = []
    for name, budget in (("a", 6), ("a", 14), ("b", 14)):
        code, out, err = command(
            "sweep", path, "--out", tmp_path / name, "--budget", budget, "--json", "--workers", 1
        )
        assert code == 0, err
        found.append(json.loads(out))
    assert found[1] == found[2], "stopped and resumed, or at once"
    assert found[0]["points"] <= 6 < found[1]["points"] <= 14
    code, out, err = command("sweep", "--out", tmp_path / "b", "--resume", "--json")
    assert code == 0 and json.loads(out) == found[2], "the last budget is known"
    code, _, err = command("sweep", path, "--out", tmp_path / "b", "--budget", 1)
    assert code == 2 and "a machine runs 2 workloads" in err
    with Store(tmp_path / "a") as one, Store(tmp_path / "b") as other:
        assert one.results() == other.results()


# ---- compare


def test_causes_add_up_to_the_difference(swept_folder: Path, command: Any, tmp_path: Path) -> None:
    page = tmp_path / "compare.html"
    code, out, err = command(
        "compare",
        f"{swept_folder}#0",
        f"{swept_folder}#1",
        f"{swept_folder}#5",
        "--json",
        "--html",
        page,
    )
    assert code == 0, err
    for each in json.loads(out)["compared"]:
        latency = each["figures"]["latency_cycles"]
        change = [cause["cycles"] for cause in each["causes"]]
        assert sum(change) == latency["after"] - latency["before"] != 0
        assert [abs(x) for x in change] == sorted(map(abs, change), reverse=True)
        moved = [each["figures"][f"dram_{way}_bytes"] for way in ("read", "write")]
        assert sum(c["bytes"] for c in each["causes"]) == sum(
            m["after"] - m["before"] for m in moved
        )
    assert page.read_text().count('"headline":') == 2
    code, out, _ = command("compare", f"{swept_folder}#0", f"{swept_folder}#5")
    assert code == 0 and "Causes, the largest first" in out
    assert "machine.memories.ddr.bandwidth: 9 GB/s against" in out
    same = command("compare", f"{swept_folder}#0", f"{swept_folder}#0")
    assert "takes as many cycles as" in same[1]


def test_a_sweep_without_any_plan_says_so(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    field = "machine.cores.cluster.memories.cmx.usable"
    path.write_text(
        "fixed: {machine: npu-2.7, model: four_convs@8x8, effort: layers}\n"
        f"axes: {{pad: {{field: {field}, values: [-1]}}}}\n"
    )
    code, out, err = command("sweep", path, "--out", tmp_path / "out")
    assert code == 2 and "no plan for 1 (point 0): machine 'npu-2.7': cores.cluster" in out
    assert err.splitlines()[-1] == "tilewright: no point has a plan: there is nothing to answer"
    path.write_text(path.read_text().replace("-1", "64 KiB") + "require: [pad > 1e9]\n")
    code, _, err = command("sweep", path, "--out", tmp_path / "out")
    assert code == 2 and "none of the points tried meets all of 'require'" in err


def run_folder(path: Path, groups: list[dict[str, Any]], cycles: list[int]) -> str:
    """A run as `tilewright plan` leaves it, as far as a comparison reads it."""
    import yaml

    path.mkdir()
    plan = {"model": "m", "machine": "x", "dtype": "int8", "groups": groups}
    (path / "plan.yaml").write_text(yaml.safe_dump(plan))
    summary = {
        "model": "m",
        "machine": "x",
        "dtype": "int8",
        "latency_cycles": sum(cycles),
        "energy_pj": 1.0,
        "dram_read_bytes": 0,
        "dram_write_bytes": 0,
        "engines": {"dpu": {"busy_cycles": 5}},
        "parts": [
            {
                "nodes": group["nodes"],
                "axes": ["H" for _ in group.get("splits", ())],
                "cycles": n,
                "read_bytes": 0,
                "written_bytes": 0,
                "energy_pj": 0.0,
                "resident": group["nodes"] if len(group["nodes"]) > 1 else [],
            }
            for group, n in zip(groups, cycles, strict=True)
        ],
    }
    (path / "summary.json").write_text(json.dumps(summary))
    return str(path)


def test_what_differs_is_named(tmp_path: Path) -> None:
    four, eight = ({"axis": 2, "parts": n, "halo": "recompute"} for n in (4, 8))
    before = run_folder(
        tmp_path / "a",
        [{"nodes": ["a"]}, {"nodes": ["b"]}, {"nodes": ["c"], "splits": [four]}, {"nodes": ["d"]}],
        [10, 20, 30, 40],
    )
    after = run_folder(
        tmp_path / "b",
        [{"nodes": ["a", "b"]}, {"nodes": ["c"], "splits": [eight]}, {"nodes": ["d"]}],
        [12, 5, 40],
    )
    (found,) = compare(before, after)
    assert [(region.nodes, region.cycles) for region in found.regions] == [
        (("c",), -25),
        (("a", "b"), -18),
    ]
    assert found.same_regions == 1
    assert found.regions[0].what == ("cut: H in 4 becomes H in 8",)
    assert found.regions[1].what == ("fused: 2 groups become 1 group", "now resident: a, b")


@pytest.mark.parametrize(
    "names", [("nowhere", "b"), ("{0}", "{0}"), ("{0}#0",), ("{0}#99999", "{0}#0")]
)
def test_comparisons_that_cannot_be(
    command: Any, swept_folder: Path, names: tuple[str, ...]
) -> None:
    code, out, err = command("compare", *(name.format(swept_folder) for name in names))
    assert (code, out) == (2, "") and len(err.splitlines()) == 1
