"""Reads machine files: a shipped one by name, or anyone's by path.

A file may say `extends: npu-2.7` and then only what differs: mappings are merged key by key, null
takes a key away, anything else replaces what was there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache, partial
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from tilewright.errors import TilewrightError
from tilewright.machine.build import build_machine
from tilewright.machine.complaints import complaints
from tilewright.machine.document import Document, Tree, shipped_files
from tilewright.machine.ends import loose_ends
from tilewright.machine.faults import Fault, FileError, KeyFaultsError, Keys, written
from tilewright.machine.machine import Machine
from tilewright.machine.schema import MachineFile

_TOLD_ELSEWHERE = ("name", "title", "source", "sources")
_MOST_FILES = 16  # one above the other, by `extends`
_shipped = partial(shipped_files, "tilewright.machine")


def list_machines() -> tuple[str, ...]:
    """Names of the machines that come with Tilewright."""
    return tuple(sorted(_shipped()))


def load_machine(name_or_path: str | Path) -> Machine:
    """A shipped machine by name, or the machine in a YAML file. Raises `FileError` with all faults
    of the file, each with its line and key."""
    name = str(name_or_path)
    if name in _shipped():
        return _load_shipped(name)
    return _build(*_find(name))


def machine_tree(name_or_path: str | Path) -> Tree:
    """The mapping of a machine's file with what it extends, to change and to build again."""
    file, name = _find(str(name_or_path))
    return {"name": name, **_tree(_chain(file))}


def machine_of(tree: Tree, label: str) -> Machine:
    """The machine that a mapping describes; `label` is what faults call it. What it extends is a
    shipped machine, or a file."""
    base = tree.get("extends")
    if base is not None:
        below = {key: value for key, value in machine_tree(str(base)).items() if key != "name"}
        above = {key: value for key, value in tree.items() if key != "extends"}
        tree = _merged(below, above)
    try:
        return _checked(tree)
    except KeyFaultsError as error:
        faults = error.faults
    raise FileError([Fault(label, None, written(keys) or "machine", text) for keys, text in faults])


def _checked(tree: Tree) -> Machine:
    """The machine of a mapping without `extends`; raises `KeyFaultsError`."""
    try:
        context = {"source": tree.get("source")}
        machine = build_machine(MachineFile.model_validate(tree, context=context))
        return replace(machine, keys=tuple(_keys(tree, ())))
    except ValidationError as error:
        found = complaints(error, tree, MachineFile)
        raise KeyFaultsError([*found, *loose_ends(tree)]) from None


def _keys(tree: object, above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Every key that says something of the hardware, with what stands there."""
    if not isinstance(tree, dict):
        yield ".".join(above), " ".join(str(tree).split()).replace("'", "")
        return
    for key, value in cast(Tree, tree).items():
        if key not in _TOLD_ELSEWHERE:
            yield from _keys(value, (*above, str(key)))


def _find(name: str) -> tuple[Path | Traversable, str]:
    """The file of a machine, and how the machine is called if the file does not say."""
    if name in _shipped():
        return _shipped()[name], name
    path = Path(name)
    if path.is_dir():
        raise TilewrightError(f"'{name}' is a folder: give a machine's name, or a .yaml file")
    if path.suffix not in (".yaml", ".yml"):
        if path.is_file():
            raise FileError([Fault(name, None, "", "a machine file is called .yaml or .yml")])
        near = get_close_matches(name, list_machines(), 1)
        hint = f"did you mean '{near[0]}'? else " if near else ""
        known = ", ".join(list_machines())
        raise TilewrightError(f"no machine '{name}': {hint}give one of {known}, or a .yaml file")
    if not path.is_file():
        raise FileError([Fault(name, None, "", "no such machine file")])
    return path, path.stem


@lru_cache(maxsize=64)
def _load_shipped(name: str) -> Machine:
    return _build(_shipped()[name], name)


def _tree(documents: Sequence[Document]) -> Tree:
    tree: Tree = {}
    for document in reversed(documents):
        tree.pop("name", None)  # a machine is not called as what it extends
        tree = _merged(tree, document.tree)
    return tree


def _build(file: Path | Traversable, default_name: str) -> Machine:
    documents = _chain(file)
    try:
        return _checked({"name": default_name, **_tree(documents)})
    except KeyFaultsError as error:
        raise _located(error.faults, documents) from None


def _located(faults: Sequence[tuple[Keys, str]], documents: Sequence[Document]) -> FileError:
    """The faults with the lines of their keys, in the file that says so: the one given, or one that
    it extends and that is wrong by itself."""
    sound = (n for n, document in enumerate(documents) if n and _sound(document))
    wrong = next(sound, len(documents))
    found: list[Fault] = []
    for keys, text in faults:
        places = [(document, *document.find(keys)) for document in documents]
        document, depth, line = max(places[:wrong], key=lambda place: place[1])
        base, below, there = max(places, key=lambda place: place[1])
        elsewhere = f" (the key stands in {base.label}:{there})" if below > depth else ""
        found.append(Fault(document.label, line, written(keys) or "machine", f"{text}{elsewhere}"))
    first = documents[0].label
    found.sort(key=lambda f: (f.file != first, f.line is None, f.file, f.line or 0))
    return FileError(list(dict.fromkeys(found)))


def _sound(document: Document) -> bool:
    """Whether a file that another extends is a machine without faults."""
    try:
        _build(document.file, "base")
    except FileError:
        return False
    return True


def _chain(file: Path | Traversable) -> list[Document]:
    """The file, what it extends, what that extends, and so on."""
    documents = [Document(file)]
    while (base := documents[-1].tree.pop("extends", None)) is not None:
        document = documents[-1]
        line = document.find(("extends",))[1]
        below = _base(str(base), document.file)
        if below is None:
            known = ", ".join(list_machines())
            text = f"no file '{base}' beside this one, and no machine is called so: there are"
            raise document.error(f"{text} {known}", line, "extends")
        if any(str(below) == str(seen.file) for seen in documents):
            raise document.error("the file extends itself", line, "extends")
        if len(documents) == _MOST_FILES:
            raise document.error(f"more than {_MOST_FILES} files", line, "extends")
        documents.append(Document(below))
    return documents


def _base(name: str, file: Path | Traversable) -> Path | Traversable | None:
    if name in _shipped():
        return _shipped()[name]
    beside = file.parent / name if isinstance(file, Path) else None
    try:
        return beside if beside is not None and beside.is_file() else None
    except (OSError, ValueError):
        return None  # no name of a file


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
