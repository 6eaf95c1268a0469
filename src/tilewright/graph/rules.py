"""Rules that apply to a place of a network or do not: what they need on the way, or they end."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


class NoMatch(Exception):  # noqa: N818 - nothing went wrong
    """The rule does not apply here."""


def need(value: Found | None) -> Found:
    """What has to be there for a rule to apply."""
    if value is None:
        raise NoMatch
    return value


def require(condition: bool) -> None:
    """What has to hold for a rule to apply."""
    if not condition:
        raise NoMatch


def optional(rule: Callable[Arguments, Found]) -> Callable[Arguments, Found | None]:
    """The rule, which then gives None where it does not apply."""

    @wraps(rule)
    def run(*args: Arguments.args, **settings: Arguments.kwargs) -> Found | None:
        try:
            return rule(*args, **settings)
        except NoMatch:
            return None

    return run
