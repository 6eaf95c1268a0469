"""Tilewright: exact fused, tiled execution of neural networks."""

from importlib import import_module
from types import ModuleType

__version__ = "0.1.0"


def __getattr__(name: str) -> ModuleType:
    """`tilewright.kernel(...)` works without an import of its package."""
    if name == "kernel":
        return import_module("tilewright.kernel")
    raise AttributeError(f"module 'tilewright' has no attribute '{name}'")
