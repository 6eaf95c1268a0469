"""Tiles on a machine: the bytes each takes in its scratchpad, and the limits it meets."""

from dataclasses import dataclass
from math import prod
from typing import Any

from tilewright.graph.graph import Graph
from tilewright.graph.ops.spec import Engine, Tile
from tilewright.legalise import LimitCheck, array_limits, fits_limits
from tilewright.legalise.limits import ALIGNMENT, aligned, is_packed
from tilewright.machine.machine import Machine
from tilewright.program.layout import Layouts
from tilewright.tables import picked
from tilewright.tiling.group import GroupTiles, TiledOp
from tilewright.units import noun

_FILTER_RANK = 3  # weights of windows have space behind their channels


@dataclass(frozen=True, slots=True)
class OnMachine:
    """A machine and element type to look at tiles with."""

    machine: Machine
    dtype: str
    layouts: Layouts

    @staticmethod
    def of(graph: Graph, machine: Machine, dtype: str) -> "OnMachine":
        """The machine for tiles of a network."""
        return OnMachine(machine, dtype, Layouts.of(graph, machine, dtype))

    @property
    def usable(self) -> int:
        """Bytes that the smallest core can give to a tile."""
        return min(core.memory.usable for core in self.machine.cores)

    def bytes(self, tiled: TiledOp, tile: Tile) -> int:
        """Bytes of all that a tile reads and writes, channels aligned, each buffer aligned."""
        total = 0
        for position, operand in enumerate(tiled.op.inputs):
            box = tile.input_box(position)
            if operand is None or box is None or box.empty:
                continue
            name = tiled.node.inputs[position]
            if operand.constant:
                item = self.layouts.item(name)
                total += self._buffer(prod(self._weight_shape(tiled, box.shape)) * item)
            else:
                total += self._image(name, box.shape)
        for name, box in zip(tiled.node.outputs, tile.outputs, strict=True):
            if box is not None and not box.empty:
                total += self._image(name, box.shape)
        return total + self._weight_table(tiled, tile)

    def record(self, tiled: TiledOp, tile: Tile) -> dict[str, Any]:
        """The facts of a tile that JSON gets."""
        needed = self.bytes(tiled, tile)
        return {
            "bytes": needed,
            "fits": needed <= self.usable,
            "limits": [
                {
                    **picked(check, "limit", "value", "allowed", "met"),
                    "legalised": check.remedy or None,
                }
                for check in array_limits(tiled.op, tile, self.machine)
            ],
        }

    def verdict(self, tiled: TiledOp, tile: Tile) -> str:
        """The limits of a tile in a word, for a table."""
        checks = array_limits(tiled.op, tile, self.machine)
        broken = [c.limit for c in checks if not c.met and c.limit != ALIGNMENT]
        if broken:
            binds = fits_limits(tiled.op, tile, self.machine)
            return f"{'broken' if binds else 'vector engine'}: {', '.join(broken)}"
        return "met" if checks else "none"

    def _image(self, name: str, shape: tuple[int, ...]) -> int:
        """A tensor as plans lay it: images have their channels aligned, unless they stay packed."""
        return self._buffer(self.layouts.bytes(name, shape, aligned=True))

    def _buffer(self, size: int) -> int:
        return aligned(size, max(core.memory.alignment for core in self.machine.cores))

    def _weight_shape(self, tiled: TiledOp, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Filters are expanded with their channels; those of a group, or of a packed input, only
        in number."""
        window = tiled.spec.engine is Engine.MATRIX and tiled.spec.family == "window"
        if not window or len(shape) < _FILTER_RANK:
            return shape
        grain = self.machine.limits.channel_alignment
        alone = tiled.op.int_of("group", 1) > 1 or is_packed(tiled.op, self.machine)
        inner = shape[1] if alone else aligned(shape[1], grain)
        return (aligned(shape[0], grain), inner, *shape[2:])

    def _weight_table(self, tiled: TiledOp, tile: Tile) -> int:
        if tiled.spec.engine is not Engine.MATRIX:
            return 0
        limits, shape = self.machine.limits, tile.output.shape
        channels = shape[1] if tiled.spec.family == "window" else shape[-1]
        return self._buffer(aligned(channels, limits.channel_alignment) * limits.weight_table)


def limit_lines(group: GroupTiles, on: OnMachine) -> list[str]:
    """Every limit of every node once, with the tiles that break it and what is done then."""
    lines: list[str] = []
    for tiled in group.ops:
        found: dict[LimitCheck, list[int]] = {}
        count = 0
        for number, index in enumerate(group.indices):
            tile = group.tile(tiled, index)
            if tile is None:
                continue
            count += 1
            for check in array_limits(tiled.op, tile, on.machine):
                found.setdefault(check, []).append(number)
        met: dict[str, LimitCheck] = {}  # the tile that comes closest stands for all
        for check in found:
            known = met.get(check.limit)
            if check.met and (known is None or check.value > known.value):
                met[check.limit] = check
        if met:
            lines.append(f"{tiled.node.name} meets {', '.join(map(str, met.values()))}")
        for check, tiles in found.items():
            if not check.met:
                where = f"{noun(len(tiles), 'tile')} {_ranges(tiles)}"
                where = "every tile" if len(tiles) == count else where
                verb = "needs" if check.limit == ALIGNMENT else "breaks"
                lines.append(f"{tiled.node.name} {verb} {check} ({where})")
    return lines


def _ranges(numbers: list[int]) -> str:
    """`0-3, 7`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
