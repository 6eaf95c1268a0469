"""In how many parts an axis can be cut, each with smaller tiles than the one before."""

import pytest

from tilewright.search.candidates.finer import parts_of

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("step", [1, 2, 3, 8])
def test_every_size_of_tile_has_its_fewest_parts(step: int) -> None:
    for extent in range(1, 90):
        fewest: dict[int, int] = {}
        for parts in range(step, extent + 1, step):
            fewest.setdefault(-(-extent // parts), parts)
        assert parts_of(extent, step) == [parts for parts in fewest.values() if parts > 1]


def test_axes_of_any_length_take_no_time() -> None:
    """A network may be padded to billions of rows; there are few sizes of tiles beside that."""
    found = parts_of(10**9, 1)
    assert len(found) < 70_000 and found[0] == 2 and found[-1] == 10**9
