"""Reads machine files: a shipped one by name, or anyone's by path.

A file may say `extends: npu-2.7` and then only what differs: mappings are merged key by key, null
takes a key away, anything else replaces what was there.
"""

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError

from tilewright.errors import TilewrightError
from tilewright.machine.build import build_machine
from tilewright.machine.machine import Machine
from tilewright.machine.schema import MachineFile

_TAGS = {"array", "vector", "table"}  # what the engine union adds to a key path
Tree = dict[str, Any]


class MachineError(TilewrightError):
    """A machine file is wrong; the text names the file and the key."""


def list_machines() -> tuple[str, ...]:
    """Names of the machines that come with Tilewright."""
    return tuple(sorted(_shipped()))


def load_machine(name_or_path: str | Path) -> Machine:
    """A shipped machine by name, or the machine in a YAML file."""
    return _load(str(name_or_path))


@lru_cache(maxsize=64)
def _load_shipped(name: str) -> Machine:
    return _build(_shipped()[name], name)


def _load(name: str) -> Machine:
    if name in _shipped():
        return _load_shipped(name)
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        known = ", ".join(list_machines())
        raise MachineError(f"no machine '{name}': give one of {known}, or a .yaml file")
    if not path.is_file():
        raise MachineError(f"{path}: no such machine file")
    return _build(path, path.stem)


def _build(file: Path | Traversable, default_name: str) -> Machine:
    where = str(file) if isinstance(file, Path) else file.name
    tree = {"name": default_name, **_resolved(file, ())}
    try:
        return build_machine(MachineFile.model_validate(tree))
    except ValidationError as error:
        raise MachineError(f"{where}: {_first_complaint(error)}") from None
    except TilewrightError as error:
        raise MachineError(f"{where}: {error}") from None


def _first_complaint(error: ValidationError) -> str:
    problems = error.errors(include_url=False)
    first = problems[0]
    place = [str(part) for part in first["loc"]]
    keys = [
        p for i, p in enumerate(place) if not (p in _TAGS and place[max(0, i - 2)] == "engines")
    ]
    keys = [key for key in keys if not key.startswith("function-")]
    text = first["msg"].removeprefix("Value error, ")
    given: object = first["input"]
    shown = f", not '{given}'" if isinstance(given, str | int | float) and "'" not in text else ""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{'.'.join(keys) or 'machine'}: {text}{shown}{more}"


def _resolved(file: Path | Traversable, seen: tuple[str, ...]) -> Tree:
    """The file's mapping with what it extends merged below it."""
    where = str(file)
    if where in seen:
        raise MachineError(f"{where}: extends itself")
    tree = _read(file)
    base = tree.pop("extends", None)
    if base is None:
        return tree
    below = _resolved(_base(str(base), file), (*seen, where))
    return _merged({key: value for key, value in below.items() if key != "name"}, tree)


def _base(name: str, file: Path | Traversable) -> Path | Traversable:
    if name in _shipped():
        return _shipped()[name]
    beside = file.parent / name if isinstance(file, Path) else None
    if beside is None or not beside.is_file():
        raise MachineError(f"{file}: extends: no machine '{name}'")
    return beside


def _read(file: Path | Traversable) -> Tree:
    try:
        tree: object = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark is not None else ""
        raise MachineError(f"{file}: not YAML:{line} {getattr(error, 'problem', '')}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise MachineError(f"{file}: cannot be read: {error}") from None
    if not isinstance(tree, dict):
        raise MachineError(f"{file}: a machine file is a mapping of keys")
    return cast(Tree, tree)


def _merged(below: Tree, above: Mapping[str, Any]) -> Tree:
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(old, dict) and isinstance(value, dict):
            result[key] = _merged(cast(Tree, old), cast(Tree, value))
        else:
            result[key] = value
    return result


@lru_cache(maxsize=1)
def _shipped() -> Mapping[str, Traversable]:
    folder = files("tilewright.machine") / "targets"
    return {f.name.removesuffix(".yaml"): f for f in folder.iterdir() if f.name.endswith(".yaml")}
