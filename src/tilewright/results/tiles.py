"""Tiles of an operator or of a run of operators."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tilewright.report.tiles import sides_of, tiles_json
from tilewright.report.tiles_on import OnMachine
from tilewright.tables import Cell, Shown, Table
from tilewright.tiling.group import GroupTiles
from tilewright.units import format_bytes, noun


@dataclass(frozen=True, slots=True, repr=False)
class Tiles(Shown):
    """Every tile of an operator or of a fused run of operators; `machine` where one was given."""

    group: GroupTiles
    machine: OnMachine | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles along every dimension of the grid."""
        return self.group.counts

    @property
    def recompute_ratio(self) -> float:
        """Extra work of the tiles over that of the uncut operators."""
        return self.group.recompute_ratio

    @property
    def json(self) -> dict[str, Any]:
        """Everything, as `tilewright tile --json` prints it."""
        return tiles_json(self.group, self.machine)

    def headline(self) -> Sequence[str]:
        """Operators, grid, recomputed share."""
        group = self.group
        names = [tiled.node.name for tiled in group.ops]
        what = names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]} ({len(names)})"
        grid, count = " x ".join(map(str, group.counts)), prod(group.counts)
        tiles = f"{grid} {noun(count, 'tile')}"
        lines = [f"{what}: {tiles}; recomputed share {group.recompute_ratio:.1%}"]
        if group.line_buffer_bytes:
            kept = format_bytes(group.line_buffer_bytes)
            lines.append(f"line buffers kept between tiles: {kept}")
        if group.fallbacks:
            names = ", ".join(f"'{name}'" for name in group.fallbacks)
            how = noun(len(group.fallbacks), "is recomputed: its", "are recomputed: their")
            lines.append(f"{names} {how} rows are not needed in order")
        return lines

    def as_table(self) -> Table:
        """One row per tile of every operator: the region it writes, what it reads, its padding."""
        rows: list[tuple[Cell, ...]] = []
        tiles = self.json["tiles"]
        ranks = {len(i["region"]) for tile in tiles for i in tile["inputs"]}
        sides = sides_of(5 if 5 in ranks else 4)
        machine = ("bytes", "fits", "limits_broken") if self.machine is not None else ()
        for tile in tiles:
            read = "; ".join(f"{i['name']} {_region(i['region'])}" for i in tile["inputs"])
            pads = [" ".join(str(i["pads"].get(s, 0)) for s in sides) for i in tile["inputs"]]
            row = (tile["node"], tile["op"], tile["index"], _region(tile["output"]), read)
            # Limits that a tile breaks and that no rewrite meets.
            limits = (c for c in tile.get("limits", ()) if not c["met"] and c["legalised"] is None)
            broken = ", ".join(dict.fromkeys(check["limit"] for check in limits))
            on = (tile["bytes"], tile["fits"], broken) if machine else ()
            rows.append((*row, "; ".join(pads), *on))
        columns = ("node", "operator", "tile", "output", "inputs", f"pads_{'_'.join(sides)}")
        return Table("tiles", (*columns, *machine), tuple(rows))


def _region(region: list[list[int]]) -> str:
    return " x ".join(f"{start}-{stop}" for start, stop in region)
