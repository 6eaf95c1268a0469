"""What is wrong with a file: a key, a text, and where it stands; all of it at once."""

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import TilewrightError

Keys = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a file. `line` counts from 1; None where the file has no such place."""

    file: str
    line: int | None
    key: str
    text: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        text = f"{self.key}: {self.text}" if self.key else self.text
        return f"{place}: {' '.join(text.split())}"  # one line, whatever the file holds


class FileError(TilewrightError):
    """A file is wrong. The text is its first fault, with file, line and key; `faults` are all."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        more = len(self.faults) - 1
        hint = f" (and {more} more: tilewright check {self.faults[0].file})" if more else ""
        super().__init__(f"{self.faults[0]}{hint}")


class KeyFaultsError(Exception):
    """Faults by their keys, before anyone has looked up where these stand."""

    def __init__(self, faults: Sequence[tuple[Keys, str]]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{written(keys)}: {text}" for keys, text in self.faults))


def written(keys: Keys) -> str:
    """Keys as people write them: `rows[0].cycles`."""
    parts = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return "".join(parts).removeprefix(".")
