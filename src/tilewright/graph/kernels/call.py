"""Call: one operator with its attributes and numbers, as a kernel receives it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilewright.errors import ModelError
from tilewright.graph.graph import Array, Attribute, Attributes
from tilewright.graph.types import ONNX_NUMBERS

_HALF = frozenset({"float16", "bfloat16"})


@dataclass(frozen=True, slots=True)
class Call(Attributes):
    """An operator to execute: attributes and inputs in the form of operator set 13 or later.

    An absent optional input is None; `outputs` is how many results are wanted.
    """

    kind: str
    attributes: Mapping[str, Attribute]
    inputs: tuple[Array | None, ...]
    opset: int
    outputs: int = 1

    def optional(self, index: int) -> Array | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def array(self, index: int = 0) -> Array:
        """An input that has to be there."""
        found = self.optional(index)
        if found is None:
            raise ModelError(f"{self.kind} needs its input {index}")
        return found

    def list_of(self, index: int) -> tuple[int, ...] | None:
        """An input that is a list of integers, or None where it is absent."""
        found = self.optional(index)
        return None if found is None else tuple(int(v) for v in found.reshape(-1))

    def refuse(self, what: str) -> ModelError:
        """The error for a variant that no kernel computes."""
        return ModelError(f"{self.kind} {what} cannot be executed here")


Result = Array | tuple[Array, ...]
Kernel = Callable[[Call], Result]


def dtype_of_number(number: int) -> np.dtype:
    """The element type of an attribute such as Cast's `to`."""
    name = next((name for name, known in ONNX_NUMBERS.items() if known == number), str(number))
    try:
        return np.dtype(name)
    except TypeError:  # bfloat16 and narrower are there only once some package registered them
        raise ModelError(f"numpy has no element type {name}") from None


def wide(array: Array) -> Array:
    """Half-precision numbers as float32, everything else as it is."""
    return array.astype(np.float32) if array.dtype.name in _HALF else array


def widened(kernel: Kernel) -> Kernel:
    """The kernel with half-precision inputs computed in float32 and rounded at the end."""

    def run(call: Call) -> Result:
        half = next((i.dtype for i in call.inputs if i is not None and i.dtype.name in _HALF), None)
        if half is None:
            return kernel(call)
        inputs = tuple(None if i is None else wide(i) for i in call.inputs)
        results = kernel(replace(call, inputs=inputs))
        several = results if isinstance(results, tuple) else (results,)
        return tuple(r.astype(half) if r.dtype == np.float32 else r for r in several)

    return run
