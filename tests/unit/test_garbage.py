"""A search changes how often garbage is looked for, and leaves that as it was."""

import gc
from collections.abc import Iterator

import pytest

from tilewright.garbage import ALLOCATIONS, seldom_collected


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("now", "within"),
    [(700, ALLOCATIONS), (0, 0), (3 * ALLOCATIONS, 3 * ALLOCATIONS)],
    ids=["seldom", "switched off", "more seldom already"],
)
def test_garbage_is_looked_for_seldom_within_the_block_alone(now: int, within: int) -> None:
    gc.set_threshold(now, 7, 5)
    with pytest.raises(KeyboardInterrupt), seldom_collected():
        assert gc.get_threshold() == (within, 7, 5)
        raise KeyboardInterrupt
    assert gc.get_threshold() == (now, 7, 5)
