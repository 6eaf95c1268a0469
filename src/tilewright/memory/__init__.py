"""Addresses for buffers with lifetimes: a solver for rectangles in time x address."""

from tilewright.memory.problem import Allocation, Buffer, Misfit, MisfitReason, Problem
from tilewright.memory.solve import allocate, lower_bound
from tilewright.memory.validate import InvalidAllocationError, check, violations

__all__ = [
    "Allocation",
    "Buffer",
    "InvalidAllocationError",
    "Misfit",
    "MisfitReason",
    "Problem",
    "allocate",
    "check",
    "lower_bound",
    "violations",
]
