"""Fused kernels: loop nests as data."""
