"""How often Python looks for objects that only refer to each other."""

import gc
from collections.abc import Generator
from contextlib import contextmanager

ALLOCATIONS = 2_000_000
"""Objects made before it looks. Planning makes hardly any cycles: looking ten times as often found
nothing in a search but searches that had ended, and took a twelfth of its time."""


def collect_seldom() -> None:
    """From now on look seldom; not at all where that is switched off, nor more often than now."""
    now, *older = gc.get_threshold()
    gc.set_threshold(max(now, ALLOCATIONS) if now else 0, *older)


@contextmanager
def seldom_collected() -> Generator[None]:
    """Look seldom until the end of the block."""
    before = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)
