"""What kind of file a person gave to `tilewright check`, seen from its content."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

# Every kind, and the keys by which a file of it is told.
KNOWN = {
    "machine": "cores, memories, links, or extends",
    "processor": "kind",
    "plan": "model and a list of groups",
    "patterns": "a list with operators and action",
    "space": "axes",
    "nest": "loops",
    "accelerator of Stream": "cores and core_connectivity",
    "core of Stream": "operational_array",
    "mapping of Stream": "a list with core_allocation, or layers",
}
UNKNOWN = "unknown"
_MACHINE = {"extends", "cores", "memories", "links", "clock", "limits", "energy"}
_PATTERN = {"operators", "action"}
_BINARY = frozenset({*range(9), *range(14, 27), *range(28, 32)})  # what no text holds
_OTHERS = {
    ".onnx": "an ONNX model (tilewright show model FILE)",
    ".pt": "a PyTorch file (give a function that makes the module: file.py:build)",
    ".pth": "a PyTorch file (give a function that makes the module: file.py:build)",
    ".py": "Python (a torch module is given as FILE:build to plan and partition)",
    ".npz": "arrays of numpy (for tilewright run --inputs)",
    ".csv": "a table",
    ".html": "a page for a browser",
    ".png": "a picture",
}


def kind_of(path: Path) -> str:
    """The kind of a file, or `UNKNOWN`. Where its YAML is broken, keys at the left margin tell."""
    import yaml

    from tilewright.machine.document import text_of

    try:
        text = text_of(path)
    except (OSError, ValueError):
        return UNKNOWN
    try:
        content: object = yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError):
        return _of_keys(dict.fromkeys(re.findall(r"^(\w+):", text, re.MULTILINE)))
    if isinstance(content, list):
        return _of_list(cast("list[object]", content))
    return _of_keys(cast("dict[object, object]", content)) if isinstance(content, dict) else UNKNOWN


def _of_list(entries: list[object]) -> str:
    keys: set[object] = {
        k for e in entries if isinstance(e, dict) for k in cast("dict[object, object]", e)
    }
    if "core_allocation" in keys:
        return "mapping of Stream"
    return "patterns" if not entries or keys & _PATTERN else UNKNOWN


def _of_keys(top: Mapping[object, object]) -> str:
    """Stream's files have keys of their own; a mapping with a list of groups is a plan."""
    if top.keys() & {"core_connectivity", "offchip_core_id", "offchip_core"}:
        return "accelerator of Stream"
    if "operational_array" in top:
        return "core of Stream"
    if top.keys() & {"fused_groups", "layers"}:
        return "mapping of Stream"
    if "cores" in top:
        return "machine"
    if isinstance(top.get("groups"), list) or "model" in top:
        return "plan"
    for key, kind in (
        ("axes", "space"),
        ("loops", "nest"),
        ("nest", "nest"),
        ("kind", "processor"),
    ):
        if key in top:
            return kind
    return "machine" if top.keys() & _MACHINE else UNKNOWN


def looks_like(path: Path) -> str:
    """What a file of no known kind is, as far as its name and its first bytes tell."""
    from tilewright.machine.document import LARGEST, text_of

    if path.is_dir():
        return "a folder (tilewright verify FOLDER checks that of a run)"
    with path.open("rb") as stream:
        data = stream.read(LARGEST + 1)
    if not data.strip():
        return "empty"
    if path.suffix.lower() in _OTHERS:
        return _OTHERS[path.suffix.lower()]
    if data[:4] == b"PK\3\4":
        return "an archive"
    if not _BINARY.isdisjoint(data):
        return "binary, maybe an ONNX model (these end in .onnx)"
    try:
        text = text_of(path)
    except UnicodeDecodeError:
        return "text, but not in UTF-8"
    try:
        return f"JSON{_keys(json.loads(text))}"
    except (ValueError, RecursionError):
        return _of_text(text)


def _of_text(text: str) -> str:
    import yaml

    try:
        content: object = yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "it cannot be read"
        line = f" (line {mark.line + 1}: {problem})" if mark is not None else ""
        return f"text, and no YAML{line}"
    told = _keys(content)
    return f"YAML{told}" if isinstance(content, dict | list) else "text without keys"


def _keys(content: object) -> str:
    if isinstance(content, dict):
        keys = list(map(str, cast("dict[object, object]", content)))
        more = ", ..." if len(keys) > 5 else ""
        return f" with the keys {', '.join(keys[:5])}{more}" if keys else " without any key"
    return " that is a list" if isinstance(content, list) else " without keys"


def unknown_kind(path: Path) -> str:
    """The fault of a file of no known kind."""
    if not path.exists():
        return "there is no such file"
    known = "; ".join(f"{kind} ({keys})" for kind, keys in KNOWN.items())
    try:
        return f"is {looks_like(path)}: no kind of file that can be checked; known are {known}"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
