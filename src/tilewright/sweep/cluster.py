"""The engine of a cluster: a Dask scheduler hands points to its workers; each plans in processes of
its own, so that a point that hangs or crashes costs no Dask worker."""

import select
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tilewright.sweep.child import START, Child
from tilewright.sweep.engine import Conditions, PointJob, finished, lost
from tilewright.sweep.errors import EngineError
from tilewright.sweep.store import StoredPoint
from tilewright.version import __version__

_TICK = 0.25
_PROTOCOLS = ("tcp", "tls", "ucx", "ws", "wss")
_CONNECT = 20.0  # seconds to reach the scheduler
_idle: dict[str, list[Child]] = {}  # of a Dask worker's process: planners that wait for a point
_lock = threading.Lock()


def plan_here(row: dict[str, Any], folder: str, timeout: float | None, retries: int) -> Any:
    """Plan a point on this computer, in a process that is kept for the next one."""
    for attempt in range(retries + 1):
        with _lock:
            kept = _idle.setdefault(folder, [])
            child = kept.pop() if kept else None
        child = child or Child(Path(folder))
        child.send(None, row)
        outcome, how = _answer(child, timeout)
        if outcome is not None:
            with _lock:
                _idle[folder].append(child)
            return {**outcome, "version": __version__}
        if how == "late":
            reason = f"took longer than {timeout:g} s"
            return {"status": "lost", "reason": reason, "seconds": 0.0, "version": __version__}
        if attempt == retries:
            reason = f"its worker ended with {how}, {attempt + 1} times"
            return {"status": "lost", "reason": reason, "seconds": 0.0, "version": __version__}
    raise AssertionError("every attempt returns or is the last")


def _answer(child: Child, timeout: float | None) -> tuple[dict[str, Any] | None, str]:
    """A planner's answer; else how it ended."""
    while True:
        select.select([child], [], [], _TICK)
        answers, ended = child.receive()
        if answers:
            return answers[0][1], ""
        if ended:
            return None, child.stop(ended=True)
        if child.overdue(timeout):
            child.stop()
            if not child.ready:
                raise EngineError(f"a worker was not ready after {START:g} s")
            return None, "late"


def _address(scheduler: str) -> str:
    """An address in full. Dask itself leaves threads behind where it is given none."""
    full = scheduler if "://" in scheduler else f"tcp://{scheduler}"
    try:
        parts = urlsplit(full)
        known = parts.scheme in _PROTOCOLS and parts.hostname and parts.port
    except ValueError:
        known = False
    if not known:
        raise EngineError(f"'{scheduler}' is no address of a scheduler, such as tcp://HOST:8786")
    return full


class DaskEngine:
    """Points on the workers of a Dask scheduler."""

    def __init__(self, conditions: Conditions, scheduler: str) -> None:
        try:
            import distributed
        except ImportError:
            raise EngineError(
                "the engine dask needs the package distributed: pip install 'tilewright[cluster]'"
            ) from None
        self._dask: Any = distributed
        self._conditions = conditions
        address = _address(scheduler)
        try:
            self._client: Any = distributed.Client(address, timeout=_CONNECT, set_as_default=False)
        except (OSError, ValueError, ImportError) as error:
            reason = " ".join(str(error).split())
            raise EngineError(f"no Dask scheduler at '{scheduler}': {reason}") from None
        self._scheduler = scheduler
        try:
            self._client.wait_for_workers(1, timeout=START)
        except TimeoutError:
            self.close()
            raise EngineError(f"the Dask scheduler at '{scheduler}' has no workers") from None

    def run(self, jobs: Iterator[PointJob]) -> Iterator[StoredPoint]:
        """Plan all jobs: somewhat more are under way than there are threads."""
        waiting: dict[Any, PointJob] = {}
        done = self._dask.as_completed([], loop=self._client.loop, raise_errors=False)
        empty = False
        while True:
            while not empty and len(waiting) < self._room():
                job = next(jobs, None)
                empty = job is None
                if job is not None:
                    future = self._submit(job)
                    waiting[future] = job
                    done.add(future)
            if not waiting:
                return
            future = next(done)
            yield self._row(waiting.pop(future), future)
            future.release()

    def close(self) -> None:
        """Leave the scheduler; what is under way there is given up."""
        self._client.close(timeout=5)

    def _room(self) -> int:
        threads = sum(self._client.nthreads().values())
        return max(4, 2 * threads)

    def _submit(self, job: PointJob) -> Any:
        folder = str(self._conditions.folder.absolute())
        timeout, retries = self._conditions.timeout, self._conditions.retries
        return self._client.submit(plan_here, job.point.row(), folder, timeout, retries, pure=False)

    def _row(self, job: PointJob, future: Any) -> StoredPoint:
        if future.status == "cancelled" or future.status == "lost":
            raise EngineError(f"the Dask scheduler at '{self._scheduler}' is gone")
        if future.status == "error":
            error = future.exception()
            if isinstance(error, self._dask.KilledWorker):
                return lost(job, "the Dask workers that planned it died")
            raise EngineError(f"a Dask worker cannot plan: {type(error).__name__}: {error}")
        outcome: dict[str, Any] = future.result()
        if outcome["version"] != __version__:
            raise EngineError(
                f"a Dask worker runs Tilewright {outcome['version']}, this is {__version__}"
            )
        return finished(job, outcome)
