"""What is needed behind a crop of rearranged data is read by what is needed, and most of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builder import GraphBuilder
from tilewright.graph.kernels import run_step
from tilewright.search.bounds.needs import ElementNeeds

pytestmark = pytest.mark.quick


def need_of(b: GraphBuilder, moved: str, crop: tuple[int, int]) -> np.ndarray:
    """Which elements of the result of the network's first operator count as needed."""
    starts, ends, axes = (b.constant(np.array([n])) for n in (crop[0], crop[1], 2))
    b.add("Slice", moved, starts, ends, axes)
    graph = b.graph()
    needs, shape = ElementNeeds(graph), graph.types["first"].shape
    flags = np.zeros(shape, dtype=np.bool_)
    if "first" in needs.need:
        flags[np.ix_(*needs.need["first"])] = True
    return flags


@given(st.integers(1, 3), st.integers(2, 4), st.integers(2, 6), st.data())
def test_phases_in_a_row(channels: int, stride: int, length: int, data: st.DataObject) -> None:
    """[1, channels, length, stride] seen as [1, channels, length * stride], cropped."""
    start = data.draw(st.integers(0, stride))
    stop = data.draw(st.integers(start + 1, length * stride))
    b = GraphBuilder()
    first = b.add("Exp", b.input(1, channels, length, stride), name="first")
    moved = b.add("Reshape", first, b.constant(np.array([1, channels, length * stride])))
    found = need_of(b, moved, (start, stop))
    read = np.zeros((1, channels, length * stride), dtype=np.bool_)
    read[:, :, start:stop] = True
    read = read.reshape(found.shape)
    assert not (found & ~read).any()
    assert found.sum() >= read.all(axis=3).sum() * stride


@given(st.integers(1, 3), st.integers(2, 3), st.integers(2, 5), st.data())
def test_depth_to_space(channels: int, stride: int, rows: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, stride))
    stop = data.draw(st.integers(start + 1, rows * stride))
    b = GraphBuilder()
    shape = (1, channels * stride**2, rows, 3)
    first = b.add("Exp", b.input(*shape), name="first")
    moved = b.add("DepthToSpace", first, blocksize=stride)
    found = need_of(b, moved, (start, stop))
    places = np.arange(np.prod(shape)).reshape(shape)
    (there,) = run_step("DepthToSpace", {"blocksize": stride}, (places,), 18)
    read = np.zeros(places.size, dtype=np.bool_)
    read[there[:, :, start:stop]] = True
    assert not (found.ravel() & ~read).any()
    whole = read.reshape(shape).all(axis=(0, 1, 3)).sum()
    assert found.sum() >= whole * found.size // rows
