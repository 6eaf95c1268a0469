"""Costs of tiles: our model's, or those of a file that another tool wrote."""

import csv
from pathlib import Path

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.manycore.core_cost import core_costs
from tilewright.manycore.evaluate import ShapeCosts
from tilewright.manycore.fabric import Fabric
from tilewright.manycore.files import fault
from tilewright.manycore.tiles import TileGraph
from tilewright.manycore.workload import LOOPS

_COLUMNS = ("core", *LOOPS, "cycles")
IMPOSSIBLE = 1 << 40  # cycles of a tile on a core that cannot run it: never chosen


def own_costs(graph: TileGraph, fabric: Fabric) -> ShapeCosts:
    """What our model of cores says."""
    cycles, energy = core_costs([core for _, core in fabric.cores], graph.shapes)
    if np.any((cycles < 0).all(axis=1)):
        shape = graph.shapes[int(np.flatnonzero((cycles < 0).all(axis=1))[0])]
        raise TilewrightError(f"no core can run a tile with loops {shape.extents}")
    return ShapeCosts(np.where(cycles < 0, IMPOSSIBLE, cycles), energy)


def given_costs(graph: TileGraph, fabric: Fabric, file: Path) -> ShapeCosts:
    """The costs of a file with a row per shape and core: core, loop extents, cycles, energy_pj.
    What no row gives is an error that names the shape."""
    table = _read(file)
    cycles = np.zeros((len(graph.shapes), len(fabric.cores)), np.int64)
    energy = np.zeros((len(graph.shapes), len(fabric.cores)), np.float64)
    for row, shape in enumerate(graph.shapes):
        there = 0
        for column, (number, _) in enumerate(fabric.cores):
            found = table.get((number, shape.extents))
            there += found is not None
            cycles[row, column], energy[row, column] = found or (IMPOSSIBLE, 0.0)
        if not there:
            loops = ", ".join(f"{n}={e}" for n, e in zip(LOOPS, shape.extents, strict=True))
            raise fault(file, "", f"has no row for a tile with {loops}")
    return ShapeCosts(cycles, energy)


def _read(file: Path) -> dict[tuple[int, tuple[int, ...]], tuple[int, float]]:
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
    except FileNotFoundError:
        raise fault(file, "", "there is no such file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise fault(file, "", f"cannot be read: {error}") from None
    missing = [name for name in _COLUMNS if not rows or name not in rows[0]]
    if missing:
        raise fault(file, missing[0], "the column is missing")
    table: dict[tuple[int, tuple[int, ...]], tuple[int, float]] = {}
    for number, row in enumerate(rows, 2):
        try:
            key = int(row["core"]), tuple(int(row[name]) for name in LOOPS)
            cycles = float(row["cycles"])
            energy = float(row.get("energy_pj") or 0.0)
        except (TypeError, ValueError):
            raise fault(file, "", "has something that is no number", number) from None
        if not 1 <= cycles < IMPOSSIBLE or not energy >= 0:
            raise fault(file, "", "cycles have to be at least 1, energy 0", number)
        table[key] = round(cycles), energy
    return table
