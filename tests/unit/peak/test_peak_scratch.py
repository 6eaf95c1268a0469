"""What kernels allocate for themselves."""

import pytest

from support.builder import GraphBuilder
from tilewright.peak import Runtime, predict_peak

pytestmark = pytest.mark.quick

KIB = 1 << 10
PLAIN = Runtime(block=1, extended=False)


def scratch(b: GraphBuilder) -> int:
    return predict_peak(b.graph(), PLAIN).scratch


def test_conv_transpose_needs_the_columns_of_one_group() -> None:
    b = GraphBuilder()
    b.add("ConvTranspose", b.input(1, 56, 20, 30), b.weight(56, 1, 9, 9), pads=[4, 4, 4, 4])
    assert scratch(b) == 9 * 9 * 20 * 30 * 4
    b = GraphBuilder()
    b.add("ConvTranspose", b.input(1, 8, 20, 30), b.weight(8, 3, 2, 2), group=4)
    assert scratch(b) == 3 * 2 * 2 * 20 * 30 * 4


def test_conv_works_on_a_segment_of_its_columns() -> None:
    b = GraphBuilder()
    b.add("Conv", b.input(1, 8, 64, 64), b.weight(8, 8, 3, 3))
    assert scratch(b) == 64 * KIB


def test_conv_with_more_filters_than_positions_needs_all_columns() -> None:
    b = GraphBuilder()
    b.add("Conv", b.input(1, 128, 7, 7), b.weight(512, 128, 3, 3), pads=[1, 1, 1, 1])
    assert scratch(b) == 49 * 128 * 9 * 4


@pytest.mark.parametrize(("stride", "expected"), [(1, 0), (2, 64 * KIB)])
def test_a_pointwise_conv_needs_none_unless_it_strides(stride: int, expected: int) -> None:
    b = GraphBuilder()
    b.add("Conv", b.input(1, 8, 64, 64), b.weight(8, 8, 1, 1), strides=[stride] * 2)
    assert scratch(b) == expected


def test_a_blocked_conv_needs_none() -> None:
    b = GraphBuilder()
    b.add("Conv", b.input(1, 8, 64, 64), b.weight(8, 8, 3, 3))
    assert predict_peak(b.graph(), Runtime(block=8)).scratch == 0


@pytest.mark.parametrize(("axis", "times"), [(-1, 0), (3, 0), (1, 2)])
def test_softmax_of_an_inner_axis_moves_it(axis: int, times: int) -> None:
    b = GraphBuilder()
    b.add("Softmax", b.input(1, 8, 16, 16), axis=axis)
    assert scratch(b) == times * 8 * 16 * 16 * 4


def test_where_needs_a_copy_of_its_output() -> None:
    b = GraphBuilder()
    b.add("Where", b.input(1024, dtype="bool"), b.input(1024), b.input(1024))
    assert scratch(b) == 4 * KIB


@pytest.mark.parametrize(
    ("filters", "channels", "group", "weights", "per_position"),
    [
        (16, 8, 1, "int8", 8 * 9),  # a pointer per tap
        (16, 8, 1, "uint8", 4 * 16 + 8 * 9),  # sums and im2col
        (16, 6, 1, "int8", 4 * 16 + 6 * 9),
        (20, 8, 1, "int8", 4 * 20 + 8 * 9),
        (16, 1, 16, "int8", 8 * 9),
        (12, 1, 12, "int8", 4 * 12 + 8 * 9),
        (16, 4, 4, "int8", 4 * 16 + 4 * 9),
    ],
)
@pytest.mark.parametrize("images", [1, 4])
def test_quantised_conv_needs_pointers_or_sums(
    filters: int, channels: int, group: int, weights: str, per_position: int, images: int
) -> None:
    b = GraphBuilder()
    scale, zero = b.constant(0.1, "float32"), b.constant(0, "uint8")
    weight = b.constant(b.random.integers(0, 3, (filters, channels, 3, 3)), weights)
    x = b.input(images, channels * group, 16, 16, dtype="uint8")
    middle = b.constant(0, weights)
    settings = {"group": group, "pads": [1, 1, 1, 1]}
    b.add("QLinearConv", x, scale, zero, weight, scale, middle, scale, zero, **settings)
    # Outside the channels-last layout the input and the output are transposed as well.
    moved = (channels * group + filters) * 256 * images
    at_once = images if per_position == 8 * 9 else 1  # sums are those of one image after the other
    assert scratch(b) == moved + at_once * per_position * 256
