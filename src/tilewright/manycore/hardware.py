"""An accelerator of several cores as data: arrays, memories with ports, wires between the cores.

Sizes are bits, bandwidths bits per cycle, energies pJ, as its files have them.
"""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Literal, NamedTuple

Operand = Literal["I1", "I2", "O"]
OPERANDS: tuple[Operand, ...] = ("I1", "I2", "O")
"""Activations, weights, outputs."""

Direction = Literal["tl", "fh", "fl", "th"]
"""What a port is for, seen from its memory: read to the level below, written from above, written
from below, read to the level above."""

READS: tuple[Direction, ...] = ("tl", "th")


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a memory: what it carries at most (and at least, per access) in a cycle."""

    name: str
    least: int
    bandwidth: int
    serves: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class CoreMemory:
    """A memory of a core. One of it stands for all units along the array dimensions it `serves`;
    along the others there is one per unit."""

    name: str
    size: int
    read_pj: float
    write_pj: float
    operands: tuple[str, ...]
    serves: frozenset[str]
    ports: tuple[Port, ...]

    def port(self, operand: str, direction: str) -> Port | None:
        """The port that moves an operand in a direction."""
        return next((p for p in self.ports if (operand, direction) in p.serves), None)

    def bandwidth(self, operands: tuple[str, ...], reads: bool) -> int:
        """The most that a wire can take from it, or give to it, in a cycle."""
        wanted = ("th", "tl") if reads else ("fh", "fl")
        found = [
            port.bandwidth
            for port in self.ports
            if any((operand, way) in port.serves for operand in operands for way in wanted)
        ]
        return max(found, default=0) or max(port.bandwidth for port in self.ports)


@dataclass(frozen=True)  # no slots: what is asked for often is kept
class CoreKind:
    """One kind of core: an array with its dimensions, memories innermost first, and the spatial
    unrolling that its file gives (None: the best legal one is found)."""

    name: str
    dimensions: tuple[tuple[str, int], ...]
    unit_pj: float
    levels: tuple[CoreMemory, ...]
    dataflow: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] | None
    systolic: frozenset[str] = frozenset()  # dimensions along which operands move unit by unit

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Of what tells cores apart, counted once: costs are kept by core and shape."""
        return hash((self.name, self.dimensions, self.levels, self.dataflow))

    @cached_property
    def _chains(self) -> dict[str, tuple[int, ...]]:
        numbered = tuple(enumerate(self.levels))
        return {o: tuple(i for i, level in numbered if o in level.operands) for o in OPERANDS}

    def chain(self, operand: str) -> tuple[int, ...]:
        """The memories an operand passes, innermost first, by their number."""
        return self._chains[operand]

    def top(self, operand: str) -> int:
        """The memory that an operand comes to from other cores, by its number. Cores for work
        without weights may have no memory for them; nothing comes there then."""
        return (self.chain(operand) or self.chain("I1"))[-1]

    @cached_property
    def tops(self) -> tuple[int, ...]:
        """All memories that other cores can reach, by their number."""
        return tuple(dict.fromkeys(self.top(operand) for operand in OPERANDS))

    @property
    def units(self) -> int:
        """Units of the array."""
        return prod(size for _, size in self.dimensions)

    def copies(self, level: CoreMemory) -> int:
        """How many of a memory there are."""
        return prod(size for dimension, size in self.dimensions if dimension not in level.serves)


class Wire(NamedTuple):
    """What connects cores: a bus carries one transfer at a time, to as many of its cores as want
    it; a link one in each direction."""

    name: str
    bus: bool
    cores: tuple[int, ...]
    bandwidth: int
    pj_per_bit: float


@dataclass(frozen=True, slots=True)
class Accelerator:
    """Cores by their number in the file, the one that stands for the memory outside, and wires.
    `notes` are remarks on keys that were left aside."""

    name: str
    cores: tuple[tuple[int, CoreKind], ...]
    outside: CoreKind
    outside_id: int
    wires: tuple[Wire, ...]
    notes: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        """Numbers of the cores that compute."""
        return tuple(number for number, _ in self.cores)

    def core(self, number: int) -> CoreKind:
        """A core by its number."""
        return dict(self.cores)[number]
