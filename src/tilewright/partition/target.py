"""A machine as mapping sees it: rates, memories from the outermost in, and the one to fit."""

from dataclasses import dataclass
from pathlib import Path

from tilewright.cost.models import peak_macs
from tilewright.errors import TilewrightError
from tilewright.machine.dtypes import element_bytes, rate_class
from tilewright.machine.load import list_machines, load_machine
from tilewright.machine.machine import Machine
from tilewright.machine.rates import main_bytes_per_cycle
from tilewright.processor.load import is_processor, list_processors, load_processor
from tilewright.processor.schema import Processor


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """A memory: bytes that work of one unit may use, and bytes per second of all together."""

    name: str
    capacity: float
    bandwidth: float
    per_unit: bool


@dataclass(frozen=True, slots=True)
class MappingTarget:
    """A machine in the element type that the network runs in. `processor` has the details of one
    that Tilewright maps kernels on; a planned machine (an NPU) has rates and memories only."""

    name: str
    title: str
    dtype: str
    element_bytes: float
    matrix_rate: float
    vector_rate: float
    launch: float
    units: int
    memories: tuple[MemoryLevel, ...]
    capacity: MemoryLevel
    processor: Processor | None

    @property
    def main(self) -> MemoryLevel:
        """The outermost memory."""
        return self.memories[0]


def load_target(given: str | Path | Machine, dtype: str, asked: str | None = None) -> MappingTarget:
    """A processor or a planned machine by name or file, or a machine as it is, for a network of an
    element type; with the one that is `asked` for, if any, and no other."""
    if isinstance(given, Machine):
        return _of_machine(given, asked)
    name = str(given)
    if is_processor(name):
        return _of_processor(load_processor(name), dtype, asked)
    try:
        machine = load_machine(name)
    except TilewrightError as error:
        known = ", ".join((*list_processors(), *list_machines()))
        if "no machine '" in str(error):
            raise TilewrightError(
                f"no machine '{name}': give one of {known}, or a .yaml file"
            ) from None
        raise
    return _of_machine(machine, asked)


def _of_processor(processor: Processor, dtype: str, asked: str | None) -> MappingTarget:
    wanted = rate_class(asked or dtype)
    if asked and wanted not in processor.rates:
        known = ", ".join(processor.rates)
        raise TilewrightError(f"{processor.name} has no elements of type {wanted} (it has {known})")
    kept = wanted if wanted in processor.rates else processor.dtype
    rates = processor.rates[kept]
    levels = {
        name: MemoryLevel(name, level.capacity, level.bandwidth, level.per_unit)
        for name, level in processor.memories.items()
    }
    return MappingTarget(
        processor.name,
        processor.title,
        kept,
        element_bytes(kept),
        rates.matrix,
        rates.vector,
        processor.launch,
        processor.units,
        tuple(levels.values()),
        levels[processor.capacity_level],
        processor,
    )


def _of_machine(machine: Machine, asked: str | None) -> MappingTarget:
    """Rates and memories of a machine that plans are made for."""
    dtype = machine.elements(asked) if asked else machine.dtype
    macs = peak_macs(machine, dtype) or 1.0
    rate = 2 * macs * machine.clock_hz
    local = min((core.memory for core in machine.cores), key=lambda memory: memory.usable)
    main = machine.main_memory
    bandwidth = main_bytes_per_cycle(machine) * machine.clock_hz
    outer = MemoryLevel(main.name, float(main.usable), bandwidth, False)
    inner = MemoryLevel(local.name.rpartition(".")[2], float(local.usable), bandwidth, True)
    return MappingTarget(
        machine.name,
        machine.title,
        dtype,
        element_bytes(dtype),
        rate,
        rate,
        0.0,
        len(machine.cores),
        (outer, inner),
        inner,
        None,
    )
