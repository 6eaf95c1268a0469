"""Frozen values as JSON and back: programs, placements, machines. No pickles.

A dataclass is written as `{"Task": [field, field, ...]}`; the file says which fields that are, so a
file of another version is refused and not misread. What can be read back is found by walking the
type hints from `Placed` and `Machine`: a new field or a new class needs no change here.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_type_hints

import numpy as np

from tilewright.errors import OutputError, TilewrightError
from tilewright.machine.machine import Machine
from tilewright.program.place import Placed

VERSION = 1
_ROOTS = (Placed, Machine)
_PLAIN_TYPES = frozenset({type(None), bool, int, float, str})
_T = TypeVar("_T")


class StoreError(TilewrightError):
    """A stored file cannot be read back; the text names the file."""


def save(value: object, path: Path) -> None:
    """Write a `Placed` or a `Machine`."""
    encoder = _Encoder()
    content = encoder.encode(value)
    fields_of = dict(sorted(encoder.seen.items()))
    document = {"version": VERSION, "fields": fields_of, "content": content}
    try:
        path.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror or error}") from None


def load(kind: type[_T], path: Path) -> _T:
    """Read what `save` wrote."""
    document = load_json(path)
    if document.get("version") != VERSION:
        raise StoreError(f"'{path}' is of version {document.get('version')}, not {VERSION}")
    given: object = document.get("fields")
    if not isinstance(given, dict):
        raise StoreError(f"'{path}' does not say which fields it holds")
    classes = _classes()
    for name, names in cast(dict[str, Any], given).items():
        if name not in classes or names != _field_names(classes[name]):
            raise StoreError(f"'{path}' was written by another version: '{name}' differs")
    try:
        value = _decode(document.get("content"), classes)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise StoreError(f"'{path}' is damaged: {error}") from None
    if not isinstance(value, kind):
        raise StoreError(f"'{path}' does not hold a {kind.__name__}")
    return value


def load_json(path: Path) -> dict[str, Any]:
    """A JSON file that holds a mapping."""
    try:
        document: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"cannot read '{path}': {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise StoreError(f"'{path}' is not JSON") from None
    if not isinstance(document, dict):
        raise StoreError(f"'{path}' is not a mapping")
    return cast(dict[str, Any], document)


@lru_cache(maxsize=1)
def _classes() -> Mapping[str, type]:
    """Every dataclass and enumeration that a root may hold, by name; with the name of its module
    where two have the same."""
    found: dict[type, None] = {}
    for root in _ROOTS:
        _collect(root, found)
    by_name: dict[str, list[type]] = {}
    for cls in found:
        by_name.setdefault(cls.__name__, []).append(cls)
    return {
        name if len(group) == 1 else f"{cls.__module__.removeprefix('tilewright.')}.{name}": cls
        for name, group in by_name.items()
        for cls in group
    }


def _collect(hint: Any, found: dict[type, None]) -> None:
    for part in get_args(hint):
        _collect(part, found)
    if not isinstance(hint, type) or hint in found:
        return
    kind = cast(type[Any], hint)
    if issubclass(kind, Enum):
        found[kind] = None
    elif names := _field_names(kind):
        found[kind] = None
        hints = get_type_hints(kind)
        for name in names:
            _collect(hints[name], found)


def _field_names(cls: type) -> list[str]:
    """The fields of a dataclass or a named tuple; nothing of other classes."""
    named: tuple[str, ...] = getattr(cls, "_fields", ())
    return [field.name for field in fields(cls)] if is_dataclass(cls) else list(named)


class _Encoder:
    """Values as JSON; `seen` are the classes met and their fields. What is held twice is encoded
    once."""

    def __init__(self) -> None:
        self.names = {cls: name for name, cls in _classes().items()}
        self.seen: dict[str, list[str]] = {}
        self.known: dict[int, Any] = {}

    def encode(self, value: object) -> Any:
        """Plain data for `json`."""
        kind = type(value)
        if kind in _PLAIN_TYPES:
            return value
        if kind is tuple or kind is list:
            items = cast(tuple[object, ...], value)
            return [i if type(i) in _PLAIN_TYPES else self.encode(i) for i in items]
        if kind in self.names:
            known = self.known.get(id(value))
            if known is None:
                known = self.known[id(value)] = self._record(value, self.names[kind])
            return known
        return self._other(value)

    def _record(self, value: object, name: str) -> Any:
        if isinstance(value, Enum):
            return {name: value.value}
        keys = self.seen.get(name)
        if keys is None:
            keys = self.seen[name] = _field_names(type(value))
        return {name: [self.encode(getattr(value, key)) for key in keys]}

    def _other(self, value: object) -> Any:
        if isinstance(value, np.generic):
            return cast(Any, value).item()
        if isinstance(value, bool | int | float):
            return value
        if isinstance(value, Mapping):
            pairs = cast(Mapping[str, object], value).items()
            return {"map": [[key, self.encode(item)] for key, item in pairs]}
        if isinstance(value, np.ndarray):
            array = cast("np.ndarray[Any, np.dtype[Any]]", value)
            return {"array": [str(array.dtype), list(array.shape), array.ravel().tolist()]}
        if isinstance(value, Fraction):
            return {"fraction": str(value)}
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        raise TypeError(f"a {type(value).__name__} cannot be stored")


def _array(parts: list[Any]) -> object:
    dtype, shape, numbers = parts
    return np.array(numbers, dtype=dtype).reshape(shape)


_PLAIN: Mapping[str, Callable[[Any], object]] = {
    "array": _array,
    "fraction": Fraction,
    "bytes": bytes.fromhex,
}


def _decode(value: Any, classes: Mapping[str, type]) -> object:
    if isinstance(value, list):
        return tuple(_decode(item, classes) for item in cast(list[Any], value))
    if not isinstance(value, dict):
        return value
    ((name, content),) = cast(dict[str, Any], value).items()
    if name in _PLAIN:
        return _PLAIN[name](content)
    if name == "map":
        return {key: _decode(item, classes) for key, item in content}
    cls = classes[name]
    if issubclass(cls, Enum):
        return cls(content)
    return cls(*(_decode(item, classes) for item in content))
