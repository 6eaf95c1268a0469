"""YAML files of other tools, read with errors that name file, line and key."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tilewright.machine.document import Document
from tilewright.machine.faults import Fault, FileError, Keys

MOST = 2**48
"""Sizes and counts beyond this are mistakes: their products would not be exact any more."""


class InputFileError(FileError):
    """A file of another tool that cannot be understood: which file, line and key, and why."""


def fault(file: Path, key: str, text: str, line: int | None = None) -> InputFileError:
    """One line: the file, the line, the key (if it is about one) and what is wrong. The line of a
    key is looked up."""
    if line is None and key:
        try:
            _, line = _document(file).find(_keys(key))
        except FileError:
            line = None  # the file was read before: it is no YAML, or was changed
    return InputFileError([Fault(str(file), line, key, text)])


def read_yaml(file: Path) -> object:
    """The file as plain data."""
    if not file.exists():
        raise fault(file, "", "there is no such file")
    try:
        return _document(file).top
    except FileError as error:
        raise InputFileError(error.faults) from None


def _document(file: Path) -> Document:
    return Document(file, "such a file", listed=None)


def _keys(key: str) -> Keys:
    """A key as `Section` writes it, one level below the other: `layers[2].core_allocation`."""
    return tuple(
        int(part[1:]) if part.startswith("[") else part
        for part in re.findall(r"\[\d+(?=\])|[^.\[\]]+", key)
        if part
    )


class FileSection:
    """A mapping of a file, whose keys are asked for one by one; what nobody asked for is left."""

    def __init__(self, file: Path, where: str, tree: object, what: str = "a mapping") -> None:
        if not isinstance(tree, dict):
            raise fault(file, where, f"has to be {what} of keys")
        self.file, self.where = file, where
        pairs = cast("dict[object, Any]", tree)
        self.tree: Mapping[str, Any] = {str(key): value for key, value in pairs.items()}
        self.asked: set[str] = set()

    def key(self, name: str) -> str:
        """How messages call a key of this section."""
        return f"{self.where}.{name}" if self.where else name

    def error(self, name: str, text: str) -> InputFileError:
        """Something that is wrong with one of its keys."""
        return fault(self.file, self.key(name), text)

    def get(self, name: str, default: object = None) -> Any:
        """A value, or the default where the key is not there."""
        self.asked.add(name)
        value = self.tree.get(name)
        return default if value is None else value

    def need(self, name: str) -> Any:
        """A value that has to be there."""
        value = self.get(name)
        if value is None:
            raise self.error(name, "is missing")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A text (numbers are texts too: names may look like them)."""
        value = self.need(name) if default is None else self.get(name, default)
        if not isinstance(value, str | int | float):
            raise self.error(name, "has to be a text")
        return str(value)

    def number(self, name: str, default: float | None = None, least: float = 0.0) -> float:
        """A number that is not below `least`."""
        value = self.need(name) if default is None else self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(name, f"has to be a number, not {value!r}")
        if not value >= least or value == float("inf"):
            raise self.error(name, f"is {value}, has to be a number of at least {least:g}")
        if value > MOST:
            raise self.error(name, "has to be at most 2**48")
        return float(value)

    def count(self, name: str, default: int | None = None, least: int = 1) -> int:
        """A whole number of at least `least`."""
        value = self.number(name, None if default is None else float(default), float(least))
        if value != int(value):
            raise self.error(name, f"has to be a whole number, not {value}")
        return int(value)

    def section(self, name: str) -> "FileSection":
        """A mapping below."""
        return FileSection(self.file, self.key(name), self.need(name))

    def items(self, name: str, *, needed: bool = True) -> Sequence[Any]:
        """A list below; nothing where it is not there and not needed."""
        value = self.need(name) if needed else self.get(name, [])
        if not isinstance(value, list):
            raise self.error(name, "has to be a list")
        return cast("list[Any]", value)

    def left(self, known: Collection[str] = ()) -> list[str]:
        """Keys that nobody asked for, but for those that are `known` to have no bearing."""
        names = [name for name in self.tree if name not in self.asked]
        return [self.key(name) for name in names if name not in known]


def whole(text: str) -> int | None:
    """The number that a text of plain digits is; None for any other text, and beyond MOST."""
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MOST)):
        return None
    return int(text) if int(text) <= MOST else None


def notes_of(file: Path, keys: Iterable[str]) -> tuple[str, ...]:
    """One remark about the keys of a file that are not needed."""
    names = list(dict.fromkeys(keys))
    return (f"{file}: not needed, left aside: {', '.join(names)}",) if names else ()
