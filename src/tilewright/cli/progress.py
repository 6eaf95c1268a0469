"""A line that says what is being done; a bar with time left where the share done is known."""

import os
import sys
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
from tilewright.cli.common import err
from tilewright.search.progress import Tell, interrupted_between


@contextmanager
def progress_line(text: str) -> Generator[Tell]:
    """Shows progress on a terminal and nothing elsewhere; yields whom to tell. A Ctrl-C is raised
    where something is told; a second one before that ends the process."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    hidden = not err.is_terminal

    def at_once() -> None:
        err.show_cursor()
        os.write(sys.stderr.fileno(), b"tilewright: interrupted\n")
        os._exit(INTERRUPTED)

    with Progress(*columns, console=err, transient=True, disable=hidden) as shown:
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

        with interrupted_between(tell, at_once) as told_between:
            yield told_between
