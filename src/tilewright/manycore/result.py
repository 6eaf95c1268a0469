"""What planning on many cores gives a program: figures, a table by layer, files to save."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.files import path_of
from tilewright.manycore.plan import CorePlan
from tilewright.manycore.told import allocation, headline, lines, summary
from tilewright.planning.result import Failure
from tilewright.tables import Cell, Shown, Table

COLUMNS = "layer operator cores tiles macs cycles energy_pj start end"


@dataclass(frozen=True, slots=True, repr=False)
class CoresResult(Shown):
    """A network on the cores of an accelerator; `plan` has everything: the timed allocation, the
    placed program, the search's front, remarks."""

    plan: CorePlan

    @property
    def latency_cycles(self) -> int:
        """Cycles of one run, with the final write unless it was left out."""
        return self.plan.best.latency

    @property
    def energy_pj(self) -> float:
        """Energy of tiles and transfers."""
        return self.plan.best.energy

    @property
    def lower_bound_cycles(self) -> int:
        """Cycles that no allocation and no schedule can undercut."""
        return self.plan.found.bounds.cycles

    @property
    def exact(self) -> bool:
        """Whether every allocation was timed or bounded."""
        return self.plan.found.exact

    @property
    def allocation(self) -> dict[str, list[int]]:
        """Layer -> the cores of its parts, by their numbers in the file."""
        return allocation(self.plan)

    @property
    def verified(self) -> bool:
        """Whether it was executed and gave the original's numbers."""
        return self.plan.verified is not None

    @property
    def failure(self) -> Failure | None:
        """What was wrong with the numbers of its execution, if anything."""
        return self.plan.failure

    @property
    def summary(self) -> dict[str, Any]:
        """All figures, as summary.json has them."""
        return summary(self.plan)

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write pages, pictures, the trace and the figures. An earlier plan there is replaced only
        with `force`."""
        from tilewright.manycore.output import check_target, write_plan

        path = path_of(folder)
        check_target(path, force=force)
        write_plan(self.plan, path)
        return path

    def headline(self) -> Sequence[str]:
        """The lines that `tilewright plan --mapping` prints."""
        return [headline(self.plan), *lines(self.plan)]

    def as_table(self) -> Table:
        """One row per layer: its cores, tiles, work, what they take, and when they run."""
        plan, graph, best = self.plan, self.plan.tiles, self.plan.best
        cores = allocation(plan)
        computing = best.kind == 0
        tiles = best.item[computing]
        layer_of = np.array([tile.layer for tile in graph.tiles], dtype=np.int64)[tiles]
        part_of = np.array([tile.part for tile in graph.tiles], dtype=np.int64)[tiles]
        core_of = np.array(best.core_of, dtype=np.int64)[part_of]
        shapes = graph.tile_shape[tiles]
        macs = np.array([shape.macs for shape in graph.shapes], dtype=np.int64)[shapes]
        cycles = best.end[computing] - best.start[computing]
        energy = plan.evaluator.costs.energy[shapes, core_of]
        rows: list[tuple[Cell, ...]] = []
        for layer in plan.workload.layers:
            own = layer_of == layer.number
            rows.append(
                (
                    layer.name,
                    layer.kind,
                    " ".join(map(str, dict.fromkeys(cores[layer.name]))),
                    int(own.sum()),
                    int(macs[own].sum()),
                    int(cycles[own].sum()),
                    float(energy[own].sum()),
                    int(best.start[computing][own].min()),
                    int(best.end[computing][own].max()),
                )
            )
        return Table(
            f"layers of {plan.model} on {plan.fabric.accelerator.name}",
            tuple(COLUMNS.split()),
            tuple(rows),
        )
