"""Tiles as JSON and as a table."""

from typing import TYPE_CHECKING, Any

from rich.table import Table

from tilewright.geometry.access import Reach
from tilewright.geometry.box import Box
from tilewright.graph.ops.spec import Tile
from tilewright.graph.ops.windows import window_of
from tilewright.tiling.grid import letters_of
from tilewright.tiling.group import GroupTiles, TiledOp
from tilewright.units import by, format_bytes

if TYPE_CHECKING:  # machines take half a second to import: only where one is asked for
    from tilewright.report.tiles_on import OnMachine

_SIDES = {
    4: ((2, "top", "bottom"), (3, "left", "right")),
    5: ((2, "front", "back"), (3, "top", "bottom"), (4, "left", "right")),
    3: ((2, "left", "right"),),
}


def sides_of(rank: int) -> tuple[str, ...]:
    """The sides that padding of a tensor is told for, in the order of its axes."""
    volume = tuple(side for _, *both in _SIDES[5] for side in both)
    return volume if rank == 5 else volume[2:]


def _pads(reaches: tuple[Reach, ...]) -> dict[str, int]:
    pads = dict.fromkeys(sides_of(len(reaches)), 0)
    for axis, before, after in _SIDES.get(len(reaches), ()):
        pads[before], pads[after] = reaches[axis].before, reaches[axis].after
    return pads


def _region(box: Box) -> list[list[int]]:
    return [[interval.start, interval.stop] for interval in box]


def _tile_record(tiled: TiledOp, tile: Tile, number: int, index: tuple[int, ...]) -> dict[str, Any]:
    inputs: list[dict[str, Any]] = []
    weights: list[dict[str, Any]] = []
    for position, (name, operand) in enumerate(
        zip(tiled.node.inputs, tiled.op.inputs, strict=True)
    ):
        reaches, box = tile.inputs[position], tile.input_box(position)
        if operand is None or reaches is None or box is None or box.empty:
            continue
        if operand.constant:
            weights.append({"name": name, "region": _region(box)})
        else:
            inputs.append({"name": name, "region": _region(box), "pads": _pads(reaches)})
    window = window_of(tiled.op)
    return {
        "node": tiled.node.name,
        "op": tiled.node.kind,
        "index": number,
        "position": list(index),
        "output": _region(tile.output),
        "inputs": inputs,
        "kernel": list(window.kernel) if window else None,
        "strides": list(window.strides) if window else None,
        "dilations": list(window.dilations) if window else None,
        "weights": weights,
    }


def tiles_json(group: GroupTiles, on: "OnMachine | None" = None) -> dict[str, Any]:
    """Every tile of every node, in running order, for a program to read; with a machine, what each
    takes of its scratchpad and which limits it meets."""
    records: list[dict[str, Any]] = []
    for number, index in enumerate(group.indices):
        for tiled in group.ops:
            tile = group.tile(tiled, index)
            if tile is not None:
                facts = on.record(tiled, tile) if on is not None else {}
                records.append(_tile_record(tiled, tile, number, index) | facts)
    machine: dict[str, Any] = {}
    if on is not None:
        machine = {"machine": on.machine.name, "dtype": on.dtype, "usable_bytes": on.usable}
    return machine | {
        "tiles": records,
        "grid": list(group.counts),
        "halo": [split.halo.value for split in group.splits],
        "recompute_ratio": group.recompute_ratio,
        "line_buffer_bytes": group.line_buffer_bytes,
        "outputs": [
            {
                "name": name,
                "written": [
                    _region(box)
                    for index in group.indices
                    if (box := group.values[name].write_box(index)) is not None and not box.empty
                ],
            }
            for name in group.outputs
        ],
        "recomputed_instead_of_cached": list(group.fallbacks),
    }


def _axes(box: Box, full: tuple[int, ...], signal: bool) -> str:
    """The cut axes of a region by name: `H 0-28`."""
    names = letters_of(len(box), signal)
    cut = [
        f"{names.get(axis, axis)} {interval}"
        for axis, (interval, extent) in enumerate(zip(box, full, strict=True))
        if interval.length != extent
    ]
    return ", ".join(cut) or "all"


def tiles_table(group: GroupTiles, tiled: TiledOp, on: "OnMachine | None" = None) -> Table:
    """One node's tiles, a row each, as a person reads them."""
    window = window_of(tiled.op)
    facts = f" kernel {by(window.kernel)} stride {by(window.strides)}" if window else ""
    if window and any(d > 1 for d in window.dilations):
        facts += f" dilation {by(window.dilations)}"
    shape = by(tiled.op.result().shape)
    table = Table(
        title=f"{tiled.node.name}: {tiled.node.kind}{facts} -> {shape}", title_justify="left"
    )
    data = [
        position
        for position, operand in enumerate(tiled.op.inputs)
        if operand is not None
        and not operand.constant
        and tiled.access[0].inputs[position] is not None
    ]
    table.add_column("tile", justify="right")
    table.add_column("output")
    table.add_column("output shape")
    for position in data:
        table.add_column(f"input {tiled.node.inputs[position]}")
        table.add_column("input shape")
        sides = sides_of(len(tiled.op.shape(position)))
        table.add_column(f"pads {'/'.join(s if len(sides) > 4 else s[0] for s in sides)}")
    if on is not None:
        table.add_column(f"bytes of {format_bytes(on.usable)}", justify="right")
        table.add_column(f"limits of {on.machine.name}")
    for number, index in enumerate(group.indices):
        tile = group.tile(tiled, index)
        if tile is None:
            continue
        written = _axes(tile.output, tiled.op.result().shape, group.signal)
        cells = [str(number), written, by(tile.output.shape)]
        for position in data:
            reaches, box = tile.inputs[position], tile.input_box(position)
            if reaches is None or box is None or box.empty:
                cells += ["-", "-", "-"]
                continue
            pads = "/".join(map(str, _pads(reaches).values()))
            cells += [_axes(box, tiled.op.shape(position), group.signal), by(box.shape), pads]
        if on is not None:
            needed = on.bytes(tiled, tile)
            full = "" if needed <= on.usable else ", too much"
            cells += [f"{format_bytes(needed)} ({needed / on.usable:.1%}{full})"]
            cells += [on.verdict(tiled, tile)]
        table.add_row(*cells)
    return table
