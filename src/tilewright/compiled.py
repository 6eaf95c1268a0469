"""njit: the one place that touches numba, so that compiled functions keep their Python types."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Function = Callable[Parameters, Result]


def njit(
    *, cache: bool = True
) -> Callable[[Function[Parameters, Result]], Function[Parameters, Result]]:
    """Compile a function of arrays and numbers; the machine code is kept on disk for the next run.

    Self-recursive functions must not be compiled: their cached code crashes when it is loaded.
    """
    return cast(Any, numba).njit(cache=cache)
