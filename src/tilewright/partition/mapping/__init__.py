"""Kernels on a machine: how long, how busy, and bound by what; fused against op by op."""

from tilewright.partition.mapping.result import Mapped, MappedKernel, Run
from tilewright.partition.mapping.run import map_partition

__all__ = ["Mapped", "MappedKernel", "Run", "map_partition"]
