"""How often Python looks for objects that only refer to each other."""

import gc
from collections.abc import Generator
from contextlib import contextmanager

ALLOCATIONS = 10_000_000
"""Objects more than there were before it looks. Planning makes hardly any cycles: looking finds
nothing but searches that have ended (80 MB each for a network of 60 operators), and took a twelfth
of a search at a fiftieth of this number, a twentieth at a fifth."""


def collect_seldom() -> None:
    """From now on look seldom; not at all where that is switched off, nor more often than now."""
    now, *older = gc.get_threshold()
    gc.set_threshold(max(now, ALLOCATIONS) if now else 0, *older)


@contextmanager
def seldom_collected() -> Generator[None]:
    """Look seldom until the end of the block. What was made in it counts as old then: looking
    through all of it at once, twice even, as what is young, took a seventh of a search."""
    before = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
        gc.set_threshold(*before)
