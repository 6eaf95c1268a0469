"""What capturing a network gives: calls of ATen operators on named values, without torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.graph.graph import Constant
from tilewright.graph.types import TensorType


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor among the arguments of a call, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class AtenCall:
    """One call of an ATen operator.

    `target` is its name without the overload (`conv2d`), in-place forms named as plain ones.
    `arguments` are all of its arguments by name, defaults included; tensors are Refs. `results`
    are the tensors it gives, None for one that is absent.
    """

    target: str
    arguments: Mapping[str, Any]
    results: tuple[str | None, ...]
    operator: str

    @property
    def source(self) -> str:
        """The name of its first argument, a tensor."""
        return next(iter(self.arguments.values())).name


@dataclass(slots=True)
class Captured:
    """A network as calls in execution order. `source` says how it was captured."""

    name: str
    source: str
    inputs: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    outputs: list[str] = field(default_factory=list[str])
    constants: dict[str, Constant] = field(default_factory=dict[str, Constant])
    types: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    calls: list[AtenCall] = field(default_factory=list[AtenCall])
