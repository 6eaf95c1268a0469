"""Fused kernels on a Trainium-like core: loop nests as data, costed, checked and searched.

The package is what `tilewright.kernel(...)` calls: see `plan_kernel` for its parameters.
"""

import sys
from types import ModuleType
from typing import Any

from tilewright.kernel.plan import KernelPlan, plan_kernel

__all__ = ["KernelPlan", "plan_kernel"]


class _Package(ModuleType):
    """A package that can be called, so that its name is the name of the job it does."""

    def __call__(self, *arguments: Any, **options: Any) -> KernelPlan:
        return plan_kernel(*arguments, **options)


sys.modules[__name__].__class__ = _Package
