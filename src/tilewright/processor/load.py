"""Reads processor files: a shipped one by name, or anyone's by path."""

from collections.abc import Mapping
from importlib.resources.abc import Traversable
from pathlib import Path

from pydantic import ValidationError

from tilewright.errors import TilewrightError
from tilewright.machine.complaints import complaints
from tilewright.machine.document import Document, shipped_files
from tilewright.machine.faults import FileError
from tilewright.processor.schema import Processor

_WHAT = "a processor file"


def list_processors() -> tuple[str, ...]:
    """Names of the processors that come with Tilewright."""
    return tuple(sorted(_shipped()))


def is_processor(name: str) -> bool:
    """Whether the name is a shipped processor's, or a file that describes one."""
    if name in _shipped():
        return True
    path = Path(name)
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return False
    return "kind" in Document(path, _WHAT).tree


def load_processor(name: str) -> Processor:
    """A shipped processor by name, or the one in a YAML file. Raises `FileError` with all faults of
    the file, each with its line and key."""
    path = Path(name)
    if name not in _shipped() and path.suffix not in (".yaml", ".yml"):
        known = ", ".join(list_processors())
        raise TilewrightError(f"no processor '{name}': give one of {known}")
    document = Document(_shipped().get(name, path), _WHAT)
    tree = {"name": name if name in _shipped() else path.stem, **document.tree}
    try:
        return Processor.model_validate(tree)
    except ValidationError as error:
        raise FileError(document.faults(complaints(error, tree, Processor))) from None


def _shipped() -> Mapping[str, Traversable]:
    return shipped_files("tilewright.processor")
