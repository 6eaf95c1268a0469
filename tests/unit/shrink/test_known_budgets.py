"""Budgets the search has met before, so that a change of its estimates cannot lose them."""

import pytest

from tilewright import api
from tilewright.shrink.shrink import shrink_graph


@pytest.mark.parametrize(
    ("network", "share"),
    [
        ("fsrcnn@1080x1920", 0.08),
        ("mobilenet_v2@1024x1024", 0.24),
        ("unet@512x512", 0.6),
        ("unet@512x512", 0.5),
    ],
)
def test_budget_is_met(network: str, share: float) -> None:
    shrunk = shrink_graph(api.load(network).graph, share)
    assert shrunk.groups
    assert shrunk.predicted.peak <= share * shrunk.original.peak
