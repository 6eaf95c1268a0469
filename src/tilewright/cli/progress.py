"""What is being done, on standard error: a line that changes on a terminal, with a bar and the time
left where the share done is known; elsewhere a line now and then, from some seconds on."""

import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tilewright.cli.app import INTERRUPTED
from tilewright.cli.common import err, note
from tilewright.search.progress import Tell, interrupted_between

FIRST, EVERY = 10.0, 30.0  # seconds until the first line in a pipe or a file, and between lines


@contextmanager
def progress_line(text: str) -> Generator[Tell]:
    """Shows progress; yields whom to tell. A Ctrl-C is raised where something is told; a second one
    before that ends the process."""

    def at_once() -> None:
        err.show_cursor()
        os.write(sys.stderr.fileno(), b"tilewright: interrupted\n")
        os._exit(INTERRUPTED)

    with shown_line(text) as tell, interrupted_between(tell, at_once) as told_between:
        yield told_between


@contextmanager
def shown_line(text: str) -> Generator[Tell]:
    """Shows progress; yields whom to tell. A Ctrl-C is raised at once."""
    with _bar(text) if err.is_terminal else _lines(text) as tell:
        yield tell


@contextmanager
def _bar(text: str) -> Generator[Tell]:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as shown:
        task = shown.add_task(f"{text} ...", total=None)
        told: str | None = None

        def tell(text: str, share: float | None = None, /) -> None:
            nonlocal task, told
            if text != told:  # a new job: its time left is not that of the one before
                shown.remove_task(task)
                task = shown.add_task(f"{text} ...", total=None if share is None else 1.0)
                told = text
            if share is not None:
                shown.update(task, completed=share)

        yield tell


@contextmanager
def _lines(text: str) -> Generator[Tell]:
    began, ended = time.monotonic(), threading.Event()
    latest = text

    def tell(text: str, share: float | None = None, /) -> None:
        nonlocal latest
        latest = text if share is None else f"{text}, {share:.0%}"

    def say() -> None:
        wait = FIRST
        while not ended.wait(wait):
            note(f"... {latest} ({time.monotonic() - began:.0f} s)")
            wait = EVERY

    speaker = threading.Thread(target=say, daemon=True)
    speaker.start()
    try:
        yield tell
    finally:
        ended.set()
        speaker.join()
