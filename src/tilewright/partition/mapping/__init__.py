"""Kernels on a machine: how long, how busy, and bound by what; fused against op by op."""

from tilewright.partition.mapping.result import Mapped, MappedKernel, MappedRun
from tilewright.partition.mapping.run import map_partition

__all__ = ["Mapped", "MappedKernel", "MappedRun", "map_partition"]
