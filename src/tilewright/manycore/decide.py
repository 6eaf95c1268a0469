"""From a mapping to decisions: how every layer is cut, and which cores its parts may use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, prod

from tilewright.graph.ops.spec import channel_axis
from tilewright.manycore.fabric import Fabric
from tilewright.manycore.mapping import FusedGroup, LoopCut, MappingEntry, MappingFile
from tilewright.manycore.tiles import Axes, LayerCut, layer_boxes, result_box
from tilewright.manycore.workload import Layer, LayerGraph
from tilewright.tiling.group import reaches_of
from tilewright.units import noun

FINER = (1, 2, 4, 8)
"""How much finer than they have to layers are cut that do not fit, and are not open. What a layer
waits for and what it sends then comes in smaller portions, while others compute."""
MOST_TILES = 1 << 17  # of a layer: a hundred thousand take ten seconds to cut
AUTO_ROWS = (1, 2, 4, 8)
"""Rows (or positions) of a tile that are tried where a mapping leaves the cut open; and all."""


@dataclass(frozen=True, slots=True)
class LayerCuts:
    """One way to cut all layers. `allowed` are the cores (by position) that each part of each
    layer may use; a single one is fixed. `name` says which of the open cuts this is; `finer`, how
    much finer than the choice before it: 1 begins anew."""

    name: str
    cuts: tuple[LayerCut, ...]
    allowed: tuple[tuple[tuple[int, ...], ...], ...]
    notes: tuple[str, ...] = ()
    finer: int = 1

    @property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """The cores that each part may use, layer after layer."""
        return tuple(part for layer in self.allowed for part in layer)


def choices_of(
    mapping: MappingFile,
    workload: LayerGraph,
    fabric: Fabric,
    *,
    fused: bool,
    open_tiles: bool,
    room: float = 1.0,
) -> tuple[LayerCuts, ...]:
    """All ways to cut the layers that a mapping allows: one, unless it leaves cuts open.

    Not `fused`: layers are not cut within a core. `open_tiles`: cuts within a core are open,
    whatever the mapping says. Tiles are cut until they fit in a share of the memories, `room`.
    """
    names = {layer.name: layer for layer in workload.layers}
    for group in mapping.groups:
        for node, cutting in group.intra:
            if node not in names:
                raise mapping.error(cutting.key, f"there is no layer '{node}'")
    entries = [mapping.entry(layer.name, layer.kind, layer.also) for layer in workload.layers]
    intra = [
        _intra(mapping, entry, layer, workload.layers) if fused else ()
        for entry, layer in zip(entries, workload.layers, strict=True)
    ]
    if open_tiles and fused:
        intra = [(LoopCut(_rows(layer), "auto", "--tiles"),) for layer in workload.layers]
    open_intra = any(c.parts == "auto" and c.size is None for cuts in intra for c in cuts)
    open_inter = any(c.parts == "auto" for entry in entries for c in entry.inter)
    made: dict[tuple[LayerCut, ...], LayerCuts] = {}
    for spread, rows, finer in product(
        (False, True) if open_inter else (False,),
        (*_open_rows(workload), 0) if open_intra else (0,),
        (1,) if open_intra else FINER,
    ):
        choice = _choice(mapping, workload, fabric, entries, intra, rows, spread, finer, room)
        names = [f"tiles of {rows} {noun(rows, 'row')}" if rows else "whole tiles"] * open_intra
        names += ["every layer on all its cores"] * spread
        names += [f"{finer} times finer where cut to fit"] * (finer > 1)
        name = ", ".join(names) or "as the mapping says"
        made.setdefault(choice.cuts, replace(choice, name=name, finer=finer))
    return tuple(made.values())


def _open_rows(workload: LayerGraph) -> list[int]:
    """Rows of a tile that are tried: those that do not give too many tiles."""
    longest = max((max(layer.shape, default=1) for layer in workload.layers), default=1)
    return [rows for rows in AUTO_ROWS if longest <= rows * MOST_TILES]


def _rows(layer: Layer) -> str:
    return next((loop for loop in ("OY", "D", "K") if loop in layer.axes), "K")


def _intra(
    mapping: MappingFile, entry: MappingEntry, layer: Layer, layers: Sequence[Layer]
) -> tuple[LoopCut, ...]:
    """The cuts within a core: of the entry, else of the fused group that the layer is in."""
    if entry.intra or not mapping.groups:
        return entry.intra
    order = {other.name: other.number for other in layers}

    def distance(group: FusedGroup) -> tuple[bool, bool, int]:
        named = layer.name in group.layers
        anchors = [order[node] for node, _ in group.intra] or [layer.number]
        nearest = min(anchors, key=lambda at: (at < layer.number, abs(at - layer.number)))
        return (not named, nearest < layer.number, abs(nearest - layer.number))

    members = [
        group
        for group in mapping.groups
        if group.intra and ({layer.name, layer.kind, *layer.also} & {*group.layers})
    ]
    if not members:
        return ()
    group = min(members, key=distance)
    return tuple(_followed(node, cutting, layer, layers) for node, cutting in group.intra)


def _followed(node: str, cutting: LoopCut, layer: Layer, layers: Sequence[Layer]) -> LoopCut:
    """The cut of a group's layer as one of another layer: as many parts along the same axis."""
    anchor = next(other for other in layers if other.name == node)
    axis = anchor.axes.get(cutting.loop)
    if axis is None or anchor.name == layer.name or cutting.size is None:
        return cutting
    parts = ceil(anchor.shape[axis] / cutting.size) if axis < len(anchor.shape) else 1
    loop = next((name for name, at in layer.axes.items() if at == axis), cutting.loop)
    extent = layer.shape[axis] if axis < len(layer.shape) else 1
    return LoopCut(loop, min(parts, extent), cutting.key)


