"""A real Dask scheduler and workers, as processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.sweep import cluster as engine
from tilewright.sweep.api import sweep
from tilewright.sweep.errors import EngineError
from tilewright.sweep.run import Progress
from tilewright.sweep.store import Store

pytest.importorskip("distributed")
Process = subprocess.Popen[bytes]


def started(module: str, *arguments: str) -> Process:
    command = [sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[Process]]]:
    """The address of a scheduler with two workers of one thread, and the workers."""
    file = tmp_path / "scheduler.json"
    scheduler = started(
        "dask_scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(file)
    )
    place = ("--scheduler-file", str(file), "--local-directory", str(tmp_path))
    workers: list[Process] = []
    try:
        until = time.monotonic() + 60
        while not file.exists() or not file.read_text():
            assert scheduler.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        for _ in range(2):
            workers.append(started("dask_worker", *place, "--nthreads", "1", "--no-nanny"))
        yield json.loads(file.read_text())["address"], workers
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


def test_a_worker_killed_in_the_middle_changes_no_result(
    cluster: tuple[str, list[Process]],
    space_file: Path,
    tmp_path: Path,
    undisturbed: list[tuple[Any, ...]],
) -> None:
    address, workers = cluster
    killed: list[int] = []

    def watch(progress: Progress) -> None:
        if progress.planned >= len(undisturbed) // 3 and not killed:
            os.kill(workers[0].pid, signal.SIGKILL)
            killed.append(progress.done)

    swept = sweep(space_file, tmp_path / "out", engine="dask", scheduler=address, watch=watch)
    assert killed and killed[0] < len(undisturbed), "a worker was killed before the end"
    assert swept.progress is not None and swept.progress.planned == len(undisturbed)
    with Store(tmp_path / "out") as store:
        assert store.results() == undisturbed


def test_no_scheduler_is_one_line(
    space_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_CONNECT", 1.0)
    with pytest.raises(EngineError, match=r"no Dask scheduler at 'tcp://127.0.0.1:1'"):
        sweep(space_file, tmp_path / "out", engine="dask", scheduler="tcp://127.0.0.1:1")


@pytest.mark.parametrize("address", ["nonsense", "http://head:80", "tcp://head", "tcp://[x:1"])
def test_what_is_no_address_is_one_line(address: str, space_file: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="is no address of a scheduler"):
        sweep(space_file, tmp_path / "out", engine="dask", scheduler=address)
