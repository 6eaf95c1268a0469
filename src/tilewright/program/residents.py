"""Tensors that stay in the scratchpads between groups: which core holds which region of them.

A core's room for such a tensor is the hull of what its tiles write and what its tiles read. Who
writes a region keeps it, and copies to other cores what they read of it: halo rows where both sides
are split over the height, everything where channels meet (the halo exchange and the broadcast of
cluster strategies).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilewright.geometry.box import Box
from tilewright.machine.machine import Core
from tilewright.program.program import View
from tilewright.tiling.group import GroupTiles

Index = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CutGroup:
    """A group with its tiles and the core of each, in the order they run."""

    number: int
    tiles: GroupTiles
    turns: tuple[tuple[Index, Core], ...]
    everywhere: bool


@dataclass(frozen=True, slots=True)
class Room:
    """A core's region of a resident tensor: the bytes it has for it, and what its tiles read."""

    view: View
    box: Box
    read: Box | None


def regions(
    names: Iterable[str],
    groups: Iterable[CutGroup],
    reloaded: Mapping[str, frozenset[str]],
) -> Mapping[str, dict[str, tuple[Box, Box | None]]]:
    """For each resident tensor and core: all it has to hold of it, and what it reads of it.
    `reloaded` names nodes that read a tensor from the main memory all the same."""
    wanted = dict.fromkeys(names)  # in their order: buffers are numbered by it
    reads: dict[str, dict[str, Box]] = {name: {} for name in wanted}
    writes: dict[str, dict[str, Box]] = {name: {} for name in wanted}
    for group in groups:
        inputs = [
            (name, cuts)
            for name, cuts in group.tiles.inputs.items()
            if name in wanted and _reads_here(group, name, reloaded)
        ]
        outputs = [name for name in group.tiles.outputs if name in wanted]
        for index, core in group.turns if inputs or outputs else ():
            for name, cuts in inputs:
                _grow(reads[name], core.name, Box(tuple(cut.at(index) for cut in cuts)))
            for name in outputs:
                tiles = group.tiles.values[name]
                box = tiles.write_box(index)
                if box is not None and tiles.gives_at(index):
                    _grow(writes[name], core.name, box)
    found: dict[str, dict[str, tuple[Box, Box | None]]] = {}
    for name in wanted:
        rooms = {core: (box, reads[name].get(core)) for core, box in writes[name].items()}
        for core, box in reads[name].items():
            made = writes[name].get(core)
            rooms[core] = (box if made is None else box.hull(made), box)
        found[name] = rooms
    return found


def _reads_here(group: CutGroup, name: str, reloaded: Mapping[str, frozenset[str]]) -> bool:
    """Whether some operator of a group reads a resident tensor where it is."""
    readers = (tiled.node.name for tiled in group.tiles.ops if name in tiled.node.inputs)
    return any(reader not in reloaded.get(name, ()) for reader in readers)


def _grow(boxes: dict[str, Box], core: str, box: Box) -> None:
    if box.empty:
        return
    known = boxes.get(core)
    boxes[core] = box if known is None else known.hull(box)
