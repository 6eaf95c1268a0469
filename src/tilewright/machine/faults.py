"""What is wrong with a file: a key, a text, and where it stands; all of it at once."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

from tilewright.errors import TilewrightError

Keys = tuple[int | str, ...]
_T = TypeVar("_T")


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

    def __init__(self, faults: Sequence[Fault], options: str = "") -> None:
        """`options` of `tilewright check` that it takes to see them."""
        self.faults = tuple(faults)
        more = len(self.faults) - 1
        where = any(fault.line is not None for fault in self.faults)
        check = f": tilewright check {self.faults[0].file}{options}" if where else ""
        hint = f" (and {more} more{check})" if more else ""
        super().__init__(f"{self.faults[0]}{hint}")


class KeyFaultsError(Exception):
    """Faults by their keys, before anyone has looked up where these stand."""

    def __init__(self, faults: Sequence[tuple[Keys, str]]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{written(keys)}: {text}" for keys, text in self.faults))


def key_fault(keys: Keys, text: str) -> KeyFaultsError:
    """One fault of a key."""
    return KeyFaultsError([(keys, text)])


class Faults:
    """Faults of a file that is read on although some were found."""

    def __init__(self) -> None:
        self.found: list[tuple[Keys, str]] = []

    def take(self, read: Callable[[], _T], otherwise: _T) -> _T:
        """What is read, or something in its place where that is wrong."""
        try:
            return read()
        except KeyFaultsError as error:
            self.found += error.faults
            return otherwise

    def unknown(self, keys: Iterable[object], known: Collection[str], where: Keys = ()) -> None:
        """Keys that nobody reads."""
        for key in keys:
            if key not in known:
                near = get_close_matches(str(key), known, 1)
                hint = f"did you mean '{near[0]}'? " if near else ""
                text = f"no such key: {hint}known are {', '.join(sorted(known))}"
                self.found.append(((*where, str(key)), text))

    def end(self) -> None:
        """Raise what was found."""
        if self.found:
            raise KeyFaultsError(tuple(dict.fromkeys(self.found)))


def written(keys: Keys) -> str:
    """Keys as people write them: `rows[0].cycles`."""
    parts = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return "".join(parts).removeprefix(".")
