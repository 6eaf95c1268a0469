"""What every command shares: how it prints, and how it ends."""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from tilewright.cli.app import INTERRUPTED

if TYPE_CHECKING:
    from tilewright.planning import Failure

# Names in models may hold [brackets] and :colons:, which are no markup.
PIPE_WIDTH = 200  # where nobody's terminal sets a width, lines are not broken at 80

out = Console(highlight=False, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, markup=False, emoji=False)
if not out.is_terminal and "COLUMNS" not in os.environ:
    out.width = PIPE_WIDTH


UNVERIFIED = 3  # exit code of a run that gave other numbers than the original
OVER_BUDGET = 4  # exit code of a model that was measured above the budget it was cut for


def print_json(value: Mapping[str, Any]) -> None:
    """JSON on standard output, nothing else."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Lines for a person; those too long for a terminal are broken by it alone."""
    for line in lines:
        out.print(line, soft_wrap=True)


def note(text: str) -> None:
    """A remark for the person, never in the way of JSON."""
    err.print(text, style="dim", soft_wrap=True)


def end_unverified(failure: "Failure | None", unproven: bool = False) -> None:
    """A run whose numbers are wrong, or not compared as it was interrupted, ends with an exit code
    of its own, behind all output."""
    if unproven:
        raise typer.Exit(INTERRUPTED)
    if failure is not None:
        note(f"UNVERIFIED: {failure.told()}")
        raise typer.Exit(UNVERIFIED)
