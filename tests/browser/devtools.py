"""Chromium without a window, driven by the DevTools protocol over pipes: no package, no port."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 20.0  # seconds for one answer

# The protocol's pipes have to be the descriptors 3 and 4 of the browser.
_LAUNCH = (
    "import fcntl, os, sys;"
    "r, w = (fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3]);"
    "os.dup2(r, 3); os.dup2(w, 4); os.execv(sys.argv[3], sys.argv[3:])"
)


def find_chromium() -> str | None:
    """The browser's path: $CHROMIUM, or the first that is installed."""
    given = os.environ.get("CHROMIUM")
    return given or next((path for name in NAMES if (path := shutil.which(name))), None)


class BrowserError(RuntimeError):
    """The browser did not do what it was asked for."""


class Browser:
    """One page. `problems` are console errors and exceptions, `requests` all that was fetched."""

    def __init__(self, program: str, home: Path, width: int = 1366, height: int = 768) -> None:
        reads, theirs_out = os.pipe()
        theirs_in, self._writes = os.pipe()
        self._reads = reads
        command = [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
            f"--user-data-dir={home}",
            f"--window-size={width},{height}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(theirs_in), str(theirs_out), *command],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""
        self._next = 0
        self._session: str | None = None
        self.problems: list[str] = []
        self.requests: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the browser."""
        self._session = None
        try:
            self.call("Browser.close")
            self._process.wait(PATIENCE)
        except (BrowserError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._reads)
        os.close(self._writes)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask, and give the answer; events that arrive meanwhile are looked at."""
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self._receive(until)
            if answer.get("id") == self._next:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._event(answer)

    def _receive(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._reads], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise BrowserError("the browser does not answer")
            more = os.read(self._reads, 1 << 20)
            if not more:
                raise BrowserError("the browser has ended")
            self._buffer += more
        first, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(first)

    def _event(self, event: dict[str, Any]) -> None:
        method, facts = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(facts["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning"):
            self.problems.append(str(facts["args"]))
        elif method == "Log.entryAdded" and facts["entry"]["level"] == "error":
            self.problems.append(facts["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a report and wait until it has drawn itself."""
        self.call("Page.navigate", url=path.absolute().as_uri() + fragment)
        self.wait("document.documentElement?.dataset.ready === 'yes'")
        self.settle()

    @contextmanager
    def fresh(self, path: Path) -> Iterator["Browser"]:
        """A page as it opens from nothing; what is done with it must leave no error behind."""
        self.problems.clear()
        self.call("Page.navigate", url="about:blank")
        self.requests.clear()
        self.open(path)
        yield self
        assert self.problems == []

    def text(self, selector: str) -> str:
        """What a part of the page says."""
        return self.run(f"document.querySelector('{selector}').innerText")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, script: str) -> None:
        """Until an expression is true."""
        until = time.monotonic() + PATIENCE
        while not self.run(script):
            if time.monotonic() > until:
                raise BrowserError(f"never true: {script}")
            time.sleep(0.02)

    def settle(self) -> None:
        """Two frames later, everything asked for is drawn."""
        self.run("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def spot(self, selector: str, x: float = 0.5, y: float = 0.5) -> tuple[float, float]:
        """A place in an element, scrolled into view, as shares of its box."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.x, b.y, b.width, b.height]; })()"
        )
        return box[0] + x * box[2], box[1] + y * box[3]

    def mouse(self, kind: str, at: tuple[float, float], **more: Any) -> None:
        """A real mouse event."""
        self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], **more)

    def hover(self, at: tuple[float, float]) -> None:
        """Move the mouse."""
        self.mouse("mouseMoved", at)
        self.settle()

    def click(self, at: tuple[float, float]) -> None:
        """Press and release."""
        self.hover(at)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, at, button="left", clickCount=1)
        self.settle()

    def wheel(self, at: tuple[float, float], turn: float) -> None:
        """Turn the wheel; negative is away from oneself."""
        self.mouse("mouseWheel", at, deltaX=0, deltaY=turn)
        self.settle()

    def drag(self, start: tuple[float, float], stop: tuple[float, float]) -> None:
        """Press, move, release."""
        self.mouse("mouseMoved", start)
        self.mouse("mousePressed", start, button="left", buttons=1, clickCount=1)
        for share in (0.5, 1.0):
            at = (
                start[0] + share * (stop[0] - start[0]),
                start[1] + share * (stop[1] - start[1]),
            )
            self.mouse("mouseMoved", at, button="left", buttons=1)
        self.mouse("mouseReleased", stop, button="left", clickCount=1)
        self.settle()

    def screenshot(self) -> bytes:
        """What is to be seen, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
