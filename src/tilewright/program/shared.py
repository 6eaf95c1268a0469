"""Buffers that several groups of a plan use, numbered for all plans of a network."""

from typing import NamedTuple

import numpy as np

from tilewright.program.context import Context, Lying
from tilewright.program.tables import Growing
from tilewright.schedule.problem import Quantities


class Owner(NamedTuple):
    """What a buffer that several groups use is for: a value in the main memory or another
    shared one (core -1), or a core's region of a resident one."""

    name: str
    core: int


class Shared:
    """Append-only, as tables are: a number stands for an owner and its bytes."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.owners: list[Owner] = []
        self._numbers: dict[tuple[Owner, int, int], int] = {}
        self._between: dict[tuple[str, int], int] = {}
        self._table = Growing(np.int64, 2)

    def between(self, lying: Lying) -> int:
        """The buffer of the main memory, or of another shared one, that a value lies in."""
        known = self._between.get((lying.root, lying.memory))
        if known is None:
            size = self.context.root_bytes(lying.root)
            known = self.number(Owner(lying.root, -1), lying.memory, size)
            self._between[lying.root, lying.memory] = known
        return known

    def number(self, owner: Owner, memory: int, size: int) -> int:
        """The buffer of an owner that takes so many bytes of a memory."""
        known = self._numbers.get((owner, memory, size))
        if known is None:
            known = self._numbers[owner, memory, size] = len(self.owners)
            self.owners.append(owner)
            self._table.append((memory, size))
        return known

    @property
    def table(self) -> Quantities:
        """Memory and size of every buffer."""
        return self._table.array
