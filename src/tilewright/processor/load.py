"""Reads processor files: a shipped one by name, or anyone's by path."""

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError

from tilewright.errors import TilewrightError
from tilewright.processor.schema import Processor


class ProcessorError(TilewrightError):
    """A processor file is wrong; the text names the file and the key."""


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
    return "kind" in _read(path)


def load_processor(name: str) -> Processor:
    """A shipped processor by name, or the one in a YAML file."""
    if name in _shipped():
        return _built(_shipped()[name], name, name)
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        raise ProcessorError(f"no processor '{name}': give one of {', '.join(list_processors())}")
    return _built(path, str(path), path.stem)


def _built(file: Path | Traversable, where: str, name: str) -> Processor:
    tree = {"name": name, **_read(file)}
    try:
        return Processor.model_validate(tree)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in problem["loc"])
        text = problem["msg"].removeprefix("Value error, ")
        raise ProcessorError(f"{where}: {key + ': ' if key else ''}{text}") from None


def _read(file: Path | Traversable) -> dict[str, Any]:
    try:
        tree: object = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ProcessorError(f"{file}: not YAML: {getattr(error, 'problem', '')}") from None
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ProcessorError(f"{file}: cannot be read: {error}") from None
    if not isinstance(tree, dict):
        raise ProcessorError(f"{file}: a processor file is a mapping of keys")
    return cast("dict[str, Any]", tree)


@lru_cache(maxsize=1)
def _shipped() -> Mapping[str, Traversable]:
    folder = files("tilewright.processor") / "targets"
    return {f.name.removesuffix(".yaml"): f for f in folder.iterdir() if f.name.endswith(".yaml")}
