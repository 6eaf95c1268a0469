"""What several commands take: a model, shapes, where to write a table, JSON."""

import re
from pathlib import Path
from typing import Annotated

import typer

from tilewright.errors import ShapeError

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
_EXTENT = re.compile("0*[1-9][0-9]{0,14}")
_NOTHING = re.compile("0+|-[0-9]+")


def parse_shapes(texts: list[str] | None) -> dict[str, tuple[int, ...]]:
    """`x=1,3,224,224` as a name and a shape."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts or []:
        name, equals, dims = text.rpartition("=")
        parts = [part.strip() for part in dims.replace("x", ",").split(",")]
        if equals and name and any(map(_NOTHING.fullmatch, parts)):
            raise ShapeError(f"--shape {text}: extents are whole numbers from 1 on")
        if not equals or not name or not all(map(_EXTENT.fullmatch, parts)):
            raise ShapeError(
                f"--shape {text}: write the name of an input and its extents (x=1,3,224,224), or "
                "that of a dimension and its extent (batch=2)"
            )
        if name in shapes:
            before = ",".join(map(str, shapes[name]))
            raise ShapeError(f"--shape gives '{name}' twice: {before} and {dims}")
        shapes[name] = tuple(int(part) for part in parts)
    return shapes
