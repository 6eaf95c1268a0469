"""What every command shares: options, output, errors."""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tilewright.cli.app import INTERRUPTED
from tilewright.errors import ShapeError

if TYPE_CHECKING:
    from tilewright.planning import Failure

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="An .onnx file (- for standard input), a network of the zoo: resnet18, "
        "fsrcnn@1080x1920 (`tilewright show models` lists them), or a function that makes a torch "
        "module: package.module:build, file.py:build.",
    ),
]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=1,3,224,224",
        help="Fix an input's open dimensions, or give it another size; a dimension that the file "
        "names also by its name: --shape batch=2. May be repeated.",
    ),
]
CsvOption = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE.csv", help="Write the table as CSV too."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]

# Names in models may hold [brackets] and :colons:, which are no markup.
PIPE_WIDTH = 200  # where nobody's terminal sets a width, lines are not broken at 80

out = Console(highlight=False, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, markup=False, emoji=False)
if not out.is_terminal and "COLUMNS" not in os.environ:
    out.width = PIPE_WIDTH


UNVERIFIED = 3  # exit code of a run that gave other numbers than the original
_EXTENT = re.compile("0*[1-9][0-9]{0,14}")


def parse_shapes(texts: list[str] | None) -> dict[str, tuple[int, ...]]:
    """`x=1,3,224,224` as a name and a shape."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts or []:
        name, equals, dims = text.rpartition("=")
        parts = [part.strip() for part in dims.replace("x", ",").split(",")]
        if not equals or not name or not all(map(_EXTENT.fullmatch, parts)):
            raise ShapeError(f"'{text}' is no shape: write --shape NAME=1,3,224,224")
        shapes[name] = tuple(int(part) for part in parts)
    return shapes


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
