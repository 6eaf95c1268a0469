"""What users rely on when things go wrong: killed processes, time-outs, damaged and full stores."""

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tilewright.errors import TilewrightError
from tilewright.sweep import local
from tilewright.sweep.api import find_point, results, sweep
from tilewright.sweep.engine import Conditions
from tilewright.sweep.errors import SpaceError, SweepStoreError
from tilewright.sweep.local import LocalEngine
from tilewright.sweep.run import Progress, Sweep
from tilewright.sweep.space_file import read_space
from tilewright.sweep.store import FILE, SCHEMA, Status, Store

Rows = list[tuple[Any, ...]]


def rows_of(folder: Path) -> Rows:
    with Store(folder) as store:
        return store.results()


def counted(folder: Path) -> int:
    """How many rows a store has, seen from outside."""
    try:
        with sqlite3.connect(f"file:{folder / FILE}?mode=ro", uri=True, timeout=5) as database:
            return database.execute("SELECT count(*) FROM points").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def test_killed_workers_are_replaced_and_lose_nothing(
    space_file: Path, tmp_path: Path, undisturbed: Rows
) -> None:
    space = read_space(space_file)
    engine = LocalEngine(Conditions(space.folder), 2)
    killed: list[int] = []

    def watch(progress: Progress) -> None:
        if progress.planned % 7 == 3 and len(killed) < 3:
            victim = engine.workers[len(killed) % len(engine.workers)]
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    with Store(tmp_path, create=True) as store:
        try:
            progress = Sweep(space, store, engine, watch).run()
        finally:
            engine.close()
    assert len(killed) == 3
    assert progress.done == progress.total == len(undisturbed) and not progress.without
    assert rows_of(tmp_path) == undisturbed


CODE = """
import signal
import sys
import time

from tilewright.sweep.store import Store

keep = Store.keep

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for what runs behind


def slowly(self, row):
    keep(self, row)
    time.sleep(0.1)  # so that there is time to end it in the middle


Store.keep = slowly
sys.argv = ["tilewright", "sweep", {space!r}, "--out", {out!r}, "--workers", "1"]
from tilewright.cli import main
main()
"""


def test_a_killed_or_interrupted_coordinator_goes_on_where_it_was(
    space_file: Path, tmp_path: Path, undisturbed: Rows
) -> None:
    out = tmp_path / "out"
    code = CODE.format(space=str(space_file), out=str(out))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for share, how in ((3, signal.SIGKILL), (2, signal.SIGINT)):
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, text=True
        )
        until = time.monotonic() + 120
        while counted(out) < len(undisturbed) // share:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.01)
        process.send_signal(how)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "points are kept; go on with --resume" in said
    before = counted(out)
    assert len(undisturbed) // 2 <= before < len(undisturbed)
    swept = sweep(None, out, resume=True, workers=1)
    assert swept.progress is not None
    assert swept.progress.planned <= len(undisturbed) - before, "what was there stays"
    assert rows_of(out) == undisturbed


@pytest.fixture
def few(tmp_path: Path) -> Path:
    path = tmp_path / "few.yaml"
    path.write_text(
        "fixed: {model: four_convs@8x8, machine: npu-2.7}\n"
        "axes: {effort: [layers], dtype: [int8]}\n"
    )
    return path


class Silent(local.Child):
    """A worker that never gets to see its points."""

    def send(self, job: Any, row: dict[str, Any]) -> None:
        self.waiting.append(job)


class Doomed(Silent):
    """Its process dies as soon as it has a point to plan."""

    def receive(self) -> Any:
        found = super().receive()
        if self.ready and self.waiting:
            os.kill(self.pid, signal.SIGKILL)
        return found


def test_a_point_that_takes_too_long_is_a_row_and_tried_again(few: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "Child", Silent)
        swept = sweep(few, out, timeout=0.1, workers=1)
    assert swept.progress is not None and swept.progress.without == 1
    assert swept.table.reasons == ["took longer than 0.1 s"]
    again = sweep(few, out, resume=True, workers=1)
    assert again.progress is not None and again.progress.planned == 1 and again.table.ok.all()
    third = sweep(few, out, workers=1)
    assert third.progress is not None and third.progress.planned == 0


def test_a_point_that_kills_its_workers_is_a_row_with_its_reason(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "Child", Doomed)
    swept = sweep(few, tmp_path / "out", workers=1, retries=0)
    assert swept.table.reasons == ["its worker ended with signal 9, 1 times"]
    with Store(tmp_path / "out") as store:
        assert {row[1] for row in store.results()} == {Status.LOST.value}


