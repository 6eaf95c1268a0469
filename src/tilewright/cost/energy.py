"""Energy beside cycles: operations, and bytes through the memory next to the engine.

Each operand is counted once per tile; what an array reads again from its own registers is part of
the figure for an operation.
"""

from dataclasses import dataclass

from tilewright.cost.base import WorkKind, Workload
from tilewright.machine.dtypes import element_bytes, nearest_class
from tilewright.machine.machine import Core, Energy


@dataclass(frozen=True, slots=True)
class EnergyFigures:
    """The machine's operation energies with those of one core's memories."""

    energy: Energy
    read_pj_per_byte: float
    write_pj_per_byte: float
    weight_pj_per_byte: float

    @staticmethod
    def of(energy: Energy, core: Core) -> "EnergyFigures":
        """Figures for the engines of a core."""
        tiles, weights = core.memory, core.holding("weights")
        return EnergyFigures(
            energy, tiles.read_pj_per_byte, tiles.write_pj_per_byte, weights.read_pj_per_byte
        )

    def compute(self, work: Workload) -> float:
        """pJ of multiply-accumulates and operands, on an array."""
        mac_pj = dict(self.energy.mac_pj)
        operations = work.macs or work.out_elements
        each = mac_pj[nearest_class(work.dtype, tuple(mac_pj))] if mac_pj else 0.0
        return operations * each + self.operands(work)

    def vector(self, work: Workload, elements: int) -> float:
        """pJ of element operations and operands, on a vector engine."""
        return elements * self.energy.vector_pj + self.operands(work)

    def operands(self, work: Workload) -> float:
        """pJ of reading inputs, weights and what is added once, and of writing the output."""
        size = element_bytes(work.dtype)
        inputs = 2 if work.kind is WorkKind.ELTWISE else 1
        read = (work.in_elements * inputs + work.added) * size * self.read_pj_per_byte
        read += work.weights * size * self.weight_pj_per_byte
        return read + work.out_elements * size * self.write_pj_per_byte
