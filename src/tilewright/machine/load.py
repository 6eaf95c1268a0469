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
from pydantic_core import ErrorDetails

from tilewright.errors import TilewrightError
from tilewright.machine.build import build_machine
from tilewright.machine.machine import Machine
from tilewright.machine.schema import MachineFile

_TAGS = {"array", "vector", "table"}  # what the engine union adds to a key path
_EITHER = {"str", "dict[str,str]"}  # what the union of a source's forms adds
# Kinds of faults, and what they say: about the key itself, or about what has to stand there.
_PLAIN = {
    "missing": "is missing",
    "extra_forbidden": "no such key",
    "unexpected_keyword_argument": "no such key",
    "too_short": "has to have at least one entry",
    "invalid_key": "keys have to be text",
    "union_tag_not_found": "is missing",
}
_WANTED = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "dataclass_type"), "a mapping"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    "model_attributes_type": "a mapping",
    "string_type": "text",
    "finite_number": "a finite number",
    "literal_error": "one of {expected}",
    "union_tag_invalid": "one of {expected_tags}",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
}
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
        raise MachineError(f"{where}: {_first_complaint(error, tree)}") from None
    except TilewrightError as error:
        raise MachineError(f"{where}: {error}") from None


def _first_complaint(error: ValidationError, tree: Tree) -> str:
    """The key, what has to stand there, and what does."""
    problems = error.errors(include_url=False)
    keys = _keys(problems[0]["loc"])
    if problems[0]["type"].startswith("union_tag"):
        keys = (*keys, "model")  # what tells the kinds of engines apart
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")
    others = {_keys(problem["loc"]) for problem in problems[1:]} - {keys}
    more = f" (and {len(others)} more)" if others else ""
    return f"{path or 'machine'}: {_complaint(problems[0], keys, tree)}{more}"


def _keys(place: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """The keys of a place in the file, without what the checker adds to them."""
    found: list[int | str] = []
    for i, part in enumerate(place):
        tag = part in _TAGS and i > 1 and place[i - 2] == "engines"
        tag = tag or (part in _EITHER and i > 0 and place[i - 1] == "source")
        if not tag and not str(part).startswith("function-"):
            found.append(part)
    return tuple(found)


def _complaint(problem: ErrorDetails, keys: tuple[int | str, ...], tree: Tree) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "value_error":
        return problem["msg"].removeprefix("Value error, ")
    if kind in _PLAIN:
        return _PLAIN[kind]
    wanted = _WANTED.get(kind, "").format(**context)
    wanted = wanted or problem["msg"].removeprefix("Input should be ")  # as the checker says it
    if problem["loc"][-2:] == ("source", "str"):
        wanted = "text, or a mapping of texts"
    return f"has to be {wanted}, is {_shown(_given(problem, keys, tree))}"


def _given(problem: ErrorDetails, keys: tuple[int | str, ...], tree: Tree) -> object:
    """What stands in the file: the checker sees quantities without their units."""
    found: Any = tree
    try:
        for key in keys:
            found = found[key]
    except (KeyError, IndexError, TypeError):
        return problem["input"]
    return found


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "empty"
    return f"'{str(value).lower() if isinstance(value, bool) else value}'"


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
