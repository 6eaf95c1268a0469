"""Tilewright: exact fused, tiled execution of neural networks."""

__version__ = "0.1.0"
