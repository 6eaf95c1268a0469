"""Sweeps: processes killed at random, use of the cores, and 100,000 rows.

python bench/sweep.py [--json PATH] [--only kills|speed|rows] [--kills 20] [--points 1000]
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import write_json

from tilewright.sweep.api import results, write_answers
from tilewright.sweep.export import export
from tilewright.sweep.point import METRICS, Planner, Point
from tilewright.sweep.space import FACTS
from tilewright.sweep.space_file import read_space
from tilewright.sweep.store import FILE, Store

SPACE = """
name: bench
fixed: {machine: npu-2.7, effort: layers}
axes:
  model: [%s]
  scratchpad: {field: %s.usable, from: 256 KiB, to: 2 MiB, count: %d}
  bandwidth: {field: machine.memories.ddr.bandwidth, from: 9 GB/s, to: 54 GB/s, count: %d}
  cores: {field: machine.cores.cluster.count, values: [1, 2]}
set: {%s.capacity: scratchpad + 112 * KiB}
define: {cost: cores * (1 + scratchpad / MiB) + bandwidth / GB / 10}
under_ms: 0.02
"""
MEMORY = "machine.cores.cluster.memories.cmx"
WORKER = "tilewright.sweep.worker"


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--only", choices=("kills", "speed", "rows"))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    facts: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="tilewright-bench-") as place:
        folder = Path(place)
        if arguments.only in (None, "kills"):
            facts["kills"] = kills(folder, arguments.kills, arguments.seed)
        if arguments.only in (None, "speed"):
            facts["speed"] = speed(folder, arguments.points)
        if arguments.only in (None, "rows"):
            facts["rows"] = rows(folder, 100_000)
    write_json(arguments.json, facts)


def space(folder: Path, name: str, models: str, sizes: int, rates: int) -> Path:
    """A space file of models x sizes x rates x 2 points."""
    path = folder / f"{name}.yaml"
    path.write_text(SPACE % (models, MEMORY, sizes, rates, MEMORY))
    return path


def start(path: Path, out: Path) -> subprocess.Popen[bytes]:
    """A coordinator of its own."""
    code = "from tilewright.cli import main; main()"
    command = [sys.executable, "-c", code, "sweep", str(path), "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    """The workers of a coordinator."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            parent = next(x for x in path.read_text().splitlines() if x.startswith("PPid:"))
            command = (path.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(parent.split()[1]) == process.pid and WORKER.encode() in command:
            found.append(int(path.parent.name))
    return found


def kills(folder: Path, wanted: int, seed: int) -> dict[str, Any]:
    """Kill coordinators and workers at random moments, most of them while results come in; then
    the store has to be the same."""
    path = space(folder, "kills", "four_convs@14x14, four_convs@16x16", 8, 9)
    calm, wild = folder / "calm", folder / "wild"
    start(path, calm).wait()
    with Store(calm) as store:
        expected = store.results()
    chance = random.Random(seed)
    done = {"coordinator": 0, "worker": 0}
    runs = 0
    process = start(path, wild)
    while sum(done.values()) < wanted:
        begun = _count(wild)
        while chance.random() < 0.998 and process.poll() is None and _count(wild) == begun:
            time.sleep(0.1)
        time.sleep(chance.uniform(0.0, 1.0))
        if process.poll() is not None:  # it came to its end: once more from the beginning
            with Store(wild) as store:
                assert store.results() == expected, "a sweep that ended differs"
            runs += 1
            (wild / FILE).unlink()
        elif chance.random() < 0.6 and (workers := workers_of(process)):
            os.kill(chance.choice(workers), signal.SIGKILL)
            done["worker"] += 1
            continue
        else:
            process.kill()
            process.wait()
            done["coordinator"] += 1
        process = start(path, wild)
    process.wait()
    with Store(wild) as store:
        same = store.results() == expected
    with sqlite3.connect(wild / FILE) as database:
        members = database.execute("SELECT count(*) FROM members").fetchone()[0]
    print(
        f"killed {done['coordinator']} coordinators and {done['worker']} workers over {runs + 1} "
        f"sweeps of {len(expected)} points: results equal {same}, {members} members"
    )
    assert same
    return {**done, "points": len(expected), "equal": same, "members": members}


def speed(folder: Path, wanted: int) -> dict[str, Any]:
    """How busy the workers are, and what a point costs beyond its planning."""
    path = space(folder, "speed", "four_convs@14x14", wanted // 20, 10)
    out = folder / "speed"
    cores = len(os.sched_getaffinity(0))
    process = start(path, out)
    with_rows: float | None = None
    used = 0.0
    last = (0.0, 0.0)
    count = 0
    while process.poll() is None:
        time.sleep(0.5)  # often enough, and no load of its own
        count = _count(out)
        now = time.monotonic()
        if with_rows is None and count > cores:
            with_rows, used, first = now, _cpu(process), count
            before = _cpu(process, workers=False)
        elif with_rows is not None and count < wanted - cores:
            last = (now, _cpu(process))
            alone = _cpu(process, workers=False)
            seen = count
    assert with_rows is not None
    wall, busy = last[0] - with_rows, last[1] - used
    with sqlite3.connect(out / FILE) as database:
        planning = database.execute("SELECT sum(seconds), count(*) FROM timings").fetchone()
    share = planning[0] / planning[1] * (seen - first) / (wall * cores)
    overhead = wall * cores / (seen - first) - planning[0] / planning[1]
    facts = {
        "points": planning[1],
        "points_per_second": (seen - first) / wall,
        "planning_ms_per_point": 1e3 * planning[0] / planning[1],
        "overhead_ms_per_point": 1e3 * overhead,
        "workers_planning_share": share,
        "coordinator_cpu_ms_per_point": 1e3 * (alone - before) / (seen - first),
        "cpu_share_of_cores": busy / (wall * cores),
        "load_average_after": os.getloadavg()[0],
    }
    print(
        f"{facts['points']} points: {facts['points_per_second']:.1f} per s on {cores} cores; "
        f"workers plan {share:.1%} of the time, {facts['overhead_ms_per_point']:.2f} ms per point "
        f"beyond planning ({facts['planning_ms_per_point']:.1f} ms), coordinator "
        f"{facts['coordinator_cpu_ms_per_point']:.2f} ms CPU; CPU "
        f"{facts['cpu_share_of_cores']:.1%} of the cores, load average "
        f"{facts['load_average_after']:.1f}"
    )
    return facts


def _count(out: Path) -> int:
    try:
        with sqlite3.connect(f"file:{out / FILE}?mode=ro", uri=True, timeout=5) as database:
            return database.execute("SELECT count(*) FROM points").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def _cpu(process: subprocess.Popen[bytes], *, workers: bool = True) -> float:
    """CPU seconds of a coordinator, and of its workers, so far."""
    total = 0.0
    for pid in (process.pid, *(workers_of(process) if workers else ())):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def rows(folder: Path, wanted: int) -> dict[str, Any]:
    """Export, answers and page of a large store, filled with made-up figures."""
    out = folder / "rows"
    path = space(folder, "rows", "four_convs, resnet18", 250, wanted // 1000)
    found = read_space(path)
    _fill(out, found, wanted)
    facts: dict[str, Any] = {"rows": wanted, "store_bytes": (out / FILE).stat().st_size}
    began, cpu = time.perf_counter(), time.process_time()
    swept = results(out)
    facts["read_and_answer_seconds"] = time.perf_counter() - began
    for name in ("points.csv", "points.parquet"):
        begin = time.perf_counter()
        export(swept.table, out / name)
        facts[f"{name}_seconds"] = time.perf_counter() - begin
    begin = time.perf_counter()
    write_answers(swept)
    facts["page_and_picture_seconds"] = time.perf_counter() - begin
    facts["total_seconds"] = time.perf_counter() - began
    facts["total_cpu_seconds"] = time.process_time() - cpu
    facts["page_bytes"] = (out / "sweep.html").stat().st_size
    print(
        f"{len(swept.table)} rows: answers {facts['read_and_answer_seconds']:.1f} s, CSV "
        f"{facts['points.csv_seconds']:.1f} s, Parquet {facts['points.parquet_seconds']:.1f} s, "
        f"page and picture {facts['page_and_picture_seconds']:.1f} s: "
        f"{facts['total_seconds']:.1f} s in all ({facts['total_cpu_seconds']:.1f} s CPU); "
        f"page {facts['page_bytes'] / 1e6:.1f} MB"
    )
    return facts


def _fill(out: Path, found: Any, wanted: int) -> None:
    """Rows as a sweep writes them: summaries and plans are as long as those of the network, every
    plan is another, and the figures are random."""
    chance = random.Random(0)
    planner = Planner(Path())
    with Store(out, create=True) as store:
        store.begin(found)
    numbers = itertools.count()
    with sqlite3.connect(out / FILE) as database:
        for model in found.axes[0].values:
            point = Point(model, "npu-2.7", effort="layers")
            result = planner.plan(point)
            texts = json.dumps(point.row()), json.dumps(result.summary), result.plan
            for values in itertools.product(*(axis.values for axis in found.axes[1:])):
                _row(database, found, chance, next(numbers), (model, *values), texts)
    assert next(numbers) == wanted


def _row(
    database: Any,
    found: Any,
    chance: random.Random,
    number: int,
    values: tuple[Any, ...],
    texts: tuple[str, str, str],
) -> None:
    key = hashlib.sha256(str(number).encode()).hexdigest()
    axes = dict(zip((axis.name for axis in found.axes), values, strict=True))
    derived = {**dict.fromkeys(FACTS, 1.0), "core_count": values[3], "cost": chance.uniform(1, 20)}
    figures = [chance.uniform(1, 100) for _ in METRICS]
    point, summary, plan = texts
    marks = ", ".join("?" * (7 + len(METRICS)))
    database.execute(
        f"INSERT INTO points VALUES ({marks})",
        (key, "ok", "", *figures, point, summary, f"# {number}\n{plan}", "0"),
    )
    database.execute(
        "INSERT INTO members VALUES (?, ?, ?, ?, ?)",
        (found.id, number, key, json.dumps(axes), json.dumps(derived)),
    )


if __name__ == "__main__":
    main()
