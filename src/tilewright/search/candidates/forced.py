"""Cuts of groups that have to run depth-first: those of the search, and where it has none, any that
fit."""

from collections.abc import Iterator

from tilewright.errors import TilingError
from tilewright.search.candidates.estimates import Estimate
from tilewright.search.candidates.tiles import USABLE_SHARE, Tiler
from tilewright.tiling.cutting import cut_ops
from tilewright.tiling.grid import Split, tiles_of
from tilewright.tiling.group import TiledOp

FINEST = 1024  # parts of an axis
TILES = 256  # of a cut along two axes that is forced though the search would not try it


def forced_cuts(
    tiler: Tiler, ops: tuple[TiledOp, ...], exported: dict[str, bool]
) -> list[Estimate]:
    """Ways to cut a group depth-first that fit a core, the best first: those of the search, and
    where it has none, finer ones than it would try, and none at all."""
    for limit in (int(tiler.usable * USABLE_SHARE), tiler.usable):
        options = tiler.fused(ops, exported, limit)
        if options:
            return options
    whole = tiler.estimate(ops, exported, (), None)
    known = [*all_cuts(tiler, ops, exported), *([] if whole is None else [whole])]
    fitting = [e for e in known if e.bytes <= tiler.usable]
    return sorted(fitting, key=lambda e: e.order)


def all_cuts(
    tiler: Tiler, ops: tuple[TiledOp, ...], exported: dict[str, bool]
) -> Iterator[Estimate]:
    """Cuts along one and two axes, down to single positions, into a reasonable number of tiles."""
    final = [name for name, used in exported.items() if not used]
    shapes = [tiler.graph.types[name].shape for name in final]
    if not shapes or len({len(shape) for shape in shapes}) != 1:
        return
    extents = [min(FINEST, *(shape[axis] for shape in shapes)) for axis in range(len(shapes[0]))]
    single = {axis: _parts(extent) for axis, extent in enumerate(extents) if extent > 1}
    cuts = [(Split(axis, parts),) for axis, row in single.items() for parts in row]
    cuts += [
        (Split(outer, first), Split(inner, second))
        for outer in single
        for inner in single
        if inner != outer
        for first in single[outer]
        for second in single[inner]
    ]
    for cut in cuts:
        if len(cut) > 1 and tiles_of(cut) > TILES:
            continue
        estimate = tiler.estimate(ops, exported, cut, 0)
        if estimate is not None:
            yield estimate


def _parts(extent: int) -> list[int]:
    """Two, four, ... parts, and single positions."""
    return [*(1 << power for power in range(1, (extent - 1).bit_length())), extent]


def least_bytes(tiler: Tiler, ops: tuple[TiledOp, ...], exported: dict[str, bool]) -> int | str:
    """Bytes of the smallest tiles of a group on one core, or why it cannot be cut."""
    known = [estimate.bytes for estimate in all_cuts(tiler, ops, exported)]
    whole = tiler.estimate(ops, exported, (), None)
    if known or whole is not None:
        return min([*known, *([] if whole is None else [whole.bytes])])
    for axis in range(max(len(tiler.graph.types[name].shape) for name in exported)):
        try:
            cut_ops(tiler.graph, ops, exported, (Split(axis, 2),), probe=True)
        except TilingError as error:
            return str(error)
    return "its results have no axes in common"