def _choice(
    mapping: MappingFile,
    workload: LayerGraph,
    fabric: Fabric,
    entries: Sequence[MappingEntry],
    intra: Sequence[tuple[LoopCut, ...]],
    rows: int,
    spread: bool,
    finer: int,
    room: float,
) -> LayerCuts:
    cuts: list[LayerCut] = []
    allowed: list[tuple[tuple[int, ...], ...]] = []
    notes: list[str] = []
    longest: dict[str, int] = {}  # by key: the most positions that a layer of its entry has
    for entry, cuttings, layer in zip(entries, intra, workload.layers, strict=True):
        for cutting in (*entry.inter, *cuttings):
            extent = _extent(layer, cutting.loop)
            longest[cutting.key] = max(longest.get(cutting.key, 1), extent or 1)
    for entry, cuttings, layer in zip(entries, intra, workload.layers, strict=True):
        cores = tuple(fabric.index[number] for number in entry.cores)
        across = _axes(
            mapping, layer, entry.inter, len(cores) if spread else 1, len(cores), longest, notes
        )
        within = _axes(mapping, layer, cuttings, rows, len(cores), longest, notes, within=True)
        asked = LayerCut(across, within)
        if asked.tiles > MOST_TILES:
            raise mapping.error(
                (*entry.inter, *cuttings)[-1].key,
                f"layer '{layer.name}' is cut into {asked.tiles:,} tiles: more than "
                f"{MOST_TILES:,} are not planned",
            )
        fit = _Fit(workload, layer, fabric, cores, room)
        cut = _fitting(fit, asked, notes, finer)
        parts = len(layer_boxes(layer, cut))
        fixed = parts == len(cores) if entry.fixed is None else entry.fixed
        cuts.append(cut)
        if fixed:
            allowed.append(tuple((cores[part % len(cores)],) for part in range(parts)))
        else:
            allowed.append((cores,) * parts)
    return LayerCuts("", tuple(cuts), tuple(allowed), tuple(dict.fromkeys(notes)))


def _extent(layer: Layer, loop: str) -> int | None:
    """Positions of a layer's result along a loop; None where it has no such loop."""
    axis, shape = layer.axes.get(loop), layer.main.op.result().shape
    return None if axis is None or axis >= len(shape) else shape[axis]


