"""Nests as YAML: printed, edited by hand, read again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from tilewright.kernel.nest import Nest
from tilewright.kernel.problem import KernelError
from tilewright.machine.document import text_of

# Section and key of every choice, in the order they are written.
KEYS = {
    ("tiles", "in"): "tile_in",
    ("tiles", "out"): "tile_out",
    ("tiles", "rows"): "tile_rows",
    ("tiles", "cols"): "tile_cols",
    ("tiles", "block_rows"): "block_rows",
    ("input", "load"): "x_at",
    ("input", "copy"): "x_copy_at",
    ("input", "copy_engine"): "x_copy_engine",
    ("input", "buffers"): "x_buffers",
    ("weights", "load"): "w_at",
    ("weights", "cast"): "w_cast_at",
    ("weights", "transpose"): "w_transpose_at",
    ("weights", "engine"): "w_engine",
    ("weights", "buffers"): "w_buffers",
    ("accumulate", "operands"): "compute",
    ("accumulate", "psum"): "psum",
    ("accumulate", "flush"): "flush_at",
    ("accumulate", "flush_engine"): "flush_engine",
    ("accumulate", "buffers"): "psum_buffers",
    ("result", "bias"): "bias",
    ("result", "pool_first"): "pool_first",
    ("result", "store"): "store",
    ("result", "buffers"): "out_buffers",
}
_OPTIONAL = frozenset({"x_copy_at", "w_cast_at", "flush_at"})


def nest_text(nest: Nest) -> str:
    """A nest as YAML."""
    document: dict[str, Any] = {"nest": nest.name, "loops": list(nest.order)}
    for (section, key), name in KEYS.items():
        document.setdefault(section, {})[key] = getattr(nest, name)
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=100)


def read_nest(path: Path) -> Nest:
    """A nest from a YAML file; what is wrong is named with file and key."""
    try:
        document: Any = yaml.safe_load(text_of(path))
    except OSError as error:
        raise KernelError(f"cannot read '{path}': {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark is not None else ""
        raise KernelError(f"'{path}' is not YAML:{line} {getattr(error, 'problem', '')}") from None
    return parse_nest(document, str(path), path.stem)


def parse_nest(document: Any, where: str, name: str = "nest") -> Nest:
    """A nest from what a YAML file holds."""
    top = _mapping(document, where, "the nest")
    sections = list(dict.fromkeys(section for section, _ in KEYS))
    for key in top:
        if key not in ("nest", "loops", *sections):
            known = ", ".join(("nest", "loops", *sections))
            raise KernelError(f"{where}: no key '{key}'; known are {known}")
    values: dict[str, Any] = {"name": str(top.get("nest", name))}
    if "loops" in top:
        loops = top["loops"]
        if not isinstance(loops, list):
            raise KernelError(f"{where}: 'loops' has to be a list of loops, outer first")
        values["order"] = tuple(str(loop) for loop in cast(list[Any], loops))
    for section in sections:
        entries = _mapping(top.get(section) or {}, where, section)
        for key, value in entries.items():
            field = KEYS.get((section, str(key)))
            if field is None:
                known = ", ".join(k for s, k in KEYS if s == section)
                raise KernelError(f"{where}: {section} has no key '{key}'; known are {known}")
            values[field] = _value(field, value, f"{where}: {section}.{key}")
    return Nest(**values)


def _value(field: str, value: Any, where: str) -> Any:
    """A value of the type that the field's default has."""
    default = getattr(Nest("", (), 1), field)
    if field in _OPTIONAL:
        if value is not None and not isinstance(value, str):
            raise KernelError(f"{where} has to name a loop, or be null; is '{value}'")
        return value
    wanted = {bool: "true or false", int: "a whole number", str: "text"}[type(default)]
    if type(value) is not type(default):
        raise KernelError(f"{where} has to be {wanted}, is '{value}'")
    return value


def _mapping(value: Any, where: str, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise KernelError(f"{where}: {what} has to be a mapping")
    return cast(Mapping[str, Any], value)
