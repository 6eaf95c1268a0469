"""Shared by all tests: `support` (this folder is on the import path) and hypothesis' profiles.

`make test` draws the same examples every time; `make soak` draws fresh ones, and more of them.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support.soak import SOAK

_CALM = [HealthCheck.too_slow, HealthCheck.filter_too_much]

settings.register_profile(
    "tilewright", deadline=None, derandomize=True, suppress_health_check=_CALM
)
settings.register_profile(
    "soak", deadline=None, derandomize=False, print_blob=True, suppress_health_check=_CALM
)
settings.load_profile("soak" if SOAK else "tilewright")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All property tests are part of a soak."""
    for item in items:
        if "property" in Path(item.path).parts:
            item.add_marker("soak")
