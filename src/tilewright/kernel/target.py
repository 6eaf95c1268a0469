"""Target: what a kernel has to know about a machine with partitioned memories, in seconds.

Everything hardware comes from the machine file; what was fitted to measured kernels, and what
belongs to the runtime, from `calibration.yaml`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any

import yaml

from tilewright.kernel.problem import ELEMENTS, KernelError
from tilewright.machine.machine import Core, Engine, Machine, Memory
from tilewright.machine.parameters import ArrayParameters, VectorParameters

VECTOR_ENGINES = ("vector", "scalar", "gpsimd")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A figure of the calibration file: its value in SI units and where it comes from."""

    name: str
    value: float
    unit: str
    kind: str  # fitted, published or estimate
    source: str


@dataclass(frozen=True)
class Calibration:
    """What the machine file does not say about the time of kernels."""

    parameters: tuple[Parameter, ...]

    @cached_property
    def values(self) -> Mapping[str, float]:
        """By name."""
        return {parameter.name: parameter.value for parameter in self.parameters}

    def with_values(self, **values: float) -> "Calibration":
        """The same parameters with other values."""
        changed = [replace(p, value=values.get(p.name, p.value)) for p in self.parameters]
        return Calibration(tuple(changed))


@lru_cache(maxsize=1)
def calibration() -> Calibration:
    """The calibration that comes with Tilewright."""
    path = files("tilewright.kernel") / "calibration.yaml"
    tree: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return Calibration(
        tuple(
            Parameter(name, float(row["value"]), row["unit"], row["kind"], row["source"])
            for name, row in tree["parameters"].items()
        )
    )


@dataclass(frozen=True, slots=True)
class VectorEngine:
    """An engine that works on all partitions at once: seconds of an access, and of an element of
    each partition; copies of two-byte elements may be faster, less so with PSUM on one side."""

    access: float
    element: float
    fast_copy: float
    fast_psum_copy: float

    def seconds(self, elements: int, *, copy: bool = False, psum: bool = False) -> float:
        """One instruction on so many elements of each partition; `copy` of two-byte elements."""
        each = self.element
        if copy:
            each = self.fast_psum_copy if psum else self.fast_copy
        return self.access + elements * each


@dataclass(frozen=True)
class CoreTarget:
    """One core: its memories, the tensor engine, the vector engines and the DMA queues."""

    name: str
    partitions: int
    sbuf_bytes: int  # of one partition
    psum_banks: int
    bank_bytes: int  # of one partition
    stationary: tuple[int, int]
    moving: int
    least_moving: int
    tensor_cycle: float
    passes: Mapping[str, float]
    vectors: Mapping[str, VectorEngine]
    clocks: Mapping[str, float]  # of the engines, and of the queues (the reference clock)
    queues: int
    queue_rate: float
    dma_latency: float
    element_run: float
    calibration: Calibration

    @cached_property
    def fitted(self) -> Mapping[str, float]:
        """Values of the calibration."""
        return self.calibration.values

    def run_seconds(self, size: int) -> float:
        """A queue's time for one run: within a beat it is an element, else a packet."""
        if size <= self.fitted["beat_bytes"]:
            return max(self.element_run, size / self.queue_rate)
        return self.fitted["packet"] + size / self.queue_rate

    def dma_seconds(self, count: float, runs: int, size: int) -> float:
        """All queues' time for some DMAs that follow each other."""
        return count * (self.dma_latency + runs * self.run_seconds(size)) / self.queues

    def matmul_seconds(self, columns: int, dtype: str) -> float:
        """The issue interval of a product of the stationary tile with so many columns."""
        return max(columns, self.least_moving) * self.passes[dtype] * self.tensor_cycle

    def floor_seconds(self, macs: int, dtype: str) -> float:
        """The time below which the tensor engine cannot do so many multiply-accumulates."""
        array = self.stationary[0] * self.stationary[1]
        return macs / array * self.passes[dtype] * self.tensor_cycle


def target_of(machine: Machine, fit: Calibration | None = None) -> CoreTarget:
    """What a machine offers to kernels; a machine without PSUM offers nothing."""
    found = next(filter(None, map(_partitioned, machine.cores)), None)
    if found is None:
        raise KernelError(
            f"machine {machine.name} has no PSUM: kernels need a memory of partitions and banks "
            "beside one of partitions (trn1 and trn2 have them)"
        )
    core, sbuf, psum = found
    tensor = _tensor(machine, core)
    array = tensor.parameters
    assert isinstance(array, ArrayParameters)
    mode = next(iter(array.modes.values()))
    passes = {name: array.rates[name].conv.compute for name in ELEMENTS if name in array.rates}
    links = [link for link in machine.links if link.route(machine.main_memory.name, sbuf.name)]
    if not links:
        raise KernelError(f"machine {machine.name} has no link from its main memory to SBUF")
    route = links[0].route(machine.main_memory.name, sbuf.name)
    assert route is not None
    return CoreTarget(
        name=machine.name,
        partitions=sbuf.partitions,
        sbuf_bytes=sbuf.partition_bytes,
        psum_banks=psum.banks,
        bank_bytes=_bank_bytes(psum),
        stationary=(mode.unroll.in_channels, mode.unroll.out_channels),
        moving=(mode.block and mode.block.width) or array.least_positions,
        least_moving=array.least_positions,
        tensor_cycle=1 / tensor.clock_hz,
        passes=passes,
        vectors=_vectors(machine, core, sbuf.partitions),
        clocks={e.name.rpartition(".")[2]: e.clock_hz for e in core.engines}
        | {"tensor": tensor.clock_hz, "dma": machine.clock_hz},
        queues=len(links),
        queue_rate=route.bytes_per_cycle * machine.clock_hz,
        dma_latency=route.latency / machine.clock_hz,
        element_run=route.cycles_per_run / machine.clock_hz,
        calibration=fit or calibration(),
    )


def _partitioned(core: Core) -> tuple[Core, Memory, Memory] | None:
    """A core with its SBUF and its PSUM, where it has both."""
    psum = next((m for m in core.memories if m.banks > 1 and m.partitions > 1), None)
    sbuf = next((m for m in core.memories if m.partitions > 1 and m is not psum), None)
    return None if psum is None or sbuf is None else (core, sbuf, psum)


def _bank_bytes(psum: Memory) -> int:
    return psum.partition_bytes // psum.banks


def _tensor(machine: Machine, core: Core) -> Engine:
    found = core.engine("matrix")
    if found is None or not isinstance(found.parameters, ArrayParameters):
        raise KernelError(f"machine {machine.name} has no tensor engine: an array is needed")
    return found


def _vectors(machine: Machine, core: Core, lanes: int) -> dict[str, VectorEngine]:
    found: dict[str, VectorEngine] = {}
    for engine in core.engines:
        rates = engine.parameters
        if not isinstance(rates, VectorParameters):
            continue
        plain = rates.rates.get("default") or rates.rates.get("add")
        if plain is None:
            continue
        cycle = 1 / engine.clock_hz
        each = plain.per_element * lanes * cycle
        found[engine.name.rpartition(".")[2]] = VectorEngine(
            rates.per_call * cycle,
            each,
            each / rates.copy_16bit,
            each / rates.copy_16bit_psum,
        )
    missing = [name for name in VECTOR_ENGINES if name not in found]
    if missing:
        raise KernelError(f"machine {machine.name} has no engine '{missing[0]}' for kernels")
    return found
