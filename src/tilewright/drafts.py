"""Results that are written whole or not at all, and what goes wrong with that told in one line."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tilewright.errors import OutputError


@contextmanager
def writing(path: Path) -> Generator[None, None, None]:
    """While a file or a folder is written: why it cannot be is an OutputError that names it."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror or error}") from None


@contextmanager
def draft_in(folder: Path) -> Generator[Path, None, None]:
    """A folder for drafts within the one that results go to: moving them out is renaming."""
    with tempfile.TemporaryDirectory(prefix=".tilewright-", dir=folder) as place:
        yield Path(place)
