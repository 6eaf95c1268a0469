"""Shared by all tests: `support` (this folder is on the import path) and hypothesis' profile."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "tilewright",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("tilewright")
