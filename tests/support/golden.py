"""Texts compared with files, those of tests/golden and generated pages of docs/; `make golden`
writes all of them anew."""

import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden"


def check_golden(name: str | Path, text: str) -> None:
    """The text is the golden file's (by name, or a path); with TILEWRIGHT_GOLDEN=write it becomes
    so."""
    path = FOLDER / name
    if os.environ.get("TILEWRIGHT_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text(), f"{path.name} differs; if that is meant: make golden"
