"""Views: the bytes that they move."""

import pytest

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
