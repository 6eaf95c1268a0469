"""Reshapes of strided views against numpy: the same elements, and a view wherever numpy has one."""

from math import prod

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from support.builder import GraphBuilder
from tilewright.graph.graph import Array
from tilewright.graph.ops.spec import op_of
from tilewright.machine.load import load_machine
from tilewright.plan.plan import Place
from tilewright.program.program import View
from tilewright.program.views import SHORTEST_RUN, view_of
from tilewright.search.candidates.network import Network

EXTENTS = st.sampled_from((1, 1, 2, 2, 3, 4, 6))


def laid_out(array: Array, base: Array) -> View:
    """A numpy view as one of ours."""
    offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return View(0, offset, array.shape, array.strides, str(array.dtype), array.itemsize)


def elements(view: View, base: Array) -> Array:
    return np.ndarray(view.shape, base.dtype, base, view.offset, view.strides)


@st.composite
def strided(draw: st.DrawFn, item: str) -> tuple[Array, Array]:
    """A dense array, and a part of it with its axes in another order or divided."""
    shape = draw(st.lists(EXTENTS, min_size=1, max_size=5))
    base = np.arange(prod(shape), dtype=item).reshape(shape)
    view = base
    for _ in range(draw(st.integers(0, 3))):
        match draw(st.sampled_from(("transpose", "slice", "divide", "unit"))):
            case "transpose":
                view = view.transpose(draw(st.permutations(range(view.ndim))))
            case "slice":
                axis = draw(st.integers(0, view.ndim - 1))
                start = draw(st.integers(0, view.shape[axis] - 1))
                stop = draw(st.integers(start + 1, view.shape[axis]))
                cut = slice(start, stop, draw(st.integers(1, 2)))
                view = view[(slice(None),) * axis + (cut,)]
            case "divide":
                axis = draw(st.integers(0, view.ndim - 1))
                parts = draw(st.sampled_from(divisors(view.shape[axis])))
                extents = (parts, view.shape[axis] // parts)
                view = view.reshape(*view.shape[:axis], *extents, *view.shape[axis + 1 :])
            case _:
                view = np.expand_dims(view, draw(st.integers(0, view.ndim)))
    return base, view


def divisors(size: int) -> list[int]:
    return [k for k in range(1, size + 1) if size % k == 0]


@st.composite
def shapes(draw: st.DrawFn, old: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of as many elements: axes joined here and there, or any factors at all."""
    if draw(st.booleans()):
        shape = [old[0]]
        for extent in old[1:]:
            if draw(st.booleans()):
                shape[-1] *= extent
            else:
                shape.append(extent)
        for axis in draw(st.lists(st.integers(0, len(shape) - 1), max_size=2)):
            parts = draw(st.sampled_from(divisors(shape[axis])))
            shape[axis : axis + 1] = [parts, shape[axis] // parts]
        return tuple(shape)
    left, found = prod(old), list[int]()
    while left > 1 and len(found) < 5:
        found.append(draw(st.sampled_from(divisors(left))))
        left //= found[-1]
    return (*found, left)


def view_in_numpy(array: Array, shape: tuple[int, ...]) -> Array | None:
    """The reshaped array if it shares memory with the array."""
    reshaped = array.reshape(shape)
    return reshaped if np.shares_memory(reshaped, array) else None


def reshaped_view(source: View, shape: tuple[int, ...]) -> View | None:
    b = GraphBuilder()
    b.add("Reshape", b.input(*source.shape), b.constant(shape, "int64"))
    graph = b.graph()
    op = op_of(graph, graph.nodes[0])
    assert op is not None
    return view_of(op, source)


@settings(max_examples=300)
@given(st.data())
def test_a_reshape_is_a_view_where_numpy_has_one(data: st.DataObject) -> None:
    base, array = data.draw(strided(data.draw(st.sampled_from(("int32", "int64")))))
    shape = data.draw(shapes(array.shape))
    source, wanted = laid_out(array, base), view_in_numpy(array, shape)
    found = reshaped_view(source, shape)
    event("a view" if found else "none")
    assert (found is None) == (wanted is None)
    if found is not None:
        assert (found.shape, found.item, found.dtype) == (shape, source.item, source.dtype)
        np.testing.assert_array_equal(elements(found, base), array.reshape(shape))
        # A reshape divides no run, so the rule about short ones has nothing to refuse.
        assert found.bytes <= SHORTEST_RUN or found.runs()[0] == source.runs()[0]


def test_axes_of_one_position_lie_as_if_dense() -> None:
    source = View(3, 16, (2, 4, 8), (64, 8, 1), "int8", 1)  # rows of 32 with a gap of as many
    found = reshaped_view(source, (1, 2, 1, 32, 1))
    assert found == View(3, 16, (1, 2, 1, 32, 1), (128, 64, 32, 1, 1), "int8", 1)
    assert reshaped_view(source, (64,)) is None
    assert reshaped_view(source, (2, 2, 16)) == View(3, 16, (2, 2, 16), (64, 16, 1), "int8", 1)


def test_queries_keys_and_values_of_one_product_are_views_of_it() -> None:
    b = GraphBuilder(opset=18)
    x = b.add("MatMul", b.input(1, 17, 96), b.weight(96, 288))
    x = b.add("Reshape", x, b.constant([1, 17, 3, 2, 48], "int64"))
    x = b.add("Transpose", x, perm=[2, 0, 3, 1, 4])
    third = b.add("Split", x, outputs=3, axis=0, num_outputs=3)
    axes = b.constant([0], "int64")
    q, k, v = (b.add("Squeeze", name, axes) for name in (third, f"{third}.1", f"{third}.2"))
    scores = b.add("MatMul", q, b.add("Transpose", k, perm=[0, 1, 3, 2]))
    graph = b.graph(b.add("MatMul", b.add("Softmax", scores, axis=-1), v))
    network = Network(graph, load_machine("npu-2.7"), "fp16")
    assert {unit.place for unit in network.units} == {Place.CORES}
    assert network.main_view(v).strides[1:] == (96, 576, 2)
