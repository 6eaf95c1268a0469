"""Operators that are no work at all once layouts are chosen: their result is a view of what is
there. Asked by the planner (can it be one?) and by the builder (which one?)."""

from tilewright.graph.ops import SPECS
from tilewright.graph.ops.spec import Op, Strides
from tilewright.program.program import View

SHORTEST_RUN = 64  # bytes; a view that scatters reads into shorter runs is no gain


def view_of(op: Op, source: View, output: int = 0) -> View | None:
    """The operator's result as a view of its first input, or None where bytes have to move."""
    spec = SPECS.get(op.kind)
    rule = None if spec is None else spec.view
    found = rule(op, _strides(source), output) if rule is not None else None
    if found is None:
        return None
    view = _view(source, found)
    if view.bytes <= SHORTEST_RUN:
        return view
    run, _ = view.runs()
    return view if run >= min(SHORTEST_RUN, source.runs()[0]) else None


def concat_parts(op: Op, result: View) -> list[View]:
    """Where each input of a concat lies inside its result."""
    rule = SPECS[op.kind].parts
    assert rule is not None
    return [_view(result, part) for part in rule(op, _strides(result))]


def _strides(view: View) -> Strides:
    return Strides(view.offset, view.shape, view.strides, view.item)


def _view(source: View, found: Strides) -> View:
    return View(source.buffer, found.offset, found.shape, found.strides, source.dtype, source.item)
