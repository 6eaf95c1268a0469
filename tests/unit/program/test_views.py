"""Views: the bytes that they move."""

import numpy as np
import pytest

from tilewright.frontend.builder import Builder
from tilewright.machine.load import load_machine
from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.program.faults import LoweringError
from tilewright.program.lower import lowered
from tilewright.program.program import View


@pytest.mark.parametrize(
    ("shape", "strides", "dtype", "item", "runs"),
    [
        ((3, 5), (5, 1), "int8", 1, (15, ())),
        ((3, 5), (5, 1), "int4", 1, (8, ())),  # one row behind the other, the last byte half empty
        ((3, 5), (8, 1), "int4", 1, (3, (3,))),  # every run has whole bytes
        ((3, 5), (1, 8), "uint2", 1, (1, (5,))),
        ((3, 5), (16, 2), "int4", 1, (1, (3, 5))),
        ((3, 5), (0, 1), "float4_e2m1fn", 1, (1, (5, 3))),
        ((3, 5), (10, 2), "float32", 2, (30, ())),
        ((3, 5), (5, 1), "float32", 1, (15, ())),
    ],
)
def test_elements_of_less_than_a_byte_move_side_by_side(shape, strides, dtype, item, runs) -> None:
    view = View(0, 0, shape, strides, dtype, item)
    count = 1
    for extent in runs[1]:
        count *= extent
    assert view.runs() == runs
    assert view.bytes == runs[0] * count


@pytest.mark.parametrize("inner", ["Resize", "Slice"])
def test_a_view_that_a_concat_lays_elsewhere_is_refused(inner: str) -> None:
    """What is computed for a concat lies inside its result: no other view can be that too."""
    b = Builder("net")
    x = b.input("x", (1, 8, 4, 4))
    if inner == "Resize":
        scales = b.constant("scales", np.asarray([1, 1, 2, 2], np.float32))
        moved = b.op("Resize", x, "", scales, mode="nearest")
    else:
        bounds = [b.constant(n, np.asarray([v], np.int64)) for n, v in (("from", 0), ("to", 4))]
        moved = b.op("Slice", b.op("Relu", x), *bounds)
    beside = b.op("Sigmoid", moved)
    graph = b.finish(b.op("Relu", b.op("Concat", beside, moved, axis=1)))
    machine = load_machine("mcu")
    views = {inner, "Concat"}
    groups = [
        GroupPlan((node.name,), (), None, Place.VIEW if node.kind in views else Place.CORES)
        for node in graph.nodes
    ]
    with pytest.raises(LoweringError, match=r"cannot be a view: .* lies inside what a concat"):
        lowered(graph, machine, Plan("net", "mcu", "int8", tuple(groups), ()))
