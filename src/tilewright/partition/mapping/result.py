"""What mapping gives: times with what they are made of, per kernel and in total."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tilewright.partition.target import MappingTarget


class MappedJob(NamedTuple):
    """What is mapped: operators that run as one. Bytes are those of the machine's element type."""

    nodes: tuple[int, ...]
    external: float
    reads: float
    flops_matmul: int
    flops_total: int
    launches: int
    elements: int


@dataclass(frozen=True, slots=True)
class MappedRun:
    """One kernel on the machine. Computing and each memory take their time side by side; the
    launch comes on top. `figures` are the machine's own: waves, occupancy, tiles busy."""

    compute: float
    memory: Mapping[str, float]
    overhead: float
    launches: int
    external: float = 0.0  # bytes in the machine's element type
    figures: Mapping[str, float | int | bool | str] = field(
        default_factory=dict[str, float | int | bool | str]
    )

    @property
    def seconds(self) -> float:
        """Time of the kernel."""
        return max([self.compute, *self.memory.values()]) + self.overhead

    @property
    def bound(self) -> str:
        """What takes the most: computing, a memory, or the launch."""
        times = {"compute": self.compute, **self.memory, "launch": self.overhead}
        if not any(times.values()):
            return "nothing"
        return max(times, key=lambda name: times[name])

    @property
    def roof(self) -> str:
        """The roof it is under, launch aside: computing, or a memory."""
        times = {"compute": self.compute, **self.memory}
        return max(times, key=lambda name: times[name]) if any(times.values()) else "nothing"

    def as_json(self) -> dict[str, Any]:
        """For a program to read."""
        return {
            "seconds": self.seconds,
            "bound": self.bound,
            "roof": self.roof,
            "compute_seconds": self.compute,
            "memory_seconds": dict(self.memory),
            "overhead_seconds": self.overhead,
            "launches": self.launches,
            "external_bytes": self.external,
            **self.figures,
        }


@dataclass(frozen=True, slots=True)
class MappedKernel:
    """A kernel, and its operators one by one."""

    fused: MappedRun
    unfused_seconds: float
    unfused_launches: int

    @property
    def speedup(self) -> float:
        """How much faster the kernel is than its operators one by one."""
        return self.unfused_seconds / self.fused.seconds if self.fused.seconds else 1.0

    def as_json(self) -> dict[str, Any]:
        """For a program to read."""
        return {
            **self.fused.as_json(),
            "unfused_seconds": self.unfused_seconds,
            "unfused_launches": self.unfused_launches,
            "speedup": self.speedup,
        }


@dataclass(frozen=True, slots=True)
class Mapped:
    """A partition on a machine."""

    target: MappingTarget
    kernels: tuple[MappedKernel, ...]
    totals: Mapping[str, Any]

    @property
    def machine(self) -> str:
        """The machine's name."""
        return self.target.name