def _axes(
    mapping: MappingFile,
    layer: Layer,
    cuttings: Sequence[LoopCut],
    rows: int,
    cores: int,
    longest: Mapping[str, int],
    notes: list[str],
    *,
    within: bool = False,
) -> Axes:
    """Cuts by loop as cuts by axis. `rows` is what `auto` stands for: positions of a tile within a
    core (0: all of them), parts across cores. A layer with fewer positions than an entry for
    several asks parts for is cut into single ones; `longest` is what the longest of them has."""
    found: dict[int, int] = {}
    for cutting in cuttings:
        axis, extent = layer.axes.get(cutting.loop), _extent(layer, cutting.loop)
        if axis is None or extent is None:
            if cutting.loop not in layer.reductions and cutting.parts not in (1, "*", "all"):
                notes.append(f"{mapping.file}: {cutting.key}: {layer.kind} has no {cutting.loop}")
            elif cutting.loop in layer.reductions and cutting.parts != 1:
                notes.append(f"{mapping.file}: {cutting.key}: sums are not cut ({cutting.loop})")
            continue
        if cutting.size is not None:
            if cutting.size > extent:
                raise mapping.error(
                    cutting.key,
                    f"a tile of {cutting.size} is larger than {cutting.loop} of layer "
                    f"'{layer.name}', which is {extent}",
                )
            parts = ceil(extent / cutting.size)
        elif cutting.parts == "all":
            parts = extent
        elif cutting.parts == "*":
            parts = min(cores, extent)
        elif cutting.parts == "auto":
            parts = (ceil(extent / rows) if rows else 1) if within else min(rows, extent)
        else:
            parts = min(cutting.parts, extent)
            if cutting.parts > longest[cutting.key]:
                raise mapping.error(
                    cutting.key,
                    f"{cutting.parts} parts are more than {cutting.loop} of layer "
                    f"'{layer.name}' has: {extent}",
                )
            if parts < cutting.parts:
                notes.append(
                    f"{mapping.file}: {cutting.key}: layer '{layer.name}' has {extent} "
                    f"{noun(extent, 'position')} along {cutting.loop}, and is cut into as many"
                )
        found[axis] = found.get(axis, 1) * parts
    return tuple((axis, parts) for axis, parts in found.items() if parts > 1)


def _fitting(fit: "_Fit", cut: LayerCut, notes: list[str], finer: int) -> LayerCut:
    """The cut, made finer until a tile fits in the memories of the cores: rows first, then
    channels; then so many times finer still. Where nothing helps it is left as it is, and the
    evaluation says what does not fit."""
    layer = fit.layer
    rank = len(layer.main.op.result().shape)
    axes = [axis for axis in (2, rank - 2, 1, rank - 1) if 0 <= axis < rank]
    tried = cut
    for axis in dict.fromkeys(axes):
        while not fit.fits(tried):
            now = dict(tried.intra).get(axis, 1)
            extent = _longest(layer, cut, axis)
            if now >= extent:
                break
            halved = {**dict(tried.intra), axis: min(2 * now, extent)}
            if LayerCut(cut.inter, tuple(halved.items())).tiles > MOST_TILES:
                break
            # Channels change last: weights that fill a memory are then loaded once, not per row.
            channel = channel_axis(rank)
            ordered = sorted(halved.items(), key=lambda item: item[0] != channel)
            tried = LayerCut(cut.inter, tuple(ordered))
    if tried == cut or not fit.fits(tried):
        return cut
    (axis, count), *rest = tried.intra
    tried = LayerCut(cut.inter, ((axis, min(finer * count, _longest(layer, cut, axis))), *rest))
    parts = " x ".join(f"{count} along axis {axis}" for axis, count in tried.intra)
    notes.append(f"layer '{layer.name}' is cut to fit in its core's memories: {parts}")
    return tried


def _longest(layer: Layer, cut: LayerCut, axis: int) -> int:
    """The most that a part of a layer has along an axis."""
    return max(
        box[axis].length for boxes in layer_boxes(layer, LayerCut(cut.inter)) for box in boxes
    )


@dataclass(frozen=True, slots=True)
class _Fit:
    """A layer, the cores it may run on, and the share of their memories that it may fill."""

    workload: LayerGraph
    layer: Layer
    fabric: Fabric
    cores: Sequence[int]
    room: float

    def fits(self, cut: LayerCut) -> bool:
        """Whether the largest tile fits on every core it may run on."""
        layer = self.layer
        boxes = layer_boxes(layer, cut)[0]
        box = boxes[len(boxes) // 2]
        reaches = reaches_of(layer.main, [box])

        def bits(position: int, name: str) -> int:
            size = prod(reach.interval.length for reach in reaches[position] or ())
            return size * self.workload.bits[name]

        needs = (
            sum(bits(position, name) for position, name in layer.data),
            bits(*layer.weight) if layer.weight is not None else 0,
            result_box(layer, box).size * layer.output_bits,
        )
        for core in self.cores:
            used: dict[int, int] = {}
            for place, need in zip(self.fabric.roles[core], needs, strict=True):
                used[place] = used.get(place, 0) + need
            places = self.fabric.places
            if any(need > self.room * places[place].bits for place, need in used.items()):
                return False
        return True