def test_points_that_cannot_be_planned_are_rows_with_their_reason(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(
        "fixed: {machine: npu-2.7, effort: layers}\n"
        "axes:\n  model: [four_convs@8x8]\n"
        "  usable: {field: machine.cores.cluster.memories.cmx.usable,\n"
        "           values: [1 MiB, 9 MiB, 256]}\n"
    )
    swept = sweep(path, tmp_path / "out", workers=1)
    good, large, small = swept.table.reasons
    assert good == "" and "usable is more than capacity" in large and small
    assert swept.table.ok.tolist() == [True, False, False]
    again = sweep(path, tmp_path / "out")
    assert again.progress is not None and again.progress.planned == 0, "refused for good"


# ---- stores that cannot be used


@pytest.fixture
def copy(swept_folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(swept_folder, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_damaged_store_is_told_and_left_alone(copy: Path, space_file: Path) -> None:
    store = copy / FILE
    content = bytearray(store.read_bytes())
    content[4096 * 3 : 4096 * 9] = os.urandom(4096 * 6)
    store.write_bytes(content)
    with pytest.raises(SweepStoreError, match=r"damaged .*nothing was changed"):
        sweep(space_file, copy, resume=True)
    assert store.read_bytes() == bytes(content)


@pytest.mark.parametrize("seed", range(12))
def test_damage_anywhere_is_one_line_or_does_not_matter(copy: Path, seed: int) -> None:
    """A piece is lost, overwritten, or bits have flipped: whoever reads is told, or sees nothing of
    it."""
    store, chance = copy / FILE, Random(seed)
    content = bytearray(store.read_bytes())
    place = chance.randrange(len(content))
    if seed % 3 == 0:
        del content[place:]
    elif seed % 3 == 1:
        content[place : place + 4096] = chance.randbytes(len(content[place : place + 4096]))
    else:
        for _ in range(50):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    store.write_bytes(content)
    for act in (results, lambda folder: find_point(folder, "3"), lambda f: Store(f, create=True)):
        try:
            act(copy)
        except TilewrightError as error:
            assert "\n" not in str(error)


def test_what_is_no_store_is_left_alone(space_file: Path, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("my notes, which happen to have this name" * 200)
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(SweepStoreError, match="damaged"):
        sweep(space_file, tmp_path)
    assert (tmp_path / FILE).read_bytes() == before
    (tmp_path / FILE).unlink()
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute("CREATE TABLE mine (x)")
    with pytest.raises(SweepStoreError, match="no store of a sweep"):
        sweep(space_file, tmp_path)


def test_a_store_of_a_newer_version_is_refused(copy: Path, space_file: Path) -> None:
    with sqlite3.connect(copy / FILE) as database:
        database.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    with pytest.raises(SweepStoreError, match="written by a newer Tilewright"):
        sweep(space_file, copy, resume=True)


def test_nothing_to_resume(space_file: Path, tmp_path: Path) -> None:
    with pytest.raises(SweepStoreError, match="holds no sweep"):
        sweep(space_file, tmp_path / "nowhere", resume=True)
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(SpaceError, match="say what to sweep"):
        sweep(None, tmp_path / "nowhere")


def test_a_full_disk_keeps_what_was_written(
    space_file: Path, tmp_path: Path, undisturbed: Rows
) -> None:
    """Writing beyond so many pages fails as on a full disk; with room again, it goes on."""
    space = read_space(space_file)
    engine = LocalEngine(Conditions(space.folder), 1)
    with Store(tmp_path, create=True) as store:
        store._database.execute("PRAGMA max_page_count = 24")  # pyright: ignore
        try:
            with pytest.raises(SweepStoreError, match=r"full; what it holds is kept.*--resume"):
                Sweep(space, store, engine).run()
        finally:
            engine.close()
    kept = rows_of(tmp_path)
    assert 0 < len(kept) < len(undisturbed) and set(kept) <= set(undisturbed)
    sweep(space_file, tmp_path, resume=True, workers=1)
    assert rows_of(tmp_path) == undisturbed


def test_a_disk_without_room_for_a_file_is_one_line(space_file: Path, tmp_path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment["NUMBA_CACHE_DIR"] = ""  # compiled code that is there is read, none is written
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))"
    code = limit + CODE.format(space=str(space_file), out=str(tmp_path / "out"))
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 2, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and "what it holds is kept" in lines[0], done.stderr
    assert results(tmp_path / "out").table.ok.all()


def without_rights(folder: Path, file_mode: int, folder_mode: int, act: Callable[[], str]) -> str:
    """What a process says that has no more rights to a store than these; the superuser's would
    have more."""
    os.chmod(folder / FILE, file_mode)
    os.chmod(folder, folder_mode)
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            os.write(writes, act().encode())
        except BaseException as error:
            os.write(writes, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writes)
    said = os.read(reads, 10_000).decode()
    os.close(reads)
    os.chmod(folder, 0o755)
    return said


@pytest.fixture
def open_copy(swept_folder: Path) -> Iterator[Path]:
    """A store in a folder with blanks and marks in its name that everybody may look into."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="a?b #1%20 ") as place:
        shutil.copy(swept_folder / FILE, place)
        yield Path(place)


@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o777), (0o666, 0o555)])
def test_a_read_only_store_is_one_line(open_copy: Path, file: int, folder: int) -> None:
    def write() -> str:
        Store(open_copy, create=True)
        return "opened"

    said = without_rights(open_copy, file, folder, write)
    assert said.startswith("SweepStoreError: cannot write") and "read-only" in said
    assert "\n" not in said


def test_a_read_only_store_can_be_read(open_copy: Path, undisturbed: Rows) -> None:
    def read() -> str:
        return str(rows_of(open_copy) == undisturbed)

    assert without_rights(open_copy, 0o444, 0o555, read) == "True"


def test_several_processes_may_write(copy: Path, undisturbed: Rows) -> None:
    """Two writers, the same and different rows: all are there once, none is changed."""
    with Store(copy, create=True) as one, Store(copy, create=True) as other:
        first = one.row(undisturbed[0][0])
        assert first is not None
        for number in range(20):
            writer = (one, other)[number % 2]
            writer.keep(first)
            other_key = f"{number:064x}"
            writer.keep(type(first)(other_key, Status.FAILED, "x", first.point, None, None, 0.0))
    rows = rows_of(copy)
    assert len(rows) == len(undisturbed) + 20
    assert [row for row in rows if row[2] != "x"] == undisturbed
