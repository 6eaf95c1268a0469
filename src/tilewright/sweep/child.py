"""A worker process as the one who started it sees it: points go in, outcomes come out in order."""

import json
import os
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from tilewright.sweep.errors import EngineError

START = 900.0  # seconds a worker may take to be ready; compiling for the first time is slow
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_CHUNK = 1 << 20
_LAST_WORDS = 5.0  # seconds between the end of the output and the end of the process


class Child:
    """One worker. It has its own session, so that Ctrl-C reaches its owner alone, and ends when
    its owner does: its input ends then. `waiting` are the points it has not answered yet."""

    def __init__(self, folder: Path) -> None:
        environment = dict(os.environ) | dict.fromkeys(_ONE_THREAD, "1")
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tilewright.sweep.worker", str(folder.absolute())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"cannot start a worker: {error.strerror or error}") from None
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._text = b""
        self.ready = False
        self.since = time.monotonic()  # when it began what it is doing
        self.waiting: deque[Any] = deque()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def fileno(self) -> int:
        """Where answers arrive, for a selector."""
        return self._output.fileno()

    def send(self, job: Any, row: dict[str, Any]) -> None:
        """Ask for a point. A worker that has died is found out by its answers."""
        if self.ready and not self.waiting:
            self.since = time.monotonic()
        self.waiting.append(job)
        with suppress(OSError):
            self._input.write(json.dumps(row).encode() + b"\n")
            self._input.flush()

    def receive(self) -> tuple[list[tuple[Any, dict[str, Any]]], bool]:
        """Answers that have arrived, each with its job, and whether the worker has ended."""
        ended = False
        while True:
            try:
                more = os.read(self._output.fileno(), _CHUNK)
            except BlockingIOError:
                break
            if not more:
                ended = True
                break
            self._text += more
        *lines, self._text = self._text.split(b"\n")
        found: list[tuple[Any, dict[str, Any]]] = []
        for line in lines:
            message = json.loads(line)
            self.since = time.monotonic()
            if "ready" in message:
                self.ready = True
            else:
                found.append((self.waiting.popleft(), message))
        return found, ended

    def overdue(self, timeout: float | None) -> bool:
        """Whether it takes longer than it may: to start, or for the point it is at."""
        busy = time.monotonic() - self.since
        if not self.ready:
            return busy > START
        return timeout is not None and bool(self.waiting) and busy > timeout

    def stop(self, ended: bool = False) -> str:
        """End it at once; how it had ended if it has."""
        code = self._process.poll()
        if code is None and ended:  # its output has ended: so will it
            with suppress(subprocess.TimeoutExpired):
                code = self._process.wait(_LAST_WORDS)
        if code is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._input, self._output):
            with suppress(OSError):
                pipe.close()
        if code is None:
            return "stopped"
        return f"signal {-code}" if code < 0 else f"exit code {code}"
