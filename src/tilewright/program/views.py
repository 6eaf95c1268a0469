"""Operators that are no work at all once layouts are chosen: their result is a view of what is
there. Asked by the planner (can it be one?) and by the builder (which one?)."""

from collections.abc import Collection, Sequence
from math import prod

from tilewright.geometry.box import Ints
from tilewright.graph.ops import SPECS
from tilewright.graph.ops.spec import Engine, Op, Strides
from tilewright.program.program import View, runs_of
from tilewright.tiling.group import TiledOp

SHORTEST_RUN = 64  # bytes; a view that scatters reads into shorter runs is no gain


def view_of(op: Op, source: View, output: int = 0) -> View | None:
    """The operator's result as a view of its first input, or None where bytes have to move."""
    spec = SPECS.get(op.kind)
    rule = None if spec is None else spec.view
    found = rule(op, _strides(source), output) if rule is not None else None
    if found is None:
        return None
    view = _view(source, found)
    least = min(SHORTEST_RUN, source.runs()[0])
    return view if long_runs(view.shape, view.strides, view.dtype, view.item, least) else None


def long_runs(shape: Ints, strides: Ints, dtype: str, item: int, least: int = SHORTEST_RUN) -> bool:
    """Whether copies of a view are no worse than others: all of it, or runs that are long."""
    return prod(shape) * item <= SHORTEST_RUN or runs_of(shape, strides, dtype, item)[0] >= least


def found_by_rows(
    shape: Sequence[int], strides: Sequence[int], offset: int, usual: Sequence[int], grain: int
) -> bool:
    """Whether engines find a view's elements as in the `usual` layout: those side by side there are
    so here, in rows that begin at multiples of `grain` bytes. Where rows lie is free."""
    axes = [axis for axis, extent in enumerate(shape) if extent > 1]
    if not axes:
        return offset % grain == 0
    inner = min(axes, key=lambda axis: usual[axis])
    if strides[inner] != usual[inner] or offset % grain:
        return False
    return all(axis == inner or strides[axis] % grain == 0 for axis in axes)


def serves(
    view: Strides,
    region: tuple[Ints, Ints],
    usual: tuple[Ints, int],
    dtype: str,
    *,
    computed: bool,
    given: bool,
) -> bool:
    """Whether all that read a region (first positions, extents) of a view can take it from there:
    who computes with it finds rows as in the `usual` layout (strides, grain), copies to the outside
    (`given`) find long ones."""
    starts, shape = region
    offset = view.at(starts)
    if computed and not found_by_rows(shape, view.strides, offset, *usual):
        return False
    return not given or long_runs(shape, view.strides, dtype, view.item)


def written_ahead(ops: Sequence[TiledOp], given: Collection[str]) -> dict[str, tuple[int, ...]]:
    """Results of a group that nothing reads but data movement, none of them `given` to the outside:
    the operators that make of them, one from the other, what others read. They may be written to
    where that will be."""
    readers: dict[str, list[int]] = {}
    for place, tiled in enumerate(ops):
        for name in tiled.node.inputs:
            readers.setdefault(name, []).append(place)
    found: dict[str, tuple[int, ...]] = {}
    for tiled in ops:
        chain: list[int] = []
        (name, *more) = tiled.node.outputs
        while not more and name not in given and len(readers.get(name, ())) == 1:
            (place,) = readers[name]
            step = ops[place]
            if step.spec.behind is None or step.node.inputs[0] != name:
                break
            chain.append(place)
            (name, *more) = step.node.outputs
        if chain and tiled.spec.engine is not Engine.MOVE:
            found[tiled.node.outputs[0]] = tuple(chain)
    return found


def behind(chain: Sequence[TiledOp], result: Strides) -> Strides | None:
    """What data movement begins with as a view of what it ends in."""
    found: Strides | None = result
    for tiled in reversed(chain):
        rule = tiled.spec.behind
        found = rule(tiled.op, found) if rule is not None and found is not None else None
    return found


def concat_parts(op: Op, result: View) -> list[View]:
    """Where each input of a concat lies inside its result."""
    rule = SPECS[op.kind].parts
    assert rule is not None
    return [_view(result, part) for part in rule(op, _strides(result))]


def _strides(view: View) -> Strides:
    return Strides(view.offset, view.shape, view.strides, view.item)


def _view(source: View, found: Strides) -> View:
    return View(source.buffer, found.offset, found.shape, found.strides, source.dtype, source.item)
