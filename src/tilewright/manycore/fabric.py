"""Memories, engines and ways between memories of an accelerator, as columns for the evaluator.

Memory 0 is the one outside; each core has those that its operands come to from other cores. An
engine is a core, a bus, or one direction of a link.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.manycore.hardware import OPERANDS, Accelerator, CoreKind, CoreMemory, Wire

Columns = npt.NDArray[np.int64]
OUTSIDE = 0


class TensorMemory(NamedTuple):
    """A memory that tensors lie in: of which core (None: outside), its size and its costs in
    pJ per bit."""

    name: str
    core: int | None
    bits: int
    operands: tuple[str, ...]
    read_pj: float
    write_pj: float
    read_bits: int
    write_bits: int


class Carrier(NamedTuple):
    """What carries pieces, one at a time: a bus, one direction of a link, or a core's own path
    between two of its memories."""

    name: str
    bus: bool
    bandwidth: int
    pj_per_bit: float
    ends: tuple[tuple[int, int], ...]


class CarrierWay(NamedTuple):
    """A carrier between two memories and the bits it brings over in a cycle."""

    source: int
    target: int
    carrier: int
    bits: int
    pj_per_bit: float


@dataclass(frozen=True)
class Fabric:
    """Everything about an accelerator that times and places of pieces depend on."""

    accelerator: Accelerator
    places: tuple[TensorMemory, ...]
    carriers: tuple[Carrier, ...]
    ways: tuple[CarrierWay, ...]
    roles: tuple[tuple[int, int, int], ...]  # core -> memory of inputs, weights, outputs

    @property
    def cores(self) -> tuple[tuple[int, CoreKind], ...]:
        """The cores in order, with their numbers in the file."""
        return self.accelerator.cores

    @cached_property
    def index(self) -> dict[int, int]:
        """Number in the file -> position among the cores."""
        return {number: k for k, (number, _) in enumerate(self.cores)}

    @cached_property
    def next_hop(self) -> Columns:
        """Between memories without a way of their own: where to go first, by the fewest hops."""
        count = len(self.places)
        found = np.full((count, count), -1, np.int64)
        near: list[list[int]] = [[] for _ in range(count)]
        for way in self.ways:
            near[way.target].append(way.source)
        for target in range(count):
            reached, front = {target}, [target]
            while front:
                following: list[int] = []
                for place in front:
                    for source in near[place]:
                        if source not in reached:
                            reached.add(source)
                            found[source, target] = place
                            following.append(source)
                front = sorted(following)
        return found


def fabric_of(accelerator: Accelerator) -> Fabric:
    """The memories and carriers of an accelerator."""
    outer = accelerator.outside.levels[-1]
    places = [_place(outer.name, None, outer, OPERANDS)]
    roles: list[tuple[int, int, int]] = []
    homes: dict[int, list[int]] = {accelerator.outside_id: [OUTSIDE]}
    for position, (number, core) in enumerate(accelerator.cores):
        numbers = {top: len(places) + k for k, top in enumerate(core.tops)}
        for level in (core.levels[top] for top in core.tops):
            name = f"core{number}.{level.name}"
            places.append(_place(name, position, level, level.operands, core.copies(level)))
        first, second, third = (numbers[core.top(operand)] for operand in OPERANDS)
        roles.append((first, second, third))
        homes[number] = list(numbers.values())
    carriers: list[Carrier] = []
    for wire in accelerator.wires:
        carriers += _carriers(wire)
    for number, core in accelerator.cores:
        if len(core.tops) > 1:
            inside = min(p.bandwidth for top in core.tops for p in core.levels[top].ports)
            carriers.append(Carrier(f"core{number}.move", False, inside, 0.0, ((number, number),)))
    ways = tuple(_ways(places, carriers, homes))
    return Fabric(accelerator, tuple(places), tuple(carriers), ways, tuple(roles))


def _place(
    name: str, core: int | None, level: CoreMemory, operands: tuple[str, ...], copies: int = 1
) -> TensorMemory:
    """A memory, or so many alike together: where units have their own and none above."""
    read, write = (level.bandwidth(operands, reads=way) for way in (True, False))
    energies = level.read_pj / read, level.write_pj / write
    return TensorMemory(name, core, level.size * copies, operands, *energies, read, write)


def _carriers(wire: Wire) -> Iterator[Carrier]:
    if wire.bus:
        ends = tuple((a, b) for a in wire.cores for b in wire.cores if a != b)
        yield Carrier(wire.name, True, wire.bandwidth, wire.pj_per_bit, ends)
        return
    first, second = wire.cores
    for one, other in ((first, second), (second, first)):
        name = f"{wire.name}:{one}-{other}"
        yield Carrier(name, False, wire.bandwidth, wire.pj_per_bit, ((one, other),))


def _ways(
    places: Sequence[TensorMemory], carriers: Sequence[Carrier], homes: dict[int, list[int]]
) -> Iterator[CarrierWay]:
    """Every way, in the order of the carriers. Pieces arrive in memories of inputs and weights,
    and leave from any."""
    for number, carrier in enumerate(carriers):
        for one, other in carrier.ends:
            for source in homes[one]:
                for target in homes[other]:
                    lands = places[target].core is None or {*places[target].operands} & {"I1", "I2"}
                    if source == target or not lands:
                        continue
                    a, b = places[source], places[target]
                    bits = min(carrier.bandwidth, a.read_bits, b.write_bits)
                    energy = carrier.pj_per_bit + a.read_pj + b.write_pj
                    yield CarrierWay(source, target, number, bits, energy)
