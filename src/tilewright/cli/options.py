"""Options of a command as a class: a field for each, which the command gets as one object."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from functools import wraps
from typing import Any, TypeVar

Asked = TypeVar("Asked")


def own_options(kind: type) -> list[str]:
    """The options that a class adds to those of the class it extends."""
    return list(inspect.get_annotations(kind))


def parameters_of(kind: type, without: Sequence[str] = ()) -> list[inspect.Parameter]:
    """The fields of a class as parameters, its own before those it shares with others."""
    own = own_options(kind)
    ordered = sorted(fields(kind), key=lambda field: field.name not in own)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=field.type,
        )
        for field in ordered
        if field.name not in without
    ]


def taking(kind: type[Asked]) -> Callable[[Callable[[Asked], None]], Callable[..., None]]:
    """A command that takes the options of a class."""

    def taken(command: Callable[[Asked], None]) -> Callable[..., None]:
        @wraps(command)
        def run(**arguments: Any) -> None:
            command(kind(**arguments))

        return with_parameters(run, parameters_of(kind))

    return taken


def with_parameters(
    run: Callable[..., None], given: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """A function that says which parameters it takes."""
    run.__signature__ = inspect.Signature(given)  # pyright: ignore[reportFunctionMemberAccess]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in given}
    return run
