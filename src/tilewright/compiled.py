"""njit: the one place that touches numba, so that compiled functions keep their Python types.

What is compiled for the first time on a computer is told to the log of this module: a person should
know what the first minute is spent on.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core import event, types

from tilewright.pauses import pause

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Function = Callable[Parameters, Result]
EVERY = 10  # compiled functions from one line of the log to the next
log = logging.getLogger(__name__)


class _Compiling(event.Listener):
    """Counts what is compiled; functions that are found on disk are none."""

    def __init__(self) -> None:
        self.count = 0

    def on_start(self, event: Any) -> None:
        """Tell of the first function, then now and then; no machine code runs here, so that a
        person need not wait for all of them."""
        pause()
        if self.count == 0:
            log.info("compiling the hot loops this needs, each once on a computer: up to a minute")
        elif self.count % EVERY == 0:
            log.info("compiling: %d functions so far", self.count)
        self.count += 1

    def on_end(self, event: Any) -> None:
        """Nothing to tell."""


cast(Any, event).register("numba:compile", _Compiling())


class _CallTypes:
    """Numba asks every overload of `getitem` anew for the type of every single `a[i]`. Within
    functions of this project the same question gets the same answer, which takes a sixth off the
    time to compile; functions of others, who may want other flags, are not touched."""

    def __init__(self) -> None:
        self.compiling = 0
        self._known: dict[Any, Any] = {}
        function = cast(Any, types).Function
        self._found = function.get_call_type
        answers = self

        def answered(
            asked: Any, context: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
        ) -> Any:
            return answers.of(asked, context, args, kwargs)

        function.get_call_type = answered

    def of(self, asked: Any, context: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The signature of a call."""
        if not self.compiling:
            return self._found(asked, context, args, kwargs)
        key = (asked, tuple(args), tuple(kwargs.items()))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._found(asked, context, args, kwargs)
        return known

    def compiled(self, dispatcher: Any) -> None:
        """Let a function be compiled with what is known."""
        compile_ = dispatcher.compile

        def remembering(signature: Any) -> Any:
            self.compiling += 1
            try:
                return compile_(signature)
            finally:
                self.compiling -= 1

        dispatcher.compile = remembering


_types = _CallTypes()


def njit(
    *, cache: bool = True, inner: bool = False
) -> Callable[[Function[Parameters, Result]], Function[Parameters, Result]]:
    """Compile a function of arrays and numbers; the machine code is kept on disk for the next run.
    `inner` ones are called by compiled code alone, which saves the time to compile a way in.

    Self-recursive functions must not be compiled: their cached code crashes when it is loaded.
    """

    def lazily(function: Function[Parameters, Result]) -> Function[Parameters, Result]:
        options = {"cache": cache, "no_cfunc_wrapper": True, "no_cpython_wrapper": inner}
        dispatcher = cast(Any, numba).njit(**options)(function)
        found = dispatcher.get_call_template

        # A constant argument is a type of its own: without this, a function that is called with 0
        # here and with 1 there would be compiled twice, and so would all that it hands them to.
        def template(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
            plain = cast(Any, types).unliteral
            return found(
                tuple(plain(arg) for arg in args), {k: plain(arg) for k, arg in kwargs.items()}
            )

        dispatcher.get_call_template = template
        _types.compiled(dispatcher)
        return dispatcher

    return lazily
