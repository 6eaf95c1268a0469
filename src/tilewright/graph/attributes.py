"""Attributes of operators, read as what they should be."""

from collections.abc import Mapping
from typing import cast

from tilewright.graph.graph import Attribute


class Attributes:
    """For whatever has an operator's attributes; each gives the default for one of another type."""

    __slots__ = ()
    attributes: Mapping[str, Attribute]

    def int_of(self, name: str, default: int) -> int:
        """An integer attribute."""
        value = self.attributes.get(name, default)
        return int(value) if isinstance(value, int | float) else default

    def float_of(self, name: str, default: float) -> float:
        """A float attribute."""
        value = self.attributes.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def str_of(self, name: str, default: str) -> str:
        """A text attribute."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, str) else default

    def ints_of(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, or None where the attribute is absent."""
        value = self.attributes.get(name)
        return tuple(int(cast(int, v)) for v in value) if isinstance(value, tuple) else None
