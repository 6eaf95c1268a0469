"""Fused kernels on a Trainium-like core: loop nests as data, costed, checked and searched.

The package is what `tilewright.kernel(...)` calls: see `tilewright.api.kernel` for its parameters.
"""

from tilewright.kernel.plan import KernelPlan, plan_kernel

__all__ = ["KernelPlan", "plan_kernel"]
