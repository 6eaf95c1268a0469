"""Arrays by name in a file, as processes hand them to each other."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.lib.format import write_array

from tilewright.graph.graph import Array


def write_npz(arrays: Mapping[str, Array], path: Path) -> None:
    """As numpy.savez does, for arrays of any name (its parameters' names too)."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            plain = array.astype(str) if array.dtype == object else array
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                write_array(file, plain, allow_pickle=False)


def read_npz(path: Path) -> dict[str, Array]:
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}
