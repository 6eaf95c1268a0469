"""Work in blocks: large products are cut so that their buffers stay small."""

from collections.abc import Iterator
from math import prod

import numpy as np

from tilewright.graph.graph import Array

BUFFER_BYTES = 16 << 20  # columns of a convolution; larger buffers only cost page faults


def blocks(extents: tuple[int, ...], item_bytes: int) -> Iterator[tuple[slice, ...]]:
    """Slices that cover a region once, each with at most BUFFER_BYTES, cut at the outer axes."""
    if not extents:
        yield ()
        return
    step = max(1, BUFFER_BYTES // max(1, item_bytes * prod(extents[1:])))
    for start in range(0, extents[0], step):
        here = slice(start, min(start + step, extents[0]))
        for rest in blocks(extents[1:], item_bytes * (here.stop - here.start)):
            yield (here, *rest)


def lengths(region: tuple[slice, ...]) -> tuple[int, ...]:
    """Extents of a block."""
    return tuple(part.stop - part.start for part in region)


def product(left: Array, right: Array) -> Array:
    """A matrix product (numpy's broadcasting) that always goes through BLAS for floats."""
    return np.matmul(_blas_ready(left), _blas_ready(right))


def _blas_ready(array: Array) -> Array:
    """The array itself where BLAS can read its strides, otherwise a copy."""
    if array.ndim < 2 or array.flags.c_contiguous:
        return array
    (rows, columns), (far, near), item = array.shape[-2:], array.strides[-2:], array.itemsize
    by_rows = near == item and far % item == 0 and far >= columns * item
    by_columns = far == item and near % item == 0 and near >= rows * item
    return array if by_rows or by_columns else np.ascontiguousarray(array)
