"""Files that results go to, and arrays in files."""

import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
from numpy.lib.npyio import NpzFile

from tilewright.drafts import draft_in, writing
from tilewright.errors import ModelError, OutputError
from tilewright.execute.arrays import write_npz
from tilewright.graph.graph import Array, Graph

_NPY = b"\x93NUMPY"
_NAMED = "arrays by the names of the inputs are what numpy.savez(FILE, NAME=array) writes"


def path_of(given: str | Path) -> Path:
    """Where a program wants a result."""
    try:
        return Path(given)
    except TypeError:
        what = "give the name of a file or a folder"
        raise OutputError(f"cannot write to {given!r}: {what}") from None


def check_writable(*paths: Path | None) -> None:
    """Raise before the work begins where a result could not be written; None is none to write."""
    for path in paths:
        if path is not None:
            _check_file(path)


def check_arrays_file(path: Path | None) -> None:
    """Raise before the work begins where arrays could not be written, or would be written under a
    name that says something else."""
    if path is not None and path.suffix.lower() != ".npz":
        text = "it will hold arrays by name: give a name that ends in .npz"
        raise OutputError(f"cannot write '{path}': {text}")
    check_writable(path)


def _check_file(path: Path) -> None:
    folder = path.parent
    if os.path.isdir(path):
        raise OutputError(f"cannot write '{path}': it is a folder")
    if not os.path.isdir(folder):
        raise OutputError(f"cannot write '{path}': there is no folder '{folder}'")
    exists = os.path.exists(path)
    if exists and not os.path.isfile(path):
        raise OutputError(f"cannot write '{path}': it is not an ordinary file")
    if not os.access(folder, os.W_OK) or (exists and not os.access(path, os.W_OK)):
        raise OutputError(f"cannot write '{path}': permission denied")
    with writing(path), draft_in(folder) as draft:  # not all folders tell beforehand
        (draft / path.name).touch()


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    with writing(path):
        path.write_text(text, encoding="utf-8")


def check_place(folder: Path) -> None:
    """Raise where nothing can be written to a folder, whatever is in it."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise OutputError(f"cannot write '{folder}': it is not a folder")
    target = folder.absolute()
    existing = next((p for p in (target, *target.parents) if os.path.lexists(p)), None)
    if existing is None or not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write '{folder}': '{existing}' is not a folder to write in")
    with writing(folder), draft_in(existing) as draft:  # not all folders tell beforehand
        (draft / target.relative_to(existing)).mkdir(parents=True, exist_ok=True)


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write text files into a folder by their names, all or none. Other files in it stay."""
    target = folder.absolute()
    with writing(folder):
        target.mkdir(parents=True, exist_ok=True)
        with draft_in(target) as draft:
            for name, text in texts.items():
                (draft / name).write_text(text, encoding="utf-8")
            for name in texts:
                os.replace(draft / name, target / name)


def load_inputs(given: Path | Mapping[str, Array], graph: Graph) -> dict[str, Array]:
    """Arrays for every input of the network, by name or from an .npz file."""
    if isinstance(given, Path):
        return _matching(load_npz(given), f"'{given}'", graph)
    return _matching(given, "what is given", graph)


def load_npz(path: Path) -> dict[str, Array]:
    """The arrays of a file, by their names."""
    try:
        if not os.path.isdir(path) and not zipfile.is_zipfile(path):
            raise ValueError(_no_archive(path))
        stored = np.load(path)
        if not isinstance(stored, NpzFile):
            raise ValueError(_NAMED)
        with stored:
            return {name: stored[name] for name in stored.files}
    except OSError as error:
        raise ModelError(f"cannot read '{path}': {error.strerror or error}") from None
    except (ValueError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ModelError(f"cannot read '{path}' as .npz: {error}") from None


def _no_archive(path: Path) -> str:
    """What is wrong with a file that is none of several arrays."""
    with path.open("rb") as file:
        single = file.read(len(_NPY)) == _NPY
    return f"it holds one array without a name (.npy); {_NAMED}" if single else _NAMED


def _matching(arrays: Mapping[str, Array], label: str, graph: Graph) -> dict[str, Array]:
    """Of the arrays those that the network reads, each of the right type and shape."""
    for name in graph.inputs:
        if name not in arrays:
            raise ModelError(f"{label} has no array for input '{name}'")
        kind = graph.types[name]
        if not isinstance(cast(object, arrays[name]), np.ndarray | np.generic):
            text = f"{label} holds a {type(arrays[name]).__name__}"
            raise ModelError(f"input '{name}' is {kind}; {text}, not an array")
        if arrays[name].shape != kind.shape or str(arrays[name].dtype) != kind.dtype:
            raise ModelError(
                f"input '{name}' is {kind}; {label} holds {arrays[name].dtype}"
                f"{list(arrays[name].shape)}"
            )
    return {name: arrays[name] for name in graph.inputs}


def save_arrays(arrays: Mapping[str, Array], path: Path) -> None:
    """Write arrays as .npz, whole or not at all."""
    with writing(path), draft_in(path.parent) as folder:
        write_npz(arrays, folder / "arrays.npz")
        os.replace(folder / "arrays.npz", path)
